"""Earnings releases: EX-99.1 and EX-99.2 of 8-K filings with item 2.02.

Belongs here: the source, and which company's rules read a filing. Does not belong here: the rules (`rules_*.py`), the
grammar of guidance, finding filings (`submissions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, Payload, Web
from sources.local_files import local_files, observed_at
from sources.sec import rules_cashflow, rules_nvidia, rules_revenue, rules_segments
from sources.sec.bundles import MEDIA_TYPE, group_local, pack, unpack
from sources.sec.figures import FINANCIALS, GUIDANCE, Found, to_frame
from sources.sec.filing import Filing
from sources.sec.guidance_rows import GUIDANCE_SCHEMA, guidance_rows
from sources.sec.submissions import releases

RULES: dict[str, tuple[Callable[[Filing, Found], None], ...]] = {
    "NVDA": (rules_nvidia.read,),
    "AMD": (rules_segments.read_amd,),
    "MU": (rules_segments.read_micron, rules_revenue.read),
    "AVGO": (rules_segments.read_broadcom, rules_revenue.read),
    "AMZN": (rules_cashflow.read, rules_revenue.read),
    "META": (rules_cashflow.read, rules_revenue.read),
    "GOOGL": (rules_cashflow.read, rules_revenue.read),
    "MSFT": (rules_cashflow.read, rules_revenue.read),
    "CRWV": (rules_cashflow.read, rules_revenue.read),
}


class Release:
    """One payload a filing: a tar of its exhibits with accession number and acceptance time."""

    name = "sec-release"
    publisher = "U.S. Securities and Exchange Commission (exhibits by the companies)"
    homepage = "https://www.sec.gov/edgar/search/"
    licence = "public filings; figures are facts, texts stay with the companies"
    terms = "identify yourself with a contact address; at most 10 requests a second over all sec.gov hosts"
    cadence: Cadence = "daily"
    tables: tuple[str, ...] = (FINANCIALS, GUIDANCE)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 2
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Releases of the companies there are rules for, the newest filings of each."""
        yield from releases(web, self.name, tuple(RULES))

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local exhibits; those of one filing (`NVDA_q1fy27_EX-99.1…`, `…_EX-99.2…`) make one payload."""
        moment = observed_at(options)
        for group in group_local(list(local_files(paths, (".htm", ".html", ".txt")))):
            members = [(name.rpartition("/")[2], file.read_bytes()) for file, name in group]
            body = members[0][1] if len(members) == 1 else pack({}, members)
            media_type = "text/html" if len(members) == 1 else MEDIA_TYPE
            yield Payload(self.name, f"file:{group[0][1]}", moment, media_type, body, group[0][0].name.split("_")[0])

    def parse(self, payload: Payload) -> Parsed:
        """Rows of `market.financials` and `market.guidance`. Raises `ParseError`."""
        meta, exhibits = unpack(payload)
        filing = Filing(exhibits, meta, payload.retrieved_at)
        found = Found()
        for rule in RULES.get(filing.company.ticker, ()):
            rule(filing, found)
        guidance = guidance_rows(filing, found)
        financials = to_frame(filing, found.figures, found)
        return Parsed({FINANCIALS: financials, GUIDANCE: guidance_frame(guidance)}, tuple(found.rejects))


def guidance_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of `market.guidance` as a frame with its types."""
    return pl.DataFrame(list(rows), schema=GUIDANCE_SCHEMA)


SOURCE = Release()
