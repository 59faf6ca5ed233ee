"""What a statistician checks of an index, on panels drawn at random."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from panels import SERIES, index, offer, offers
from polars.testing import assert_frame_equal

from assets.price_daily import daily_prices
from assets.price_index import price_index

CALM = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A step of at most 8 % keeps every price clear of the screens and of the winsorising.
step = st.sampled_from([1.0, 1.0, 1.0, 0.93, 0.97, 1.02, 1.05, 1.08])
price = st.floats(1.0, 4.0).map(lambda value: round(value, 4))


@st.composite
def panels(draw: st.DrawFn, gaps: bool = True) -> dict[str, list[float | None]]:
    """Five to nine providers over two to eight days; with gaps, some days of some providers are missing."""
    days = draw(st.integers(2, 8))
    found: dict[str, list[float | None]] = {}
    for name in "abcdefghi"[: draw(st.integers(5, 9))]:
        walk = [draw(price)]
        for _ in range(days - 1):
            walk.append(walk[-1] * draw(step))
        out = draw(st.lists(st.booleans(), min_size=days, max_size=days)) if gaps else [False] * days
        found[name] = [None if gone and draw(st.booleans()) else value for value, gone in zip(walk, out, strict=True)]
    return found


@CALM
@given(panels(), st.randoms(use_true_random=False))
def test_the_order_of_the_offers_and_repeated_offers_do_not_matter(panel, random):
    rows = offers(panel)
    if rows.is_empty():
        return
    order = list(range(rows.height)) * 2
    random.shuffle(order)
    mixed = rows[order]
    assert_frame_equal(daily_prices(mixed), daily_prices(rows), check_exact=True)
    straight = price_index(daily_prices(rows))
    shuffled = price_index(daily_prices(mixed).sample(fraction=1.0, shuffle=True, seed=random.randint(0, 99)))
    assert_frame_equal(shuffled, straight, check_exact=True)


@CALM
@given(panels(gaps=False), st.floats(0.05, 99.0))
def test_a_new_provider_at_any_price_does_not_move_the_chain(panel, entrant):
    days = len(panel["a"])
    before = index(panel)
    after = index(panel | {"z": [None] * (days - 1) + [entrant]})
    assert after["index_value"].to_list() == pytest.approx(before["index_value"].to_list(), rel=1e-12)
    assert after["link_log"].to_list() == pytest.approx(before["link_log"].to_list(), abs=1e-12)


@CALM
@given(panels(gaps=False), step)
def test_one_repricing_moves_the_chain_by_its_share_of_the_log_change(panel, factor):
    names = sorted(panel)
    still = {name: [panel[name][0]] * 3 for name in names}
    rows = index(still | {"a": [panel["a"][0]] + [panel["a"][0] * factor] * 2})
    moved = math.log(rows["index_value"][1] / rows["index_value"][0])
    assert moved == pytest.approx(math.log(factor) / len(names), abs=1e-12)
    assert rows["index_value"][2] == pytest.approx(rows["index_value"][1], rel=1e-12)


@CALM
@given(panels(gaps=False))
def test_the_chain_equals_the_direct_comparison_on_a_fixed_panel(panel):
    rows = index(panel)
    direct = sum(math.log(days[-1] / days[0]) for days in panel.values()) / len(panel)
    assert rows["index_value"][-1] / rows["index_value"][0] == pytest.approx(math.exp(direct), rel=1e-9)


@CALM
@given(panels(gaps=False), st.sampled_from([0.5, 0.7, 1.05, 1.4, 3.0]))
def test_robustness_never_freezes_the_index(panel, factor):
    """List prices move one at a time: each single move must show, whole or winsorised, within four days."""
    names = sorted(panel)
    base = {name: panel[name][0] for name in names}
    days = 5 * len(names)
    prices = {
        name: [base[name] * (factor if number >= 5 * place + 1 else 1.0) for number in range(days)]
        for place, name in enumerate(names)
    }
    rows = index(prices)
    assert len({round(value, 9) for value in rows["index_value"]}) == len(names) + 1
    clipped = max(-math.log(1.25), min(math.log(1.25), math.log(factor)))
    assert rows["index_value"][-1] == pytest.approx(100 * math.exp(clipped), rel=1e-9)


@CALM
@given(panels(), st.floats(0.3, 3.0))
def test_another_unit_of_money_scales_levels_and_leaves_the_chain(panel, rate):
    if all(value is None for days in panel.values() for value in days):
        return
    before = index(panel)
    after = index({n: [None if v is None else v * rate for v in days] for n, days in panel.items()})
    assert after["link_log"].to_list() == pytest.approx(before["link_log"].to_list(), abs=1e-9)
    for one, other in zip(before["level_usd_per_gpu_hour"], after["level_usd_per_gpu_hour"], strict=True):
        assert (one is None and other is None) or other == pytest.approx(one * rate, rel=1e-9)


@CALM
@given(panels())
def test_levels_lie_inside_their_panel_and_small_panels_have_none(panel):
    if all(value is None for days in panel.values() for value in days):
        return
    for row in index(panel).iter_rows(named=True):
        if row["provider_count"] < 5:
            assert row["level_usd_per_gpu_hour"] is None
            assert row["index_value"] is None
            assert row["no_level_reason"]
        else:
            low, high = row["low_usd_per_gpu_hour"], row["high_usd_per_gpu_hour"]
            assert low - 1e-12 <= row["level_usd_per_gpu_hour"] <= high + 1e-12
            assert row["p25_usd_per_gpu_hour"] <= row["p75_usd_per_gpu_hour"]
        assert row["carried_count"] + row["held_count"] < row["provider_count"]
        assert len(row["contributors"].split()) == row["provider_count"]


@CALM
@given(panels(gaps=False), st.integers(2, 30))
def test_splitting_an_offer_over_regions_and_products_does_not_matter(panel, copies):
    rows = offers(panel)
    split = rows.filter(provider="a")
    more = pl.concat([split.with_columns(pl.lit(f"r{n}").alias("region")) for n in range(copies)])
    assert_frame_equal(
        price_index(daily_prices(pl.concat([rows, more]))).drop("excluded"),
        price_index(daily_prices(rows)).drop("excluded"),
    )


def test_offers_that_may_not_enter_change_nothing():
    panel = {name: [2.0 + n / 10] * 3 for n, name in enumerate("abcdef")}
    noise = [offer(n, p, 90.0, index_eligible=False, sku="x") for n in range(3) for p in "abz"]
    mixed = pl.concat([offers(panel), pl.DataFrame(noise, schema_overrides=offers(panel).schema)], how="diagonal")
    assert_frame_equal(price_index(daily_prices(mixed)), price_index(daily_prices(offers(panel))))
    assert index(panel)["series"].unique().to_list() == [SERIES]
