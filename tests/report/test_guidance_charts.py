"""Charts of guidance: what is joined by a line, what has no place on the axis, what is said of an open range."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

from warehouse.report.guidance_charts import revenue_band, revisions

VIEW = SimpleNamespace(lang="en", say=lambda en, _: en)


def statement(metric, low, high, day, period="FY26"):
    known = dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC)
    row = {"entity": "AMZN", "metric": metric, "target_period": period, "known_at": known, "channel": "call"}
    ends = (low * 1e9, high * 1e9 if high else None)
    return row | {"low_usd": ends[0], "mid_usd": None, "high_usd": ends[1]}


def layers(chart):
    return chart.to_dict()["layer"]


def test_a_line_joins_statements_of_one_definition_only():
    rows = [
        statement("capex_company_definition", 200, 200, "2026-02-05"),
        statement("capex_net_of_proceeds", 220, 220, "2026-07-30"),
    ]
    line, _, _, names = layers(revisions(VIEW, rows))
    assert [d["field"] for d in line["encoding"]["detail"]] == ["k", "q"]
    assert {v["q"] for v in line["data"]["values"]} == {"capex_company_definition", "capex_net_of_proceeds"}
    assert len(names["data"]["values"]) == 2


def test_an_open_range_is_said_to_be_one():
    line, *_ = layers(revisions(VIEW, [statement("capex_cash_ppe", 25, None, "2025-06-11")]))
    (value,) = line["data"]["values"]
    assert (value["lo"], value["hi"], value["g"][:8]) == (25.0, 25.0, "at least")


def test_the_band_covers_a_quarter_not_reported_yet_and_the_lines_do_not():
    def quarter(period, end, value):
        return {
            "fiscal_period": period,
            "target_period_end": end,
            "low_usd": 89e9,
            "high_usd": 93e9,
            "value_usd": value,
        }

    guided = [quarter("FY27Q2", dt.date(2026, 7, 26), 96e9), quarter("FY27Q3", dt.date(2026, 10, 25), None)]
    centre = [{"fiscal_period": "FY27Q2", "period_end": dt.date(2026, 7, 26), "value_usd": 89e9}]
    band, lines = layers(revenue_band(VIEW, [*guided, quarter("FY27Q4", None, None)], centre))
    assert [v["p"] for v in band["data"]["values"]] == ["FY27Q2", "FY27Q3"]
    assert [(v["p"], v["v"]) for v in lines["data"]["values"]] == [("FY27Q2", 96.0), ("FY27Q2", 89.0)]
