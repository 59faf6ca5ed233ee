"""Continents of provider regions, by the patterns of `regions.csv`."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files

import polars as pl


def geography(region: str) -> str:
    """north_america, europe, … `global` for a price without region, `unknown` where no pattern fits."""
    for pattern, name in _patterns():
        if pattern.fullmatch(region.strip()):
            return name
    return "unknown"


def geography_of(regions: pl.Series) -> pl.DataFrame:
    """`region` and `geography`, one row for each distinct region."""
    distinct = regions.drop_nulls().unique(maintain_order=True)
    return pl.DataFrame(
        {"region": distinct, "geography": [geography(r) for r in distinct]},
        schema={"region": pl.String, "geography": pl.String},
    )


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    text = files("sources.prices").joinpath("regions.csv").read_text(encoding="utf-8")
    return tuple((re.compile(r["pattern"], re.IGNORECASE), r["geography"]) for r in csv.DictReader(text.splitlines()))
