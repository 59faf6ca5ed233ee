"""The companies on the watch list: ticker, CIK, fiscal year end.

Belongs here: what is needed to fetch and date their filings. Does not belong here: anything else about a company
(`ref.entities` holds that).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Company:
    """One filer. `name` is the lower-case word its registered name starts with; the month is the last of its year."""

    ticker: str
    cik: int
    name: str
    year_end_month: int

    @property
    def cik10(self) -> str:
        """CIK as data.sec.gov writes it, with ten digits."""
        return f"{self.cik:010d}"


COMPANIES = (
    Company("NVDA", 1045810, "nvidia", 1),
    Company("AMD", 2488, "advanced micro devices", 12),
    Company("AVGO", 1730168, "broadcom", 10),
    Company("INTC", 50863, "intel", 12),
    Company("MU", 723125, "micron", 8),
    Company("MRVL", 1835632, "marvell", 1),
    Company("ANET", 1596532, "arista", 12),
    Company("SMCI", 1375365, "super micro", 6),
    Company("VRT", 1674101, "vertiv", 12),
    Company("COHR", 820318, "coherent", 6),
    Company("LITE", 1633978, "lumentum", 6),
    Company("FN", 1408710, "fabrinet", 6),
    Company("CRDO", 1807794, "credo", 4),
    Company("DELL", 1571996, "dell", 1),
    Company("TSM", 1046179, "taiwan semiconductor", 12),
    Company("MSFT", 789019, "microsoft", 6),
    Company("GOOGL", 1652044, "alphabet", 12),
    Company("META", 1326801, "meta", 12),
    Company("AMZN", 1018724, "amazon", 12),
    Company("ORCL", 1341439, "oracle", 5),
    Company("CRWV", 1769628, "coreweave", 12),
    Company("NBIS", 1513845, "nebius", 12),
)


@dataclass(frozen=True, slots=True)
class WeekYear:
    """How a year of 52 or 53 weeks ends: weekday (Monday 0), `last` of the month or `nearest` to the month's end.

    `long_quarter` has 14 weeks in a year of 53; 0 where no such year was seen, so that its quarters stay unknown.
    """

    weekday: int
    which: str
    long_quarter: int = 0


WEEK_YEARS = {
    "NVDA": WeekYear(6, "last", 4),
    "AMD": WeekYear(5, "last", 4),
    "INTC": WeekYear(5, "last", 1),
    "MU": WeekYear(3, "nearest", 4),
    "AVGO": WeekYear(6, "nearest", 1),
    "MRVL": WeekYear(5, "nearest", 4),
    "DELL": WeekYear(4, "nearest", 4),
    "LITE": WeekYear(5, "nearest"),
    "CRDO": WeekYear(5, "nearest"),
    "FN": WeekYear(4, "last"),
}
# Everybody else's quarters end on the last day of a month.
MONTH_ENDS = ("MSFT", "GOOGL", "META", "AMZN", "ORCL", "CRWV", "SMCI", "ANET", "VRT", "TSM", "NBIS", "COHR")
_WEEKS = 52
BY_CIK = {company.cik: company for company in COMPANIES}
BY_TICKER = {company.ticker: company for company in COMPANIES}
# Registered names that differ from today's in filings of earlier years.
FORMER_NAMES = {1326801: ("facebook",), 820318: ("ii-vi", "ii vi"), 1513845: ("yandex",)}


def is_name_of(company: Company, registered: str) -> bool:
    """Whether a registered name, in any case and spelling of spaces, is this company's."""
    name = " ".join(registered.lower().replace(",", " ").split())
    return name.startswith((company.name, *FORMER_NAMES.get(company.cik, ())))


def filing_url(cik: int, accession: str) -> str:
    """The folder of a filing on EDGAR."""
    return f"https://www.sec.gov/Archives/edgar/data/{cik}/{accession.replace('-', '')}/"


def planned_end(company: Company, fiscal_year: int, quarter: int) -> dt.date | None:
    """Last day of a quarter that has not been reported yet; None where the long quarter of a 53-week year is unknown."""
    if company.ticker in MONTH_ENDS:
        months = 12 * fiscal_year + company.year_end_month - 3 * (4 - quarter)
        return dt.date(months // 12, months % 12 + 1, 1) - dt.timedelta(days=1)
    rule = WEEK_YEARS.get(company.ticker)
    if rule is None:
        return None
    end, before = _year_end(company, rule, fiscal_year), _year_end(company, rule, fiscal_year - 1)
    if quarter == 4:  # noqa: PLR2004
        return end
    is_long = (end - before).days > 7 * _WEEKS
    if is_long and not rule.long_quarter:
        return None
    return before + dt.timedelta(weeks=13 * quarter + (is_long and rule.long_quarter <= quarter))


def _year_end(company: Company, rule: WeekYear, fiscal_year: int) -> dt.date:
    months = 12 * fiscal_year + company.year_end_month
    last = dt.date(months // 12, months % 12 + 1, 1) - dt.timedelta(days=1)
    back = (last.weekday() - rule.weekday) % 7
    forward = 7 - back
    nearer_before = rule.which == "last" or back < forward
    return last - dt.timedelta(days=back) if nearer_before else last + dt.timedelta(days=forward)
