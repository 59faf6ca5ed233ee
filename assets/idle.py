"""Idle power, learned for each accelerator, and the stretches in which a held GPU did nothing.

Belongs here: what quiet minutes look like and which minutes look so. Does not belong here: the ladder, roll-ups.
A board draws one power with nothing on it and another with a model resident (67 W and 114 W on an H100 SXM), so
both levels are learned; no threshold is fixed.
"""

from __future__ import annotations

from typing import Final

import polars as pl

MARGIN: Final = 1.15
QUIET_TENSOR_RATIO: Final = 0.01
QUIET_SM_RATIO: Final = 0.05
SHORTEST_MINUTES: Final = 10
FEWEST_MINUTES: Final = 30
RESIDENT_MEMORY_RATIO: Final = 0.05
MINUTE_US: Final = 60_000_000


def _is_quiet() -> pl.Expr:
    """Known to do nothing; null where neither tensor nor SM activity is known."""
    return (pl.col("tensor_active_mean_ratio") < QUIET_TENSOR_RATIO) & (pl.col("sm_active_mean_ratio") < QUIET_SM_RATIO)


def _is_resident() -> pl.Expr:
    """Does the board hold a model? Unknown memory counts as empty, the lower of the two powers."""
    held = pl.col("memory_used_mean_bytes") > RESIDENT_MEMORY_RATIO * pl.col("memory_total_bytes")
    return held.fill_null(value=False)


def learn_idle_power(minutes: pl.DataFrame) -> pl.DataFrame:
    """accelerator_id, is_resident, idle_w (median of quiet minutes), minutes seen. A level with few is not learned.

    minutes: rows of telemetry.gpu_minutes.
    """
    quiet = minutes.filter(_is_quiet() & pl.col("power_mean_w").is_not_null() & pl.col("accelerator_id").is_not_null())
    return (
        quiet.group_by("accelerator_id", _is_resident().alias("is_resident"))
        .agg(pl.col("power_mean_w").median().alias("idle_w"), pl.len().alias("minutes"))
        .filter(pl.col("minutes") >= FEWEST_MINUTES)
        .sort("accelerator_id", "is_resident")
    )


def idle_stretches(minutes: pl.DataFrame, model: pl.DataFrame) -> pl.DataFrame:
    """cluster, gpu_uuid, from_us, to_us of at least ten minutes in a row below 1.15 x the learned idle power.

    Activity decides too, where it is known: a GPU that computes is not idle whatever it draws. Where the model
    does not know the accelerator, nothing is called idle.
    """
    judged = minutes.with_columns(_is_resident().alias("is_resident")).join(
        model.select("accelerator_id", "is_resident", "idle_w"), on=["accelerator_id", "is_resident"], how="left"
    )
    low = pl.col("power_mean_w") < MARGIN * pl.col("idle_w")
    idle = judged.filter(low & _is_quiet().fill_null(value=True)).select(
        "cluster", "gpu_uuid", pl.col("minute_at").dt.epoch("us").alias("from_us")
    )
    runs = idle.unique().sort("cluster", "gpu_uuid", "from_us")
    apart = (pl.col("from_us").diff().over("cluster", "gpu_uuid") != MINUTE_US).fill_null(value=True)
    return (
        runs.with_columns(apart.cum_sum().alias("run"))
        .group_by("cluster", "gpu_uuid", "run", maintain_order=True)
        .agg(pl.col("from_us").min(), (pl.col("from_us").max() + MINUTE_US).alias("to_us"), pl.len().alias("minutes"))
        .filter(pl.col("minutes") >= SHORTEST_MINUTES)
        .select("cluster", "gpu_uuid", "from_us", "to_us")
    )
