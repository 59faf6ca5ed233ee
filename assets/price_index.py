"""`market.gpu_price_index`: level, chain, spread and composition effect of each series from daily provider prices.

Belongs here: panels, rows of the index, how new rows continue published ones. Does not belong here: the estimators
(`price_level.py`, `price_chain.py`), provider prices (`price_daily.py`), the lake (`price_tables.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from assets.price_chain import FIXING, links
from assets.price_daily import fixed_at, headline_name, in_headline
from assets.price_level import capped_weights, central_third
from assets.price_method import HEADLINE, INDEX_SOURCE, METHOD, METHOD_VERSION, Method
from warehouse.schema.declare import lake_schema
from warehouse.schema.prices import GpuPriceIndex

TABLE = "market.gpu_price_index"
BASE = 100.0


def price_index(
    daily: pl.DataFrame, weights: Mapping[str, float] | None = None, method: Method = METHOD
) -> pl.DataFrame:
    """Rows of `market.gpu_price_index` for every fixing of every series, as if none had been published before.

    daily: rows of `market.gpu_price_daily` under one method version, in any order. weights: by provider, capped
    before use; equal where not given. A fixing whose panel is smaller than the minimum has no level and no index
    value, and says so; its link still counts, so that the chain goes on when the panel is large enough again.
    """
    return finished(unpublished(daily, weights, method))


def unpublished(
    daily: pl.DataFrame, weights: Mapping[str, float] | None = None, method: Method = METHOD
) -> pl.DataFrame:
    """Fixings with `chain` and `chain_log`, the sum of the chain's links; without what published rows decide."""
    panel = panel_of(daily, weights)
    chained = links(panel, method).sort(FIXING)
    log = pl.col("link_log").fill_null(0.0).cum_sum().over("series", "chain")
    rows = chained.with_columns(log.alias("chain_log")).join(levels(panel, method), on=FIXING, how="left")
    enough = pl.col("provider_count") >= method.min_panel
    few = pl.format("{} of the {} providers that a level needs", "provider_count", pl.lit(method.min_panel))
    return rows.with_columns(
        pl.when(enough).then("level_usd_per_gpu_hour").alias("level_usd_per_gpu_hour"),
        no_level_reason=pl.when(~enough).then(few),
        parameters=pl.lit(method.as_json()),
    )


def panel_of(daily: pl.DataFrame, weights: Mapping[str, float] | None = None) -> pl.DataFrame:
    """Providers of each series and day, those of a chip's headline once more under its name."""
    weight = pl.lit(1.0) if not weights else pl.col("provider").replace_strict(weights, default=1.0).cast(pl.Float64)
    # Sums of floats depend on the order of their terms: rows stand in one order whatever the input's was.
    members = (
        daily.unique(["date", "series", "provider"])
        .sort("series", "date", "provider")
        .select(
            "series",
            "date",
            "provider",
            "accelerator_id",
            "segment",
            "price_kind",
            "term_months",
            price="price_usd_per_gpu_hour",
            seen=pl.col("passes") & ~pl.col("is_carried") & ~pl.col("is_held"),
            stands="passes",
            carried=pl.col("passes") & pl.col("is_carried"),
            held=pl.col("passes") & pl.col("is_held"),
            delisted=_said("delisted") & ~pl.col("passes"),
            screens="screens",
            weight=weight,
        )
    )
    headline = members.filter(in_headline()).with_columns(
        headline_name().alias("series"), segment=pl.lit(HEADLINE), price_kind=pl.lit("on_demand")
    )
    return pl.concat([members, headline])


def _said(word: str) -> pl.Expr:
    return pl.col("screens").str.contains(rf"\b{word}\b").fill_null(value=False)


