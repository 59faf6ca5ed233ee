"""The user's own estimates or consensus: a CSV, kept apart from what companies say.

Belongs here: the file's columns and checks. Does not belong here: guidance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sources.sec.notes_csv import PERIOD, TICKER, NoteError, amount, day, matching
from sources.sec.own_csv import OwnCsv

ESTIMATES = "market.estimates"
_SCHEMA: dict[str, Any] = {
    "entity": pl.String,
    "metric": pl.String,
    "definition_version": pl.String,
    "fiscal_period": pl.String,
    "estimate_name": pl.String,
    "value_usd": pl.Float64,
    "low_usd": pl.Float64,
    "high_usd": pl.Float64,
    "analyst_count": pl.Int64,
    "known_at": pl.Datetime("us", "UTC"),
    "source_url": pl.String,
    "certainty": pl.String,
}


class Estimates(OwnCsv):
    """Estimates of the user, one row a figure and day."""

    name = "estimates"
    licence = "the user's own figures; consensus data of a vendor stay under its licence"
    terms = "nothing is fetched"
    tables = (ESTIMATES,)
    columns = ("entity", "metric", "fiscal_period", "value", "unit", "date")
    more = ("name", "low", "high", "analysts", "link", "definition_version")
    schema = _SCHEMA

    def row(self, cells: Mapping[str, str]) -> dict[str, Any]:
        """One estimate."""
        value = amount(cells, "value")
        if value is None:
            raise NoteError("value is empty")
        if not cells["metric"]:
            raise NoteError("metric is empty; name what is estimated, such as revenue")
        count = cells.get("analysts", "")
        if count and not count.isdigit():
            raise NoteError(f"analysts is {count!r}, not a whole number")
        return {
            "entity": matching(cells, "entity", TICKER, "NVDA"),
            "metric": cells["metric"],
            "definition_version": cells.get("definition_version") or "1",
            "fiscal_period": matching(cells, "fiscal_period", PERIOD, "FY27Q2"),
            "estimate_name": cells.get("name") or "own estimate",
            "value_usd": value,
            "low_usd": amount(cells, "low"),
            "high_usd": amount(cells, "high"),
            "analyst_count": int(count) if count else None,
            "known_at": day(cells, "date"),
            "source_url": cells.get("link") or None,
            "certainty": "estimate",
        }


SOURCE = Estimates()
