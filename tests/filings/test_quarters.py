"""The traps of the fact API, each on the smallest facts that show it."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from filings.factory import PPE, PRODUCTIVE, RFC, fact, rows, values
from sources.sec.fiscal import fiscal_quarter, label


def meta_2023(*, nine_months_restated: bool = True):
    """Meta's cash capex of 2023 as first filed and as restated a year later (M USD)."""
    first = [
        fact(PPE, "2023-01-01", "2023-03-31", 6842, "2023-04-27"),
        fact(PPE, "2023-01-01", "2023-09-30", 19601, "2023-10-26"),
        fact(PPE, "2023-01-01", "2023-12-31", 27266, "2024-02-02", form="10-K"),
    ]
    later = [
        fact(PPE, "2023-01-01", "2023-03-31", 6823, "2024-04-25"),
        fact(PPE, "2024-01-01", "2024-03-31", 6400, "2024-04-25"),
        fact(PPE, "2023-01-01", "2023-06-30", 12957, "2024-08-01"),
        fact(PPE, "2024-01-01", "2024-06-30", 14573, "2024-08-01"),
        fact(PPE, "2023-01-01", "2023-09-30", 19453 if nine_months_restated else 19601, "2024-10-31"),
        fact(PPE, "2024-01-01", "2024-09-30", 22831, "2024-10-31"),
        fact(PPE, "2023-01-01", "2023-12-31", 27045, "2025-01-30", form="10-K"),
        fact(PPE, "2024-01-01", "2024-12-31", 37256, "2025-01-30", form="10-K"),
    ]
    return first + later


def of(frame, period):
    return [(v, day) for p, v, day in values(frame) if p == period]


def test_trap_1_a_period_filed_again_is_another_vintage_of_one_fact():
    one = ("2025-01-27", "2025-04-27", 1227)
    found = rows("NVDA", [fact(PRODUCTIVE, *one, "2025-05-28"), fact(PRODUCTIVE, *one, "2026-05-20")])
    assert of(found, "FY26Q1") == [(1227, "2025-05-28"), (1227, "2026-05-20")]


def test_trap_1_a_fact_listed_twice_in_one_filing_is_one_row():
    one = fact(PRODUCTIVE, "2025-01-27", "2025-04-27", 1227, "2025-05-28")
    assert rows("NVDA", [one, one]).height == 1


def test_trap_2_the_period_is_labelled_by_its_end_not_by_the_filings_year():
    shifted = [
        fact(PRODUCTIVE, "2025-01-27", "2025-04-27", 1227, "2025-05-28", fy=2026, fp="Q1"),
        fact(PRODUCTIVE, "2025-01-27", "2025-04-27", 1227, "2026-05-20", fy=2027, fp="Q1"),
        fact(PPE, "2020-01-27", "2020-04-26", 155, "2020-05-21", fy=2020, fp="Q1"),
        fact(PRODUCTIVE, "2020-01-27", "2020-04-26", 155, "2021-05-26", fy=2022, fp="Q1"),
    ]
    assert {p for p, _, _ in values(rows("NVDA", shifted))} == {"FY26Q1", "FY21Q1"}


def test_trap_3_a_restated_year_is_differenced_with_its_restated_nine_months():
    found = rows("META", meta_2023())
    # 27,266 - 19,601 first; 27,045 - 19,453 a year later; never 27,045 - 19,601 = 7,444.
    assert of(found, "FY23Q4") == [(7665, "2024-02-02"), (7592, "2025-01-30")]
    assert of(found, "FY23Q1") == [(6842, "2023-04-27"), (6823, "2024-04-25")]
    assert of(found, "FY23Q2") == [(12957 - 6823, "2024-08-01")]
    assert of(found, "FY23Q3") == [(19453 - 12957, "2024-10-31")]
    assert of(found, "FY23") == [(27266, "2024-02-02"), (27045, "2025-01-30")]


def test_trap_3_a_change_of_the_year_alone_is_not_put_on_the_fourth_quarter():
    found = rows("META", meta_2023(nine_months_restated=False))
    assert of(found, "FY23Q4") == [(7665, "2024-02-02")]


