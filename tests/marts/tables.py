"""Hand-made published tables for tests of marts: rows given as dictionaries, other columns null or a default."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import duckdb
import sqlalchemy as sa
from sqlmodel import SQLModel

from warehouse.ddl import create_table
from warehouse.marts import marts
from warehouse.schema import tables
from warehouse.schema.declare import table_of

DEFAULTS: Mapping[str, object] = {
    "cluster": "c1",
    "node": "n1",
    "source": "nvml",
    "is_synthetic": False,
    "known_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "is_latest": True,
    "is_preferred": True,
    "source_rank": 2,
}


def at(text: str) -> dt.datetime:
    """An instant in UTC."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def on(text: str) -> dt.date:
    """A day."""
    return dt.date.fromisoformat(text)


def _filler(column: sa.Column) -> object:
    if column.name in DEFAULTS:
        return DEFAULTS[column.name]
    if column.nullable:
        return None
    kind = column.type
    if isinstance(kind, sa.DateTime):
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    if isinstance(kind, sa.Date):
        return dt.date(2026, 1, 1)
    if isinstance(kind, sa.Boolean):
        return False
    return 0 if isinstance(kind, (sa.Integer, sa.Float)) else ""


def database(path: str = ":memory:", **rows: Sequence[Mapping[str, object]]) -> duckdb.DuckDBPyConnection:
    """Every published table, empty but for `schema__table=[{column: value}, …]`."""
    con = duckdb.connect(path)
    con.execute("set TimeZone = 'UTC'")
    for schema in ("ref", "telemetry", "market", "mart", "ops"):
        con.execute(f"create schema {schema}")
    for model in tables().values():
        con.execute(create_table(model))
    for name, given in rows.items():
        fill(con, name.replace("__", "."), given)
    return con


def fill(con: duckdb.DuckDBPyConnection, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Put rows into a table. Raises `KeyError` for a column that the table does not have."""
    model: type[SQLModel] = tables()[name]
    columns = table_of(model).columns
    for row in rows:
        if unknown := set(row) - set(columns.keys()):
            raise KeyError(f"{name} has no column {sorted(unknown)}")
        values = [row.get(c.name, _filler(c)) for c in columns]
        listed = ", ".join(f'"{c.name}"' for c in columns)
        con.execute(f"insert into {name} ({listed}) values ({', '.join('?' * len(values))})", values)


def mart(con: duckdb.DuckDBPyConnection, name: str) -> list[dict[str, object]]:
    """Build a mart and what it depends on, and return its rows."""
    wanted = {m.name: m for m in marts()}

    def build(one: str) -> None:
        for needed in wanted[one].depends:
            build(needed)
        con.execute(f"create or replace table mart.{one} as {wanted[one].sql}")

    build(name)
    found = con.execute(f"select * from mart.{name}")
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
