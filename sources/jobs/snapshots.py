"""A snapshot of which job holds which device, as pod-resources and mapping directories give it.

Belongs here: device names (MIG, time slices) as rows of raw.device_snapshots. Does not belong here: stays over
time, which `assets/jobs.py` makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sources.base import Payload

RAW_DEVICES = "raw.device_snapshots"
_SCHEMA = {"job_id": pl.String, "resource": pl.String, "device": pl.String}


def device_rows(held: Sequence[dict[str, Any]], payload: Payload, *, scheduler: str, evidence: str) -> pl.DataFrame:
    """One row for each job and device. `held` has job_id, resource and device as the export writes it.

    `UUID::3` is one slice of a time-sliced device: how many slices there are is not stated, so neither is the
    share, unless every slice seen in the snapshot is held by this one job.
    """
    if not held and payload.meta.get("node"):
        # An idle node still says something: whatever was held there is held no longer.
        held = [dict.fromkeys(_SCHEMA)]
    frame = pl.DataFrame(held, schema=_SCHEMA).unique(maintain_order=True)
    frame = frame.with_columns(
        pl.col("device").str.extract(r"^(.*?)(?:::\d+)?$").alias("gpu_uuid"),
        pl.col("device").str.contains(r"::\d+$").alias("is_sliced"),
        pl.col("resource").str.extract(r"mig-(.+)$").alias("mig_profile"),
    )
    stays = frame.group_by("job_id", "gpu_uuid", maintain_order=True).agg(
        pl.col("mig_profile").drop_nulls().first(),
        pl.col("is_sliced").any(),
        pl.len().alias("slices"),
    )
    jobs = pl.len().over("gpu_uuid")
    now = pl.lit(payload.retrieved_at).cast(pl.Datetime("us", "UTC"))
    return stays.select(
        pl.lit(payload.meta.get("cluster", "local")).alias("cluster"),
        "job_id",
        pl.lit(0, pl.Int64).alias("attempt"),
        "gpu_uuid",
        pl.lit(payload.meta.get("node"), pl.String).alias("node"),
        now.alias("from_at"),
        pl.when(~pl.col("is_sliced") & (jobs == 1)).then(pl.lit(1.0)).alias("share_ratio"),
        "mig_profile",
        pl.lit(scheduler).alias("scheduler"),
        pl.lit(evidence).alias("evidence"),
        now.alias("observed_at"),
        pl.lit(payload.meta.get("node"), pl.String).alias("scope"),
        pl.lit(payload.meta.get("is_synthetic") == "true").alias("is_synthetic"),
        pl.when(pl.col("is_sliced"))
        .then(pl.format("time-sliced: holds {} slices, their number is not stated", "slices"))
        .when(jobs > 1)
        .then(pl.format("held by {} jobs at once", jobs))
        .alias("notes"),
    )
