"""Published values stay: later days continue them, late offers do not change them, nothing lands twice."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

import polars as pl
import pytest
from panels import SERIES, day, offers

from assets.landing import Part, land
from assets.price_tables import LATE, build_price_tables, refresh_prices
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.declare import lake_schema
from warehouse.schema.prices import GpuOffer, GpuPriceDaily, GpuPriceIndex

SIX = {"a": 2.0, "b": 2.1, "c": 2.2, "d": 2.3, "e": 2.4, "f": 2.5}
DAILY, INDEX = "market.gpu_price_daily", "market.gpu_price_index"


def at(number: int) -> dt.datetime:
    """An hour after the day with this number has begun: the day before it is over."""
    return dt.datetime.combine(day(number), dt.time(1), tzinfo=dt.UTC)


def wavy(days: int) -> dict[str, list[float | None]]:
    """Six providers, one of them repricing every day."""
    return {
        name: [price * 1.02 ** (number // 6 + (number % 6 > place)) for number in range(days)]
        for place, (name, price) in enumerate(SIX.items())
    }


class Ledger:
    """Published rows of both tables, grown run by run as the lake does."""

    def __init__(self) -> None:
        self.daily = pl.DataFrame(schema=lake_schema(GpuPriceDaily))
        self.index = pl.DataFrame(schema=lake_schema(GpuPriceIndex))

    def run(self, rows: pl.DataFrame, number: int) -> dict[str, pl.DataFrame]:
        built = build_price_tables(rows, self.index, self.daily, now=at(number))
        self.daily = pl.concat([self.daily, built[DAILY]])
        self.index = pl.concat([self.index, built[INDEX]])
        return built

    def values(self, column: str = "index_value") -> dict[dt.date, float]:
        rows = self.index.filter(series=SERIES).sort("date", "known_at")
        return dict(rows.select("date", column).iter_rows())


def test_a_day_is_derived_once_it_is_over():
    ledger, rows = Ledger(), offers(wavy(3))
    ledger.run(rows, 2)
    assert set(ledger.values()) == {day(0), day(1)}
    built = ledger.run(rows, 3)
    assert set(built[INDEX]["date"]) == {day(2)}


def test_day_by_day_gives_what_one_run_gives():
    rows, steps, whole = offers(wavy(9)), Ledger(), Ledger()
    for number in range(1, 10):
        steps.run(rows, number)
    whole.run(rows, 9)
    assert steps.values() == pytest.approx(whole.values(), rel=1e-12)
    effect = "composition_effect_ratio"
    assert steps.values(effect) == pytest.approx(whole.values(effect), abs=1e-12)
    assert steps.daily.sort("date", "provider").equals(whole.daily.sort("date", "provider"))


def test_nothing_new_gives_no_rows():
    ledger, rows = Ledger(), offers(wavy(4))
    ledger.run(rows, 4)
    built = ledger.run(rows, 9)
    assert [built[name].height for name in (DAILY, INDEX)] == [0, 0]


def test_a_corrected_price_of_a_published_day_changes_nothing():
    ledger = Ledger()
    ledger.run(offers(wavy(4)), 4)
    before = ledger.values()
    wrong = wavy(5)
    wrong["a"][2] = 1.7  # a later reading of the same day
    built = ledger.run(offers(wrong), 5)
    assert set(built[INDEX]["date"]) == {day(4)}
    assert {d: v for d, v in ledger.values().items() if d < day(4)} == before
    # Day 4 follows from day 3 and from what was published of it, not from the correction.
    clean = Ledger()
    clean.run(offers(wavy(5)), 5)
    assert ledger.values() == pytest.approx(clean.values(), rel=1e-12)


def test_a_provider_that_comes_in_late_is_kept_and_is_not_in_the_published_index():
    ledger = Ledger()
    ledger.run(offers(wavy(4)), 4)
    before = ledger.values()
    built = ledger.run(offers(wavy(5) | {"z": [1.0] * 5}), 5)
    assert {d: v for d, v in ledger.values().items() if d < day(4)} == before
    late = built[DAILY].filter(provider="z").sort("date")
    assert late["notes"].to_list() == [LATE] * 4 + [None]
    last = built[INDEX].filter(date=day(4), series=SERIES).row(0, named=True)
    assert last["contributors"] == "a b c d e f z"
    assert last["matched_count"] == 7


def test_earlier_days_that_come_in_late_are_chained_back_from_the_first_published_one():
    ledger, rows = Ledger(), wavy(6)
    recent = {name: [None, None, *days[2:]] for name, days in rows.items()}
    ledger.run(offers(recent), 6)
    assert ledger.values()[day(2)] == 100.0
    ledger.run(offers(rows), 6)
    values = ledger.values()
    # Each day one of six rises by 2 %.
    assert values[day(2)] == 100.0
    assert values[day(0)] == pytest.approx(100 / 1.02 ** (2 / 6))
    assert values[day(5)] == pytest.approx(100 * 1.02 ** (3 / 6))


def test_a_day_without_a_level_gets_one_when_enough_providers_come_in():
    ledger, rows = Ledger(), wavy(3)
    ledger.run(offers({name: rows[name] for name in "abcd"}), 3)
    assert set(ledger.values().values()) == {None}
    built = ledger.run(offers(rows), 9)
    assert built[INDEX].height == 6  # each day in the series and in the headline of its chip
    assert set(built[INDEX]["known_at"]) == {at(9)}
    assert ledger.values()[day(2)] == pytest.approx(100 * 1.02 ** (2 / 6))
    assert ledger.run(offers(rows), 10)[INDEX].is_empty()


def test_a_day_without_a_level_is_said_anew_when_its_panel_grows():
    """Lists loaded one after another: the small panel is that of all of them, not of the first."""
    ledger, rows = Ledger(), {"a": [2.0, 2.0], "b": [3.0, 3.3], "c": [4.0, 4.0]}
    ledger.run(offers({"a": rows["a"]}), 3)
    ledger.run(offers(rows), 4)
    last = ledger.index.filter(series=SERIES, date=day(1)).sort("known_at")
    assert last["contributors"].to_list() == ["a", "a b c"]
    assert last["median_usd_per_gpu_hour"].to_list() == [2.0, 3.3]
    assert last["known_at"].to_list() == [at(2).replace(hour=0), at(4)]
    assert last["link_log"][1] == pytest.approx(math.log(1.1) / 3)
    assert ledger.run(offers(rows), 5)[INDEX].is_empty()


def test_another_method_version_is_no_published_value():
    ledger, rows = Ledger(), offers(wavy(3))
    ledger.run(rows, 3)
    old = ledger.index.with_columns(method_version=pl.lit("2020-01"), index_value=pl.lit(7.0))
    built = build_price_tables(rows, old, None, now=at(3))
    assert built[INDEX].filter(series=SERIES).sort("date")["index_value"][0] == 100.0


def _offer_lake(home: Path, rows: pl.DataFrame, name: str) -> Home:
    at_home = Home.at(home).prepare()
    land(Lake(at_home.lake), GpuOffer, "test", [Part(name, name, None, rows)], load_id=name, version=1)
    return at_home


def test_landing_is_gated_and_happens_once(home: Path):
    rows = offers(wavy(3))
    where = _offer_lake(home, rows, "first")
    # Six providers and three days; each day once in the series and once as the headline of its chip.
    assert refresh_prices(where, now=at(3)) == {DAILY: 18, INDEX: 6}
    assert refresh_prices(where, now=at(3)) == {DAILY: 0, INDEX: 0}
    _offer_lake(home, offers(wavy(4)).filter(pl.col("observed_at").dt.date() == day(3)), "second")
    assert refresh_prices(where, now=at(4)) == {DAILY: 6, INDEX: 2}
    lake = Lake(where.lake)
    commits = [c for model in (GpuPriceDaily, GpuPriceIndex) for c in lake.history(model)]
    assert all(c["read"] == c["landed"] + c["rejected"] + c["duplicate"] for c in commits)
    assert {c["status"] for c in commits} == {"landed"}
    series = lake.scan(GpuPriceIndex).filter(pl.col("series") == SERIES).collect().sort("date")
    assert series["index_value"].to_list() == pytest.approx([100 * 1.02 ** (n / 6) for n in range(4)])


def test_a_home_without_offers_has_nothing_to_do(home: Path):
    assert refresh_prices(Home.at(home).prepare(), now=at(3)) == {DAILY: 0, INDEX: 0}
