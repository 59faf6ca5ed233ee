"""The Full Stack Deep Learning table of cloud GPUs: a hand-kept CSV from 2022 to 2024, in git.

Belongs here: its on-demand and spot prices as history. Does not belong here: any use as a current price; it went
stale (one list price stood unchanged for years), so nothing of it enters an index.
"""

from __future__ import annotations

import polars as pl

from sources.base import Parsed, Payload
from sources.prices.offers import parsed, with_defaults
from sources.prices.providers import provider_of, segment_of
from sources.prices.reading import PriceSource, csv_frame, seen_at

COLUMNS = ("Cloud", "GPU Type", "GPUs", "On-demand", "Per-GPU", "Spot", "Name")


class Fsdl(PriceSource):
    """`gpu-prices/fsdl`."""

    def shape(self, payload: Payload) -> Parsed:
        frame = csv_frame(payload, COLUMNS).with_row_index("line", offset=2)
        moment = seen_at(payload)
        names = {cloud: provider_of(cloud) for cloud in frame["Cloud"].unique()}
        provider = pl.col("Cloud").replace(names)
        segments = {name: segment_of(name) for name in names.values()}
        tall = frame.unpivot(
            ["On-demand", "Spot"],
            index=["line", "Cloud", "GPU Type", "GPUs", "Name", "vCPUs", "RAM"],
            variable_name="price_kind",
            value_name="amount",
        ).filter(pl.col("amount").is_not_null() & (pl.col("amount") != ""))
        size = pl.format("{} GPUs {} vCPUs {} GB", "GPUs", "vCPUs", "RAM")
        rows = tall.select(
            observed_at=pl.lit(moment.at),
            provider=provider,
            segment=provider.replace_strict(segments),
            sku=pl.coalesce(pl.col("Name").replace("", None), pl.col("GPU Type")),
            # The table prints some machines twice and some without a name.
            offer_id=pl.format("line {}: {}", "line", size),
            price_kind=pl.col("price_kind").replace({"On-demand": "on_demand", "Spot": "spot"}),
            gpu_name="GPU Type",
            stated_gpu_count=pl.col("GPUs").cast(pl.Float64, strict=False),
            quoted_amount=pl.col("amount").str.strip_chars("$ ").str.replace_all(",", ""),
            quoted_unit=pl.lit("instance_hour"),
            currency=pl.lit("USD"),
            flags=pl.lit(f"{moment.flags} secondhand stale_list"),
            source_name=pl.lit("the-full-stack/website cloud-gpus.csv"),
            source_url=pl.lit("https://github.com/the-full-stack/website"),
        )
        return parsed(with_defaults(rows))


SOURCE = Fsdl(
    name="gpu-prices/fsdl",
    publisher="The Full Stack",
    homepage="https://fullstackdeeplearning.com/cloud-gpus/",
    licence="not stated",
    terms="public repository; the table is no longer kept",
    cadence="static",
    authority="secondary",
)
