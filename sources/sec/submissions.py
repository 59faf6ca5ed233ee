"""Finding filings on EDGAR: the submissions of a company, the exhibits of a filing by type.

Belongs here: submissions JSON and its older pages, the filing index, fetching a filing as one payload. Does not belong
here: reading what the exhibits say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bs4 import BeautifulSoup

from sources.base import FetchError, ParseError, Payload, Response, Web
from sources.http_errors import StatusError
from sources.sec.bundles import MEDIA_TYPE, pack
from sources.sec.companies import BY_TICKER, Company, filing_url

RESULTS_ITEM = "2.02"
MAX_BYTES = 64 << 20
NOT_FOUND = 404
REPORT_FORMS = ("10-Q", "10-K", "10-Q/A", "10-K/A")
# A first fetch takes this many releases of a company; later ones take what is new.
NEWEST = 8


@dataclass(frozen=True, slots=True)
class Filed:
    """One line of a company's submissions."""

    accession: str
    form: str
    items: tuple[str, ...]
    filed: str
    accepted: str
    report_date: str
    primary_document: str

    @property
    def is_results(self) -> bool:
        """An 8-K (or its amendment) with item 2.02 itself: `12.02` and a date in the field are something else."""
        return self.form in ("8-K", "8-K/A") and RESULTS_ITEM in self.items


def filings_of(document: Mapping[str, Any]) -> list[Filed]:
    """Lines of a submissions document, or of one of its older pages, newest first as EDGAR gives them.

    Raises `ParseError` where the columns are missing or of unlike length.
    """
    columns = document.get("filings", {}).get("recent") if "filings" in document else document
    names = ("accessionNumber", "form", "items", "filingDate", "acceptanceDateTime", "reportDate", "primaryDocument")
    if not isinstance(columns, dict) or any(not isinstance(columns.get(n), list) for n in names):
        raise ParseError("submissions: the columns of filings are missing; has the format changed?")
    if len({len(columns[n]) for n in names}) != 1:
        raise ParseError("submissions: the columns of filings differ in length; the file is damaged")
    return [
        Filed(accession, form, tuple(p.strip() for p in items.split(",")), filed, accepted, report, primary)
        for accession, form, items, filed, accepted, report, primary in zip(*(columns[n] for n in names), strict=True)
    ]


def older_pages(document: Mapping[str, Any]) -> list[str]:
    """Addresses of the pages that hold a company's earlier filings."""
    pages = document.get("filings", {}).get("files") or []
    return [f"https://data.sec.gov/submissions/{page['name']}" for page in pages]


def exhibits_of(index_html: str) -> list[tuple[str, str]]:
    """(type, address) of each document in a filing index; the table of data files, which looks alike, is left out.

    Raises `ParseError` where there is no table of documents.
    """
    soup = BeautifulSoup(index_html, "lxml")
    table = soup.find("table", attrs={"summary": "Document Format Files"})
    if table is None:
        raise ParseError("filing index: no table of documents; has the page changed?")
    found = []
    for row in table.find_all("tr"):
        cells = row.find_all("td")
        link = cells[2].find("a") if len(cells) > 3 else None  # noqa: PLR2004 - seq, description, document, type
        if link is not None:
            address = str(link["href"]).replace("/ix?doc=", "")
            found.append((cells[3].get_text(strip=True).replace("..", "."), f"https://www.sec.gov{address}"))
    return found


def releases(web: Web, source: str, tickers: Sequence[str]) -> Iterator[Payload]:
    """The newest results releases of each company, one payload a filing. Raises `FetchError` when EDGAR refuses."""
    for ticker in tickers:
        company = BY_TICKER[ticker]
        for filed in islice((f for f in everything_filed(web, company) if f.is_results), NEWEST):
            payload = _filing(web, source, company, filed)
            if payload is not None:
                yield payload


