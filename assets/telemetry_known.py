"""Which samples the lake holds already, asked only of files that could hold them.

Belongs here: the look at a table's files by their statistics, and the anti-join. Does not belong here: segments and
their ids, which make a repeat rare; this is for what ids cannot see: one sample in two segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import polars as pl

from warehouse.lake import Lake
from warehouse.schema.declare import key_of
from warehouse.schema.telemetry import GpuSample

_BOUNDS: Final = ("sampled_at", "cluster", "node")


def bounds(rows: pl.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Lowest and highest value of each column; text, which may be held as numbers, in its own order."""
    told = {name: rows.get_column(name) for name in columns}
    values = [c.unique().cast(pl.String) if c.dtype == pl.Categorical else c for c in told.values()]
    return [tuple(v.min() for v in values), tuple(v.max() for v in values)]


class Known:
    """The samples table as it was at one version. Safe to use from several threads."""

    def __init__(self, lake: Lake) -> None:
        table = lake.open(GpuSample)
        self.version: int = table.version()
        self._root: Path = lake.path(GpuSample)
        files = pl.DataFrame(table.get_add_actions(flatten=True))
        missing = [
            pl.lit(None, pl.Datetime("us", "UTC") if column == "sampled_at" else pl.String).alias(name)
            for column in _BOUNDS
            for name in (f"min.{column}", f"max.{column}")
            if name not in files.columns
        ]
        self._files = files.with_columns(missing)

    def near(self, rows: pl.DataFrame) -> list[Path]:
        """Files that could hold rows with the keys of these, by their statistics."""
        if self._files.is_empty():
            return []
        low, high = bounds(rows, _BOUNDS)
        apart = pl.any_horizontal(
            bound
            for column, first, last in zip(_BOUNDS, low, high, strict=True)
            for bound in (pl.col(f"max.{column}") < pl.lit(first), pl.col(f"min.{column}") > pl.lit(last))
        )
        names = self._files.filter(~apart.fill_null(value=False)).get_column("path").to_list()
        return [self._root / unquote(name) for name in names]

    def action_of(self, path: Path) -> tuple[str, int]:
        """A file's name as the table's log has it, and its size in bytes."""
        names = self._files.select("path", "size_bytes").iter_rows()
        return next((name, size) for name, size in names if self._root / unquote(name) == path)

    def without_known(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows whose key the table does not hold, in their order."""
        near = self.near(rows)
        if not near:
            return rows
        low, high = bounds(rows, _BOUNDS)
        key = key_of(GpuSample)
        there = (
            pl.scan_parquet(near, hive_partitioning=False)
            .filter(pl.col("sampled_at").is_between(low[0], high[0]))
            .filter(pl.col("node").is_between(pl.lit(low[2]), pl.lit(high[2])))
            .select(pl.col(name).cast(rows.schema[name]) for name in key)
            .collect()
        )
        return rows.join(there, on=key, how="anti", maintain_order="left") if there.height else rows
