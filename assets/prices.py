"""Offers before they land: other currencies to USD by the day's rate, and feeds that changed their meaning refused.

Belongs here: what needs another table or the last batch. Does not belong here: reading price lists
(`sources/prices/`), daily prices and the index.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

import polars as pl

from sources.base import ParseError
from sources.prices.screens import flags_text, index_eligible, screen_band

TABLE = "market.gpu_offers"
MAX_RATE_AGE_DAYS = 7
# A feed whose products move together by one large factor has changed its unit, not its prices.
SHIFT_SHARE = 0.3
SHIFT_FACTOR = 1.8
SHIFT_TOLERANCE = 0.02
MIN_PRODUCTS = 4
PRODUCT = ("provider", "sku", "price_kind", "term_months", "operating_system")


def derive(
    frames: Mapping[str, pl.DataFrame], rates: Callable[[], pl.DataFrame], before: pl.LazyFrame | None = None
) -> dict[str, pl.DataFrame]:
    """Offers in USD. rates: reads `ref.fx_rates`, only when it is needed. before: offers that landed earlier.

    Raises `ParseError` when the feed as a whole changed unit or currency against `before`.
    """
    offers = frames.get(TABLE)
    if offers is None or offers.is_empty():
        return dict(frames)
    priced = to_usd(offers, rates()) if offers.select(_waits_for_a_rate().any()).item() else offers
    if before is not None:
        refuse_shift(priced, before)
    return {**frames, TABLE: priced}


def to_usd(offers: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    """Fill USD prices of offers in other currencies with the newest rate of the day or of the seven days before.

    rates: `rate_date`, `currency`, `usd_per_unit`, `source`. The rate, its day and its source are kept in the row;
    without a rate the price stays null and the offer keeps `fx_missing`.
    """
    known = (
        rates.select("rate_date", "currency", "usd_per_unit", pl.col("source").alias("rate_source"))
        .unique(["rate_date", "currency"], keep="first", maintain_order=True)
        .sort("rate_date")
    )
    waiting = (
        offers.with_row_index("place")
        .filter(_waits_for_a_rate())
        .with_columns(pl.col("observed_at").dt.date().alias("seen_date"))
        .sort("seen_date")
        .join_asof(
            known.with_columns(pl.col("rate_date").alias("found_date")),
            left_on="seen_date",
            right_on="rate_date",
            by="currency",
            strategy="backward",
            tolerance=dt.timedelta(days=MAX_RATE_AGE_DAYS),
            check_sortedness=False,
        )
    )
    rate, found = pl.col("usd_per_unit"), pl.col("usd_per_unit").is_not_null()
    upfront = pl.col("upfront_amount").cast(pl.Float64, strict=False)
    converted = waiting.with_columns(
        price_usd_per_gpu_hour=(pl.col("price_per_gpu_hour") * rate).round(9),
        upfront_usd=upfront * rate,
        fx_rate=rate,
        fx_date="found_date",
        fx_source="rate_source",
        flags=pl.when(found)
        .then(pl.col("quality_flags").str.replace(r"\bfx_missing\b", ""))
        .otherwise("quality_flags")
        .fill_null(""),
    )
    judged = screen_band(converted).with_columns(flags_text(), index_eligible())
    rest = offers.with_row_index("place").filter(~_waits_for_a_rate())
    both = pl.concat([rest, judged.select(rest.columns)])
    return both.sort("place").drop("place")


def refuse_shift(offers: pl.DataFrame, before: pl.LazyFrame) -> None:
    """Compare one list with the provider's list before it. Raises `ParseError` on a new unit or currency.

    Only a document seen at one moment is compared; a history holds its own changes. Products are compared by their
    median, so an order book whose asks have new ids still matches.
    """
    moments = offers["observed_at"].unique()
    if moments.len() != 1:
        return
    provider = pl.col("provider").is_in(offers["provider"].unique().to_list())
    earlier = before.filter(provider, pl.col("observed_at") < moments[0], pl.col("price_per_gpu_hour").is_not_null())
    last = (
        earlier.select(*PRODUCT, "source_name", "observed_at", "currency", "price_per_gpu_hour")
        .filter(pl.col("observed_at") == pl.col("observed_at").max().over(*PRODUCT, "source_name"))
        .group_by(*PRODUCT, "source_name")
        .agg(pl.col("price_per_gpu_hour").median().alias("was"), pl.col("currency").first().alias("was_in"))
        .collect()
    )
    now = (
        offers.filter(pl.col("price_per_gpu_hour").is_not_null())
        .group_by(*PRODUCT, "source_name")
        .agg(pl.col("price_per_gpu_hour").median(), pl.col("currency").first())
    )
    both = now.join(last, on=[*PRODUCT, "source_name"], nulls_equal=True)
    if both.height < MIN_PRODUCTS:
        return
    name = both["provider"][0]
    moved = both.filter(pl.col("currency") != pl.col("was_in"))
    if moved.height > SHIFT_SHARE * both.height:
        raise ParseError(f"{name}: {moved.height} of {both.height} products changed currency from {moved['was_in'][0]}")
    factor, share = common_factor(both["price_per_gpu_hour"] / both["was"])
    if share > SHIFT_SHARE and not 1 / SHIFT_FACTOR < factor < SHIFT_FACTOR:
        raise ParseError(
            f"{name}: {share:.0%} of {both.height} products moved by one factor, {factor:.3g}: "
            "the feed changed its unit; look at it before it lands"
        )


def common_factor(ratios: pl.Series) -> tuple[float, float]:
    """(factor, share) of the largest group of ratios other than 1 that agree within 2 %; (1, 0) without one."""
    steps = pl.DataFrame({"log": ratios.log()}).filter(pl.col("log").abs() > SHIFT_TOLERANCE)
    if steps.is_empty():
        return 1.0, 0.0
    # Half-steps overlap, so that a group on a border is whole in one of the two griddings.
    grids = [
        steps.group_by((pl.col("log") / (2 * SHIFT_TOLERANCE) + offset).floor().alias("cell")).agg(
            pl.col("log").median().alias("middle"), pl.len()
        )
        for offset in (0.0, 0.5)
    ]
    best = (
        pl.concat([g.select("middle", "len") for g in grids]).sort("len", "middle", descending=True).row(0, named=True)
    )
    return float(pl.Series([best["middle"]]).exp()[0]), best["len"] / ratios.len()


def _waits_for_a_rate() -> pl.Expr:
    return pl.col("quality_flags").str.contains(r"\bfx_missing\b").fill_null(value=False)
