"""`mart.vendor_datacenter_revenue`: guidance given before, surprise for the same metric only, what was known when."""

from __future__ import annotations

import pytest

from filings.marts import EMPTY_GUIDANCE, as_known, financial, frame, guidance, published

NVIDIA = {
    "FY26Q1": ("2025-04-27", "2025-05-28", 44062, 39112),
    "FY26Q2": ("2025-07-27", "2025-08-27", 46743, 41096),
    "FY26Q3": ("2025-10-26", "2025-11-19", 57006, 51215),
    "FY26Q4": ("2026-01-25", "2026-02-25", 68127, 62314),
    "FY27Q1": ("2026-04-26", "2026-05-20", 81615, 75246),
}
GIVEN = [
    guidance(
        entity="NVDA", metric="revenue", target_period="FY26Q4", low=63.7, mid=65, high=66.3, known_at="2025-11-19"
    ),
    guidance(
        entity="NVDA", metric="revenue", target_period="FY27Q1", low=76.44, mid=78, high=79.56, known_at="2026-02-25"
    ),
    guidance(
        entity="NVDA", metric="revenue", target_period="FY27Q2", low=89.18, mid=91, high=92.82, known_at="2026-05-20"
    ),
]


def rows():
    out = []
    for period, (end, known, total, centre) in NVIDIA.items():
        same = {
            "entity": "NVDA",
            "fiscal_period": period,
            "period_end": end,
            "known_at": known,
            "source": "sec-release",
        }
        out.append(financial(metric="revenue", millions=total, **same))
        out.append(financial(metric="data_center_revenue", millions=centre, **same))
    return out


def build(given=GIVEN, more=()):
    return published(
        financials=frame([*rows(), *more]),
        guidance=frame(given) if given else EMPTY_GUIDANCE,
        names=("vendor_datacenter_revenue",),
    )


def one(con, when, period, metric):
    found = as_known(con, "vendor_datacenter_revenue", when)
    (row,) = [r for r in found if r["fiscal_period"] == period and r["metric"] == metric]
    return row


def test_revenue_against_the_guidance_given_before():
    row = one(build(), "2026-06-01", "FY27Q1", "revenue")
    assert (row["guidance_low_usd"], row["guidance_mid_usd"], row["guidance_high_usd"]) == (76.44e9, 78e9, 79.56e9)
    assert row["surprise_ratio"] == pytest.approx(81.615 / 78 - 1)
    assert row["next_guidance_mid_usd"] == 91e9
    assert row["qoq_ratio"] == pytest.approx(81615 / 68127 - 1)
    assert row["yoy_ratio"] == pytest.approx(81615 / 44062 - 1)
    assert row["ttm_usd"] == (46743 + 57006 + 68127 + 81615) * 1e6


def test_the_data_centre_has_no_surprise_against_guidance_for_the_total():
    row = one(build(), "2026-06-01", "FY27Q1", "data_center_revenue")
    assert row["guidance_mid_usd"] is None
    assert row["surprise_ratio"] is None
    assert row["share_of_revenue_ratio"] == pytest.approx(75246 / 81615)


def test_guidance_that_came_after_the_figure_is_no_guidance():
    late = [
        guidance(
            entity="NVDA", metric="revenue", target_period="FY26Q4", low=60, mid=61, high=62, known_at="2026-03-01"
        )
    ]
    assert one(build(late), "2026-06-01", "FY26Q4", "revenue")["surprise_ratio"] is None


def test_on_an_earlier_day_later_figures_and_guidance_are_absent():
    con = build()
    row = one(con, "2026-03-01", "FY26Q4", "revenue")
    assert row["next_guidance_mid_usd"] == 78e9
    periods = {r["fiscal_period"] for r in as_known(con, "vendor_datacenter_revenue", "2026-03-01")}
    assert "FY27Q1" not in periods
    before = one(con, "2026-02-24", "FY26Q3", "revenue")
    assert before["next_guidance_mid_usd"] == 65e9


def test_a_figure_repeated_by_a_later_filing_was_known_before():
    again = financial(
        entity="NVDA", metric="data_center_revenue", fiscal_period="FY26Q3", period_end="2025-10-26", millions=51215,
        known_at="2026-11-18", source="sec-companyfacts",
    )  # fmt: skip
    row = one(build(more=[again]), "2026-12-01", "FY26Q3", "data_center_revenue")
    assert (row["source"], f"{row['value_known_at']:%Y-%m-%d}") == ("sec-release", "2025-11-19")


def test_versions_of_a_metric_are_separate_series():
    more = [
        financial(
            entity="NVDA",
            metric="data_center_hyperscale_revenue",
            definition_version="2",
            fiscal_period="FY27Q1",
            period_end="2026-04-26",
            known_at="2026-05-20",
            millions=37869,
            source="sec-release",
        )
    ]
    row = one(build(more=more), "2026-06-01", "FY27Q1", "data_center_hyperscale_revenue")
    assert (row["definition_version"], row["previous_quarter_usd"]) == ("2", None)


def test_the_key_is_unique():
    sql = """select count(*) = count(distinct (entity, metric, definition_version, fiscal_period, known_at))
             from mart.vendor_datacenter_revenue"""
    assert build().execute(sql).fetchall() == [(True,)]
