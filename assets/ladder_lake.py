"""The ladder of everything the lake holds, day by day.

Belongs here: reading what each day of the ladder needs. Does not belong here: the ladder (`ladder_daily.py`),
publishing. A day is computed from all that is known now, so a log that arrives late corrects the days it is about.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

import polars as pl

from assets.ladder_daily import ladder_day
from warehouse.bitemporal import with_versions
from warehouse.lake import Lake
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

LADDER: Final = "telemetry.ladder_daily"
MINUTES: Final = "telemetry.gpu_minutes"
FACTS: Final = ("telemetry.jobs", "telemetry.job_gpus", "telemetry.training_steps", "telemetry.job_phases")
STATES: Final = ("telemetry.inventory", "telemetry.node_states", "telemetry.gpu_events")


def ladder_of_lake(lake: Lake, authorities: Mapping[str, str]) -> pl.DataFrame:
    """Rows of telemetry.ladder_daily for every UTC day that has minutes and every cluster with an inventory.

    authorities: source name to primary, curated or secondary, as publish has them. Real and synthetic telemetry are
    kept apart. Minutes are read a day at a time.
    """
    model = tables()[LADDER]
    facts = {name: _newest(lake, name, authorities) for name in FACTS}
    states = {name: lake.scan(tables()[name]).collect() for name in STATES}
    minutes = lake.scan(tables()[MINUTES])
    days = minutes.select("date", "is_synthetic").unique().collect().sort("date", "is_synthetic")
    found = [pl.DataFrame(schema=lake_schema(model))]
    for day, is_synthetic in days.iter_rows():
        same = {name: frame.filter(pl.col("is_synthetic") == is_synthetic) for name, frame in (facts | states).items()}
        of_day = minutes.filter((pl.col("date") == day) & (pl.col("is_synthetic") == is_synthetic)).collect()
        inputs = {**_of_day(same, day), MINUTES: _one_collector(of_day)}
        found.append(ladder_day(inputs, day, is_synthetic=is_synthetic))
    return pl.concat([frame.select(list(lake_schema(model))) for frame in found], how="vertical_relaxed")


def _newest(lake: Lake, name: str, authorities: Mapping[str, str]) -> pl.DataFrame:
    model = tables()[name]
    return with_versions(lake.scan(model).collect(), model, authorities).filter(pl.col("is_preferred"))


def _one_collector(minutes: pl.DataFrame) -> pl.DataFrame:
    """Where two collectors see one GPU, the one that covered more of the day."""
    key = ["cluster", "gpu_uuid"]
    covered = minutes.group_by(*key, "source").agg(pl.col("seconds_covered").sum())
    best = covered.sort("seconds_covered", "source", descending=[True, False]).unique(
        key, keep="first", maintain_order=True
    )
    return minutes.join(best.select(*key, "source"), on=[*key, "source"])


def _of_day(frames: Mapping[str, pl.DataFrame], day: dt.date) -> dict[str, pl.DataFrame]:
    """Jobs that ran on the day and what belongs to them; one collector's inventory for each board."""
    start = dt.datetime.combine(day, dt.time(), dt.UTC)
    end = start + dt.timedelta(days=1)
    jobs = frames["telemetry.jobs"].filter(
        (pl.col("started_at") < end) & (pl.col("ended_at").is_null() | (pl.col("ended_at") > start))
    )
    held = frames["telemetry.job_gpus"].filter(
        (pl.col("from_at") < end) & (pl.col("to_at").is_null() | (pl.col("to_at") > start))
    )
    names = jobs.select("cluster", "job_id").unique()
    inventory = frames["telemetry.inventory"]
    first = inventory.group_by("cluster", "gpu_uuid").agg(pl.col("source").min())
    return {
        **frames,
        "telemetry.jobs": jobs,
        "telemetry.job_gpus": held,
        # A rollback reaches over attempts and days, so a job's steps are taken whole.
        "telemetry.training_steps": frames["telemetry.training_steps"].join(
            names, on=["cluster", "job_id"], how="semi"
        ),
        "telemetry.job_phases": frames["telemetry.job_phases"].join(names, on=["cluster", "job_id"], how="semi"),
        "telemetry.inventory": inventory.join(first, on=["cluster", "gpu_uuid", "source"], how="semi"),
        "telemetry.gpu_events": frames["telemetry.gpu_events"].filter(pl.col("occurred_at") < end),
        "telemetry.node_states": frames["telemetry.node_states"].filter(pl.col("valid_from") < end),
    }
