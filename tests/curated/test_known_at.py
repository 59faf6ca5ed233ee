"""When curated facts became public: never before what they tell of, as exactly as the sources allow, and counted."""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from warehouse.schema.declare import KNOWN_AT_PRECISIONS

Facts = Callable[[str], list[dict[str, str]]]

# Rows whose day of publication is not known. A number here may fall, never rise.
RETRIEVED = {
    "market.clusters": 12,
    "market.external_indices": 3,
    "market.financials": 1,
    "market.interruptions": 12,
    "market.supply_signals": 13,
    "ref.accelerator_aliases": 181,
    "ref.accelerators": 80,
    "ref.entities": 23,
    "ref.indicators": 16,
    "ref.systems": 41,
}
# The first day on which a row of a table can have been known.
EVENT_DAYS = {
    "market.events": "event_date",
    "market.external_indices": "period_start",
    "market.financials": "period_end",
    "market.gpu_offers": "observed_at",
    "market.guidance": "stated_at",
    "market.model_disclosures": "published_date",
    "market.policy_documents": "publication_date",
    "market.software_releases": "tagged_at",
}
BEGUN = ("operating", "ramping", "historic", "decommissioned")
COMPARATIVES = 24  # figures read in a later filing than their own: they may grow fewer
ROOT_OF_A_REPOSITORY = r"^https://github\.com/[^/]+/[^/]+/?$"


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def one(frame: pl.DataFrame, **where: object) -> dict[str, object]:
    found = frame.filter(*(pl.col(k) == v for k, v in where.items()))
    assert found.height == 1, (where, found.height)
    return found.row(0, named=True)


def known(frame: pl.DataFrame, **where: object) -> tuple[str, object]:
    row = one(frame, **where)
    return f"{row['known_at']:%Y-%m-%d}", row["known_at_precision"]


