"""How any quotation becomes a row of `market.gpu_offers`: one shape in, one calculation.

Belongs here: price per GPU-hour from any unit, and the reason when there is none. Does not belong here: reading a
provider's document, the day's exchange rate (`assets/prices.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sources.base import Parsed, Reject
from sources.prices.geography import geography_of
from sources.prices.resolver import resolve_frame
from sources.prices.screens import flag, flags_text, index_eligible, one_each, screen_band, screen_caps

TABLE = "market.gpu_offers"
HOURS_PER_MONTH = 730  # 8,760 hours a year over 12: how providers work out their own term prices
UTC = pl.Datetime("us", "UTC")
# A slice has no price of a whole GPU: what it costs stays in `quoted_amount` and is never scaled up.
NO_PRICE = ("placeholder", "not_offered", "unit_unknown", "slice")

# One quotation as a source states it. `quoted_amount` is text, so that no digit passes through a binary float;
# `memory_hint_gb` is of one GPU; `flags` are words separated by blanks.
QUOTE = pl.Schema(
    {
        "observed_at": UTC,
        "provider": pl.String(),
        "segment": pl.String(),
        "sku": pl.String(),
        "offer_id": pl.String(),
        "region": pl.String(),
        "zone": pl.String(),
        "operating_system": pl.String(),
        "price_kind": pl.String(),
        "term_months": pl.Int64(),
        "gpu_name": pl.String(),
        "memory_hint_gb": pl.Float64(),
        "stated_gpu_count": pl.Float64(),
        "quoted_amount": pl.String(),
        "quoted_unit": pl.String(),
        "currency": pl.String(),
        "upfront_amount": pl.String(),
        "available": pl.Boolean(),
        "host_id": pl.String(),
        "machine_id": pl.String(),
        "is_verified": pl.Boolean(),
        "reliability_ratio": pl.Float64(),
        "effective_at": UTC,
        "flags": pl.String(),
        "source_name": pl.String(),
        "source_url": pl.String(),
        "certainty": pl.String(),
        "notes": pl.String(),
    }
)
DEFAULTS: Mapping[str, object] = {
    "offer_id": "",
    "region": "global",
    "zone": "",
    "operating_system": "linux",
    "term_months": 0,
    "flags": "",
}
_INNER = ("memory_hint_gb", "stated_gpu_count", "rule_gpu_count", "rule_flags", "flags")


def quotes(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Quotations given as records; what a record lacks is null or the default of its column."""
    found = [{name: row.get(name) for name in QUOTE} for row in rows]
    return with_defaults(pl.DataFrame(found, schema=dict(QUOTE)))


def with_defaults(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with every column of `QUOTE`, in its types. Raises `ValueError` for a column that is none of them."""
    if extra := set(frame.columns) - set(QUOTE):
        raise ValueError(f"not columns of a quotation: {sorted(extra)}")
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in QUOTE.items() if name not in frame.columns]
    whole = frame.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in QUOTE.items())
    return whole.with_columns(pl.col(name).fill_null(value) for name, value in DEFAULTS.items())


def parsed(frame: pl.DataFrame, rejects: Sequence[Reject] = ()) -> Parsed:
    """What a source hands back: its offers, and as rejects the quotations that contradict one another."""
    rows, clashes = one_each(offers(frame))
    told = [
        Reject(TABLE, "one_price_a_key", "two different prices for one offer", json.dumps(row, default=str), row["sku"])
        for row in clashes.iter_rows(named=True)
    ]
    return Parsed({TABLE: rows}, [*rejects, *told])


def offers(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of `market.gpu_offers` from quotations (`QUOTE`); what is no GPU is left out.

    A currency other than USD leaves `price_usd_per_gpu_hour` null and flags `fx_missing`, until the rate of the
    day is applied.
    """
    gpus = resolve_frame(frame).filter(pl.col("resolution") != "not_a_gpu")
    priced = screen_caps(_per_gpu_hour(_gpu_count(gpus)))
    usd = (pl.col("currency") == "USD").fill_null(value=False)
    has_price = pl.col("price_per_gpu_hour").is_not_null()
    in_usd = priced.with_columns(
        price_usd_per_gpu_hour=pl.when(usd).then("price_per_gpu_hour"),
        fx_rate=pl.when(usd).then(pl.lit(1.0)),
        fx_date=pl.lit(None, dtype=pl.Date),
        fx_source=pl.lit(None, dtype=pl.String),
        upfront_usd=pl.when(usd).then(pl.col("upfront_amount").cast(pl.Float64, strict=False)),
        known_at=pl.col("observed_at"),
    ).with_columns(flag(has_price & (pl.col("currency") != "USD"), "fx_missing"))
    placed = in_usd.join(geography_of(in_usd["region"]), on="region", how="left", maintain_order="left")
    return screen_band(placed).with_columns(flags_text(), index_eligible()).drop(_INNER)


def _gpu_count(frame: pl.DataFrame) -> pl.DataFrame:
    """The SKU's own count goes before the stated one (a slice is often stated as 1); a contradiction is null."""
    stated, ruled = pl.col("stated_gpu_count"), pl.col("rule_gpu_count")
    conflict = ((stated != ruled) & (ruled >= 1)).fill_null(value=False)
    counted = frame.with_columns(
        gpu_count=pl.when(~conflict).then(pl.coalesce(ruled, stated)),
        flags=pl.concat_str(["flags", "rule_flags"], separator=" "),
    )
    unknown = pl.col("gpu_count").is_null() | (pl.col("gpu_count") <= 0)
    return (
        counted.with_columns(flag(conflict, "gpu_count_conflict"))
        .with_columns(flag(unknown & ~conflict, "gpu_count_unknown"))
        .with_columns(flag((pl.col("gpu_count") > 0) & (pl.col("gpu_count") < 1), "slice"))
    )


def _per_gpu_hour(frame: pl.DataFrame) -> pl.DataFrame:
    """`price_per_gpu_hour` from the quoted amount, its unit and a payment in advance spread over the term."""
    amount = pl.col("quoted_amount").cast(pl.Float64, strict=False)
    upfront = pl.col("upfront_amount").cast(pl.Float64, strict=False).fill_null(0.0)
    count, unit = pl.when(pl.col("gpu_count") > 0).then("gpu_count"), pl.col("quoted_unit")
    hours = pl.when(pl.col("term_months") > 0).then(pl.col("term_months") * HOURS_PER_MONTH)
    quoted = (
        pl.when(unit.is_in(["instance_hour", "offer_hour"]))
        .then(amount / count)
        .when(unit.is_in(["gpu_hour", "component_hour"]))
        .then(amount)
        .when(unit == "instance_month")
        .then(amount / count / HOURS_PER_MONTH)
        .when(unit == "instance_term")
        .then(amount / count / hours)
        .when(unit == "gpu_term")
        .then(amount / hours)
        .when(unit == "gpu_minute")
        .then(amount * 60)
    )
    spread = pl.when(upfront > 0).then(upfront / count / hours).otherwise(0.0)
    nothing = (amount.is_null() | (amount <= 0)) & (upfront <= 0)
    flagged = frame.with_columns(flag(nothing, "not_offered")).with_columns(flag(unit.is_null(), "unit_unknown"))
    flagged = flagged.with_columns(flag(pl.col("currency").is_null(), "currency_unknown"))
    no_price = pl.any_horizontal(pl.col("flags").str.split(" ").list.contains(word) for word in NO_PRICE)
    return flagged.with_columns(price_per_gpu_hour=pl.when(~no_price).then((quoted + spread).round(9)))
