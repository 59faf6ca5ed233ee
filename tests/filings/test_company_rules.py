"""Rules of single companies on hand-written releases, figures from the reference facts."""

from __future__ import annotations

import pytest

from filings.release_factory import DATES, PLATFORMS, SUMMARY, TEXT, bundle, nvidia, table
from sources.base import ParseError
from sources.sec.figures import FINANCIALS, GUIDANCE
from sources.sec.release import SOURCE

AMD_TEXT = (
    "<div>SANTA CLARA, Calif.\u2014May 6, 2025\u2014 AMD (NASDAQ: AMD) today announced first quarter 2025 financial results. "
    "Revenue was $7.44 billion for the first quarter ended March 29, 2025.</div>"
    "<div>For the second quarter of 2025, AMD expects revenue to be approximately $7.4 billion, plus or minus $300 million.</div>"
)
AMD_INCOME = (
    (
        "",
        "Three Months Ended March 29, 2025",
        "Three Months Ended December 28, 2024",
        "Three Months Ended March 30, 2024",
    ),
    ("(In millions)",),
    ("Net revenue", "$7,438", "$7,658", "$5,473"),
    ("Cost of sales", "3,451", "3,524", "2,683"),
)
AMD_SEGMENTS = (
    (
        "",
        "Three Months Ended March 29, 2025",
        "Three Months Ended December 28, 2024",
        "Three Months Ended March 30, 2024",
    ),
    ("(In millions)",),
    ("Net Revenue:", "", "", ""),
    ("Data Center", "$3,674", "$3,859", "$2,337"),
    ("Client and Gaming", "2,941", "2,876", "2,290"),
    ("Embedded", "823", "923", "846"),
    ("Total net revenue", "$7,438", "$7,658", "$5,473"),
)
META_FLOW = (
    ("", "Three Months Ended March 31, 2025", "Three Months Ended March 31, 2024"),
    ("Cash flows from operating activities", "", ""),
    ("Net cash provided by operating activities", "24,026", "19,246"),
    ("Cash flows from investing activities", "", ""),
    ("Purchases of property and equipment", "(12,941)", "(6,400)"),
    ("Other investing activities", "(1,000)", "(500)"),
    ("Net cash used in investing activities", "(13,941)", "(6,900)"),
    ("Cash flows from financing activities", "", ""),
    ("Principal payments on finance leases", "(751)", "(315)"),
    ("Cash, cash equivalents, and restricted cash at beginning of the period", "45,438", "42,827"),
    ("Cash, cash equivalents, and restricted cash at end of the period", "30,000", "33,000"),
)
META_TEXT = (
    "<div>MENLO PARK, Calif. \u2013 April 30, 2025 \u2013 Meta Platforms, Inc. (Nasdaq: META) today reported results for the "
    "quarter ended March 31, 2025. Cash flow from operating activities was $24.03 billion.</div><div>(In millions)</div>"
)
COREWEAVE_FLOW = (
    ("(in thousands)", "Three Months Ended September 30, 2025", "Three Months Ended September 30, 2024"),
    ("Cash flows from investing activities", "", ""),
    (
        "Purchase of property and equipment, including capitalized internal-use software",
        "(3,278,786)",
        "(1,215,155)",
    ),
    ("Other investing activities", "(21,214)", "(4,845)"),
    ("Net cash used in investing activities", "(3,300,000)", "(1,220,000)"),
    ("Cash, cash equivalents and restricted cash at beginning of period", "1,800,000", "900,000"),
    ("Cash, cash equivalents and restricted cash at end of period", "2,000,000", "1,000,000"),
)
COREWEAVE_TEXT = (
    "<div>LIVINGSTON, N.J. \u2013 November 10, 2025 \u2013 CoreWeave, Inc. (Nasdaq: CRWV) today reported results for the third "
    "quarter ended September 30, 2025. Cash paid for property and equipment was $3.28 billion.</div>"
)


def read(*parts):
    parsed = SOURCE.parse(bundle([(f"{i}.htm", "EX-99.1", body) for i, body in enumerate(parts)]))
    rows = parsed.frames[FINANCIALS].iter_rows(named=True)
    return {(r["metric"], r["fiscal_period"]): r["value_usd"] for r in rows}, [r.reason for r in parsed.rejects]