def test_every_row_says_how_exactly_it_is_dated(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        assert set(frame["known_at_precision"]) <= set(KNOWN_AT_PRECISIONS), table


def test_rows_without_a_day_of_publication_only_grow_fewer(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        count = frame.filter(pl.col("known_at_precision") == "retrieved").height
        assert count <= RETRIEVED.get(table, 0), table


def test_only_tagged_commits_may_be_known_later_than_they_say(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        earliest = frame.filter(pl.col("known_at_precision") == "earliest")
        assert earliest.is_empty() or table == "market.software_releases", table


def test_no_fact_is_known_before_its_own_day(curated: dict[str, pl.DataFrame]) -> None:
    for table, column in EVENT_DAYS.items():
        early = curated[table].filter(pl.col("known_at") < pl.col(column).cast(pl.Datetime("us", "UTC")))
        assert early.is_empty(), (table, early.rows(named=True)[:3])
    clusters = curated["market.clusters"].filter(pl.col("status").is_in(BEGUN))
    assert clusters.filter(pl.col("known_at").dt.date() < pl.col("status_date")).is_empty()


def test_a_month_is_known_by_its_last_day_and_a_year_by_its_last(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        moments = frame.filter(pl.col("known_at_precision") == "month")["known_at"]
        assert (moments == moments.dt.month_end().dt.truncate("1d")).all(), table
        years = frame.filter(pl.col("known_at_precision") == "year")["known_at"]
        assert (years.dt.strftime("%m-%d") == "12-31").all(), table


def test_no_paper_is_known_before_the_month_of_its_number(curated: dict[str, pl.DataFrame]) -> None:
    number = r"(?:arxiv\.org/(?:abs|pdf)/|arXiv:)(\d{4})\.\d{5}"
    compared = 0
    for table in ("market.model_disclosures", "market.interruptions", "market.clusters"):
        for row in curated[table].iter_rows(named=True):
            for yymm in re.findall(number, f"{row['source_name']} {row['source_url']}"):
                assert f"{row['known_at']:%y%m}" >= yymm, (table, row["source_url"])
                compared += 1
    assert compared > 130  # 97 runs, 60 interruptions and a few clusters name a paper, some of them twice


def test_no_page_is_known_before_the_day_in_its_link(curated: dict[str, pl.DataFrame]) -> None:
    dated = r"/(20\d\d)[/-](\d{1,2})[/-](\d{1,2})(?:/|$)"
    found = 0
    for table, frame in curated.items():
        for row in frame.filter(~pl.col("source_url").str.contains("web.archive.org")).iter_rows(named=True):
            # What was said on a call, or on a day that the notes name, may be linked through a later page.
            match = re.search(dated, row["source_url"] or "")
            if match and row.get("channel") != "call" and "stated on" not in (row["notes"] or ""):
                assert row["known_at"].date() >= dt.date(*map(int, match.groups())), (table, row["source_url"])
                found += 1
    assert found > 10


def test_no_filing_is_known_before_the_year_of_its_number(curated: dict[str, pl.DataFrame]) -> None:
    numbered = curated["market.financials"].filter(pl.col("accession").is_not_null())
    assert numbered.height > 180
    years = numbered["accession"].str.slice(11, 2).cast(pl.Int32) + 2000
    assert (numbered["known_at"].dt.year() >= years).all()
    late = numbered.filter(pl.col("known_at").dt.date() > pl.col("period_end").dt.offset_by("4mo"))
    assert late.height <= COMPARATIVES


def companyfacts(shared: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for path in sorted((shared / "data" / "filings" / "companyfacts").glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))["facts"]
        for statement in facts["us-gaap"].get("PaymentsToAcquirePropertyPlantAndEquipment", {"units": {"USD": []}})[
            "units"
        ]["USD"]:
            yield path.name.split("_")[1], statement


def test_a_capex_quarter_is_known_by_the_first_filing_that_completes_it(
    curated: dict[str, pl.DataFrame], shared: Path
) -> None:
    """A quarter needs the figure that ends with it: its first filing is the day, unless the figure was restated."""
    filed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for entity, said in companyfacts(shared):
        if said.get("form") in ("10-Q", "10-K"):
            filed.setdefault((entity, str(said["end"])), set()).add((str(said["filed"]), str(said["accn"])))
    rows = curated["market.financials"].filter(
        pl.col("entity").is_in(["GOOGL", "MSFT"]), pl.col("metric") == "capex_cash_ppe"
    )
    assert rows.height == 28
    for row in rows.iter_rows(named=True):
        first = min(filed[row["entity"], f"{row['period_end']}"])
        assert (f"{row['known_at']:%Y-%m-%d}", row["accession"]) == first, row["fiscal_period"]


def test_known_days_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """Read in the filings and facts: see the comments."""
    figures = curated["market.financials"]
    # The 10-Q of 24 July 2025 has 39,643 for the half year; 17,197 of the first quarter leave 22,446.
    alphabet = {"entity": "GOOGL", "metric": "capex_cash_ppe", "fiscal_period": "FY25Q2"}
    assert known(figures, **alphabet) == ("2025-07-24", "day")
    assert one(figures, **alphabet)["value_usd"] == 22_446_000_000
    # Meta restated 2023 in the reports of 2024: 6,842 became 6,823, and the year 27,266 became 27,045 in January 2025.
    meta = {"entity": "META", "metric": "capex_cash_ppe"}
    assert known(figures, fiscal_period="FY23Q1", **meta) == ("2024-04-25", "day")
    assert known(figures, fiscal_period="FY23Q4", **meta) == ("2025-01-30", "day")
    # Releases come a day before the quarterly report.
    assert known(figures, fiscal_period="FY26Q2", **meta) == ("2026-07-29", "day")
    assert known(figures, entity="AMZN", metric="capex_cash_ppe", fiscal_period="FY26Q2") == ("2026-07-30", "day")
    oracle = {"entity": "ORCL", "metric": "capex_cash_ppe"}
    assert known(figures, fiscal_period="FY26Q1", **oracle) == ("2025-09-10", "day")
    # A month is published in the next one, as the statements of 2024-06-07 on May and 2024-03-08 on February were.
    taiwan = figures.filter(pl.col("source_name") == "TSMC investor relations, monthly revenue")
    assert known(taiwan, fiscal_period="2024-02") == ("2024-03-31", "month")
    assert known(taiwan, fiscal_period="2026-08") == ("2026-09-13", "retrieved")
    # Links with a day in them.
    clusters = curated["market.clusters"]
    assert known(clusters, cluster_id="meta-genai-cluster-a-roce") == ("2024-03-12", "day")
    assert known(clusters, cluster_id="moore-threads-kuae-10k-s5000") == ("2026-04-27", "day")
    assert known(clusters, cluster_id="china-mobile-harbin") == ("2025-01-27", "day")
    rules = curated["market.policy_documents"]
    assert known(rules, document_id="2025-02655") == ("2025-02-14", "day")
    # In force from 10 July 2026, in print on the 14th.
    assert known(rules, document_id="2026-14132") == ("2026-07-14", "day")


def test_known_days_are_those_that_the_facts_give(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    dates = {r["model"]: r["date"] for r in facts("mfu_disclosures")}
    # One paper, one day: the interruptions and the utilisation of Llama 3 stand in the same report.
    llama = curated["market.interruptions"].filter(pl.col("study") == "Llama 3 405B pre-training")
    assert set(llama["known_at"]) == {day(dates["Llama 3.1 405B"])}
    # GPT-3 and Gopher are dated by their own papers, their utilisation by the one that computed it.
    runs = curated["market.model_disclosures"]
    for model in ("GPT-3 175B", "Gopher 280B", "PaLM 540B"):
        assert one(runs, model=model)["known_at"] == day(dates["PaLM 540B"]), model
    survey = {r["period"]: r["date"] for r in facts("supply_signals") if r["metric"] == "modal_rack_density"}
    averages = curated["market.supply_signals"].filter(pl.col("metric") == "average_pue")
    assert set(averages["known_at"]) == {day(survey["2025"])}


def test_clusters_of_a_compilation_stood_in_its_earlier_file(curated: dict[str, pl.DataFrame], shared: Path) -> None:
    with (shared / "data/signals/epoch/gpu_clusters__2025-11.csv").open(encoding="utf-8", newline="") as stream:
        held = {r["Name"].strip('"'): r for r in csv.DictReader(stream)}
    rows = curated["market.clusters"].filter(pl.col("source_name") == "Epoch AI GPU Clusters (CC BY 4.0)")
    early = rows.filter(pl.col("known_at") == day("2025-11-30"))
    assert (rows.height, early.height) == (66, 63)
    for row in early.iter_rows(named=True):
        then = held[row["cluster"]]
        assert row["accelerator_count"] == float(then["Chip quantity (primary)"] or then["Total number of AI chips"])
        assert row["power_mw"] == pytest.approx(
            float(then["Power Capacity (MW)"]) if then["Power Capacity (MW)"] else None
        )


def test_figures_and_guidance_lead_to_a_page(curated: dict[str, pl.DataFrame]) -> None:
    for table, unlinked in (("market.financials", 1), ("market.guidance", 0)):
        assert curated[table]["source_url"].null_count() <= unlinked, table
        assert curated[table].filter(pl.col("source_url").str.contains(ROOT_OF_A_REPOSITORY)).is_empty(), table
        assert curated[table].filter(pl.col("source_url").is_null() & pl.col("notes").is_null()).is_empty(), table
