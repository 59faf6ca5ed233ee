"""Views over the exact Parquet files of a Delta snapshot, for tables too large to copy.

Belongs here: SQL that reads files. Does not belong here: which tables are views (their declaration says).
The files are named relative to the home, so that a home that has moved still works: set the variable `home`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
from sqlmodel import SQLModel

from warehouse.ddl import duckdb_type, published_columns, quoted
from warehouse.lake import Lake
from warehouse.schema.declare import table_of


def view_of_files(lake: Lake, model: type[SQLModel], home: Path) -> str:
    """A select over the table's current files; empty text when it has none.

    Files written before a column was added form a group of their own: one `union_by_name` over thousands of files
    would read every footer at every query.
    """
    uris = lake.open(model).file_uris()
    if not uris:
        return ""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for uri in sorted(uris):
        path = Path(unquote(urlparse(uri).path)) if uri.startswith("file:") else Path(uri)
        groups[tuple(pq.read_schema(path).names)].append(str(path.relative_to(home)))
    partitions = list(table_of(model).info["partition_by"])
    return " union all ".join(
        _select(model, set(names) | set(partitions), paths, partitions, home) for names, paths in groups.items()
    )


def _select(model: type[SQLModel], present: set[str], paths: list[str], partitions: list[str], home: Path) -> str:
    columns = ", ".join(
        f'"{c}"::{duckdb_type(model, c)} as "{c}"' if c in present else f'null::{duckdb_type(model, c)} as "{c}"'
        for c in published_columns(model)
        if not table_of(model).columns[c].info.get("at_publish")
    )
    listed = ", ".join(quoted(p) for p in paths)
    base = quoted(str(home) + "/")
    where = f"list_transform([{listed}], lambda p: coalesce(getvariable('home'), {base}) || p)"
    hive = "hive_partitioning = false"
    if partitions:
        kinds = ", ".join(f"'{p}': {duckdb_type(model, p)}" for p in partitions)
        hive = f"hive_partitioning = true, hive_types = {{{kinds}}}"
    return f"select {columns} from read_parquet({where}, {hive})"
