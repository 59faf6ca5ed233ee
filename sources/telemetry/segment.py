"""Reads spool segments back: bytes to raw frames, fast when the seal holds, frame by frame when it does not.

Belongs here: decoding. Does not belong here: units, sentinels and table layouts (`assets/telemetry_clean.py`),
writing (`spool.py`). The node agent does not import this module.
"""

from __future__ import annotations

import mmap
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import numpy as np
import polars as pl
from zlib_ng import zlib_ng

from sources.telemetry.rooms import Rooms
from sources.telemetry.segment_records import Told, record_frames
from sources.telemetry.segment_rows import (
    FormatError,
    Header,
    Rows,
    block_of,
    header_of,
    later_format,
    row_type_of,
    samples_frame,
    samples_in,
)
from sources.telemetry.spool_format import (
    CLEAN,
    FRAME_BYTES,
    HEAD,
    HEADER,
    KINDS,
    MAGIC,
    MAX_PAYLOAD,
    RECORD,
    SAMPLES,
    SEAL,
    SEAL_MAGIC,
    Body,
    Column,
    Damage,
    Frame,
    Seal,
    is_later_mark,
    read_seal,
    walk,
)

_FLUSH_ROWS: Final = 1 << 18  # rows decoded together: enough to be fast, few enough to let go of the bytes
_HEADER_BYTES: Final = 4096  # a usual header fits; a longer one is read on
_POPULATE: Final = getattr(mmap, "MAP_POPULATE", 0)  # Linux


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as tables.

    samples: `sampled_at` (UTC µs), cluster, node, source, is_synthetic, gpu_uuid, gpu_index, parent_gpu_uuid,
    accelerator_id and the header's columns in the units the header states, null where the writer had none; rows
    come GPU by GPU where every tick has the same GPUs, in no promised order elsewhere ·
    records: one frame for each record kind, with `node`, `cluster`, `source`, `is_synthetic` filled in ·
    damage: what could not be read, by offset. A header that cannot be read leaves `header` None and no rows.
    """

    segment_id: str
    header: Header | None
    samples: pl.DataFrame
    records: Mapping[str, pl.DataFrame]
    damage: Sequence[Damage]


@dataclass(frozen=True, slots=True)
class Batch:
    """Many segments read together: one samples frame for each layout, records by kind, damage by name of file."""

    segment_ids: Sequence[str]
    samples: Sequence[tuple[tuple[Column, ...], pl.DataFrame]]
    records: Mapping[str, pl.DataFrame]
    damage: Sequence[tuple[str, Damage]]
    sample_count: int


@dataclass(slots=True)
class _Raw:
    """A segment's parts before they become tables; `rows` are views over its bytes."""

    header: Header | None = None
    refusal: FormatError | None = None
    rows: list[Rows] = field(default_factory=list)
    records: list[tuple[int, bytes]] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)


def read_segment(body: bytes | Path) -> Segment:
    """Read one segment. Never raises for damaged bytes: every whole frame comes back, the rest is `damage`."""
    raw = _scan(_bytes(body))
    if raw.header is None:
        return Segment("", None, pl.DataFrame(), {}, raw.damage)
    samples = samples_frame(raw.header.columns, [(raw.header, raw.rows)], Rooms())
    records = record_frames([Told(raw.header, raw.records, raw.damage)])
    return Segment(raw.header.segment_id, raw.header, samples, records, raw.damage)


def read_header(path: Path) -> Header | None:
    """A segment's header, without reading its samples; None where damage hides it.

    Raises `OSError`, and `FormatError` for a segment that a newer version wrote in a way this one cannot read.
    """
    with path.open("rb") as file:
        start = file.read(_HEADER_BYTES)
        if len(start) >= len(MAGIC) + FRAME_BYTES:
            *_, length, _ = HEAD.unpack_from(start, len(MAGIC))
            start += file.read(max(0, min(length, MAX_PAYLOAD) + len(MAGIC) + FRAME_BYTES - len(start)))
    first = next(walk(start, len(start)), None)
    if isinstance(first, Frame) and first.kind == HEADER:
        return header_of(start[first.begin : first.end])
    raw = _scan(_bytes(path))
    if raw.refusal or (raw.header is None and is_later_mark(start)):
        raise raw.refusal or later_format(start[len(MAGIC) - 1 : len(MAGIC)].decode())
    return raw.header


def rows_of(path: Path) -> int:
    """How many samples a segment's seal counts; 0 where there is no seal. Raises `OSError`."""
    seal = read_seal(_bytes(path))
    return seal.rows if seal else 0


def read_segments(bodies: Iterable[tuple[str, bytes | Path]], rooms: Rooms | None = None) -> Batch:
    """Read many `(name, body)` at once: segments of one column layout share one frame, which is what makes it fast.

    A segment whose header cannot be read shows in `damage` alone. rooms: memory to use, where reading goes on.
    """
    rooms = rooms or Rooms()
    ids: list[str] = []
    damage: list[tuple[str, list[Damage]]] = []
    told: list[Told] = []
    waiting: dict[tuple[Column, ...], list[tuple[Header, list[Rows]]]] = defaultdict(list)
    frames: dict[tuple[Column, ...], list[pl.DataFrame]] = defaultdict(list)
    rows = 0
    for name, body in bodies:
        raw = _scan(_bytes(body))
        damage.append((name, raw.damage))
        if raw.header is None:
            continue
        ids.append(raw.header.segment_id)
        waiting[raw.header.columns].append((raw.header, raw.rows))
        rows += sum(samples_in(block) for block in raw.rows)
        if raw.records:
            told.append(Told(raw.header, raw.records, raw.damage))
        if rows >= _FLUSH_ROWS:
            _flush(waiting, frames, rooms)
            rows = 0
    _flush(waiting, frames, rooms)
    samples = [(columns, pl.concat(parts, rechunk=False)) for columns, parts in frames.items()]
    records = record_frames(told)
    hurt = [(name, one) for name, some in damage for one in some]
    return Batch(ids, samples, records, hurt, sum(frame.height for _, frame in samples))


