"""Company-facts documents written by hand: the shape of EDGAR, figures chosen by each test."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable

import polars as pl

from assets.filings import FINANCIALS, derive
from sources.base import Payload
from sources.sec.companies import BY_TICKER
from sources.sec.companyfacts import SOURCE

NAMES = {
    "NVDA": "NVIDIA CORP",
    "META": "Meta Platforms, Inc.",
    "ORCL": "ORACLE CORP",
    "MU": "MICRON TECHNOLOGY INC",
    "AMZN": "AMAZON COM INC",
    "AVGO": "Broadcom Inc.",
    "AMD": "ADVANCED MICRO DEVICES INC",
}
PPE = "PaymentsToAcquirePropertyPlantAndEquipment"
PRODUCTIVE = "PaymentsToAcquireProductiveAssets"
RFC = "RevenueFromContractWithCustomerExcludingAssessedTax"


def fact(concept, start, end, millions, filed, *, form="10-Q", accn=None, fy=None, fp=None):
    """(concept, fact) with a made-up accession per filing day and form unless one is given."""
    number = dt.date.fromisoformat(filed).strftime("%m%d") + ("01" if form.endswith("/A") else "00")
    body = {
        "end": end,
        "val": round(millions * 1_000_000),
        "accn": accn or f"0000000001-{filed[2:4]}-{number}",
        "fy": fy,
        "fp": fp,
        "form": form,
        "filed": filed,
    }
    return concept, ({"start": start} if start else {}) | body


def document(ticker: str, facts: Iterable[tuple[str, dict]], unit: str = "USD", taxonomy: str = "us-gaap") -> bytes:
    concepts: dict[str, dict] = {}
    for concept, one in facts:
        entry = concepts.setdefault(concept, {"label": concept, "description": "", "units": {unit: []}})
        entry["units"][unit].append(one)
    return json.dumps(
        {"cik": BY_TICKER[ticker].cik, "entityName": NAMES[ticker], "facts": {taxonomy: concepts}}
    ).encode()


def payload(body: bytes, name: str = "facts.json") -> Payload:
    return Payload(
        source="sec-companyfacts",
        url=f"file:{name}",
        retrieved_at=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
        media_type="application/json",
        body=body,
    )


def rows(ticker: str, facts: Iterable[tuple[str, dict]], metric: str = "capex_cash_ppe", **shape: str) -> pl.DataFrame:
    """Rows of `market.financials` of one metric, oldest vintage first."""
    frames = derive(SOURCE.parse(payload(document(ticker, facts, **shape))).frames)
    return frames[FINANCIALS].filter(pl.col("metric") == metric).sort("period_end", "fiscal_period", "known_at")


def values(frame: pl.DataFrame) -> list[tuple[str, float, str]]:
    """(period, millions, day known) of each row."""
    return [
        (r["fiscal_period"], r["value_usd"] / 1e6, f"{r['known_at']:%Y-%m-%d}") for r in frame.iter_rows(named=True)
    ]
