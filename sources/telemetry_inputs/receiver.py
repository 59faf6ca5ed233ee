"""Keeps what a Prometheus writes to us: first durably as it came, then as spool segments.

Belongs here: the journal and the step from journal to segments. Does not belong here: HTTP
(`pipelines/commands/receive.py`), the protocol's bytes (`remote_write.py`), landing.

A Prometheus spreads the metrics of one scrape over several requests, and one row holds them all. So a request goes
into a journal and is flushed before it is answered; an instant becomes rows once nothing of it has arrived for
`settle_s` seconds; what is not settled yet is carried into the next journal. A crash between two steps repeats the
step: rows that landed already are recognised by their key. What comes later than `settle_s` makes segments of its
own, and ingest fills it into the rows that landed (`assets/telemetry_parts.py`).
"""

from __future__ import annotations

import datetime as dt
import os
import struct
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from sources.base import ParseError
from sources.telemetry.spool_format import GPU_COLUMNS, Column, Slot
from sources.telemetry_inputs.context import UNKNOWN, Where
from sources.telemetry_inputs.metrics import column_of, to_frames
from sources.telemetry_inputs.node_streams import NodeStreams
from sources.telemetry_inputs.remote_write import Sample, samples_of, series_frame, unpacked
from sources.telemetry_inputs.set_aside import (
    BROKEN,
    KIND,
    Aside,
    Asides,
    is_possible,
    left_out,
    lines_of,
    readable,
    wrong_times,
)

COLLECTOR: Final = "prometheus"
JOURNALS: Final = "remote-write"
RECORDS: Final = {
    "telemetry.gpu_events": "gpu_event",
    "telemetry.inventory": "inventory",
    "telemetry.link_counters": "link_counter",
    "telemetry.null_reasons": "null_reason",
    "telemetry.power_readings": "power_reading",
}
_HEAD: Final = struct.Struct("<IIQ")  # length, CRC-32 of time and body, arrival in µs
_STAMP: Final = struct.Struct("<Q")
_IDENTITY: Final = ("sampled_at", "cluster", "node", "gpu_uuid", "gpu_index", "parent_gpu_uuid", "accelerator_id")
_NONE_KNOWN: Final = "a whole step held no metric of a GPU; `metrics.csv` names those that are known"
_UNITS: Final = {column.name: column.unit for column in GPU_COLUMNS}


@dataclass(slots=True)
class Settled:
    """What a step made: samples settled and carried on, segments, samples of unknown metrics, samples without a time."""

    samples: int = 0
    carried: int = 0
    segments: int = 0
    unknown: int = 0
    aside: int = 0


@dataclass(slots=True)
class _Ready:
    """Settled samples, which of them do not come again, and samples whose time is none."""

    samples: list[Sample]
    is_final: list[bool]
    impossible: list[Sample]


