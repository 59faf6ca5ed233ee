"""Screens over days: what is held, carried, left out, and for how long."""

from __future__ import annotations

import polars as pl
import pytest
from panels import H100, SERIES, ask, cell, daily, day, frame, offer, offers

from assets.price_daily import daily_prices

FIVE = {name: [2.0 + n / 10] * 8 for n, name in enumerate("bcdef")}
BOOK = f"{H100}/marketplace/marketplace_ask"


def prices_of(rows: pl.DataFrame, provider: str, days: int) -> list[float | None]:
    """Prices that stand on the first days."""
    mine = rows.filter(pl.col("date") < day(days), series=SERIES, provider=provider)
    return mine.sort("date")["price_usd_per_gpu_hour"].to_list()


def test_an_outage_is_carried_for_three_days_and_no_longer():
    rows = daily(FIVE | {"a": [2.0, None, None, None, None, 2.1]})
    assert prices_of(rows, "a", 6) == [2.0, 2.0, 2.0, 2.0, 2.1]
    carried = cell(rows, 3, "a")
    assert (carried["is_carried"], carried["observed_usd_per_gpu_hour"]) == (True, None)
    assert carried["last_real_date"] == day(0)
    assert rows.filter(provider="a", date=day(4)).is_empty()
    assert not cell(rows, 5, "a")["is_carried"]


def test_a_live_list_without_the_chip_is_a_delisting_and_is_not_carried():
    other = [offer(n, "a", 0.5, accelerator_id="nvidia-l4-24gb") for n in range(4)]
    rows = daily_prices(pl.concat([offers(FIVE | {"a": [2.0, None, None, 2.2]}), frame(other)]))
    gone = cell(rows, 1, "a")
    assert (gone["price_usd_per_gpu_hour"], gone["passes"], gone["screens"]) == (None, False, "delisted")
    assert rows.filter(provider="a", series=SERIES, date=day(2)).is_empty()
    assert cell(rows, 3, "a")["price_usd_per_gpu_hour"] == 2.2


def test_another_list_of_the_provider_says_nothing_about_this_one():
    spot = [offer(n, "a", 0.9, price_kind="spot", source_name="a spot page") for n in range(4)]
    rows = daily_prices(pl.concat([offers(FIVE | {"a": [2.0, None, 2.0]}), frame(spot)]))
    assert cell(rows, 1, "a")["is_carried"]


def test_a_lonely_jump_is_held_for_three_days_and_then_believed():
    rows = daily(FIVE | {"a": [2.0, 3.0, 3.0, 3.0, 3.0, 3.0]})
    assert prices_of(rows, "a", 6) == [2.0, 2.0, 2.0, 2.0, 3.0, 3.0]
    held = cell(rows, 1, "a")
    assert (held["is_held"], held["passes"], held["screens"]) == (True, True, "jump")
    assert held["observed_usd_per_gpu_hour"] == 3.0
    assert not cell(rows, 4, "a")["is_held"]


def test_a_unit_flip_that_is_taken_back_never_stands():
    rows = daily(FIVE | {"a": [2.0, 16.0, 16.0, 2.0, 2.0]})
    assert prices_of(rows, "a", 5) == [2.0] * 5
    assert rows.filter(provider="a").sort("date")["observed_usd_per_gpu_hour"].to_list()[:5] == [
        2.0,
        16.0,
        16.0,
        2.0,
        2.0,
    ]


def test_a_jump_with_two_peers_is_believed_at_once():
    cut = FIVE | {"a": [2.0, 1.4], "b": [2.0, 1.7], "c": [2.1, 1.8]}  # -30 %, -15 %, -14 %
    rows = daily(cut)
    assert prices_of(rows, "a", 2) == [2.0, 1.4]
    assert cell(rows, 1, "a")["screens"] == "jump_confirmed"


def test_one_peer_or_peers_the_other_way_confirm_nothing():
    assert prices_of(daily(FIVE | {"a": [2.0, 1.4], "b": [2.0, 1.7]}), "a", 2) == [2.0, 2.0]
    up = FIVE | {"a": [2.0, 1.4], "b": [2.0, 2.3], "c": [2.1, 2.4]}
    assert prices_of(daily(up), "a", 2) == [2.0, 2.0]


def test_a_jump_seen_after_a_long_gap_is_believed():
    rows = daily(FIVE | {"a": [2.0, None, None, None, 3.0]})
    assert prices_of(rows, "a", 5) == [2.0, 2.0, 2.0, 2.0, 3.0]


def test_a_feed_whose_series_move_by_one_factor_is_left_out_until_it_comes_back():
    chips = [f"nvidia-x{n}-80gb" for n in range(5)]
    factor = [1, 8, 8, 8, 8, 8, 1]
    rows = [
        offer(n, "a", (1.0 + c) * times, accelerator_id=chip)
        for n, times in enumerate(factor)
        for c, chip in enumerate(chips)
    ]
    peers = [offer(n, p, 1.0, accelerator_id=chips[0]) for n in range(7) for p in "bc"]
    found = daily_prices(frame([*rows, *peers])).filter(provider="a", accelerator_id=chips[0]).sort("date")
    assert found["price_usd_per_gpu_hour"].to_list() == [1.0, 1.0, 1.0, 1.0, None, None, 1.0]
    assert found["passes"].to_list() == [True] * 4 + [False] * 2 + [True]
    assert found["screens"][4] == "feed_shift"


def test_a_book_is_measured_against_its_own_history():
    def book(number: int, price: float) -> list[dict[str, object]]:
        return [ask(number, f"m{n}", price, f"h{n}") for n in range(5)]

    calm = [row for n in range(12) for row in book(n, 2.0)]
    # 10 % is over three times the 3 % floor and under the 25 % of a jump.
    found = daily_prices(frame([*calm, *book(12, 2.2), *book(13, 2.0)])).sort("date")
    assert found["price_usd_per_gpu_hour"].to_list()[-2:] == [2.0, 2.0]
    assert found["screens"].to_list()[-2:] == ["book_history", None]
    stays = daily_prices(frame([*calm, *(row for n in range(12, 20) for row in book(n, 2.2))])).sort("date")
    assert stays["price_usd_per_gpu_hour"].to_list()[12:] == pytest.approx([2.0] * 3 + [2.2] * 5)


def test_a_price_far_from_its_peers_is_flagged_and_stays():
    rows = daily(FIVE | {"a": [20.0]})
    odd = cell(rows, 0, "a")
    assert (odd["screens"], odd["passes"], odd["price_usd_per_gpu_hour"]) == ("cross_section", True, 20.0)


def test_a_thin_book_is_carried_and_then_missing():
    def book(number: int, hosts: int) -> list[dict[str, object]]:
        return [ask(number, f"m{n}", 2.0, f"h{n}") for n in range(hosts)]

    rows = daily_prices(pl.concat([offers(FIVE), frame([*book(0, 5), *(r for n in range(1, 6) for r in book(n, 3))])]))
    found = rows.filter(provider="vast").sort("date")
    assert found["is_carried"].to_list() == [False, True, True, True, False, False]
    assert found["price_usd_per_gpu_hour"].to_list() == [2.0] * 4 + [None] * 2
    assert found["screens"].to_list() == [None, *["thin_book"] * 5]
    assert set(found["series"]) == {BOOK}
