"""EDGAR company facts and single concepts: every undimensioned fact a company has tagged, in every filing that repeats it.

Belongs here: fetching and flattening the JSON. Does not belong here: choosing concepts, periods and quarters
(`assets/filings_quarters.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Response, Web
from sources.http_errors import StatusError
from sources.local_files import local_files, payload_of
from sources.sec import concepts
from sources.sec.companies import BY_CIK, COMPANIES, Company, is_name_of
from sources.sec.documents import document_name, read_json

RAW_TABLE = "raw.company_facts"
NOT_FOUND = 404
API = "https://data.sec.gov/api/xbrl"
MAIN_CONCEPTS = tuple(c for c, metric in concepts.BY_CONCEPT.items() if metric.name in ("capex_cash_ppe", "revenue"))
_FACT = {
    "start": pl.String,
    "end": pl.String,
    "val": pl.Float64,
    "accn": pl.String,
    "fy": pl.Int64,
    "fp": pl.String,
    "form": pl.String,
    "filed": pl.String,
    "frame": pl.String,
}
_SCHEMA = {"entity": pl.String, "cik": pl.Int64, "concept": pl.String, "unit": pl.String, **_FACT}
_MONEY = re.compile(r"[A-Z]{3}")
_CIK_IN_NAME = re.compile(r"CIK(\d{10})")
_CONCEPT_IN_HEAD = re.compile(r'"taxonomy"\s*:\s*"([\w-]+)"\s*,\s*"tag"\s*:\s*"(\w+)"')
_CIK_IN_HEAD = re.compile(r'"cik"\s*:\s*"?(\d{1,10})')


class CompanyFacts:
    """`https://data.sec.gov/api/xbrl/companyfacts/CIK##########.json` for each company of the watch list."""

    name = "sec-companyfacts"
    publisher = "U.S. Securities and Exchange Commission"
    homepage = "https://www.sec.gov/search-filings/edgar-application-programming-interfaces"
    licence = "public domain (U.S. government)"
    terms = "identify yourself with a contact address; at most 10 requests a second over all sec.gov hosts"
    cadence: Cadence = "daily"
    tables: tuple[str, ...] = ("market.financials",)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 3
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """One payload a company that changed. A refusal ends the run of this source: EDGAR blocks who insists.

        A company whose whole file is not there is asked for its main concepts one by one; 404 for one of them says
        that the company never used it.
        """
        for company in COMPANIES:
            cik = f"CIK{company.cik10}"
            whole, is_there = _get(web, f"{API}/companyfacts/{cik}.json")
            if whole is not None:
                yield self._payload(whole, cik)
            for concept in () if is_there else MAIN_CONCEPTS:
                one, _ = _get(web, f"{API}/companyconcept/{cik}/{concept.replace(':', '/')}.json")
                if one is not None:
                    yield self._payload(one, f"{cik} {concept}")

    def _payload(self, answer: Response, stream: str) -> Payload:
        return Payload(
            source=self.name,
            url=answer.url,
            retrieved_at=answer.retrieved_at,
            media_type=answer.media_type,
            body=answer.body,
            stream=stream,
            status=answer.status,
            etag=answer.etag,
            last_modified=answer.last_modified,
        )

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local copies of the same JSON."""
        for file, name in local_files(paths, (".json",)):
            payload = payload_of(self.name, file, name, options, media_type="application/json", meta={}, stream="")
            yield replace(payload, stream=_stream(payload))

    def parse(self, payload: Payload) -> Parsed:
        """`raw.company_facts`: one row a fact of the concepts in use. Raises `ParseError`."""
        document = read_json(payload)
        facts = _single(document) or document.get("facts")
        if not isinstance(facts, dict):
            raise ParseError(f"{document_name(payload)}: holds no facts; is it a company-facts file?")
        company = _company(document, document_name(payload))
        if not facts:
            raise ParseError(f"{document_name(payload)}: holds no facts of {company.ticker}; fetch it again")
        frames = [_facts(company, concept, units) for concept, units in _wanted(facts)]
        frame = pl.concat([f for group in frames for f in group]) if any(frames) else pl.DataFrame(schema=_SCHEMA)
        good = _complete()
        return Parsed({RAW_TABLE: frame.filter(good)}, _rejects(frame.filter(~good), document_name(payload)))


