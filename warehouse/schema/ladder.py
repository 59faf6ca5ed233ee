"""`telemetry.ladder_daily`: where a day of GPU time went.

Belongs here: the computed table. Does not belong here: how it is computed (`assets/ladder_daily.py`), kept
(`assets/ladder_lake.py`).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import col, table_info
from warehouse.schema.telemetry import Observed

RUNGS = (
    "down",
    "unallocated",
    "allocated_idle",
    "start_up",
    "checkpoint",
    "evaluation",
    "data_stall",
    "exposed_communication",
    "rollback",
    "throttled",
    "straggler",
    "productive",
    "unlogged",
    "other",
)


class LadderDay(Observed, table=True):
    """GPU time of one day on one rung, of one job attempt or of nobody."""

    __tablename__ = "ladder_daily"
    __table_args__ = table_info(
        "telemetry",
        "Where each day of GPU time went; the rungs of a cluster and day add up to its capacity exactly. "
        "Grain: one rung of one job attempt (or of nobody) on one UTC day, cut where a billed month begins. "
        "Key: cluster, date, billing_month_date, job_id, attempt, rung, source.",
        kind="telemetry",
        partition_by=("date",),
    )
    date: dt.date = col("UTC day", key=True)
    billing_month_date: dt.date = col(
        "first day of the calendar month, in the zone of the cluster's cost model (else UTC)", key=True
    )
    job_id: str = col("job that held the GPUs; empty where nobody did", key=True)
    attempt: int = col("attempt of that job; 0 where nobody held them", key=True, ge=0)
    rung: str = col("what the time went to", key=True, one_of=RUNGS)
    gpu_us: int = col("time of one GPU, whole microseconds", unit="µs", ge=0)
