"""Nothing is lost, nothing is doubled: the promises of ingest, each on the whole way from spool to published file.

The reliability list by number: 1 replay, 2 kill and two at once, 5 full disk, 6 outage, 7 late and shuffled (and
telemetry/spool/test_telemetry_rollup.py), 8 clock (and test_ingest.py), 15 counts, here. 3 truncation at every byte and
4 flipped bits: telemetry/spool/test_spool_damage.py; 3 the stated time to the disk and 5 at the writer:
test_spool_files.py beside it. 14 older formats: formats/.
"""

from __future__ import annotations

import datetime as dt
import errno
import random
import shutil
from pathlib import Path

import pytest

from assets import telemetry_files, waiting
from assets.ingest import ingest
from assets.rollup import roll_up
from ingest.killing import hashes, settle, start
from ingest.segments import START_US, event, link, reading, samples, write_segment
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.ledger import copy_commits
from warehouse.schema.ops import LoadRecord
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_rollups import GpuHour

KILLED = -9
NODES = ("n1", "n2", "n3")
# In the order in which a run meets them, so that each restart gets one step further than the one before.
POINTS = (
    "land:candidate-written",
    "land:gate-passed",
    "land:quarantine-written",
    "land:committed",
    "ingest:committed-one-table",
    "land:committed#2",
    "ingest:before-retire",
    "rollup:minutes-committed",
    "growth:span-committed",
    "publish:ledger-written",
    "publish:built",
    "publish:swapped",
)


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two segments of each of three nodes, an hour apart, with an event and a reading of a link each."""
    folder = tmp_path_factory.mktemp("spool")
    return [
        write_segment(
            folder, node, range(start, start + 200, 10), records=[event(start + 5, node), link(start + 5, node)]
        )
        for node in NODES
        for start in (0, 3600)
    ]


@pytest.fixture(scope="module")
def expected(spool: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one undisturbed run makes of all of them."""
    home = given(tmp_path_factory.mktemp("calm"), spool)
    assert settle(home) == 0
    told = hashes(home)
    assert told["telemetry.gpu_samples"].startswith("240:")
    assert told["telemetry.gpu_events"].startswith("6:")
    assert told["telemetry.link_counters"].startswith("6:")
    return told


def given(root: Path, segments: list[Path]) -> Home:
    home = Home(root / "home")
    home.root.mkdir(parents=True, exist_ok=True)
    home.prepare()
    for path in segments:
        shutil.copy2(path, home.inbox / path.name)
    return home


def test_replay_in_any_order_and_in_any_portions_gives_the_same_content(
    tmp_path: Path, spool: list[Path], expected: dict[str, str]
) -> None:
    order = list(spool)
    random.Random(3).shuffle(order)
    home = given(tmp_path, order[:2])
    assert settle(home) == 0
    # The rest comes late, and with it copies of what has landed.
    given(tmp_path, [*order[2:], order[0]])
    assert settle(home) == 0
    assert hashes(home) == expected


def test_a_kill_at_any_point_and_a_restart_lose_and_double_nothing(
    tmp_path: Path, spool: list[Path], expected: dict[str, str]
) -> None:
    home = given(tmp_path, spool)
    for point in POINTS:
        assert settle(home, point) == KILLED, f"the run did not reach {point}"
    assert settle(home) == 0
    assert hashes(home) == expected
    assert len(list((home.archive / "spool").glob("*.seg"))) == len(spool)
    assert list(home.inbox.iterdir()) == []