class Receiver:
    """Takes requests from several threads. `clock` gives seconds since 1970; `notify` takes one line for a person."""

    def __init__(
        self,
        inbox: Path,
        *,
        cluster: str = UNKNOWN,
        settle_s: float = 60.0,
        clock: Callable[[], float] = time.time,
        notify: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.inbox, self._folder = inbox, inbox / JOURNALS
        self._folder.mkdir(parents=True, exist_ok=True)
        self._cluster, self._settle_us = cluster, int(settle_s * 1e6)
        self._clock, self._notify = clock, notify
        self._lock, self._settling = threading.Lock(), threading.Lock()
        self._fd = -1
        self._last_xids: dict[str, int] = {}
        self._told: set[str] = set()
        self._asides = Asides()
        self._streams = NodeStreams(inbox, source=COLLECTOR, notify=notify)

    def accept(self, body: bytes) -> int:
        """Keep one request; how many samples it holds. It is on the disk when this returns.

        Raises `ParseError` for a body that is no request (nothing is kept then), `OSError` when the disk refuses.
        """
        count = sum(1 for _ in samples_of(unpacked(body)))
        arrived = int(self._clock() * 1e6)
        record = _record(arrived, body)
        with self._lock:
            fd = self._open()
            end = os.lseek(fd, 0, os.SEEK_END)
            try:
                view = memoryview(record)
                while view:
                    view = view[os.write(fd, view) :]
                os.fdatasync(fd)
            except OSError:
                os.ftruncate(fd, end)
                raise
        return count

    def settle(self, *, everything: bool = False) -> Settled:
        """Turn what has settled into sealed segments of the inbox; the rest waits in a new journal."""
        with self._settling:
            with self._lock:
                self._close()
                journals = sorted(self._folder.glob("*.journal"))
            if not journals and not self._asides:
                return Settled()
            edge = int(self._clock() * 1e6) - self._settle_us
            ready, rest, done = self._divided(journals, edge, everything=everything)
            self._write(ready, done, everything=everything)
            if rest:
                self._carry(rest)
            for journal in journals:
                journal.unlink()
            return done

    def _divided(
        self, journals: Sequence[Path], edge: int, *, everything: bool
    ) -> tuple[_Ready, list[tuple[int, bytes]], Settled]:
        """Samples of instants of which nothing came after `edge`, and the requests that hold any other."""
        requests = [request for journal in journals for request in self._read(journal)]
        newest: dict[int, int] = defaultdict(int)
        told = [(arrived, body, list(samples_of(unpacked(body)))) for arrived, body in requests]
        for arrived, _, samples in told:
            for _, at, _ in samples:
                newest[at] = max(newest[at], arrived)
        # A time that is none has no row to wait for.
        late = {at for at, arrived in newest.items() if arrived > edge and is_possible(at)}
        waiting = set() if everything else late
        ready, rest, carried = _Ready([], [], []), [], 0
        for arrived, body, samples in told:
            waits = sum(at in waiting for _, at, _ in samples)
            carried += waits
            if waits:  # carried whole: its settled samples come again and are known by key then
                rest.append((arrived, body))
            else:
                ready.impossible += [sample for sample in samples if not is_possible(sample[1])]
            good = [sample for sample in samples if sample[1] not in waiting and is_possible(sample[1])]
            ready.samples += good
            ready.is_final += [not waits] * len(good)
        return ready, rest, Settled(len(ready.samples), carried)

    def _read(self, journal: Path) -> Iterator[tuple[int, bytes]]:
        """Whole requests of a journal; a torn end was never answered, so its sender sends it again."""
        body = journal.read_bytes()
        at = 0
        while at + _HEAD.size <= len(body):
            length, crc, arrived = _HEAD.unpack_from(body, at)
            request = body[at + _HEAD.size : at + _HEAD.size + length]
            if len(request) < length or zlib.crc32(request, zlib.crc32(_STAMP.pack(arrived))) != crc:
                self._notify(f"{journal.name}: torn at byte {at}; what follows was never acknowledged")
                return
            yield arrived, request
            at += _HEAD.size + length

    def _write(self, ready: _Ready, done: Settled, *, everything: bool) -> None:
        frames, found = self._frames(ready, done)
        held = self._asides.with_found(found)
        told = self._asides.due(held, self._clock(), everything=everything)
        places = {place for f in frames.values() for place in f.select("cluster", _node(f)).unique().rows()}
        for cluster, node in sorted(places | {(one.cluster, one.node) for one in told}):
            here = {n: f.filter(pl.col("cluster") == cluster, _node(f) == node) for n, f in frames.items()}
            aside = [one for one in told if (one.cluster, one.node) == (cluster, node)]
            self._write_node(cluster, node, {n: f for n, f in here.items() if f.height}, aside)
            done.segments += 1
        self._asides.keep(held, told, self._clock())
        for line in lines_of(told):
            self._notify(line)

    def _frames(self, ready: _Ready, done: Settled) -> tuple[dict[str, pl.DataFrame], list[Aside]]:
        """Rows of the settled samples, and what makes no row."""
        newest = max((at for _, at, _ in ready.samples), default=0)
        where = Where(self._cluster, UNKNOWN, dt.datetime.fromtimestamp(newest / 1000, dt.UTC), {})
        found = wrong_times(ready.impossible, where)
        done.aside = len(ready.impossible)
        if not ready.samples:
            return {}, found
        series = series_frame(ready.samples)
        found += left_out(series, pl.Series(ready.is_final, dtype=pl.Boolean), where)
        try:
            parsed = to_frames(series, where, "the request", [])
        except ParseError:  # not one metric of a GPU
            done.unknown += len(ready.samples)
            self._say_once({_NONE_KNOWN})
            return {}, found
        except BROKEN:
            series, broken = readable(series, where)
            found += broken
            parsed = to_frames(series, where, "the request", [])
        frames = {name: frame for name, frame in parsed.frames.items() if name in RECORDS or "gpu_samples" in name}
        if "telemetry.gpu_events" in frames:
            frames["telemetry.gpu_events"] = self._new_xids(frames["telemetry.gpu_events"])
        return frames, found

    def _write_node(self, cluster: str, node: str, frames: dict[str, pl.DataFrame], aside: Sequence[Aside]) -> None:
        rows = frames.pop("telemetry.gpu_samples", pl.DataFrame())
        columns = tuple(
            Column(n, "f8" if column_of(n) == pl.Float64() else "i8", _UNITS[n]) for n in rows.columns if n in _UNITS
        )
        now_us = time.time_ns() // 1000
        with self._streams.writing(cluster, node, columns or GPU_COLUMNS, _slots(rows)) as spool:
            for name, frame in frames.items():
                for row in _plain(frame):
                    if not spool.record(RECORDS[name], row, now_us):
                        raise OSError(28, "the disk refused a record", str(self.inbox))
            for one in aside:
                if not spool.record(KIND, one.record(), now_us):
                    raise OSError(28, "the disk refused a record", str(self.inbox))
            names = [column.name for column in columns]
            ticks = rows.sort("sampled_at").partition_by("sampled_at", maintain_order=True) if rows.height else []
            for tick in ticks:
                at_us = int(tick.select(pl.col("sampled_at").dt.epoch("us")).item(0, 0))
                told = zip(tick["gpu_uuid"], tick.select(names).to_dicts(), strict=True)
                if not spool.samples(at_us, list(told)):
                    raise OSError(28, "the disk refused samples", str(self.inbox))

    def _new_xids(self, events: pl.DataFrame) -> pl.DataFrame:
        """The gauge keeps the last code: the first one seen is old news, unless another stood there before."""
        kinds, keep = [], []
        for device, kind, code in events.select("device", "kind", "code").iter_rows():
            before = self._last_xids.get(device)
            keep.append(kind != "xid_last" or before != code)
            kinds.append("xid" if kind == "xid_last" and before is not None and code > 0 else kind)
            self._last_xids[device] = code
        return events.with_columns(pl.Series("kind", kinds, dtype=pl.String)).filter(pl.Series(keep, dtype=pl.Boolean))

    def _say_once(self, reasons: set[str]) -> None:
        for reason in sorted(reasons - self._told):
            self._notify(f"some series are left out: {reason}")
        self._told |= reasons

    def _carry(self, requests: Sequence[tuple[int, bytes]]) -> None:
        part = self._folder / "carried.part"
        with part.open("wb") as file:
            for arrived, body in requests:
                file.write(_record(arrived, body))
            file.flush()
            os.fsync(file.fileno())
        part.rename(self._folder / f"{time.time_ns():020d}-carried.journal")
        _sync(self._folder)

    def _open(self) -> int:
        if self._fd < 0:
            path = self._folder / f"{time.time_ns():020d}.journal"
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            _sync(self._folder)
        return self._fd

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _record(arrived: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body), zlib.crc32(body, zlib.crc32(_STAMP.pack(arrived))), arrived) + body


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _node(frame: pl.DataFrame) -> pl.Expr:
    known = pl.col("node") if "node" in frame.columns else pl.lit(None, pl.String)
    return known.fill_null(UNKNOWN).alias("node")


def _slots(rows: pl.DataFrame) -> list[Slot]:
    if rows.is_empty():
        return []
    names = [n for n in ("gpu_uuid", "gpu_index", "parent_gpu_uuid", "accelerator_id") if n in rows.columns]
    return [Slot(**row) for row in rows.select(names).unique("gpu_uuid", maintain_order=True).to_dicts()]


def _plain(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as the spool takes them: instants in µs, what the header says left out."""
    times = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    left_out = ("cluster", "node", "source", "is_synthetic", "date")
    plain = frame.with_columns(pl.col(name).dt.epoch("us") for name in times)
    yield from plain.drop(left_out, strict=False).iter_rows(named=True)
