"""One filing with its exhibits, read: whose it is, when it became public, which quarter it reports, its tables.

Belongs here: what is the same for every company. Does not belong here: which rows are wanted (`rules_*.py`), fetching.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sources.base import ParseError
from sources.sec.companies import BY_CIK, BY_TICKER, COMPANIES, Company, filing_url
from sources.sec.fiscal import fiscal_quarter, label
from sources.sec.htmltables import Html, read_html, sgml_field
from sources.sec.statements import MONTH, Column, Statement, parse_date, read_statement

_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
_DAY = rf"{MONTH}\.?\s+\d{{1,2}},\s+20\d\d"
_QUARTER_ENDED = re.compile(rf"\bquarter\b[^.]{{0,60}}?\bended\s+({_DAY})", re.IGNORECASE)
_TITLE = re.compile(
    r"\b(first|second|third|fourth)\s+quarter(?:\s+and\s+(?:full[\s-]+year)?)?\s*(?:of\s+)?(?:fiscal\s+)?(?:year\s+)?(20\d\d)",
    re.IGNORECASE,
)
_DATELINE = re.compile(rf"({_DAY})\s*(?:[-\u2012-\u2015]|\(GLOBE)", re.IGNORECASE)
_TICKER = re.compile(r"\((?:NASDAQ|NYSE)[^():]*:\s*([A-Z]{1,5})\)", re.IGNORECASE)
_AMOUNT = re.compile(r"\$\s?(\d[\d,]*(?:\.(\d+))?)\s*(million|billion|trillion)", re.IGNORECASE)
_SCALE = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
_MIN_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One document of a filing as it lies in the payload."""

    name: str
    type: str
    html: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum in prose: `$81.6 billion` is 81.6e9 to the step of 0.1e9, with three digits."""

    value: float
    step: float
    digits: int


class Filing:
    """A filing ready to be read by a company's rules. Raises `ParseError` where it cannot be told whose it is."""

    def __init__(self, exhibits: Sequence[Exhibit], meta: Mapping[str, str], observed_at: dt.datetime) -> None:
        self.exhibits = exhibits
        self.meta = meta
        self.documents: list[Html] = [read_html(e.html) for e in exhibits]
        self.company = self._whose()
        self.accession = meta.get("accession") or None
        self.form = meta.get("form") or "8-K"
        self.known_at, self.precision = self._known(observed_at)

    @cached_property
    def statements(self) -> list[tuple[Exhibit, Statement]]:
        """Every table of figures with the exhibit it stands in."""
        month = self.company.year_end_month
        return [
            (exhibit, statement)
            for exhibit, document in zip(self.exhibits, self.documents, strict=True)
            for table in document.tables
            if (statement := read_statement(table, month)) is not None
        ]

    @cached_property
    def quarter(self) -> tuple[int, int] | None:
        """(fiscal year, quarter) the filing reports: the day after "quarter ended", else its title."""
        for document in self.documents:
            ended = _QUARTER_ENDED.search(document.text[:4000])
            day = parse_date(ended.group(1)) if ended else None
            if day:
                try:
                    return fiscal_quarter(day, self.company.year_end_month)
                except ValueError:
                    continue
        for document in self.documents:
            title = _TITLE.search(document.text[:1500])
            if title:
                return int(title[2]), _ORDINALS[title[1].lower()]
        return None

    @cached_property
    def ends(self) -> dict[str, dt.date]:
        """Last day of each fiscal quarter that any dated column or sentence of the filing names."""
        found: dict[str, set[dt.date]] = {}
        days = [c.period_end for _, s in self.statements for c in s.columns if c.kind in ("period", "instant")]
        days += [parse_date(m.group(1)) for d in self.documents for m in _QUARTER_ENDED.finditer(d.text)]
        for day in days:
            if day:
                try:
                    found.setdefault(label(*fiscal_quarter(day, self.company.year_end_month)), set()).add(day)
                except ValueError:
                    continue
        return {period: days.pop() for period, days in found.items() if len(days) == 1}

    @cached_property
    def amounts(self) -> list[Amount]:
        """Sums written out in prose."""
        return [_amount(m) for d in self.documents for m in _AMOUNT.finditer(d.prose)]

    @cached_property
    def is_preliminary(self) -> bool:
        """Whether the filing announces results before they are final."""
        return any("preliminary" in d.text[:1500].lower() for d in self.documents)

    def is_written_out(self, value: float) -> bool:
        """Whether the prose states this sum, rounded, with at least three digits: that settles scale and column."""
        return any(a.digits >= _MIN_DIGITS and abs(value - a.value) <= a.step / 2 * 1.000001 for a in self.amounts)

    def end_of(self, column: Column) -> dt.date | None:
        """Last day of a column's period: its own date, else the one the filing names for that quarter."""
        return column.period_end or self.ends.get(label(column.fiscal_year, column.quarter))

    def url_of(self, exhibit: Exhibit) -> str:
        """Link to the exhibit; without an accession number, to the company's list of filings up to that day."""
        name = sgml_field(exhibit.html, "FILENAME") or exhibit.name
        if self.accession:
            return filing_url(self.company.cik, self.accession) + name
        day = self.known_at.strftime("%Y%m%d")
        return (
            f"https://www.sec.gov/cgi-bin/browse-edgar?action=getcompany&CIK={self.company.cik10}&type={self.form}"
            f"&dateb={day}&owner=exclude&count=10"
        )

    def name_of(self, exhibit: Exhibit) -> str:
        """Words for `source_name`: form, exhibit type and file name."""
        name = sgml_field(exhibit.html, "FILENAME") or exhibit.name
        return f"{self.company.ticker} {self.form} {exhibit.type} {name}".replace("  ", " ")

    def _whose(self) -> Company:
        cik = self.meta.get("cik", "")
        if cik.isdigit():
            if int(cik) not in BY_CIK:
                raise ParseError(f"{self.exhibits[0].name}: wrong company: CIK {cik} is not on the watch list")
            return BY_CIK[int(cik)]
        tickers = [t.upper() for d in self.documents for t in _TICKER.findall(d.text[:6000])]
        known = [t for t in tickers if t in BY_TICKER]
        if known:
            return BY_TICKER[known[0]]
        if tickers:
            raise ParseError(f"{self.exhibits[0].name}: wrong company: {tickers[0]} is not on the watch list")
        named = {c.ticker for c in COMPANIES for d in self.documents if _registered(c, d.text)}
        if len(named) == 1:
            return BY_TICKER[named.pop()]
        raise ParseError(f"{self.exhibits[0].name}: cannot tell which company of the watch list it is from")

    def _known(self, observed_at: dt.datetime) -> tuple[dt.datetime, str]:
        accepted = self.meta.get("accepted", "")
        if accepted:
            moment = dt.datetime.fromisoformat(accepted)
            return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)), "second"
        for document in self.documents:
            found = _DATELINE.search(document.text[:4000])
            day = parse_date(found.group(1)) if found else None
            if day:
                return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC), "day"
        return observed_at, "retrieved"


def _registered(company: Company, text: str) -> bool:
    """Whether the text holds the company's name with its legal form, as a signature or contact block does."""
    return bool(
        re.search(rf"\b{re.escape(company.name)}[\w ]{{0,30}},? (?:corporation|corp|inc|ltd)\b", text, re.IGNORECASE)
    )


def _amount(match: re.Match[str]) -> Amount:
    scale = _SCALE[match[3].lower()]
    decimals = len(match[2] or "")
    digits = len(re.sub(r"[^\d]", "", match[1]).lstrip("0"))
    return Amount(float(match[1].replace(",", "")) * scale, scale / 10**decimals, digits)
