"""A week with planted faults on the whole way: every loss in its rung, nothing else blamed, energy as planned.

The week is brought in twice: in two halves with everything brought up to date between them, and at once. Both files
must say the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from assets.ingest import ingest
from assets.publish import publish_home
from assets.rollup import roll_up
from assets.street import receive
from efficiency import week
from sources.registry import all_sources
from warehouse.fingerprint import fingerprint
from warehouse.home import Home

pytestmark = pytest.mark.slow
FIRST = ("9002", "9003")
SECOND = ("9004", "9005")
# GPU-hours. A week of twelve GPUs, less what the faults and jobs took, is unallocated.
PLANTED = {
    "down": 2 * 12.0,
    "allocated_idle": 2 * 8.0,
    "start_up": (2 * 300 + 2 * 300 + 4 * 600 + 2 * (300 + 300)) / 3600,
    "straggler": 2 * 3 * (30 / 90),
    "throttled": 4 * 6 * (15 / 75),
    "rollback": 2 * 6.5,  # from 23:30 to 6:00
    "unlogged": 10 * 3 / 7 + 10 * 4 / 7,
    "productive": 2 * 355 / 60 + 2 * 655 / 60 + 4 * 1358 / 60 + 2 * 205 / 60 + 2 * 565 / 60,
}


def put(home: Home, segments: list[Path]) -> None:
    for segment in segments:
        shutil.copy(segment, home.inbox / segment.name)
    assert not list(ingest(home).complaints())


def named(segments: list[Path]) -> list[Path]:
    """The first segment of each node."""
    first: dict[str, Path] = {}
    for segment in segments:
        first.setdefault(segment.name.split("~")[1], segment)
    return list(first.values())


def receive_all(home: Home, payloads: list) -> None:
    for payload in payloads:
        assert not list(receive(home, all_sources()[payload.source], [payload]).complaints())


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Home]:
    """The same week in two halves, and at once."""
    root = tmp_path_factory.mktemp("week")
    (root / "spool").mkdir()
    week.write_spool(root / "spool")
    segments = sorted((root / "spool").glob("*"), key=lambda p: p.name)
    assert len(segments) >= week.NODES * week.DAYS
    first = [week.scheduler(40), *week.logs(FIRST)]
    second = [week.scheduler(7 * 24), *week.mappings(), *week.logs(SECOND)]
    halves, whole = Home(root / "halves").prepare(), Home(root / "whole").prepare()
    # Every other segment, so that hours come in out of order; the first of a node names its boards.
    cut = [s for n, s in enumerate(segments) if n % 2 or s in named(segments)]
    put(halves, cut)
    roll_up(halves)
    receive_all(halves, first)
    publish_home(halves)
    put(halves, [s for s in segments if s not in cut])
    roll_up(halves)
    receive_all(halves, second)
    publish_home(halves)
    put(whole, segments)
    roll_up(whole)
    receive_all(whole, [*first, *second])
    publish_home(whole)
    return halves, whole


def test_every_loss_in_its_rung_and_nothing_else(homes):
    with duckdb.connect(str(homes[0].database), read_only=True) as con:
        found = dict(con.execute("select rung, sum(gpu_hours) from mart.ladder group by rung").fetchall())
        days = con.execute("select sum(share_ratio) from mart.ladder group by date").fetchall()
    assert set(found) == {*PLANTED, "unallocated"}
    for rung, hours in PLANTED.items():
        assert found[rung] == pytest.approx(hours, rel=0.01), rung
    assert sum(found.values()) == pytest.approx(12 * 24 * 7, abs=1e-6)
    assert [round(total, 12) for (total,) in days] == [1.0] * 7


def test_each_fault_is_blamed_on_its_job_and_day(homes):
    query = """
        select rung, job_id, attempt, date - date '2026-03-02' as day, sum(gpu_us) / 3.6e9
        from telemetry.ladder_daily where rung in ('straggler', 'throttled', 'rollback', 'allocated_idle', 'down', 'unlogged')
        group by all order by all
    """
    with duckdb.connect(str(homes[0].database), read_only=True) as con:
        found = {row[:4]: row[4] for row in con.execute(query).fetchall()}
    planted = {
        ("allocated_idle", "9001", 0, 0): 16,
        ("down", "", 0, 0): 24,
        ("rollback", "9005", 0, 3): 1,
        ("rollback", "9005", 0, 4): 12,
        ("straggler", "9003", 0, 1): 2,
        ("throttled", "9004", 0, 2): 4.8,
        ("unlogged", "9006", 0, 5): 10 * 3 / 7,
        ("unlogged", "9007", 0, 5): 10 * 4 / 7,
    }
    assert found == {key: pytest.approx(hours, rel=0.01) for key, hours in planted.items()}


def test_energy_is_the_integral_of_power(homes):
    # every GPU-hour of the week at its power, but for the node that was off
    held = {"loading": 4800 / 3600, "hot": 4 * 6, "mig": 15}
    held["training"] = PLANTED["productive"] + 2 + 4.8 + 13 - held["hot"]
    idle = 12 * 168 - 24 - sum(held.values())
    joules = {"loading": week.LOADING_W, "hot": week.HOT_W, "mig": week.MIG_W, "training": week.TRAINING_W}
    planned = (sum(hours * joules[name] for name, hours in held.items()) + idle * week.IDLE_W) / 1000
    with duckdb.connect(str(homes[0].database), read_only=True) as con:
        (total,) = con.execute("select sum(gpu_energy_kwh) from mart.energy").fetchone()
        jobs = dict(con.execute("select job_id || '/' || attempt, energy_kwh from mart.job_efficiency").fetchall())
    assert total == pytest.approx(planned, rel=0.005)
    # the rack: ten minutes of start-up, eighteen hours at full power, six hot ones
    assert jobs["9004/0"] == pytest.approx(4 * (600 / 3600 * 0.2 + (18 - 600 / 3600) * 0.6 + 6 * 0.45), rel=0.005)
    assert jobs["9001/0"] == pytest.approx(2 * 8 * 0.067, rel=0.005)


def test_two_lost_nodes_are_two_interruptions(homes):
    with duckdb.connect(str(homes[0].database), read_only=True) as con:
        found = con.execute(
            "select level, component_class, incidents, repair_mean_hours from mart.reliability where scope = 'cluster' order by level"
        ).fetchall()
    assert found == [("all", "all", 2, 0.5), ("class", "host", 2, None)]


def test_incremental_equals_rebuilt(homes):
    halves, whole = (fingerprint(home.database) for home in homes)
    differing = [name for name, mark in halves.items() if whole[name] != mark]
    assert differing == []
    assert halves["telemetry.ladder_daily"].split(":")[0] != "0"
