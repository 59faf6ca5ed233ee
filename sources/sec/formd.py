"""Form D notices of private offerings as funding events.

Belongs here: the source, what a notice says of an offering, and the removal of persons before anything is kept. Does
not belong here: which issuer matters to whom.

Amounts of an amendment are cumulative: it is a newer version of the same offering, never added. Pooled funds are not
start-up funding and give no row.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from lxml import etree

from sources.base import Authority, Cadence, FetchError, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.http_errors import StatusError
from sources.local_files import local_files, payload_of
from sources.sec.companies import filing_url
from sources.sec.documents import document_name

EVENTS = "market.events"
SEARCH = "https://efts.sec.gov/LATEST/search-index"
PHRASES = ('"GPU cloud"', '"artificial intelligence infrastructure"', '"AI compute"')
WINDOW_DAYS = 30
PAGE = 100
LAST_RESULT = 10_000
NOT_FOUND = 404
POOLED = "Pooled Investment Fund"
# Names, addresses and telephone numbers of persons: gone before the document is archived.
PERSONAL = (
    "relatedPersonsList",
    "signatureBlock",
    "salesCompensationList",
    "issuerPhoneNumber",
    "issuerAddress",
)
_SCHEMA: dict[str, Any] = {
    "event_id": pl.String,
    "event_kind": pl.String,
    "event_date": pl.Date,
    "subject": pl.String,
    "country": pl.String,
    "title": pl.String,
    "amount": pl.Float64,
    "amount_usd": pl.Float64,
    "currency": pl.String,
    "quantity": pl.Float64,
    "quantity_unit": pl.String,
    "topics": pl.String,
    "known_at": pl.Datetime("us", "UTC"),
    "source_name": pl.String,
    "source_url": pl.String,
    "notes": pl.String,
}


class FormD:
    """`primary_doc.xml` of Form D and D/A filings, found by full-text search."""

    name = "sec-form-d"
    publisher = "U.S. Securities and Exchange Commission"
    homepage = "https://www.sec.gov/edgar/search/"
    licence = "public domain (U.S. government)"
    terms = "identify yourself with a contact address; at most 10 requests a second over all sec.gov hosts"
    cadence: Cadence = "weekly"
    tables: tuple[str, ...] = (EVENTS,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Notices of the last weeks that the search finds, each with persons removed."""
        until = dt.datetime.now(dt.UTC).date()
        window = {"startdt": str(until - dt.timedelta(days=WINDOW_DAYS)), "enddt": str(until)}
        seen: set[str] = set()
        for phrase in PHRASES:
            for cik, accession, filed in _hits(web, phrase, window):
                if accession not in seen:
                    seen.add(accession)
                    payload = _notice(web, self.name, cik, accession, filed)
                    if payload is not None:
                        yield payload

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local copies; persons are removed here as well."""
        for file, name in local_files(paths, (".xml",)):
            p = payload_of(self.name, file, name, options, media_type="application/xml", meta={}, stream="form-d")
            yield Payload(p.source, p.url, p.retrieved_at, p.media_type, without_persons(p.read(), name), p.stream)

    def parse(self, payload: Payload) -> Parsed:
        """At most one row of `market.events`. Raises `ParseError`."""
        name = document_name(payload)
        root = _root(payload.read(), name)
        industry = _text(root, "offeringData/industryGroup/industryGroupType")
        if industry == POOLED:
            return Parsed({EVENTS: pl.DataFrame(schema=_SCHEMA)})
        try:
            row = _row(root, payload, industry)
        except ValueError as error:
            return Parsed({EVENTS: pl.DataFrame(schema=_SCHEMA)}, (Reject(EVENTS, "form_d", str(error), name, name),))
        return Parsed({EVENTS: pl.DataFrame([row], schema=_SCHEMA)})


def without_persons(body: bytes, name: str) -> bytes:
    """The document without what names or locates a person. Raises `ParseError` when it cannot be read."""
    root = _root(body, name)
    for tag in PERSONAL:
        for node in list(root.iter(tag)):
            node.getparent().remove(node)
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))


def _root(body: bytes, name: str) -> Any:
    if not body.strip():
        raise ParseError(f"{name}: the file is empty; fetch it again")
    try:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        root = etree.fromstring(body.strip(), parser)
    except etree.XMLSyntaxError as error:
        raise ParseError(f"{name}: not an XML document, or cut short: {error.msg}") from error
    if root.tag != "edgarSubmission" or root.findtext("submissionType") not in ("D", "D/A"):
        raise ParseError(f"{name}: not a Form D notice")
    return root


def _text(root: Any, path: str) -> str:
    return (root.findtext(path) or "").strip()


def _row(root: Any, payload: Payload, industry: str) -> dict[str, Any]:
    cik = _text(root, "primaryIssuer/cik").lstrip("0")
    issuer = _text(root, "primaryIssuer/entityName")
    if not cik.isdigit() or not issuer:
        raise ValueError("the notice names no issuer")
    sold = _text(root, "offeringData/offeringSalesAmounts/totalAmountSold")
    offered = _text(root, "offeringData/offeringSalesAmounts/totalOfferingAmount")
    if not re.fullmatch(r"\d+(\.\d+)?", sold):
        raise ValueError(f"totalAmountSold is {sold!r}, not an amount")
    first_sale = _text(root, "offeringData/typeOfFiling/dateOfFirstSale/value")
    investors = _text(root, "offeringData/investors/totalNumberAlreadyInvested")
    form = _text(root, "submissionType")
    accession = payload.meta.get("accession", "")
    filed = payload.meta.get("filed", "")
    return {
        # An offering is one issuer's sale that began on one day; amendments repeat both.
        "event_id": f"form-d:{cik}:{first_sale or 'yet to occur'}",
        "event_kind": "funding",
        "event_date": dt.date.fromisoformat(first_sale) if first_sale else None,
        "subject": issuer,
        "country": "US" if _text(root, "primaryIssuer/jurisdictionOfInc") else None,
        "title": f"{issuer}: private offering, {form}",
        "amount": float(sold),
        "amount_usd": float(sold),
        "currency": "USD",
        "quantity": float(investors) if investors.isdigit() else None,
        "quantity_unit": "investors" if investors.isdigit() else None,
        "topics": f"form-d; {industry}" if industry else "form-d",
        "known_at": dt.datetime.combine(dt.date.fromisoformat(filed), dt.time(), dt.UTC)
        if filed
        else payload.retrieved_at,
        "source_name": f"Form {form}, {issuer}",
        "source_url": filing_url(int(cik), accession)
        if accession
        else f"https://www.sec.gov/cgi-bin/browse-edgar?action=getcompany&CIK={int(cik):010d}&type=D",
        "notes": f"amounts are cumulative; offered in all: {offered or 'not stated'}",
    }


def _hits(web: Web, phrase: str, window: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """(CIK, accession, day filed) of the search's hits, page by page up to what the search allows."""
    start = 0
    while start < LAST_RESULT:
        query = {"q": phrase, "forms": "D,D/A", "dateRange": "custom", **window, "from": str(start)}
        answer = web.get(SEARCH, params=query, conditional=False, max_bytes=16 << 20)
        try:
            hits = hits_of(answer.body, SEARCH) if answer is not None else []
        except ParseError as error:
            raise FetchError(str(error)) from error
        yield from hits
        if len(hits) < PAGE:
            return
        start += PAGE


def hits_of(body: bytes, name: str) -> list[tuple[int, str, str]]:
    """Hits of one search answer. Raises `ParseError` for the search's own error messages."""
    try:
        answer = json.loads(body)
    except json.JSONDecodeError as error:
        raise ParseError(f"{name}: the search gave no JSON") from error
    if "hits" not in answer:
        raise ParseError(f"{name}: the search refused: {str(answer.get('errorMessage') or answer)[:200]}")
    found = []
    for hit in answer["hits"]["hits"]:
        about = hit["_source"]
        found.append((int(about["ciks"][0]), str(about["adsh"]), str(about.get("file_date") or "")))
    return found


def _notice(web: Web, source: str, cik: int, accession: str, filed: str) -> Payload | None:
    url = filing_url(cik, accession) + "primary_doc.xml"
    try:
        answer = web.get(url, max_bytes=8 << 20)
    except StatusError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    if answer is None:
        return None
    meta = {"cik": str(cik), "accession": accession, "filed": filed}
    try:
        body = without_persons(answer.body, url)
    except ParseError:
        # What cannot be cleared of persons is not kept.
        return None
    return Payload(source, url, answer.retrieved_at, "application/xml", body, "form-d", meta=meta)


SOURCE = FormD()
