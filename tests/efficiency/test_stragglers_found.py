"""`mart.stragglers` on drawn clusters with planted stragglers: the slow boards and no others, whatever the seed."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from assets.demo_jobs import provide_demo_jobs
from assets.ingest import ingest
from assets.publish import publish_home
from assets.rollup import roll_up
from sources.telemetry.synthetic import write
from sources.telemetry.synthetic_jobs import Attempt, attempts
from sources.telemetry.synthetic_plan import Plan, Straggler
from warehouse.home import Home

pytestmark = pytest.mark.slow
SEEDS = (41, 42, 43)  # nothing of the rule was chosen on them: its threshold and its window are published
WINDOW_S = 300
Named = set[tuple[str, int, str]]


def planted(seed: int) -> Plan:
    """Four nodes over six hours; every long training job of several boards gets a straggler, in turn of each cause."""
    plan = Plan(cluster=f"seed-{seed}", nodes=4, seconds=6 * 3600, interval_s=60.0, workload="mixed", seed=seed)
    long = [a for a in attempts(plan) if a.kind == "training" and len(a.boards) > 1 and a.to_s - a.from_s > 1500]
    slow = [
        Straggler(*a.boards[k % len(a.boards)], a.from_s + 400, a.to_s - 1, cause="host" if k % 2 else "gpu")
        for k, a in enumerate(long)
    ]
    return replace(plan, stragglers=tuple(slow))


def has_whole_window(one: Attempt, slow: Straggler) -> bool:
    """Is a whole window slow, after the job's first, to which the idle time before it may reach?"""
    begin = -(-max(slow.from_s, one.from_s + WINDOW_S) // WINDOW_S) * WINDOW_S
    return begin + WINDOW_S <= min(slow.to_s, one.to_s)


def expected(plan: Plan) -> tuple[Named, Named]:
    """Boards that are slow of themselves for a whole window, and all that are slow of themselves."""
    slow = [(a, s) for a in attempts(plan) for s in a.slow if s.cause == "gpu"]
    must = [(a, s) for a, s in slow if has_whole_window(a, s)]
    named = [{(a.job_id, a.attempt, plan.gpu_uuid(s.node, s.gpu)) for a, s in some} for some in (must, slow)]
    return named[0], named[1]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Home:
    house = Home(tmp_path_factory.mktemp("stragglers") / "home").prepare()
    for seed in SEEDS:
        write(planted(seed), house.spool)
    assert not ingest(house).failed
    roll_up(house)
    for seed in SEEDS:
        provide_demo_jobs(house, planted(seed))
    publish_home(house)
    return house


def named(house: Home, plan: Plan) -> Named:
    with duckdb.connect(str(house.database), read_only=True) as con:
        query = f"select job_id, attempt, gpu_uuid from mart.stragglers where cluster = '{plan.cluster}'"
        return set(con.sql(query).fetchall())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_board_that_is_slow_of_itself_is_named_and_no_other(house: Home, seed: int) -> None:
    plan = planted(seed)
    must, may = expected(plan)
    found = named(house, plan)
    assert must
    assert must <= found <= may


def test_boards_whose_host_feeds_them_late_keep_their_clocks_and_are_not_named(house: Home) -> None:
    plans = [planted(seed) for seed in SEEDS]
    late = [s for plan in plans for a in attempts(plan) for s in a.slow if s.cause == "host" and has_whole_window(a, s)]
    assert late
    for plan in plans:
        boards = {plan.gpu_uuid(s.node, s.gpu) for s in plan.stragglers if s.cause == "host"}
        boards -= {gpu for _, _, gpu in expected(plan)[1]}
        assert not boards & {gpu for _, _, gpu in named(house, plan)}
