"""Segments from the inline XBRL of a 10-Q or 10-K, matched by the printed row label.

Belongs here: the source, the wanted rows, and the sums that must hold. Does not belong here: reading the document
(`ixbrl_reader.py`), leases and commitments (`ixbrl_commitments.py`), undimensioned facts (`companyfacts.py` has them in every vintage).

The member of a dimension is never trusted for its name: AMD's 10-Q of July 2023 tags the row "Data Center" with
`amd:ClientMember`. The printed label decides, and the rows must add up to the printed total.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Web
from sources.local_files import local_files, payload_of
from sources.sec.companies import BY_CIK
from sources.sec.documents import document_name
from sources.sec.figures import FINANCIALS, Figure, Found, plain, to_frame
from sources.sec.filing import Exhibit, Filing
from sources.sec.fiscal import fiscal_quarter
from sources.sec.ixbrl_commitments import commitments
from sources.sec.ixbrl_reader import Document, Fact, quarters, read_document
from sources.sec.rules_nvidia import PLATFORM, ROWS
from sources.sec.rules_segments import AMD_DEFINITION, AMD_SEGMENTS
from sources.sec.submissions import reports

REVENUE = ("us-gaap:Revenues", "us-gaap:RevenueFromContractWithCustomerExcludingAssessedTax")
_TOTALS = ("total net revenue", "total revenue", "total")
# Segments are read for these two, commitments and leases also for the companies with the largest capital expenditure.
SPENDERS = ("AMZN", "MSFT", "GOOGL", "META", "ORCL", "CRWV")
# Row label → (metric, version, level): 0 part of a segment, 1 segment, 2 total. As in the releases.
CUTS = {
    "NVDA": (ROWS, PLATFORM),
    "AMD": (
        {k: (m, "1", 1) for k, m in AMD_SEGMENTS.items()} | {"total net revenue": ("revenue", "1", 2)},
        AMD_DEFINITION,
    ),
}


class InlineXbrl:
    """The primary document of a 10-Q or 10-K."""

    name = "sec-ixbrl"
    publisher = "U.S. Securities and Exchange Commission (documents by the companies)"
    homepage = "https://www.sec.gov/structureddata/osd-inline-xbrl.html"
    licence = "public filings; figures are facts, texts stay with the companies"
    terms = "identify yourself with a contact address; at most 10 requests a second over all sec.gov hosts"
    cadence: Cadence = "daily"
    tables: tuple[str, ...] = (FINANCIALS,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 2
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """The newest reports of the companies whose segments or commitments are read."""
        yield from reports(web, self.name, (*CUTS, *SPENDERS))

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local primary documents."""
        for file, name in local_files(paths, (".htm", ".html", ".xhtml")):
            payload = payload_of(self.name, file, name, options, media_type="text/html", meta={}, stream="")
            yield replace(payload, stream=file.name.split("_")[0])

    def parse(self, payload: Payload) -> Parsed:
        """Rows of `market.financials`. Raises `ParseError`."""
        name = document_name(payload)
        body = payload.read()
        if not body.strip():
            raise ParseError(f"{name}: the file is empty; fetch it again")
        document = read_document(body, name)
        filing = _Report(document, payload)
        found = Found()
        if filing.company.ticker in CUTS:
            _segments(filing, document, found)
        found.figures.extend(commitments(filing, document))
        return Parsed({FINANCIALS: to_frame(filing, found.figures, found)}, tuple(found.rejects))


class _Report(Filing):
    """A 10-Q or 10-K as a filing: whose, which form, when known."""

    def __init__(self, document: Document, payload: Payload) -> None:
        cik = document.cover.get("EntityCentralIndexKey", "")
        if not cik.isdigit() or int(cik) not in BY_CIK:
            raise ParseError(f"{document_name(payload)}: wrong company: CIK {cik or 'none'} is not on the watch list")
        stated = payload.meta.get("cik", "")
        if stated and int(stated) != int(cik):
            raise ParseError(f"{document_name(payload)}: wrong company: fetched for CIK {stated}, the cover says {cik}")
        self.company = BY_CIK[int(cik)]
        self.meta = payload.meta
        self.accession = payload.meta.get("accession") or None
        self.form = payload.meta.get("form") or document.cover.get("DocumentType", "10-Q")
        self.exhibits = [Exhibit(document_name(payload), "", "")]
        self.documents = []
        self.known_at, self.precision = payload.retrieved_at, "retrieved"
        accepted = payload.meta.get("accepted")
        if accepted:
            self.known_at, self.precision = dt.datetime.fromisoformat(accepted), "second"
        elif document.signed:
            self.known_at = dt.datetime.combine(document.signed, dt.time(), dt.UTC)
            self.precision = "day"