def test_trap_4_quarters_from_year_to_date_match_by_start():
    found = rows(
        "NVDA",
        [
            fact(PRODUCTIVE, "2025-01-27", "2025-04-27", 1227, "2025-05-28"),
            fact(PRODUCTIVE, "2025-01-27", "2025-07-27", 3122, "2025-08-27"),
            fact(PRODUCTIVE, "2025-01-27", "2025-10-26", 4758, "2025-11-19"),
            fact(PRODUCTIVE, "2025-01-27", "2026-01-25", 6042, "2026-02-25", form="10-K"),
        ],
    )
    quarters = [(p, v) for p, v, _ in values(found) if "Q" in p]
    assert quarters == [("FY26Q1", 1227), ("FY26Q2", 1895), ("FY26Q3", 1636), ("FY26Q4", 1284)]
    q4 = found.filter(pl.col("fiscal_period") == "FY26Q4").row(0, named=True)
    assert (q4["period_start"], q4["period_end"]) == (dt.date(2025, 10, 27), dt.date(2026, 1, 25))
    assert "less year to date to 2025-10-26" in q4["derivation"]


def test_trap_4_a_three_month_fact_is_preferred_and_a_disagreement_is_noted():
    # Alphabet 2016: the nine months were on a new basis, the half year not yet (7,134 - 4,551 = 2,583).
    found = rows(
        "META",
        [
            fact(PPE, "2016-01-01", "2016-06-30", 4551, "2016-08-04"),
            fact(PPE, "2016-01-01", "2016-09-30", 7134, "2016-11-03"),
            fact(PPE, "2016-07-01", "2016-09-30", 2554, "2016-11-03"),
        ],
    )
    row = found.filter(pl.col("fiscal_period") == "FY16Q3").row(0, named=True)
    assert row["value_usd"] == 2_554_000_000
    assert row["derivation"] is None
    assert "2583000000" in row["notes"]


def test_trap_4_a_missing_half_year_leaves_a_gap_not_a_guess():
    found = rows(
        "META",
        [
            fact(PPE, "2023-01-01", "2023-03-31", 6842, "2023-04-27"),
            fact(PPE, "2023-01-01", "2023-09-30", 19601, "2023-10-26"),
        ],
    )
    assert [p for p, _, _ in values(found)] == ["FY23Q1"]


def test_trap_5_a_trailing_year_is_no_fiscal_year():
    found = rows(
        "AMZN",
        [
            fact(PRODUCTIVE, "2024-07-01", "2025-06-30", 107656, "2025-08-01"),
            fact(PRODUCTIVE, "2025-01-01", "2025-06-30", 57202, "2025-08-01"),
            fact(PRODUCTIVE, "2025-04-01", "2025-06-30", 32183, "2025-08-01"),
            fact(PRODUCTIVE, "2025-01-01", "2025-12-31", 131819, "2026-02-06", form="10-K"),
        ],
    )
    assert [(p, v) for p, v, _ in values(found)] == [("FY25Q2", 32183), ("FY25", 131819)]


@pytest.mark.parametrize(
    ("end", "month", "expected"),
    [
        ((2026, 4, 26), 1, "FY27Q1"),  # NVIDIA, last Sunday of January
        ((2026, 1, 25), 1, "FY26Q4"),
        ((2022, 3, 26), 12, "FY22Q1"),  # AMD, last Saturday of December
        ((2022, 12, 31), 12, "FY22Q4"),
        ((2027, 1, 2), 12, "FY26Q4"),  # a year that spills into January
        ((2026, 9, 3), 8, "FY26Q4"),  # Micron, Thursday near 31 August
        ((2025, 11, 27), 8, "FY26Q1"),
        ((2026, 11, 1), 10, "FY26Q4"),  # Broadcom, Sunday near 31 October
        ((2026, 8, 2), 10, "FY26Q3"),
        ((2025, 2, 1), 1, "FY25Q4"),  # Marvell, Saturday near 31 January
    ],
)
def test_trap_6_years_of_52_and_53_weeks(end, month, expected):
    assert label(*fiscal_quarter(dt.date(*end), month)) == expected


