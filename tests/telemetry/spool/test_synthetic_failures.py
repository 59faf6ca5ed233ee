"""Chance failures of the synthetic cluster against the published table."""

from __future__ import annotations

from collections import Counter

import pytest

from sources.telemetry.synthetic import ticks
from sources.telemetry.synthetic_failures import CAUSES, GPU_HOURS_PER_FAILURE, failure_records, failures, outages
from sources.telemetry.synthetic_plan import Plan

DAY_S = 86_400
YEAR = Plan(nodes=512, seconds=365 * DAY_S)


def test_the_rate_and_the_shares_are_those_of_the_published_run() -> None:
    assert pytest.approx(50_677, rel=1e-4) == GPU_HOURS_PER_FAILURE  # as DESIGN's formulas state it
    assert sum(cause.count for cause in CAUSES) == 419
    found = [f for node in range(YEAR.nodes) for f in failures(YEAR, node)]
    expected = 512 * 8 * 8760 / 50_677  # 708
    assert abs(len(found) - expected) < 4 * expected**0.5
    shares = Counter(f.cause.name for f in found)
    assert shares["Faulty GPU"] / len(found) == pytest.approx(148 / 419, abs=0.08)


def test_the_demonstration_day_meets_none_by_chance() -> None:
    assert [failures(Plan(), node) for node in range(2)] == [[], []]


def test_the_same_plan_fails_the_same_way_and_another_seed_another_way() -> None:
    other = Plan(nodes=512, seconds=365 * DAY_S, seed=1)
    assert failures(YEAR, 3) == failures(YEAR, 3)
    assert [failures(YEAR, n) for n in range(50)] != [failures(other, n) for n in range(50)]


def test_a_lost_board_gives_no_samples_and_tells_so() -> None:
    node, failure = next((n, f) for n in range(YEAR.nodes) for f in failures(YEAR, n) if f.cause.loses)
    kinds = [row.get("kind", row.get("state")) for _, _, row in failure_records(YEAR, node)]
    assert {"xid", "lost", "returned", "drain", "allocated"} <= set(kinds)
    assert (failure.from_s, failure.to_s) in outages(YEAR, node, failure.gpu)
    short = Plan(nodes=YEAR.nodes, seconds=YEAR.seconds, interval_s=600.0)
    uuid = short.gpu_uuid(node, failure.gpu)
    for time_us, rows in ticks(short, node):
        second = (time_us - short.start_us) / 1e6
        if failure.from_s <= second < failure.to_s:
            assert uuid not in [gpu for gpu, _ in rows]
            return
    pytest.fail("no tick fell into the outage")
