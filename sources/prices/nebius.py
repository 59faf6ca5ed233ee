"""Nebius: prices of its page as a table a person saves, written from the documentation.

Belongs here: `platform,preset,region,price_usd_per_gpu_hour,kind,effective_date` as CSV. Does not belong here: its
calculator, which needs an account. Prices announced for a later day are kept, and are not in force before it.
"""

from __future__ import annotations

import polars as pl

from sources.base import Parsed, Payload
from sources.prices.offers import parsed, with_defaults
from sources.prices.reading import PriceSource, csv_frame, seen_at

COLUMNS = ("platform", "preset", "region", "price_usd_per_gpu_hour", "kind", "effective_date")


class Nebius(PriceSource):
    """`gpu-prices/nebius`."""

    def shape(self, payload: Payload) -> Parsed:
        frame = csv_frame(payload, COLUMNS)
        moment = seen_at(payload)
        effective = pl.col("effective_date").str.to_datetime("%Y-%m-%d", time_unit="us", time_zone="UTC", strict=False)
        later = pl.when(effective > moment.at).then(pl.lit(" not_yet_effective")).otherwise(pl.lit(""))
        rows = frame.select(
            observed_at=pl.lit(moment.at),
            provider=pl.lit("nebius"),
            segment=pl.lit("neocloud"),
            sku=pl.concat_str("platform", "preset", separator="_"),
            region=pl.col("region").fill_null("global"),
            price_kind=pl.col("kind").fill_null("on_demand"),
            quoted_amount="price_usd_per_gpu_hour",
            quoted_unit=pl.lit("gpu_hour"),
            currency=pl.lit("USD"),
            effective_at=effective,
            flags=pl.concat_str(pl.lit(moment.flags), later),
            certainty=pl.lit("unverified"),
            source_name=pl.lit("Nebius price page, saved by a person"),
            source_url=pl.lit("https://nebius.com/prices"),
        )
        return parsed(with_defaults(rows))


SOURCE = Nebius(
    name="gpu-prices/nebius",
    publisher="Nebius",
    homepage="https://nebius.com/prices",
    terms="public page; the calculator needs an account",
    off_reason="unverified: written from the documentation, no real page has been seen",
)
