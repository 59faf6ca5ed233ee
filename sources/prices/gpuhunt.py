"""The hosted catalogues of gpuhunt: instance-hour prices of many clouds, to cross-check our own readers with.

Belongs here: the published CSV of one provider (in its zip). Does not belong here: an input of the index. It merges
form factors, drops terms and time zones of spot, and some of its prices are written into its code.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

import polars as pl

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, with_defaults
from sources.prices.providers import provider_of, segment_of
from sources.prices.reading import PriceSource, seen_at

HOSTED = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"
CLOUDS = ("aws", "azure", "gcp", "lambdalabs", "nebius", "oci", "runpod", "verda")
COLUMNS = ("instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot")
_VERSION = re.compile(r"(20\d\d)(\d\d)(\d\d)(?:-\d+)?")


class GpuHunt(PriceSource):
    """`gpu-prices/gpuhunt`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        for cloud in CLOUDS:
            version = web.get(f"{HOSTED}/{cloud}/version")
            if version and (told := _VERSION.search(version.body.decode("utf-8", "replace"))):
                answer = web.get(f"{HOSTED}/{cloud}/{told.group()}/catalog.zip")
                if answer:
                    yield self.payload(answer, cloud)

    def shape(self, payload: Payload) -> Parsed:
        with zipfile.ZipFile(io.BytesIO(payload.read())) as archive:
            tables = {name: archive.read(name) for name in archive.namelist() if name.endswith(".csv")}
        if not tables:
            raise ParseError(f"{payload.url}: no CSV in the archive")
        frames = [_quotes(name.removesuffix(".csv"), body, payload) for name, body in sorted(tables.items())]
        return parsed(pl.concat(frames))


def _quotes(cloud: str, body: bytes, payload: Payload) -> pl.DataFrame:
    frame = pl.read_csv(body, infer_schema=False)
    if missing := [c for c in COLUMNS if c not in frame.columns]:
        raise ParseError(f"{payload.url}: columns {', '.join(missing)} are missing in {cloud}.csv")
    told = _VERSION.search(payload.url)
    moment = seen_at(payload, "-".join(told.groups()) if told else None)
    provider = provider_of(cloud)
    count = pl.col("gpu_count").cast(pl.Float64, strict=False)
    rows = frame.filter(count > 0).select(
        observed_at=pl.lit(moment.at),
        provider=pl.lit(provider),
        segment=pl.lit(segment_of(provider)),
        sku="instance_name",
        offer_id=pl.lit("gpuhunt"),
        region=pl.col("location").fill_null("global"),
        price_kind=pl.when(pl.col("spot").str.to_lowercase() == "true")
        .then(pl.lit("spot"))
        .otherwise(pl.lit("on_demand")),
        gpu_name="gpu_name",
        memory_hint_gb=pl.col("gpu_memory").cast(pl.Float64, strict=False),
        stated_gpu_count=count,
        quoted_amount="price",
        quoted_unit=pl.lit("instance_hour"),
        currency=pl.lit("USD"),
        flags=pl.lit("secondhand cross_check"),
        certainty=pl.lit("unverified"),
        source_name=pl.lit(f"gpuhunt catalogue, {cloud}"),
        source_url=pl.lit(payload.url),
    )
    return with_defaults(rows.unique(maintain_order=True))


SOURCE = GpuHunt(
    name="gpu-prices/gpuhunt",
    publisher="dstack",
    homepage="https://github.com/dstackai/gpuhunt",
    licence="MPL-2.0 code; published catalogue",
    terms="public objects without a key",
    authority="secondary",
    off_reason="a cross-check only, unverified: no real catalogue has been seen",
)
