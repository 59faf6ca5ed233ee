"""Jobs and stragglers of the synthetic cluster: drawn as published, placed without collisions, seen in the readings."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sources.telemetry.synthetic import ticks, write
from sources.telemetry.synthetic_failures import failures
from sources.telemetry.synthetic_jobs import Attempt, attempts, on_node
from sources.telemetry.synthetic_plan import Plan, Straggler
from sources.telemetry.synthetic_schedule import LONGEST_S, mean_gpu_seconds, sizes
from sources.telemetry.synthetic_story import _decays, _node_states, decaying

DAY_S = 86_400
MIXED = Plan(cluster="mixed", nodes=512, seconds=2 * DAY_S, workload="mixed")
LONG = Plan(cluster="long", nodes=64, seconds=30 * DAY_S, workload="mixed")  # as many GPU-hours as 7 failures take


def test_sizes_and_run_times_are_those_of_the_published_trace() -> None:
    asked = sizes(MIXED)
    assert sum(share for _, share in asked) == pytest.approx(1)
    assert asked[0] == (1, 0.5)  # the median job asks for one GPU
    assert max(gpus for gpus, _ in asked) == 1024
    assert sum(gpus * share for gpus, share in asked) == pytest.approx(26.77, rel=0.01)  # avg_gpu_num of Kalos
    # completed, cancelled and failed GPU time over the number of GPU jobs, same line of the table
    assert mean_gpu_seconds(MIXED) == pytest.approx((1667685146 + 3239202064 + 426292851) / 19907, rel=0.02)
    ended = [a for a in attempts(LONG) if a.state in {"completed", "cancelled", "failed"}]
    assert len(ended) > 10_000
    assert statistics.median(a.to_s - a.from_s for a in ended) == pytest.approx(124, rel=0.1)
    assert max(a.to_s - a.from_s for a in ended) <= LONGEST_S
    small = Counter(a.state for a in ended if len(a.boards) < 8)
    assert small["failed"] / small.total() == pytest.approx(0.397, abs=0.02)


def test_no_board_is_held_twice_and_no_job_runs_on_a_node_under_repair() -> None:
    held: dict[tuple[int, int], list[Attempt]] = {}
    for one in attempts(LONG):
        for board in one.boards:
            held.setdefault(board, []).append(one)
    for mine in held.values():
        for before, after in itertools.pairwise(sorted(mine, key=lambda a: a.from_s)):
            assert before.to_s <= after.from_s
    repairs = [(node, f) for node in range(LONG.nodes) for f in failures(LONG, node)]
    assert repairs
    for node, failure in repairs:
        assert not [a for a in on_node(LONG, node) if failure.from_s <= a.from_s < failure.to_s]


def test_a_failure_ends_the_jobs_it_meets_and_they_queue_again() -> None:
    known = {(a.job_id, a.attempt): a for a in attempts(LONG)}
    failed = [a for a in known.values() if a.state == "node_fail"]
    ends = {f.from_s for node in range(LONG.nodes) for f in failures(LONG, node)}
    assert failed
    assert {a.to_s for a in failed} <= ends
    again = [known.get((a.job_id, a.attempt + 1)) for a in failed]
    assert all(b is None or b.submitted_s == a.to_s for a, b in zip(failed, again, strict=True))
    assert any(again)


def test_jobs_begin_and_end_during_the_span_and_keep_most_boards_busy() -> None:
    found = attempts(MIXED)
    assert len({len(a.boards) for a in found}) > 8
    middle = [a for a in found if a.from_s > 0 and a.to_s < MIXED.seconds]
    assert len(middle) > 1000
    assert {a.kind for a in found} == {"training", "inference", "resident"}
    used = sum(len(a.boards) * (a.to_s - a.from_s) for a in attempts(LONG)) / (64 * 8 * LONG.seconds)
    assert 0.6 < used < 0.9  # 0.8 is asked for; long jobs reach beyond the end


def test_the_same_plan_draws_the_same_jobs_and_another_seed_others() -> None:
    small = Plan(cluster="s", nodes=4, seconds=DAY_S, workload="mixed")
    again = Plan(cluster="s", nodes=4, seconds=DAY_S, workload="mixed")
    other = Plan(cluster="s", nodes=4, seconds=DAY_S, workload="mixed", seed=7)
    assert attempts(small) == attempts(again)
    assert attempts(small) != attempts(other)


def test_the_same_mixed_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    plan = Plan(cluster="s", nodes=2, gpus=4, seconds=3 * 3600, interval_s=60, workload="mixed")
    for name in ("one", "two"):
        assert write(plan, tmp_path / name) == 2 * 4 * 180
    one, two = (sorted((tmp_path / name).glob("*.seg")) for name in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_the_states_of_a_node_are_those_a_scheduler_would_tell() -> None:
    for node in range(8):
        states = [(t, row["state"]) for t, _, row in _node_states(LONG, node)]
        assert all(a[1] != b[1] or a[1] == "drain" for a, b in itertools.pairwise(states))
        for time_us, state in states[:200]:
            second = (time_us - LONG.start_us) / 1e6 + 1e-3
            busy = sum(len(a.nodes[node]) for a in on_node(LONG, node) if a.from_s <= second < a.to_s)
            broken = any(f.from_s <= second < f.to_s for f in failures(LONG, node))
            wanted = "drain" if broken else "idle" if not busy else "allocated" if busy == 8 else "mixed"
            assert state == wanted


def test_one_link_in_sixty_four_nodes_decays_and_stays_countable_for_months() -> None:
    assert len(decaying(MIXED)) == 8
    ((node, _, link),) = decaying(LONG)
    told = [row for _, _, row in _decays(LONG, node)]
    assert {row["link_index"] for row in told} == {link}
    last = {row["counter"]: row["value"] for row in told}
    assert 0 < last["recovery"] < last["crc_data"] < last["replay"] < last["crc_flit"] < 2**63


def _read(plan: Plan, node: int, second: float) -> dict[int, dict[str, Any]]:
    """Readings of a node's boards at a second."""
    places = {plan.gpu_uuid(node, gpu): gpu for gpu in range(plan.gpus)}
    for time_us, rows in ticks(plan, node):
        if time_us - plan.start_us == second * 1e6:
            return {places[uuid]: values for uuid, values in rows}
    raise AssertionError(f"no tick at {second} s")


