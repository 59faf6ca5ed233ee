"""Ids of what has landed: asked for many at once, forgotten after a while, and never landed twice for that."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from ingest.segments import event, samples, write_segment

from assets.ingest import ingest
from sources.telemetry.segment import read_segment
from warehouse import lake as module
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_fleet import GpuEvent
from warehouse.transactions import committed
from warehouse.watermarks import marks_for

LOAD = Load("l", "nvml", Counts())
DAY_MS = 86_400_000
ODD = 'with "quotes", a \\ and ü'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def land(lake: Lake, *ids: str) -> DeltaTable:
    assert lake.commit_files(GpuSample, list(ids), [], LOAD)
    return lake.open(GpuSample)


def test_ids_are_found_in_the_log_in_a_checkpoint_and_after_it(lake: Lake) -> None:
    land(lake, "a", ODD)
    assert lake.landed(GpuSample, ["a", ODD, "b", ""]) == {"a", ODD}
    land(lake, "b").create_checkpoint()
    assert lake.landed(GpuSample, ["a", ODD, "b", "c"]) == {"a", ODD, "b"}
    table = land(lake, "c")
    assert lake.landed(GpuSample, ["a", ODD, "b", "c", "d"]) == {"a", ODD, "b", "c"}
    told = committed(lake.path(GpuSample), table.version(), ["a", ODD, "b", "c", "d"])
    assert told == {i: table.transaction_version(i) for i in ("a", ODD, "b", "c")}


def test_a_number_committed_again_counts_as_it_was_last(lake: Lake) -> None:
    for number in (3, 7):
        lake.commit(GpuSample, [], lambda _h, _t: (samples_schema(), LOAD), versions={"parser:x": number})
        lake.open(GpuSample).create_checkpoint()
    lake.commit(GpuSample, [], lambda _h, _t: (samples_schema(), LOAD), versions={"parser:x": 9})
    root, version = lake.path(GpuSample), lake.open(GpuSample).version()
    assert [committed(root, version - back, ["parser:x"])["parser:x"] for back in (0, 1, 2)] == [9, 7, 3]


def samples_schema() -> pl.DataFrame:
    return pl.DataFrame(schema=lake_schema(GpuSample))


def test_an_older_handle_is_told_of_its_own_version(lake: Lake) -> None:
    old = land(lake, "a").version()
    land(lake, "b").create_checkpoint()  # newer than what the handle knows
    assert set(committed(lake.path(GpuSample), old, ["a", "b"])) == {"a"}


def test_a_lost_or_wrong_hint_of_the_checkpoint_costs_nothing(lake: Lake) -> None:
    land(lake, "a").create_checkpoint()
    hint = lake.path(GpuSample) / "_delta_log" / "_last_checkpoint"
    root, version = lake.path(GpuSample), land(lake, "b").version()
    for body in (b"{", b'{"version": 999, "size": 1}', b'{"version": 1, "size": 1, "parts": 3}'):
        hint.write_bytes(body)
        assert set(committed(root, version, ["a", "b", "c"])) == {"a", "b"}
    hint.unlink()
    assert set(committed(root, version, ["a", "b", "c"])) == {"a", "b"}


def test_a_checkpoint_in_parts_is_read_whole_or_not_at_all(lake: Lake) -> None:
    table = land(lake, "a", "b")
    table.create_checkpoint()
    log = lake.path(GpuSample) / "_delta_log"
    (whole,) = log.glob("*.checkpoint.parquet")
    rows = pl.read_parquet(whole)
    stem = f"{table.version():020d}.checkpoint"
    for part in (1, 2):
        half = rows.slice(0, 3) if part == 1 else rows.slice(3)
        half.write_parquet(log / f"{stem}.{part:010d}.{2:010d}.parquet")
    whole.unlink()
    (log / "_last_checkpoint").unlink()
    assert set(committed(lake.path(GpuSample), table.version(), ["a", "b"])) == {"a", "b"}
    (log / f"{stem}.{2:010d}.{2:010d}.parquet").unlink()  # then the log itself tells
    assert set(committed(lake.path(GpuSample), table.version(), ["a", "b"])) == {"a", "b"}


def test_thousands_of_ids_are_asked_for_in_a_moment(lake: Lake) -> None:
    ids = [f"segment:{k:032x}" for k in range(8000)]
    land(lake, *ids[:4000])
    begun = time.perf_counter()
    assert len(lake.landed(GpuSample, ids)) == 4000
    assert time.perf_counter() - begun < 3  # one by one: twenty seconds and more


def test_a_table_from_before_the_retention_is_given_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "CONFIGURATION", {"delta.logRetentionDuration": "interval 3650 days"})
        land(lake, "a")
    told = lake.open(GpuSample).metadata().configuration
    assert told["delta.setTransactionRetentionDuration"] == "interval 8 days"
    assert told["delta.logRetentionDuration"] == "interval 3650 days"
    version = lake.open(GpuSample).version()
    assert lake.open(GpuSample).version() == version
    assert lake.landed(GpuSample, ["a"]) == {"a"}


def test_a_segment_that_comes_again_after_its_id_was_forgotten_lands_nothing_twice(home: Path) -> None:
    house = Home(home).prepare()
    path = write_segment(house.inbox, "n1", range(10), records=[event(3, "n1")])
    body = path.read_bytes()
    ingest(house)
    before = samples(house)
    lake = Lake(house.lake)
    mark = f"segment:{read_segment(body).segment_id}"
    assert lake.landed(GpuSample, [mark]) == {mark}
    # Its run as it is 9 days later: told with an older time, it is left out of the next checkpoint.
    table = lake.open(GpuSample)
    ((run, last),) = marks_for([mark], {}).items()
    old = Transaction(run, last, int(time.time() * 1000) - 9 * DAY_MS)
    table.create_write_transaction(
        [], "append", table.schema(), ["date"], commit_properties=CommitProperties(app_transactions=[old])
    )
    lake.open(GpuSample).create_checkpoint()
    assert lake.landed(GpuSample, [mark]) == set()
    path.write_bytes(body)
    report = ingest(house)
    counts = {one.table: one.counts for one in report.landed}
    assert (counts["telemetry.gpu_samples"].read, counts["telemetry.gpu_samples"].duplicate) == (20, 20)
    assert counts["telemetry.gpu_events"].landed == 0
    assert samples(house).equals(before)
    assert lake.scan(GpuEvent).collect().height == 1
    assert not report.failed
