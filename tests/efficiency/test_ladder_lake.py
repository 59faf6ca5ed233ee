"""The demonstration cluster from spool to ladder: its planted story is found, and loading it twice changes nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from assets.demo_jobs import provide_demo_jobs
from assets.ingest import ingest
from assets.ladder_lake import update_ladder
from assets.rollup import roll_up
from sources.registry import all_sources
from sources.telemetry.synthetic import write
from sources.telemetry.synthetic_plan import Plan
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ladder import LadderDay

PLAN = Plan(interval_s=60.0)


@pytest.mark.slow
def test_the_story_of_the_demonstration_day(home: Path):
    house = Home(home).prepare()
    write(PLAN, house.spool)
    ingest(house)
    roll_up(house)
    authorities = {s.name: s.authority for s in all_sources().values()}
    provide_demo_jobs(house, PLAN)
    lake = Lake(house.lake)
    assert update_ladder(lake, authorities) == 1
    first = lake.scan(LadderDay).collect()
    provide_demo_jobs(house, PLAN)
    assert update_ladder(lake, authorities) == 0
    assert lake.scan(LadderDay).collect().equals(first)
    hours = dict(first.group_by("rung").agg(pl.col("gpu_us").sum() / 3.6e9).rows())
    assert sum(hours.values()) == pytest.approx(16 * 24)
    # a model resident on eight GPUs for two hours; inference keeps no training log
    assert hours["allocated_idle"] == pytest.approx(16)
    assert hours["unlogged"] == pytest.approx(48 + 32, rel=0.01)
    # a minute of checkpoint every half hour of training: four, thirteen and nine of them
    assert hours["checkpoint"] == pytest.approx((12 * 8 + 13 * 16 + 9 * 16) / 60, rel=0.01)
    # dead time of the second attempt: what the first had done since its last checkpoint, half an hour of 16 GPUs
    assert hours["rollback"] == pytest.approx(16 * 0.5, rel=0.12)
    # hot from hour 9 on: steps 12 % longer, 12/112 of their time, less what was thrown away anyway
    hot = 16 * ((14 - 9) + (20 - 15.25)) - 16 / 60 * (10 + 9) - 16 * 0.05 - hours["rollback"]
    assert hours["throttled"] == pytest.approx(hot * 12 / 112, rel=0.02)
    assert "straggler" not in hours
    assert first["is_synthetic"].all()
