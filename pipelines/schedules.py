"""Schedules: one job for each cadence of the registry, and the nightly purge.

Belongs here: when things run. Does not belong here: what they do.
"""

from __future__ import annotations

import dagster as dg

from assets.observed import asset_key, source_key
from pipelines.jobs import maintenance, purge
from sources.registry import all_sources

CRON = {
    "hourly": "7 * * * *",
    "daily": "20 5 * * *",
    "weekly": "40 5 * * 1",
    "monthly": "0 6 11 * *",
    # Filings come when they come; asking daily is polite because requests are conditional.
    "quarterly": "50 5 * * *",
}


def cadence_schedules() -> list[dg.ScheduleDefinition]:
    """A job and schedule for every cadence that any source has."""
    schedules = []
    for cadence, cron in CRON.items():
        mine = [s for s in all_sources().values() if s.cadence == cadence and not s.off_reason]
        if not mine:
            continue
        keys = [source_key(s) for s in mine] + [asset_key(s, t) for s in mine for t in s.tables]
        job = dg.define_asset_job(
            f"{cadence}_sources",
            selection=dg.AssetSelection.assets(*keys) | dg.AssetSelection.groups("published"),
            description=f"Sources asked {cadence}, then publish.",
        )
        schedules.append(dg.ScheduleDefinition(job=job, cron_schedule=cron, execution_timezone="UTC"))
    return schedules


SCHEDULES = [
    *cadence_schedules(),
    dg.ScheduleDefinition(job=purge, cron_schedule="30 3 * * *", execution_timezone="UTC"),
    dg.ScheduleDefinition(job=maintenance, cron_schedule="40 2 * * *", execution_timezone="UTC"),
]
