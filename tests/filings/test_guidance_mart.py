"""`mart.guidance_history`: revisions in order, actuals of the same metric only, what was known when."""

from __future__ import annotations

import polars as pl
import pytest

from filings.marts import as_known, financial, frame, guidance, published
from sources.curated import SOURCE

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


WHOLE, NET = "capex_company_definition", "capex_net_of_proceeds"


def amazon(*more, figures=()):
    """Amazon for 2026: about 200 billion in the release of February, about 220 billion of cash on the call of July."""
    given = [
        guidance(entity="AMZN", metric=WHOLE, target_period="FY26", low=200, mid=200, high=200, known_at="2026-02-05"),
        guidance(entity="AMZN", metric=NET, target_period="FY26", low=220, mid=220, high=220, known_at="2026-07-30"),
        *more,
    ]
    return published(financials=frame([*figures, OTHER]), guidance=frame(given), names=("guidance_history",))


OTHER = financial(entity="META", fiscal_period="FY25Q1", period_end="2025-03-31", known_at="2025-05-01", millions=12941)
YEAR = financial(
    entity="AMZN", metric=WHOLE, fiscal_period="FY26", period_basis="year", period_end="2026-12-31",
    known_at="2027-02-04", millions=221000,
)  # fmt: skip


def standing(con, when):
    columns = ("metric", "mid_usd", "is_newest_statement", "is_newest_of_metric", "newest_metric")
    return [tuple(r[c] for c in columns) for r in at(con, when)]


def test_a_statement_in_other_words_replaces_the_one_before():
    con = amazon()
    assert standing(con, "2026-06-01") == [(WHOLE, 200e9, True, True, WHOLE)]
    assert standing(con, "2026-08-01") == [(WHOLE, 200e9, False, True, NET), (NET, 220e9, True, True, NET)]
    assert {r["subject"] for r in at(con, "2026-08-01")} == {"capex"}


def test_a_figure_does_not_make_an_old_statement_the_newest_again():
    last = standing(amazon(figures=[YEAR]), "2027-03-01")
    assert [(m, newest) for m, _, newest, *_ in last] == [(WHOLE, False), (NET, True)]


def test_two_definitions_given_on_one_day_are_both_the_newest():
    both = guidance(
        entity="AMZN", metric="capex_cash_ppe", target_period="FY26", low=225, mid=225, high=225, known_at="2026-07-30"
    )
    rows = standing(amazon(both), "2026-08-01")
    assert sorted((m, newest, named) for m, _, newest, _, named in rows) == [
        ("capex_cash_ppe", True, "capex_cash_ppe"),
        (WHOLE, False, NET),
        (NET, True, NET),
    ]


def test_what_is_said_of_a_part_replaces_nothing():
    part = guidance(
        entity="AMZN", metric="capex_ai_data_centers", target_period="FY26", low=90, mid=90, high=90,
        known_at="2026-08-05",
    )  # fmt: skip
    rows = {m: newest for m, _, newest, *_ in standing(amazon(part), "2026-09-01")}
    assert rows == {WHOLE: False, NET: True, "capex_ai_data_centers": True}


def test_the_shipped_facts_hold_one_current_figure_for_amazon_in_2026():
    (payload,) = [p for p in SOURCE.fetch(None) if p.stream == "market.guidance"]
    shipped = SOURCE.parse(payload).frames["market.guidance"].with_columns(source=pl.lit("curated"))
    con = published(financials=frame([OTHER]), guidance=shipped, names=("guidance_history",))
    current = con.execute(
        "select metric, mid_usd from mart.guidance_history where is_latest and is_newest_statement "
        "and entity = 'AMZN' and target_period = 'FY26'"
    ).fetchall()
    assert current == [(NET, 220e9)]
