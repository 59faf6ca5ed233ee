"""DuckDB DDL of a declaration: columns, types and comments.

Belongs here: text that creates tables and comments. Does not belong here: filling them (`publish.py`). There are
no primary keys: in DuckDB they cost a factor of five on load, and the gate has already checked uniqueness.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from sqlmodel import SQLModel

from warehouse.schema.declare import FactVersions, Provenance, polars_type, qualified_name, table_of

_TYPES: dict[type[pl.DataType], str] = {
    pl.String: "VARCHAR",
    pl.Int64: "BIGINT",
    pl.Int32: "INTEGER",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.Date: "DATE",
    pl.Datetime: "TIMESTAMPTZ",
}


def published_columns(model: type[SQLModel]) -> list[str]:
    """Columns in the order analysts see: the table's own, provenance, then what publish computes."""
    names = [c.name for c in table_of(model).columns]
    return sorted(names, key=lambda n: (n in FactVersions.model_fields) * 2 + (n in Provenance.model_fields))


def duckdb_type(model: type[SQLModel], column: str) -> str:
    """DuckDB type of a declared column."""
    kind = polars_type(table_of(model).columns[column])
    if isinstance(kind, pl.Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _TYPES[type(kind)]


def create_table(model: type[SQLModel]) -> str:
    """`create table` with every declared column."""
    body = ", ".join(f'"{c}" {duckdb_type(model, c)}' for c in published_columns(model))
    return f"create table {qualified_name(model)} ({body})"


def comments(model: type[SQLModel], what: str = "table") -> Iterator[str]:
    """`comment on` statements for the table (or `view`) and its columns."""
    table = table_of(model)
    yield f"comment on {what} {qualified_name(model)} is {quoted(table.comment or '')}"
    for column in table.columns:
        yield f'comment on column {qualified_name(model)}."{column.name}" is {quoted(column.comment or "")}'


def quoted(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
