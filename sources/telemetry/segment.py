"""Reads spool segments back: bytes to raw frames, fast when the seal holds, frame by frame when it does not.

Belongs here: decoding. Does not belong here: units, sentinels and table layouts (`assets/telemetry_clean.py`),
writing (`spool.py`). The node agent does not import this module.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl

from sources.telemetry.spool_format import (
    CLEAN,
    FRAME_BYTES,
    HEAD,
    HEADER,
    MAGIC,
    RECORD,
    SAMPLES,
    SEAL,
    SEAL_MAGIC,
    Column,
    Damage,
    Frame,
    Seal,
    Slot,
    read_seal,
    walk,
)

Rows = np.ndarray[Any, np.dtype[Any]]
_FLUSH_ROWS: Final = 1 << 18  # rows decoded together: enough to be fast, few enough to let go of the bytes
_HEADER_BYTES: Final = 1 << 20  # a header names columns and GPU slots; this is room for thousands
_TIMES: Final = frozenset({"valid_from", "valid_to"})


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says of itself."""

    segment_id: str
    cluster: str
    node: str
    source: str
    is_synthetic: bool
    columns: tuple[Column, ...]
    slots: tuple[Slot, ...]
    stream_id: str
    segment_number: int
    created_at_us: int
    boot_id: str | None = None


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
    """A segment's parts before they become tables; `rows` are views over its bytes, shaped frames by rows."""

    header: Header | None = None
    rows: list[Rows] = field(default_factory=list)
    records: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)


def read_segment(body: bytes | Path) -> Segment:
    """Read one segment. Never raises for damaged bytes: every whole frame comes back, the rest is `damage`."""
    raw = _scan(_bytes(body))
    if raw.header is None:
        return Segment("", None, pl.DataFrame(), {}, raw.damage)
    samples = _samples(raw.header.columns, [(raw.header, raw.rows)])
    return Segment(raw.header.segment_id, raw.header, samples, _records([raw]), raw.damage)


def segment_id_of(path: Path) -> str | None:
    """The id in a segment's header, without reading its samples; None where the header cannot be read."""
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    first = next(walk(head, len(head)), None)
    if isinstance(first, Frame) and first.kind == HEADER:
        return _header(head[first.begin : first.end]).segment_id
    header = _scan(path.read_bytes()).header
    return header.segment_id if header else None


def read_segments(bodies: Iterable[tuple[str, bytes | Path]]) -> Batch:
    """Read many `(name, body)` at once: segments of one column layout share one frame, which is what makes it fast.

    A segment whose header cannot be read shows in `damage` alone.
    """
    ids: list[str] = []
    damage: list[tuple[str, Damage]] = []
    told: list[_Raw] = []
    waiting: dict[tuple[Column, ...], list[tuple[Header, list[Rows]]]] = defaultdict(list)
    frames: dict[tuple[Column, ...], list[pl.DataFrame]] = defaultdict(list)
    rows = 0
    for name, body in bodies:
        raw = _scan(_bytes(body))
        damage.extend((name, d) for d in raw.damage)
        if raw.header is None:
            continue
        ids.append(raw.header.segment_id)
        waiting[raw.header.columns].append((raw.header, raw.rows))
        rows += sum(block.size for block in raw.rows)
        if raw.records:
            told.append(_Raw(header=raw.header, records=raw.records))
        if rows >= _FLUSH_ROWS:
            _flush(waiting, frames)
            rows = 0
    _flush(waiting, frames)
    samples = [(columns, pl.concat(parts, rechunk=False)) for columns, parts in frames.items()]
    return Batch(ids, samples, _records(told), damage, sum(frame.height for _, frame in samples))


def _flush(
    waiting: dict[tuple[Column, ...], list[tuple[Header, list[Rows]]]],
    frames: dict[tuple[Column, ...], list[pl.DataFrame]],
) -> None:
    for columns, parts in waiting.items():
        frames[columns].append(_samples(columns, parts))
    waiting.clear()


def _bytes(body: bytes | Path) -> bytes:
    return body.read_bytes() if isinstance(body, Path) else body


