"""A calendar month's bill of one cluster: who used it, what idled, what it cost, to the last millionth of a dollar.

Belongs here: joining the ladder, energy and cost pools of a month. Does not belong here: the arithmetic of pools
and shares (`cost.py`), the ladder, reading the lake.
"""

from __future__ import annotations

import datetime as dt

import polars as pl

from assets.cost import allocate, month_bounds, monthly_costs
from assets.ladder_jobs import KEY

HOUR_US = 3_600_000_000
CONSUMERS = ("account", "user_name", "project")


def energy_by_job(hours: pl.DataFrame, stays: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """KEY, energy_j: GPU energy of each job in a window; the row without a job holds what nobody held.

    hours: telemetry.gpu_hours of boards, one collector a GPU. stays: cluster, gpu_uuid, from_us, to_us, job_id,
    attempt, share_ratio, inside the window. An hour is shared by time.
    """
    begun = pl.col("hour_at").dt.epoch("us")
    inside = pl.min_horizontal(begun + HOUR_US, pl.lit(end)) - pl.max_horizontal(begun, pl.lit(start))
    window = hours.with_columns(begun.alias("begun_us"), (pl.col("energy_j") * inside / HOUR_US).alias("window_j"))
    window = window.filter((pl.col("begun_us") < end) & (pl.col("begun_us") + HOUR_US > start))
    held = window.select("cluster", "gpu_uuid", "begun_us", "energy_j").join_where(
        stays.select(
            pl.col("cluster").alias("c"),
            pl.col("gpu_uuid").alias("g"),
            "from_us",
            "to_us",
            "job_id",
            "attempt",
            "share_ratio",
        ),
        pl.col("cluster") == pl.col("c"),
        pl.col("gpu_uuid") == pl.col("g"),
        pl.col("from_us") < pl.col("begun_us") + HOUR_US,
        pl.col("to_us") > pl.col("begun_us"),
    )
    overlap = pl.min_horizontal("to_us", pl.col("begun_us") + HOUR_US) - pl.max_horizontal("from_us", "begun_us")
    held = held.with_columns(
        (pl.col("energy_j") * overlap / HOUR_US * pl.col("share_ratio").fill_null(1.0)).alias("held_j")
    )
    jobs = held.group_by(*KEY).agg(pl.col("held_j").sum().alias("energy_j"))
    whole = window.group_by("cluster").agg(pl.col("window_j").sum())
    rest = whole.join(jobs.group_by("cluster").agg(pl.col("energy_j").sum().alias("jobs_j")), on="cluster", how="left")
    nobody = rest.select(
        "cluster",
        pl.lit(None, pl.String).alias("job_id"),
        pl.lit(None, pl.Int64).alias("attempt"),
        (pl.col("window_j") - pl.col("jobs_j").fill_null(0)).clip(0).alias("energy_j"),
    )
    return pl.concat([jobs, nobody], how="vertical_relaxed")


def month_usage(rungs: pl.DataFrame, jobs: pl.DataFrame, energy: pl.DataFrame, month: dt.date) -> pl.DataFrame:
    """Usage as `allocate` takes it: each consumer's GPU time by rung, with its job's energy spread by GPU time.

    rungs: as `ladder_window` gives them for the month. jobs: KEY and the consumer columns. energy: KEY, energy_j.
    """
    held = pl.col("gpu_us").sum().over(*KEY)
    # What nobody held is spread over down and unallocated time alike, by time.
    spread = rungs.join(energy, on=list(KEY), how="left", nulls_equal=True).with_columns(
        (pl.col("energy_j") * pl.col("gpu_us") / held).alias("energy_j")
    )
    named = spread.join(jobs.select(*KEY, *CONSUMERS).unique(list(KEY)), on=list(KEY), how="left")
    return named.select(pl.lit(month).alias("month"), *CONSUMERS, "rung", "gpu_us", "energy_j")


def month_bill(pools: pl.DataFrame, usage: pl.DataFrame, month: dt.date, time_zone: str) -> pl.DataFrame:
    """month, account, user_name, project, rung, cost: sums exactly to the month's pools.

    pools: rows of ref.cost_pools of the cluster in force (newest versions).
    """
    months = month_bounds(month, month, time_zone)
    used = float(usage.get_column("energy_j").sum() or 0.0)
    costs = monthly_costs(pools.to_dicts(), months, {month.replace(day=1): used}, time_zone)
    return allocate(costs, usage, list(CONSUMERS))
