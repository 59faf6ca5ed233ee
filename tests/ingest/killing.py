"""Processes that ingest, roll up and publish a home, and may be killed on the way.

One server imports everything once; each process is forked from it before any thread of ours exists.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
from pathlib import Path
from typing import Any

from warehouse.home import Home

HEAVY = (
    "assets.ingest",
    "assets.publish",
    "assets.rollup",
    "great_expectations",
    "great_expectations.expectations",
    "ingest.killing",
    "warehouse.fingerprint",
    "warehouse.quality.gx",
)


def _server() -> Any:
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(list(HEAVY))
    return context


def settle(home: Home, fault: str = "") -> int:
    """Ingest, roll up and publish in a process of its own; its exit code (-9: killed at the fault point)."""
    process = start(home, fault)
    process.join()
    return int(process.exitcode)


def start(home: Home, fault: str = "") -> Any:
    """The same without waiting."""
    process = _server().Process(target=_work, args=(str(home.root), fault))
    process.start()
    return process


def hashes(home: Home) -> dict[str, str]:
    """Content of every published table, as the last finished process left it."""
    found: dict[str, str] = json.loads((home.root / "hashes.json").read_text())
    return found


def _work(root: str, fault: str) -> None:
    from assets.ingest import ingest
    from assets.publish import publish_home
    from assets.rollup import roll_up
    from warehouse import publish as publishing
    from warehouse.faults import VARIABLE
    from warehouse.fingerprint import fingerprint
    from warehouse.schema import tables

    os.environ[VARIABLE] = fault
    # What ingest fills and the ledgers; the other tables are empty here, and marts follow from tables.
    wanted = {n: m for n, m in tables().items() if n.split(".")[0] in ("telemetry", "ops")}
    publishing.tables = lambda: wanted  # type: ignore[assignment]
    publishing.marts = list  # type: ignore[assignment]
    home = Home(Path(root))
    ingest(home)
    roll_up(home)
    publish_home(home)
    (home.root / "hashes.json").write_text(json.dumps(fingerprint(home.database)))