def test_trap_6_a_quarter_of_fourteen_weeks_counts():
    # Micron's fourth quarter of FY26: 2026-05-29 to 2026-09-03, 98 days.
    found = rows("MU", [fact(RFC, "2026-05-29", "2026-09-03", 54230, "2026-09-24", form="10-K")], metric="revenue")
    assert values(found) == [("FY26Q4", 54230, "2026-09-24")]


def test_trap_7_fiscal_offsets():
    found = rows(
        "ORCL",
        [
            fact(PPE, "2025-06-01", "2025-08-31", 8502, "2025-09-10"),
            fact(PPE, "2025-06-01", "2025-11-30", 20535, "2025-12-11"),
        ],
    )
    assert [(p, v) for p, v, _ in values(found)] == [("FY26Q1", 8502), ("FY26Q2", 12033)]


def test_a_day_inside_a_quarter_is_no_quarter_end():
    with pytest.raises(ValueError, match="not the end of a quarter"):
        fiscal_quarter(dt.date(2026, 6, 14), 1)


def test_trap_8_the_frame_name_has_no_say():
    concept, one = fact(PRODUCTIVE, "2026-01-26", "2026-04-26", 1757, "2026-05-20")
    framed = rows("NVDA", [(concept, one | {"frame": "CY2026Q1"})])
    assert values(framed) == values(rows("NVDA", [(concept, one)])) == [("FY27Q1", 1757, "2026-05-20")]


def test_trap_9_a_concept_that_moved_continues_the_series():
    found = rows(
        "NVDA",
        [
            fact(PPE, "2019-01-28", "2019-10-27", 344, "2019-11-14"),
            fact(PPE, "2020-01-27", "2020-04-26", 155, "2020-05-21"),
            fact(PPE, "2020-01-27", "2020-07-26", 372, "2020-08-19"),
            fact(PRODUCTIVE, "2019-01-28", "2019-10-27", 344, "2020-11-18"),
            fact(PRODUCTIVE, "2020-01-27", "2020-10-25", 845, "2020-11-18"),
        ],
    )
    assert of(found, "FY21Q2") == [(217, "2020-08-19")]
    assert of(found, "FY21Q3") == [(473, "2020-11-18")]


def test_trap_9_a_concept_that_means_something_else_is_left_out():
    # Amazon 2016: 7,804 gross under the concept still in use; the other tag held the figure net of incentives.
    found = rows(
        "AMZN",
        [
            fact(PPE, "2015-01-01", "2015-12-31", 4589, "2016-01-29", form="10-K"),
            fact(PPE, "2016-01-01", "2016-12-31", 6737, "2017-02-10", form="10-K"),
            fact(PRODUCTIVE, "2016-01-01", "2016-12-31", 7804, "2019-02-01", form="10-K"),
            fact(PRODUCTIVE, "2025-01-01", "2025-12-31", 131819, "2026-02-06", form="10-K"),
        ],
    )
    assert [(p, v) for p, v, _ in values(found)] == [("FY16", 7804), ("FY25", 131819)]


def test_trap_10_metas_own_capex_is_a_metric_of_its_own():
    quarter = ("2025-01-01", "2025-03-31")
    facts = [
        fact(PPE, *quarter, 12941, "2025-05-01"),
        fact("FinanceLeasePrincipalPayments", *quarter, 751, "2025-05-01"),
    ]
    assert values(rows("META", facts)) == [("FY25Q1", 12941, "2025-05-01")]
    own = rows("META", facts, metric="capex_incl_finance_lease_principal")
    assert values(own) == [("FY25Q1", 13692, "2025-05-01")]
    assert "FinanceLeasePrincipalPayments" in own["definition"][0]


def test_trap_10_lease_principal_is_not_added_for_others():
    quarter = ("2025-06-01", "2025-08-31")
    facts = [
        fact(PPE, *quarter, 8502, "2025-09-10"),
        fact("FinanceLeasePrincipalPayments", *quarter, 100, "2025-09-10"),
    ]
    assert rows("ORCL", facts, metric="capex_incl_finance_lease_principal").is_empty()


