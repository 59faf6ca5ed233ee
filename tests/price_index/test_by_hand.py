"""Constructed panels against hand arithmetic: level, link, chain, entry, exit, outage, hold, composition effect."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest
from panels import H100, PCIE, SERIES, ask, daily, day, frame, index, offer, offers

from assets.price_daily import daily_prices
from assets.price_index import price_index
from assets.price_method import METHOD, METHOD_VERSION, Method

SIX = {"a": 2.0, "b": 2.1, "c": 2.2, "d": 2.3, "e": 2.4, "f": 2.5}
HEADLINE = f"{H100}/headline/on_demand"


def steady(days: int, **other: list[float | None]) -> dict[str, list[float | None]]:
    """Six providers that never change, some replaced."""
    return {name: [price] * days for name, price in SIX.items()} | other


def column(rows: pl.DataFrame, name: str) -> list:
    return rows[name].to_list()


def test_level_and_spread_of_a_quiet_panel():
    row = index(steady(1)).row(0, named=True)
    assert row["level_usd_per_gpu_hour"] == pytest.approx((2.2 + 2.3) / 2)
    assert row["median_usd_per_gpu_hour"] == pytest.approx(2.25)
    # Linear quartiles of 2.0 … 2.5: positions 1.25 and 3.75.
    assert (row["p25_usd_per_gpu_hour"], row["p75_usd_per_gpu_hour"]) == pytest.approx((2.125, 2.375))
    assert (row["low_usd_per_gpu_hour"], row["high_usd_per_gpu_hour"]) == (2.0, 2.5)
    assert (row["index_value"], row["base_date"], row["link_status"]) == (100.0, day(0), "base")
    assert (row["provider_count"], row["contributors"]) == (6, "a b c d e f")
    assert (row["composition_effect_ratio"], row["reference_date"]) == (0.0, day(0))
    assert row["method_version"] == "2026-11"
    assert '"min_panel": 5' in row["parameters"]


def test_one_provider_reprices():
    rows = index(steady(3, c=[2.2, 2.42, 2.42]))
    # One of six moves by 10 %: a sixth of its log change; the level is the mean of 2.3 and 2.4.
    assert column(rows, "link_log") == pytest.approx([None, math.log(1.1) / 6, 0.0])
    assert column(rows, "index_value") == pytest.approx([100.0, 100 * 1.1 ** (1 / 6), 100 * 1.1 ** (1 / 6)])
    assert column(rows, "level_usd_per_gpu_hour") == pytest.approx([2.25, 2.35, 2.35])
    assert column(rows, "matched_count") == [0, 6, 6]
    # Chain over base less level over base.
    assert rows["composition_effect_ratio"][1] == pytest.approx(1.1 ** (1 / 6) - 2.35 / 2.25)


def test_an_entry_moves_the_level_and_not_the_chain():
    rows = index(steady(6, g=[None, 9.0, 9.0, 9.0, 9.0, 9.0]))
    assert column(rows, "index_value") == pytest.approx([100.0] * 6)
    # Seven of 1/7: 2/21 of the third (2.2), 3/21 of the fourth (2.3), 2/21 of the fifth (2.4), over a third.
    assert rows["level_usd_per_gpu_hour"][1] == pytest.approx((2 * 2.2 + 3 * 2.3 + 2 * 2.4) / 7)
    assert rows["composition_effect_ratio"][1] == pytest.approx(1 - 2.3 / 2.25)
    assert column(rows, "matched_count") == [0, 6, 6, 6, 7, 7]  # in the link once it has been there three days


def test_what_an_entrant_does_in_its_first_days_is_not_in_the_chain():
    rows = index(steady(6, g=[None, 9.0, 8.0, 8.0, 8.8, 8.8]))
    # It came on day 1: its cut on day 2 is left out, its rise on day 4 counts, as one of seven.
    assert column(rows, "link_log") == pytest.approx([None, 0, 0, 0, math.log(1.1) / 7, 0])


def test_an_exit_moves_the_level_and_not_the_chain():
    rows = index(steady(7, a=[2.0, None, None, None, None, None, None]))
    assert column(rows, "provider_count") == [6, 6, 6, 6, 5, 5, 5]
    assert column(rows, "carried_count") == [0, 1, 1, 1, 0, 0, 0]
    assert column(rows, "matched_count") == [0, 5, 5, 5, 5, 5, 5]
    assert column(rows, "index_value") == pytest.approx([100.0] * 7)
    # Five of 1/5: 2.1 … 2.5.
    assert rows["level_usd_per_gpu_hour"][4] == pytest.approx((2.2 + 3 * 2.3 + 2.4) / 5)
    assert rows["composition_effect_ratio"][4] == pytest.approx(1 - 2.3 / 2.25)


def test_a_carried_price_is_never_in_the_chain():
    rows = index(steady(4, a=[2.0, None, None, 2.2], b=[2.1, 2.31, 2.31, 2.31]))
    # Day 1: b moves by 10 % and is one of the five really seen. Day 3: a is back, 10 % dearer, one of six.
    assert column(rows, "link_log") == pytest.approx([None, math.log(1.1) / 5, 0, math.log(1.1) / 6])
    assert column(rows, "matched_count") == [0, 5, 5, 6]


def test_an_outage_longer_than_the_carry_is_an_exit_and_a_new_entry():
    rows = index(steady(10, a=[2.0, None, None, None, None, 1.0, 1.0, 1.0, 1.1, 1.1]))
    # Back on day 5 at half the price: nothing of that is in the chain; matched again from day 8 on.
    assert column(rows, "link_log") == pytest.approx([None, 0, 0, 0, 0, 0, 0, 0, math.log(1.1) / 6, 0])
    assert column(rows, "matched_count") == [0, 5, 5, 5, 5, 5, 5, 5, 6, 6]


def test_a_unit_flip_leaves_level_and_chain_alone():
    rows = index(steady(5, c=[2.2, 17.6, 17.6, 2.2, 2.2]))
    assert column(rows, "level_usd_per_gpu_hour") == pytest.approx([2.25] * 5)
    assert column(rows, "index_value") == pytest.approx([100.0] * 5)
    assert column(rows, "held_count") == [0, 1, 1, 0, 0]
    assert column(rows, "matched_count") == [0, 5, 5, 6, 6]


def test_a_lasting_jump_is_winsorised_once_it_is_believed():
    rows = index(steady(6, c=[2.2, 1.1, 1.1, 1.1, 1.1, 1.1]))
    # Halved on day 1, held on days 1 to 3, believed on day 4: a fall of 20 % at most is what one link takes.
    assert column(rows, "link_log") == pytest.approx([None, 0, 0, 0, -math.log(1.25) / 6, 0])
    assert rows["level_usd_per_gpu_hour"][3] == pytest.approx(2.25)
    assert rows["level_usd_per_gpu_hour"][4] == pytest.approx((2.1 + 2.3) / 2)


def test_one_absurd_ask_among_list_prices():
    rows = index(steady(2, g=[40.0, 40.0]))
    assert column(rows, "level_usd_per_gpu_hour") == pytest.approx([(2 * 2.2 + 3 * 2.3 + 2 * 2.4) / 7] * 2)
    assert column(rows, "index_value") == pytest.approx([100.0, 100.0])


def test_a_small_panel_has_no_index_and_its_links_are_kept():
    four = {name: [SIX[name]] * 3 for name in "abcd"} | {"a": [2.0, 2.2, 2.2]}
    rows = index(four)
    assert column(rows, "level_usd_per_gpu_hour") == [None] * 3
    assert column(rows, "index_value") == [None] * 3
    assert rows["no_level_reason"][0] == "4 of the 5 providers that a level needs"
    assert rows["link_log"][1] == pytest.approx(math.log(1.1) / 4)
    # Four for two days, then a fifth and a sixth: the chain is 100 on the first day with a level.
    grown = index(four | {"e": [None, None, 2.4], "f": [None, None, 2.5]})
    assert column(grown, "index_value") == [None, None, 100.0]
    assert grown["base_date"][2] == day(2)


def test_links_of_days_without_a_level_are_in_the_next_value():
    rows = index({n: [SIX[n]] * 9 for n in "abcd"} | {"a": [2.0] * 6 + [2.2] * 3, "e": [2.4] + [None] * 7 + [2.4]})
    # e is carried on days 1 to 3 and gone on days 4 to 7; a rises on day 6, when four remain.
    assert [v is None for v in column(rows, "index_value")] == [False] * 4 + [True] * 4 + [False]
    assert rows["index_value"][8] == pytest.approx(100 * 1.1 ** (1 / 4))


def test_a_day_on_which_little_was_seen_waits_with_its_changes():
    out = {name: [SIX[name], None, SIX[name]] for name in "abcd"}
    rows = index(out | {"e": [2.4, 2.64, 2.64], "f": [2.5, 2.5, 2.5]})
    # Two of six were seen on day 1: no link; the 10 % of e are in the link of day 2, as one of six.
    assert column(rows, "link_status") == ["base", "deferred", "linked"]
    assert column(rows, "link_log") == pytest.approx([None, None, math.log(1.1) / 6])


def test_days_without_any_price_are_bridged():
    rows = index({n: [p, *[None] * 6, p * 1.1 if n == "a" else p] for n, p in SIX.items()})
    assert column(rows, "date") == [day(0), day(7)]
    assert rows["link_log"][1] == pytest.approx(math.log(1.1) / 6)
    assert rows["carried_count"][1] == 0


def test_a_panel_replaced_at_one_stroke_is_entry_and_exit():
    first = {n: [p] * 2 + [None] * 5 for n, p in SIX.items()}
    second = {n.upper(): [None] * 2 + [3 * p] * 4 + [3.3 * p] for n, p in SIX.items()}
    rows = index(first | second)
    # Three days too new to be compared, while the old ones are carried; then the chain goes on from where it was.
    assert column(rows, "link_status") == ["base", "linked", *["unmatched"] * 3, "linked", "linked"]
    assert column(rows, "index_value") == pytest.approx([100.0] * 6 + [110.0])


def test_another_panel_after_a_gap_is_another_chain():
    first = {n: [p, 1.1 * p] + [None] * 6 for n, p in SIX.items()}
    second = {n.upper(): [None] * 6 + [3 * p, 3.3 * p] for n, p in SIX.items()}
    rows = index(first | second)
    assert column(rows, "date") == [day(0), day(1), day(6), day(7)]
    assert column(rows, "link_status") == ["base", "linked", "base", "linked"]
    assert column(rows, "index_value") == pytest.approx([100.0, 110.0, 100.0, 110.0])
    assert column(rows, "base_date") == [day(0), day(0), day(6), day(6)]


def test_composition_is_measured_from_the_first_day_of_the_month():
    rows = index(steady(40, a=[2.0] * 35 + [None] * 5))
    march = rows.filter(pl.col("date").dt.month() == 3)
    april = rows.filter(pl.col("date").dt.month() == 4)
    assert set(march["reference_date"]) == {day(0)}
    assert set(april["reference_date"]) == {day(30)}
    # a is carried up to day 37, then gone: 2.25 becomes 2.3 without any price change.
    assert april["composition_effect_ratio"].to_list() == pytest.approx([0.0] * 8 + [1 - 2.3 / 2.25] * 2)


def test_the_headline_joins_neoclouds_and_the_verified_book_of_sxm_only():
    book = [ask(0, f"m{n}", 1.8, f"h{n}") for n in range(5)]
    others = [
        offer(0, "hyper", 12.0, segment="hyperscaler"),
        offer(0, "cheap", 1.0, price_kind="spot"),
        *(offer(0, n, p, accelerator_id=PCIE) for n, p in SIX.items()),
    ]
    rows = price_index(daily_prices(pl.concat([offers({n: [p] for n, p in SIX.items()}), frame(book + others)])))
    (head,) = rows.filter(series=HEADLINE).to_dicts()
    assert head["contributors"] == "a b c d e f vast"
    # 1.8, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5: a seventh each.
    assert head["level_usd_per_gpu_hour"] == pytest.approx((2 * 2.1 + 3 * 2.2 + 2 * 2.3) / 7)
    assert (head["segment"], head["price_kind"], head["accelerator_id"]) == ("headline", "on_demand", H100)
    assert rows.filter(series=f"{PCIE}/headline/on_demand").is_empty()
    assert rows.filter(series=SERIES)["provider_count"].to_list() == [6]


def test_a_book_seen_again_within_three_days_is_carried_into_the_headline():
    book = [ask(number, f"m{n}", 1.8, f"h{n}") for number in (0, 2) for n in range(5)]
    rows = price_index(daily_prices(pl.concat([offers(steady(3)), frame(book)]))).filter(series=HEADLINE).sort("date")
    assert column(rows, "provider_count") == [7, 7, 7]
    assert column(rows, "carried_count") == [0, 1, 0]


def test_who_is_left_out_is_named():
    other = [offer(n, "a", 0.5, accelerator_id="nvidia-l4-24gb") for n in range(2)]
    rows = price_index(daily_prices(pl.concat([offers(steady(2, a=[2.0, None])), frame(other)]))).filter(series=SERIES)
    assert rows.sort("date")["excluded"].to_list() == [None, "a:delisted"]


def test_weights_are_capped_in_level_and_link():
    prices = {n: [p, p * 1.1 if n == "a" else p] for n, p in SIX.items()}
    rows = price_index(daily(prices), {"a": 1000.0}).filter(series=SERIES).sort("date")
    # a has 0.30, the others 0.14 each: 2.2 holds 0.0967 … of the central third.
    assert rows["link_log"][1] == pytest.approx(0.30 * math.log(1.1))
    parts = {"a": 0.0, "b": 0.44 - 1 / 3, "c": 0.14, "d": 2 / 3 - 0.58}
    expected = sum(SIX[n] * part for n, part in parts.items()) / (1 / 3)
    assert rows["level_usd_per_gpu_hour"][0] == pytest.approx(expected)


def test_parameters_are_in_every_row():
    rows = price_index(daily(steady(2)), method=Method(min_panel=7))
    assert rows["level_usd_per_gpu_hour"].is_null().all()
    assert set(rows["parameters"]) == {Method(min_panel=7).as_json()} != {METHOD.as_json()}


def test_the_worked_example_of_the_method_page():
    rows = index(
        {
            "a": [2.0, 2.0, None, 2.2],
            "b": [2.1] * 4,
            "c": [2.2, 2.42, 2.42, 19.36],
            "d": [2.3] * 4,
            "e": [2.4] * 4,
            "f": [2.5] * 4,
        }
    )
    assert column(rows, "level_usd_per_gpu_hour") == pytest.approx([2.25, 2.35, 2.35, 2.35])
    assert [round(value, 2) for value in column(rows, "index_value")] == [100.0, 101.6, 101.6, 103.56]
    assert rows["composition_effect_ratio"][1] == pytest.approx(-0.0284, abs=5e-5)
    page = (Path(__file__).parents[2] / "docs" / "price-index.md").read_text(encoding="utf-8")
    assert f"Version `{METHOD_VERSION}`" in page
    for figure in ("0.01588", "101.60", "0.01906", "103.56", "-0.0284"):
        assert figure in page
