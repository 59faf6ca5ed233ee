"""Company facts: real files against the truth, wrong files against their message, the live fetch against a replay."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import polars as pl
import pytest

from assets.filings import FINANCIALS, derive
from filings.factory import PPE, document, fact, payload
from sources.base import FetchError, ParseError, Response
from sources.http_errors import StatusError
from sources.sec.companies import COMPANIES
from sources.sec.companyfacts import RAW_TABLE, SOURCE

KEY = ["entity", "metric", "definition_version", "fiscal_period", "known_at"]


def landed(shared: Path, pattern: str = "*.json") -> pl.DataFrame:
    files = sorted((shared / "data/filings/companyfacts").glob(pattern))
    frames = [derive(SOURCE.parse(p).frames)[FINANCIALS] for p in SOURCE.read(files, {})]
    return pl.concat(frames)


def latest(rows: pl.DataFrame, metric: str, known_on: dt.datetime | None = None) -> pl.DataFrame:
    rows = rows.filter(pl.col("metric") == metric)
    if known_on:
        rows = rows.filter(pl.col("known_at") <= known_on)
    return rows.sort("known_at").unique(["entity", "fiscal_period"], keep="last")


@pytest.mark.parametrize(("entity", "quarters"), [("MSFT", 14), ("GOOGL", 14), ("AMZN", 4)])
def test_quarterly_capex_equals_the_truth(shared, entity, quarters):
    truth = pl.read_csv(shared / "facts/capex_actuals.csv").filter(
        pl.col("entity") == entity, pl.col("metric") == "capex_cash_ppe"
    )
    found = latest(landed(shared), "capex_cash_ppe").select("entity", "fiscal_period", "period_end", found="value_usd")
    both = truth.join(found, on=["entity", "fiscal_period"])
    assert both.height == quarters
    assert both["found"].to_list() == both["value_usd"].to_list()
    assert both["period_end_right"].cast(pl.String).to_list() == both["period_end"].to_list()


def test_amazons_file_holds_four_quarters(shared):
    found = latest(landed(shared, "*AMZN*"), "capex_cash_ppe").filter(pl.col("period_basis") == "quarter")
    assert sorted(found["fiscal_period"]) == ["FY25Q2", "FY25Q3", "FY25Q4", "FY26Q1"]


def test_both_vintages_of_a_restated_year_are_kept(shared):
    rows = landed(shared, "*GOOGL*07-09*").filter(
        pl.col("metric") == "capex_cash_ppe", pl.col("fiscal_period") == "FY15"
    )
    versions = rows.sort("known_at").unique("value_usd", keep="first", maintain_order=True)
    assert [(v / 1e6, f"{k:%Y-%m-%d}") for v, k in versions.select("value_usd", "known_at").iter_rows()] == [
        (9915, "2016-02-11"),
        (9950, "2017-02-03"),
    ]


def test_what_was_filed_later_was_not_known_before(shared):
    rows = landed(shared)
    seen = latest(rows, "capex_cash_ppe", dt.datetime(2026, 7, 15, tzinfo=dt.UTC)).filter(pl.col("entity") == "GOOGL")
    assert "FY26Q2" not in seen["fiscal_period"].to_list()
    assert "FY26Q1" in seen["fiscal_period"].to_list()
    now = latest(rows, "capex_cash_ppe").filter(pl.col("entity") == "GOOGL", pl.col("fiscal_period") == "FY26Q2")
    assert now["known_at"].to_list() == [dt.datetime(2026, 7, 23, tzinfo=dt.UTC)]


def test_two_snapshots_agree_wherever_they_overlap(shared):
    july = landed(shared, "*GOOGL*07-09*")
    august = landed(shared, "*GOOGL*08-06*")
    both = july.join(august, on=KEY, suffix="_august")
    assert both.height > 150
    assert both.filter(pl.col("value") != pl.col("value_august")).is_empty()
    series = [
        pl.concat(order).unique([*KEY, "value"]).sort(KEY).select(*KEY, "value")
        for order in ([july, august], [august, july])
    ]
    assert series[0].equals(series[1])


def test_nvidias_series_runs_through_the_change_of_concept(shared):
    found = latest(landed(shared, "*NVDA*"), "capex_cash_ppe").sort("period_end")
    concepts = dict(found.select("fiscal_period", "concept").iter_rows())
    assert concepts["FY20Q2"].endswith("PropertyPlantAndEquipment")
    assert concepts["FY21Q3"].endswith("ProductiveAssets")
    # 845 for nine months under the new concept less 372 for six under both.
    assert found.filter(pl.col("fiscal_period") == "FY21Q3")["value_usd"].to_list() == [473e6]


def test_revenue_of_the_fourth_quarter_is_the_year_less_nine_months(shared):
    found = latest(landed(shared, "*NVDA*"), "revenue")
    # 215,938 - 147,811
    assert found.filter(pl.col("fiscal_period") == "FY26Q4")["value_usd"].to_list() == [68_127e6]


def test_every_row_leads_to_its_filing(shared):
    row = (
        latest(landed(shared), "capex_cash_ppe")
        .filter(pl.col("entity") == "GOOGL", pl.col("fiscal_period") == "FY26Q2")
        .row(0, named=True)
    )
    assert row["accession"] == "0001652044-26-000071"
    assert row["source_url"] == "https://www.sec.gov/Archives/edgar/data/1652044/000165204426000071/"


@pytest.mark.parametrize(
    ("body", "name", "message"),
    [
        (b"  ", "a.json", "empty"),
        (b"<!DOCTYPE html><html>Not found</html>", "a.json", "HTML"),
        (b'{"cik": 1045810, "entityName": "NVID', "a.json", "breaks off"),
        (b"[1, 2]", "a.json", "JSON object"),
        (b"<html>Undeclared Automated Tool</html>", "a.json", "refusal page"),
        (b'{"entityName": "x", "facts": {"us-gaap": {}}}', "a.json", "no `cik`"),
        (b'{"cik": 320193, "entityName": "Apple Inc.", "facts": {}}', "a.json", "wrong company"),
        (b'{"cik": 1045810, "entityName": "NVIDIA CORP", "facts": {}}', "a.json", "no facts"),
    ],
)
def test_an_unreadable_document_says_what_it_is(body, name, message):
    with pytest.raises(ParseError, match=message):
        SOURCE.parse(payload(body, name))


def test_a_file_named_after_another_company_is_refused():
    body = document("NVDA", [fact(PPE, "2025-01-27", "2025-04-27", 1227, "2025-05-28")])
    with pytest.raises(ParseError, match=r"wrong company.*0000789019"):
        SOURCE.parse(payload(body, "CIK0000789019_MSFT.json"))


def test_a_cik_under_another_companys_name_is_refused():
    body = document("NVDA", [fact(PPE, "2025-01-27", "2025-04-27", 1227, "2025-05-28")])
    swapped = body.replace(b"NVIDIA CORP", b"MICROSOFT CORP")
    with pytest.raises(ParseError, match="wrong company"):
        SOURCE.parse(payload(swapped))


def test_a_fact_without_value_is_refused_and_the_rest_lands():
    good = fact(PPE, "2025-01-27", "2025-04-27", 1227, "2025-05-28")
    bad = (PPE, {**good[1], "val": None, "end": "2025-07-27"})
    parsed = SOURCE.parse(payload(document("NVDA", [good, bad])))
    assert parsed.frames[RAW_TABLE].height == 1
    assert [r.rule for r in parsed.rejects] == ["fact_incomplete"]


def test_a_company_that_uses_none_of_the_concepts_gives_no_rows():
    parsed = SOURCE.parse(payload(document("NVDA", [fact("Goodwill", None, "2025-04-27", 5, "2025-05-28")])))
    assert parsed.frames[RAW_TABLE].is_empty()
    assert derive(parsed.frames)[FINANCIALS].is_empty()


class FakeWeb:
    """Answers every company with one small document; `refuse_at` is the request EDGAR turns down."""

    def __init__(self, refuse_at: int = 0) -> None:
        self.asked: list[str] = []
        self.refuse_at = refuse_at

    def get(self, url, **_):
        self.asked.append(url)
        if len(self.asked) == self.refuse_at:
            raise StatusError("403, undeclared automated tool", 403)
        if "CIK0001513845" in url:
            raise StatusError("404, no such document", 404)
        if url.endswith("CIK0001045810.json"):
            return None
        return Response(url, 200, b"{}", "application/json", dt.datetime(2026, 11, 1, tzinfo=dt.UTC))


def test_fetch_asks_once_for_each_company_and_skips_what_is_unchanged_or_absent():
    web = FakeWeb()
    got = list(SOURCE.fetch(web))
    assert sum("/companyfacts/" in url for url in web.asked) == len(COMPANIES)
    assert len(got) == len(COMPANIES) - 2
    assert {p.stream for p in got} == {f"CIK{c.cik10}" for c in COMPANIES if c.ticker not in ("NVDA", "NBIS")}


def test_fetch_stops_at_the_first_refusal():
    web = FakeWeb(refuse_at=3)
    with pytest.raises(FetchError, match="403"):
        list(SOURCE.fetch(web))
    assert len(web.asked) == 3


def test_a_local_concept_file_is_read_and_is_a_stream_of_its_own(tmp_path):
    fact = {"start": "2026-01-01", "end": "2026-03-31", "val": 1, "accn": "0001652044-26-000001", "filed": "2026-04-30"}
    units = {"USD": [fact | {"form": "10-Q"}]}
    body = {"cik": 1652044, "taxonomy": "us-gaap", "tag": "Revenues", "entityName": "Alphabet Inc.", "units": units}
    (tmp_path / "concept.json").write_text(json.dumps(body))
    (one,) = SOURCE.read([tmp_path], {"observed_at": "2026-08-06T00:00:00Z"})
    assert one.stream == "CIK0001652044 us-gaap:Revenues"
    assert SOURCE.parse(one).frames[RAW_TABLE]["concept"].to_list() == ["us-gaap:Revenues"]


def test_the_stream_of_a_local_file_is_its_company(tmp_path):
    file = tmp_path / "facts.json"
    file.write_bytes(json.dumps({"cik": 1652044, "entityName": "Alphabet Inc.", "facts": {}}).encode())
    (one,) = SOURCE.read([tmp_path], {"observed_at": "2026-08-06T00:00:00Z"})
    assert (one.stream, one.url) == ("CIK0001652044", "file:facts.json")
    assert one.retrieved_at == dt.datetime(2026, 8, 6, tzinfo=dt.UTC)
