"""From offers to the one price a provider quotes on a day in a series, before any screen over time.

Belongs here: what is an eligible quote of the day, the median of a price list, the weighted median of an order book.
Does not belong here: screens across days (`price_screens.py`), levels and chains.
"""

from __future__ import annotations

import polars as pl

from assets.price_method import METHOD, Method

CELL = ("series", "provider")
ABOUT = ("accelerator_id", "segment", "price_kind", "term_months")
BOOK_KIND = "marketplace_ask"
PRODUCT = ("sku", "offer_id", "region", "zone", "operating_system")


def provider_quotes(offers: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """One row for each date, series and provider with an eligible quote.

    offers: rows of `market.gpu_offers`, in any order, repeated or not. Gives `date`, `series`, `provider`, what the
    series is about, `quoted` (USD per GPU-hour; null for a book below its minimum of hosts), counts, `method` and
    `feed`, the list it was read from.
    """
    fit = offers.filter("index_eligible", pl.col("price_usd_per_gpu_hour") > 0).select(
        pl.col("observed_at").dt.date().alias("date"),
        series_name(),
        "provider",
        *ABOUT,
        *PRODUCT,
        "observed_at",
        feed_name(),
        price="price_usd_per_gpu_hour",
        gpus="gpu_count",
        host="host_id",
        machine="machine_id",
        steady=(
            pl.col("is_verified")
            & (pl.col("reliability_ratio") >= method.book_reliability)
            & pl.col("available").fill_null(value=True)
        ).fill_null(value=False),
    )
    book = pl.col("price_kind") == BOOK_KIND
    return pl.concat([list_quotes(fit.filter(~book)), book_quotes(fit.filter(book, "steady"), method)])


def series_name() -> pl.Expr:
    """`accelerator_id/segment/price_kind`, and the months of a term: prices of two series never meet."""
    term = pl.when(pl.col("term_months") > 0).then(pl.format("/{}m", "term_months")).otherwise(pl.lit(""))
    return pl.concat_str(
        pl.concat_str("accelerator_id", "segment", "price_kind", separator="/"), term, ignore_nulls=False
    ).alias("series")


def feed_name() -> pl.Expr:
    """The list an offer stands on: a list that was read and no longer names a product has delisted it."""
    return pl.concat_str(
        "provider", "price_kind", pl.col("source_name").fill_null(pl.col("source")), separator="|"
    ).alias("feed")


def list_quotes(fit: pl.DataFrame) -> pl.DataFrame:
    """Median over SKUs and regions of each product's last price of the day; copies of one price count once."""
    cell = ["date", *CELL]
    last = fit.filter(pl.col("observed_at") == pl.col("observed_at").max().over(*cell, *PRODUCT)).unique(
        [*cell, *PRODUCT, "price"]
    )
    distinct = last.unique([*cell, "sku", "price"]).group_by(cell).agg(pl.col("price").median().alias("quoted"))
    counts = last.group_by(cell).agg(
        *(pl.col(name).first() for name in ABOUT),
        pl.col("feed").min(),
        offer_count=pl.struct(PRODUCT).n_unique().cast(pl.Int64),
        sku_count=pl.col("sku").n_unique().cast(pl.Int64),
        region_count=pl.col("region").n_unique().cast(pl.Int64),
        host_count=pl.lit(None, dtype=pl.Int64),
        gpu_count=pl.lit(None, dtype=pl.Float64),
        method=pl.lit("list_median"),
    )
    return counts.join(distinct, on=cell)


def book_quotes(fit: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """GPU-weighted median over machines; null when fewer hosts stand behind them than a book needs.

    The offers of one machine are alternatives (1, 2, 4, 8 of the same GPUs): the largest, at its lowest price,
    stands for the machine and weighs as many GPUs as it has.
    """
    cell = ["date", *CELL]
    known = fit.filter(pl.col("machine").is_not_null(), pl.col("host").is_not_null())
    last = known.filter(pl.col("observed_at") == pl.col("observed_at").max().over(*cell, "machine"))
    one = last.sort([*cell, "machine", "gpus", "price"], descending=[*[False] * 4, True, False]).unique(
        [*cell, "machine"], keep="first", maintain_order=True
    )
    middle = weighted_median(one, cell, "price", "gpus").rename({"price": "quoted"})
    counts = last.group_by(cell).agg(
        *(pl.col(name).first() for name in ABOUT),
        pl.col("feed").min(),
        offer_count=pl.struct(PRODUCT).n_unique().cast(pl.Int64),
        sku_count=pl.col("sku").n_unique().cast(pl.Int64),
        region_count=pl.col("region").n_unique().cast(pl.Int64),
        host_count=pl.col("host").n_unique().cast(pl.Int64),
    )
    sizes = one.group_by(cell).agg(pl.col("gpus").sum().alias("gpu_count"), pl.lit("book_median").alias("method"))
    enough = pl.col("host_count") >= method.book_hosts
    return (
        counts.join(sizes, on=cell)
        .join(middle, on=cell)
        .with_columns(pl.when(enough).then("quoted").alias("quoted"))
        .select([*cell, *ABOUT, "feed", *_COUNTS, "method", "quoted"])
    )


_COUNTS = ("offer_count", "sku_count", "region_count", "host_count", "gpu_count")


def weighted_median(frame: pl.DataFrame, by: list[str], value: str, weight: str) -> pl.DataFrame:
    """The value at half of the weight; the mean of the two neighbours when half falls exactly between them."""
    half = pl.col(weight).sum().over(by) / 2
    ranked = frame.sort([*by, value]).with_columns(pl.col(weight).cum_sum().over(by).alias("below"), half.alias("half"))
    lower = pl.col(value).filter(pl.col("below") >= pl.col("half")).first()
    upper = pl.col(value).filter(pl.col("below") > pl.col("half")).first()
    return ranked.group_by(by).agg(((lower + pl.coalesce(upper, lower)) / 2).alias(value))
