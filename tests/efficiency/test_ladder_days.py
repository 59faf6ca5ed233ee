"""The table of ladder days: what touches a day, and what leaves it as it was."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from assets.ladder_lake import update_ladder
from efficiency.lake_rows import put
from warehouse.lake import Lake
from warehouse.schema.ladder import LadderDay

MONDAY = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
AUTHORITIES = {"slurm": "primary", "training-log": "primary"}


def at(hours: float) -> dt.datetime:
    return MONDAY + dt.timedelta(hours=hours)


def minute(hours: float) -> dict:
    return {"minute_at": at(hours), "date": at(hours).date(), "gpu_uuid": "G0", "seconds_covered": 60.0}


def steps(first: int, count: int, begin_h: float, attempt: int = 0) -> list[dict]:
    """One step a minute from an hour on."""
    return [
        {"job_id": "a", "attempt": attempt, "step": first + n, "pass_number": 1, "step_seconds": 60.0, "steps_covered": 1, "segment": 0,
         "completed_at": at(begin_h) + dt.timedelta(minutes=n + 1), "known_at": at(begin_h) + dt.timedelta(minutes=n + 1), "source": "training-log"}
        for n in range(count)
    ]  # fmt: skip


def job(ended_h: float | None, attempt: int = 0, started_h: float = 12) -> dict:
    return {"scheduler": "slurm", "job_id": "a", "attempt": attempt, "state": "running" if ended_h is None else "completed",
            "started_at": at(started_h), "ended_at": None if ended_h is None else at(ended_h), "known_at": at(49 if ended_h else 48), "source": "slurm"}  # fmt: skip


def stay(attempt: int = 0, begin_h: float = 12) -> dict:
    return {"job_id": "a", "attempt": attempt, "gpu_uuid": "G0", "from_at": at(begin_h), "share_ratio": 1.0, "known_at": at(begin_h),
            "source": "slurm"}  # fmt: skip


@pytest.fixture
def lake(home: Path) -> Lake:
    """One GPU on three days; a job begins at noon of the first and runs on, a step a minute."""
    lake = Lake(home / "lake")
    put(lake, "telemetry.inventory", [{"valid_from": at(0), "gpu_uuid": "G0", "accelerator_id": "x"}])
    put(lake, "telemetry.gpu_minutes", [minute(h) for h in (0, 24, 48)])
    put(lake, "telemetry.jobs", [job(None)])
    put(lake, "telemetry.job_gpus", [stay()])
    put(lake, "telemetry.training_steps", steps(1, 24 * 60, 12))
    assert update_ladder(lake, AUTHORITIES) == 3
    return lake


def hours(lake: Lake, rung: str) -> dict[int, float]:
    rows = lake.scan(LadderDay).filter(pl.col("rung") == rung).collect()
    return {(r["date"] - MONDAY.date()).days: r["gpu_us"] / 3.6e9 for r in rows.to_dicts()}


def test_nothing_new_touches_nothing(lake: Lake):
    version = lake.open(LadderDay).version()
    assert update_ladder(lake, AUTHORITIES) == 0
    assert lake.open(LadderDay).version() == version
    assert hours(lake, "productive") == {0: 12, 1: 12}


def test_a_job_that_goes_on_and_ends_leaves_days_gone_by(lake: Lake):
    put(lake, "telemetry.training_steps", steps(24 * 60 + 1, 24 * 60, 36))
    put(lake, "telemetry.jobs", [job(60)])
    # the day on which its log had ended, and the one it ended on
    assert update_ladder(lake, AUTHORITIES) == 2
    assert hours(lake, "productive") == {0: 12, 1: 24, 2: 12}
    assert hours(lake, "unallocated") == {0: 12, 2: 12}


def test_a_rollback_reaches_back_to_the_day_it_undoes(lake: Lake):
    put(lake, "telemetry.jobs", [job(36), job(60, 1, 48)])
    put(lake, "telemetry.job_gpus", [stay(1, 48)])
    # again from step 660: an hour before midnight of the first day
    put(lake, "telemetry.training_steps", steps(661, 720, 48, 1))
    assert update_ladder(lake, AUTHORITIES) == 3
    assert hours(lake, "rollback") == {0: 1, 1: 12}
    assert hours(lake, "productive") == {0: 11, 2: 12}


def test_minutes_computed_again_touch_their_day_alone(lake: Lake):
    put(lake, "telemetry.gpu_minutes", [minute(24.5)])
    assert update_ladder(lake, AUTHORITIES) == 1


def test_a_later_collector_does_not_take_the_past_away(lake: Lake):
    # "dcgm-exporter" comes before "nvml" in the alphabet, but it came later
    put(lake, "telemetry.inventory", [{"valid_from": at(50), "gpu_uuid": "G0", "source": "dcgm-exporter"}])
    update_ladder(lake, AUTHORITIES)
    assert hours(lake, "productive") == {0: 12, 1: 12}


def test_a_day_without_minutes_any_more_goes(lake: Lake):
    from warehouse.lake import Counts, Load
    from warehouse.schema.telemetry_rollups import GpuMinute

    nothing = lake.scan(GpuMinute).limit(0).collect()
    lake.commit(GpuMinute, [], lambda *_: (nothing, Load("t", "t", Counts())), replace="date = '2026-03-04'")
    assert update_ladder(lake, AUTHORITIES) == 0
    assert lake.scan(LadderDay).select(pl.col("date").max()).collect().item() == dt.date(2026, 3, 3)
