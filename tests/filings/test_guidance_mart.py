"""`mart.guidance_history`: revisions in order, actuals of the same metric only, what was known when."""

from __future__ import annotations

import pytest

from filings.marts import as_known, financial, frame, guidance, published

QUARTERS = {"FY25Q1": 13692, "FY25Q2": 17012, "FY25Q3": 19374, "FY25Q4": 22137}
CASH = {"FY25Q1": 12941, "FY25Q2": 16538, "FY25Q3": 18829, "FY25Q4": 21383}
ENDS = {"FY25Q1": "2025-03-31", "FY25Q2": "2025-06-30", "FY25Q3": "2025-09-30", "FY25Q4": "2025-12-31"}
KNOWN = {"FY25Q1": "2025-05-01", "FY25Q2": "2025-07-31", "FY25Q3": "2025-10-30", "FY25Q4": "2026-01-29"}
OWN = "capex_incl_finance_lease_principal"
# Meta's ranges for 2025, in billions.
RANGES = [("2025-01-29", 60, 65), ("2025-04-30", 64, 72), ("2025-07-30", 66, 72), ("2025-10-29", 70, 72)]


def build():
    rows = [
        financial(entity="META", metric=m, fiscal_period=p, period_end=ENDS[p], known_at=KNOWN[p], millions=v)
        for m, figures in ((OWN, QUARTERS), ("capex_cash_ppe", CASH))
        for p, v in figures.items()
    ]
    given = [
        guidance(
            entity="META", metric=OWN, target_period="FY25", low=low, mid=(low + high) / 2, high=high, known_at=day
        )
        for day, low, high in RANGES
    ]
    return published(financials=frame(rows), guidance=frame(given), names=("guidance_history",))


def at(con, when):
    return sorted(as_known(con, "guidance_history", when), key=lambda r: r["stated_known_at"])


def test_each_statement_shows_what_it_replaced():
    rows = at(build(), "2025-11-01")
    assert [(r["low_usd"] / 1e9, r["previous_low_usd"] and r["previous_low_usd"] / 1e9) for r in rows] == [
        (60, None),
        (64, 60),
        (66, 64),
        (70, 66),
    ]
    assert rows[1]["revision_ratio"] == pytest.approx(68 / 62.5 - 1)
    assert [r["is_newest_statement"] for r in rows] == [False, False, False, True]


def test_the_actual_is_the_like_for_like_one():
    """Cash purchases alone (69.7) would be below 70 to 72; with finance-lease principal it is 72.2."""
    last = at(build(), "2026-02-01")[-1]
    assert last["actual_usd"] == 72_215e6
    assert last["actual_position"] == "above"


def test_no_actual_before_the_year_is_complete():
    assert {r["actual_usd"] for r in at(build(), "2026-01-28")} == {None}


def test_a_day_before_the_last_revision():
    rows = at(build(), "2025-10-28")
    assert [r["high_usd"] / 1e9 for r in rows] == [65, 72, 72]
    assert rows[-1]["is_newest_statement"]
