"""Who sells: the segment of each provider, its spellings, and who only resells others."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files


@cache
def _table() -> tuple[dict[str, str], ...]:
    text = files("sources.prices").joinpath("providers.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def provider_of(spelling: str) -> str:
    """Our name of a provider from a list's spelling; the spelling in small letters when it is not known."""
    for row in _table():
        if spelling.casefold() in {s.casefold() for s in row["spelling"].split("|")}:
            return row["provider"]
    return spelling.strip().lower().replace(" ", "-")


@cache
def segment_of(provider: str) -> str:
    """hyperscaler, neocloud, marketplace or aggregator; a provider that is not listed counts as neocloud."""
    return next((row["segment"] for row in _table() if row["provider"] == provider), "neocloud")


@cache
def resellers() -> tuple[str, ...]:
    """Providers whose offers repeat another provider's machines: never in an index."""
    return tuple(row["provider"] for row in _table() if row["resells"] == "yes")