def _planted(cause: str, node: int = 0) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
    """Readings of a node with and without a straggler at board 4 of node 0, in the middle of job 1002 on nodes 0, 1."""
    slow = Straggler(0, 4, 9 * 3600, 10 * 3600, slowdown=1.5, cause=cause)  # type: ignore[arg-type]
    base: dict[str, Any] = {"seconds": 12 * 3600, "interval_s": 300.0}
    with_it, without = Plan(**base, stragglers=(slow,)), Plan(**base)
    assert _read(with_it, node, 8.5 * 3600) == _read(without, node, 8.5 * 3600)
    assert _read(with_it, node, 10 * 3600) != {}
    return _read(with_it, node, 9.75 * 3600 - 300), _read(without, node, 9.75 * 3600 - 300)


def test_a_slow_board_works_at_a_lower_clock_while_its_peers_wait() -> None:
    slow, usual = _planted("gpu")
    assert slow[4]["sm_clock_mhz"] == 1320  # 1980 / 1.5
    assert [slow[gpu]["sm_clock_mhz"] for gpu in range(8) if gpu != 4] == [1980] * 7
    assert slow[4]["tensor_active_ratio"] == usual[4]["tensor_active_ratio"]  # of its own, fewer, cycles
    assert slow[4]["event_reasons"] == 0  # no counter tells why
    for gpu in (0, 7):
        assert slow[gpu]["tensor_active_ratio"] == pytest.approx(usual[gpu]["tensor_active_ratio"] / 1.5, abs=1e-4)
        assert slow[gpu]["gpu_util_ratio"] == usual[gpu]["gpu_util_ratio"]  # a board that spins counts as busy
        assert slow[gpu]["power_w"] < usual[gpu]["power_w"]
    assert min(slow, key=lambda gpu: slow[gpu]["sm_clock_mhz"]) == 4


def test_a_board_fed_late_by_its_host_is_less_active_than_the_peers_that_wait_for_it() -> None:
    slow, usual = _planted("host")
    assert slow[4]["sm_clock_mhz"] == 1980
    assert slow[4]["sm_active_ratio"] == pytest.approx(usual[4]["sm_active_ratio"] / 1.5, abs=1e-4)
    assert min(slow, key=lambda gpu: slow[gpu]["sm_active_ratio"]) == 4
    assert min(slow, key=lambda gpu: slow[gpu]["gpu_util_ratio"]) == 4


def test_boards_of_the_same_job_on_another_node_wait_too() -> None:
    slow, usual = _planted("gpu", node=1)
    assert slow[0]["tensor_active_ratio"] == pytest.approx(usual[0]["tensor_active_ratio"] / 1.5, abs=1e-4)
    assert slow[0]["sm_clock_mhz"] == usual[0]["sm_clock_mhz"]


def test_inference_waits_for_nobody() -> None:
    slow = Straggler(1, 3, 0, 6 * 3600)  # node 1 serves a model until six
    plan, without = (Plan(seconds=4 * 3600, interval_s=600, stragglers=s) for s in ((slow,), ()))
    assert _read(plan, 1, 3 * 3600) == _read(without, 1, 3 * 3600)
