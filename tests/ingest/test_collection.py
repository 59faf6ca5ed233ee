"""`ops.collection`: lag and completeness of what two nodes told, worked out by hand."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from assets.collection import collection
from assets.ingest import ingest
from assets.landing import Part, land
from assets.publish import publish_home
from assets.rollup import roll_up
from ingest.segments import START_US, samples, write_segment
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.ledger import copy_commits
from warehouse.schema.ops import LoadRecord
from warehouse.schema.telemetry import GpuSample

HOUR = 3600
START = dt.datetime.fromtimestamp(START_US / 1e6, dt.UTC)


def test_without_telemetry_there_is_no_row(home: Path) -> None:
    assert collection(Lake(Home(home).prepare().lake)).is_empty()


def test_lag_and_gaps_of_each_node_stand_in_ops(home: Path) -> None:
    house = Home(home).prepare()
    # n1 tells three hours and a half of two GPUs every ten seconds, but for half of the second hour; in the last
    # hour GPU b is gone. n2 stops two hours before.
    write_segment(house.inbox, "n1", [*range(0, HOUR, 10), *range(HOUR + 1800, 3 * HOUR, 10)])
    write_segment(house.inbox, "n1", range(3 * HOUR, 3 * HOUR + 1800, 10), gpus=("a",))
    write_segment(house.inbox, "n2", range(0, HOUR + 1800, 10))
    before = dt.datetime.now(dt.UTC)
    ingest(house)
    roll_up(house)
    publish_home(house)
    after = dt.datetime.now(dt.UTC)
    with duckdb.connect(str(house.database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        found = con.sql("select * from ops.collection order by node").pl().to_dicts()
        gaps = con.sql("select gpu_uuid, from_at, missing_seconds from mart.collection_gaps order by all").fetchall()
    first, second = found
    assert (first["cluster"], first["node"], first["source"], first["is_synthetic"]) == ("c1", "n1", "nvml", False)
    assert first["first_hour_at"] == START
    assert first["last_minute_at"] == START + dt.timedelta(hours=3, minutes=29)
    assert second["last_minute_at"] == START + dt.timedelta(hours=1, minutes=29)
    assert (first["behind_seconds"], second["behind_seconds"]) == (0.0, 2.0 * HOUR)
    assert (first["gpus"], first["gpus_before"]) == (1, 2)
    assert (second["gpus"], second["gpus_before"]) == (2, 2)
    # Inner hours of n1 are the second, half of which is missing, and the third, which GPU b ends ten seconds early.
    assert first["covered_ratio"] == pytest.approx((2 * 1800 + HOUR + HOUR - 10) / (2 * 2 * HOUR))
    assert second["covered_ratio"] is None  # no whole hour lies between its first and its last
    assert before <= first["landed_at"] <= after
    lag = (first["landed_at"] - START).total_seconds() - 3 * HOUR - 30 * 60
    assert abs(first["lag_seconds"] - lag) < 0.01
    hour = START + dt.timedelta(hours=1)
    assert gaps == [("GPU-n1-a", hour, 1800.0), ("GPU-n1-b", hour, 1800.0)]


def test_the_minute_of_a_node_landed_with_a_load_of_that_node(home: Path) -> None:
    house = Home(home).prepare()
    write_segment(house.inbox, "n1", range(0, 120, 10))
    ingest(house)
    first = dt.datetime.now(dt.UTC)
    time.sleep(0.01)  # commits are told to the millisecond
    write_segment(house.inbox, "n2", range(0, 120, 10))
    ingest(house)
    n1, n2 = _collected(house)
    assert n1["landed_at"] < first < n2["landed_at"]


def test_equal_names_of_nodes_in_two_clusters_are_told_apart(home: Path) -> None:
    house = Home(home).prepare()
    write_segment(house.inbox, "n1", range(0, 120, 10), cluster="c1")
    ingest(house)
    between = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    write_segment(house.inbox, "n1", range(0, 60, 10), cluster="c2")
    write_segment(house.inbox, "n1", range(60, 120, 10), cluster="c2")
    ingest(house)
    c1, c2 = sorted(_collected(house), key=lambda row: str(row["cluster"]))
    assert (c1["cluster"], c1["node"], c2["cluster"], c2["node"]) == ("c1", "n1", "c2", "n1")
    assert c1["landed_at"] < between < c2["landed_at"]
    loads = Lake(house.lake).scan(LoadRecord).filter(table_name="telemetry.gpu_samples").collect()
    assert loads["observed_places"].to_list() == ["c1/n1", "c2/n1"]


def test_rows_of_loaded_documents_have_a_landing_time_and_a_lag_too(home: Path) -> None:
    house = Home(home).prepare()
    write_segment(house.inbox, "n1", range(0, 120, 10))
    ingest(house)
    lake = Lake(house.lake)
    rows = samples(house).with_columns(pl.lit("prometheus").alias("source"))
    before = dt.datetime.now(dt.UTC)
    land(lake, GpuSample, "prometheus", [Part("p", "s", None, rows)], load_id="x", version=1)
    loaded = next(row for row in _collected(house) if row["source"] == "prometheus")
    assert loaded["landed_at"] >= before - dt.timedelta(milliseconds=1)
    lag = (loaded["landed_at"] - START).total_seconds() - 120
    assert abs(loaded["lag_seconds"] - lag) < 0.01


def _collected(house: Home) -> list[dict[str, Any]]:
    roll_up(house)
    copy_commits(Lake(house.lake))
    return collection(Lake(house.lake)).sort("node", "source").to_dicts()
