"""Reads the Prometheus text format into one row for each series, with the labels we know under our names.

Belongs here: lines, labels, time stamps, repeated scrapes. Does not belong here: what a metric means.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import polars as pl

from sources.base import Reject
from sources.telemetry_inputs.context import UTC_US, table

SAMPLE = r"^([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?\s*$"
PAIR = r'[A-Za-z_][A-Za-z0-9_]*\s*=\s*"(?:[^"\\]|\\.)*"'
LABELS = rf"^\s*(?:{PAIR}\s*(?:,\s*{PAIR}\s*)*,?\s*)?$"
FIELDS: tuple[str, ...] = (
    "uuid",
    "gpu_index",
    "hostname",
    "instance",
    "gi",
    "profile",
    "model",
    "pci_bus_id",
    "driver",
    "vbios",
    "serial",
    "link",
    "cluster",
    "domain",
)


@cache
def aliases(field: str) -> tuple[str, ...]:
    """Spellings of a label in lower case, best first."""
    labels = table("labels.csv").filter(pl.col("field") == field).sort(pl.col("rank").cast(pl.Int64))
    return tuple(labels["label"])


def read_exposition(text: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Series of a text exposition, and the lines that are none.

    Columns: line, metric, value_text, at (null where the line has no time), scrape (how many times this series'
    metric was announced before it: a capture may hold several scrapes), and `FIELDS`.
    """
    lines = pl.DataFrame({"raw": text.split("\n")}).with_row_index("line", offset=1)
    lines = lines.with_columns(pl.col("raw").str.strip_chars())
    helped = lines.with_columns(
        pl.col("raw").str.extract(r"^#\s*HELP\s+(\S+)", 1).alias("helped"),
        pl.col("raw").str.extract_groups(SAMPLE).alias("parts"),
    ).unnest("parts")
    helped = helped.rename({"1": "metric", "2": "labels", "3": "value_text", "4": "millis"})
    announced = pl.coalesce("helped", "metric")
    helped = helped.with_columns(
        pl.col("helped").is_not_null().cum_sum().over(announced).cast(pl.Int64).alias("announcements")
    )
    data = helped.filter((pl.col("raw") != "") & ~pl.col("raw").str.starts_with("#"))
    fits = pl.col("metric").is_not_null() & pl.col("labels").fill_null("").str.contains(LABELS)
    wrong = data.filter(~fits)
    rejects = [
        Reject(
            "telemetry.gpu_samples",
            "the line is valid exposition",
            "labels or value are malformed",
            raw[:500],
            f"line {number}",
        )
        for number, raw in wrong.select("line", "raw").iter_rows()
    ]
    series = data.filter(fits).with_columns(
        pl.from_epoch(pl.col("millis").cast(pl.Int64), time_unit="ms")
        .dt.replace_time_zone("UTC")
        .cast(UTC_US)
        .alias("at"),
        (pl.col("announcements") - 1).clip(lower_bound=0).alias("scrape"),
        *(_label(field, aliases(field)) for field in FIELDS),
    )
    return series.select("line", "metric", "value_text", "at", "scrape", *FIELDS), rejects


def _label(field: str, spellings: Sequence[str]) -> pl.Expr:
    text = pl.col("labels").fill_null("")
    found = [
        text.str.extract(rf'(?i)(?:^|,)\s*{spelling}\s*=\s*"((?:[^"\\]|\\.)*)"', 1)
        .str.replace_all(r"\\(.)", "${1}")
        .replace("", None)
        for spelling in spellings
    ]
    return pl.coalesce(found).alias(field)