def _scan(body: bytes) -> _Raw:
    seal = read_seal(body)
    holds = seal is not None and seal.holds(zlib.crc32(memoryview(body)[: seal.length]))
    if seal is not None and holds and seal.flags == CLEAN and body.startswith(MAGIC):
        return _trusted(body, seal.length)
    return _distrusted(body, seal, holds=holds)


def _trusted(body: bytes, end: int) -> _Raw:
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
            raw.rows.append(_block(body, at, count, rows, row_type))
            at += count * (FRAME_BYTES + length)
            continue
        if kind == RECORD:
            _add_record(raw, body, begin, begin + length)
        elif kind == HEADER and raw.header is None:
            raw.header = _header(body[begin : begin + length])
            row_type = _row_type(raw.header.columns)
        at = begin + length
    return raw


def _run(body: bytes, at: int, end: int, size: int) -> int:
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


def _distrusted(body: bytes, seal: Seal | None, *, holds: bool) -> _Raw:
    """Frames whose own checksum holds, and every span between them."""
    raw = _Raw()
    end = len(body) if seal is None else seal.length
    frames: list[Frame] = []
    for item in walk(body, end):
        if isinstance(item, Frame):
            frames.append(item)
        else:
            raw.damage.append(item)
    if seal is None:
        looks_sealed = body[-SEAL.size :].startswith(SEAL_MAGIC) if len(body) >= SEAL.size else False
        raw.damage.append(Damage(len(body), 0, "the seal does not fit" if looks_sealed else "the seal is missing"))
    elif not holds and not raw.damage:
        raw.damage.append(Damage(end, SEAL.size, "the seal's checksum does not hold, yet every frame's does"))
    header = next((f for f in frames if f.kind == HEADER), None)
    if header is None:
        raw.damage.append(Damage(0, len(body), "no readable header: columns and node are not known"))
        return raw
    raw.header = _header(body[header.begin : header.end])
    row_type = _row_type(raw.header.columns)
    for item in frames:
        if item.kind == RECORD:
            _add_record(raw, body, item.begin, item.end)
    fitting = (f for f in frames if f.kind == SAMPLES and f.rows and f.end - f.begin == f.rows * row_type.itemsize)
    for first, count in _neighbours(fitting):
        raw.rows.append(_block(body, first.start, count, first.rows, row_type))
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


def _block(body: bytes, at: int, count: int, rows: int, row_type: np.dtype[Any]) -> Rows:
    """`count` frames of `rows` samples each from `at` on, as a view shaped frames by rows."""
    frames = np.dtype([("head", f"V{FRAME_BYTES}"), ("rows", row_type, (rows,))])
    return cast("Rows", np.frombuffer(body, frames, count, at)["rows"])


def _header(payload: bytes) -> Header:
    told = json.loads(payload)
    return Header(
        segment_id=told["segment_id"],
        cluster=told["cluster"],
        node=told["node"],
        source=told["source"],
        is_synthetic=told["is_synthetic"],
        columns=tuple(Column(*c) for c in told["columns"]),
        slots=tuple(Slot(*s) for s in told["slots"]),
        stream_id=told["stream_id"],
        segment_number=told["segment_number"],
        created_at_us=told["created_at_us"],
        boot_id=told.get("boot_id"),
    )


def _row_type(columns: Sequence[Column]) -> np.dtype[Any]:
    return np.dtype([("@t", "<i8"), ("@slot", "<u2"), ("@null", "<u8"), *((c.name, "<" + c.type) for c in columns)])


def _add_record(raw: _Raw, body: bytes, begin: int, end: int) -> None:
    told = json.loads(body[begin:end])
    raw.records.append((told["kind"], told["row"]))


