"""`mart.financial_restatements`: a later document of one source that states a period differently is seen."""

from __future__ import annotations

from filings.marts import EMPTY_GUIDANCE, financial, frame, published


def stated(metric, millions, known_at, **more):
    return financial(
        entity="NVDA",
        metric=metric,
        fiscal_period="FY26Q2",
        period_end="2025-07-27",
        millions=millions,
        known_at=known_at,
        source="sec-release",
        **{"precision_usd": 1e6} | more,
    )


def found(*rows):
    con = published(financials=frame(list(rows)), guidance=EMPTY_GUIDANCE, names=("financial_restatements",))
    query = "select metric, earlier_value / 1e6, value / 1e6 from mart.financial_restatements order by metric"
    return con.execute(query).fetchall()


def test_labels_that_changed_places_show_in_the_next_release():
    """The August release has two rows swapped; November's comparative column has them right."""
    assert found(
        stated("automotive_revenue", 4287, "2025-08-27"),
        stated("gaming_revenue", 586, "2025-08-27"),
        stated("automotive_revenue", 586, "2025-11-19"),
        stated("gaming_revenue", 4287, "2025-11-19"),
    ) == [("automotive_revenue", 4287.0, 586.0), ("gaming_revenue", 586.0, 4287.0)]


def test_the_same_figure_and_rounding_are_no_restatement():
    assert found(stated("gaming_revenue", 4287, "2025-08-27"), stated("gaming_revenue", 4287, "2025-11-19")) == []
    rounded = stated("supply_commitments", 45800, "2025-11-19", precision_usd=1e8)
    assert found(stated("supply_commitments", 45790, "2025-08-27"), rounded) == []


def test_a_transcription_restates_nothing():
    rows = [stated("gaming_revenue", 4287, "2025-08-27"), stated("gaming_revenue", 4300, "2025-11-19")]
    assert found(*(r | {"source": "curated"} for r in rows)) == []
