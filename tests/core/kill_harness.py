"""Kill a load at every fault point, then let it run again. Prints, as JSON, what each ended with.

Imports once and forks: the parent never touches Polars, Delta or DuckDB, so their threads start in the children.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import great_expectations
import great_expectations.expectations  # noqa: F401

from assets.street import receive
from tests.core.fakes import POINTS, Figures, body, many, row
from tests.core.test_publish import SOURCES, link_columns
from warehouse import publish as publishing
from warehouse.faults import VARIABLE
from warehouse.fingerprint import fingerprint
from warehouse.home import Home
from warehouse.schema import tables


def scenario(root: Path) -> None:
    """Two documents, one refused row, one publish."""
    home = Home.at(root).prepare()
    source = Figures(body(*many(4), row("AAA", "FY99Q1", 9e15)), body(*many(6, known="2026-06-01")))
    receive(home, source, source.payloads())
    wanted = {n: m for n, m in tables().items() if n == "market.financials" or n.startswith("ops.")}
    publishing.tables = lambda: wanted  # type: ignore[assignment]
    publishing.marts = list  # type: ignore[assignment]
    publishing.publish(home, SOURCES, {"telemetry.link_counters": link_columns})


def child(root: Path, fault: str = "", answer: Path | None = None) -> int:
    """Run the scenario in a fork; the signal that ended it, 0 for a clean end."""
    pid = os.fork()
    if pid == 0:
        os.environ[VARIABLE] = fault
        try:
            scenario(root)
            if answer:
                answer.write_text(json.dumps(result(root)))
        except BaseException as error:  # noqa: BLE001 - the parent must hear of it
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def result(root: Path) -> dict[str, object]:
    """Content hash and ledger sums of a home."""
    import duckdb

    with duckdb.connect(str(root / "warehouse.duckdb"), read_only=True) as con:
        sums = con.sql(
            "select sum(rows_read), sum(rows_landed), sum(rows_rejected), sum(rows_duplicate) from ops.loads"
        ).fetchall()[0]
        refused = con.sql("select count(*) from ops.quarantine").fetchall()[0][0]
    return {
        "tables": fingerprint(root / "warehouse.duckdb", without=("retrieved_at",)),
        "ledger": [int(s) for s in sums],
        "quarantine": refused,
        "leftovers": sorted(p.name for p in root.glob(".publish-*")),
    }


def main(folder: Path) -> None:
    """Every point, and one uninterrupted run to compare with."""
    out: dict[str, object] = {}
    for point in ("", *POINTS):
        root, answer = folder / (point.replace(":", "-") or "uninterrupted"), folder / "answer.json"
        killed = child(root, point) if point else 9
        ended = child(root, answer=answer)
        found = json.loads(answer.read_text()) if ended == 0 else {}
        out[point or "uninterrupted"] = {"killed": killed, "ended": ended, **found}
        shutil.rmtree(root, ignore_errors=True)
    sys.stdout.write(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
