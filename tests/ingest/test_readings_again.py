"""Readings that come again are known, however many landed before them and however finely their time is told."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl

from assets.landing import Part, land
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry_fleet import PowerReading

START = dt.datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=dt.UTC)


def readings(at: list[dt.datetime]) -> pl.DataFrame:
    """One meter of 5,000 W at each instant."""
    rows = [
        {"sampled_at": t, "cluster": "c1", "scope": "rack", "device": "r-1", "source": "redfish", "power_w": 5000.0}
        | {"is_synthetic": False}
        for t in at
    ]
    return pl.DataFrame(rows, schema_overrides={k: v for k, v in lake_schema(PowerReading).items() if k in rows[0]})


def landed(home: Path, name: str, at: list[dt.datetime]) -> int:
    part = Part(name, "c1", None, readings(at))
    return land(Lake(Home(home).lake), PowerReading, "redfish", [part], load_id=name, version=1).counts.landed


def test_the_last_microsecond_of_a_file_is_known_again(home: Path):
    Home(home).prepare()
    earlier = [START + dt.timedelta(seconds=s) for s in range(3)]
    assert landed(home, "first", earlier) == 3
    assert landed(home, "second", [START + dt.timedelta(days=1)]) == 1
    assert landed(home, "again", [earlier[-1]]) == 0
    assert landed(home, "again and more", [earlier[-1], START + dt.timedelta(seconds=9)]) == 1
    assert Lake(Home(home).lake).scan(PowerReading).collect().height == 5
