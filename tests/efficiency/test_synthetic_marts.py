"""What ladder and marts show of a planted straggler and of drawn jobs, from spool to published file."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from assets.demo_jobs import provide_demo_jobs
from assets.ingest import ingest
from assets.publish import publish_home
from assets.rollup import roll_up
from assets.street import fetch_into_archive, land_pending
from sources.http import HttpWeb
from sources.registry import all_sources
from sources.telemetry.synthetic import write
from sources.telemetry.synthetic_jobs import attempts
from sources.telemetry.synthetic_plan import Plan, Straggler
from warehouse.home import Home

pytestmark = pytest.mark.slow
# Job 1001 trains on the eight boards of node 0 from 0:00 to 6:30; board 4 makes it half as slow again for two hours.
SLOW = Straggler(0, 4, 2 * 3600, 4 * 3600, slowdown=1.5)
PLANTED = Plan(cluster="planted", seconds=8 * 3600, interval_s=60.0, stragglers=(SLOW,))
MIXED = Plan(cluster="mixed", nodes=4, interval_s=60.0, workload="mixed")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Home:
    house = Home(tmp_path_factory.mktemp("synthetic") / "home").prepare()
    for plan in (PLANTED, MIXED):
        write(plan, house.spool)
    assert not ingest(house).failed
    roll_up(house)
    for name in ("curated", "model-config"):
        source = all_sources()[name]
        land_pending(house, source, fetch_into_archive(house, source, HttpWeb(offline=True)))
    for plan in (PLANTED, MIXED):
        provide_demo_jobs(house, plan)
    publish_home(house)
    return house


def rows(house: Home, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(house.database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        return con.sql(query).fetchall()


def test_the_ladder_charges_the_straggler_to_its_job(house: Home) -> None:
    found = rows(
        house,
        "select job_id, gpu_us / 3.6e9 from telemetry.ladder_daily where cluster = 'planted' and rung = 'straggler'",
    )
    # two hours less four minutes of checkpoint, of which a third is excess, on eight boards
    assert [job for job, _ in found] == ["1001_0"]
    assert found[0][1] == pytest.approx(8 * (116 / 60) / 3, rel=0.02)


def test_the_readings_of_the_slow_stretch_name_the_board(house: Home) -> None:
    query = """
        select g.gpu_index, avg(s.sm_clock_mhz) as clock, avg(s.tensor_active_ratio) as tensor
        from telemetry.gpu_samples as s
        join telemetry.job_gpus as j using (cluster, gpu_uuid)
        join telemetry.inventory as g using (cluster, gpu_uuid)
        where s.cluster = 'planted' and j.job_id = '1001_0' and j.is_preferred
            and s.sampled_at between '2026-11-01 02:01' and '2026-11-01 03:59'
        group by all order by clock
    """
    slowest, *peers = rows(house, query)
    assert slowest[0] == SLOW.gpu
    assert slowest[1] == pytest.approx(1320)  # 1980 / 1.5
    assert len(peers) == 7
    assert all(clock == pytest.approx(1980) and tensor < slowest[2] for _, clock, tensor in peers)


def test_a_straggler_costs_its_job_the_efficiency_it_must(house: Home) -> None:
    ((mfu, usual),) = rows(
        house,
        """
        select
            max(mfu_ratio) filter (cluster = 'planted' and job_id = '1001_0'),
            median(mfu_ratio) filter (cluster = 'mixed' and gpus >= 8)
        from mart.job_efficiency
        """,
    )
    # 6830 tokens a second and GPU of 57.9 GFLOP each, of 989 TFLOP/s
    assert usual == pytest.approx(6830 * 57.912882432e9 / 989e12, rel=0.005)
    steps_s = 6.5 * 3600 - 180 - 12 * 60  # less start-up and checkpoints
    slow_s = 2 * 3600 - 4 * 60
    assert mfu == pytest.approx(usual * (1 - slow_s / 3 / steps_s), rel=0.01)


def test_every_drawn_job_is_there_with_its_boards(house: Home) -> None:
    known = attempts(MIXED)
    found = rows(
        house,
        "select job_id, attempt, state, cast(gpus as int) from mart.job_efficiency where cluster = 'mixed' order by all",
    )
    assert found == sorted((a.job_id, a.attempt, a.state, len(a.boards)) for a in known)
    ((low, high),) = rows(
        house,
        "select min(attributed_ratio), max(attributed_ratio) from mart.job_efficiency where cluster = 'mixed' and state <> 'running'",
    )
    assert (low, high) == (1.0, 1.0)


def test_the_ladder_divides_all_the_time_of_the_drawn_jobs(house: Home) -> None:
    hours = dict(
        rows(house, "select rung, sum(gpu_us) / 3.6e9 from telemetry.ladder_daily where cluster = 'mixed' group by all")
    )
    assert sum(hours.values()) == pytest.approx(4 * 8 * 24)
    held = sum(len(a.boards) * (a.to_s - a.from_s) for a in attempts(MIXED)) / 3600
    assert hours["unallocated"] == pytest.approx(4 * 8 * 24 - held, rel=0.01)
    silent = [a for a in attempts(MIXED) if a.kind == "resident"]
    low = sum(len(a.boards) * (a.to_s - a.from_s - 120) / 3600 for a in silent if a.to_s - a.from_s > 900)
    high = sum(len(a.boards) * (a.to_s - a.from_s) / 3600 for a in silent)
    # Ten minutes without work count, also where an idle board's stretch reaches into a short job; a reading a minute
    # leaves a minute open at either end of every job.
    edges = sum(len(a.boards) for a in attempts(MIXED)) * 2 / 60
    assert low <= hours["allocated_idle"] <= high + edges
    assert hours["straggler"] > 0


def test_the_decaying_link_is_the_first_suspect(house: Home) -> None:
    from sources.telemetry.synthetic_story import decaying

    ((node, gpu, link),) = decaying(MIXED)
    found = rows(
        house,
        "select device, link_index from mart.suspects where cluster = 'mixed' and kind = 'link' and is_suspect order by place",
    )
    assert found == [(MIXED.gpu_uuid(node, gpu), link)]
