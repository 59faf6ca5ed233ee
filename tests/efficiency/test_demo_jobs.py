"""Jobs of the demonstration cluster: the same on every run, readable without a refusal, true to its phases."""

from __future__ import annotations

import polars as pl

from assets.demo_jobs import log_payloads, scheduler_payload
from sources.jobs.slurm import SOURCE as SLURM
from sources.telemetry.synthetic_jobs import attempts
from sources.telemetry.synthetic_plan import Plan
from sources.training_logs.source import SOURCE as LOGS

PLAN = Plan()
KNOWN = attempts(PLAN)


def logs() -> pl.DataFrame:
    parsed = [LOGS.parse(p) for p in log_payloads(PLAN, KNOWN)]
    assert all(not out.rejects for out in parsed)
    return pl.concat([out.frames["telemetry.training_steps"] for out in parsed])


def test_scheduler_records_cover_the_busy_phases():
    out = SLURM.parse(scheduler_payload(PLAN, KNOWN))
    assert out.rejects == []
    jobs, held = out.frames["raw.scheduler_jobs"], out.frames["raw.device_snapshots"]
    assert jobs["is_synthetic"].all()
    took = (jobs["ended_at"] - jobs["started_at"]).dt.total_seconds() * jobs["gpus_allocated"]
    assert took.sum() == 3600 * 8 * ((6.5 + 7 + 4.75 + 2) + (6 + 7 + 4.75 + 4))
    assert held.height == jobs["gpus_allocated"].sum()
    assert jobs.filter(pl.col("job_id") == "1002_0").select("attempt", "state").rows() == [
        (0, "node_fail"),
        (1, "completed"),
    ]


def test_the_second_attempt_runs_steps_again():
    steps = logs().filter(pl.col("job_id") == "1002_0")
    last = steps.filter(pl.col("attempt") == 0)["step"].max()
    first = steps.filter(pl.col("attempt") == 1)["step"].min()
    assert first is not None
    assert last is not None
    assert 0 < first < last
    ends = steps.group_by("attempt").agg(pl.col("completed_at").max()).sort("attempt")["completed_at"]
    run = [r for r in KNOWN if r.job_id == "1002_0"]
    assert all((end - PLAN.start_at).total_seconds() <= r.to_s for end, r in zip(ends, run, strict=True))


def test_the_same_bytes_on_every_run():
    first = [p.sha256() for p in (scheduler_payload(PLAN, KNOWN), *log_payloads(PLAN, KNOWN))]
    assert first == [p.sha256() for p in (scheduler_payload(PLAN, attempts(PLAN)), *log_payloads(PLAN, attempts(PLAN)))]
