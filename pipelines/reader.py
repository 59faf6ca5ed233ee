"""Opening the published file for reading, and writing results.

Belongs here: what every reading command needs. Does not belong here: anything that writes the warehouse.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from warehouse.errors import WarehouseError
from warehouse.home import Home


@contextmanager
def connect(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection in UTC that also works after the home has moved."""
    if not home.database.exists():
        raise WarehouseError(f"{home.database} does not exist yet; run `almanac run` first (or give --home)")
    try:
        con = duckdb.connect(str(home.database), read_only=True)
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


def write_result(relation: duckdb.DuckDBPyRelation, form: str, out: Path | None) -> None:
    """Write a result as table, csv, json or parquet, to `out` (replaced whole) or standard output."""
    if out is None:
        _print(relation, form)
        return
    handle, name = tempfile.mkstemp(dir=out.parent or Path(), prefix=f".{out.name}.")
    os.close(handle)
    part = Path(name)
    try:
        if form == "parquet":
            relation.write_parquet(str(part))
        elif form == "csv":
            relation.write_csv(str(part), header=True)
        else:
            part.write_text("".join(_lines(relation, form)), encoding="utf-8")
        part.chmod(0o644)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _print(relation: duckdb.DuckDBPyRelation, form: str) -> None:
    for text in _lines(relation, form):
        sys.stdout.write(text)


def _lines(relation: duckdb.DuckDBPyRelation, form: str) -> Iterator[str]:
    if form == "table":
        width = shutil.get_terminal_size((200, 50)).columns if sys.stdout.isatty() else 10_000
        relation.show(max_width=width, max_rows=10_000, max_col_width=80)
        return
    if form == "csv":
        yield from _csv(relation)
        return
    yield "[\n"
    names, first = relation.columns, True
    while rows := relation.fetchmany(10_000):
        for row in rows:
            yield ("" if first else ",\n") + json.dumps(dict(zip(names, row, strict=True)), default=_plain)
            first = False
    yield "\n]\n"


def _csv(relation: duckdb.DuckDBPyRelation) -> Iterator[str]:
    import csv
    import io

    def line(values: Any) -> str:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerow(values)
        return buffer.getvalue()

    yield line(relation.columns)
    while rows := relation.fetchmany(10_000):
        for row in rows:
            yield line([_plain(v) if hasattr(v, "isoformat") else v for v in row])


def _plain(value: object) -> object:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
