"""Reading the published file for the report.

Belongs here: is a table there, rows as dictionaries. Does not belong here: any query of a section.
"""

from __future__ import annotations

from typing import Any

import duckdb

Row = dict[str, Any]


class Reader:
    """A read-only view of one published file, in UTC."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        """Take over a connection; it is not closed here."""
        self._con = con
        con.execute("set TimeZone = 'UTC'")
        found = con.execute("select table_schema || '.' || table_name from information_schema.tables").fetchall()
        self.tables = frozenset(name for (name,) in found)

    def has(self, table: str) -> bool:
        """Is the table there with at least one row?"""
        return table in self.tables and bool(self._con.execute(f"select 1 from {table} limit 1").fetchall())

    def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Rows as dictionaries, in the query's order."""
        found = self._con.execute(sql, parameters) if parameters else self._con.execute(sql)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def one(self, sql: str, **parameters: object) -> Row:
        """The first row, or an empty dictionary."""
        return next(iter(self.rows(sql, **parameters)), {})
