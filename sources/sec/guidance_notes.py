"""Guidance that was only spoken: a CSV a person fills, with figure, day, channel, link and one sentence.

Belongs here: the file's columns and checks. Does not belong here: guidance that stands in filings (`guidance.py`).
Who entered a row is not asked for and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.sec.companies import BY_TICKER
from sources.sec.figures import GUIDANCE
from sources.sec.guidance import CALENDAR
from sources.sec.guidance_rows import GUIDANCE_SCHEMA, target_days
from sources.sec.notes_csv import PERIOD, TICKER, NoteError, amount, day, link, matching, only_columns, rows_of

COLUMNS = ("entity", "metric", "target_period", "low", "high", "unit", "date", "channel", "link", "sentence")
CHANNELS = ("call", "press", "release", "filing")
MAX_SENTENCE = 400


class GuidanceNotes:
    """Rows beside the filings, marked as entered by a person."""

    name = "guidance-notes"
    publisher = "the user"
    homepage = ""
    licence = "the user's own notes"
    terms = "store the figure, the day, a link and one sentence; transcripts are not copied"
    cadence: Cadence = "static"
    tables: tuple[str, ...] = (GUIDANCE,)
    authority: Authority = "curated"
    landing: Landing = "append"
    version = 1
    off_reason = "local only: almanac load guidance-notes FILE.csv"
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: the file comes from the user."""
        del web
        yield from ()

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """CSV files with the columns of `COLUMNS`; `definition` may be added."""
        for file, name in local_files(paths, (".csv",)):
            payload = payload_of(self.name, file, name, options, media_type="text/csv", meta={}, stream=name)
            yield replace(payload, body=only_columns(payload.read(), (*COLUMNS, "definition")))

    def parse(self, payload: Payload) -> Parsed:
        """Rows of `market.guidance`; a row that cannot be used is refused with its line. Raises `ParseError`."""
        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for line, row in rows_of(payload, COLUMNS):
            try:
                rows.append(_row(row))
            except NoteError as error:
                kept = {k: v for k, v in row.items() if k in (*COLUMNS, "definition")}
                rejects.append(Reject(GUIDANCE, "note", str(error), str(kept), f"line {line}"))
        schema = {**GUIDANCE_SCHEMA, "certainty": pl.String}
        return Parsed({GUIDANCE: pl.DataFrame(rows, schema=schema)}, tuple(rejects))


def _row(row: Mapping[str, str]) -> dict[str, Any]:
    entity = matching(row, "entity", TICKER, "MSFT")
    period = matching(row, "target_period", PERIOD, "FY27Q1, FY27 or CY2026")
    low, high = amount(row, "low"), amount(row, "high")
    if low is None and high is None:
        raise NoteError("neither low nor high is given")
    if low is not None and high is not None and low > high:
        raise NoteError(f"low {low:,.0f} is above high {high:,.0f}")
    if row["channel"] not in CHANNELS:
        raise NoteError(f"channel is {row['channel']!r}; write one of {', '.join(CHANNELS)}")
    if not row["metric"]:
        raise NoteError("metric is empty; name what is guided, such as capex_cash_ppe or revenue")
    if not 0 < len(row["sentence"]) <= MAX_SENTENCE:
        raise NoteError(
            f"sentence has {len(row['sentence'])} characters; one sentence of at most {MAX_SENTENCE} is due"
        )
    moment = day(row, "date")
    start, end = _days(entity, period)
    both = low is not None and high is not None
    return {
        "entity": entity,
        "metric": row["metric"],
        "target_period": period,
        "channel": row["channel"],
        "target_period_start": start,
        "target_period_end": end,
        "low_usd": low,
        "mid_usd": ((low or 0) + (high or 0)) / 2 if both else None,
        "high_usd": high,
        "guidance_kind": ("approximately" if low == high else "range") if both else ("at_least" if low else "at_most"),
        "definition": row.get("definition") or None,
        "stated_at": moment,
        "evidence": row["sentence"],
        "confidence": "medium",
        "known_at": moment,
        "known_at_precision": "day",
        "source_name": f"note on a {row['channel']}",
        "source_url": link(row, "link"),
        "certainty": "entered by a person",
    }


def _days(entity: str, period: str) -> tuple[Any, Any]:
    company = BY_TICKER.get(entity)
    if period.startswith("CY"):
        return target_days(BY_TICKER["MSFT"], (int(period[2:]), CALENDAR))
    if company is None:
        return None, None
    quarter = int(period[5]) if len(period) > 4 else 0  # noqa: PLR2004 - FY27 against FY27Q1
    return target_days(company, (2000 + int(period[2:4]), quarter))


SOURCE = GuidanceNotes()
