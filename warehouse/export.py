"""Export: a copy of the published file that needs nothing of this home.

Belongs here: copying tables and views into files. Does not belong here: what is published.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

from warehouse.ddl import quoted
from warehouse.errors import WarehouseError
from warehouse.home import Home
from warehouse.publish import SCHEMAS, STORAGE_VERSION

ONE_FILE_A_TABLE = ("parquet", "csv")
OWN = ".almanac-export"  # in the folder: the files that are ours to replace
XLSX_MAX_ROWS = 1_048_575


def export(home: Home, folder: Path, form: str, *, everything: bool = False, overwrite: bool = False) -> list[Path]:
    """Write every table and view into `folder`; returns the files. Raises `WarehouseError`.

    Rows of sources whose licence does not allow giving them to others are left out unless `everything`. Files that
    an export wrote before are replaced, each whole; other files of the same name only with `overwrite`.
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
        files = {n: folder / f"{n}.{form}" for n in names} if form in ONE_FILE_A_TABLE else {}
        whole = folder / f"warehouse.{form}"
        targets = list(files.values()) or [whole]
        _may_write(home, targets, overwrite=overwrite)
        try:
            for name, file in files.items():
                _whole(file, partial(_file, con, selects[name], form))
            if not files:
                _whole(whole, partial(_duckdb if form == "duckdb" else _workbook, con, selects))
        except duckdb.Error as error:
            raise WarehouseError(f"cannot export to {folder}: {' '.join(str(error).split())[:300]}") from error
    _own(folder, targets)
    return targets


def _may_write(home: Home, files: list[Path], *, overwrite: bool) -> None:
    there = [f for f in files if f.exists()]
    if any(f.resolve() == home.database.resolve() for f in there):
        raise WarehouseError(f"{home.database} is the published file itself; choose another place with --to")
    others = [f for f in there if f.name not in _owned(f.parent)]
    if others and not overwrite:
        more = f", and {len(others) - 1} more" if len(others) > 1 else ""
        raise WarehouseError(
            f"{others[0]} is there already{more}, and no export wrote it; replace with --overwrite, "
            "or choose another place with --to"
        )


def _owned(folder: Path) -> set[str]:
    """Names of the files that exports wrote into a folder."""
    try:
        return set((folder / OWN).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return set()


def _own(folder: Path, files: list[Path]) -> None:
    names = sorted({*_owned(folder), *(f.name for f in files)})
    _whole(folder / OWN, lambda part: part.write_text("\n".join(names) + "\n", encoding="utf-8"))


def _whole(target: Path, write: Callable[[Path], object]) -> None:
    """Write beside the target and move into place, so that nobody reads a part."""
    part = target.with_name(f".{os.getpid()}-{target.name}")
    part.unlink(missing_ok=True)
    try:
        write(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


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


def _duckdb(con: duckdb.DuckDBPyConnection, selects: dict[str, str], path: Path) -> None:
    con.execute(f"attach {quoted(str(path))} as copy (storage_version {quoted(STORAGE_VERSION)})")
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


def _file(con: duckdb.DuckDBPyConnection, select: str, form: str, path: Path) -> None:
    options = "format parquet, compression zstd" if form == "parquet" else "format csv, header"
    con.execute(f"copy ({select}) to {quoted(str(path))} ({options})")


def _workbook(con: duckdb.DuckDBPyConnection, selects: dict[str, str], path: Path) -> None:
    """One sheet a table. Text is written as text: a cell that starts with `=` must not become a formula."""
    import xlsxwriter

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


def _cell(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return "" if value is None or value != value else value  # noqa: PLR0124 - NaN differs from itself
    return str(value)
