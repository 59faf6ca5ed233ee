"""A user's own quotes and contracts, as a CSV anybody can keep.

Columns: `quoted_date` (2026-11-30), `provider`, `gpu` (as on the quote, e.g. H100 SXM5), `gpu_count`, `amount`,
`currency` (ISO code), `unit` (gpu_hour, instance_hour, instance_month, instance_term, gpu_term, gpu_minute), `kind`
(contract, on_demand, reserved, spot, capacity_block), `term_months` (0 for none); optional: `upfront_amount`,
`region`, `reference` (offer number), `link`, `notes`. Belongs here: that file. Does not belong here: public lists;
these rows are private and never enter an index.
"""

from __future__ import annotations

import polars as pl

from sources.base import Parsed, Payload, Reject
from sources.prices.offers import TABLE, parsed, with_defaults
from sources.prices.providers import provider_of
from sources.prices.reading import PriceSource, csv_frame

COLUMNS = ("quoted_date", "provider", "gpu", "gpu_count", "amount", "currency", "unit", "kind", "term_months")
OPTIONAL = ("upfront_amount", "region", "reference", "link", "notes")
UNITS = ("gpu_hour", "instance_hour", "instance_month", "instance_term", "gpu_term", "gpu_minute")
KINDS = ("contract", "on_demand", "reserved", "spot", "capacity_block")


class Quotes(PriceSource):
    """`gpu-prices/quotes`."""

    def shape(self, payload: Payload) -> Parsed:
        frame = csv_frame(payload, COLUMNS).with_row_index("line", offset=2)
        frame = frame.with_columns(pl.lit(None, dtype=pl.String).alias(c) for c in OPTIONAL if c not in frame.columns)
        seen = pl.col("quoted_date").str.to_datetime("%Y-%m-%d", time_unit="us", time_zone="UTC", strict=False)
        term = pl.col("term_months").cast(pl.Int64, strict=False)
        fault = (
            pl.when(seen.is_null())
            .then(pl.lit("quoted_date is not a day like 2026-11-30"))
            .when(pl.col("amount").cast(pl.Float64, strict=False).is_null())
            .then(pl.lit("amount is not a number"))
            .when(~pl.col("currency").str.contains(r"^[A-Z]{3}$").fill_null(value=False))
            .then(pl.lit("currency is not an ISO code like USD"))
            .when(~pl.col("unit").is_in(UNITS).fill_null(value=False))
            .then(pl.lit(f"unit is none of {', '.join(UNITS)}"))
            .when(~pl.col("kind").is_in(KINDS).fill_null(value=False))
            .then(pl.lit(f"kind is none of {', '.join(KINDS)}"))
            .when(term.is_null() | (pl.col("unit").str.ends_with("_term") & (term <= 0)))
            .then(pl.lit("term_months is missing; a price for a term needs it"))
        )
        told = frame.with_columns(fault.alias("fault"))
        rejects = [
            Reject(TABLE, "quote", row["fault"], str({c: row[c] for c in COLUMNS}), f"line {row['line']}")
            for row in told.filter(pl.col("fault").is_not_null()).iter_rows(named=True)
        ]
        good = told.filter(pl.col("fault").is_null())
        names = {spelling: provider_of(spelling) for spelling in good["provider"].unique()}
        rows = good.select(
            observed_at=seen,
            provider=pl.col("provider").replace(names),
            segment=pl.lit("own"),
            sku=pl.col("gpu"),
            offer_id=pl.coalesce("reference", pl.format("line {}", "line")),
            region=pl.col("region").fill_null("global"),
            price_kind="kind",
            term_months=term,
            gpu_name="gpu",
            stated_gpu_count=pl.col("gpu_count").cast(pl.Float64, strict=False),
            quoted_amount="amount",
            quoted_unit="unit",
            currency="currency",
            upfront_amount="upfront_amount",
            flags=pl.lit("own_quote"),
            source_name=pl.lit("own quotes and contracts"),
            source_url=pl.coalesce("link", pl.lit(payload.url)),
            notes="notes",
        )
        return parsed(with_defaults(rows), rejects)


SOURCE = Quotes(
    name="gpu-prices/quotes",
    publisher="you",
    homepage="",
    licence="private",
    terms="your own file",
    cadence="static",
    authority="curated",
)
