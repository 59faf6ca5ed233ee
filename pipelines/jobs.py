"""Jobs: the main job, the telemetry drain, and the purge of old runs.

Belongs here: which assets run together. Does not belong here: when (`schedules.py`, `sensors.py`).
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

import datetime as dt
from typing import Any

import dagster as dg

from pipelines.history import forget_follower_events, forget_runs

KEEP_RUNS = dt.timedelta(days=30)
KEEP_FOLLOWER_EVENTS = dt.timedelta(days=7)  # up to 50 MB a day

EXTERNAL = dg.AssetSelection.groups("freshness")

main_job = dg.define_asset_job(
    "main",
    selection=dg.AssetSelection.all() - EXTERNAL,
    description="Fetch, land and publish everything: what `almanac run` runs.",
)

telemetry_job = dg.define_asset_job(
    "telemetry",
    selection=dg.AssetSelection.groups("telemetry_ingest", "published"),
    description="Drain sealed spool segments, bring roll-ups up to date, publish.",
)


@dg.op
def purge_runs(context: dg.OpExecutionContext) -> None:
    """Delete runs older than 30 days and a follower's events older than 7: Dagster keeps every event for ever otherwise."""
    now = dt.datetime.now(dt.UTC)
    runs = forget_runs(context.instance, now - KEEP_RUNS)
    events = forget_follower_events(context.instance, now - KEEP_FOLLOWER_EVENTS)
    context.log.info(f"deleted {runs} runs and {events} events of `almanac ingest --follow`")


@dg.job(description="Delete runs older than 30 days.")
def purge() -> None:
    """One op."""
    purge_runs()


@dg.op(required_resource_keys={"home"})
def maintain_lake(context: dg.OpExecutionContext) -> None:
    """Compact finished days, forget what retention says, delete files nobody names (see docs/retention.md)."""
    from assets.maintenance import maintain

    done = maintain(context.resources.home.home())
    context.add_output_metadata(
        {
            "files before": done.files_before,
            "files after": done.files_after,
            "files deleted": done.files_deleted,
            "days forgotten": sum(done.days_forgotten.values()),
        }
    )


@dg.job(description="Compaction, retention and vacuum of the lake.")
def maintenance() -> None:
    """One op."""
    maintain_lake()


JOBS: list[Any] = [main_job, telemetry_job, purge, maintenance]
