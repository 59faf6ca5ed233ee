"""Level of a panel: capped weights and the mean of its central third.

Belongs here: the two estimators, on any grouped frame. Does not belong here: who is in a panel (`price_index.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

THIRD = 1 / 3


def capped_weights(frame: pl.DataFrame, by: Sequence[str], weight: str, cap: float) -> pl.DataFrame:
    """`weight` scaled to a sum of 1 in each group with no member above the cap; what is cut goes to the others.

    The rest is shared in proportion, again and again until no one is above. Where the cap cannot hold (fewer members
    than 1 / cap) all weigh the same.
    """
    groups = list(by)
    count = pl.len().over(groups)
    if frame[weight].n_unique() <= 1:  # equal weights need no rounds
        return frame.with_columns((1 / count).alias(weight))
    share = frame.with_columns((pl.col(weight) / pl.col(weight).sum().over(groups)).alias(weight)).with_columns(
        pl.when(count * cap < 1).then(1 / count).otherwise(weight).alias(weight), full=pl.lit(value=False)
    )
    holds = count * cap >= 1
    # Each round fills at least one member of every group that is not settled, and 1 / cap of them can be full.
    for _ in range(int(1 / cap) + 1):
        over = holds & (pl.col("full") | (pl.col(weight) > cap))
        free = pl.col(weight).filter(~over).sum().over(groups)
        left = 1 - cap * over.sum().over(groups)
        share = share.with_columns(
            pl.when(over)
            .then(cap)
            .when(holds & (free > 0))
            .then(pl.col(weight) * left / free)
            .otherwise(weight)
            .alias(weight),
            full=over,
        )
    return share.drop("full")


def central_third(frame: pl.DataFrame, by: Sequence[str], value: str, weight: str) -> pl.DataFrame:
    """Mean of the weighted distribution between its first and second third: `by`, `value`.

    Each member covers an interval of the cumulated weight as wide as its weight; it counts by how much of the
    interval lies between 1/3 and 2/3. Weights sum to 1 in each group.
    """
    groups = list(by)
    end = pl.col(weight).cum_sum().over(groups)
    ranked = frame.sort([*groups, value]).with_columns(end.alias("end"))
    inside = pl.min_horizontal("end", pl.lit(2 * THIRD)) - pl.max_horizontal(
        pl.col("end") - pl.col(weight), pl.lit(THIRD)
    )
    part = ranked.with_columns(inside.clip(lower_bound=0).alias("part"))
    return part.group_by(groups).agg((pl.col(value) * pl.col("part")).sum() / pl.col("part").sum())
