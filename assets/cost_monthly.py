"""A calendar month's bill of one cluster: who used it, what idled, what it cost, to the last millionth of a dollar.

Belongs here: joining the ladder, energy and cost pools of a month. Does not belong here: the arithmetic of pools
and shares (`cost.py`), the ladder, reading the lake (`bills.py`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from assets.cost import MICRO, allocate, month_bounds, month_usd, monthly_costs, validity_us
from assets.ladder import even_stays
from assets.ladder_jobs import KEY

HOUR_US = 3_600_000_000
CONSUMERS = ("account", "user_name", "project")
NOT_READ: Final = "not_read"
_CHARGE: Final = {"month": pl.Date, "pool": pl.String, "category": pl.String, "cost_micro_usd": pl.Int64}


def energy_by_job(hours: pl.DataFrame, stays: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """KEY, energy_j: GPU energy of each job in a window; the row without a job holds what nobody held.

    hours: telemetry.gpu_hours of boards, one collector a GPU. stays: cluster, gpu_uuid, from_us, to_us, job_id,
    attempt, share_ratio, inside the window. An hour is shared by time, a GPU by share, so that the parts never
    exceed the whole.
    """
    boards = hours.select("cluster", "gpu_uuid").unique().with_row_index("board")
    begun = hours.select(
        "cluster", "gpu_uuid", pl.col("hour_at").dt.epoch("us").alias("begun_us"), pl.col("energy_j").fill_null(0.0)
    ).filter((pl.col("begun_us") > start - HOUR_US) & (pl.col("begun_us") < end))
    inside = pl.min_horizontal(pl.col("begun_us") + HOUR_US, pl.lit(end)) - pl.max_horizontal("begun_us", pl.lit(start))
    begun = _placed(begun, boards, "begun_us", start, end).sort("place")
    # Energy up to an instant: what an interval used is the difference of two of them.
    so_far = begun.with_columns(
        (pl.col("energy_j") * inside / HOUR_US).alias("window_j"),
        (pl.col("energy_j").cum_sum() - pl.col("energy_j")).alias("before_j"),
    )
    held = even_stays(stays)
    used = [_up_to(_placed(held, boards, edge, start, end), so_far, edge) for edge in ("to_us", "from_us")]
    held = held.with_columns((used[0] - used[1]).alias("used_j"))
    jobs = held.group_by(*KEY).agg((pl.col("used_j") * pl.col("share_ratio")).sum().alias("energy_j"))
    whole = so_far.group_by("cluster").agg(pl.col("window_j").sum())
    rest = whole.join(jobs.group_by("cluster").agg(pl.col("energy_j").sum().alias("jobs_j")), on="cluster", how="left")
    nobody = rest.select(
        "cluster",
        pl.lit(None, pl.String).alias("job_id"),
        pl.lit(None, pl.Int64).alias("attempt"),
        (pl.col("window_j") - pl.col("jobs_j").fill_null(0)).clip(0).alias("energy_j"),
    )
    return pl.concat([jobs, nobody], how="vertical_relaxed")


def _placed(frame: pl.DataFrame, boards: pl.DataFrame, column: str, start: int, end: int) -> pl.DataFrame:
    """`place`: board and instant in one number, which sorts and joins far faster than names do."""
    span = end - start + 2 * HOUR_US
    joined = frame.join(boards, on=["cluster", "gpu_uuid"], how="left", maintain_order="left")
    offset = pl.col(column) - (start - HOUR_US)
    return joined.with_columns((pl.col("board").cast(pl.Int64) * span + offset).alias("place"))


def _up_to(held: pl.DataFrame, so_far: pl.DataFrame, edge: str) -> pl.Series:
    """Energy of each row's GPU up to its edge, in the order of the rows; 0 before its first hour."""
    at = held.with_row_index("row").select("row", "board", "place", pl.col(edge).alias("at")).drop_nulls("place")
    joined = at.sort("place").join_asof(
        so_far.select("place", "begun_us", "energy_j", "before_j", pl.col("board").alias("seen")),
        on="place",
        strategy="backward",
    )
    into = (pl.col("at") - pl.col("begun_us")).clip(0, HOUR_US) / HOUR_US
    # The nearest hour before may be another board's: then this one has none yet, and stands where that one ended.
    whole = pl.when(pl.col("seen") == pl.col("board")).then(into).otherwise(1.0)
    reached = joined.select("row", (pl.col("before_j") + pl.col("energy_j") * whole).fill_null(0.0).alias("reached_j"))
    return (
        held.with_row_index("row")
        .select("row")
        .join(reached, on="row", how="left", maintain_order="left")
        .get_column("reached_j")
        .fill_null(0.0)
    )


