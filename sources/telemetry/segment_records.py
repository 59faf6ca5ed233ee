"""Records of spool segments as frames: events, inventories, link counters and what else is told in words.

Belongs here: what a record's bytes say. Does not belong here: finding frames (`segment.py`), samples
(`segment_rows.py`), what a table makes of a record (`assets/telemetry_clean.py`). Many records of one kind are read
at once, which is ten times as fast; whatever is odd about them is left to the careful way, one by one.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from sources.telemetry.segment_rows import Header
from sources.telemetry.spool_format import FRAME_BYTES, Damage

MANY: Final = 64  # records from which reading them at once pays
_USUAL: Final = re.compile(rb'\{"kind":"(\w+)","row":(?=\{)')  # as the spool's writer puts it
_TIMES: Final = frozenset({"valid_from", "valid_to"})
_MOST_US: Final = 1 << 57  # the year 6500; what lies above is no instant
_EXACT: Final = 1 << 53  # whole numbers above are not all kept by a float
_PLAIN: Final = (pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.Null)
_WHO: Final = ("cluster", "node", "source", "is_synthetic")


@dataclass(frozen=True, slots=True)
class Told:
    """Records of one segment: where each frame starts and its payload. What does not read is added to `damage`."""

    header: Header
    records: Sequence[tuple[int, bytes]]
    damage: list[Damage]


class _Record(NamedTuple):
    told: Told
    segment: int
    start: int
    payload: bytes
    row_at: int


def record_frames(told: Sequence[Told]) -> dict[str, pl.DataFrame]:
    """One frame for each kind, in the order of the segments; instants, integers in µs, become UTC times."""
    usual: dict[str, list[_Record]] = defaultdict(list)
    odd: list[_Record] = []
    for segment, one in enumerate(told):
        for start, payload in one.records:
            known = _USUAL.match(payload)
            if known:
                usual[known[1].decode()].append(_Record(one, segment, start, payload, known.end()))
            else:
                odd.append(_Record(one, segment, start, payload, 0))
    # An odd one may be of any kind, and first comes first: then all are read with care.
    read = {kind: _at_once(some, told) for kind, some in usual.items() if not odd}
    frames = {kind: frame for kind, frame in read.items() if frame is not None}
    careful = [*odd, *(record for kind, some in usual.items() if kind not in frames for record in some)]
    frames |= _one_by_one(sorted(careful, key=lambda r: (r.segment, r.start)))
    return {
        kind: frame.with_columns(
            pl.col(name).cast(pl.Int64).cast(pl.Datetime("us", "UTC")) for name in frame.columns if _is_instant(name)
        )
        for kind, frame in frames.items()
    }


def _at_once(records: Sequence[_Record], told: Sequence[Told]) -> pl.DataFrame | None:
    """Rows of one kind, or None where any of them wants a closer look."""
    if len(records) < MANY:
        return None
    lines = b"\n".join(r.payload[r.row_at : -1] for r in records)
    try:
        rows = pl.read_ndjson(lines, infer_schema_length=None)
    except pl.exceptions.PolarsError:
        return None
    if rows.height != len(records) or "created_at" in rows.columns or not all(_is_sure(rows[n]) for n in rows.columns):
        return None
    if any(name in rows.columns for name in _WHO):
        return None
    who = pl.DataFrame(
        [_who(one.header) for one in told], schema=dict.fromkeys(_WHO[:3], pl.String) | {"is_synthetic": pl.Boolean}
    )
    at = pl.Series(np.fromiter((r.segment for r in records), np.uint32, len(records)))
    return pl.concat([who[at], rows], how="horizontal")


def _is_sure(column: pl.Series) -> bool:
    """Could nothing have been lost in reading these values at once?"""
    if column.dtype not in _PLAIN:
        return False
    if _is_instant(column.name):
        return column.dtype in (pl.Int64, pl.Null) and (column.dtype == pl.Null or _within(column, _MOST_US))
    return column.dtype != pl.Float64 or _within(column, _EXACT)


def _within(column: pl.Series, most: int) -> bool:
    return bool((column.abs() < most).all())


def _one_by_one(records: Sequence[_Record]) -> dict[str, pl.DataFrame]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        header = record.told.header
        try:
            kind, row = _read(record.payload)
        except ValueError as error:
            length = FRAME_BYTES + len(record.payload)
            record.told.damage.append(Damage(record.start, length, str(error)))
        else:
            extra = {"created_at": header.created_at_us} if kind == "gap" else {}
            rows[kind].append({**_who(header), **extra, **row})
    return {kind: pl.DataFrame(some, infer_schema_length=None, strict=False) for kind, some in rows.items()}


def _read(payload: bytes) -> tuple[str, dict[str, Any]]:
    """A record's row holds plain values, and instants as integers. Raises `ValueError` for one that does not."""
    try:
        told = json.loads(payload)
        kind, row = str(told["kind"]), dict(told["row"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a record that does not read as one ({error!r})") from error
    wrong = [name for name, value in row.items() if not _is_plain(name, value)]
    if wrong:
        raise ValueError(f"a record of kind {kind} with a {wrong[0]} that is none")
    return kind, row


def _is_plain(name: str, value: object) -> bool:
    if _is_instant(name):
        return value is None or (isinstance(value, int) and abs(value) < _MOST_US)
    return value is None or isinstance(value, str | int | float)


def _is_instant(name: str) -> bool:
    return name.endswith("_at") or name in _TIMES


def _who(header: Header) -> Mapping[str, object]:
    return {name: getattr(header, name) for name in _WHO}