def _samples(columns: tuple[Column, ...], parts: Sequence[tuple[Header, list[Rows]]]) -> pl.DataFrame:
    """Rows of segments with one layout as one frame; GPUs and nodes are looked up, not repeated row by row."""
    slots: list[tuple[Header, Slot]] = []
    total = sum(block.size for _, rows in parts for block in rows)
    taken = {name: np.empty(total, kind) for name, (kind, *_) in (_row_type(columns).fields or {}).items()}
    gpu = np.empty(total, np.uint32)
    at = 0
    for header, blocks in _together(parts):
        until = at + sum(block.size for block in blocks)
        for name, into in taken.items():
            _fill(into[at:until], blocks, name)
        gpu[at:until] = taken["@slot"][at:until]
        gpu[at:until] += np.uint32(len(slots))
        slots.extend((header, slot) for slot in header.slots)
        at = until
    index = pl.Series(gpu)
    nulls = taken.pop("@null")
    some_null, all_null = int(np.bitwise_or.reduce(nulls)), int(np.bitwise_and.reduce(nulls)) if total else 0
    values = {}
    for i, column in enumerate(columns):
        known = pl.Series(taken[column.name])
        if all_null >> i & 1:
            known = pl.Series(values=[None], dtype=known.dtype).new_from_index(0, total)
        elif some_null >> i & 1:
            null = pl.Series(np.bitwise_and(nulls, np.uint64(1 << i)) != 0)
            known = pl.select(pl.when(~null).then(known)).to_series()
        values[column.name] = known
    return pl.DataFrame(
        {
            "sampled_at": pl.Series(taken["@t"]).cast(pl.Datetime("us", "UTC")),
            **{name: known.gather(index) for name, known in _identity(slots).items()},
            **values,
        }
    )


def _together(parts: Sequence[tuple[Header, list[Rows]]]) -> Iterator[tuple[Header, list[Rows]]]:
    """Neighbouring blocks of one node with the same GPUs in every frame: these can be laid out GPU by GPU."""
    last: Header | None = None
    last_slots: list[int] = []
    gathered: list[Rows] = []
    for header, blocks in parts:
        for block in blocks:
            order = block["@slot"][0].tolist()
            alike = bool((block["@slot"] == block["@slot"][0]).all())
            same_node = last is not None and _who(last) == _who(header)
            if last is not None and not (alike and same_node and order == last_slots):
                yield last, gathered
                gathered = []
            gathered.append(block)
            last, last_slots = header, order if alike else []
    if last is not None:
        yield last, gathered


def _who(header: Header) -> tuple[object, ...]:
    return header.source, header.cluster, header.node, header.is_synthetic, header.slots


def _fill(column: Rows, blocks: Sequence[Rows], name: str) -> None:
    """One value of every row into `column`, all rows of the first GPU first."""
    grid = column.reshape(blocks[0].shape[1], -1)
    at = 0
    for block in blocks:
        grid[:, at : at + len(block)] = block[name].T
        at += len(block)


def _identity(slots: Sequence[tuple[Header, Slot]]) -> dict[str, pl.Series]:
    return {
        "cluster": pl.Series([h.cluster for h, _ in slots], dtype=pl.String),
        "node": pl.Series([h.node for h, _ in slots], dtype=pl.String),
        "source": pl.Series([h.source for h, _ in slots], dtype=pl.String),
        "is_synthetic": pl.Series([h.is_synthetic for h, _ in slots], dtype=pl.Boolean),
        "gpu_uuid": pl.Series([s.gpu_uuid for _, s in slots], dtype=pl.String),
        "gpu_index": pl.Series([s.gpu_index for _, s in slots], dtype=pl.Int64),
        "parent_gpu_uuid": pl.Series([s.parent_gpu_uuid for _, s in slots], dtype=pl.String),
        "accelerator_id": pl.Series([s.accelerator_id for _, s in slots], dtype=pl.String),
    }


def _records(raws: Sequence[_Raw]) -> dict[str, pl.DataFrame]:
    """Records by kind; instants written as integers in µs become UTC times."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for raw in raws:
        header = raw.header
        if header is None:
            continue
        who = {
            "cluster": header.cluster,
            "node": header.node,
            "source": header.source,
            "is_synthetic": header.is_synthetic,
        }
        for kind, row in raw.records:
            extra = {"created_at": header.created_at_us} if kind == "gap" else {}
            rows[kind].append(who | extra | row)
    frames = {kind: pl.DataFrame(told, infer_schema_length=None, strict=False) for kind, told in rows.items()}
    return {
        kind: frame.with_columns(
            pl.col(name).cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
            for name in frame.columns
            if name.endswith("_at") or name in _TIMES
        )
        for kind, frame in frames.items()
    }
