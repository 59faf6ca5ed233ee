"""Content hashes of published tables: do two files say the same, whatever their bytes?

Belongs here: hashing. Does not belong here: deciding what must be equal. The hash does not depend on row order.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import duckdb

from warehouse.ddl import quoted

CONTENT = ("ref", "telemetry", "market", "mart")


def fingerprint(database: Path, *, without: Collection[str] = ()) -> dict[str, str]:
    """`schema.table` → row count and hash, for the schemas that hold content. `without` names columns to leave out."""
    listed = ", ".join(quoted(s) for s in CONTENT)
    with duckdb.connect(str(database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        con.execute("set variable home = ?", [f"{database.parent}/"])
        names = con.sql(
            f"select schema_name || '.' || table_name from duckdb_tables() where schema_name in ({listed}) "
            f"union all select schema_name || '.' || view_name from duckdb_views() where schema_name in ({listed}) "
            "order by 1"
        ).fetchall()
        return {name: _one(con, name, without) for (name,) in names}


def _one(con: duckdb.DuckDBPyConnection, name: str, without: Collection[str]) -> str:
    columns = [c for c in con.sql(f"select * from {name} limit 0").columns if c not in without]
    listed = ", ".join(f'"{c}"' for c in columns)
    # XOR would let equal rows cancel out; the sum of 64-bit hashes does not.
    count, total = con.sql(f"select count(*), coalesce(sum(hash({listed})), 0) from {name}").fetchall()[0]
    return f"{count}:{int(total) % (1 << 64):016x}"
