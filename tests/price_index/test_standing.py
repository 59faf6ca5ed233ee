"""Lists that do not change land once and are seen for as long as they are read again."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import polars as pl
import pytest
from panels import SERIES, day, frame, offer

from assets.landing import Part, land
from assets.price_standing import standing_days, with_standing
from assets.price_tables import refresh_prices
from warehouse.archive import Archive, Document
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.prices import GpuOffer, GpuPriceDaily, GpuPriceIndex


def moment(number: int, hour: int = 12) -> dt.datetime:
    return dt.datetime.combine(day(number), dt.time(hour), tzinfo=dt.UTC)


def document(digest: str, read: int, checked: int, url: str = "https://a.example/list") -> dict[str, object]:
    return {
        "source": "gpu-prices/a",
        "stream": "list",
        "url": url,
        "payload_sha256": digest,
        "retrieved_at": moment(read),
        "checked_at": moment(checked, 13),
    }


def days(*documents: dict[str, object]) -> list[tuple[str, int, int]]:
    found = standing_days(pl.DataFrame(documents))
    return [
        (row["payload_sha256"], (row["from_date"] - day(0)).days, (row["to_date"] - day(0)).days)
        for row in found.iter_rows(named=True)
    ]


def test_a_list_stands_from_its_first_reading_to_its_last_check():
    assert days(document("one", 0, 5)) == [("one", 1, 5)]
    assert days(document("one", 0, 0)) == []


def test_a_list_stands_until_another_one_is_read():
    assert days(document("one", 0, 4), document("two", 5, 8)) == [("one", 1, 4), ("two", 6, 8)]


def test_a_list_that_comes_back_is_known_since_the_other_was_last_seen():
    assert days(document("one", 0, 9), document("two", 5, 7)) == [("one", 8, 9), ("two", 6, 7)]
    assert days(document("one", 0, 30), document("two", 5, 7)) == [("one", 28, 30), ("two", 6, 7)]


def test_a_file_loaded_by_hand_again_is_no_reading():
    assert days(document("one", 0, 5, url="file:list.json")) == []


def listed(provider: str, price: float, **given: object) -> dict[str, object]:
    return offer(0, provider, price, **({"payload_sha256": "one", "retrieved_at": moment(0)} | given))


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({}, 4),
        ({"observed_at": moment(-3)}, 1),  # the list states its own time
        ({"price_kind": "marketplace_ask"}, 1),  # a book that does not change has frozen
        ({"index_eligible": False}, 1),
    ],
)
def test_what_is_repeated(given: dict[str, object], rows: int):
    found = with_standing(frame([listed("a", 2.0, **given)]), pl.DataFrame([document("one", 0, 3)]))
    assert found.height == rows
    assert found["observed_at"].dt.date().n_unique() == rows


def test_days_before_those_wanted_are_left_out():
    found = with_standing(frame([listed("a", 2.0)]), pl.DataFrame([document("one", 0, 9)]), day(8))
    assert sorted(found["observed_at"].dt.date()) == [day(0), day(8), day(9)]


def _keep(home: Home, source: str, body: bytes, number: int) -> str:
    """Archive a list as fetched at noon of a day; gives its digest. Its check is at the present moment."""
    kept = Archive(home.archive).put(
        Document(source, "list", f"https://{source}.example", "application/json", moment(number), io.BytesIO(body))
    )
    return kept.payload_sha256


def test_steady_providers_stay_in_the_panel_beyond_the_carry(home: Path):
    """Five lists never change, the sixth does every day: on day 9 all six are seen, and one raise of 2 % moves all."""
    where = Home.at(home).prepare()
    rows = []
    for place, name in enumerate("abcde"):
        digest = _keep(where, f"gpu-prices/{name}", name.encode(), 0)
        rows.append(
            listed(name, 2.0 + place / 10, source=f"gpu-prices/{name}", payload_sha256=digest, known_at=moment(0))
        )
    for number in range(10):
        digest = _keep(where, "gpu-prices/f", f"f{number}".encode(), number)
        rows.append(
            offer(
                number,
                "f",
                2.5 * 1.02**number,
                source="gpu-prices/f",
                payload_sha256=digest,
                retrieved_at=moment(number),
            )
        )
    land(Lake(where.lake), GpuOffer, "test", [Part("p", "p", None, frame(rows))], load_id="l", version=1)
    refresh_prices(where, now=moment(6, 1))
    refresh_prices(where, now=moment(10, 1))
    lake = Lake(where.lake)
    last = lake.scan(GpuPriceIndex).filter(pl.col("series") == SERIES, pl.col("date") == day(9)).collect()
    assert last["provider_count"].to_list() == [6]
    assert last["carried_count"].to_list() == [0]
    assert last["matched_count"].to_list() == [6]
    assert last["index_value"].to_list() == pytest.approx([100 * 1.02 ** (9 / 6)])
    daily = lake.scan(GpuPriceDaily).filter(pl.col("provider") == "a").collect()
    assert sorted(daily["date"]) == [day(number) for number in range(10)]
    assert set(daily["observed_usd_per_gpu_hour"]) == {2.0}


def test_a_list_that_is_no_longer_read_leaves_after_the_carry(home: Path):
    where = Home.at(home).prepare()
    rows = [offer(number, "f", 2.5, source="gpu-prices/f", retrieved_at=moment(number)) for number in range(9)]
    rows.append(listed("a", 2.0))
    land(Lake(where.lake), GpuOffer, "test", [Part("p", "p", None, frame(rows))], load_id="l", version=1)
    refresh_prices(where, now=moment(9, 1))
    daily = Lake(where.lake).scan(GpuPriceDaily).filter(pl.col("provider") == "a").collect().sort("date")
    assert daily["date"].to_list() == [day(0), day(1), day(2), day(3)]
    assert daily["is_carried"].to_list() == [False, True, True, True]