def _segments(filing: Filing, document: Document, found: Found) -> None:
    rows, definition = CUTS[filing.company.ticker]
    by_table: dict[tuple[int, str], list[Fact]] = {}
    for fact in document.facts:
        if fact.table >= 0 and fact.concept in REVENUE:
            by_table.setdefault((fact.table, fact.section), []).append(fact)
    tables = [t for t in by_table.values() if any(plain(f.label) == "data center" for f in t)]
    tables = [t for t in tables if any(plain(f.label) in _TOTALS for f in t)]
    if not tables:
        found.refuse(FINANCIALS, "segment_table", "no tagged table with a row Data Center and a total", "", filing.form)
    for facts in tables:
        unknown = [f.label for f in facts if plain(f.label) not in rows]
        problem = f"row {unknown[0]!r} is not known: the cut may have changed" if unknown else _sums(facts, rows)
        if problem:
            raw = "; ".join(f"{f.label} {f.context.end} {f.value:.0f}" for f in facts)
            found.refuse(FINANCIALS, "segment_table", problem, raw, facts[0].section)
        else:
            found.figures.extend(_figures(filing, facts, rows, definition))


def _sums(facts: Sequence[Fact], rows: Mapping[str, tuple[str, str, int]]) -> str:
    """Empty when parts make segments and segments make the total in every period, else what does not."""
    for period in {(f.context.start, f.context.end) for f in facts}:
        here = [f for f in facts if (f.context.start, f.context.end) == period]
        levels: dict[int, list[Fact]] = {0: [], 1: [], 2: []}
        for f in here:
            levels[rows[plain(f.label)][2]].append(f)
        if len(levels[2]) != 1 or levels[2][0].context.dimensions:
            return f"no single undimensioned total for the period to {period[1]}"
        if any(not f.context.dimensions for f in levels[1]):
            return f"a segment of the period to {period[1]} is tagged like the total"
        segments, total = sum(f.value for f in levels[1]), levels[2][0].value
        if abs(segments - total) > levels[2][0].step:
            return f"segments of the period to {period[1]} add up to {segments:,.0f}, the total is {total:,.0f}"
        centre = [f.value for f in levels[1] if plain(f.label) == "data center"]
        if levels[0] and (len(centre) != 1 or abs(sum(f.value for f in levels[0]) - centre[0]) > levels[2][0].step):
            return f"the parts of Data Center in the period to {period[1]} do not add up to it"
    return ""


def _figures(
    filing: Filing, facts: Sequence[Fact], rows: Mapping[str, tuple[str, str, int]], definition: str
) -> list[Figure]:
    """Quarters and years as tagged; the first quarter also as half year less second quarter of the same filing."""
    figures = []
    by_key: dict[tuple[str, int, int], Figure] = {}
    for fact in facts:
        length = quarters(fact.context)
        metric, version, _ = rows[plain(fact.label)]
        try:
            year, quarter = fiscal_quarter(fact.context.end, filing.company.year_end_month)
        except ValueError:
            continue
        if length is None or (length > 1 and length != quarter):
            continue
        words = definition if metric != "revenue" else "total revenue, GAAP"
        figure = Figure(
            filing.exhibits[0],
            metric,
            year,
            quarter,
            length,
            fact.value,
            fact.step,
            fact.label,
            words,
            version=version,
            period_end=fact.context.end,
        )
        by_key[f"{metric}/{version}", year, length] = figure
        if length in (1, 4):
            figures.append(figure)
    starts = {f.context.end: f.context.start for f in facts if quarters(f.context) == 1}
    for (key, year, length), half in by_key.items():
        second = by_key.get((key, year, 1))
        start = starts.get(second.period_end) if second and second.period_end else None
        if length == 2 and second is not None and second.quarter == 2 and start:  # noqa: PLR2004
            figures.append(
                replace(
                    half,
                    quarter=1,
                    length=1,
                    value=half.value - second.value,
                    period_end=start - dt.timedelta(days=1),
                    derivation=f"half year less second quarter of the same filing ({half.value:.0f} - {second.value:.0f})",
                )
            )
    return figures


SOURCE = InlineXbrl()
