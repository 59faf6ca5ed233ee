"""Statistics of runs of neighbouring rows: sorted samples fall into buckets that lie one after the other.

Belongs here: sums, means, extremes, first and last values of a column by run, nulls left out, null where a run has
none. Does not belong here: which runs, what a column means. A group-by hashes every row; here nothing is hashed,
which is what a million buckets of six rows each need.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

Array = np.ndarray[Any, np.dtype[Any]]
_LOWEST: Final = {"f": -np.inf, "i": np.iinfo(np.int64).min, "u": 0}
_HIGHEST: Final = {"f": np.inf, "i": np.iinfo(np.int64).max, "u": np.iinfo(np.uint64).max}


class Runs:
    """Runs of a frame that begin at the rows `starts` (ascending, the first is 0)."""

    def __init__(self, frame: pl.DataFrame, starts: Array) -> None:
        self._frame = frame
        self.starts = starts
        self.ends = np.append(starts[1:], frame.height)
        self._read: dict[str, tuple[Array, Array | None]] = {}
        self._counts: dict[str, Array] = {}

    def count(self, name: str) -> pl.Series:
        """Values in each run."""
        return pl.Series(self._count(name))

    def mean(self, name: str) -> pl.Series:
        """Mean of the values."""
        count = self._count(name)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._told(name, self._sum(name) / count)

    def total(self, name: str) -> pl.Series:
        """Sum of the values."""
        return self._told(name, self._sum(name))

    def least(self, name: str) -> pl.Series:
        """Lowest value."""
        values, known = self._values(name)
        whole = (
            values if known is None else np.where(known, values, np.array(_HIGHEST[values.dtype.kind], values.dtype))
        )
        return self._told(name, np.minimum.reduceat(whole, self.starts))

    def most(self, name: str) -> pl.Series:
        """Highest value."""
        values, known = self._values(name)
        whole = values if known is None else np.where(known, values, np.array(_LOWEST[values.dtype.kind], values.dtype))
        return self._told(name, np.maximum.reduceat(whole, self.starts))

    def every_bit(self, name: str) -> pl.Series:
        """Bits set in any value."""
        values, _ = self._values(name)
        return self._told(name, np.bitwise_or.reduceat(values, self.starts))

    def first(self, name: str) -> pl.Series:
        """First value that is known."""
        if self._values(name)[1] is None:
            return self._frame.get_column(name).gather(self.starts)
        return self._at_known(name, np.cumsum(self._count(name)) - self._count(name))

    def last(self, name: str) -> pl.Series:
        """Last value that is known."""
        if self._values(name)[1] is None:
            return self.at_end(name)
        return self._at_known(name, np.cumsum(self._count(name)) - 1)

    def _at_known(self, name: str, place: Array) -> pl.Series:
        """The known value of each run at this place among all known values; null where a run has none."""
        none = self._count(name) == 0
        known = self._frame.get_column(name).drop_nulls()
        return known.gather(pl.Series(np.where(none, 0, place))).set(pl.Series(none), None)

    def at_end(self, name: str) -> pl.Series:
        """The value of the last row, known or not; any type."""
        return self._frame.get_column(name).gather(self.ends - 1)

    def is_unknown(self, name: str) -> bool:
        """Is the column null in every row?"""
        column = self._frame.get_column(name)
        return column.null_count() == len(column)

    def nothing(self, name: str) -> pl.Series:
        """A null for each run."""
        return pl.Series(name, [None], dtype=self._frame.schema[name]).new_from_index(0, len(self.starts))

    def _values(self, name: str) -> tuple[Array, Array | None]:
        if name not in self._read:
            column = self._frame.get_column(name).rechunk()
            if column.null_count():
                known = column.is_not_null().to_numpy()
                self._read[name] = column.fill_null(0).to_numpy(), known
            else:
                self._read[name] = column.to_numpy(), None
        return self._read[name]

    def _count(self, name: str) -> Array:
        if name not in self._counts:
            _, known = self._values(name)
            plain = self.ends - self.starts
            self._counts[name] = plain if known is None else np.add.reduceat(known, self.starts, dtype=np.int64)
        return self._counts[name]

    def _sum(self, name: str) -> Array:
        values, _ = self._values(name)
        total: Array = np.add.reduceat(values, self.starts, dtype=np.float64)
        return total

    def _told(self, name: str, values: Array) -> pl.Series:
        series = pl.Series(values)
        _, known = self._values(name)
        return series if known is None else series.set(pl.Series(self._count(name) == 0), None)
