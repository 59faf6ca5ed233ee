"""Screens over offers: what is no price, what is said twice, what may enter an index. They flag, they never delete.

Belongs here: rules that need the other rows of the same list. Does not belong here: rules across days (`assets/`).
"""

from __future__ import annotations

import polars as pl

from sources.prices.providers import resellers

BAND_USD = (0.05, 100.0)
KEY = ("observed_at", "provider", "sku", "offer_id", "region", "zone", "operating_system", "price_kind", "term_months")
# Flags that say something about an offer without making it unfit for an index.
HARMLESS = ("more_network", "name_contradicts_sku", "secondhand", "sold_out", "month_precision")
INDEX_KINDS = ("on_demand", "spot", "reserved", "capacity_block", "marketplace_ask")
INDEX_SEGMENTS = ("hyperscaler", "neocloud", "marketplace")


def flag(condition: pl.Expr, word: str) -> pl.Expr:
    """`flags` with a word more where the condition holds; unknown counts as no."""
    more = pl.concat_str(pl.col("flags"), pl.lit(f" {word}"))
    return pl.when(condition.fill_null(value=False)).then(more).otherwise(pl.col("flags")).alias("flags")


def flags_text() -> pl.Expr:
    """`flags` as stored: each word once, in order, null when there is none."""
    text = pl.col("flags").str.split(" ").list.set_difference([""]).list.sort().list.join(" ")
    return pl.when(text != "").then(text).alias("quality_flags")


def screen_caps(frame: pl.DataFrame) -> pl.DataFrame:
    """Spot or reserved at or above the on-demand price of the same SKU, region and system is no price: null, flagged.

    It is how a provider says that it has no spare capacity, and how a calculator fills in a commitment that is not
    sold. Where the list has no on-demand price in that region, a spot price at the level of the SKU's lowest
    on-demand price elsewhere stays, flagged.
    """
    sku = ["observed_at", "provider", "sku", "operating_system", "currency"]
    price, kind = pl.col("price_per_gpu_hour"), pl.col("price_kind")
    listed = frame.filter((kind == "on_demand") & price.is_not_null())
    here = listed.group_by([*sku, "region"]).agg(price.max().alias("cap"))
    anywhere = listed.group_by(sku).agg(price.min().alias("lowest"))
    joined = frame.join(here, on=[*sku, "region"], how="left", maintain_order="left")
    joined = joined.join(anywhere, on=sku, how="left", maintain_order="left")
    at_cap = (price >= pl.col("cap")).fill_null(value=False)
    spot, reserved = at_cap & (kind == "spot"), at_cap & (kind == "reserved")
    no_cap_here = (kind == "spot") & pl.col("cap").is_null() & (price >= pl.col("lowest"))
    return (
        joined.with_columns(flag(no_cap_here, "spot_at_on_demand_level"))
        .with_columns(flag(spot, "spot_not_below_on_demand"))
        .with_columns(
            flag(reserved, "reserved_not_below_on_demand"),
            price_per_gpu_hour=pl.when(~(spot | reserved)).then(price),
        )
        .drop("cap", "lowest")
    )


def screen_band(frame: pl.DataFrame) -> pl.DataFrame:
    """A whole GPU outside 0.05 to 100 USD an hour is a unit error or an absurd ask: kept, flagged."""
    price = pl.col("price_usd_per_gpu_hour")
    return frame.with_columns(flag((pl.col("gpu_count") >= 1) & ~price.is_between(*BAND_USD), "outside_band"))


def index_eligible() -> pl.Expr:
    """Whole resolved GPU, Linux, a list kind, from who owns the machines, in the band, no flag that matters."""
    serious = pl.col("flags").str.split(" ").list.set_difference(["", *HARMLESS]).list.len() > 0
    fit = (
        ~serious
        & (pl.col("gpu_count") >= 1)
        & pl.col("price_usd_per_gpu_hour").is_not_null()
        & (pl.col("resolution") == "resolved")
        & (pl.col("operating_system") == "linux")
        & pl.col("price_kind").is_in(INDEX_KINDS)
        & pl.col("segment").is_in(INDEX_SEGMENTS)
        & ~pl.col("provider").is_in(resellers())
    )
    return fit.fill_null(value=False).alias("index_eligible")


def one_each(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(one row a key, rows that contradict another row of the same key). What is said twice alike is said once."""
    distinct = frame.unique(maintain_order=True)
    clash = distinct.select(pl.struct(KEY).is_duplicated()).to_series()
    return distinct.filter(~clash), distinct.filter(clash)
