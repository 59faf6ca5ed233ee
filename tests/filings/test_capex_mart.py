"""`mart.capex_quarterly`: comparisons, trailing year, guidance and what was known when."""

from __future__ import annotations

import pytest

from filings.marts import EMPTY_GUIDANCE, as_known, financial, frame, guidance, published

ENDS = {
    "FY24Q4": "2024-12-31",
    "FY25Q1": "2025-03-31",
    "FY25Q2": "2025-06-30",
    "FY25Q3": "2025-09-30",
    "FY25Q4": "2025-12-31",
    "FY26Q1": "2026-03-31",
}
KNOWN = {
    "FY24Q4": "2025-02-05",
    "FY25Q1": "2025-04-25",
    "FY25Q2": "2025-07-24",
    "FY25Q3": "2025-10-30",
    "FY25Q4": "2026-02-05",
    "FY26Q1": "2026-04-30",
}
ALPHABET = {"FY24Q4": 14276, "FY25Q1": 17197, "FY25Q2": 22446, "FY25Q3": 23953, "FY25Q4": 27851, "FY26Q1": 35674}


def quarters(**change):
    return [
        financial(entity="GOOGL", fiscal_period=p, period_end=ENDS[p], millions=v, known_at=KNOWN[p], **change)
        for p, v in ALPHABET.items()
    ]


def build(rows, given=None):
    return published(
        financials=frame(rows), guidance=frame(given) if given else EMPTY_GUIDANCE, names=("capex_quarterly",)
    )


def one(rows, period):
    (row,) = [r for r in rows if r["fiscal_period"] == period]
    return row


def test_changes_and_trailing_year():
    row = one(as_known(build(quarters()), "capex_quarterly", "2026-05-01"), "FY26Q1")
    assert row["ttm_usd"] == (22446 + 23953 + 27851 + 35674) * 1e6
    assert row["qoq_ratio"] == pytest.approx(35674 / 27851 - 1)
    assert row["yoy_ratio"] == pytest.approx(35674 / 17197 - 1)
    assert row["calendar_quarter"] == "CY2026Q1"


def test_a_missing_quarter_makes_no_comparison_across_the_gap():
    rows = [r for r in quarters() if r["fiscal_period"] != "FY25Q3"]
    found = as_known(build(rows), "capex_quarterly", "2026-05-01")
    assert one(found, "FY25Q4")["qoq_ratio"] is None
    assert one(found, "FY26Q1")["ttm_usd"] is None
    assert one(found, "FY26Q1")["yoy_ratio"] is None


def test_what_was_not_filed_is_not_there():
    con = build(quarters())
    assert "FY26Q1" not in {r["fiscal_period"] for r in as_known(con, "capex_quarterly", "2026-04-29")}
    assert "FY26Q1" in {r["fiscal_period"] for r in as_known(con, "capex_quarterly", "2026-04-30")}


def test_a_restatement_changes_comparisons_from_its_day_on():
    later = financial(
        entity="GOOGL", fiscal_period="FY25Q4", period_end="2025-12-31", millions=28000, known_at="2026-06-01"
    )
    con = build([*quarters(), later])
    before = one(as_known(con, "capex_quarterly", "2026-05-31"), "FY26Q1")
    after = one(as_known(con, "capex_quarterly", "2026-06-01"), "FY26Q1")
    assert before["previous_quarter_usd"] == 27851e6
    assert after["previous_quarter_usd"] == 28000e6
    assert after["value_known_at"] == before["value_known_at"]


def test_a_primary_figure_wins_over_a_later_curated_one():
    curated = financial(
        entity="GOOGL",
        fiscal_period="FY26Q1",
        period_end="2026-03-31",
        millions=35600,
        known_at="2026-05-10",
        source="curated",
    )
    row = one(as_known(build([*quarters(), curated]), "capex_quarterly", "2026-06-01"), "FY26Q1")
    assert (row["value_usd"], row["source"]) == (35674e6, "sec-companyfacts")


def test_the_guidance_in_force_and_what_it_replaced():
    given = [
        guidance(entity="GOOGL", target_period="FY26", low=175, high=185, known_at="2026-02-04"),
        guidance(entity="GOOGL", target_period="FY26", low=180, high=190, known_at="2026-04-29"),
        guidance(entity="GOOGL", target_period="FY26", low=195, high=205, known_at="2026-07-22"),
    ]
    con = build(quarters(), given)
    spring = one(as_known(con, "capex_quarterly", "2026-05-01"), "FY26Q1")
    assert (spring["guidance_low_usd"], spring["guidance_high_usd"]) == (180e9, 190e9)
    assert (spring["guidance_previous_low_usd"], spring["guidance_previous_high_usd"]) == (175e9, 185e9)
    summer = one(as_known(con, "capex_quarterly", "2026-08-01"), "FY26Q1")
    assert (summer["guidance_low_usd"], summer["guidance_high_usd"]) == (195e9, 205e9)


def test_a_transcription_of_the_same_statement_is_no_revision():
    given = [
        guidance(entity="GOOGL", target_period="FY26", low=175, high=185, known_at="2026-02-04"),
        guidance(entity="GOOGL", target_period="FY26", low=180, high=190, known_at="2026-04-29"),
        guidance(entity="GOOGL", target_period="FY26", low=180, high=190, known_at="2026-04-28", source="curated"),
    ]
    row = one(as_known(build(quarters(), given), "capex_quarterly", "2026-05-01"), "FY26Q1")
    assert (row["guidance_low_usd"], row["guidance_previous_low_usd"]) == (180e9, 175e9)


def test_guidance_of_another_definition_is_not_shown():
    given = [
        guidance(
            entity="GOOGL",
            metric="capex_company_definition",
            target_period="FY26",
            low=175,
            high=185,
            known_at="2026-02-04",
        )
    ]
    assert (
        one(as_known(build(quarters(), given), "capex_quarterly", "2026-05-01"), "FY26Q1")["guidance_low_usd"] is None
    )


def test_calendar_quarters_of_offset_years():
    rows = [
        financial(entity="NVDA", fiscal_period="FY27Q1", period_end="2026-04-26", millions=1757, known_at="2026-05-20"),
        financial(entity="NVDA", fiscal_period="FY26Q4", period_end="2026-01-25", millions=1284, known_at="2026-02-25"),
        financial(
            entity="ORCL", fiscal_period="FY26Q4", period_end="2026-05-31", millions=16493, known_at="2026-06-22"
        ),
    ]
    found = as_known(build(rows), "capex_quarterly", "2026-07-01")
    places = {(r["entity"], r["fiscal_period"]): r["calendar_quarter"] for r in found}
    assert places == {
        ("NVDA", "FY27Q1"): "CY2026Q1",
        ("NVDA", "FY26Q4"): "CY2025Q4",
        ("ORCL", "FY26Q4"): "CY2026Q2",
    }


def test_the_key_is_unique_and_one_row_is_latest():
    con = build(quarters())
    sql = """select count(*) = count(distinct (entity, metric, definition_version, fiscal_period, known_at)),
             sum(is_latest::int) = count(distinct (entity, metric, definition_version, fiscal_period))
             from mart.capex_quarterly"""
    assert con.execute(sql).fetchall()[0] == (True, True)
