"""Compaction, retention and vacuum: fewer files, the same content."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import polars as pl
import pytest

from assets import maintenance
from assets.ingest import ingest
from assets.maintenance import maintain, tidy
from assets.publish import publish_home
from assets.rollup import roll_up
from ingest.segments import samples, write_segment
from warehouse.errors import WarehouseError
from warehouse.fingerprint import fingerprint
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_rollups import GpuHour

DAY = dt.date(2026, 11, 1)
AFTER = DAY + dt.timedelta(days=1)


@pytest.fixture
def house(home: Path) -> Home:
    """Four loads of one day: four files."""
    house = Home(home).prepare()
    for start in (300, 0, 200, 100):
        write_segment(house.inbox, "n2" if start < 150 else "n1", range(start, start + 100, 10))
        ingest(house)
    return house


def files(house: Home) -> list[str]:
    return Lake(house.lake).open(GpuSample).file_uris()


def test_a_finished_day_becomes_one_sorted_file_with_the_same_rows(house: Home) -> None:
    before = samples(house)
    done = maintain(house, today=AFTER)
    assert (done.files_before, done.files_after) == (4, 1)
    assert len(files(house)) == 1
    assert samples(house).equals(before)
    assert (
        Lake(house.lake)
        .scan(GpuSample)
        .select("node", "gpu_uuid", "sampled_at")
        .collect()
        .equals(before.select("node", "gpu_uuid", "sampled_at"))
    )
    assert maintain(house, today=AFTER).files_before == 0


def test_a_day_that_is_not_over_is_left_alone(house: Home) -> None:
    maintain(house, today=DAY)
    assert len(files(house)) == 4


def test_many_small_files_of_a_day_that_goes_on_are_merged_and_a_large_one_is_not_touched(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MANY_FILES", 4)
    before = samples(house)
    tidy(house)
    (large,) = files(house)
    assert samples(house).equals(before)
    monkeypatch.setattr(maintenance, "SMALL_ROWS", 60)  # the merged file has 80 rows
    counts = []
    for start in range(400, 800, 100):
        write_segment(house.inbox, "n1", range(start, start + 100, 10))
        ingest(house)
        tidy(house)
        counts.append(len(files(house)))
    assert counts == [2, 3, 4, 2]  # four small ones become one
    assert large in files(house)
    assert samples(house).height == 160


def test_compaction_computes_nothing_again_and_publishes_the_same(house: Home) -> None:
    roll_up(house)
    publish_home(house)
    before = fingerprint(house.database)
    maintain(house, today=AFTER)
    assert roll_up(house) == {"telemetry.gpu_minutes": 0, "telemetry.gpu_hours": 0}
    publish_home(house)
    assert fingerprint(house.database) == before


def test_a_compaction_that_another_load_overtook_leaves_everything_as_it_is(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(house.inbox, "n3", range(10))

    def overtaken(point: str) -> None:
        if point == "maintenance:rewritten":
            ingest(house)

    monkeypatch.setattr(maintenance, "fault_point", overtaken)
    assert maintain(house, today=AFTER).files_after == 0
    assert samples(house).height == 4 * 20 + 20
    on_disk = {str(p) for p in Lake(house.lake).path(GpuSample).rglob("*.parquet")}
    assert len(on_disk) == len(files(house)) == 5


@pytest.mark.parametrize("after_the_commit", [True, False])
def test_an_interruption_around_the_commit_loses_no_row(
    house: Home, monkeypatch: pytest.MonkeyPatch, after_the_commit: bool
) -> None:
    before = samples(house)
    exchange = maintenance._exchange

    def interrupted(*given: object) -> bool:
        if after_the_commit:
            assert exchange(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "_exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            maintain(house, today=AFTER)
    assert samples(house).equals(before)
    on_disk = list(Lake(house.lake).path(GpuSample).rglob("*.parquet"))
    assert len(on_disk) == (5 if after_the_commit else 4)  # those replaced go with the next vacuum


def test_vacuum_spares_a_week_and_what_the_published_file_names(house: Home) -> None:
    publish_home(house)
    before = fingerprint(house.database)["telemetry.gpu_samples"]
    maintain(house, today=AFTER)
    folder = Lake(house.lake).path(GpuSample)
    assert len(list(folder.rglob("*.parquet"))) == 5
    long_ago = (dt.datetime.now(dt.UTC) - dt.timedelta(days=30)).timestamp()
    orphan = next(folder.glob("date=*")) / "part-orphan.zstd.parquet"
    orphan.write_bytes(b"left by a crash")
    for path in folder.rglob("*.parquet"):
        os.utime(path, (long_ago, long_ago))
    done = maintain(house, today=AFTER)
    assert done.files_deleted == 1  # the orphan
    assert not orphan.exists()
    assert fingerprint(house.database)["telemetry.gpu_samples"] == before


def test_old_checkpoints_are_deleted_but_the_newest_and_every_version_stays_readable(house: Home) -> None:
    lake = Lake(house.lake)
    log = lake.path(GpuSample) / "_delta_log"
    counts = []
    for node in ("n7", "n8", "n9"):
        lake.open(GpuSample).create_checkpoint()
        counts.append((lake.open(GpuSample).version(), samples(house).height))
        write_segment(house.inbox, node, range(5))
        ingest(house)
    first, second, newest = sorted(log.glob("*.checkpoint.parquet"))
    long_ago = (dt.datetime.now(dt.UTC) - dt.timedelta(days=8)).timestamp()
    for path in (first, newest):
        os.utime(path, (long_ago, long_ago))
    maintain(house, today=DAY)
    assert sorted(log.glob("*.checkpoint.parquet")) == [second, newest]
    (log / "_last_checkpoint").write_text(f'{{"version": {int(second.name[:20])}, "size": 1}}')
    os.utime(second, (long_ago, long_ago))
    maintain(house, today=DAY)
    assert second.exists()  # readers are sent there
    for version, rows in counts:
        assert pl.scan_delta(str(lake.path(GpuSample)), version=version).collect().height == rows
    assert samples(house).height == counts[-1][1] + 10


def test_days_past_the_retention_are_forgotten_and_their_hours_stay(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_up(house)
    monkeypatch.setenv("ALMANAC_KEEP_SAMPLES_DAYS", "7")
    maintain(house, today=DAY + dt.timedelta(days=7))
    assert samples(house).height == 80
    done = maintain(house, today=DAY + dt.timedelta(days=8))
    assert done.days_forgotten == {"telemetry.gpu_samples": 1}
    assert samples(house).height == 0
    assert Lake(house.lake).scan(GpuHour).collect().height == 4
    # A straggler of a forgotten day must not replace its good hours with what little it holds.
    monkeypatch.setattr("assets.rollup.today", lambda: DAY + dt.timedelta(days=8))
    write_segment(house.inbox, "n1", [250])
    ingest(house)
    roll_up(house)
    hours = Lake(house.lake).scan(GpuHour).collect()
    assert hours.filter(node="n1")["sample_count"].to_list() == [20, 20]


def test_a_retention_that_is_no_number_is_refused(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALMANAC_KEEP_SAMPLES_DAYS", "a week")
    with pytest.raises(WarehouseError, match="ALMANAC_KEEP_SAMPLES_DAYS"):
        maintain(house)


def test_the_job_runs_in_dagster(house: Home) -> None:
    from pipelines.definitions import defs

    job = defs.resolve_job_def("maintenance")
    result = job.execute_in_process(run_config={"resources": {"home": {"config": {"path": str(house.root)}}}})
    (output,) = result.get_step_success_events()
    assert output.step_key == "maintain_lake"
    assert len(files(house)) == 1
