"""Bills from the lake to mart.cost_monthly and mart.cost_focus: exact sums, months of a zone, unread time as such."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from marts.tables import database, mart

from assets.bills import bills
from assets.ladder_lake import update_ladder
from efficiency.lake_rows import put
from warehouse.lake import Lake
from warehouse.schema import tables

# Kolkata is 5:30 ahead: its April begins at 18:30 UTC on 31 March.
ZONE = "Asia/Kolkata"
DAY = dt.datetime(2026, 3, 31, tzinfo=dt.UTC)
APRIL = DAY + dt.timedelta(hours=18, minutes=30)
FIRST = {"valid_from_date": dt.date(2026, 1, 1), "time_zone": ZONE, "known_at": DAY, "source": "cost-model"}
SERVERS = {"pool": "servers", "method": "monthly", "category": "compute", "monthly_usd": 1_000.0, "gpus": 4.0, **FIRST}
POWER = {
    "pool": "power",
    "method": "energy",
    "category": "power",
    "energy_usd_per_kwh": 0.3,
    "pue_ratio": 1.25,
    **FIRST,
}
AUTHORITIES = {"slurm": "primary", "cost-model": "primary"}
HOUR_US = 3_600_000_000


def at(hours: float) -> dt.datetime:
    return DAY + dt.timedelta(hours=hours)


@pytest.fixture
def lake(home: Path) -> Lake:
    """Two GPUs of four paid for, read for one UTC day; job a holds G0 from hour 12 to 24 at 600 W, G1 idles at 100 W."""
    lake = Lake(home / "lake")
    put(lake, "ref.cost_pools", [SERVERS, POWER])
    put(lake, "telemetry.inventory", [{"valid_from": at(-9), "gpu_uuid": g} for g in ("G0", "G1")])
    put(lake, "telemetry.jobs", [{"scheduler": "slurm", "job_id": "a", "attempt": 0, "state": "completed", "account": "llm",
                                  "user_name": "mia", "started_at": at(12), "ended_at": at(24), "known_at": at(24), "source": "slurm"}])  # fmt: skip
    put(lake, "telemetry.job_gpus", [{"job_id": "a", "attempt": 0, "gpu_uuid": "G0", "from_at": at(12), "to_at": at(24),
                                      "share_ratio": 1.0, "known_at": at(24), "source": "slurm"}])  # fmt: skip
    hours = [
        {"hour_at": at(n), "date": DAY.date(), "gpu_uuid": g, "seconds_covered": 3600.0, "sample_count": 60,
         "energy_j": 3600.0 * (600.0 if g == "G0" and n >= 12 else 100.0)}
        for g in ("G0", "G1") for n in range(24)
    ]  # fmt: skip
    put(lake, "telemetry.gpu_hours", hours)
    put(
        lake,
        "telemetry.gpu_minutes",
        [{"minute_at": at(0), "date": DAY.date(), "gpu_uuid": "G0", "seconds_covered": 60.0}],
    )
    assert update_ladder(lake, AUTHORITIES) == 1
    return lake


def test_the_month_is_cut_at_midnight_of_the_zone(lake: Lake):
    rungs = lake.scan(tables()["telemetry.ladder_daily"]).collect()
    took = {(r["billing_month_date"].month, r["rung"]): r["gpu_us"] for r in rungs.to_dicts()}
    assert took == {
        (3, "unlogged"): round(6.5 * HOUR_US),
        (3, "unallocated"): round((2 * 18.5 - 6.5) * HOUR_US),
        (4, "unlogged"): round(5.5 * HOUR_US),
        (4, "unallocated"): round(5.5 * HOUR_US),
    }


def test_bills_by_hand(lake: Lake):
    bill = bills(lake, AUTHORITIES)
    cost = {
        (r["month_date"].month, r["pool"], r["user_name"], r["rung"]): r["cost_micro_usd"] / 1e6
        for r in bill.to_dicts()
    }
    # April so far: 5.5 of 720 hours; two GPUs of four were read
    april = 1_000 * 5.5 / 720
    assert cost[4, "servers", "", "not_read"] == pytest.approx(april / 2, abs=1e-6)
    assert cost[4, "servers", "mia", "unlogged"] == pytest.approx(april / 4, abs=1e-6)
    assert cost[4, "servers", "", "unallocated"] == pytest.approx(april / 4, abs=1e-6)
    # electricity: 5.5 h x 0.6 kW and 5.5 h x 0.1 kW
    assert cost[4, "power", "mia", "unlogged"] == pytest.approx(3.3 * 1.25 * 0.3, abs=1e-6)
    assert cost[4, "power", "", "unallocated"] == pytest.approx(0.55 * 1.25 * 0.3, abs=1e-6)
    # March: of 744 hours 18.5 were read, on two GPUs of four
    assert cost[3, "servers", "", "not_read"] == pytest.approx(1_000 * (1 - 18.5 / 744 / 2), abs=1e-6)
    assert cost[3, "power", "mia", "unlogged"] == pytest.approx(6.5 * 0.6 * 1.25 * 0.3, abs=1e-6)
    assert cost[3, "power", "", "unallocated"] == pytest.approx((12 + 18.5) * 0.1 * 1.25 * 0.3, abs=1e-6)
    totals = dict(
        bill.filter(pl.col("pool") == "servers").group_by("month_date").agg(pl.col("cost_micro_usd").sum()).rows()
    )
    assert totals == {dt.date(2026, 3, 1): 1_000_000_000, dt.date(2026, 4, 1): round(april * 1e6)}


def test_the_marts_sum_exactly_and_show_idle(lake: Lake):
    con = database(telemetry__bill_monthly=bills(lake, AUTHORITIES).to_dicts())
    monthly, focus = mart(con, "cost_monthly"), mart(con, "cost_focus")
    for month in (dt.date(2026, 3, 1), dt.date(2026, 4, 1)):
        own = [r for r in monthly if r["month_date"] == month]
        assert sum((r["cost_usd"] for r in own), Decimal(0)) == own[0]["total_usd"]
        assert all(r["power_usd"] + r["other_usd"] == r["cost_usd"] for r in own)
    assert sum(r["BilledCost"] for r in focus) == sum(r["cost_usd"] for r in monthly)
    assert {r["rung"]: r["is_idle"] for r in monthly} == {"unlogged": False, "unallocated": True, "not_read": False}
    assert {r["account"] for r in monthly} == {None, "llm"}
    april = [r for r in focus if r["BillingPeriodStart"] == APRIL]
    assert {r["BillingPeriodEnd"] for r in april} == {dt.datetime(2026, 4, 30, 18, 30, tzinfo=dt.UTC)}
    tags = [json.loads(r["Tags"]) for r in april]
    assert {"user": "mia", "project": None, "rung": "unlogged", "category": "power", "is_synthetic": False} in tags


def test_the_scheduler_says_who_is_charged_not_the_log(lake: Lake):
    told = {
        "scheduler": "none",
        "job_id": "a",
        "attempt": 0,
        "state": "unknown",
        "known_at": at(1),
        "source": "training-log",
    }
    put(lake, "telemetry.jobs", [told])
    bill = bills(lake, {**AUTHORITIES, "training-log": "primary"})
    assert set(bill.filter(pl.col("rung") == "unlogged")["account"]) == {"llm"}


def test_no_cost_model_no_bill(home: Path):
    assert bills(Lake(home / "lake"), {}).is_empty()