def test_trap_11_payments_are_positive_dollars():
    row = rows("ORCL", [fact(PPE, "2025-06-01", "2025-08-31", 8502, "2025-09-10")]).row(0, named=True)
    assert (row["value"], row["value_usd"], row["currency"]) == (8_502_000_000, 8_502_000_000, "USD")


def test_trap_11_another_currency_is_never_dollars():
    facts = [fact("Revenue", "2025-01-01", "2025-12-31", 3_800_000, "2026-04-15", form="20-F")]
    row = rows("META", facts, metric="revenue", unit="TWD", taxonomy="ifrs-full").row(0, named=True)
    assert (row["value"], row["value_usd"], row["currency"]) == (3.8e12, None, "TWD")


def test_trap_12_an_amendment_keeps_its_form_and_the_original_stays():
    found = rows(
        "ORCL",
        [
            fact(PPE, "2025-06-01", "2025-08-31", 8502, "2025-09-10"),
            fact(PPE, "2025-06-01", "2025-08-31", 8500, "2025-09-20", form="10-Q/A"),
        ],
    )
    assert of(found, "FY26Q1") == [(8502, "2025-09-10"), (8500, "2025-09-20")]
    assert found["form"].to_list() == ["10-Q", "10-Q/A"]


def test_trap_12_an_amended_year_is_not_mixed_with_an_unamended_nine_months():
    found = rows(
        "ORCL",
        [
            fact(PPE, "2024-06-01", "2025-02-28", 12135, "2025-03-11"),
            fact(PPE, "2024-06-01", "2025-05-31", 21215, "2025-06-18", form="10-K"),
            fact(PPE, "2024-06-01", "2025-05-31", 21000, "2025-07-01", form="10-K/A"),
        ],
    )
    assert of(found, "FY25Q4") == [(9080, "2025-06-18")]
    assert of(found, "FY25") == [(21215, "2025-06-18"), (21000, "2025-07-01")]


def test_trap_13_an_undimensioned_total_says_so():
    facts = [fact("RevenueRemainingPerformanceObligation", None, "2026-06-30", 684000, "2026-07-29", form="10-K")]
    row = rows("AMZN", facts, metric="remaining_performance_obligation").row(0, named=True)
    assert row["period_basis"] == "instant"
    assert "undimensioned" in row["definition"]
    assert row["value_usd"] == 684_000_000_000


def test_a_lease_liability_in_two_parts_is_added_up_within_one_filing():
    parts = [
        fact("FinanceLeaseLiabilityCurrent", None, "2026-03-31", 1578, "2026-04-30"),
        fact("FinanceLeaseLiabilityNoncurrent", None, "2026-03-31", 11747, "2026-04-30"),
        fact("FinanceLeaseLiabilityCurrent", None, "2025-12-31", 1544, "2026-02-06", form="10-K"),
    ]
    found = rows("AMZN", parts, metric="finance_lease_liability")
    assert values(found) == [("FY26Q1", 13325.0, "2026-04-30")]
    assert "sum of the two concepts" in found["derivation"][0]
    total = fact("FinanceLeaseLiability", None, "2026-03-31", 13400, "2026-04-30")
    assert values(rows("AMZN", [*parts, total], metric="finance_lease_liability")) == [
        ("FY26Q1", 13400.0, "2026-04-30")
    ]


def test_a_difference_does_not_take_the_place_of_a_quarter_as_stated():
    # NVIDIA's 10-K for FY2018 gives the half year the figure of its second quarter: 2,230 less 1,937 is no quarter.
    found = rows(
        "NVDA",
        [
            fact(RFC, "2017-01-30", "2017-04-30", 1937, "2017-05-23"),
            fact(RFC, "2017-05-01", "2017-07-30", 2230, "2017-08-23"),
            fact(RFC, "2017-01-30", "2017-07-30", 4167, "2017-08-23"),
            fact(RFC, "2017-01-30", "2017-07-30", 2230, "2018-02-28", form="10-K"),
            fact(RFC, "2017-01-30", "2018-01-28", 9714, "2018-02-28", form="10-K"),
        ],
        metric="revenue",
    )
    assert of(found, "FY18Q2") == [(2230, "2017-08-23")]
