"""kill -9 at every stage boundary of land and publish, then run again: as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.fakes import POINTS

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.core.kill_harness", str(tmp_path_factory.mktemp("kill"))],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_ends_like_an_uninterrupted_one(outcomes: dict[str, Any], point: str) -> None:
    assert outcomes[point]["killed"] == 9, f"{point} was not reached"
    assert outcomes[point]["ended"] == 0
    for what in ("tables", "ledger", "quarantine"):
        assert outcomes[point][what] == outcomes["uninterrupted"][what]


def test_the_uninterrupted_run_is_what_it_should_be(outcomes: dict[str, Any]) -> None:
    """4 + 6 figures and one absurd one: 11 read, 10 landed (two vintages of 4 periods), 1 refused."""
    assert outcomes["uninterrupted"]["ledger"] == [11, 10, 1, 0]
    assert outcomes["uninterrupted"]["quarantine"] == 1
