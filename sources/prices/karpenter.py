"""The on-demand history that the karpenter projects keep in git: AWS since June 2022, Azure since October 2023.

Belongs here: the history as CSV (one line for an instance type at a generation) and the generated Go source.
Does not belong here: the providers' own feeds. Each line was made from the provider's price API at `generated_at`.
"""

from __future__ import annotations

import datetime as dt
import re

import polars as pl

from sources.base import Parsed, ParseError, Payload
from sources.prices.offers import parsed, quotes, with_defaults
from sources.prices.reading import csv_frame, text_of

REPOSITORY = {
    "aws": "https://github.com/aws/karpenter-provider-aws",
    "azure": "https://github.com/Azure/karpenter-provider-azure",
}
GPU = re.compile(r"(?:p\d|g\d|gr\d|dl\d|inf\d|trn\d)[a-z0-9-]*\.")
_STAMP = re.compile(r"generated at (\d\d? \w{3} \d\d \d\d:\d\d [+-]\d{4}|\S+) for (\S+)")
_MAP = re.compile(r"var initialOnDemandPrices = map\[string\]float64\{(.*?)\n\}", re.DOTALL)


def history(payload: Payload, provider: str, sku_column: str) -> Parsed:
    """`generated_at,git_commit,region,<sku>,ondemand_usd_per_instance_hour`, one line an instance type and commit."""
    frame = csv_frame(payload, ["generated_at", "git_commit", "region", sku_column, "ondemand_usd_per_instance_hour"])
    stamp = pl.col("generated_at")
    day = stamp.str.to_datetime("%Y-%m-%d", time_unit="us", time_zone="UTC", strict=False)
    second = stamp.str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC", strict=False)
    rows = frame.select(
        observed_at=pl.coalesce(second, day),
        provider=pl.lit(provider),
        segment=pl.lit("hyperscaler"),
        sku=sku_column,
        region="region",
        price_kind=pl.lit("on_demand"),
        quoted_amount="ondemand_usd_per_instance_hour",
        quoted_unit=pl.lit("instance_hour"),
        currency=pl.lit("USD"),
        flags=pl.when(pl.col("region").str.contains("gov")).then(pl.lit("government_region")).otherwise(pl.lit("")),
        source_name=pl.lit(f"generated on-demand prices of karpenter-provider-{provider}"),
        source_url=pl.concat_str(pl.lit(f"{REPOSITORY[provider]}/commit/"), "git_commit"),
    )
    if rows["observed_at"].has_nulls():
        raise ParseError(f"{payload.url}: generated_at is not a time in every line")
    # Two commits may carry one generation: the commit is evidence, not another price.
    first = rows.unique(subset=[c for c in rows.columns if c != "source_url"], keep="first", maintain_order=True)
    return parsed(with_defaults(first))


def go_source(payload: Payload) -> Parsed:
    """`initialOnDemandPrices` of one generated Go file, one region. Raises `ParseError` when it is cut off."""
    text = text_of(payload)
    stamp, table = _STAMP.search(text), _MAP.search(text)
    if not stamp or not table:
        raise ParseError(f"{payload.url}: no complete map of on-demand prices in this Go file")
    rows = [
        {
            "observed_at": _moment(stamp.group(1), payload.url),
            "provider": "aws",
            "segment": "hyperscaler",
            "sku": sku,
            "region": stamp.group(2),
            "price_kind": "on_demand",
            "quoted_amount": amount,
            "quoted_unit": "instance_hour",
            "currency": "USD",
            "source_name": "generated on-demand prices of karpenter-provider-aws",
            "source_url": payload.url,
        }
        for sku, amount in re.findall(r'"([^"]+)": ([\d.]+)', table.group(1))
        if GPU.match(sku)
    ]
    return parsed(quotes(rows))


def _moment(text: str, where: str) -> dt.datetime:
    for form in ("%d %b %y %H:%M %z", "%Y-%m-%dT%H:%M:%S%z"):
        try:
            return dt.datetime.strptime(text, form).astimezone(dt.UTC)
        except ValueError:
            continue
    raise ParseError(f"{where}: {text!r} is not a time")
