"""The chain of a series: log changes on matched providers, winsorised, from link day to link day.

Belongs here: who is matched with whom, the link, its standing. Does not belong here: levels, what is published.
"""

from __future__ import annotations

import polars as pl

from assets.price_level import capped_weights
from assets.price_method import METHOD, Method

FIXING = ("series", "date")
MEMBER = ("series", "provider")


def links(panel: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """`series`, `date`, `link_log`, `matched_count`, `link_status`, `chain`: one row for each fixing.

    panel: `series`, `date`, `provider`, `price`, `seen` (really seen and accepted), `stands` (in the level),
    `delisted`, `weight`. A fixing is a day on which the series has at least one price that was seen. A chain starts
    with its series, and anew where nobody of the panel before is left.
    """
    fixings = fixings_of(panel, method)
    seen = with_runs(panel, fixings, method)
    bases = seen.group_by(FIXING).agg(pl.col("new_run").all().alias("all_new"))
    days = (
        fixings.join(bases, on=FIXING)
        .sort(FIXING)
        .with_columns(is_base=(pl.col("all_new") & ~pl.col("others_stand")) | (pl.col("rank") == 1))
    )
    days = days.with_columns(
        is_link_day=pl.col("is_link_day") | pl.col("is_base"),
        chain=pl.col("is_base").cast(pl.Int64).cum_sum().over("series"),
    )
    steps = relatives(seen, days, method)
    found = steps.group_by(FIXING).agg(
        (pl.col("step") * pl.col("weight")).sum().alias("link_log"), pl.len().cast(pl.Int64).alias("matched_count")
    )
    standing = (
        pl.when("is_base").then(pl.lit("base"))
        .when(pl.col("is_link_day").not_()).then(pl.lit("deferred"))
        .when(pl.col("matched_count") > 0).then(pl.lit("linked"))
        .otherwise(pl.lit("unmatched"))
    )  # fmt: skip
    return (
        days.join(found, on=FIXING, how="left")
        .with_columns(pl.col("matched_count").fill_null(0))
        .select(*FIXING, "link_log", "matched_count", standing.alias("link_status"), "chain")
    )


def fixings_of(panel: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """Fixings of each series, counted; whether enough of the panel was seen for a link; whether any was not."""
    seen, standing = pl.col("seen").sum(), pl.col("stands").sum()
    return (
        panel.group_by(FIXING)
        .agg(
            seen.alias("seen_count"),
            (seen >= method.link_share * standing).alias("is_link_day"),
            (seen < standing).alias("others_stand"),
        )
        .filter(pl.col("seen_count") > 0)
        .drop("seen_count")
        .with_columns(pl.col("date").rank("dense").over("series").cast(pl.Int64).alias("rank"))
    )


def with_runs(panel: pl.DataFrame, fixings: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """Prices that were seen, with the unbroken run of its provider each belongs to.

    A run ends by a delisting or by more fixings missed than `absent_fixings`; whoever comes back starts a new one.
    """
    known = panel.filter(pl.col("seen") | pl.col("delisted")).join(fixings, on=FIXING).sort([*MEMBER, "date"])
    before = pl.col("rank").shift(1).over(MEMBER)
    missed = pl.col("rank") - before - 1 > method.absent_fixings
    broken = before.is_null() | missed | pl.col("delisted").shift(1).over(MEMBER)
    return (
        known.with_columns(new_run=broken)
        .filter("seen")
        .with_columns(
            run_start=pl.when("new_run").then("date").forward_fill().over(MEMBER),
            run=pl.col("new_run").cast(pl.Int64).cum_sum().over(MEMBER),
        )
    )


def relatives(seen: pl.DataFrame, days: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """`step` of each matched provider on each link day: its winsorised log change since the link day before.

    Prices of days without a link are passed over, so that their change is in the next step. A provider is matched
    once its run is `entry_days` old, or from the start where the chain itself started with it.
    """
    founded = days.filter("is_base").select("series", pl.col("date").alias("run_start"), founding=pl.lit(value=True))
    on_links = (
        seen.drop("is_link_day")
        .join(days.filter("is_link_day").select(*FIXING, "is_base"), on=FIXING)
        .join(founded, on=["series", "run_start"], how="left")
        .sort([*MEMBER, "date"])
        .with_columns(was=pl.col("price").shift(1).over([*MEMBER, "run"]))
    )
    old_enough = (pl.col("date") - pl.col("run_start")).dt.total_days() >= method.entry_days
    change = (pl.col("price").log() - pl.col("was").log()).clip(-method.clip_log, method.clip_log)
    matched = (
        on_links.filter(
            pl.col("was").is_not_null(), pl.col("founding").fill_null(value=False) | old_enough, ~pl.col("is_base")
        )
        .with_columns(step=change)
        .sort([*FIXING, "provider"])
    )
    return capped_weights(matched, FIXING, "weight", method.weight_cap)
