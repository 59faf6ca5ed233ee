"""Fault points: named places where a test may kill the process.

Belongs here: the hook. Does not belong here: any behaviour; without the variable this does nothing.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "ALMANAC_FAULT"
POINTS = (
    "archive:blob-written",
    "land:quarantine-written",
    "land:candidate-written",
    "land:gate-passed",
    "land:committed",
    "ingest:committed-one-table",
    "ingest:late-parts-filled",
    "ingest:before-retire",
    "maintenance:rewritten",
    "rollup:minutes-committed",
    "growth:span-committed",
    "publish:ledger-written",
    "publish:built",
    "publish:swapped",
)


_passed: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Die by SIGKILL here if `ALMANAC_FAULT` names this point: no cleanup runs, as in a power cut.

    `name#3` dies where the point is passed for the third time.
    """
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    _passed[name] += 1
    if wanted in (name, f"{name}#{_passed[name]}"):
        os.kill(os.getpid(), signal.SIGKILL)
