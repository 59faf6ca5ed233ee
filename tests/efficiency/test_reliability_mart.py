"""mart.reliability: incidents, intervals, the published table beside its printed shares."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from marts.tables import database, mart

from assets.reliability import checkpoint_interval_s, mtbf
from sources.curated import Curated

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def minute(value: float) -> dt.datetime:
    return START + dt.timedelta(minutes=value)


def hours(count: int, gpus: int = 2) -> list[dict]:
    return [
        {"hour_at": START + dt.timedelta(hours=n), "date": START.date(), "gpu_uuid": f"G{g}", "seconds_covered": 3600.0}
        for n in range(count)
        for g in range(gpus)
    ]


def event(at: float, code: int | None, node: str = "n1", kind: str = "xid", severity: str | None = "fatal") -> dict:
    return {"occurred_at": minute(at), "node": node, "device": "G0", "kind": kind, "event_id": f"{code}", "code": code,
            "severity": severity}  # fmt: skip


def job(job_id: str, attempt: int, state: str, start: float, end: float | None, nodes: str = "n1") -> dict:
    return {"scheduler": "slurm", "job_id": job_id, "attempt": attempt, "state": state, "started_at": minute(start),
            "ended_at": None if end is None else minute(end), "node_list": nodes, "source": "slurm"}  # fmt: skip


def built(**rows) -> dict[tuple, dict]:
    return {
        (r["name"], r["level"], r["component_class"], r["category"]): r for r in mart(database(**rows), "reliability")
    }


def test_a_fleet_with_storms_application_faults_and_job_ends():
    storm = [event(60 + n / 60, 119) for n in range(60)]
    other = [
        event(200, 79),
        event(205, 48),
        event(300, 31),
        event(310, 63, severity="info"),
        event(320, None, kind="returned"),
    ]
    jobs = [job("a", 0, "node_fail", 0, 61), job("a", 1, "completed", 91, 190), job("b", 0, "node_fail", 0, 400),
            job("c", 0, "failed", 0, 100), job("d", 0, "completed", 0, 62)]  # fmt: skip
    phases = [
        {"job_id": "a", "phase": "checkpoint_save", "from_at": minute(1), "to_at": minute(2), "source": "training-log"}
    ]
    out = built(
        telemetry__gpu_hours=hours(100), telemetry__gpu_events=[*storm, *other], telemetry__jobs=jobs,
        telemetry__job_phases=phases,
    )  # fmt: skip
    whole = out["c1", "all", "all", "all"]
    # the storm, the GPU off the bus (with its memory error five minutes on), and node_fail of b that nothing explains
    assert whole["incidents"] == 3
    classes = {k[2]: v["incidents"] for k, v in out.items() if k[1] == "class"}
    assert classes == {"gpu_processor": 1, "gpu_bus": 1, "host": 1}
    exact = mtbf(3, 100)
    assert whole["mtbf_hours"] == pytest.approx(exact.mean_h, abs=1e-6)
    assert whole["mtbf_low_hours"] == pytest.approx(exact.low_h, abs=1e-5)
    assert whole["mtbf_high_hours"] == pytest.approx(exact.high_h, abs=1e-4)
    assert (whole["gpus"], whole["gpu_hours"], whole["mtbf_1024_hours"]) == (
        2,
        200,
        pytest.approx(200 / 3 / 1024, abs=1e-6),
    )
    # a came back after 30 minutes; b did not come back
    assert (whole["repair_mean_hours"], whole["repairs"]) == (0.5, 1)
    assert whole["availability_ratio"] == pytest.approx(exact.mean_h / (exact.mean_h + 0.5), abs=1e-6)
    assert whole["checkpoint_interval_s"] == pytest.approx(checkpoint_interval_s(60, exact.mean_h * 3600), abs=1e-3)


def test_a_quiet_fleet_gets_a_lower_bound():
    whole = built(telemetry__gpu_hours=hours(30))["c1", "all", "all", "all"]
    assert (whole["incidents"], whole["mtbf_hours"], whole["mtbf_high_hours"]) == (0, None, None)
    assert whole["mtbf_low_hours"] == pytest.approx(30 / 2.995732, abs=1e-5)


@pytest.mark.parametrize("count", [1, 7, 100, 101, 419, 3000])
def test_intervals_are_exact_to_five_digits(count):
    events = [event(11 * n, 79) for n in range(count)]
    whole = built(telemetry__gpu_hours=hours(24), telemetry__gpu_events=events)["c1", "all", "all", "all"]
    exact = mtbf(count, 24)
    assert whole["incidents"] == count
    assert whole["mtbf_low_hours"] == pytest.approx(exact.low_h, rel=2e-5, abs=1e-6)
    assert whole["mtbf_high_hours"] == pytest.approx(exact.high_h, rel=2e-5, abs=1e-6)


def test_llama3_from_the_curated_facts():
    source = Curated()
    payload = next(p for p in source.fetch(None) if p.stream == "market.interruptions")
    frame = source.parse(payload).frames["market.interruptions"]
    rows = [{**r, "source": "curated"} for r in frame.filter(pl.col("study").str.contains("Llama 3")).to_dicts()]
    out = built(market__interruptions=rows)
    name = "Llama 3 405B pre-training (GenAI cluster)"
    whole = out[name, "all", "all", "all"]
    assert (whole["incidents"], whole["hours"], whole["gpus"]) == (419, 1296, 16_384)
    assert whole["mtbf_hours"] == pytest.approx(3.09, abs=0.005)
    assert (whole["mtbf_low_hours"], whole["mtbf_high_hours"]) == (
        pytest.approx(2.853, abs=1e-3),
        pytest.approx(3.358, abs=1e-3),
    )
    assert whole["gpu_hours_per_incident"] == pytest.approx(50_677, abs=1)
    assert whole["mtbf_1024_hours"] == pytest.approx(49.5, abs=0.05)
    assert whole["mtbf_100000_hours"] == pytest.approx(0.51, abs=0.005)
    faulty = out[name, "category", "GPU", "Faulty GPU"]
    assert (faulty["incidents"], faulty["published_share_ratio"]) == (148, 0.301)
    assert faulty["share_ratio"] == pytest.approx(148 / 419, abs=1e-6)
    assert out[name, "class", "GPU", "all"]["share_ratio"] == pytest.approx(0.640, abs=5e-4)


def test_a_code_that_stood_in_a_gauge_at_its_first_reading_is_no_incident():
    standing = event(60, 79, kind="xid_last", severity=None)
    out = built(telemetry__gpu_hours=hours(100), telemetry__gpu_events=[standing])
    assert out["c1", "all", "all", "all"]["incidents"] == 0
    out = built(telemetry__gpu_hours=hours(100), telemetry__gpu_events=[standing, event(90, 79)])
    assert {k[2]: v["incidents"] for k, v in out.items() if k[1] == "class"} == {"gpu_bus": 1}
