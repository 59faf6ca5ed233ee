"""`almanac synthetic`: a plan in, a published home and its truth out."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import polars as pl
import pytest

from assets.synthetic_cluster import TRUTH, named, truth
from sources.telemetry.synthetic_plan import Plan
from tests.core.console import Console

SMALL = ("synthetic", "--nodes", 2, "--gpus", 8, "--hours", 9, "--interval", 120, "--seed", 5, "--workload", "demo")


@pytest.fixture
def almanac(capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(capsys)


def test_a_cluster_with_a_planted_straggler_is_published_and_found(
    almanac: Console, home: Path, tmp_path: Path
) -> None:
    told = tmp_path / "truth.csv"
    plant = ("--straggler", "0:4:2-4:1.5", "--cluster", "lab", "--truth", told)
    answer = almanac(*SMALL, *plant, "--home", home)
    assert answer.code == 0, answer.err
    # 2 nodes of 8 boards, 270 ticks of 120 s in 9 hours
    assert answer.out.startswith("cluster lab: 4,320 samples, ")
    assert "1 stragglers, 1 decaying links" in answer.out
    (row,) = pl.read_csv(told).filter(kind="straggler").to_dicts()
    board = Plan(cluster="lab").gpu_uuid(0, 4)
    assert (row["gpu_uuid"], row["cause"], row["slowdown"], row["job_id"]) == (board, "gpu", 1.5, "1001_0")
    assert (row["from_at"][:16], row["to_at"][:16]) == ("2026-11-01T02:00", "2026-11-01T04:00")
    with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as con:
        found = con.sql("select cluster, job_id, gpu_uuid, is_synthetic from mart.stragglers").fetchall()
        marked = con.sql("select bool_and(is_synthetic) from telemetry.gpu_samples").fetchall()
    assert found == [("lab", "1001_0", board, True)]
    assert marked == [(True,)]
    again = almanac(*SMALL, *plant, "--home", home)
    assert again.code == 2
    assert "cluster lab is in this home already" in again.err
    assert not list(home.glob("synthetic-*"))


def test_the_same_call_twice_changes_nothing(almanac: Console, home: Path) -> None:
    call = ("synthetic", "--nodes", 1, "--gpus", 2, "--hours", 0.5, "--home", home)
    counts = []
    for _ in range(2):
        answer = almanac(*call)
        assert answer.code == 0, answer.err
        with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as con:
            tables = ("gpu_samples", "gpu_minutes", "jobs", "job_gpus", "link_counters", "inventory")
            counts.append([con.sql(f"select count(*) from telemetry.{name}").fetchall()[0][0] for name in tables])
    assert counts[0] == counts[1]
    assert counts[0][0] == 2 * 30


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("0:4", "is not NODE:GPU:FROM-TO"),
        ("2:0:1-2", "nodes count from 0 to 1"),
        ("0:8:1-2", "GPUs to 7"),
        ("0:0:3-2", "must end after it begins"),
        ("0:0:1-10", "within the 9 hours"),
        ("0:0:1-2:0.9", "SLOWDOWN exceed 1"),
    ],
)
def test_a_straggler_that_cannot_be_is_refused_before_a_home_is_made(
    almanac: Console, tmp_path: Path, given: str, says: str
) -> None:
    answer = almanac(*SMALL, "--straggler", given, "--home", tmp_path / "new")
    assert answer.code == 2
    assert says in answer.err
    assert not (tmp_path / "new").exists()


def test_a_plan_names_its_cluster_and_no_other_plan_has_the_name() -> None:
    plan = Plan(workload="mixed", nodes=3, gpus=4)
    assert named(plan).cluster.startswith("synthetic-mixed-3x4-")
    assert named(plan) == named(named(plan))
    assert named(plan).cluster != named(Plan(workload="mixed", nodes=3, gpus=4, seed=2)).cluster


def test_the_truth_holds_every_fault_once_within_the_plan() -> None:
    plan = Plan(cluster="t", workload="mixed", nodes=64, seconds=7 * 86_400)
    told = truth(plan)
    assert set(told["kind"]) == {"straggler", "failure", "link"}
    assert told.schema == pl.Schema(TRUTH)
    assert told.filter(kind="link").height == 1  # one in 64 nodes
    assert told.is_duplicated().sum() == 0
    slow = told.filter(kind="straggler")
    assert slow["from_at"].is_between(plan.start_at, plan.start_at + dt.timedelta(days=7)).all()
    assert set(slow["cause"]) == {"gpu", "host"}
