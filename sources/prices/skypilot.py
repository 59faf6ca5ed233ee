"""SkyPilot's catalogue: one CSV a cloud, instance-hour prices that its maintainers collect every few hours.

Belongs here: clouds whose own list needs a key or forbids robots. Does not belong here: its GPU names, which merge
form factors and sizes; the instance type and the memory are read instead. The git commit is the clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, with_defaults
from sources.prices.providers import provider_of, segment_of
from sources.prices.reading import PriceSource, csv_frame, get_if_there, seen_at

CATALOGUE = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8"
CLOUDS = ("lambda", "verda", "vast", "runpod", "fluidstack", "shadeform", "hyperbolic", "seeweb", "do", "nebius", "oci",
          "primeintellect")  # fmt: skip
COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region", "GpuInfo")
MIB = 1024  # MiB in a GiB
# Clouds that quote one price for the world; the catalogue repeats it for each region.
REGION_FREE = ("lambda", "runpod", "primeintellect")
# Clouds that write the memory of all GPUs of the instance where others write that of one.
TOTAL_MEMORY = ("vast",)
_CLOUD = re.compile(r"(?:^|[/_])(?:v\d+[/_])?(lambda|verda|vast|runpod|fluidstack|shadeform|hyperbolic|seeweb|do|nebius|"
                    r"oci|primeintellect|aws|gcp|azure)(?:_vms|/vms)")  # fmt: skip
_VAST = re.compile(r"^\d+x-(.+)-\d+-\d+$")


class SkyPilot(PriceSource):
    """`gpu-prices/skypilot`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        for cloud in CLOUDS:
            # A cloud leaves the catalogue now and then.
            if answer := get_if_there(web, f"{CATALOGUE}/{cloud}/vms.csv"):
                yield self.payload(answer, cloud)

    def shape(self, payload: Payload) -> Parsed:
        cloud = _CLOUD.search(payload.url.removeprefix("file:"))
        if cloud is None:
            raise ParseError(f"{payload.url}: the name must hold the cloud, as in vast/vms.csv or v8_vast_vms.csv")
        frame = csv_frame(payload, COLUMNS)
        if frame.is_empty():
            raise ParseError(f"{payload.url}: no rows: the catalogue was cut off")
        return parsed(_quotes(frame, cloud.group(1), payload))


def _quotes(frame: pl.DataFrame, cloud: str, payload: Payload) -> pl.DataFrame:
    moment = seen_at(payload)
    provider = provider_of(cloud)
    spot = pl.col("SpotPrice") if "SpotPrice" in frame.columns else pl.lit(None, dtype=pl.String)
    count = pl.col("AcceleratorCount").cast(pl.Float64, strict=False)
    memory = pl.col("GpuInfo").str.extract(r"""["']SizeInMiB["']: (\d+)""").cast(pl.Float64)
    memory = memory / count if cloud in TOTAL_MEMORY else memory
    in_gb = pl.when(memory < MIB).then(memory).otherwise(memory / MIB)  # some clouds write GB under MiB
    instance = pl.col("InstanceType")
    gpus = frame.filter(count > 0).select(
        sku=instance,
        zone=pl.col("AvailabilityZone").fill_null("") if "AvailabilityZone" in frame.columns else pl.lit(""),
        region=pl.lit("global") if cloud in REGION_FREE else pl.col("Region"),
        gpu_name=instance.str.extract(_VAST.pattern) if cloud == "vast" else pl.col("AcceleratorName"),
        memory_hint_gb=in_gb,
        stated_gpu_count=count,
        on_demand="Price",
        spot=spot,
    )
    kind = "marketplace_ask" if segment_of(provider) == "marketplace" else "on_demand"
    tall = gpus.unpivot(
        ["on_demand", "spot"],
        index=[c for c in gpus.columns if c not in ("on_demand", "spot")],
        variable_name="price_kind",
        value_name="quoted_amount",
    )
    none_told = (pl.col("price_kind") == "spot") & (
        pl.col("quoted_amount").cast(pl.Float64, strict=False).fill_null(0) == 0
    )
    listed = tall.filter(~none_told)
    aggregated = " bucket_median" if cloud == "vast" else ""
    rows = listed.with_columns(
        price_kind=pl.col("price_kind").replace("on_demand", kind),
        observed_at=pl.lit(moment.at),
        provider=pl.lit(provider),
        segment=pl.lit(segment_of(provider)),
        quoted_unit=pl.lit("instance_hour"),
        currency=pl.lit("USD"),
        available=pl.when(pl.col("quoted_amount").is_null()).then(pl.lit(value=False)),
        flags=pl.lit(f"{moment.flags} secondhand{aggregated}"),
        source_name=pl.lit(f"SkyPilot catalogue, {cloud}"),
        source_url=pl.lit(payload.url),
    )
    if cloud in REGION_FREE:
        rows = rows.unique(maintain_order=True)
    return with_defaults(rows)


SOURCE = SkyPilot(
    name="gpu-prices/skypilot",
    publisher="SkyPilot",
    homepage="https://github.com/skypilot-org/skypilot-catalog",
    licence="Apache-2.0",
    terms="public repository",
    authority="secondary",
    may_republish=True,
)