def month_usage(rungs: pl.DataFrame, jobs: pl.DataFrame, energy: pl.DataFrame, month: dt.date) -> pl.DataFrame:
    """Usage as `allocate` takes it: each consumer's GPU time by rung, with its job's energy spread by GPU time.

    rungs: as `ladder_window` gives them for the month. jobs: KEY and the consumer columns, of several rows of an attempt
    the first counts. energy: KEY, energy_j.
    """
    held = pl.col("gpu_us").sum().over(*KEY)
    # What nobody held is spread over down and unallocated time alike, by time.
    spread = rungs.join(energy, on=list(KEY), how="left", nulls_equal=True).with_columns(
        (pl.col("energy_j") * pl.col("gpu_us") / held).alias("energy_j")
    )
    named = spread.join(
        jobs.select(*KEY, *CONSUMERS).unique(list(KEY), keep="first", maintain_order=True), on=list(KEY), how="left"
    )
    return named.select(pl.lit(month).alias("month"), *CONSUMERS, "rung", "gpu_us", "energy_j")


def month_bill(pools: pl.DataFrame, usage: pl.DataFrame, month: dt.date, time_zone: str) -> pl.DataFrame:
    """month, account, user_name, project, rung, cost: sums exactly to the month's pools.

    pools: rows of ref.cost_pools of the cluster in force (newest versions). For a month read from end to end.
    """
    months = month_bounds(month, month, time_zone)
    used = float(usage.get_column("energy_j").sum() or 0.0)
    costs = monthly_costs(pools.to_dicts(), months, {month.replace(day=1): used}, time_zone)
    return allocate(costs, usage, list(CONSUMERS))


def month_charges(
    pools: list[dict[str, object]], month: dt.date, time_zone: str, usage: pl.DataFrame, *, until_us: int, read_us: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What each pool costs in a month up to `until_us`: the part for time that telemetry read, and the rest.

    Two frames: month, pool, category, cost_micro_usd. A pool that pays for more GPU time than was read keeps the
    difference as not read, so that nobody is charged for a cluster that was not looked at. read_us: time of the
    month that was read. Energy is priced as it was measured; that of time not read is not known and not charged.
    """
    zone = ZoneInfo(time_zone)
    (begin, end) = month_bounds(month, month, time_zone).select("from_us", "to_us").row(0)
    gpu_us, energy_j = int(usage["gpu_us"].sum()), float(usage["energy_j"].sum() or 0.0)
    charged, unread = [], []
    for pool in pools:
        first, last = validity_us(pool, zone)
        window = max(0, min(end, last, until_us) - max(begin, first))
        if not window:
            continue
        in_force = window / (until_us - begin)
        name = (month, str(pool["pool"]), pool.get("category"))
        if pool["method"] == "energy":
            charged.append((*name, round(month_usd(pool, energy_j) * in_force * MICRO)))
            continue
        cost = round(month_usd(pool, energy_j) * window / (end - begin) * MICRO)
        paid_us = float(str(pool["gpus"])) * window if pool.get("gpus") else None
        covered = gpu_us * in_force / paid_us if paid_us else read_us / (until_us - begin)
        read = round(cost * min(1.0, covered))
        charged.append((*name, read))
        unread.append((*name, cost - read))
    return tuple(pl.DataFrame(rows, schema=_CHARGE, orient="row") for rows in (charged, unread))  # type: ignore[return-value]


def month_shares(
    pools: list[dict[str, object]], usage: pl.DataFrame, month: dt.date, time_zone: str, window: Mapping[str, int]
) -> pl.DataFrame:
    """month, pool, category, the consumers, rung, cost_micro_usd, gpu_us, energy_j: sums exactly to what the pools cost.

    window: until_us and read_us as `month_charges` takes them.
    """
    charged, unread = month_charges(pools, month, time_zone, usage, **window)
    shared = allocate(charged, usage, list(CONSUMERS), ["pool", "category"])
    columns = ["month", "pool", "category", *CONSUMERS, "rung", "cost_micro_usd", "gpu_us", "energy_j"]
    nobody = unread.filter(pl.col("cost_micro_usd") != 0).select(
        "month",
        "pool",
        "category",
        *(pl.lit(None, pl.String).alias(c) for c in CONSUMERS),
        pl.lit(NOT_READ).alias("rung"),
        "cost_micro_usd",
        pl.lit(None, pl.Int64).alias("gpu_us"),
        pl.lit(None, pl.Float64).alias("energy_j"),
    )
    return pl.concat([shared.select(columns), nobody], how="vertical_relaxed")
