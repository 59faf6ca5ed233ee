"""Helpers of the telemetry input tests: the moment of observation, the law of every frame, one row by its values."""

from __future__ import annotations

import datetime as dt

import polars as pl

from sources.base import Parsed
from sources.registry import source_named
from warehouse.schema import tables
from warehouse.schema.declare import bounds_of, key_of, lake_schema

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def lawful(source: str, parsed: Parsed) -> Parsed:
    """Every frame has only declared columns, castable, within bounds, with a full and unique key."""
    assert set(parsed.frames) <= set(source_named(source).tables)
    for name, frame in parsed.frames.items():
        model = tables()[name]
        schema = lake_schema(model)
        assert set(frame.columns) <= set(schema), name
        assert "source" not in frame.columns
        whole = frame.with_columns(pl.lit(source).alias("source"))
        cast = whole.cast({c: schema[c] for c in whole.columns})
        key = key_of(model)
        assert cast.select(pl.any_horizontal(pl.col(key).is_null()).any()).item() is not True, name
        assert cast.select(key).is_duplicated().sum() == 0, name
        assert cast["is_synthetic"].any() is False
        for column in cast.columns:
            low, high = bounds_of(model, column)
            bad = [
                c
                for c in (
                    pl.col(column) < low if low is not None else None,
                    pl.col(column) > high if high is not None else None,
                )
                if c is not None
            ]
            assert not bad or cast.filter(pl.any_horizontal(bad)).height == 0, (name, column)
    return parsed


def one(frame: pl.DataFrame, **where: object) -> dict[str, object]:
    """The one row that has these values."""
    found = frame.filter(*(pl.col(k) == v for k, v in where.items()))
    assert found.height == 1, found
    return found.row(0, named=True)
