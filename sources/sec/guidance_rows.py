"""Statements of a filing as rows of `market.guidance`.

Belongs here: the rows, statements made twice in one filing, guidance that stands in a table. Does not belong here: the
grammar of sentences (`guidance.py`).
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import polars as pl

from sources.sec.companies import Company, planned_end
from sources.sec.figures import GUIDANCE, Found
from sources.sec.filing import Exhibit, Filing
from sources.sec.fiscal import label
from sources.sec.guidance import CALENDAR, Stated, read_guidance
from sources.sec.htmltables import Html, Table
from sources.sec.money import sums_in

_UTC = pl.Datetime("us", "UTC")
GUIDANCE_SCHEMA: dict[str, Any] = {
    "entity": pl.String,
    "metric": pl.String,
    "target_period": pl.String,
    "channel": pl.String,
    "target_period_start": pl.Date,
    "target_period_end": pl.Date,
    "low_usd": pl.Float64,
    "mid_usd": pl.Float64,
    "high_usd": pl.Float64,
    "prior_low_usd": pl.Float64,
    "prior_high_usd": pl.Float64,
    "guidance_kind": pl.String,
    "plus_minus_ratio": pl.Float64,
    "definition": pl.String,
    "given_with_period": pl.String,
    "stated_at": _UTC,
    "evidence": pl.String,
    "confidence": pl.String,
    "form": pl.String,
    "accession": pl.String,
    "known_at": _UTC,
    "known_at_precision": pl.String,
    "source_name": pl.String,
    "source_url": pl.String,
}
_COMING = re.compile(r"^FQ([1-4])-(\d\d)$")
# How exact a form of statement is: of two in one filing that agree, the more exact is kept.
_EXACTNESS = {
    "plus_minus_amount": 0,
    "plus_minus_percent": 0,
    "range": 1,
    "approximately": 2,
    "at_least": 3,
    "at_most": 3,
}


def guidance_rows(filing: Filing, found: Found) -> list[dict[str, Any]]:
    """One row for each metric and period the filing guides; two statements that disagree are both refused."""
    by_target: dict[tuple[str, str], list[tuple[Stated, Exhibit]]] = {}
    for exhibit, document in zip(filing.exhibits, filing.documents, strict=True):
        stated, unread = read_guidance(document.prose, filing.company, filing.quarter)
        stated += _from_tables(document)
        for one in stated:
            by_target.setdefault((one.metric, one.target_period), []).append((one, exhibit))
        for miss in unread:
            found.refuse(GUIDANCE, "grammar", miss.reason, miss.sentence, exhibit.type)
    rows = []
    for (metric, period), statements in by_target.items():
        statements.sort(key=lambda s: _EXACTNESS[s[0].amount.kind])
        best, exhibit = statements[0]
        other = next((s for s, _ in statements if not _agree(best, s)), None)
        if other is not None:
            raw = f"{best.evidence} || {other.evidence}"
            found.refuse(GUIDANCE, "stated_twice", f"two statements on {metric} of {period} differ", raw, exhibit.type)
        else:
            rows.append(_row(filing, exhibit, best))
    return rows


def _agree(a: Stated, b: Stated) -> bool:
    """Two statements agree if they are the same range, or the less exact one lies inside the other."""
    if (a.amount.low, a.amount.high) == (b.amount.low, b.amount.high):
        return True
    low, high = a.amount.low or 0.0, a.amount.high or float("inf")
    return b.amount.kind == "approximately" and b.amount.mid is not None and low <= b.amount.mid <= high


def _from_tables(document: Html) -> list[Stated]:
    """Revenue in a table whose head names a coming quarter (`FQ3-26`) and `Outlook`: all its columns must agree."""
    found = []
    for table in document.tables:
        target = _outlook_quarter(table)
        for row in table.rows if target else ():
            if row.cells[0].text.lower() != "revenue" or target is None:
                continue
            sums = [s for cell in row.cells[1:] for s in sums_in(cell.text)]
            if sums and len({(s.low, s.high) for s in sums}) == 1:
                evidence = f"{label(*target)} outlook: Revenue {row.cells[1].text}"
                found.append(Stated("revenue", target, sums[0], None, "total revenue", evidence, "high"))
    return found


def _outlook_quarter(table: Table) -> tuple[int, int] | None:
    for row in table.rows[:3]:
        coming = _COMING.match(row.cells[0].text)
        if coming and any("outlook" in c.text.lower() for c in row.cells[1:]):
            return 2000 + int(coming[2]), int(coming[1])
    return None


def _row(filing: Filing, exhibit: Exhibit, one: Stated) -> dict[str, Any]:
    start, end = target_days(filing.company, one.target)
    own = filing.quarter
    return {
        "entity": filing.company.ticker,
        "metric": one.metric,
        "target_period": one.target_period,
        "channel": "release",
        "target_period_start": start,
        "target_period_end": end,
        "low_usd": one.amount.low,
        "mid_usd": one.amount.mid,
        "high_usd": one.amount.high,
        "prior_low_usd": one.prior.low if one.prior else None,
        "prior_high_usd": one.prior.high if one.prior else None,
        "guidance_kind": one.amount.kind,
        "plus_minus_ratio": one.amount.ratio,
        "definition": one.definition,
        "given_with_period": label(*own) if own else None,
        "stated_at": filing.known_at,
        "evidence": one.evidence,
        "confidence": one.confidence,
        "form": filing.form,
        "accession": filing.accession,
        "known_at": filing.known_at,
        "known_at_precision": filing.precision,
        "source_name": filing.name_of(exhibit),
        "source_url": filing.url_of(exhibit),
    }


def target_days(company: Company, target: tuple[int, int]) -> tuple[dt.date | None, dt.date | None]:
    """First and last day of a target period; None where the company's calendar was not checked."""
    year, quarter = target
    if quarter == CALENDAR:
        return dt.date(year, 1, 1), dt.date(year, 12, 31)
    last = planned_end(company, year, quarter or 4)
    before = planned_end(company, year - 1, 4) if quarter in (0, 1) else planned_end(company, year, quarter - 1)
    return (before + dt.timedelta(days=1) if before else None), last
