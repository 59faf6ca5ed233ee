"""The user's own estimates or consensus: a CSV, kept apart from what companies say.

Belongs here: the file's columns and checks. Does not belong here: guidance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.sec.notes_csv import PERIOD, TICKER, NoteError, amount, day, matching, rows_of

ESTIMATES = "market.estimates"
COLUMNS = ("entity", "metric", "fiscal_period", "value", "unit", "date")
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


class Estimates:
    """Estimates of the user, one row a figure and day."""

    name = "estimates"
    publisher = "the user"
    homepage = ""
    licence = "the user's own figures; consensus data of a vendor stay under its licence"
    terms = "nothing is fetched"
    cadence: Cadence = "static"
    tables: tuple[str, ...] = (ESTIMATES,)
    authority: Authority = "curated"
    landing: Landing = "append"
    version = 1
    off_reason = "local only: almanac load estimates FILE.csv"
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: the file comes from the user."""
        del web
        yield from ()

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """CSV files with the columns of `COLUMNS`; `name`, `low`, `high`, `analysts`, `link` may be added."""
        for file, name in local_files(paths, (".csv",)):
            yield payload_of(self.name, file, name, options, media_type="text/csv", meta={}, stream=name)

    def parse(self, payload: Payload) -> Parsed:
        """Rows of `market.estimates`; a row that cannot be used is refused with its line. Raises `ParseError`."""
        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for line, row in rows_of(payload, COLUMNS):
            try:
                rows.append(_row(row))
            except NoteError as error:
                rejects.append(Reject(ESTIMATES, "note", str(error), str(row), f"line {line}"))
        return Parsed({ESTIMATES: pl.DataFrame(rows, schema=_SCHEMA)}, tuple(rejects))


def _row(row: Mapping[str, str]) -> dict[str, Any]:
    value = amount(row, "value")
    if value is None:
        raise NoteError("value is empty")
    if not row["metric"]:
        raise NoteError("metric is empty; name what is estimated, such as revenue")
    count = row.get("analysts", "")
    if count and not count.isdigit():
        raise NoteError(f"analysts is {count!r}, not a whole number")
    return {
        "entity": matching(row, "entity", TICKER, "NVDA"),
        "metric": row["metric"],
        "definition_version": row.get("definition_version") or "1",
        "fiscal_period": matching(row, "fiscal_period", PERIOD, "FY27Q2"),
        "estimate_name": row.get("name") or "own estimate",
        "value_usd": value,
        "low_usd": amount(row, "low"),
        "high_usd": amount(row, "high"),
        "analyst_count": int(count) if count else None,
        "known_at": day(row, "date"),
        "source_url": row.get("link") or None,
        "certainty": "estimate",
    }


SOURCE = Estimates()
