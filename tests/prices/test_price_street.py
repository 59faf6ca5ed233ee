"""A price feed on the whole street: good lists land, broken ones do not, and the last good price stays."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import polars as pl
import pytest

from assets.publish import publish_home
from assets.street import StreetReport, receive
from sources.registry import source_named
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.prices import GpuOffer

from .loading import fixture

GOOD = """generated_at,git_commit,region,instance_type,ondemand_usd_per_instance_hour
{day}T06:00:00Z,aaa,us-east-1,p5.48xlarge,{p5}
{day}T06:00:00Z,aaa,us-east-1,p4d.24xlarge,{p4d}
{day}T06:00:00Z,aaa,us-east-1,p4de.24xlarge,{p4de}
{day}T06:00:00Z,aaa,us-east-1,g6e.xlarge,{g6e}
{day}T06:00:00Z,aaa,us-east-1,p3.2xlarge,{p3}
"""
PRICES = {"p5": 55.04, "p4d": 21.957642, "p4de": 27.44705, "g6e": 1.861, "p3": 3.06}


@pytest.fixture
def at(home: Path) -> Home:
    return Home.at(home).prepare()


def _list(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def _day(folder: Path, day: str, factor: float = 1.0) -> Path:
    prices = {name: f"{value * factor:.6f}" for name, value in PRICES.items()}
    return _list(folder, f"{day}.csv", GOOD.format(day=day, **prices))


def _load(at: Home, source: str, *paths: Path) -> StreetReport:
    chosen = source_named(source)
    return receive(at, chosen, chosen.read(paths, {}))


def _p5(at: Home) -> list[float]:
    rows = Lake(at.lake).scan(GpuOffer).filter(pl.col("sku") == "p5.48xlarge").sort("observed_at").collect()
    return rows["price_usd_per_gpu_hour"].to_list()


def test_broken_lists_land_nothing_and_the_last_good_price_stays(at: Home, tmp_path: Path) -> None:
    folder = tmp_path / "lists"
    assert _load(at, "gpu-prices/aws", _day(folder, "2026-10-01")).unreadable == []
    assert _p5(at) == pytest.approx([6.88])
    broken = [
        _day(folder, "2026-10-02", 1 / 8),  # prices per GPU where they were per machine
        _list(folder, "2026-10-03.csv", "<!DOCTYPE html><html><body>Access denied</body></html>"),
        _list(folder, "2026-10-04.csv", "generated_at,git_commit,region,instan"),
    ]
    for path in broken:
        report = _load(at, "gpu-prices/aws", path)
        assert [url for url, _ in report.unreadable] == [f"file:{path.name}"]
        assert _p5(at) == pytest.approx([6.88])
    _load(at, "gpu-prices/aws", _day(folder, "2026-10-05", 1.02))
    assert _p5(at) == pytest.approx([6.88, 6.88 * 1.02])


def test_the_same_list_again_adds_nothing(at: Home, tmp_path: Path) -> None:
    path = _day(tmp_path / "lists", "2026-10-01")
    _load(at, "gpu-prices/aws", path)
    again = _load(at, "gpu-prices/aws", path)
    assert again.landed == []
    assert len(_p5(at)) == 1


def test_a_frozen_list_grows_stale_while_it_is_read_again(at: Home, tmp_path: Path) -> None:
    """The same bytes move `checked_at` and nothing else: freshness counts from the last landing."""
    path = _day(tmp_path / "lists", "2026-10-01")
    told = []
    for _ in range(2):
        _load(at, "gpu-prices/aws", path)
        publish_home(at)
        with duckdb.connect(str(at.database), read_only=True) as con:
            source = "select last_landed_at, stale_after_at from ops.sources where source = 'gpu-prices/aws'"
            payload = "select checked_at, retrieved_at from ops.payloads where source = 'gpu-prices/aws'"
            told.append((*con.execute(source).fetchall(), *con.execute(payload).fetchall()))
    ((landed, stale), (checked, _)), (fresh, (again, retrieved)) = told
    assert stale - landed == dt.timedelta(days=3)
    assert fresh == (landed, stale)
    assert retrieved < checked < again
    assert _p5(at) == pytest.approx([6.88])


def test_offers_in_euro_use_the_rates_that_have_landed(at: Home) -> None:
    _load(at, "fx-ecb", fixture("fx-ecb", "eurofxref-hist-90d.xml"))
    _load(at, "gpu-prices/scaleway", fixture("gpu-prices/scaleway", "fr-par-2_2026-11-03.json"))
    rows = Lake(at.lake).scan(GpuOffer).sort("sku").collect()
    assert rows["price_usd_per_gpu_hour"].to_list() == pytest.approx([2.73 * 1.2, 0.75 * 1.2])
    assert rows["fx_source"].to_list() == ["fx-ecb", "fx-ecb"]


def _in_days(count: int) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(days=count)).date().isoformat()


def test_a_list_that_speaks_of_the_future_lands_nothing(at: Home, tmp_path: Path) -> None:
    report = _load(at, "gpu-prices/aws", _day(tmp_path / "lists", _in_days(3)))
    assert "observed_in_the_future" in next(iter(report.complaints()))
    assert _p5(at) == []


def test_a_day_that_has_begun_elsewhere_lands(at: Home, tmp_path: Path) -> None:
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(hours=14)
    text = GOOD.format(day=moment.date(), **PRICES).replace("T06:00:00Z", f"T{moment:%H:%M:%S}Z")
    report = _load(at, "gpu-prices/aws", _list(tmp_path / "lists", "list.csv", text))
    assert list(report.complaints()) == []
    assert _p5(at) == [pytest.approx(55.04 / 8)]
