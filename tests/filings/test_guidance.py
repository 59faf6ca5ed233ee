"""The grammar of guidance: what it reads, what it leaves to a person, and amounts to the dollar."""

from __future__ import annotations

import pytest

from sources.sec.companies import BY_TICKER
from sources.sec.guidance import read_guidance, sentences
from sources.sec.money import sums_in


def one(text, ticker="NVDA", own=(2027, 1)):
    stated, unread = read_guidance(text, BY_TICKER[ticker], own)
    assert len(stated) == 1, unread
    return stated[0]


def refused(text, ticker="NVDA", own=(2027, 1)):
    stated, unread = read_guidance(text, BY_TICKER[ticker], own)
    assert not stated
    return [u.reason for u in unread]


def bounds(s):
    return (s.target_period, s.amount.low / 1e6, s.amount.mid / 1e6, s.amount.high / 1e6)


@pytest.mark.parametrize(
    ("text", "low", "mid", "high"),
    [
        ("$4.40 billion, plus or minus 2 percent", 4_312_000_000, 4_400_000_000, 4_488_000_000),
        ("$91.0 billion, plus or minus 2%", 89_180_000_000, 91_000_000_000, 92_820_000_000),
        ("$33.5 billion \u00b1 $750 million", 32_750_000_000, 33_500_000_000, 34_250_000_000),
        ("approximately $7.4 billion, plus or minus $300 million", 7_100_000_000, 7_400_000_000, 7_700_000_000),
        ("between $194.0 billion and $199.0 billion", 194_000_000_000, 196_500_000_000, 199_000_000_000),
        ("$130-145 billion", 130_000_000_000, 137_500_000_000, 145_000_000_000),
        ("$70 [billion] to $72 billion", 70_000_000_000, 71_000_000_000, 72_000_000_000),
        ("$195 billion-$205 billion", 195_000_000_000, 200_000_000_000, 205_000_000_000),
        ("$30 million\u2013$50 million", 30_000_000, 40_000_000, 50_000_000),
        ("about $200 billion", 200_000_000_000, 200_000_000_000, 200_000_000_000),
        ("more than $25 billion", 25_000_000_000, None, None),
        ("up to $5 billion", None, None, 5_000_000_000),
    ],
)
def test_amounts(text, low, mid, high):
    (found,) = sums_in(text)
    assert (found.low, found.mid, found.high) == (low, mid, high)


def test_a_sum_without_scale_is_no_sum():
    assert sums_in("a dividend of $0.25 a share and $300") == []


def test_revenue_in_bullets_under_a_heading():
    text = (
        "NVIDIA\u2019s outlook for the second quarter of fiscal 2027 is as follows: \u2022 Revenue is expected to be $91.0 "
        "billion, plus or minus 2%. \u2022 GAAP gross margins are expected to be 74.9%, plus or minus 50 basis points."
    )
    found = one(text)
    assert bounds(found) == ("FY27Q2", 89_180, 91_000, 92_820)
    assert found.evidence == "Revenue is expected to be $91.0 billion, plus or minus 2%."


def test_revenue_in_one_sentence():
    text = "For the second quarter of 2025, AMD expects revenue to be approximately $7.4 billion, plus or minus $300 million."
    assert bounds(one(text, "AMD", (2025, 1))) == ("FY25Q2", 7_100, 7_400, 7_700)


def test_a_comparison_with_last_year_is_not_the_target():
    text = (
        "Second Quarter 2026 Guidance \u2022 Net sales are expected to be between $194.0 billion and $199.0 billion, or to "
        "grow between 16% and 19% compared with second quarter 2025."
    )
    assert bounds(one(text, "AMZN", (2026, 1))) == ("FY26Q2", 194_000, 196_500, 199_000)


def test_a_new_range_and_the_old_one_are_told_apart():
    text = (
        "We anticipate 2026 capital expenditures, including principal payments on finance leases, to be in the range of "
        "$130-145 billion, narrowed from our prior outlook of $125-145 billion. We expect total expenses in the range of "
        "$162-169 billion."
    )
    found = one(text, "META", (2026, 2))
    assert bounds(found) == ("FY26", 130_000, 137_500, 145_000)
    assert (found.prior.low, found.prior.high) == (125e9, 145e9)
    assert found.metric == "capex_incl_finance_lease_principal"
    assert found.confidence == "high"


