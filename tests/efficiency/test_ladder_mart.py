"""mart.ladder: rungs in order, shares that sum to one, MFU on the productive rung."""

from __future__ import annotations

import datetime as dt

import pytest
from marts.tables import database, mart

from assets.ladder import RUNGS

DAY = dt.date(2026, 3, 2)
HOUR = 3_600_000_000


def row(rung: str, hours: float, job: str = "", attempt: int = 0) -> dict:
    return {
        "date": DAY,
        "job_id": job,
        "attempt": attempt,
        "rung": rung,
        "gpu_us": round(hours * HOUR),
        "source": "ladder",
    }


def test_rungs_in_order_with_shares_of_the_day():
    rows = [
        row("productive", 6, "a"),
        row("productive", 2, "b"),
        row("down", 3),
        row("rollback", 1, "a"),
        row("unallocated", 12),
    ]
    out = mart(database(telemetry__ladder_daily=rows), "ladder")
    out.sort(key=lambda r: r["rung_order"])
    assert [r["rung"] for r in out] == ["down", "unallocated", "rollback", "productive"]
    assert [r["share_ratio"] for r in out] == [3 / 24, 0.5, 1 / 24, 8 / 24]
    assert sum(r["share_ratio"] for r in out) == pytest.approx(1, abs=1e-15)
    assert [r["up_to_here_ratio"] for r in out] == [3 / 24, 15 / 24, 16 / 24, 1.0]
    assert (out[-1]["gpu_hours"], out[-1]["jobs"], out[0]["jobs"]) == (8, 2, 0)
    assert (out[-1]["mfu_ratio"], out[-1]["mfu_known_ratio"]) == (None, 0)


def test_every_computed_rung_has_its_place():
    rows = [row(r, 1) for r in RUNGS]
    assert {r["rung"] for r in mart(database(telemetry__ladder_daily=rows), "ladder")} == set(RUNGS)
