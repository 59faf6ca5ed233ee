"""Sensors: sealed segments in spool and inbox start the telemetry job.

Belongs here: noticing. Does not belong here: reading the segments.
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

import dagster as dg

from pipelines.jobs import telemetry_job
from warehouse.home import Home

SEALED = "*.seg"


@dg.sensor(
    job=telemetry_job,
    minimum_interval_seconds=60,
    required_resource_keys={"home"},
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Drain the spool and the inbox whenever a sealed segment waits.",
)
def inbox_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """One run for the newest sealed segment: the run drains all of them."""
    home: Home = context.resources.home.home()
    waiting = sorted(p.name for folder in (home.spool, home.inbox) for p in folder.rglob(SEALED))
    if not waiting:
        return dg.SkipReason("no sealed segment waits in spool or inbox")
    newest = max(waiting)
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=f"{len(waiting)}:{newest}")], cursor=newest)


SENSORS = [inbox_sensor]
