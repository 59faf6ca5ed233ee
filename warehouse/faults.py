"""Fault points: named places where a test may kill the process.

Belongs here: the hook. Does not belong here: any behaviour; without the variable this does nothing.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "ALMANAC_FAULT"
POINTS = (
    "archive:blob-written",
    "land:quarantine-written",
    "land:candidate-written",
    "land:gate-passed",
    "land:committed",
    "ingest:committed-one-table",
    "ingest:before-retire",
    "rollup:minutes-committed",
    "publish:ledger-written",
    "publish:built",
    "publish:swapped",
)


def fault_point(name: str) -> None:
    """Die by SIGKILL here if `ALMANAC_FAULT` names this point: no cleanup runs, as in a power cut."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
