"""How far the columns of a frame reach: what settles every rule about one column without asking each row.

Belongs here: making these few rows, and which rules they settle. Does not belong here: the rules (`rows.py`,
`suite.py`), who asks them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import polars as pl

# A row breaks a rule of these kinds only where the lowest, the highest, a missing value or a NaN of its column does.
SETTLED: Final = ("ExpectColumnValuesToNotBeNull", "ExpectColumnValuesToBeBetween")


def edges_of(frame: pl.DataFrame) -> pl.DataFrame:
    """Four rows: the lowest and the highest of each column, null where a value is missing, NaN where one is not finite.

    Columns that are not numbers hold true or null: all that is asked of them is whether a value is missing.
    No rows for a frame without rows.
    """
    return pl.DataFrame([_edges(column) for column in frame.get_columns()])


def _edges(column: pl.Series) -> pl.Series:
    kind = column.dtype if column.dtype.is_numeric() else pl.Boolean()
    values: list[Any] = []
    if len(column):
        missing = column.null_count()
        some = None if missing == len(column) else True
        low, high = (column.min(), column.max()) if column.dtype.is_numeric() else (some, some)
        is_finite = not column.dtype.is_float() or math.isfinite(column.sum())
        values = [low, high, None if missing else low, low if is_finite else math.nan]
    return pl.Series(column.name, values, kind)
