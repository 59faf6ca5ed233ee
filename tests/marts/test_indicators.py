"""`mart.indicators` and `mart.indicator_readings` on rows written by hand."""

from __future__ import annotations

import polars as pl
import pytest

from marts.tables import at, database, mart, on
from sources.curated import columns as curated_columns


def indicator(feed: str | None, **given) -> dict:
    row = {"indicator_id": "X1", "indicator_group": "supply", "name_en": "thing", "name_zh": "东西", "unit": "USD"}
    return row | {"sources": "curated", "cadence": "quarterly", "feed": feed, "source": "curated"} | given


def headline(feed: str | None, gap: str | None = None, **tables) -> dict:
    con = database(ref__indicators=[indicator(feed, gap=gap)], **{f"market__{k}": v for k, v in tables.items()})
    (row,) = mart(con, "indicators")
    return row


def readings(feed: str, **tables) -> dict[str, dict]:
    con = database(ref__indicators=[indicator(feed)], **{f"market__{k}": v for k, v in tables.items()})
    return {row["feed"]: row for row in mart(con, "indicator_readings")}


def quarter(entity: str, period: str, end: str, value: float, **given) -> dict:
    row = {"entity": entity, "metric": "revenue", "definition_version": "1", "fiscal_period": period}
    row |= {"period_basis": "quarter", "period_end": on(end), "value": value, "value_usd": value, "currency": "USD"}
    return row | {"source": "curated", "source_url": f"https://example.org/{entity}/{period}", "unit": "USD"} | given


def test_newest_quarter_with_the_one_before_and_the_year_before():
    row = headline(
        "market.financials:revenue@ABC",
        financials=[
            quarter("ABC", "FY25Q1", "2025-03-31", 80.0),
            quarter("ABC", "FY25Q4", "2025-12-31", 100.0),
            quarter("ABC", "FY26Q1", "2026-03-31", 120.0, known_at=at("2026-05-01T20:00")),
            quarter("ABC", "FY26", "2026-12-31", 999.0, period_basis="year"),
            quarter("XYZ", "FY26Q2", "2026-06-30", 7.0),
        ],
    )
    assert (row["value"], row["period"], row["unit"], row["status"]) == (120.0, "FY26Q1", "USD", "ok")
    assert (row["previous_value"], row["previous_period"]) == (100.0, "FY25Q4")
    assert row["change_ratio"] == pytest.approx(0.2)
    assert row["year_change_ratio"] == pytest.approx(0.5)
    assert row["source_url"] == "https://example.org/ABC/FY26Q1"
    assert row["as_of_date"] == on("2026-05-01")
    assert row["stale_after_at"] == at("2026-08-29T00:00")  # 120 days later


def test_no_change_across_a_missing_quarter():
    row = headline(
        "market.financials:revenue@ABC",
        financials=[quarter("ABC", "FY25Q2", "2025-06-30", 80.0), quarter("ABC", "FY26Q1", "2026-03-31", 120.0)],
    )
    assert (row["previous_value"], row["previous_period"], row["change_ratio"]) == (None, None, None)


def test_a_row_that_is_not_preferred_is_not_shown():
    row = headline(
        "market.financials:revenue@ABC",
        financials=[
            quarter("ABC", "FY26Q1", "2026-03-31", 120.0),
            quarter("ABC", "FY26Q2", "2026-06-30", 1.0, is_preferred=False),
        ],
    )
    assert row["value"] == 120.0


def test_a_foreign_currency_keeps_its_unit():
    row = headline(
        "market.financials:revenue@ABC",
        financials=[quarter("ABC", "FY26Q1", "2026-03-31", 5.0, value_usd=None, currency="TWD", unit="TWD")],
    )
    assert (row["value"], row["unit"]) == (5.0, "TWD")


def capex(entity: str, period: str, end: str, value: float) -> dict:
    return quarter(entity, period, end, value, metric="capex_cash_ppe")


