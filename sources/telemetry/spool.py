"""The agent's spool: samples and records appended to segments that survive crashes, full disks and power cuts.

Belongs here: the life of segment files. Does not belong here: their bytes (`spool_format.py`), reading them
(`segment.py`), talking to GPUs. Standard library only, because it runs on every node.

What holds: a `samples` or `record` that returned True survives a crash of the process at once, and a power cut
after at most `fsync_ms` plus the interval between two calls. A segment is written as `*.open`,
sealed with a whole-file checksum and renamed to `*.seg`; readers touch only `*.seg`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import struct
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from sources.telemetry.spool_files import claim, drop_oldest, file_prefix, move_into_place, recover
from sources.telemetry.spool_format import (
    CLEAN,
    CODES,
    GPU_COLUMNS,
    HEADER,
    MAGIC,
    RECORD,
    ROW_PREFIX,
    SAMPLES,
    VERSION,
    Column,
    Seal,
    Slot,
    fitting,
    frame,
    header_payload,
    row_format,
)

RECORD_KINDS: Final = frozenset({
    "ecc_counter", "gpu_event", "gpu_process", "inventory", "link_counter", "node_state", "null_reason",
    "power_reading", "gap", "set_aside",
})  # fmt: skip
MIB: Final = 1 << 20
KEPT_RECORDS: Final = 10_000  # records that a full disk refused wait in memory, the newest of them
_LOG: Final = logging.getLogger(__name__)
Values = Mapping[str, int | float | None]


class _Shape(NamedTuple):
    """How the last row of a GPU looked: which columns were null, and a layout that skips them."""

    keys: int
    mask: int
    nulls: tuple[str, ...]
    pick: Callable[[Values], tuple[Any, ...]]
    layout: struct.Struct


class SpoolWriter:
    """Appends to one stream of segments in `directory`; one writer per collector and node.

    segment_bytes, segment_seconds: a segment is sealed when either is reached (checked at each call) ·
    max_bytes: bound on the sealed segments this writer leaves unread; the oldest are dropped and each drop is
    itself recorded as a `gap` · clock: monotonic seconds · notify: takes one line when something needs a person.

    Raises `ValueError` for columns that do not fit, `OSError` when the directory cannot be made.
    A disk that is full, or fails, raises nothing: calls return False until it takes bytes again.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        cluster: str,
        node: str,
        source: str,
        is_synthetic: bool,
        columns: Sequence[Column] = GPU_COLUMNS,
        slots: Iterable[Slot] = (),
        segment_bytes: int = 64 * MIB,
        segment_seconds: float = 300.0,
        fsync_ms: float = 1000.0,
        max_bytes: int = 2048 * MIB,
        clock: Callable[[], float] = time.monotonic,
        notify: Callable[[str], None] = _LOG.warning,
        stream_id: str | None = None,
        boot_id: str | None = None,
    ) -> None:
        if segment_bytes * 2 > max_bytes:
            raise ValueError(f"max_bytes {max_bytes} must hold two segments of {segment_bytes} bytes")
        self._format = struct.Struct(row_format(columns))
        self._layouts: dict[int, struct.Struct] = {}  # of a whole tick, by how many GPUs it has
        self._columns = tuple(Column(*c) for c in columns)
        self._names = tuple(c.name for c in self._columns)
        self._identity = {
            "version": VERSION,
            "cluster": cluster,
            "node": node,
            "source": source,
            "is_synthetic": is_synthetic,
            "stream_id": stream_id or uuid.uuid4().hex,
            "boot_id": boot_id,
            "columns": [list(c) for c in self._columns],
        }
        self._prefix = file_prefix(cluster, node, source)
        self._directory = Path(directory)
        self._limits = (segment_bytes, segment_seconds, fsync_ms / 1000.0, max_bytes)
        self._clock, self._notify = clock, notify
        self._slots: dict[str, Slot] = {}
        self._number: dict[str, int] = {}
        self._shapes: list[_Shape | None] = []
        for slot in slots:
            self._admit(slot)
        self._pending: deque[tuple[str, dict[str, Any], int]] = deque(maxlen=KEPT_RECORDS)
        self._fd = -1
        self._path = self._directory
        self._count = 0
        self._length = self._crc = self._sequence = self._rows = 0
        self._first_us = self._last_us = 0
        self._opened = self._synced = 0.0
        self._unsynced = False
        self._torn = self._stale = False
        self._refused: list[int] | None = None  # first time, last time, rows refused since the disk is full
        self._header = b""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._directory.glob("*.open")):
            recover(path, notify)

    def slot(
        self,
        gpu_uuid: str,
        *,
        gpu_index: int | None = None,
        parent_gpu_uuid: str | None = None,
        accelerator_id: str | None = None,
    ) -> None:
        """Say what a GPU is. A new GPU, or one that changed, begins a new segment."""
        slot = Slot(gpu_uuid, gpu_index, parent_gpu_uuid, accelerator_id)
        if self._slots.get(gpu_uuid) != slot:
            self._admit(slot)
            self._stale = True

    def samples(self, sampled_at_us: int, rows: Sequence[tuple[str, Values]]) -> bool:
        """Append one tick: `(gpu_uuid, column -> value or None)` for each GPU. True once it is in the segment.

        A column missing from a row is null. Raises `KeyError` for a column the writer was not made for.
        """
        for gpu_uuid, _ in rows:
            if gpu_uuid not in self._number:
                self.slot(gpu_uuid)
        size = self._format.size
        payload = bytearray(size * len(rows))
        at = 0
        for gpu_uuid, values in rows:
            self._pack(payload, at, sampled_at_us, self._number[gpu_uuid], values)
            at += size
        return self._append(SAMPLES, self._by_column(payload, len(rows)), sampled_at_us, len(rows))

    def record(self, kind: str, row: Mapping[str, Any], at_us: int | None = None) -> bool:
        """Append one record; its instants (`*_at`, `valid_from`, `valid_to`) are integers in µs.

        One that a full disk refuses is kept in memory and appended later. Raises `ValueError` for an unknown kind.
        """
        if kind not in RECORD_KINDS:
            raise ValueError(f"record kind {kind!r} is not one of {', '.join(sorted(RECORD_KINDS))}")
        self._pending.append((kind, dict(row), at_us or self._last_us or time.time_ns() // 1000))
        return self._write_pending()

    def seal(self) -> bool:
        """Finish the open segment, so that readers see it. False if the disk refused."""
        if self._fd < 0:
            return True
        if not self._rows and self._sequence <= 1:
            self._discard()
            return True
        before = self._length, self._crc
        ending = frame(HEADER, self._sequence, self._header)
        crc = zlib.crc32(ending, self._crc)
        length = self._length + len(ending)
        closing = Seal(length, self._sequence + 1, self._rows, self._first_us, self._last_us, CLEAN)
        try:
            self._write(ending + closing.pack(crc))
            os.fsync(self._fd)
            move_into_place(self._path)
        except OSError as error:
            self._length, self._crc = before
            self._torn = True
            self._refuse(error, self._last_us, 0)
            return False
        os.close(self._fd)
        self._fd = -1
        return True

    def close(self) -> None:
        """Seal what is open. After a refusal the file stays `*.open` and the next writer recovers it."""
        if self._pending and not self._write_pending():
            self._notify(f"spool {self._directory}: {len(self._pending)} records could not be written")
        if not self.seal():
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _admit(self, slot: Slot) -> None:
        if slot.gpu_uuid not in self._number:
            self._number[slot.gpu_uuid] = len(self._number)
            self._shapes.append(None)
        self._slots[slot.gpu_uuid] = slot

    def _pack(self, payload: bytearray, at: int, time_us: int, slot: int, values: Values) -> None:
        """One row into `payload`: at once if this GPU's nulls are those of its last row, else with care."""
        shape = self._shapes[slot]
        if shape and len(values) == shape.keys:
            for name in shape.nulls:
                if values.get(name) is not None:
                    break
            else:
                try:
                    shape.layout.pack_into(payload, at, time_us, slot, shape.mask, *shape.pick(values))
                except (KeyError, struct.error):
                    pass  # a null, a float or a number too large where there was none: the careful way sorts it out
                else:
                    return
        self._pack_carefully(payload, at, time_us, slot, values)

    def _by_column(self, payload: bytearray, count: int) -> bytes | bytearray:
        """The packed rows of a tick column after column."""
        if count < 2:  # noqa: PLR2004 - one row is its columns already
            return payload
        layout = self._layouts.get(count)
        if layout is None:
            layout = self._layouts[count] = struct.Struct(row_format(self._columns, count))
        return layout.pack(*chain.from_iterable(zip(*self._format.iter_unpack(payload), strict=True)))

    def _pack_carefully(self, payload: bytearray, at: int, time_us: int, slot: int, values: Values) -> None:
        unknown = values.keys() - set(self._names)
        if unknown:
            raise KeyError(f"columns {sorted(unknown)} are not among those this spool was made for")
        picked: list[int | float] = []
        mask = 0
        for i, column in enumerate(self._columns):
            value = values.get(column.name)
            stored = None if value is None else fitting(value, column)
            if value is not None and stored is None:
                self._explain(time_us, slot, column.name, value)
            mask |= (stored is None) << i
            picked.append(0 if stored is None else stored)
        self._format.pack_into(payload, at, time_us, slot, mask, *picked)
        self._shapes[slot] = self._shape(values)

    def _shape(self, values: Values) -> _Shape | None:
        """Layout for rows with the same nulls as this one; None where too few columns make it worthless."""
        present = [c.name for c in self._columns if values.get(c.name) is not None]
        if len(present) < 2:  # noqa: PLR2004 - itemgetter returns a bare value for one name
            return None
        fields = [CODES[c.type] if c.name in present else f"{c.type[1]}x" for c in self._columns]
        mask = sum(1 << i for i, c in enumerate(self._columns) if c.name not in present)
        nulls = tuple(name for name in values if name not in present)
        return _Shape(len(values), mask, nulls, itemgetter(*present), struct.Struct(f"<{ROW_PREFIX}{''.join(fields)}"))

    def _explain(self, time_us: int, slot: int, column: str, value: float) -> None:
        device = next(uuid for uuid, number in self._number.items() if number == slot)
        row = {"from_at": time_us, "to_at": time_us, "device": device, "table_name": "gpu_samples"}
        row |= {"column_name": column, "reason": "out_of_range", "raw_value": repr(value)}
        self._pending.append(("null_reason", row, time_us))

    def _write_pending(self) -> bool:
        while self._pending:
            kind, row, at_us = self._pending[0]
            payload = json.dumps({"kind": kind, "row": row}, separators=(",", ":"), ensure_ascii=False).encode()
            if not self._put(RECORD, payload, at_us, 0):
                return False
            self._pending.popleft()
        return True

    def _append(self, kind: int, payload: bytes | bytearray, at_us: int, rows: int) -> bool:
        if self._refused or self._pending:
            self._write_pending()
        return self._put(kind, payload, at_us, rows)

    def _put(self, kind: int, payload: bytes | bytearray, at_us: int, rows: int) -> bool:
        """Append one frame, opening or rotating the segment first; False if the disk refused."""
        try:
            self._make_room(len(payload), at_us)
            self._add(kind, payload, rows)
            if self._refused:
                self._resume(at_us)
        except OSError as error:
            self._refuse(error, at_us, rows)
            return False
        if rows:
            self._first_us = self._first_us or at_us
            self._last_us = at_us
            self._rows += rows
        return True

    def _make_room(self, size: int, at_us: int) -> None:
        segment_bytes, segment_seconds, fsync_s, _ = self._limits
        now = self._clock()
        full = self._length + size > segment_bytes or now - self._opened >= segment_seconds
        # Refused by a full disk, a segment stays open and grows; but one without a new GPU's name must not.
        if self._fd >= 0 and (full or self._stale) and not self.seal() and self._stale:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._fd < 0:
            self._open(at_us, now)
        elif self._unsynced and now - self._synced >= fsync_s:
            os.fdatasync(self._fd)
            self._synced, self._unsynced = now, False

    def _open(self, at_us: int, now: float) -> None:
        gaps = drop_oldest(self._directory, self._prefix, self._limits[3] - self._limits[0], self._notify)
        self._pending.extend(("gap", gap, at_us) for gap in gaps)
        number = self._count
        stream = str(self._identity["stream_id"])
        header = self._identity | {
            "segment_id": f"{stream}-{number:08d}",
            "segment_number": number,
            "created_at_us": at_us,
            "slots": [list(s) for s in self._slots.values()],
        }
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(at_us // 1_000_000))
        path = self._directory / f"{self._prefix}~{stamp}.{at_us % 1_000_000:06d}Z~{stream[:12]}~{number:08d}.open"
        self._fd, self._path = claim(path), path
        self._count += 1
        self._length = self._crc = self._sequence = self._rows = self._first_us = 0
        self._opened = self._synced = now
        self._torn = self._stale = False
        self._header = header_payload(header)
        try:
            self._write(MAGIC)
            self._add(HEADER, self._header, 0)
        except OSError:
            self._discard()
            raise

    def _discard(self) -> None:
        os.close(self._fd)
        self._fd = -1
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _add(self, kind: int, payload: bytes | bytearray, rows: int) -> None:
        self._write(frame(kind, self._sequence, payload, rows))
        self._sequence += 1

    def _write(self, data: bytes) -> None:
        """All of `data`, or an `OSError` and a segment that ends where it did before."""
        if self._torn:
            self._cut()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):
                self._cut()
            raise
        self._crc = zlib.crc32(data, self._crc)
        self._length += len(data)
        self._unsynced = True

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._length)
        os.lseek(self._fd, self._length, os.SEEK_SET)
        self._torn = False

    def _refuse(self, error: OSError, at_us: int, rows: int) -> None:
        if self._refused is None:
            self._refused = [at_us, at_us, 0]
            self._notify(
                f"spool {self._directory}: {error.strerror or error}; what was written stays, new samples are "
                "refused until there is room: free disk space"
            )
        if not self._refused[2]:
            self._refused[0] = at_us
        self._refused[1] = at_us
        self._refused[2] += rows

    def _resume(self, at_us: int) -> None:
        from_us, to_us, rows = self._refused or [at_us, at_us, 0]
        self._refused = None
        if rows:
            gap = {"reason": "disk_full", "from_at": from_us, "to_at": to_us, "rows": rows}
            self._pending.append(("gap", gap, at_us))
        self._notify(f"spool {self._directory}: writing again; {rows} samples were refused")