def test_amd_segments_current_previous_year_ago():
    found, _ = read(AMD_TEXT + table(AMD_INCOME) + table(AMD_SEGMENTS))
    assert found["data_center_revenue", "FY25Q1"] == 3674e6
    assert found["data_center_revenue", "FY24Q4"] == 3859e6
    assert found["data_center_revenue", "FY24Q1"] == 2337e6
    assert found["client_and_gaming_revenue", "FY25Q1"] == 2941e6


def test_amd_guidance_with_an_absolute_tolerance():
    parsed = SOURCE.parse(bundle([("r.htm", "EX-99.1", AMD_TEXT + table(AMD_INCOME) + table(AMD_SEGMENTS))]))
    row = parsed.frames[GUIDANCE].row(0, named=True)
    assert (row["target_period"], row["low_usd"], row["high_usd"]) == ("FY25Q2", 7.1e9, 7.7e9)
    assert str(row["target_period_end"]) == "2025-06-28"


def test_amd_segments_without_another_table_are_refused():
    found, why = read(AMD_TEXT + table(AMD_SEGMENTS))
    assert not found
    assert "another table" in why[0]


def test_a_segment_nobody_knows_is_refused():
    rows = [("Robotics", *r[1:]) if r[0] == "Embedded" else r for r in AMD_SEGMENTS]
    found, why = read(AMD_TEXT + table(AMD_INCOME) + table(rows))
    assert not found
    assert "Robotics" in why[0]


def test_metas_own_capex_and_cash_purchases():
    found, why = read(META_TEXT + table(META_FLOW))
    assert not why
    assert found["capex_cash_ppe", "FY25Q1"] == 12_941e6
    assert found["capex_incl_finance_lease_principal", "FY25Q1"] == 13_692e6
    assert found["capex_incl_finance_lease_principal", "FY24Q1"] == 6_715e6


def test_an_investing_section_that_does_not_add_up_is_refused():
    rows = [("Other investing activities", "(2,000)", "(500)") if r[0].startswith("Other") else r for r in META_FLOW]
    found, why = read(META_TEXT + table(rows))
    assert not found
    assert "add up" in why[0]


def test_coreweave_reports_in_thousands():
    found, why = read(COREWEAVE_TEXT + table(COREWEAVE_FLOW))
    assert not why
    assert found == {("capex_cash_ppe", "FY25Q3"): 3_278_786e3, ("capex_cash_ppe", "FY24Q3"): 1_215_155e3}


def test_coreweave_in_millions_would_be_a_thousandfold_and_is_refused():
    rows = [("(in millions)", *COREWEAVE_FLOW[0][1:]), *COREWEAVE_FLOW[1:]]
    found, why = read(COREWEAVE_TEXT + table(rows))
    assert not found
    assert "confirmed" in why[0]


def test_broadcoms_ai_revenue_stands_in_prose():
    text = (
        "<div>PALO ALTO, Calif. \u2013 September 2, 2026 \u2013 Broadcom Inc. (Nasdaq: AVGO) today reported results for its third "
        "quarter of fiscal year 2026, ended August 2, 2026.</div>"
        "<div>Q3 AI revenue grew 220% year-over-year to $16.7 billion.</div>"
        "<div>We expect fourth quarter AI semiconductor revenue to be $21.7 billion.</div>"
    )
    found, why = read(text)
    assert not why
    assert found == {("ai_semiconductor_revenue", "FY26Q3"): 16.7e9}


REVENUE_TABLES = (
    (
        ("(in millions)", "Three Months Ended March 31, 2025", "Three Months Ended March 31, 2026"),
        ("Net product sales", "63,970", "71,304"),
        ("Total net sales", "155,667", "181,519"),
    ),
    (("(in millions)", "Q4 2025", "Q1 2026"), ("Worldwide (WW) net sales", "$213,386", "$181,519")),
)
AMAZON_TEXT = (
    "<div>SEATTLE\u2014(BUSINESS WIRE) April 29, 2026\u2014Amazon.com, Inc. (NASDAQ: AMZN) today announced results for its first "
    "quarter ended March 31, 2026. Net sales increased 17% to $181.5 billion in the first quarter.</div>"
)