def test_the_definition_is_the_companys_where_the_sentence_is_silent():
    text = "We expect our full year 2025 capital expenses will be in the range of $60 billion to $65 billion."
    found = one(text, "META", (2024, 4))
    assert (found.target_period, found.metric, found.confidence) == (
        "FY25",
        "capex_incl_finance_lease_principal",
        "medium",
    )


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("We now believe we will spend approximately $220 billion in cash CapEx in 2026.", "capex_net_of_proceeds"),
        (
            "We expect to invest about $200 billion in capital expenditures across Amazon in 2026.",
            "capex_company_definition",
        ),
    ],
)
def test_amazons_two_definitions(text, metric):
    assert one(text, "AMZN", (2025, 4)).metric == metric


def test_a_small_company_guides_in_millions():
    text = "Capital Expenditures for Q4 are expected to be in the range of $30 million-$50 million."
    assert bounds(one(text, "SMCI", (2026, 3))) == ("FY26Q4", 30, 40, 50)


def test_a_calendar_year_is_said():
    text = "We expect capital expenditures of approximately $175 billion in calendar year 2026."
    assert one(text, "MSFT", (2026, 4)).target_period == "CY2026"


def test_a_bare_year_of_a_company_with_another_fiscal_year_is_left_to_a_person():
    assert "fiscal or the calendar" in refused("We expect capital expenditures of $190 billion in 2026.", "MSFT")[0]


def test_without_a_period_nothing_is_guessed():
    text = "We expect CapEx to be $7 billion-$9 billion as we continue to bring capacity online."
    assert refused(text, "CRWV", (2026, 1)) == ["the sentence does not say which period it is about"]


def test_two_sums_in_one_sentence_are_left_to_a_person():
    text = "We expect 2026 capital expenditures of $30 billion and operating lease payments of $4 billion."
    assert refused(text, "CRWV", (2025, 4)) == ["more than one sum stands in the sentence"]


def test_a_part_of_revenue_is_not_the_total():
    text = "For the second quarter of fiscal 2027, Data Center revenue is expected to be $80.0 billion."
    assert refused(text) == ["a part of revenue, not the total, is guided"]


def test_broadcoms_ai_revenue_is_its_own_metric():
    text = "We expect fourth quarter AI semiconductor revenue to be $21.7 billion."
    found = one(text, "AVGO", (2026, 3))
    assert (found.metric, found.target_period, found.amount.mid) == ("ai_semiconductor_revenue", "FY26Q4", 21.7e9)


def test_what_was_spent_is_no_guidance():
    text = "Capital expenditures, including principal payments on finance leases, were $31.08 billion."
    assert read_guidance(text, BY_TICKER["META"], (2026, 2)) == ([], [])


def test_growth_without_a_sum_gives_nothing():
    text = "We now expect the FY26 capital expenditures growth rate to be higher than FY25."
    assert read_guidance(text, BY_TICKER["MSFT"], (2026, 1)) == ([], [])


def test_every_sentence_held_gives_its_range(shared):
    for line in (shared / "data/filings/text_excerpts/guidance_sentences.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        entity, _, target, low, high, _, sentence = line.split("|", 6)
        stated, _ = read_guidance(sentence, BY_TICKER[entity], {"SMCI": (2026, 3)}.get(entity))
        # Two of Microsoft's sentences name no sum, or not what it is about: nothing may come of them.
        if entity == "MSFT":
            assert stated == []
            continue
        ((period, found_low, found_high),) = [(s.target_period, s.amount.low, s.amount.high) for s in stated]
        assert (period, found_low, found_high) == (target.replace("FY20", "FY"), float(low), float(high))


def test_sentences_do_not_break_at_abbreviations():
    text = "Micron Technology, Inc. Announced results. \u2022 Revenue of $4.40 billion. Next."
    assert list(sentences(text)) == [
        "Micron Technology, Inc. Announced results.",
        "Revenue of $4.40 billion.",
        "Next.",
    ]
