"""Samples of spool segments as frames: rows of packed records become columns, GPU by GPU.

Belongs here: the layout of a row, what a header says, and the way from rows to columns. Does not belong here:
finding frames and judging damage (`segment.py`), units and sentinels (`assets/telemetry_clean.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from sources.base import AlmanacError
from sources.telemetry.spool_format import VERSION, Column, Slot, row_format

Rows = np.ndarray[Any, np.dtype[Any]]
_CACHED_BYTES: Final = 1 << 20  # rows whose every column is read while they lie in the processor's cache
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


def header_of(payload: bytes) -> Header:
    """A header frame's payload, whose checksum holds, as a `Header`. Raises `FormatError` for one of a later format."""
    try:
        told = json.loads(payload)
        if told.get("version", VERSION) != VERSION:
            raise later_format(told["version"])
        header = _header(told)
        row_format(header.columns)
        row_type_of(header.columns)  # refuses a name that stands twice
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise FormatError(f"its header does not read as format {VERSION} ({why}); {_WHAT_NOW}") from None
    return header


def later_format(version: object) -> FormatError:
    """The error for a segment of another format."""
    return FormatError(f"it has spool format {version}, this version reads {VERSION}; {_WHAT_NOW}")


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
    )


def row_type_of(columns: Sequence[Column]) -> np.dtype[Any]:
    """How a sample row lies in a segment: time in µs, GPU slot, null mask, then the columns."""
    return np.dtype([("@t", "<i8"), ("@slot", "<u2"), ("@null", "<u8"), *((c.name, "<" + c.type) for c in columns)])


def samples_frame(columns: tuple[Column, ...], parts: Sequence[tuple[Header, list[Rows]]]) -> pl.DataFrame:
    """Rows of segments with one layout as one frame; GPUs and nodes are looked up, not repeated row by row."""
    slots: list[tuple[Header, Slot]] = []
    total = sum(block.size for _, rows in parts for block in rows)
    taken = {name: np.empty(total, kind) for name, (kind, *_) in (row_type_of(columns).fields or {}).items()}
    gpu = np.empty(total, np.uint32)
    at = 0
    for header, blocks in _together(parts):
        until = at + sum(block.size for block in blocks)
        _fill({name: into[at:until] for name, into in taken.items()}, blocks)
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


def _fill(columns: Mapping[str, Rows], blocks: Sequence[Rows]) -> None:
    """Every value of the blocks into its column, all rows of the first GPU first.

    Few frames at a time, all columns of each: what is read from memory is read once.
    """
    gpus = blocks[0].shape[1]
    grids = [(name, column.reshape(gpus, -1)) for name, column in columns.items()]
    step = max(1, _CACHED_BYTES // (gpus * blocks[0].dtype.itemsize))
    at = 0
    for block in blocks:
        for begin in range(0, len(block), step):
            part = block[begin : begin + step]
            until = at + len(part)
            for name, grid in grids:
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
