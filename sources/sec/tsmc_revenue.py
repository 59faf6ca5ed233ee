"""TSMC's monthly revenue report, a 6-K: one table in NT$ million, one in NT$ thousand.

Belongs here: the two tables and how they must agree. Does not belong here: the exchange's open data (`sources/twse.py`).
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sources.base import Authority, Cadence, Landing, Parsed, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.sec.bundles import unpack
from sources.sec.figures import FINANCIALS
from sources.sec.filing import Exhibit
from sources.sec.htmltables import Html, Table, read_html
from sources.sec.monthly import MONTHLY, monthly_frame
from sources.sec.statements import MONTH, number, parse_date
from sources.sec.submissions import monthly_reports

_PERIOD = re.compile(rf"^({MONTH})\s+(20\d\d)$", re.IGNORECASE)
_ISSUED = re.compile(rf"({MONTH}\.?\s+\d{{1,2}},\s+20\d\d)")
_FILE_DAY = re.compile(r"revenue(20\d{6})")
MILLION, THOUSAND = 1e6, 1e3


class TsmcRevenue:
    """`tsm-revenueYYYYMMDDx6k.htm` of each month."""

    name = "sec-tsmc-revenue"
    publisher = "U.S. Securities and Exchange Commission (report by TSMC)"
    homepage = "https://investor.tsmc.com/english/monthly-revenue"
    licence = "public filings; figures are facts, texts stay with the company"
    terms = "identify yourself with a contact address; at most 10 requests a second over all sec.gov hosts"
    cadence: Cadence = "daily"
    tables: tuple[str, ...] = (FINANCIALS,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """The newest monthly reports."""
        yield from monthly_reports(web, self.name)

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local copies."""
        for file, name in local_files(paths, (".htm", ".html")):
            yield payload_of(self.name, file, name, options, media_type="text/html", meta={}, stream="TSM")

    def parse(self, payload: Payload) -> Parsed:
        """The month, the month before and the month a year ago. Raises `ParseError`."""
        meta, exhibits = unpack(payload)
        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for exhibit in exhibits:
            document = read_html(exhibit.html)
            millions, problem = _millions(document)
            exact = _thousands(document)
            problem = problem or _disagreement(millions, exact)
            if problem:
                rejects.append(Reject(FINANCIALS, "monthly_revenue", problem, document.text[:1500], exhibit.name))
                continue
            known, precision = _known(meta, exhibit, document, payload)
            rows += [
                _row(
                    month,
                    exact.get(month, value),
                    THOUSAND if month in exact else MILLION,
                    known,
                    precision,
                    meta,
                    exhibit,
                )
                for month, value in millions.items()
            ]
        return Parsed({FINANCIALS: monthly_frame(rows)}, tuple(rejects))


def _millions(document: Html) -> tuple[dict[tuple[int, int], float], str]:
    """(year, month) → NT$ of the first table: a heading row of months and a row `Net Revenue`; or why not."""
    for table in document.tables:
        months = _months(table)
        if len(months) < 2:  # noqa: PLR2004 - the month and at least one to compare with
            continue
        unit = " ".join([table.before, *(c.text for r in table.rows for c in r.cells)]).lower()
        if "nt$ million" not in unit.replace("nt$million", "nt$ million"):
            return {}, "the table does not say that it is in NT$ million"
        for row in table.rows:
            if row.cells[0].text.lower() == "net revenue":
                found = {}
                for cell in row.cells[1:]:
                    month = [m for m, (start, end) in months.items() if start <= cell.start < end]
                    value = number(cell.text)
                    if month and value is not None:
                        found[month[0]] = value * MILLION
                if set(found) == set(months):
                    return found, ""
        return {}, "the row Net Revenue does not give a figure under each month"
    if not document.tables:
        return {}, "it holds no table; give the report as HTML, as EDGAR serves it, not its text"
    return {}, "no table with months in its heading"


def _months(table: Table) -> dict[tuple[int, int], tuple[int, int]]:
    """(year, month) of heading cells, with the columns each covers."""
    for row in table.rows:
        found = {}
        for cell in row.cells:
            named = _PERIOD.match(cell.text)
            if named:
                found[int(named[2]), _month(named[1])] = (cell.start, cell.end)
        if found:
            return found
    return {}


def _month(name: str) -> int:
    return [m.lower() for m in calendar.month_abbr].index(name[:3].lower())


def _thousands(document: Html) -> dict[tuple[int, int], float]:
    """(year, month) → NT$ of the second table: a month row with its figure under each year."""
    for table in document.tables:
        years: dict[int, tuple[int, int]] = {}
        for row in table.rows:
            heads = [c for c in row.cells if re.fullmatch(r"20\d\d", c.text)]
            years = years or {int(c.text): (c.start, c.end) for c in heads}
            name = re.fullmatch(MONTH, row.cells[0].text, re.IGNORECASE)
            if years and name:
                return {
                    (year, _month(row.cells[0].text)): value * THOUSAND
                    for cell in row.cells[1:]
                    for year, (start, end) in years.items()
                    if start <= cell.start < end and (value := number(cell.text)) is not None
                }
    return {}


def _disagreement(millions: Mapping[tuple[int, int], float], exact: Mapping[tuple[int, int], float]) -> str:
    """Empty when the thousand-dollar figures round to the million-dollar ones, and at least one month is in both."""
    shared = set(millions) & set(exact)
    if not shared:
        return "the table in NT$ thousand, which confirms the unit, cannot be read"
    for month in shared:
        if abs(millions[month] - exact[month]) > MILLION:
            return (
                f"{month[0]}-{month[1]:02d} is {millions[month]:,.0f} in one table and {exact[month]:,.0f} in the other"
            )
    return ""


def _known(meta: Mapping[str, str], exhibit: Exhibit, document: Html, payload: Payload) -> tuple[dt.datetime, str]:
    if meta.get("accepted"):
        return dt.datetime.fromisoformat(meta["accepted"]), "second"
    in_name = _FILE_DAY.search(exhibit.name)
    issued = _ISSUED.search(document.text)
    day = dt.datetime.strptime(in_name[1], "%Y%m%d").date() if in_name else None  # noqa: DTZ007 - a day has no zone
    day = day or (parse_date(issued[1]) if issued else None)
    return (dt.datetime.combine(day, dt.time(), dt.UTC), "day") if day else (payload.retrieved_at, "retrieved")


def _row(
    month: tuple[int, int],
    value: float,
    step: float,
    known: dt.datetime,
    precision: str,
    meta: Mapping[str, str],
    exhibit: Exhibit,
) -> dict[str, Any]:
    end = dt.date(*month, calendar.monthrange(*month)[1])
    accession = meta.get("accession")
    folder = f"1046179/{accession.replace('-', '')}/{exhibit.name}" if accession else ""
    return {
        "entity": "TSM",
        "metric": MONTHLY,
        "fiscal_period": f"{month[0]:04d}-{month[1]:02d}",
        "period_start": end.replace(day=1),
        "period_end": end,
        "value": value,
        "currency": "TWD",
        "precision": step,
        "concept": "Net Revenue",
        "form": "6-K",
        "accession": accession,
        "known_at": known,
        "known_at_precision": precision,
        "source_name": f"TSM 6-K {exhibit.name}",
        "source_url": "https://www.sec.gov/Archives/edgar/data/" + folder
        if folder
        else "https://www.sec.gov/cgi-bin/browse-edgar?action=getcompany&CIK=0001046179&type=6-K",
    }


SOURCE = TsmcRevenue()
