"""Rows put straight into a lake, for tests that begin after landing."""

from __future__ import annotations

import polars as pl

from warehouse.lake import Counts, Lake, Load
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema


def put(lake: Lake, name: str, rows: list[dict]) -> None:
    """Append rows to a table; columns that are not given are null or a default."""
    schema = lake_schema(tables()[name])
    filled = [{"cluster": "c", "node": "n", "source": "nvml", "is_synthetic": False, **row} for row in rows]
    frame = pl.DataFrame([{k: row.get(k) for k in schema} for row in filled], schema=schema, orient="row")
    lake.commit(tables()[name], [], lambda *_: (frame, Load("t", "t", Counts(frame.height, frame.height))))
