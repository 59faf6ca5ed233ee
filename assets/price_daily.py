"""`market.gpu_price_daily`: the price each provider stands for on each day in each series, screened.

Belongs here: quotes into the screens and out again as rows. Does not belong here: what a quote is
(`price_quotes.py`), the rules of the screens (`price_screens.py`), levels (`price_index.py`).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from assets import price_screens as screens
from assets.price_method import DAILY_SOURCE, HEADLINE, METHOD, METHOD_VERSION, Method
from assets.price_quotes import ABOUT, CELL, feed_name, provider_quotes
from assets.price_screens import Quotes, Verdicts
from warehouse.schema.declare import lake_schema
from warehouse.schema.prices import GpuPriceDaily

TABLE = "market.gpu_price_daily"
KEY = ("date", *CELL, "method_version")
COUNTS = ("offer_count", "sku_count", "region_count", "host_count", "gpu_count", "method")
MAD_TO_SIGMA = 0.6745  # Iglewicz and Hoaglin 1993
# What the headline of a chip is made of: on-demand list prices of neoclouds and verified asks, SXM boards only.
HEADLINE_KINDS = (("neocloud", "on_demand"), ("marketplace", "marketplace_ask"))
SXM = r"-sxm\d*-"


def in_headline() -> pl.Expr:
    """Does a series count towards the headline of its chip?"""
    pair = pl.concat_str("segment", "price_kind", separator="/")
    named = pair.is_in(["/".join(kind) for kind in HEADLINE_KINDS]) & (pl.col("term_months") == 0)
    return named & pl.col("accelerator_id").str.contains(SXM)


def headline_name() -> pl.Expr:
    """Name of the headline series of a chip."""
    return pl.concat_str("accelerator_id", pl.lit(f"/{HEADLINE}/on_demand"))


def daily_prices(offers: pl.DataFrame, published: pl.DataFrame | None = None, method: Method = METHOD) -> pl.DataFrame:
    """Rows of `market.gpu_price_daily` for every day the offers speak of.

    offers: rows of `market.gpu_offers`, in any order. published: rows already published under this method version;
    where one exists, what it says was seen is taken instead of the offers, so that a correction that arrives late
    cannot change what follows from a published price.
    """
    quotes = provider_quotes(offers, method)
    if published is not None and not published.is_empty():
        quotes = as_published(quotes, published.filter(pl.col("method_version") == METHOD_VERSION))
    if quotes.is_empty():
        return pl.DataFrame(schema=lake_schema(GpuPriceDaily))
    cells = quotes.select(*CELL, *ABOUT).unique(CELL).sort(CELL)
    days = quotes.select(pl.col("date").unique().sort()).to_series()
    verdicts = screens.screen(matrix(quotes, cells, days, read_lists(offers)), method)
    rows = rows_of(verdicts, cells, days).join(
        quotes.select("date", *CELL, *COUNTS, "quoted"), on=["date", *CELL], how="left"
    )
    return finished(rows, method)


def as_published(quotes: pl.DataFrame, published: pl.DataFrame) -> pl.DataFrame:
    """Quotes with what published rows say was seen on their days; days published without a price stay without."""
    key = ["date", *CELL]
    said = published.select(
        *key, *ABOUT, *COUNTS, said="observed_usd_per_gpu_hour",
        few=pl.col("screens").str.contains(r"\bthin_book\b").fill_null(value=False),
    )  # fmt: skip
    feeds = quotes.select(*key, "feed")
    fixed = (
        said.filter(pl.col("said").is_not_null() | pl.col("few"))
        .join(feeds, on=key, how="left")
        .select([pl.col("said").alias(name) if name == "quoted" else pl.col(name) for name in quotes.columns])
    )
    return pl.concat([quotes.join(said, on=key, how="anti"), fixed])


def read_lists(offers: pl.DataFrame) -> pl.DataFrame:
    """The lists that were read on each day, whatever stood on them."""
    return offers.select(pl.col("observed_at").dt.date().alias("date"), feed_name()).unique()


def matrix(quotes: pl.DataFrame, cells: pl.DataFrame, days: pl.Series, lists: pl.DataFrame) -> Quotes:
    """Quotes as days by cells."""
    feeds = pl.Series("feed", sorted(set(lists["feed"]) | set(quotes["feed"].drop_nulls())), dtype=pl.String)
    codes = {"date": days, "feed": feeds}
    coded = quotes.join(cells.select(*CELL).with_row_index("cell"), on=CELL)
    row, column = _code(coded["date"], days), coded["cell"].to_numpy()
    shape = (days.len(), cells.height)
    quoted, thin = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    quoted[row, column] = coded["quoted"].to_numpy()
    thin[row, column] = coded["quoted"].is_null().to_numpy()
    feed = np.full(shape, -1, dtype=np.int64)
    feed[row, column] = _code(coded["feed"], feeds)
    read = np.zeros((days.len(), feeds.len()), dtype=bool)
    known = lists.filter(pl.col("date").is_in(days.implode()))
    read[_code(known["date"], days), _code(known["feed"], codes["feed"])] = True
    named = cells.select(
        "series",
        calendar=pl.when(in_headline()).then(headline_name()).otherwise("series"),
        source=pl.concat_str("provider", "price_kind", separator="|"),
        is_book=pl.col("price_kind") == "marketplace_ask",
    )
    return Quotes(
        days=days.cast(pl.Int32).cast(pl.Int64).to_numpy(),
        quoted=quoted,
        thin=thin,
        series=_rank(named["series"]),
        calendar=_rank(named["calendar"]),
        source=_rank(named["source"]),
        is_book=named["is_book"].to_numpy(),
        feed=feed,
        read=read,
    )


def _code(values: pl.Series, words: pl.Series) -> screens.Ints:
    """Place of each value among sorted words; -1 for null."""
    place = words.search_sorted(values.fill_null(words[0])).cast(pl.Int64)
    return np.where(values.is_null().to_numpy(), -1, place.to_numpy())


def _rank(values: pl.Series) -> screens.Ints:
    return (values.rank("dense") - 1).cast(pl.Int64).to_numpy()


def rows_of(verdicts: Verdicts, cells: pl.DataFrame, days: pl.Series) -> pl.DataFrame:
    """One row for each day and cell that is anything at all."""
    row, column = np.nonzero(verdicts.state)
    words = {code: _words(code) for code in range(2 * max(screens.WORDS))}
    return pl.DataFrame(
        {
            "date": days.gather(row),
            **{name: cells[name].gather(column) for name in cells.columns},
            "state": verdicts.state[row, column],
            "price_usd_per_gpu_hour": verdicts.price[row, column],
            "last_real_date": verdicts.real_day[row, column],
            "screens": verdicts.screens[row, column],
        }
    ).with_columns(
        pl.col("price_usd_per_gpu_hour").fill_nan(None),
        pl.col("screens").cast(pl.Int64).replace_strict(words, return_dtype=pl.String),
    )


def _words(code: int) -> str | None:
    return " ".join(sorted(word for bit, word in screens.WORDS.items() if code & bit)) or None


def finished(rows: pl.DataFrame, method: Method = METHOD) -> pl.DataFrame:
    """Rows with the cross-section warning and where they come from, in the order of the key."""
    state, price = pl.col("state"), pl.col("price_usd_per_gpu_hour")
    day = [pl.col("date"), pl.col("series")]
    log = price.log()
    away = (log - log.median().over(day)).abs()
    mad = away.median().over(day)
    odd = (
        (price.count().over(day) >= method.min_panel) & (mad > 0) & (MAD_TO_SIGMA * away > method.cross_section_z * mad)
    )
    passes = price.is_not_null()
    return (
        rows.with_columns(
            observed_usd_per_gpu_hour=pl.col("quoted"),
            is_carried=state == screens.CARRIED,
            is_held=state == screens.HELD,
            passes=passes,
            last_real_date=pl.when(passes).then(pl.col("last_real_date").cast(pl.Int32).cast(pl.Date)),
            screens=pl.when(odd.fill_null(value=False))
            .then(pl.concat_str("screens", pl.lit("cross_section"), separator=" ", ignore_nulls=True))
            .otherwise("screens"),
            method_version=pl.lit(METHOD_VERSION),
            source=pl.lit(DAILY_SOURCE),
            source_name=pl.lit(f"market.gpu_offers by the price index method {METHOD_VERSION}"),
            known_at=fixed_at(),
        )
        .drop("state", "quoted")
        .sort(KEY)
        .match_to_schema(lake_schema(GpuPriceDaily), missing_columns="insert")
        if rows.height
        else pl.DataFrame(schema=lake_schema(GpuPriceDaily))
    )


def fixed_at() -> pl.Expr:
    """A day is fixed at the midnight (UTC) that ends it."""
    return (pl.col("date") + pl.duration(days=1)).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
