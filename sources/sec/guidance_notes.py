"""Guidance that was only spoken: a CSV a person fills, with figure, day, channel, link and one sentence.

Belongs here: the file's columns and checks. Does not belong here: guidance that stands in filings (`guidance.py`).
Who entered a row is not asked for and not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sources.sec.companies import BY_TICKER
from sources.sec.figures import GUIDANCE
from sources.sec.guidance import CALENDAR
from sources.sec.guidance_rows import GUIDANCE_SCHEMA, target_days
from sources.sec.notes_csv import PERIOD, TICKER, NoteError, amount, day, link, matching
from sources.sec.own_csv import OwnCsv

_SCHEMA = {**GUIDANCE_SCHEMA, "certainty": pl.String}
CHANNELS = ("call", "press", "release", "filing")
MAX_SENTENCE = 400


class GuidanceNotes(OwnCsv):
    """Rows beside the filings, marked as entered by a person."""

    name = "guidance-notes"
    licence = "the user's own notes"
    terms = "store the figure, the day, a link and one sentence; transcripts are not copied"
    tables = (GUIDANCE,)
    columns = ("entity", "metric", "target_period", "low", "high", "unit", "date", "channel", "link", "sentence")
    more = ("definition",)
    schema = _SCHEMA

    def row(self, cells: Mapping[str, str]) -> dict[str, Any]:
        """One statement."""
        entity = matching(cells, "entity", TICKER, "MSFT")
        period = matching(cells, "target_period", PERIOD, "FY27Q1, FY27 or CY2026")
        low, high = amount(cells, "low"), amount(cells, "high")
        if low is None and high is None:
            raise NoteError("neither low nor high is given")
        if low is not None and high is not None and low > high:
            raise NoteError(f"low {low:,.0f} is above high {high:,.0f}")
        if cells["channel"] not in CHANNELS:
            raise NoteError(f"channel is {cells['channel']!r}; write one of {', '.join(CHANNELS)}")
        if not cells["metric"]:
            raise NoteError("metric is empty; name what is guided, such as capex_cash_ppe or revenue")
        if not 0 < len(cells["sentence"]) <= MAX_SENTENCE:
            raise NoteError(
                f"sentence has {len(cells['sentence'])} characters; one sentence of at most {MAX_SENTENCE} is due"
            )
        moment = day(cells, "date")
        start, end = _days(entity, period)
        both = low is not None and high is not None
        return {
            "entity": entity,
            "metric": cells["metric"],
            "target_period": period,
            "channel": cells["channel"],
            "target_period_start": start,
            "target_period_end": end,
            "low_usd": low,
            "mid_usd": ((low or 0) + (high or 0)) / 2 if both else None,
            "high_usd": high,
            "guidance_kind": _kind(low, high),
            "definition": cells.get("definition") or None,
            "stated_at": moment,
            "evidence": cells["sentence"],
            "confidence": "medium",
            "known_at": moment,
            "known_at_precision": "day",
            "source_name": f"note on a {cells['channel']}",
            "source_url": link(cells, "link"),
            "certainty": "entered by a person",
        }


def _kind(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return "approximately" if low == high else "range"
    return "at_least" if low is not None else "at_most"


def _days(entity: str, period: str) -> tuple[Any, Any]:
    company = BY_TICKER.get(entity)
    if period.startswith("CY"):
        return target_days(BY_TICKER["MSFT"], (int(period[2:]), CALENDAR))
    if company is None:
        return None, None
    quarter = int(period[5]) if len(period) > 4 else 0  # noqa: PLR2004 - FY27 against FY27Q1
    return target_days(company, (2000 + int(period[2:4]), quarter))


SOURCE = GuidanceNotes()