def test_total_revenue_needs_two_tables_that_agree():
    found, _ = read(AMAZON_TEXT + table(REVENUE_TABLES[0]) + table(REVENUE_TABLES[1]))
    assert found == {("revenue", "FY26Q1"): 181_519e6}
    found, _ = read(AMAZON_TEXT + table(REVENUE_TABLES[0]))
    assert not found


def test_total_revenue_on_which_tables_differ_is_not_taken():
    other = (REVENUE_TABLES[1][0], ("Worldwide (WW) net sales", "$181,519", "$213,386"))
    found, _ = read(AMAZON_TEXT + table(REVENUE_TABLES[0]) + table(other))
    assert not found


def test_nvidia_comparatives_need_a_second_table():
    parts = [("pr.htm", "EX-99.1", TEXT), ("cfo.htm", "EX-99.2", table(PLATFORMS) + table(DATES))]
    rows = SOURCE.parse(bundle(parts)).frames[FINANCIALS]
    assert set(rows["fiscal_period"]) == {"FY26Q3"}
    with_summary = [parts[0], ("cfo.htm", "EX-99.2", table(SUMMARY) + table(PLATFORMS) + table(DATES))]
    assert set(SOURCE.parse(bundle(with_summary)).frames[FINANCIALS]["fiscal_period"]) == {"FY26Q3", "FY26Q2", "FY25Q3"}


def test_a_new_platform_row_is_refused_until_somebody_looks():
    rows = [*PLATFORMS[:-1], ("Robotics", "100", "90", "80", "11 %", "25 %"), PLATFORMS[-1]]
    parsed = SOURCE.parse(nvidia(rows))
    assert parsed.frames[FINANCIALS].is_empty()
    assert "Robotics" in parsed.rejects[0].reason


def test_acceptance_time_accession_and_form_come_from_edgar():
    parts = [("pr.htm", "EX-99.1", TEXT), ("cfo.htm", "EX-99.2", table(PLATFORMS) + table(DATES))]
    meta = {
        "cik": "1045810",
        "accession": "0001045810-25-000228",
        "form": "8-K/A",
        "accepted": "2025-11-19T21:17:04.000Z",
    }
    row = SOURCE.parse(bundle(parts, meta)).frames[FINANCIALS].row(0, named=True)
    assert f"{row['known_at']:%Y-%m-%dT%H:%M:%S}" == "2025-11-19T21:17:04"
    assert (row["known_at_precision"], row["form"]) == ("second", "8-K/A")
    assert row["source_url"] == "https://www.sec.gov/Archives/edgar/data/1045810/000104581025000228/cfo.htm"


def test_a_pre_announcement_is_kept_as_what_it_is():
    text = TEXT.replace("Announces Financial Results", "Announces Preliminary Financial Results")
    rows = SOURCE.parse(nvidia(text=text)).frames[FINANCIALS]
    assert set(rows["notes"]) == {"preliminary, announced before the results"}
    assert set(SOURCE.parse(nvidia()).frames[FINANCIALS]["notes"]) == {None}


def test_a_filing_without_any_day_is_known_when_it_was_retrieved():
    undated = TEXT.replace("Nov. 19, 2025\u2014", "")
    row = SOURCE.parse(nvidia(text=undated)).frames[FINANCIALS].row(0, named=True)
    assert (f"{row['known_at']:%Y-%m-%d}", row["known_at_precision"]) == ("2026-11-01", "retrieved")


def test_a_release_of_a_company_nobody_watches_is_an_error():
    text = "<div>CUPERTINO, Calif. Apple Inc. (NASDAQ: AAPL) today reported results. Intel Corporation is a supplier.</div>"
    with pytest.raises(ParseError, match="wrong company: AAPL"):
        read(text)
    with pytest.raises(ParseError, match="cannot tell"):
        read("<div>A page about nothing, with meta data and intel inside.</div>")
