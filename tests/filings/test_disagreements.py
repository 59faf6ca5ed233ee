"""`mart.financial_disagreements`: a curated figure that differs from the filing is shown, rounding is not."""

from __future__ import annotations

from filings.marts import EMPTY_GUIDANCE, financial, frame, published


def found(curated_millions, precision=1e6):
    same = {"entity": "GOOGL", "fiscal_period": "FY26Q1", "period_end": "2026-03-31"}
    rows = [
        financial(millions=35674, known_at="2026-04-30", **same),
        financial(millions=curated_millions, known_at="2026-05-10", source="curated", precision_usd=precision, **same),
    ]
    con = published(financials=frame(rows), guidance=EMPTY_GUIDANCE, names=("financial_disagreements",))
    return con.execute("select preferred_value, value, source from mart.financial_disagreements").fetchall()


def test_a_figure_that_differs_is_shown_beside_the_preferred_one():
    assert found(35600) == [(35674e6, 35600e6, "curated")]


def test_an_equal_figure_is_no_disagreement():
    assert found(35674) == []


def test_rounding_is_no_disagreement():
    assert found(35700, precision=1e8) == []
    assert found(35800, precision=1e8) != []
