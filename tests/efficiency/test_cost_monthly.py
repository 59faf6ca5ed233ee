"""A month's bill from ladder, energy and pools: idle shown, nothing lost."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from assets.cost import month_bounds
from assets.cost_monthly import energy_by_job, month_bill, month_usage

MONTH = dt.date(2026, 3, 1)
BOUNDS = month_bounds(MONTH, MONTH, "Asia/Kolkata")  # begins at half past an hour
START, END = BOUNDS["from_us"][0], BOUNDS["to_us"][0]
HOUR = 3_600_000_000


def hours(gpu: str, first_us: int, count: int, watts: float) -> list[dict]:
    first = dt.datetime.fromtimestamp(first_us / 1e6, dt.UTC).replace(minute=0)
    return [
        {"cluster": "c", "gpu_uuid": gpu, "hour_at": first + dt.timedelta(hours=n), "energy_j": 3600 * watts}
        for n in range(count)
    ]


def stays(rows: list[tuple]) -> pl.DataFrame:
    names = ["cluster", "gpu_uuid", "from_us", "to_us", "job_id", "attempt", "share_ratio"]
    return pl.DataFrame(rows, schema=names, orient="row")


def test_energy_of_jobs_and_of_nobody():
    held = stays(
        [
            ("c", "G0", START, START + HOUR * 5 // 2, "a", 0, 1.0),
            ("c", "G0", START + 3 * HOUR, START + 4 * HOUR, "b", 0, 0.5),
        ]
    )
    frame = pl.DataFrame(hours("G0", START, 6, 600.0))  # half an hour before the month, and five and a half of it
    out = {r["job_id"]: r["energy_j"] for r in energy_by_job(frame, held, START, END).to_dicts()}
    assert out["a"] == pytest.approx(2.5 * 3600 * 600)
    assert out["b"] == pytest.approx(0.5 * 3600 * 600)
    assert out[None] == pytest.approx((5.5 - 3) * 3600 * 600)


def rungs() -> pl.DataFrame:
    rows = [
        ("c", "a", 0, "productive", 60 * HOUR), ("c", "a", 0, "allocated_idle", 20 * HOUR), ("c", "b", 0, "unlogged", 10 * HOUR),
        ("c", None, None, "unallocated", 600 * HOUR), ("c", None, None, "down", 30 * HOUR + 7),
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=["cluster", "job_id", "attempt", "rung", "gpu_us"], orient="row")


JOBS = pl.DataFrame(
    [("c", "a", 0, "acc", "mia", "p"), ("c", "b", 0, "acc", "noa", "q")],
    schema=["cluster", "job_id", "attempt", "account", "user_name", "project"], orient="row",
)  # fmt: skip
ENERGY = pl.DataFrame(
    [("c", "a", 0, 7.2e8), ("c", "b", 0, 1.8e8), ("c", None, None, 0.9e8)],
    schema=["cluster", "job_id", "attempt", "energy_j"], orient="row",
)  # fmt: skip
POOLS = pl.DataFrame(
    [
        {"pool": "servers", "method": "monthly", "category": "compute", "valid_from_date": dt.date(2025, 1, 1), "monthly_usd": 7_777.77},
        {"pool": "power", "method": "energy", "category": "power", "valid_from_date": dt.date(2025, 1, 1), "energy_usd_per_kwh": 0.3,
         "pue_ratio": 1.25},
    ]
)  # fmt: skip


def test_the_bill_sums_exactly_and_shows_idle():
    usage = month_usage(rungs(), JOBS, ENERGY, MONTH)
    assert usage["energy_j"].sum() == pytest.approx(9.9e8)
    bill = month_bill(POOLS, usage, MONTH, "Asia/Kolkata")
    power = round(9.9e8 / 3.6e6 * 1.25 * 0.3 * 1e6)
    assert bill["cost_micro_usd"].sum() == 7_777_770_000 + power
    found = {(r["user_name"], r["rung"]): r["cost_usd"] for r in bill.to_dicts()}
    whole = 720 * HOUR + 7
    assert found["noa", "unlogged"] == pytest.approx(7_777.77 * 10 * HOUR / whole + power / 1e6 * 1.8 / 9.9, abs=2e-6)
    assert found["mia", "allocated_idle"] == pytest.approx(
        7_777.77 * 20 * HOUR / whole + power / 1e6 * 7.2 / 4 / 9.9, abs=2e-6
    )
    assert set(found) == {
        ("mia", "productive"),
        ("mia", "allocated_idle"),
        ("noa", "unlogged"),
        (None, "unallocated"),
        (None, "down"),
    }
