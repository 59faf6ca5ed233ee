"""Reliability figures against published ones and hand arithmetic."""

from __future__ import annotations

import csv
import datetime as dt

import polars as pl
import pytest

from assets.interruptions import collapse_events, interruptions, suspects
from assets.reliability import (
    availability,
    checkpoint_interval_s,
    chi_square_quantile,
    effective_time_ratio,
    extrapolate_mtbf,
    mtbf,
    shares,
)

HOURS, GPUS = 54 * 24, 16_384


@pytest.fixture
def llama3(shared):
    with (shared / "facts" / "telemetry_ref" / "llama3_interruptions.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_llama3_mtbf_with_interval(llama3):
    out = mtbf(sum(int(r["count"]) for r in llama3), HOURS)
    assert out.incidents == 419
    assert out.mean_h == pytest.approx(3.09, abs=0.005)
    # chi2(0.95; 840) / 2 = 454.268 and chi2(0.05; 838) / 2 = 385.909
    assert (out.low_h, out.high_h) == (pytest.approx(1296 / 454.268, rel=1e-5), pytest.approx(1296 / 385.909, rel=1e-5))


@pytest.mark.parametrize(("gpus", "hours"), [(8, 6335), (1024, 49.5), (16_384, 3.093), (24_576, 2.06), (100_000, 0.51)])
def test_llama3_extrapolations(gpus, hours):
    assert extrapolate_mtbf(HOURS / 419, GPUS, gpus) == pytest.approx(hours, rel=7e-3)  # printed to two digits


def test_llama3_gpu_hours_for_each_interruption():
    assert pytest.approx(50_677, abs=1) == HOURS * GPUS / 419


def test_llama3_shares_from_counts_beside_the_printed_ones(llama3):
    computed = shares({r["component"]: int(r["count"]) for r in llama3})
    assert sum(computed.values()) == pytest.approx(1)
    assert 100 * computed["Faulty GPU"] == pytest.approx(35.3, abs=0.05)
    printed = {r["component"]: float(r["published_pct"]) for r in llama3}
    assert printed["Faulty GPU"] == 30.1
    apart = [c for c in computed if abs(100 * computed[c] - printed[c]) > 0.06]
    assert apart == ["Faulty GPU"]
    gpu = sum(int(r["count"]) for r in llama3 if r["category"] == "GPU")
    assert 100 * gpu / 419 == pytest.approx(64.0, abs=0.05)


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [(0.95, 2, 5.991465), (0.05, 2, 0.102587), (0.95, 22, 33.924438), (0.05, 20, 10.850811), (0.95, 840, 908.53667)],
)
def test_chi_square_quantiles_of_the_tables(probability, degrees, value):
    assert chi_square_quantile(probability, degrees) == pytest.approx(value, rel=1e-5)


def test_no_incident_gives_a_lower_bound_only():
    out = mtbf(0, 300)
    assert (out.mean_h, out.high_h) == (None, None)
    assert out.low_h == pytest.approx(100, rel=2e-3)  # T / 2.9957
    with pytest.raises(ValueError, match="negative"):
        mtbf(-1, 1)


def test_checkpoint_interval():
    # Young: sqrt(2 x 60 x 11,135 s) with the Llama 3 MTBF of 3.093 h
    assert checkpoint_interval_s(60, 11_135, "young") == pytest.approx(1155.9, abs=0.1)
    ratio = 60 / (2 * 11_135)
    daly = 1155.93 * (1 + ratio**0.5 / 3 + ratio / 9) - 60
    assert checkpoint_interval_s(60, 11_135) == pytest.approx(daly, abs=0.1)
    assert checkpoint_interval_s(100, 40) == 40
    with pytest.raises(ValueError, match="above 0"):
        checkpoint_interval_s(0, 1)


def test_availability_and_effective_time():
    assert availability(99, 1) == 0.99
    # 128 nodes x 6.5 failures a 1000 node-days x (600 s + 1800 s) / 86,400 = 2.31 %
    assert effective_time_ratio(128, 6.5e-3, 600, 3600) == pytest.approx(1 - 128 * 6.5e-3 * 2400 / 86_400)
    assert effective_time_ratio(1e6, 1, 600, 3600) == 0


def at(minute: float) -> dt.datetime:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minute)


def event(minute: float, node: str, code: int | None, kind: str = "xid", gpu: str = "G0") -> dict:
    return {"occurred_at": at(minute), "cluster": "c", "node": node, "gpu_uuid": gpu, "kind": kind, "code": code}


def test_a_storm_is_one_incident_and_application_faults_none():
    storm = [event(i / 60, "n1", 119) for i in range(300)]
    links = [event(100, "n2", 149, gpu=f"G{i}") for i in range(8)] + [event(100.5, "n2", 79)]
    others = [
        event(30, "n1", 48),
        event(200, "n1", 31),
        event(201, "n1", None, "returned"),
        event(210, "n1", None, "lost"),
    ]
    out = collapse_events(pl.DataFrame([*storm, *links, *others]))
    assert out.select("node", "events", "component_class").rows() == [
        ("n1", 300, "gpu_processor"), ("n1", 1, "gpu_memory"), ("n1", 1, "gpu_bus"), ("n2", 9, "gpu_bus"),
    ]  # fmt: skip
    assert out["gpus"].to_list() == [1, 1, 1, 8]
    assert out["codes"].to_list()[3] == [79, 149]


def job(job_id: str, attempt: int, state: str, start: float, end: float | None, nodes: str = "n1") -> dict:
    return {"cluster": "c", "job_id": job_id, "attempt": attempt, "state": state, "started_at": at(start),
            "ended_at": None if end is None else at(end), "node_list": nodes, "gpus_allocated": 8.0}  # fmt: skip


def test_job_ends_are_explained_and_repair_is_measured():
    incidents = collapse_events(pl.DataFrame([event(60, "n1", 79), event(65, "n2", 48), event(500, "n3", 48)]))
    jobs = pl.DataFrame(
        [
            job("a", 0, "failed", 0, 61, "n1,n2"), job("a", 1, "running", 91, None, "n2"),
            job("b", 0, "node_fail", 0, 300), job("c", 0, "completed", 0, 60), job("d", 0, "cancelled", 0, 60),
            job("e", 0, "failed", 0, 520, "n3"),
        ]
    )  # fmt: skip
    out = interruptions(jobs, incidents)
    assert out.select("job_id", "component_class", "node", "repair_s").rows() == [
        ("a", "gpu_bus", "n1", 1800.0), ("b", "host", None, None), ("e", "unknown", None, None),
    ]  # fmt: skip


def test_suspects_are_ranked_by_evidence():
    counts = pl.DataFrame(
        {"node": ["n1", "n2", "n3", "n4"], "incidents": [1, 9, 0, 2], "hours": [100.0, 100.0, 100.0, 900.0]}
    )
    out = suspects(counts)
    # fleet rate 12 / 1200 = 0.01 an hour: n2 has 9 where 1 is expected; 9 ln 9 - 8 = 11.775
    assert out.select("node", "expected").rows()[0] == ("n2", 1.0)
    assert out["evidence"][0] == pytest.approx(11.775, abs=1e-3)
    assert out["evidence"].to_list()[1:] == [0, 0, 0]
