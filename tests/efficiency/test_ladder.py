"""A week with planted faults: every loss is found in its rung, nothing else is blamed, and all adds up."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from assets.idle import idle_stretches, learn_idle_power
from assets.ladder import RUNGS, ladder, shares
from assets.ladder_jobs import job_timelines

WEEK_H = 168
START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
HOUR = 3_600_000_000
GPUS = [f"n{n}-g{g}" for n in range(4) for g in range(8)]


def us(hours: float) -> int:
    return int(START.timestamp() * 1e6) + round(hours * HOUR)


def when(hours: float) -> dt.datetime:
    return START + dt.timedelta(hours=hours)


def spans(rows: list[tuple[str, float, float]]) -> pl.DataFrame:
    data = [{"cluster": "c", "gpu_uuid": g, "from_us": us(a), "to_us": us(b)} for g, a, b in rows]
    return pl.DataFrame(
        data, schema={"cluster": pl.String, "gpu_uuid": pl.String, "from_us": pl.Int64, "to_us": pl.Int64}
    )


def stay(job: str, gpu: str, a: float, b: float, share: float | None = 1.0, attempt: int = 0) -> dict:
    return {"cluster": "c", "gpu_uuid": gpu, "from_us": us(a), "to_us": us(b), "job_id": job, "attempt": attempt,
            "share_ratio": share}  # fmt: skip


def run(job: str, a: float, b: float, attempt: int = 0) -> dict:
    return {"cluster": "c", "job_id": job, "attempt": attempt, "from_us": us(a), "to_us": us(b)}


def step_lines(
    job: str, first_step: int, at_h: float, seconds: list[float], attempt: int = 0, warm_up: int = 0
) -> list[dict]:
    """One line a step, one after the other from `at_h` on."""
    rows, clock = [], when(at_h)
    for number, length in enumerate(seconds):
        clock += dt.timedelta(seconds=length)
        rows.append({"cluster": "c", "job_id": job, "attempt": attempt, "step": first_step + number, "completed_at": clock,
                     "step_seconds": length, "steps_covered": 1, "segment": 0, "is_warm_up": number < warm_up})  # fmt: skip
    return rows


def phase(job: str, kind: str, a: float, b: float, attempt: int = 0) -> dict:
    return {"cluster": "c", "job_id": job, "attempt": attempt, "phase": kind, "from_at": when(a), "to_at": when(b)}


PHASES = {"cluster": pl.String, "job_id": pl.String, "attempt": pl.Int64, "phase": pl.String,
          "from_at": pl.Datetime("us", "UTC"), "to_at": pl.Datetime("us", "UTC")}  # fmt: skip
HOT = {"cluster": pl.String, "job_id": pl.String, "attempt": pl.Int64, "from_us": pl.Int64, "to_us": pl.Int64}


@pytest.fixture(scope="module")
def week() -> pl.DataFrame:
    """Four nodes of eight GPUs for a week.

    n0, n1: job A, 16 GPUs. Attempt 0 runs hours 0-60: 1 h of start-up, then steps of 36 s. Step times double
    for hours 21-31 (a straggler: 500 steps of 72 s), and again for hours 41-51 while a rack is hot (throttled).
    It dies at hour 60; the last checkpoint was 2 h of good steps before. Attempt 1 runs 62-122 (0.5 h of start-up)
    and begins with those 200 steps again; at hour 100 a checkpoint takes 0.5 h and at hour 110 data stalls for 1 h.
    n2: dead from hour 100 on. n3: job B holds GPU 0 for hours 0-48 and does nothing in 8-40; jobs C and D share
    GPU 1 (MIG, 3/7 and 4/7) for hours 0-70 and keep no log.
    """
    steps = step_lines("A", 1, 1, [36.0] * 2000 + [72.0] * 500 + [36.0] * 1000 + [72.0] * 500 + [36.0] * 900)
    again_from = 1 + 4900 - 200
    second = [36.0] * 3700 + [36.0] * 900 + [36.0] * 1150
    restart = step_lines("A", again_from, 62.5, second[:3700], attempt=1)  # hours 62.5-99.5
    restart += step_lines("A", again_from + 3700, 100.5, [36.0] * 950, attempt=1)  # 100.5-110
    restart += step_lines("A", again_from + 4650, 111, [36.0] * 1100, attempt=1)  # 111-122
    jobs = [run("A", 0, 60), run("A", 62, 122, 1), run("B", 0, 48), run("C", 0, 70), run("D", 0, 70)]
    stays = [stay("A", g, 0, 60) for g in GPUS[:16]] + [stay("A", g, 62, 122, attempt=1) for g in GPUS[:16]]
    stays += [stay("B", "n3-g0", 0, 48), stay("C", "n3-g1", 0, 70, 3 / 7), stay("D", "n3-g1", 0, 70, 4 / 7)]
    phases = [phase("A", "checkpoint_save", 99.5, 100.5, 1), phase("A", "data_stall", 110, 111, 1)]
    hot = [{"cluster": "c", "job_id": "A", "attempt": 0, "from_us": us(41), "to_us": us(51)}]
    timelines = job_timelines(
        pl.DataFrame(jobs), pl.DataFrame([*steps, *restart]), pl.DataFrame(phases, PHASES), pl.DataFrame(hot, HOT)
    )
    return ladder(
        spans([(g, 0, WEEK_H) for g in GPUS]),
        spans([(g, 100, WEEK_H) for g in GPUS[16:24]]),
        pl.DataFrame(stays),
        spans([("n3-g0", 8, 40), ("n3-g5", 0, 100)]),
        timelines,
    )


def hours(rungs: pl.DataFrame, rung: str, job: str | None = None) -> float:
    picked = rungs.filter(pl.col("rung") == rung)
    picked = picked if job is None else picked.filter(pl.col("job_id") == job)
    return picked["gpu_us"].sum() / HOUR


def test_the_rungs_add_up_to_the_capacity_exactly(week):
    assert week["gpu_us"].sum() == len(GPUS) * WEEK_H * HOUR


# 1 h + 20 h of steps + 10 h slow + 10 h + 10 h hot + 9 h = hour 60; attempt 1 as described; 16 GPUs each.
@pytest.mark.parametrize(
    ("rung", "expected"),
    [
        ("down", 8 * 68),
        ("allocated_idle", 32),
        ("start_up", 16 * (1 + 0.5)),
        ("rollback", 16 * 2),
        ("straggler", 16 * 5),
        ("throttled", 16 * 5),
        ("checkpoint", 16 * 1),
        ("data_stall", 16 * 1),
        ("evaluation", 0),
        ("exposed_communication", 0),
        ("other", 0),
        ("unlogged", 70 + 48 - 32),
        ("productive", 16 * (59 - 10 - 2) + 16 * (60 - 0.5 - 1 - 1)),
        ("unallocated", 16 * (168 - 120) + 8 * 100 + (168 - 48) + (168 - 70) + 6 * 168),
    ],
)
def test_planted_losses_are_found_in_their_rung(week, rung, expected):
    assert hours(week, rung) == pytest.approx(expected, abs=1e-6)


def test_a_shared_gpu_is_split_by_its_shares(week):
    assert hours(week, "unlogged", "C") == pytest.approx(70 * 3 / 7, abs=1e-8)
    assert hours(week, "unlogged", "D") == pytest.approx(70 * 4 / 7, abs=1e-8)


def test_shares_sum_to_exactly_one(week):
    out = shares(week)
    assert sum(round(s * 10_000) for s in out["share_ratio"]) == 10_000
    assert out["rung"].to_list() == [r for r in RUNGS if r in set(out["rung"])]
    by_job = shares(week.drop_nulls("job_id"), by=("cluster", "job_id"))
    for _, group in by_job.group_by("job_id"):
        assert sum(round(s * 10_000) for s in group["share_ratio"]) == 10_000


def test_holders_without_stated_shares_share_equally_and_oversold_gpus_are_scaled():
    stays = pl.DataFrame(
        [stay("X", "g", 0, 1, None), stay("Y", "g", 0, 1, None), stay("P", "h", 0, 1, 0.9), stay("Q", "h", 0, 1, 0.9)]
    )
    jobs = pl.DataFrame([run(j, 0, 1) for j in "XYPQ"])
    nothing = pl.DataFrame(step_lines("Z", 1, 0, [1.0]))
    timelines = job_timelines(jobs, nothing, pl.DataFrame(schema=PHASES), pl.DataFrame(schema=HOT))
    out = ladder(spans([("g", 0, 1), ("h", 0, 1)]), spans([]), stays, spans([]), timelines)
    assert {r["job_id"]: r["gpu_us"] / HOUR for r in out.to_dicts()} == dict.fromkeys("XYPQ", 0.5)


def test_a_stay_beyond_its_job_is_not_known():
    jobs, stays = pl.DataFrame([run("X", 0, 1)]), pl.DataFrame([stay("X", "g", 0, 3)])
    steps = pl.DataFrame(step_lines("X", 1, 0, [36.0] * 100))
    timelines = job_timelines(jobs, steps, pl.DataFrame(schema=PHASES), pl.DataFrame(schema=HOT))
    out = ladder(spans([("g", 0, 4)]), spans([]), stays, spans([]), timelines)
    assert {r["rung"]: r["gpu_us"] / HOUR for r in out.to_dicts()} == {"productive": 1, "unlogged": 2, "unallocated": 1}


def test_warm_up_excess_is_start_up_and_gaps_are_other():
    steps = step_lines("X", 1, 0.1, [136.0] + [36.0] * 20, warm_up=1)
    gap = step_lines("X", 22, 0.5, [36.0] * 10)
    timelines = job_timelines(
        pl.DataFrame([run("X", 0, 0.6)]),
        pl.DataFrame([*steps, *gap]),
        pl.DataFrame(schema=PHASES),
        pl.DataFrame(schema=HOT),
    )
    took = timelines.group_by("rung").agg((pl.col("to_us") - pl.col("from_us")).sum() / 1e6)
    # 360 s before the first step and 100 s of its 136 s; 31 steps of 36 s; 2,160 s in all
    assert dict(took.rows()) == {"start_up": 460, "productive": 31 * 36, "other": 2160 - 460 - 31 * 36}


def minutes(gpu: str, powers: list[float], *, tensor: float | None, sm: float | None, used: float) -> list[dict]:
    return [{"cluster": "c", "gpu_uuid": gpu, "accelerator_id": "a", "minute_at": START + dt.timedelta(minutes=i),
             "power_mean_w": p, "tensor_active_mean_ratio": tensor, "sm_active_mean_ratio": sm,
             "memory_used_mean_bytes": used, "memory_total_bytes": 100} for i, p in enumerate(powers)]  # fmt: skip


def test_idle_power_is_learned_for_empty_and_resident_boards():
    rows = minutes("empty", [66.0, 67.0, 68.0] * 20, tensor=0.0, sm=0.0, used=1)
    rows += minutes("resident", [113.0, 114.0] * 30, tensor=0.0, sm=0.0, used=80)
    rows += minutes("busy", [650.0] * 60, tensor=0.4, sm=0.9, used=90)
    rows += minutes("few", [40.0] * 5, tensor=0.0, sm=0.0, used=1)
    # no activity metrics: power alone decides, ten minutes in a row at least
    rows += minutes("blind", [70.0] * 12 + [300.0] + [70.0] * 9, tensor=None, sm=None, used=1)
    # busy on little power is not idle
    rows += minutes("cool", [70.0] * 30, tensor=0.3, sm=0.5, used=1)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    model = learn_idle_power(frame)
    assert model.select("is_resident", "idle_w").rows() == [(False, 67.0), (True, 113.5)]
    out = idle_stretches(frame, model)
    took = {r["gpu_uuid"]: (r["to_us"] - r["from_us"]) / 60e6 for r in out.to_dicts()}
    assert took == {"empty": 60, "resident": 60, "blind": 12}
    assert idle_stretches(frame, model.clear()).height == 0
