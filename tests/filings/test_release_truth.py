"""Real releases and reports against the truth: every figure and statement whose document is at hand."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from sources.sec.figures import FINANCIALS, GUIDANCE
from sources.sec.ixbrl import SOURCE as IXBRL
from sources.sec.release import SOURCE as RELEASE

KEY = ["entity", "metric", "fiscal_period"]
# Quarters whose CFO commentary is held; each shows its own quarter, the one before, the one a year before.
NVIDIA_SHOWN = {
    "FY24Q1", "FY23Q4", "FY23Q1", "FY24Q4", "FY24Q3", "FY25Q3", "FY25Q2", "FY25Q4", "FY26Q3", "FY26Q2",
    "FY26Q4", "FY27Q1", "FY26Q1",
}  # fmt: skip


def frames(source, folder: Path, table: str) -> pl.DataFrame:
    return pl.concat([source.parse(p).frames[table] for p in source.read([folder], {})])


@pytest.fixture(scope="module")
def folder() -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared"
    if not (beside / "README.md").exists():
        pytest.skip("../shared (real payloads and reference facts) is not beside this checkout")
    return beside


@pytest.fixture(scope="module")
def figures(folder) -> pl.DataFrame:
    return frames(RELEASE, folder / "data/filings/press_release", FINANCIALS)


@pytest.fixture(scope="module")
def statements(folder) -> pl.DataFrame:
    return frames(RELEASE, folder / "data/filings/press_release", GUIDANCE)


@pytest.fixture(scope="module")
def tagged(folder) -> pl.DataFrame:
    return frames(IXBRL, folder / "data/filings/ixbrl", FINANCIALS)


def truth(folder: Path, name: str) -> pl.DataFrame:
    rows = pl.read_csv(folder / f"facts/{name}.csv")
    return rows.with_columns(pl.col("metric").replace({"total_revenue": "revenue"}))


def assert_equal(both: pl.DataFrame) -> None:
    wrong = both.filter(pl.col("value_usd").cast(pl.Float64) != pl.col("value_usd_read"))
    assert wrong.is_empty(), wrong.select(*KEY, "value_usd", "value_usd_read")
    assert both.filter(pl.col("period_end") != pl.col("period_end_read").cast(pl.String)).is_empty()


def test_every_nvidia_figure_shown_equals_the_truth(folder, figures):
    wanted = truth(folder, "nvda_datacenter").filter(pl.col("fiscal_period").is_in(NVIDIA_SHOWN))
    both = wanted.join(figures, on=KEY, how="left", suffix="_read")
    missing = both.filter(pl.col("value_usd_read").is_null()).select("metric", "fiscal_period").rows()
    # The documents that print the split of these two quarters are not held.
    assert set(missing) == {
        (f"data_center_{part}_revenue", quarter)
        for part in ("compute", "networking")
        for quarter in ("FY24Q1", "FY26Q1")
    }
    assert_equal(both.drop_nulls("value_usd_read"))


def test_nvidia_guidance_equals_the_truth(folder, statements):
    wanted = pl.read_csv(folder / "facts/nvda_guidance.csv")
    read = statements.filter(pl.col("entity") == "NVDA", pl.col("metric") == "revenue")
    both = wanted.join(
        read, left_on=["entity", "target_fiscal_period"], right_on=["entity", "target_period"], suffix="_r"
    )
    assert both.height == read.height == 7
    for end in ("low_usd", "mid_usd", "high_usd"):
        assert both[end].cast(pl.Float64).to_list() == both[f"{end}_r"].to_list()
    assert both["exact_sentence"].to_list() == both["evidence"].to_list()
    assert both["target_period_end"].to_list() == both["target_period_end_r"].cast(pl.String).to_list()
    assert both["given_with_results_of"].to_list() == both["given_with_period"].to_list()
    assert both["as_of_date"].to_list() == [f"{k:%Y-%m-%d}" for k in both["known_at"]]


@pytest.mark.parametrize("metric", ["capex_cash_ppe", "capex_net_of_proceeds"])
def test_amazon_gross_and_net_capex_equal_the_truth(folder, figures, metric):
    both = truth(folder, "capex_actuals").join(figures, on=KEY, suffix="_read").filter(pl.col("metric") == metric)
    assert sorted(both["fiscal_period"]) == ["FY24Q4", "FY25Q1", "FY25Q4", "FY26Q1"]
    assert_equal(both)


def test_amazons_plan_is_not_its_sales(statements):
    plan = statements.filter(pl.col("entity") == "AMZN", pl.col("target_period") == "FY26").row(0, named=True)
    assert (plan["metric"], plan["mid_usd"], plan["guidance_kind"]) == (
        "capex_company_definition",
        200e9,
        "approximately",
    )
    sales = statements.filter(pl.col("entity") == "AMZN", pl.col("metric") == "revenue").sort("target_period")
    assert sales.select("target_period", "low_usd", "high_usd").rows() == [
        ("FY26Q1", 173.5e9, 178.5e9),
        ("FY26Q2", 194e9, 199e9),
    ]


def test_micron_units_and_outlook_equal_the_truth(folder, figures, statements):
    rows = pl.read_csv(folder / "facts/other_points.csv").filter(
        pl.col("entity") == "MU", pl.col("metric").str.starts_with("revenue_bu")
    )
    period = pl.format("FY{}Q{}", pl.col("fiscal_period").str.slice(4, 2), pl.col("fiscal_period").str.slice(2, 1))
    both = rows.with_columns(fiscal_period=period).join(figures, on=KEY, suffix="_read")
    assert both.height == 12
    assert both["value"].cast(pl.Float64).to_list() == both["value_usd"].to_list()
    outlook = statements.filter(pl.col("entity") == "MU").sort("target_period")
    assert outlook.select("target_period", "low_usd", "mid_usd", "high_usd").rows() == [
        ("FY26Q1", 12.2e9, 12.5e9, 12.8e9),
        ("FY26Q3", 32.75e9, 33.5e9, 34.25e9),
    ]


def test_supply_commitments_by_wording(figures):
    rows = figures.filter(pl.col("metric") == "supply_commitments").sort("period_end")
    newer = rows.filter(pl.col("definition_version") == "1").select("fiscal_period", "value_usd").rows()
    assert newer == [("FY26Q3", 50.3e9), ("FY26Q4", 95.2e9), ("FY27Q1", 119.0e9)]
    older = rows.filter(pl.col("definition_version") != "1").select("fiscal_period", "value_usd").rows()
    assert older == [("FY24Q1", 7.27e9), ("FY24Q4", 16.1e9), ("FY25Q3", 28.9e9), ("FY25Q4", 30.8e9)]


def test_amd_segments_by_printed_label_equal_the_truth(folder, tagged):
    both = truth(folder, "amd_datacenter").join(tagged, on=KEY, suffix="_read")
    assert sorted(both["fiscal_period"]) == ["FY22Q1", "FY22Q2", "FY23Q1", "FY23Q2"]
    assert_equal(both)


def test_nvidias_tagged_platforms_equal_the_truth(folder, tagged):
    both = truth(folder, "nvda_datacenter").join(tagged, on=KEY, suffix="_read")
    assert both.height == 16
    assert_equal(both)


def test_reports_are_known_on_the_day_they_were_signed(tagged):
    days = tagged.group_by("entity").agg(pl.col("known_at").unique().sort()).sort("entity")
    assert {e: [f"{d:%Y-%m-%d}" for d in known] for e, known in days.iter_rows()} == {
        "AMD": ["2023-08-02"],
        "AMZN": ["2026-04-29"],
        "NVDA": ["2025-11-19", "2026-05-20"],
    }


def test_amazons_commitments_each_under_its_own_metric(tagged):
    rows = tagged.filter(pl.col("entity") == "AMZN").select("metric", "value_usd").rows()
    assert dict(rows) == {
        "leases_not_yet_commenced": 106_347e6,
        "unrecorded_purchase_obligation": 103_768e6,
        "other_commitment": 18_813e6,
        "remaining_performance_obligation": 364e9,
        "finance_lease_liability": 13_325e6,
        "finance_lease_additions": 1_565e6,
        "finance_lease_principal_payments": 468e6,
    }


def test_nvidias_leases_to_commence_stand_in_prose(tagged):
    rows = tagged.filter(pl.col("entity") == "NVDA", pl.col("metric") == "leases_not_yet_commenced")
    assert dict(rows.select("fiscal_period", "value_usd").rows()) == {"FY26Q3": 7.5e9, "FY27Q1": 32.4e9}


def test_figures_lead_to_their_exhibit(figures):
    row = figures.filter(pl.col("metric") == "data_center_revenue", pl.col("fiscal_period") == "FY27Q1").row(
        0, named=True
    )
    assert row["source_name"] == "NVDA 8-K EX-99.2 q1fy27cfocommentary.htm"
    assert "CIK=0001045810" in row["source_url"]
    assert row["known_at"] == dt.datetime(2026, 5, 20, tzinfo=dt.UTC)