def test_companies_are_added_up_once_all_have_reported():
    rows = [
        capex("A", "FY25Q4", "2025-12-31", 10.0),
        capex("B", "FY25Q4", "2025-12-31", 20.0),
        capex("A", "FY26Q1", "2026-03-31", 15.0),
        capex("B", "FY26Q3", "2026-03-31", 30.0),
        capex("A", "FY26Q2", "2026-06-30", 99.0),
    ]
    row = headline("market.financials:capex_cash_ppe@A;market.financials:capex_cash_ppe@B", financials=rows)
    assert (row["value"], row["period"]) == (45.0, "CY2026Q1")
    assert (row["previous_value"], row["change_ratio"]) == (30.0, 0.5)
    assert row["source_url"] == "https://example.org/A/FY26Q1 https://example.org/B/FY26Q3"
    assert row["source_name"] == "sum of A, B"


def test_without_any_row_the_reason_names_the_feed_and_nothing_is_invented():
    row = headline("market.events:tender;market.policy_documents:EU")
    assert row["status"] == "no source yet"
    assert row["reason"] == "nothing has been read yet for market.events:tender, market.policy_documents:EU"
    assert {row[k] for k in ("value", "value_low", "value_high", "value_text", "period", "change_ratio", "unit")} == {
        None
    }
    assert (row["readings_count"], row["readings_known"]) == (2, 0)


def test_without_a_feed_the_gap_is_the_reason():
    row = headline(None, gap="nobody publishes it")
    assert (row["status"], row["reason"], row["readings_count"]) == ("no source yet", "nobody publishes it", 0)


def test_a_later_entry_that_stands_in_says_so():
    signal = {"signal": "pue", "metric": "average_pue", "subject": "industry", "period": "2025", "basis": "survey"}
    signal |= {"stated_by": "someone", "value": 1.5, "unit": "ratio", "period_end": on("2025-12-31")}
    row = headline("market.events:tender;market.supply_signals:average_pue@industry", supply_signals=[signal])
    assert (row["value"], row["status"]) == (1.5, "ok")
    assert row["reason"] == "shown in place of tenders, 90 days, which has no data yet"


def test_an_outlook_gives_way_to_a_period_that_has_ended():
    def share(period: str, value: float) -> dict:
        row = {"signal": "cooling", "metric": "share", "subject": "market", "period": period, "basis": "analyst"}
        row |= {"stated_by": "T", "unit": "percent", "value": value, "known_at": at("2026-03-01T00:00")}
        return row | {"period_end": on(f"{period}-12-31")}

    row = headline("market.supply_signals:share@market", supply_signals=[share(p, v) for p, v in _SHARES.items()])
    assert (row["value"], row["period"], row["previous_value"]) == (33.0, "2025", 14.0)


_SHARES = {"2024": 14.0, "2025": 33.0, "2026": 40.0}


def guided(period: str, known: str, low: float, mid: float | None, high: float | None) -> dict:
    row = {"entity": "ABC", "metric": "revenue", "target_period": period, "channel": "release"}
    return row | {"known_at": at(known), "low_usd": low, "mid_usd": mid, "high_usd": high}


def test_guidance_is_compared_with_the_statement_it_replaced():
    row = headline(
        "market.guidance:revenue@ABC",
        guidance=[
            guided("FY26", "2026-01-28T00:00", 115.0, 125.0, 135.0) | {"is_preferred": False, "is_latest": False},
            guided("FY26", "2026-04-29T00:00", 120.0, 130.0, 140.0),
            guided("FY26Q1", "2026-02-20T00:00", 1.0, 2.0, 3.0),
        ],
    )
    assert (row["value"], row["value_low"], row["value_high"]) == (130.0, 120.0, 140.0)
    assert (row["previous_value"], row["previous_period"]) == (125.0, "FY26")


def test_at_least_is_a_range_without_a_value():
    row = headline("market.guidance:revenue@ABC", guidance=[guided("FY26", "2026-01-28T00:00", 30.0, None, None)])
    assert (row["value"], row["value_low"], row["value_high"], row["status"]) == (None, 30.0, None, "range only")


