"""`almanac ingest --follow`: rows and events of a spool that grows, and what failures cost."""

from __future__ import annotations

import datetime as dt
import errno
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.ingest_report import IngestReport
from ingest.segments import samples, write_segment
from warehouse.home import Home
from warehouse.publish import Published

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dagster as dg

    from assets.published import DATABASE
    from assets.telemetry import ROLLED, SPOOL, key_of
    from pipelines import following, history, jobs
    from pipelines.main_job import instance_ref

SAMPLES = key_of("telemetry.gpu_samples")


@pytest.fixture
def house(home: Path) -> Home:
    return Home(home).prepare()


@contextmanager
def history_of(home: Home) -> Iterator[dg.DagsterInstance]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dg.DagsterInstance.from_ref(instance_ref(home)) as instance:
            yield instance


def told(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[dict[str, Any]]:
    """Metadata of an asset's materialisations, newest first."""
    records = instance.fetch_materializations(key, limit=100).records
    return [
        {n: v.value for n, v in r.asset_materialization.metadata.items()} for r in records if r.asset_materialization
    ]


def passed(instance: dg.DagsterInstance, severity: str) -> bool:
    key = dg.AssetCheckKey(SAMPLES, severity)
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert record.evaluation is not None
    return record.evaluation.passed


def published(home: Home, table: str = "telemetry.gpu_samples") -> int:
    with duckdb.connect(str(home.database), read_only=True) as con:
        return int(con.sql(f"select count(*) from {table}").fetchall()[0][0])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishing takes seconds, and is not what most of these are about."""
    monkeypatch.setattr(
        following, "publish_home", lambda _home, _since: Published("build", {"telemetry.gpu_samples": 1})
    )


class Following:
    """A follower in this process: each line it says or complains is kept; `until` lines of a kind stop it."""

    def __init__(self, home: Home, until: str, *, places: tuple[str, ...] = ()) -> None:
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self._stop, self._until = threading.Event(), until
        self._follower = following.Follower(
            home, [home.spool, home.inbox], places, accept=False, say=self._say, complain=self._complain
        )

    def __call__(self) -> int:
        guard = threading.Timer(60, self._stop.set)
        guard.start()
        try:
            return self._follower.run(0.05, self._stop)
        finally:
            guard.cancel()

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self._heard(line)

    def _complain(self, line: str) -> None:
        self.complaints.append(line)
        self._heard(line)

    def _heard(self, line: str) -> None:
        if self._until in line:
            self._stop.set()


def test_a_growing_spool_becomes_rows_and_events_until_sigterm(house: Home) -> None:
    command = [sys.executable, "-m", "pipelines.cli", "ingest", "--follow", "--every", "0.2", "--home", str(house.root)]
    elsewhere = os.environ | {"DAGSTER_HOME": str(house.root)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": elsewhere}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("following ")
        for number in range(2):
            write_segment(house.spool, "n1", range(10 * number, 10 * number + 10))
            line = process.stdout.readline()
            assert line.startswith("1 segments, 20 new rows, queryable ")
            assert float(line.split("queryable ")[1].split()[0]) < 30  # a few seconds on an idle machine
            assert published(house) == 20 * (number + 1)
        assert published(house, "telemetry.gpu_hours") == 2
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)
        assert (rest, errors, process.returncode) == ("", "", 0)
    with history_of(house) as instance:
        rounds = told(instance, SAMPLES)
        assert sum(one["landed"] for one in rounds) == 40
        assert sum(one["segments"] for one in told(instance, SPOOL)) == 2
        assert passed(instance, "critical")
        assert passed(instance, "warning")
        assert all(told(instance, key_of(table)) for table in ROLLED)
        assert told(instance, DATABASE)[0]["seconds from sealed to queryable"] > 0


@pytest.mark.usefixtures("quick")
def test_events_of_many_rounds_are_summed_and_an_idle_round_writes_none(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = Following(house, "never")
    follower = follow._follower
    count = {"rounds": 0, "idle": 0}
    whole = following.Follower._round

    def one_more(self: following.Follower) -> None:
        if count["rounds"] < 3:
            write_segment(house.inbox, "n1", range(10 * count["rounds"], 10 * count["rounds"] + 10))
            count["rounds"] += 1
        else:
            count["idle"] += 1
            if count["idle"] == 3:
                follow._stop.set()
        whole(self)

    monkeypatch.setattr(following.Follower, "_round", one_more)
    assert follow() == 0
    with history_of(house) as instance:
        first, rest = [one["landed"] for one in reversed(told(instance, SAMPLES))]
        assert (first, rest) == (20, 40)  # the first at once, two more within the minute
        assert [one["rounds"] for one in told(instance, DATABASE)] == [2, 1]
    assert follower._untold.count == 0


@pytest.mark.usefixtures("quick")
def test_a_damaged_segment_is_one_line_and_the_next_one_lands(house: Home) -> None:
    whole = write_segment(house.inbox, "n1", range(10))
    body = whole.read_bytes()
    whole.write_bytes(body[:2000] + bytes(10) + body[2010:])
    follow = Following(house, "damaged places")
    assert follow() == 1
    assert len(follow.complaints) == 1
    assert "damaged" in follow.complaints[0]
    write_segment(house.inbox, "n2", range(10))
    assert Following(house, "new rows")() == 0
    assert samples(house).filter(node="n2").height == 20
    with history_of(house) as instance:
        assert told(instance, SPOOL)[1]["damaged"] == 1
        assert passed(instance, "warning")  # of the newest round


@pytest.mark.usefixtures("quick")
def test_a_batch_held_back_is_a_failed_check_and_exit_code_one(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10), power_w=70.0)
    assert Following(house, "new rows")() == 0
    write_segment(house.inbox, "n1", range(10, 20), power_w=70_000.0)  # mW taken for W
    follow = Following(house, "new rows")
    assert follow() == 1
    assert len([line for line in follow.complaints if "blocked" in line]) == 1
    assert samples(house).height == 20
    with history_of(house) as instance:
        assert not passed(instance, "critical")


def test_a_full_disk_backs_off_says_so_and_loses_nothing(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_WAIT_S", 0.2)
    real, times = following.publish_home, []

    def full(home: Home, since: Published | None) -> Any:
        times.append(time.monotonic())
        if len(times) < 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(home.database))
        return real(home, since)

    monkeypatch.setattr(following, "publish_home", full)
    write_segment(house.inbox, "n1", range(10))
    follow = Following(house, "works again")
    assert follow() == 0
    assert [line.split(": ", 1)[0] for line in follow.complaints[:2]] == ["this round failed"] * 2
    assert follow.complaints[0].endswith("No space left on device; trying again in 0 s")
    assert times[1] - times[0] >= 0.2
    assert times[2] - times[1] >= 0.4
    assert published(house) == 20  # landed in the first round, published by the third


@pytest.mark.usefixtures("quick")
def test_events_that_find_the_disk_full_are_one_line_and_told_later(
    house: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, times = following._open_instance, []

    def full(home: Home) -> Any:
        times.append(home)
        if len(times) == 1:  # as SQLAlchemy wraps it, with the whole statement in its message
            raise RuntimeError("database or disk is full [SQL: CREATE …]") from sqlite3.OperationalError(
                "database or disk is full"
            )
        return real(home)

    monkeypatch.setattr(following, "_open_instance", full)
    write_segment(house.inbox, "n1", range(10))
    follow = Following(house, "telling Dagster failed")
    assert follow() == 0
    assert follow.complaints == ["telling Dagster failed: database or disk is full; trying again in 5 s"]
    assert "Traceback" not in capsys.readouterr().err
    with history_of(house) as instance:
        assert [one["landed"] for one in told(instance, SAMPLES)] == [20]


def test_an_unforeseen_error_is_told_with_where_it_happened(
    house: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> IngestReport:
        raise KeyError("power_w")

    monkeypatch.setattr(following, "ingest", broken)
    write_segment(house.inbox, "n1", range(10))
    follow = Following(house, "this round failed")
    assert follow() == 1
    assert follow.complaints[0] == "this round failed: KeyError: 'power_w'; trying again in 5 s"
    assert "Traceback" in capsys.readouterr().err


def test_a_round_that_never_worked_again_is_exit_code_one(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> IngestReport:
        raise OSError(errno.ENOSPC, "No space left on device", "lake")

    monkeypatch.setattr(following, "ingest", full)
    write_segment(house.inbox, "n1", range(10))
    assert Following(house, "this round failed")() == 1
    assert len(list(house.inbox.glob("*.seg"))) == 1


@pytest.mark.usefixtures("quick")
def test_an_unreachable_place_does_not_keep_local_segments_waiting(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_arguments: object) -> None:
        raise following.AlmanacError("the inbox cannot be reached: no route")

    monkeypatch.setattr(following, "collect_from", away)
    write_segment(house.spool, "n1", range(10))
    follow = Following(house, "new rows", places=("s3://far",))
    monkeypatch.setattr(following, "place_of", lambda url: url)
    assert follow() == 0
    assert follow.complaints == ["s3://far failed: the inbox cannot be reached: no route; trying again in 5 s"]
    assert samples(house).height == 20


def test_what_another_process_landed_but_never_published_is_published_at_the_start(house: Home) -> None:
    from assets.ingest import ingest

    write_segment(house.inbox, "n1", range(10))
    assert Following(house, "new rows")() == 0
    write_segment(house.inbox, "n1", range(10, 20))
    ingest(house)  # and is killed before it publishes
    assert published(house) == 20
    follow = Following(house, "following")
    follow._follower._owed = follow._follower._behind()
    assert follow._follower._owed
    follow._follower._round()
    assert published(house) == 40
    assert not follow._follower._behind()


@pytest.mark.usefixtures("quick")
def test_old_events_are_purged_and_the_newest_stay_known(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10))
    assert Following(house, "new rows")() == 0
    now = dt.datetime.now(dt.UTC)
    landed = dg.AssetKey(["landed", "curated"])
    with history_of(house) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(landed))
        assert history.forget_follower_events(instance, now - jobs.KEEP_FOLLOWER_EVENTS) == 0
        assert history.forget_follower_events(instance, now + dt.timedelta(minutes=1)) == 7
        assert told(instance, SAMPLES) == []
        assert instance.get_latest_materialization_event(SAMPLES) is not None
        assert passed(instance, "critical")
        assert len(told(instance, landed)) == 1  # freshness hangs on it
