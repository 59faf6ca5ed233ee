"""Machine prices of Google Cloud as a public calculator keeps them: `pricing.yml`, and its history as CSV.

Belongs here: instance-hour, spot and committed-use prices by machine and region. Does not belong here: the SKU
catalogue (`gcp`). Committed-use figures are for a month; they are per GPU-hour only after 730 hours.
"""

from __future__ import annotations

import datetime as dt
import re

import polars as pl

from sources.base import Parsed, ParseError, Payload
from sources.prices.offers import parsed, quotes, with_defaults
from sources.prices.reading import csv_frame, text_of

REPOSITORY = "https://github.com/Cyclenerd/google-cloud-pricing-cost-calculator"
MACHINE = re.compile(r"(?:a\d[a-z]?|g\d)-[a-z0-9-]+")
# column of the CSV, key of the YAML, kind, months, unit
FIGURES = (
    ("hour_usd", "hour", "on_demand", 0, "instance_hour"),
    ("hour_spot_usd", "hour_spot", "spot", 0, "instance_hour"),
    ("month_1y_cud_usd", "month_1y", "reserved", 12, "instance_month"),
    ("month_3y_cud_usd", "month_3y", "reserved", 36, "instance_month"),
)
MACHINE_DEPTH, REGION_DEPTH, FIGURE_DEPTH = 4, 8, 10
_LINE = re.compile(r"^( *)([\w.-]+):(?: (.*))?$")


def monthly(payload: Payload) -> Parsed:
    """The history as CSV: one line a snapshot, machine and region; an empty figure is no offer, not a zero."""
    frame = csv_frame(payload, ["snapshot_date", "git_commit", "machine_type", "gpu_count", "region", "hour_usd"])
    kinds = [
        frame.select(
            observed_at=pl.col("snapshot_date").str.to_datetime("%Y-%m-%d", time_unit="us", time_zone="UTC"),
            provider=pl.lit("gcp"),
            segment=pl.lit("hyperscaler"),
            sku="machine_type",
            region="region",
            price_kind=pl.lit(kind),
            term_months=pl.lit(months),
            stated_gpu_count=pl.col("gpu_count").cast(pl.Float64),
            quoted_amount=pl.col(column),
            quoted_unit=pl.lit(unit),
            currency=pl.lit("USD"),
            source_name=pl.lit("google-cloud-pricing-cost-calculator pricing.yml"),
            source_url=pl.concat_str(pl.lit(f"{REPOSITORY}/commit/"), "git_commit"),
        ).filter(pl.col("quoted_amount").is_not_null() & (pl.col("quoted_amount") != ""))
        for column, _, kind, months, unit in FIGURES
    ]
    return parsed(with_defaults(pl.concat(kinds)))


def yaml_prices(payload: Payload) -> Parsed:
    """`compute.instance.<machine>.cost.<region>.<figure>`, seen at `about.timestamp`. Raises `ParseError`.

    Read line by line: the whole file is 30 MB of one regular shape, which a YAML library takes minutes for.
    """
    text = text_of(payload)
    stamp = re.search(r"^  timestamp: (\d{10})$", text, re.MULTILINE)
    if stamp is None or "\ncompute:\n  instance:\n" not in text:
        raise ParseError(f"{payload.url}: no about.timestamp or compute.instance: the format changed")
    seen = dt.datetime.fromtimestamp(int(stamp.group(1)), dt.UTC)
    figures = {key: (kind, months, unit) for _, key, kind, months, unit in FIGURES}
    rows = []
    machine, region = "", ""
    for line in text[text.index("\ncompute:\n  instance:\n") :].splitlines()[3:]:
        match = _LINE.match(line)
        if match is None:
            continue
        depth, key, value = len(match.group(1)), match.group(2), match.group(3)
        if depth < MACHINE_DEPTH:
            break
        if depth == MACHINE_DEPTH:
            machine = key
        elif depth == REGION_DEPTH:
            region = key
        elif depth == FIGURE_DEPTH and key in figures and value and MACHINE.fullmatch(machine):
            kind, months, unit = figures[key]
            rows.append(
                {
                    "observed_at": seen,
                    "provider": "gcp",
                    "segment": "hyperscaler",
                    "sku": machine,
                    "region": region,
                    "price_kind": kind,
                    "term_months": months,
                    "quoted_amount": value,
                    "quoted_unit": unit,
                    "currency": "USD",
                    "source_name": "google-cloud-pricing-cost-calculator pricing.yml",
                    "source_url": payload.url,
                }
            )
    if not rows:
        raise ParseError(f"{payload.url}: no machine with a GPU in it: cut off, or the format changed")
    return parsed(quotes(rows))
