"""Prometheus remote write: bodies of version 1 (snappy, protobuf) as series.

Belongs here: the bytes. Does not belong here: keeping them (`receiver.py`), what a metric means (`metrics.py`).
Protobuf is read by hand: three message types do not earn a dependency, and a series' labels are the same bytes in
every request, so each set is decoded once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import polars as pl

from sources.base import ParseError
from sources.telemetry_inputs.context import UTC_US
from sources.telemetry_inputs.exposition import FIELDS, aliases

MAX_BODY: Final = 64 << 20  # after unpacking; Prometheus sends well below one
_STALE: Final = 0x7FF0000000000002  # "this series has ended", no reading
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = struct.Struct("<d")
_BITS: Final = struct.Struct("<Q")

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, int, float]  # labels, time in ms, value


def unpacked(body: bytes) -> bytes:
    """The protobuf of a request. Raises `ParseError` for what is no snappy block, or too large."""
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > MAX_BODY:
            raise ParseError(f"the request unpacks to {size} bytes; send fewer samples at a time")
        return bytes(cramjam.snappy.decompress_raw(body))
    except (cramjam.DecompressionError, ValueError, OverflowError) as error:
        raise ParseError(f"the body is no snappy block ({error}): send remote write 1.0") from None


def samples_of(message: bytes) -> Iterator[Sample]:
    """Every sample of a WriteRequest; ends of series are left out. Raises `ParseError` for broken protobuf."""
    try:
        for field, kind, begin, end in _fields(message, 0, len(message)):
            if field == 1 and kind == _BYTES:
                yield from _series(message, begin, end)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise ParseError("the body is no remote-write request: its protobuf ends early") from None


def series_frame(samples: Iterator[Sample] | list[Sample]) -> pl.DataFrame:
    """Samples as `metrics.to_frames` takes them. Time is the sample's own."""
    numbers: dict[Labels, int] = {}
    at: list[int] = []
    values: list[str] = []
    series: list[int] = []
    for labels, time_ms, value in samples:
        series.append(numbers.setdefault(labels, len(numbers)))
        at.append(time_ms)
        values.append(repr(value))
    told = [dict(labels) for labels in numbers]
    lower = [{name.lower(): text for name, text in labels.items()} for labels in told]
    heads = pl.DataFrame(
        {
            "series": pl.Series(range(len(told)), dtype=pl.Int64),
            "metric": pl.Series([labels.get("__name__", "") for labels in told], dtype=pl.String),
            **{field: pl.Series([_first(labels, field) for labels in lower], dtype=pl.String) for field in FIELDS},
        }
    )
    points = pl.DataFrame(
        {
            "series": pl.Series(series, dtype=pl.Int64),
            "at": pl.Series(at, dtype=pl.Int64).cast(pl.Datetime("ms", "UTC")).cast(UTC_US),
            "value_text": pl.Series(values, dtype=pl.String),
        }
    ).with_row_index("line", offset=1)
    return (
        points.join(heads, on="series", how="left", maintain_order="left")
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("scrape"))
        .select("line", "metric", "value_text", "at", "scrape", *FIELDS)
    )


def _first(labels: dict[str, str], field: str) -> str | None:
    return next((labels[name] for name in aliases(field) if labels.get(name)), None)


def _series(message: bytes, begin: int, end: int) -> Iterator[Sample]:
    labels_end = begin
    points: list[tuple[int, float]] = []
    for field, kind, first, last in _fields(message, begin, end):
        if field == 1 and kind == _BYTES:
            labels_end = last if not points else end  # a writer may put labels after samples: then all is looked at
        elif field == 2 and kind == _BYTES:  # noqa: PLR2004 - numbers of the protocol
            point = _point(message, first, last)
            if point is not None:
                points.append(point)
    labels = _labels(message[begin:labels_end])
    for time_ms, value in points:
        yield labels, time_ms, value


@lru_cache(maxsize=1 << 18)
def _labels(message: bytes) -> Labels:
    labels = []
    for field, kind, begin, end in _fields(message, 0, len(message)):
        if field == 1 and kind == _BYTES:
            parts = {n: message[a:b].decode() for n, _, a, b in _fields(message, begin, end)}
            labels.append((parts.get(1, ""), parts.get(2, "")))
    return tuple(labels)


def _point(message: bytes, begin: int, end: int) -> tuple[int, float] | None:
    value, time_ms = 0.0, 0
    for field, kind, first, last in _fields(message, begin, end):
        if field == 1 and kind == _FIXED64:
            (value,) = _DOUBLE.unpack_from(message, first)
            if math.isnan(value) and _BITS.unpack_from(message, first)[0] == _STALE:
                return None
        elif field == 2 and kind == _VARINT:  # noqa: PLR2004
            time_ms, _ = _varint(message, first)
            time_ms &= (1 << 64) - 1  # ten bytes hold 70 bits; protobuf leaves the upper ones out
            time_ms -= (1 << 64) if time_ms >> 63 else 0
        del last
    return time_ms, value


def _fields(message: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, begin, end) of each field. Raises `IndexError` where one reaches over the end."""
    while at < end:
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(message, at)
            until = at + length
        elif kind == _VARINT:
            _, until = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            until = at + (8 if kind == _FIXED64 else 4)
        else:
            raise IndexError
        if until > end:
            raise IndexError
        yield tag >> 3, kind, at, until
        at = until


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return number, at
        shift += 7
        if shift > 63:  # noqa: PLR2004
            raise IndexError
