"""Samples of spool segments as frames: rows of packed records become columns, GPU by GPU.

Belongs here: the layout of a row, what a header says, and the way from rows to columns. Does not belong here:
finding frames and judging damage (`segment.py`), units and sentinels (`assets/telemetry_clean.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np
import polars as pl
import pyarrow as pa

from sources.base import AlmanacError
from sources.telemetry.rooms import Rooms
from sources.telemetry.spool_format import BY_ROW, FRAME_BYTES, VERSION, Body, Column, Slot, row_format

Rows = np.ndarray[Any, np.dtype[Any]]
_CACHED_BYTES: Final = 1 << 20  # rows whose every column is read while they lie in the processor's cache
_PREFIX: Final = (("@t", "<i8"), ("@slot", "<u2"), ("@null", "<u8"))  # as `spool_format.ROW_PREFIX`
_LAYOUTS: Final = 64  # a fleet has a few, and asks for each with every segment
_WHAT_NOW: Final = "install a newer almanac and ingest again, the segment waits where it is"


class FormatError(AlmanacError):
    """A whole segment that this version cannot read; a newer one may."""


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
    version: int = VERSION


def header_of(payload: bytes) -> Header:
    """A header frame's payload, whose checksum holds, as a `Header`. Raises `FormatError` for one of a later format."""
    try:
        told = json.loads(payload)
        if told.get("version", BY_ROW) not in range(BY_ROW, VERSION + 1):
            raise later_format(told["version"])
        header = _header(told)
        row_format(header.columns)
        row_type_of(header.columns)  # refuses a name that stands twice
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise FormatError(f"its header does not read as a format up to {VERSION} ({why}); {_WHAT_NOW}") from None
    return header


def later_format(version: object) -> FormatError:
    """The error for a segment of another format."""
    return FormatError(f"it has spool format {version}, this version reads up to {VERSION}; {_WHAT_NOW}")


def _header(told: Mapping[str, Any]) -> Header:
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
        version=told.get("version", BY_ROW),
    )


@lru_cache(maxsize=_LAYOUTS)
def row_type_of(columns: tuple[Column, ...]) -> np.dtype[Any]:
    """What a sample row is made of: time in µs, GPU slot, null mask, then the columns."""
    return np.dtype([*_PREFIX, *((c.name, "<" + c.type) for c in columns)])


def block_of(body: Body, header: Header, at: int, frames: int, rows: int) -> Rows:
    """`frames` frames of `rows` samples each from `at` on, as a view: each field of it is shaped frames by rows."""
    row_type = row_type_of(header.columns)
    head = ("head", f"V{FRAME_BYTES}")
    if header.version == BY_ROW:
        return cast("Rows", np.frombuffer(body, np.dtype([head, ("rows", row_type, (rows,))]), frames, at)["rows"])
    fields = [(name, kind, (rows,)) for name, (kind, *_) in (row_type.fields or {}).items()]
    return cast("Rows", np.frombuffer(body, np.dtype([head, *fields]), frames, at))


def samples_in(block: Rows) -> int:
    """How many samples a block holds."""
    return int(block["@slot"].size)


def samples_frame(
    columns: tuple[Column, ...], parts: Sequence[tuple[Header, list[Rows]]], rooms: Rooms
) -> pl.DataFrame:
    """Rows of segments with one layout as one frame; GPUs and nodes are looked up, not repeated row by row."""
    slots: list[tuple[Header, Slot]] = []
    total = sum(samples_in(block) for _, rows in parts for block in rows)
    taken = rooms.columns(row_type_of(columns), total)
    gpu = np.empty(total, np.uint32)
    at = 0
    for header, blocks in _together(parts):
        until = at + sum(samples_in(block) for block in blocks)
        _fill({name: into[at:until] for name, into in taken.items()}, blocks)
        gpu[at:until] = taken["@slot"][at:until]
        gpu[at:until] += np.uint32(len(slots))
        slots.extend((header, slot) for slot in header.slots)
        at = until
    index = pl.Series(gpu)
    known = _known(taken["@null"], len(columns))
    return pl.DataFrame(
        {
            "sampled_at": _series(taken["@t"], None).cast(pl.Datetime("us", "UTC")),
            **{name: value.gather(index) for name, value in _identity(slots).items()},
            **{c.name: _series(taken[c.name], bits) for c, bits in zip(columns, known, strict=True)},
        }
    )


def _known(masks: Rows, count: int) -> list[pa.Buffer | None]:
    """For each of `count` columns the bits that say where it has a value; None where it has one everywhere.

    masks: one for each row, bit i set where column i has none. Most rows lack nothing, or the same few columns.
    """
    never = int(np.bitwise_and.reduce(masks)) if len(masks) else 0
    rows = np.flatnonzero(masks != np.uint64(never))
    kinds, kind = np.unique(masks[rows], return_inverse=True)
    made: dict[bytes, pa.Buffer | None] = {}
    out = []
    for i in range(count):
        if never >> i & 1:
            out.append(pa.py_buffer(bytes(-(-len(masks) // 8))))
            continue
        lacking = kinds >> np.uint64(i) & np.uint64(1) != 0
        pattern = lacking.tobytes()
        if pattern not in made:
            have = np.ones(len(masks), np.bool_)
            have[rows[lacking[kind]]] = False
            made[pattern] = pa.py_buffer(np.packbits(have, bitorder="little")) if lacking.any() else None
        out.append(made[pattern])
    return out


def _series(values: Rows, known: pa.Buffer | None) -> pl.Series:
    """A column as it lies in memory, not copied."""
    return pl.Series(
        pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [known, pa.py_buffer(values)])
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


def _fill(columns: Mapping[str, Rows], blocks: Sequence[Rows]) -> None:
    """Every value of the blocks into its column, all rows of the first GPU first.

    Few frames at a time, all columns of each: what is read from memory is read once.
    """
    gpus = blocks[0]["@slot"].shape[1]
    grids = [(name, column.reshape(gpus, -1), place) for place, (name, column) in enumerate(columns.items())]
    step = max(1, _CACHED_BYTES // blocks[0].strides[0])
    at = 0
    for block in blocks:
        for begin in range(0, len(block), step):
            part = block[begin : begin + step]
            until = at + len(part)
            # Bits by place: time, slot and mask come before the columns, and are never lacking.
            lacking = int(np.bitwise_and.reduce(part["@null"], axis=None)) << len(_PREFIX)
            for name, grid, place in grids:
                if not lacking >> place & 1:
                    grid[:, at:until] = part[name].T
            at = until


def _identity(slots: Sequence[tuple[Header, Slot]]) -> dict[str, pl.Series]:
    text = pl.Categorical()  # a number a row, not a name: what follows compares and copies it for every sample
    return {
        "cluster": pl.Series([h.cluster for h, _ in slots], dtype=text),
        "node": pl.Series([h.node for h, _ in slots], dtype=text),
        "source": pl.Series([h.source for h, _ in slots], dtype=text),
        "is_synthetic": pl.Series([h.is_synthetic for h, _ in slots], dtype=pl.Boolean),
        "gpu_uuid": pl.Series([s.gpu_uuid for _, s in slots], dtype=text),
        "gpu_index": pl.Series([s.gpu_index for _, s in slots], dtype=pl.Int64),
        "parent_gpu_uuid": pl.Series([s.parent_gpu_uuid for _, s in slots], dtype=text),
        "accelerator_id": pl.Series([s.accelerator_id for _, s in slots], dtype=text),
    }
