"""Start-up imports only what the command needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

HEAVY = ("dagster", "great_expectations", "pandas", "sqlmodel", "polars", "deltalake")


def modules_after(*arguments: str) -> set[str]:
    script = (
        "import sys\n"
        "from pipelines.cli import almanac, guarded\n"
        f"code = guarded(lambda: almanac(args={list(arguments)!r}, standalone_mode=False))\n"
        "print('\\n@' + str(code) + ' ' + ' '.join(m for m in sys.modules if '.' not in m))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, *modules = done.stdout.rsplit("\n@", 1)[1].split()
    assert code == "0", done.stderr
    return set(modules)


def test_help_imports_nothing_heavy() -> None:
    assert modules_after("--help").isdisjoint({*HEAVY, "duckdb", "httpx"})


def test_sql_imports_duckdb_and_little_else(home: Path) -> None:
    with duckdb.connect(str(home / "warehouse.duckdb")) as con:
        con.execute("create schema ops; create table ops.build (build_id text)")
    loaded = modules_after("sql", "select 1", "--home", str(home))
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "command", ["run", "load", "check", "ingest", "report", "export", "collect", "sources", "mfu", "synthetic"]
)
def test_help_of_every_command_is_light(command: str) -> None:
    assert modules_after(command, "--help").isdisjoint({*HEAVY, "duckdb", "httpx"})