def levels(panel: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """Level, spread, counts and names for each series and day."""
    standing = capped_weights(panel.filter("stands"), FIXING, "weight", method.weight_cap)
    level = central_third(standing, FIXING, "price", "weight").rename({"price": "level_usd_per_gpu_hour"})
    price = pl.col("price")
    spread = standing.group_by(FIXING).agg(
        provider_count=pl.len().cast(pl.Int64),
        carried_count=pl.col("carried").sum().cast(pl.Int64),
        held_count=pl.col("held").sum().cast(pl.Int64),
        p25_usd_per_gpu_hour=price.quantile(0.25, "linear"),
        median_usd_per_gpu_hour=price.median(),
        p75_usd_per_gpu_hour=price.quantile(0.75, "linear"),
        low_usd_per_gpu_hour=price.min(),
        high_usd_per_gpu_hour=price.max(),
        contributors=pl.col("provider").sort().str.join(" "),
    )
    about = panel.group_by(FIXING).agg(
        *(pl.col(name).first() for name in ("accelerator_id", "segment", "price_kind")),
        pl.col("term_months").max(),
        excluded=pl.format("{}:{}", "provider", pl.col("screens").fill_null("no_price").str.replace_all(" ", "+"))
        .filter(~pl.col("stands"))
        .sort()
        .str.join(" ")
        .replace("", None),
    )
    return about.join(level, on=FIXING, how="left").join(spread, on=FIXING, how="left")


def finished(
    new: pl.DataFrame, known: pl.DataFrame | None = None, published: pl.DataFrame | None = None
) -> pl.DataFrame:
    """`new` fixings as rows of the table, continuing `published` rows.

    known: all fixings with their `chain_log`, of which `new` are those without a published row. A new value follows
    from the published one before it (else the one after it) by the links between them; without any, the chain is
    100 on its first day with a level.
    """
    known = new if known is None else known
    said = pl.DataFrame(schema=lake_schema(GpuPriceIndex)) if published is None else published
    anchors = (
        said.filter(pl.col("index_value").is_not_null())
        .join(known.select(*FIXING, "chain", "chain_log"), on=FIXING)
        .select("series", "chain", "date", "base_date", "index_value", anchor_log="chain_log")
        .sort("date")
    )
    anchored = _anchored(new, anchors)
    first = (
        known.filter(pl.col("level_usd_per_gpu_hour").is_not_null())
        .sort("date")
        .group_by("series", "chain")
        .agg(first_date=pl.col("date").first(), first_log=pl.col("chain_log").first())
    )
    value = pl.coalesce(
        pl.col("index_value") * (pl.col("chain_log") - pl.col("anchor_log")).exp(),
        BASE * (pl.col("chain_log") - pl.col("first_log")).exp(),
    )
    has_level = pl.col("level_usd_per_gpu_hour").is_not_null()
    valued = anchored.join(first, on=["series", "chain"], how="left").with_columns(
        index_value=pl.when(has_level).then(value),
        base_date=pl.when(has_level).then(pl.coalesce("base_date", "first_date")),
    )
    return (
        _with_composition(valued, said)
        .with_columns(
            method_version=pl.lit(METHOD_VERSION),
            source=pl.lit(INDEX_SOURCE),
            source_name=pl.lit(f"market.gpu_price_daily by the price index method {METHOD_VERSION}"),
            known_at=fixed_at(),
        )
        .select(
            pl.col(name).cast(kind) if name in _MADE else pl.lit(None, dtype=kind).alias(name)
            for name, kind in lake_schema(GpuPriceIndex).items()
        )
        .sort("date", "series")
    )


_EMPTY = ("source_url", "known_at_precision", "certainty", "checked", "payload_sha256", "retrieved_at", "notes")
_MADE = [name for name in lake_schema(GpuPriceIndex) if name not in _EMPTY]


def _anchored(new: pl.DataFrame, anchors: pl.DataFrame) -> pl.DataFrame:
    """The published value each new fixing follows from: the last before it in its chain, else the first after it."""
    by = ["series", "chain"]
    columns = ("index_value", "anchor_log", "base_date")
    rows = new.sort("date")
    for strategy in ("backward", "forward"):
        suffix = f"_{strategy}"
        named = anchors.select(*by, "date", *(pl.col(name).alias(name + suffix) for name in columns))
        rows = rows.join_asof(named, on="date", by=by, strategy=strategy, check_sortedness=False)
    return rows.with_columns(pl.coalesce(f"{name}_backward", f"{name}_forward").alias(name) for name in columns)


def _with_composition(rows: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """Chain less level, both against the first day of the month on which the chain and a level were published."""
    valued = ["date", "series", "base_date", "index_value", "level_usd_per_gpu_hour"]
    both = pl.concat([said.select(valued), rows.select(valued)]).filter(pl.col("index_value").is_not_null())
    month = pl.col("date").dt.truncate("1mo").alias("month")
    reference = (
        both.sort("date")
        .group_by("series", "base_date", month)
        .agg(
            reference_date=pl.col("date").first(),
            reference_index=pl.col("index_value").first(),
            reference_level=pl.col("level_usd_per_gpu_hour").first(),
        )
    )
    effect = pl.col("index_value") / pl.col("reference_index") - pl.col("level_usd_per_gpu_hour") / pl.col(
        "reference_level"
    )
    return (
        rows.with_columns(month)
        .join(reference, on=["series", "base_date", "month"], how="left")
        .with_columns(composition_effect_ratio=effect)
    )
