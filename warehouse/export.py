"""Export: a copy of the published file that needs nothing of this home.

Belongs here: copying tables and views into files. Does not belong here: what is published.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from warehouse.ddl import quoted
from warehouse.errors import WarehouseError
from warehouse.home import Home
from warehouse.publish import SCHEMAS, STORAGE_VERSION

XLSX_MAX_ROWS = 1_048_575


def export(home: Home, folder: Path, form: str, *, everything: bool = False) -> list[Path]:
    """Write every table and view into `folder`; returns the files. Raises `WarehouseError`.

    Rows of sources whose licence does not allow giving them to others are left out unless `everything`.
    """
    published = home.published()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WarehouseError(f"cannot write in {folder}: {error.strerror}; choose another place with --to") from error
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        con.execute("set variable home = ?", [f"{home.root}/"])
        con.execute(f"attach {quoted(str(published))} as published (read_only)")
        names = _tables(con)
        selects = {n: _select(con, n, everything=everything) for n in names}
        match form:
            case "duckdb":
                return [_duckdb(con, folder, selects)]
            case "xlsx":
                return [_workbook(con, folder, selects)]
            case _:
                return [_file(con, folder, n, s, form) for n, s in selects.items()]


def _tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    listed = ", ".join(quoted(s) for s in SCHEMAS)
    rows = con.sql(
        "select schema_name || '.' || table_name from duckdb_tables() where database_name = 'published' "
        f"and schema_name in ({listed}) union all select schema_name || '.' || view_name from duckdb_views() "
        f"where database_name = 'published' and schema_name in ({listed}) order by 1"
    ).fetchall()
    return [r[0] for r in rows if r[0] != "ops.about"]


def _select(con: duckdb.DuckDBPyConnection, name: str, *, everything: bool) -> str:
    columns = con.sql(f"select * from published.{name} limit 0").columns
    select = f"select * from published.{name}"
    if everything or "source" not in columns or name.startswith("ops."):
        return select
    return f"{select} where source not in (select source from published.ops.sources where not may_republish)"


def _duckdb(con: duckdb.DuckDBPyConnection, folder: Path, selects: dict[str, str]) -> Path:
    target = folder / "warehouse.duckdb"
    part = folder / f".warehouse-{os.getpid()}.duckdb"
    part.unlink(missing_ok=True)
    con.execute(f"attach {quoted(str(part))} as copy (storage_version {quoted(STORAGE_VERSION)})")
    for schema in SCHEMAS:
        con.execute(f"create schema copy.{schema}")
    for name, select in selects.items():
        con.execute(f"create table copy.{name} as {select}")
    for _, name, column, comment in _comments(con):
        if name in selects:
            where = f'column copy.{name}."{column}"' if column else f"table copy.{name}"
            con.execute(f"comment on {where} is {quoted(comment)}")
    con.execute("use copy")
    con.execute("create view ops.about as select *, cast(null as boolean) as is_stale from ops.build")
    con.execute("use memory")
    con.execute("detach copy")
    part.replace(target)
    return target


def _comments(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str | None, str]]:
    rows: list[tuple[str, str, str | None, str]] = con.sql(
        "select 'table', schema_name || '.' || table_name, null, comment from duckdb_tables() "
        "where database_name = 'published' and comment is not null "
        "union all select 'view', schema_name || '.' || view_name, null, comment from duckdb_views() "
        "where database_name = 'published' and comment is not null and not internal "
        "union all select 'column', schema_name || '.' || table_name, column_name, comment from duckdb_columns() "
        "where database_name = 'published' and comment is not null"
    ).fetchall()
    return rows


def _file(con: duckdb.DuckDBPyConnection, folder: Path, name: str, select: str, form: str) -> Path:
    path = folder / f"{name}.{form}"
    options = "format parquet, compression zstd" if form == "parquet" else "format csv, header"
    con.execute(f"copy ({select}) to {quoted(str(path))} ({options})")
    return path


def _workbook(con: duckdb.DuckDBPyConnection, folder: Path, selects: dict[str, str]) -> Path:
    """One sheet a table. Text is written as text: a cell that starts with `=` must not become a formula."""
    import xlsxwriter

    path = folder / "warehouse.xlsx"
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(path, options) as book:
        for name, select in selects.items():
            sheet = book.add_worksheet(name[-31:])
            cursor = con.execute(select)
            sheet.write_row(0, 0, [d[0] for d in cursor.description or ()])
            row = 0
            while (rows := cursor.fetchmany(10_000)) and row < XLSX_MAX_ROWS:
                for values in rows[: XLSX_MAX_ROWS - row]:
                    row += 1
                    sheet.write_row(row, 0, [_cell(v) for v in values])
    return path


def _cell(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return "" if value is None or value != value else value  # noqa: PLR0124 - NaN differs from itself
    return str(value)