def _flush(
    waiting: dict[tuple[Column, ...], list[tuple[Header, list[Rows]]]],
    frames: dict[tuple[Column, ...], list[pl.DataFrame]],
    rooms: Rooms,
) -> None:
    for columns, parts in waiting.items():
        frames[columns].append(samples_frame(columns, parts, rooms))
    waiting.clear()


def _bytes(body: bytes | Path) -> Body:
    """A file is mapped, not copied: sealed segments never change."""
    if not isinstance(body, Path):
        return body
    with body.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | _POPULATE, prot=mmap.PROT_READ)


def _scan(body: Body) -> _Raw:
    seal = read_seal(body)
    holds = seal is not None and seal.holds(_crc(body, seal.length))
    if seal is not None and holds and seal.flags == CLEAN and body[: len(MAGIC)] == MAGIC:
        return _trusted(body, seal.length)
    return _distrusted(body, seal, holds=holds)


def _crc(body: Body, end: int) -> int:
    with memoryview(body) as view:
        return zlib_ng.crc32(view[:end])


def _trusted(body: Body, end: int) -> _Raw:
    """Frames of a segment whose checksum holds: their heads are followed, their payloads never checked again."""
    raw = _Raw()
    row_type = np.dtype([])
    at = len(MAGIC)
    while at < end:
        _, kind, rows, length, _ = HEAD.unpack_from(body, at)
        begin = at + FRAME_BYTES
        if kind == SAMPLES and length != rows * row_type.itemsize:
            raw.damage.append(Damage(at, FRAME_BYTES + length, "samples that do not fit the header's columns"))
        elif kind == SAMPLES and rows:
            count = _run(body, at, end, FRAME_BYTES + length)
            raw.rows.append(block_of(body, cast("Header", raw.header), at, count, rows))
            at += count * (FRAME_BYTES + length)
            continue
        if kind == RECORD:
            raw.records.append((at, bytes(body[begin : begin + length])))
        elif kind == HEADER and raw.header is None:
            if not _add_header(raw, body, at, begin, begin + length):
                return raw
            row_type = row_type_of(cast("Header", raw.header).columns)
        elif kind not in KINDS:
            raw.damage.append(_unknown(at, kind, begin + length))
        at = begin + length
    return raw


def _run(body: Body, at: int, end: int, size: int) -> int:
    """How many frames from `at` on have the same kind, row count and length as the first."""
    most = (end - at) // size
    first = body[at : at + 12]
    count, step = 1, 64
    while count < most:
        take = min(step, most - count)
        start = at + count * size
        grid = np.frombuffer(body, np.uint8, take * size, start).reshape(take, size)[:, :12]
        differs = np.flatnonzero((grid != np.frombuffer(first, np.uint8)).any(axis=1))
        if differs.size:
            return count + int(differs[0])
        count += take
        step *= 8
    return count


def _distrusted(body: Body, seal: Seal | None, *, holds: bool) -> _Raw:
    """Frames whose own checksum holds, and every span between them."""
    end = len(body) if seal is None else seal.length
    found = list(walk(body, end))
    frames = [item for item in found if isinstance(item, Frame)]
    raw = _Raw(damage=[item for item in found if isinstance(item, Damage)])
    if seal is None:
        looks_sealed = body[-SEAL.size :].startswith(SEAL_MAGIC) if len(body) >= SEAL.size else False
        raw.damage.append(Damage(len(body), 0, "the seal does not fit" if looks_sealed else "the seal is missing"))
    elif not holds and not raw.damage:
        raw.damage.append(Damage(end, SEAL.size, "the seal's checksum does not hold, yet every frame's does"))
    header = next((f for f in frames if f.kind == HEADER), None)
    if header is None:
        raw.damage.append(Damage(0, len(body), "no readable header: columns and node are not known"))
        return raw
    if not _add_header(raw, body, header.start, header.begin, header.end):
        return raw
    told = cast("Header", raw.header)
    row_type = row_type_of(told.columns)
    for item in frames:
        if item.kind == RECORD:
            raw.records.append((item.start, bytes(body[item.begin : item.end])))
    raw.damage.extend(_unknown(f.start, f.kind, f.end) for f in frames if f.kind not in KINDS)
    fitting = (f for f in frames if f.kind == SAMPLES and f.rows and f.end - f.begin == f.rows * row_type.itemsize)
    for first, count in _neighbours(fitting):
        raw.rows.append(block_of(body, told, first.start, count, first.rows))
    return raw


def _neighbours(frames: Iterable[Frame]) -> Iterator[tuple[Frame, int]]:
    """Frames that follow each other without a gap and have the same shape: the first of them, and how many."""
    first: Frame | None = None
    count, end = 0, -1
    for item in frames:
        if first is not None and item.start == end and item.rows == first.rows:
            count += 1
        else:
            if first is not None:
                yield first, count
            first, count = item, 1
        end = item.end
    if first is not None:
        yield first, count


def _add_header(raw: _Raw, body: Body, start: int, begin: int, end: int) -> bool:
    """False where this version cannot read what the header announces: nothing after it is then understood."""
    try:
        raw.header = header_of(body[begin:end])
    except FormatError as error:
        raw.refusal = error
        raw.damage.append(Damage(start, end - start, str(error)))
    return raw.header is not None


def _unknown(start: int, kind: int, end: int) -> Damage:
    return Damage(start, end - start, f"a frame of kind {kind}, which this version does not know")