def test_two_figures_of_one_publication_stand_as_a_range():
    claim = {"configuration": "x10", "disclosure_kind": "company_claim", "published_date": on("2025-12-20")}
    row = headline(
        "market.model_disclosures:company_claim",
        model_disclosures=[
            claim | {"model": "dense", "mfu_ratio": 0.6, "source": "curated"},
            claim | {"model": "MoE", "mfu_ratio": 0.4, "source": "curated"},
        ],
    )
    assert (row["value"], row["value_low"], row["value_high"], row["status"]) == (None, 0.4, 0.6, "range only")
    assert row["value_text"] == "MoE; dense"


def result(rnd: str, benchmark: str, minutes: float, **given) -> dict:
    row = {"round": rnd, "organization": "O", "system_desc_id": f"s{minutes}", "benchmark": benchmark}
    return row | {"benchmark_id": benchmark, "submitter": "O", "minutes": minutes, "run_count": 3} | given


def test_the_best_closed_time_of_the_newest_round_counts():
    row = headline(
        "market.mlperf_results:minutes",
        mlperf_results=[
            result("v5.0", "llama31_405b", 20.0),
            result("v10.0", "llama31_405b", 12.0, accelerator_count=5120, accelerator_id="a"),
            result("v10.0", "llama31_405b", 15.0),
            result("v10.0", "llama31_405b", 9.0, division="open"),
            result("v10.0", "bert", 1.0),
        ],
    )
    assert (row["value"], row["period"], row["previous_value"], row["change_ratio"]) == (12.0, "v10.0", 20.0, -0.4)
    assert row["value_text"].split(", ") == ["llama31_405b", "5,120 \N{MULTIPLICATION SIGN} a", "O"]


def release(tag: str, day: str) -> dict:
    return {"project": "p", "tag": tag, "component": "nccl", "published_at": at(f"{day}T00:00")}


def test_releases_are_counted_over_a_year_up_to_the_newest():
    days = {"v1": "2023-01-01", "v2": "2024-07-01", "v3": "2025-07-01", "v4": "2026-06-01"}
    row = headline("market.software_releases:nccl", software_releases=[release(t, d) for t, d in days.items()])
    assert (row["value"], row["previous_value"], row["value_text"]) == (2, 1, "v4")


def test_funding_adds_only_stated_amounts():
    def round_of(event_id: str, day: str, amount: float | None) -> dict:
        return {
            "event_id": event_id,
            "event_kind": "funding",
            "event_date": on(day),
            "amount_usd": amount,
            "title": "t",
        }

    rows = [round_of("a", "2026-05-01", 5e9), round_of("b", "2026-05-20", None), round_of("c", "2025-01-01", 1e9)]
    row = headline("market.events:funding", events=rows)
    assert (row["value"], row["unit"], row["previous_value"]) == (5e9, "USD", None)


def test_clusters_are_counted_by_status_or_country_and_never_added():
    def cluster(name: str, status: str, count: int | None, country: str) -> dict:
        row = {"cluster_id": name, "cluster": name, "status": status, "accelerator_count": count, "country": country}
        return row | {"certainty": "likely"}

    rows = [
        cluster("big", "announced", 1000, "US"),
        cluster("small", "announced", None, "China"),
        cluster("running", "operating", 50, "China"),
    ]
    found = readings("market.clusters:announced;market.clusters:China", clusters=rows)
    assert found["market.clusters:announced"]["value"] == 2
    assert found["market.clusters:announced"]["value_text"] == "big (1,000)"
    assert found["market.clusters:China"]["value"] == 1


SIXTEEN = {f"{group}{n}" for group, count in (("S", 5), ("D", 4), ("T", 4), ("P", 3)) for n in range(1, count + 1)}


def test_the_sixteen_indicators_each_have_a_row():
    path = curated_columns.__file__.replace("columns.py", "ref.indicators.csv")
    rows = pl.read_csv(path).select("indicator_id", "indicator_group", "name_en", "name_zh", "unit", "feed", "cadence")
    con = database(ref__indicators=[indicator(None) | row for row in rows.iter_rows(named=True)])
    found = mart(con, "indicators")
    assert {r["indicator_id"] for r in found} == SIXTEEN
    assert all(r["status"] == "no source yet" and r["reason"] and r["value"] is None for r in found)
    assert all(r["name_en"] and r["name_zh"] for r in found)