def _get(web: Web, url: str) -> tuple[Response | None, bool]:
    """(the document if it changed, whether there is one). Any refusal but 404 is raised."""
    try:
        return web.get(url, max_bytes=64 << 20), True
    except StatusError as error:
        if error.status != NOT_FOUND:
            raise
        return None, False


def _single(document: Mapping[str, object]) -> dict[str, object] | None:
    """A company-concept document in the shape of company facts; None for anything else."""
    taxonomy, tag, units = (document.get(k) for k in ("taxonomy", "tag", "units"))
    return {str(taxonomy): {str(tag): {"units": units}}} if taxonomy and tag and isinstance(units, dict) else None


def _stream(payload: Payload) -> str:
    """The company's series: the CIK of the file name, else the one the document opens with; and its single concept."""
    head = payload.read()[:200].decode("utf-8", errors="replace")
    found = _CIK_IN_NAME.search(document_name(payload)) or _CIK_IN_HEAD.search(head)
    concept = _CONCEPT_IN_HEAD.search(head)
    only = f" {concept[1]}:{concept[2]}" if concept else ""
    return f"CIK{int(found.group(1)):010d}{only}" if found else document_name(payload)


def _company(document: Mapping[str, object], name: str) -> Company:
    """The company the document says it is about; an unknown one or another than its file name is an error."""
    raw = document.get("cik")
    cik = int(raw) if isinstance(raw, int | str) and str(raw).isdigit() else None
    if cik is None:
        raise ParseError(f"{name}: no `cik`; is it a company-facts file?")
    company = BY_CIK.get(cik)
    registered = str(document.get("entityName") or "")
    if company is None:
        raise ParseError(f"{name}: wrong company: CIK {cik} ({registered or 'no name'}) is not on the watch list")
    stated = _CIK_IN_NAME.search(name)
    if stated and int(stated.group(1)) != cik:
        raise ParseError(f"{name}: wrong company: the file name says CIK {stated.group(1)}, the content {cik:010d}")
    if not is_name_of(company, registered):
        raise ParseError(f"{name}: wrong company: CIK {cik} is {company.ticker}, the content says {registered!r}")
    return company


def _wanted(facts: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The concepts in use that the file holds, with their facts by unit."""
    for concept in concepts.BY_CONCEPT:
        taxonomy, _, tag = concept.partition(":")
        entry = facts.get(taxonomy)
        found = entry.get(tag) if isinstance(entry, dict) else None
        units = found.get("units") if isinstance(found, dict) else None
        if isinstance(units, dict):
            yield concept, units


def _facts(company: Company, concept: str, units: Mapping[str, object]) -> list[pl.DataFrame]:
    """One frame a money unit of a concept."""
    frames = []
    for unit, rows in units.items():
        if _MONEY.fullmatch(unit) and isinstance(rows, list) and rows:
            frame = pl.DataFrame(rows, schema=_FACT, strict=False)
            frames.append(
                frame.select(
                    pl.lit(company.ticker).alias("entity"),
                    pl.lit(company.cik, pl.Int64).alias("cik"),
                    pl.lit(concept).alias("concept"),
                    pl.lit(unit).alias("unit"),
                    *_FACT,
                )
            )
    return frames


def _complete() -> pl.Expr:
    """A fact needs a value, an end, an accession, and the day it was filed."""
    day = r"^\d{4}-\d{2}-\d{2}$"
    return (
        pl.col("val").is_not_null()
        & pl.col("end").str.contains(day).fill_null(value=False)
        & pl.col("filed").str.contains(day).fill_null(value=False)
        & pl.col("accn").str.contains(r"^\d{10}-\d{2}-\d{6}$").fill_null(value=False)
    )


def _rejects(bad: pl.DataFrame, name: str) -> list[Reject]:
    return [
        Reject(
            "market.financials", "fact_incomplete", "value, end, filed or accn is missing or not readable", str(r), name
        )
        for r in bad.iter_rows(named=True)
    ]


SOURCE = CompanyFacts()