def test_two_ingests_at_once_land_everything_once(tmp_path: Path, spool: list[Path], expected: dict[str, str]) -> None:
    home = given(tmp_path, spool)
    both = [start(home), start(home)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert settle(home) == 0
    assert hashes(home) == expected


def test_a_truncated_segment_gives_what_is_whole_and_keeps_nothing_else_from_landing(tmp_path: Path) -> None:
    home = given(tmp_path, [])
    torn = write_segment(home.inbox, "n1", range(10))
    write_segment(home.inbox, "n2", range(10))
    body = torn.read_bytes()
    torn.write_bytes(body[: len(body) * 2 // 3])
    report = ingest(home)
    found = samples(home)
    assert found.filter(node="n2").height == 20
    assert 0 < found.filter(node="n1").height < 20
    assert any("damaged places" in line for line in report.complaints())
    torn.write_bytes(body[:20])  # not even the header is left
    report = ingest(home)
    assert any("no readable header" in line or "damaged places" in line for line in report.complaints())
    assert samples(home).equals(found)


def test_a_full_disk_leaves_no_half_file_and_everything_lands_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = given(tmp_path, [])
    write_segment(home.inbox, "n1", range(10))

    def full(_table: object, path: Path, **_options: object) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(telemetry_files.pq, "write_table", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                ingest(home)
    assert list(Lake(home.lake).path(GpuSample).rglob("*.parquet")) == []
    assert len(list(home.inbox.glob("*.seg"))) == 1
    assert ingest(home).rows_landed == 20
    assert list(home.inbox.glob("*.seg")) == []


def test_a_day_of_outage_drains_oldest_first_and_reconciles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = given(tmp_path, [])
    for hour in reversed(range(24)):
        write_segment(home.inbox, "n1", range(hour * 3600, hour * 3600 + 3600, 60), gpus=("a",))
    size = max(p.stat().st_size for p in home.inbox.glob("*.seg"))
    monkeypatch.setattr(waiting, "BATCH_BYTES", 8 * size)
    report = ingest(home)
    assert report.segments == 24
    commits = [c for c in Lake(home.lake).history(GpuSample) if c["status"] == "landed"]
    assert [c["stats"][""]["from_at"][:13] for c in commits] == ["2026-11-01T00", "2026-11-01T08", "2026-11-01T16"]
    assert [(c["read"], c["landed"], c["rejected"], c["duplicate"]) for c in commits] == [(480, 480, 0, 0)] * 3
    assert samples(home).height == 24 * 60  # a sample a minute
    copy_commits(Lake(home.lake))
    ledger = Lake(home.lake).scan(LoadRecord).filter(table_name="telemetry.gpu_samples").collect().sort("delta_version")
    assert ledger["rows_landed"].to_list() == [480] * 3
    assert ledger["observed_to_at"].dt.hour().to_list() == [7, 15, 23]  # what the lag is counted from
    roll_up(home)
    hours = Lake(home.lake).scan(GpuHour).collect()
    # 400 W all day; the last minute of the day has no sample to end it.
    assert hours["energy_j"].sum() == pytest.approx(400.0 * (24 * 3600 - 60))
    assert hours["sample_count"].to_list() == [60] * 24


def test_a_clock_that_steps_back_keeps_every_reading_and_invents_no_energy(tmp_path: Path) -> None:
    home = given(tmp_path, [])
    # Ten seconds pass, then the clock is set back by five and a half: the same seconds are told again, between.
    forward = {tick: reading(tick) | {"power_limit_w": 700.0} for tick in range(10)}
    segment = write_segment(home.inbox, "n1", range(10), gpus=("a",), rows=forward, columns=_columns())
    assert segment.exists()
    again = [(START_US + 4_500_000 + k * 1_000_000, reading(10 + k) | {"power_limit_w": 700.0}) for k in range(10)]
    _write_at(home.inbox, again)
    assert ingest(home).rows_landed == 20
    found = samples(home)
    assert found["sampled_at"].is_sorted()
    assert found.height == 20
    roll_up(home)
    (energy,) = Lake(home.lake).scan(GpuHour).collect()["energy_j"]
    assert energy == pytest.approx(400.0 * 13.5)  # from 0 s to 13.5 s at 400 W


def test_the_same_seconds_told_twice_by_a_stepped_clock_are_counted_as_repeats(tmp_path: Path) -> None:
    home = given(tmp_path, [])
    write_segment(home.inbox, "n1", [*range(10), *range(5, 15)], gpus=("a",))
    (landed,) = ingest(home).landed
    assert (landed.counts.read, landed.counts.landed, landed.counts.duplicate) == (20, 15, 5)
    assert samples(home)["sampled_at"].diff().drop_nulls().unique().to_list() == [dt.timedelta(seconds=1)]


def _columns():
    from ingest.segments import COLUMNS
    from sources.telemetry.spool_format import Column

    return (*COLUMNS, Column("power_limit_w", "f8", "W"))


def _write_at(folder: Path, rows: list[tuple[int, dict[str, float]]]) -> None:
    from sources.telemetry.spool import SpoolWriter

    with SpoolWriter(
        folder, cluster="c1", node="n1", source="nvml", is_synthetic=False, columns=_columns(), clock=lambda: 0.0
    ) as spool:
        for at_us, values in rows:
            spool.samples(at_us, [("GPU-n1-a", values)])
