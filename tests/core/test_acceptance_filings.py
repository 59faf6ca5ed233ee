"""Company facts from real files, through the command line, against the truth tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.core.console import Console

AS_KNOWN = (
    "select fiscal_period from market.financials where entity = 'GOOGL' and metric = 'capex_cash_ppe' "
    "and period_basis = 'quarter' and source = 'sec-companyfacts' and known_at <= '{0}' "
    "and (superseded_at is null or superseded_at > '{0}')"
)


def answer(almanac: Console, home: Path, query: str) -> list[dict[str, object]]:
    said = almanac("sql", query, "--format", "json", "--home", home)
    assert said.code == 0, said.err
    found: list[dict[str, object]] = json.loads(said.out)
    return found


@pytest.mark.slow
def test_capex_equals_the_filings_and_time_travel_works(almanac: Console, home: Path, shared: Path) -> None:
    files = sorted((shared / "data/filings/companyfacts").glob("*.json"))
    assert almanac("load", "sec-companyfacts", *files, "--home", home).code == 0
    got = {
        (r["entity"], r["fiscal_period"]): r["value_usd"]
        for r in answer(
            almanac,
            home,
            "select entity, fiscal_period, value_usd from market.financials where metric = 'capex_cash_ppe' "
            "and period_basis = 'quarter' and source = 'sec-companyfacts' and is_latest",
        )
    }
    with (shared / "facts/capex_actuals.csv").open(encoding="utf-8") as file:
        truth = {
            (r["entity"], r["fiscal_period"]): float(r["value_usd"])
            for r in csv.DictReader(file)
            if r["metric"] == "capex_cash_ppe"
        }
    amazon = {"FY25Q2", "FY25Q3", "FY25Q4", "FY26Q1"}
    wanted = {k: v for k, v in truth.items() if k[0] in ("MSFT", "GOOGL") or (k[0] == "AMZN" and k[1] in amazon)}
    assert len(wanted) == 14 + 14 + 4
    assert {k: got.get(k) for k in wanted} == wanted
    vintages = answer(
        almanac,
        home,
        "select value_usd from market.financials where entity = 'GOOGL' and metric = 'capex_cash_ppe' "
        "and fiscal_period = 'FY15' and source = 'sec-companyfacts' order by known_at",
    )
    assert [v["value_usd"] for v in vintages] == [9_915_000_000, 9_950_000_000]
    before = {r["fiscal_period"] for r in answer(almanac, home, AS_KNOWN.format("2026-07-15"))}
    after = {r["fiscal_period"] for r in answer(almanac, home, AS_KNOWN.format("2026-07-23"))}
    assert after - before == {"FY26Q2"}
    preferred = answer(
        almanac,
        home,
        "select distinct source from market.financials where entity = 'MSFT' and metric = 'capex_cash_ppe' "
        "and period_basis = 'quarter' and is_preferred",
    )
    assert preferred == [{"source": "sec-companyfacts"}]
    meta = answer(
        almanac,
        home,
        "select count(*) as n, bool_and(source = 'curated') as marked from market.financials "
        "where entity in ('META', 'ORCL') and metric = 'capex_cash_ppe' and is_preferred",
    )
    assert meta == [{"n": 26, "marked": True}]
