"""A public daily scrape of GPU prices (2024 to 2026): provider, model, price, and neither GPU count nor unit.

Belongs here: keeping what was printed, as evidence of which offers existed. Does not belong here: a price per
GPU-hour. Single GPUs and whole machines stand in one column, and on 2026-02-19 the feed changed its unit.
"""

from __future__ import annotations

import polars as pl

from sources.base import Parsed, ParseError, Payload
from sources.prices.offers import parsed, with_defaults
from sources.prices.providers import provider_of, segment_of
from sources.prices.reading import PriceSource, csv_frame, exact_json, head_of, seen_at


class BeCloudReady(PriceSource):
    """`gpu-prices/becloudready`."""

    def shape(self, payload: Payload) -> Parsed:
        start = head_of(payload)
        table = _history(payload) if start.startswith("date,") else _day(payload)
        names = {name: provider_of(name) for name in table["provider"].unique()}
        segments = {name: segment_of(name) for name in names.values()}
        provider = pl.col("provider").replace(names)
        rows = table.unique(maintain_order=True).select(
            observed_at="observed_at",
            provider=provider,
            segment=provider.replace_strict(segments, return_dtype=pl.String),
            sku="gpuModel",
            offer_id="price",  # the only thing that tells its offers apart
            price_kind=pl.lit("unknown"),
            gpu_name="gpuModel",
            quoted_amount=pl.col("price").str.strip_chars("$ ").str.replace_all(",", ""),
            currency=pl.lit("USD"),
            flags=pl.lit("secondhand unit_unknown"),
            source_name=pl.lit("becloudready daily GPU prices"),
            source_url=pl.lit(payload.url),
        )
        return parsed(with_defaults(rows))


def _history(payload: Payload) -> pl.DataFrame:
    frame = csv_frame(payload, ["date", "provider", "gpuModel", "price", "n_rows"])
    day = pl.col("date").str.to_datetime("%Y-%m-%d", time_unit="us", time_zone="UTC")
    return frame.select(day.alias("observed_at"), "provider", "gpuModel", "price")


def _day(payload: Payload) -> pl.DataFrame:
    items = exact_json(payload)
    if not isinstance(items, list) or not items or not {"gpuModel", "price", "provider"} <= set(items[0]):
        raise ParseError(f"{payload.url}: no list of gpuModel, price, provider")
    frame = pl.DataFrame(items, schema={"gpuModel": pl.String, "price": pl.String, "provider": pl.String})
    at = pl.lit(seen_at(payload).at).cast(pl.Datetime("us", "UTC"))
    return frame.select(at.alias("observed_at"), "provider", "gpuModel", "price")


SOURCE = BeCloudReady(
    name="gpu-prices/becloudready",
    publisher="becloudready",
    homepage="https://github.com/becloudready",
    licence="not stated",
    terms="public repository",
    cadence="static",
    authority="secondary",
)
