"""What a provider's price of the day is: lists and books, with the medians worked out by hand."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from panels import H100, PCIE, SERIES, ask, frame, offer

from assets.price_level import capped_weights, central_third
from assets.price_quotes import provider_quotes

BOOK = f"{H100}/marketplace/marketplace_ask"


def quoted(*rows: dict[str, object], series: str = SERIES) -> float | None:
    found = provider_quotes(frame(rows)).filter(series=series)
    assert found.height == 1, found
    return found["quoted"][0]


def test_copies_of_a_price_over_regions_count_once():
    copies = [offer(0, "a", 2.0, region=f"r{n}") for n in range(9)]
    # {2.0, 3.0, 4.0}: nine copies of 2.0 must not pull the median down to it.
    assert quoted(*copies, offer(0, "a", 3.0, region="r10"), offer(0, "a", 4.0, region="r11")) == 3.0


def test_the_same_price_of_two_skus_counts_twice():
    rows = [offer(0, "a", 2.0, sku="x"), offer(0, "a", 2.0, sku="y"), offer(0, "a", 5.0, sku="z")]
    assert quoted(*rows) == 2.0


def test_the_last_price_of_the_day_stands():
    early = dt.datetime(2026, 3, 2, 1, tzinfo=dt.UTC)
    late = dt.datetime(2026, 3, 2, 23, 59, tzinfo=dt.UTC)
    assert quoted(offer(0, "a", 2.0, observed_at=early), offer(0, "a", 2.5, observed_at=late)) == 2.5


def test_series_never_meet():
    rows = [
        offer(0, "a", 2.0),
        offer(0, "a", 1.0, price_kind="spot"),
        offer(0, "a", 1.5, accelerator_id=PCIE),
        offer(0, "a", 1.4, price_kind="reserved", term_months=12),
        offer(0, "a", 1.2, price_kind="reserved", term_months=36),
        offer(0, "a", 1.9, segment="marketplace"),
    ]
    found = provider_quotes(frame(rows))
    assert dict(found.select("series", "quoted").iter_rows()) == {
        f"{H100}/neocloud/on_demand": 2.0,
        f"{H100}/neocloud/spot": 1.0,
        f"{PCIE}/neocloud/on_demand": 1.5,
        f"{H100}/neocloud/reserved/12m": 1.4,
        f"{H100}/neocloud/reserved/36m": 1.2,
        f"{H100}/marketplace/on_demand": 1.9,
    }


def test_what_is_not_eligible_is_not_quoted():
    rows = [offer(0, "a", 2.0), offer(0, "a", 9.0, sku="slice", index_eligible=False)]
    assert quoted(*rows) == 2.0


def test_a_book_is_weighted_by_gpus():
    # 8 + 4 + 2 + 1 + 1 = 16 GPUs, half is 8: reached exactly after the 8 at 2.0, so the mean with the next, 3.0.
    sizes = [(8, 2.0), (4, 3.0), (2, 4.0), (1, 5.0), (1, 6.0)]
    rows = [ask(0, f"m{n}", price, f"h{n}", gpus) for n, (gpus, price) in enumerate(sizes)]
    assert quoted(*rows, series=BOOK) == 2.5
    # With 9 GPUs at 2.0 half of 17 is inside them.
    assert quoted(*rows, ask(0, "m9", 2.0, "h9", 1), series=BOOK) == 2.0


def test_one_machine_split_into_many_offers_weighs_once():
    base = [ask(0, f"m{n}", 2.0 + n / 10, f"h{n}") for n in range(5)]
    nested = [ask(0, "m0", 2.0, "h0", gpus) for gpus in (1, 2, 4)]
    assert quoted(*base, series=BOOK) == quoted(*base, *nested, series=BOOK) == pytest.approx(2.2)


def test_one_absurd_ask_moves_a_book_by_one_rank_at_most():
    base = [ask(0, f"m{n}", price, f"h{n}") for n, price in enumerate((2.0, 2.1, 2.2, 2.3, 2.4))]
    assert quoted(*base, series=BOOK) == pytest.approx(2.2)
    assert quoted(*base, ask(0, "m9", 40.0, "h9"), series=BOOK) == pytest.approx(2.25)


def test_a_book_of_few_hosts_has_no_price():
    rows = [ask(0, f"m{n}", 2.0, f"h{n % 4}") for n in range(12)]
    assert quoted(*rows, series=BOOK) is None


def test_unreliable_unverified_and_rented_machines_stay_out_of_a_book():
    base = [ask(0, f"m{n}", 2.0, f"h{n}") for n in range(5)]
    others = [
        ask(0, "x1", 0.1, "y1", gpus=99, reliability_ratio=0.89),
        ask(0, "x2", 0.1, "y2", gpus=99, is_verified=False),
        ask(0, "x3", 0.1, "y3", gpus=99, available=False),
        ask(0, "x4", 0.1, "y4", gpus=99, reliability_ratio=None),
    ]
    assert quoted(*base, *others, series=BOOK) == 2.0


def level(prices: list[float], weights: list[float]) -> float:
    rows = pl.DataFrame({"g": ["g"] * len(prices), "p": prices, "w": weights})
    capped = capped_weights(rows, ["g"], "w", 0.30)
    assert capped["w"].sum() == pytest.approx(1)
    return central_third(capped, ["g"], "p", "w")["p"][0]


def test_central_third_by_hand():
    # Five of 1/5: the central third holds 1/15 of the second, 3/15 of the third, 1/15 of the fourth.
    assert level([5.0, 1.0, 3.0, 4.0, 2.0], [1.0] * 5) == pytest.approx((2 + 3 * 3 + 4) / 5)
    # Six of 1/6: exactly the third and the fourth.
    assert level([1, 2, 3, 4, 5, 600], [1.0] * 6) == pytest.approx(3.5)


def test_weights_are_capped_and_the_rest_is_shared():
    rows = pl.DataFrame({"g": ["g"] * 5, "w": [96.0, 1.0, 1.0, 1.0, 1.0]})
    capped = capped_weights(rows, ["g"], "w", 0.30)["w"].to_list()
    assert capped == pytest.approx([0.30, 0.175, 0.175, 0.175, 0.175])
    # 50, 40 and 10 over five: two are cut to 0.30, the other three share 0.40 as 5 : 3 : 2.
    rows = pl.DataFrame({"g": ["g"] * 5, "w": [50.0, 40.0, 5.0, 3.0, 2.0]})
    assert capped_weights(rows, ["g"], "w", 0.30)["w"].to_list() == pytest.approx([0.30, 0.30, 0.20, 0.12, 0.08])
    # Three members cannot all stay at 0.30.
    rows = pl.DataFrame({"g": ["g"] * 3, "w": [5.0, 1.0, 1.0]})
    assert capped_weights(rows, ["g"], "w", 0.30)["w"].to_list() == pytest.approx([1 / 3] * 3)
