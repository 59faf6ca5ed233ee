"""Opening the published file for reading, and writing results.

Belongs here: what every reading command needs. Does not belong here: anything that writes the warehouse.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from warehouse.errors import WarehouseError
from warehouse.home import Home

# What only asks. PIVOT is several statements to DuckDB, and one to who writes it.
QUERIES = ("SELECT", "EXPLAIN", "PRAGMA", "CALL", "MULTI")
_EXPLAINED = re.compile(r"\s*explain\s+(?:analyze\s+)?(?:\([^)]*\)\s*)?", re.IGNORECASE)
CHUNK = 10_000
WIDE = 10_000


@contextmanager
def connect(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection in UTC that also works after the home has moved."""
    published = home.published()
    try:
        con = duckdb.connect(str(published), read_only=True)
    except duckdb.Error as error:
        raise WarehouseError(
            f"{home.database} cannot be opened ({' '.join(str(error).split())[:160]}); "
            "it was made by another version or is damaged: `almanac run` builds it again from the lake"
        ) from error
    try:
        con.execute("set TimeZone = 'UTC'")
        con.execute("set variable home = ?", [f"{home.root}/"])
        if not con.sql("select 1 from duckdb_tables() where schema_name = 'ops' and table_name = 'build'").fetchall():
            raise WarehouseError(
                f"{home.database} is not a published warehouse of this version; `almanac run` builds it again"
            )
        yield con
    finally:
        con.close()


def only_query(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """The one query that the text holds. Raises `WarehouseError` for none, for several, and for what writes."""
    found = con.extract_statements(text)
    if not found:
        raise WarehouseError('no query given; try almanac sql "show all tables"')
    if len(found) > 1:
        raise WarehouseError(f"almanac sql takes one query, and this text holds {len(found)}; ask them one at a time")
    query: str = found[0].query
    kind = found[0].type.name
    if kind == "EXPLAIN":
        # EXPLAIN ANALYZE runs what it explains.
        only_query(con, _EXPLAINED.sub("", query, count=1))
    if kind in ("COPY", "EXPORT"):
        raise WarehouseError(
            f"almanac sql is read-only and writes no file by {kind}; give the query alone with --out FILE and --format, "
            "or use `almanac export`"
        )
    if kind not in QUERIES:
        raise WarehouseError(f"almanac sql is read-only; it takes a query, not {kind}")
    return query


def write_result(con: duckdb.DuckDBPyConnection, query: str, form: str, out: Path | None) -> None:
    """Run a query and write it as table, csv, json or parquet, to `out` (replaced whole) or standard output.

    Raises `WarehouseError` where `out` cannot be written.
    """
    if out is None:
        if form == "table":
            _show(con, query)
            return
        for text in _lines(con, query, form):
            sys.stdout.write(text)
        return
    try:
        _write_file(con, query, form, out)
    except OSError as error:
        raise WarehouseError(
            f"cannot write {out}: {error.strerror or error}; choose another place with --out"
        ) from error


def _write_file(con: duckdb.DuckDBPyConnection, query: str, form: str, out: Path) -> None:
    if not out.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"there is no folder {out.parent}")
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    os.close(handle)
    part = Path(name)
    try:
        if form == "parquet":
            con.sql(query).write_parquet(str(part))
        else:
            with part.open("w", encoding="utf-8") as file:
                file.writelines(_lines(con, query, "csv" if form == "table" else form))
        part.chmod(0o644)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _show(con: duckdb.DuckDBPyConnection, query: str) -> None:
    relation = con.sql(query)
    if relation is not None:
        width = shutil.get_terminal_size((200, 50)).columns if sys.stdout.isatty() else WIDE
        relation.show(max_width=width, max_rows=WIDE, max_col_width=80)


def _lines(con: duckdb.DuckDBPyConnection, query: str, form: str) -> Iterator[str]:
    cursor = con.execute(query)
    names = [d[0] for d in cursor.description or ()]
    if not names:
        return
    rows = iter(lambda: cursor.fetchmany(CHUNK), [])
    yield from _csv(names, rows) if form == "csv" else _json(names, rows)


def _csv(names: list[str], chunks: Iterator[list[tuple[Any, ...]]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for rows in chunks:
        writer.writerows([v.isoformat() if hasattr(v, "isoformat") else v for v in row] for row in rows)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _json(names: list[str], chunks: Iterator[list[tuple[Any, ...]]]) -> Iterator[str]:
    start = "[\n"
    for rows in chunks:
        for row in rows:
            yield start + json.dumps(
                dict(zip(names, map(_plain, row), strict=True)), default=_plain, ensure_ascii=False
            )
            start = ",\n"
    yield "[]\n" if start == "[\n" else "\n]\n"


def _plain(value: Any) -> Any:
    """JSON knows no NaN, no dates and no decimals."""
    if value is None or isinstance(value, bool | int | str | list | dict):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