def reports(web: Web, source: str, tickers: Sequence[str]) -> Iterator[Payload]:
    """The newest 10-Q and 10-K of each company, the primary document as one payload. Raises `FetchError`."""
    for ticker in tickers:
        company = BY_TICKER[ticker]
        for filed in islice((f for f in everything_filed(web, company) if f.form in REPORT_FORMS), NEWEST):
            document = _get(web, filing_url(company.cik, filed.accession) + filed.primary_document)
            if document is not None:
                yield _payload(source, document, f"CIK{company.cik10}", _meta(company, filed))


def monthly_reports(web: Web, source: str) -> Iterator[Payload]:
    """TSMC's newest monthly 6-K: the form has no items, the file name says what it is. Raises `FetchError`."""
    company = BY_TICKER["TSM"]
    named = (f for f in everything_filed(web, company) if f.form == "6-K" and "revenue" in f.primary_document.lower())
    for filed in islice(named, NEWEST):
        document = _get(web, filing_url(company.cik, filed.accession) + filed.primary_document)
        if document is not None:
            yield _payload(source, document, "TSM", _meta(company, filed))


def everything_filed(web: Web, company: Company) -> Iterator[Filed]:
    """Every filing of a company, older pages included, newest first."""
    page = web.get(f"https://data.sec.gov/submissions/CIK{company.cik10}.json", conditional=False, max_bytes=MAX_BYTES)
    if page is None:
        return
    document, filed = _listed(page)
    yield from filed
    for address in older_pages(document):
        older = web.get(address, conditional=False, max_bytes=MAX_BYTES)
        if older is not None:
            yield from _listed(older)[1]


def _listed(page: Response) -> tuple[Mapping[str, Any], list[Filed]]:
    try:
        document = json.loads(page.body)
        return document, filings_of(document)
    except (json.JSONDecodeError, ParseError) as error:
        raise FetchError(f"{page.url}: not a list of filings: {error}") from error


def _filing(web: Web, source: str, company: Company, filed: Filed) -> Payload | None:
    """One filing with its EX-99 exhibits; None when it has none or nothing changed."""
    folder = filing_url(company.cik, filed.accession)
    index = _get(web, f"{folder}{filed.accession}-index.html")
    if index is None:
        return None
    try:
        listed = exhibits_of(index.body.decode("utf-8", "replace"))
    except ParseError as error:
        raise FetchError(f"{index.url}: {error}") from error
    members = []
    for kind, url in listed:
        document = web.get(url, conditional=False, max_bytes=MAX_BYTES) if kind.startswith("EX-99") else None
        if document is not None:
            members.append((url.rpartition("/")[2], document.body))
    if not members:
        return None
    meta = _meta(company, filed)
    # Under the index's address and validators: the filing is fetched again only when its index has changed.
    return _payload(source, index, f"CIK{company.cik10}", meta, body=pack(meta, members), media_type=MEDIA_TYPE)


def _get(web: Web, url: str) -> Response | None:
    """A document that changed; None when it did not, and when it is not there. Any other refusal is raised."""
    try:
        return web.get(url, max_bytes=MAX_BYTES)
    except StatusError as error:
        if error.status == NOT_FOUND:
            return None
        raise


def _payload(
    source: str,
    answer: Response,
    stream: str,
    meta: Mapping[str, str],
    *,
    body: bytes | None = None,
    media_type: str | None = None,
) -> Payload:
    """An answer as payload, with the validators that make the next request conditional."""
    return Payload(
        source,
        answer.url,
        answer.retrieved_at,
        media_type or answer.media_type,
        answer.body if body is None else body,
        stream,
        answer.status,
        answer.etag,
        answer.last_modified,
        meta,
    )


def _meta(company: Company, filed: Filed) -> dict[str, str]:
    """What EDGAR says of a filing, as text."""
    return {
        "cik": str(company.cik),
        "accession": filed.accession,
        "form": filed.form,
        "items": ",".join(filed.items),
        "filed": filed.filed,
        "accepted": filed.accepted,
    }
