"""mart.own_cost_daily and mart.token_cost by hand: a GPU-hour at 1 USD and 0.12 USD for a kWh of GPU energy."""

from __future__ import annotations

import datetime as dt

import pytest
from marts.tables import database, mart

H100 = "nvidia-h100-sxm5-80gb"
START = dt.datetime(2026, 3, 1, 8, tzinfo=dt.UTC)
FIRST = {"valid_from_date": dt.date(2026, 1, 1), "source": "cost-model"}
STAFF = {"pool": "staff", "method": "monthly", "monthly_usd": 5_844.0, "gpus": 8.0, **FIRST}  # 8 x 730.5 h: 1 USD
POWER = {"pool": "power", "method": "energy", "energy_usd_per_kwh": 0.1, "pue_ratio": 1.2, **FIRST}
JOB = {"scheduler": "slurm", "job_id": "j1", "attempt": 0, "state": "completed", "submitted_at": START, "started_at": START,
       "ended_at": START + dt.timedelta(hours=2), "gpus_allocated": 2.0, "account": "llm", "source": "slurm"}  # fmt: skip


def hour(gpu: str, number: int, watts: float = 600.0, **more) -> dict:
    at = START + dt.timedelta(hours=number)
    return {"hour_at": at, "date": at.date(), "gpu_uuid": gpu, "accelerator_id": H100, "sample_count": 60, "power_count": 60,
            "seconds_covered": 3600.0, "power_mean_w": watts, "energy_j": 3600 * watts, "energy_seconds": 3600.0, **more}  # fmt: skip


def held(gpu: str) -> dict:
    return {"job_id": "j1", "attempt": 0, "gpu_uuid": gpu, "from_at": START, "share_ratio": 1.0, "source": "slurm"}


def step(number: int, **more) -> dict:
    return {"job_id": "j1", "attempt": 0, "step": number, "pass_number": 1, "step_seconds": 60.0, "tokens": 500_000, "steps_covered": 1,
            "completed_at": START + dt.timedelta(minutes=number), "source": "training-log", **more}  # fmt: skip


def served(number: int, **more) -> dict:
    return {"model": "chat", "server": "s1", "minute_at": START + dt.timedelta(minutes=number), "engine": "vllm",
            "input_tokens": 30_000.0, "output_tokens": 10_000.0, "source": "inference-metrics", **more}  # fmt: skip


FULL = {
    "ref__cost_pools": [STAFF, POWER],
    "telemetry__jobs": [JOB],
    "telemetry__job_gpus": [held("G0"), held("G1")],
    "telemetry__training_steps": [*[step(n) for n in range(1, 5)], step(4, pass_number=2)],
    "telemetry__gpu_hours": [hour(g, n) for g in ("G0", "G1") for n in range(3)],
}


def rows(**changes) -> dict:
    return {r["work"]: r for r in mart(database(**{**FULL, **changes}), "token_cost")}


def test_a_day_of_own_cost():
    (out,) = mart(database(**FULL), "own_cost_daily")
    assert (out["gpus_seen"], out["power_w"], out["unknown_reason"]) == (2, 600.0, None)
    assert out["own_fixed_usd_per_gpu_hour"] == pytest.approx(1.0)
    assert out["own_usd_per_gpu_kwh"] == pytest.approx(0.12)
    assert out["own_usd_per_gpu_hour"] == pytest.approx(1.072)


def test_a_million_trained_tokens():
    out = rows()["training"]
    # 2 GPUs x 2 h: 4 USD, and 4 h x 0.6 kW x 0.12 = 0.288; 4 steps of half a million tokens, one of them run twice
    assert (out["gpu_hours"], out["gpu_hours_basis"], out["tokens"]) == (4.0, "allocated", 2_000_000)
    assert (out["fixed_usd"], out["energy_usd"], out["energy_basis"]) == (4.0, 0.288, "job")
    assert out["usd_per_million_tokens"] == pytest.approx(4.288 / 2)
    assert (out["account"], out["unknown_reason"]) == ("llm", None)


def test_a_million_served_tokens():
    # 6 minutes on 2 GPUs: 0.2 GPU-hours at 1 USD, and 0.2 x 0.6 x 0.12; 240,000 tokens, 60,000 of them generated
    out = rows(telemetry__inference_minutes=[served(n, gpus=2.0) for n in range(6)])["inference"]
    assert (out["gpu_hours"], out["gpu_hours_basis"], out["tokens"], out["output_tokens"]) == (
        0.2,
        "stated",
        240_000,
        60_000,
    )
    assert out["cost_usd"] == pytest.approx(0.2144)
    assert out["usd_per_million_tokens"] == pytest.approx(0.2144 / 0.24)
    assert out["usd_per_million_output_tokens"] == pytest.approx(0.2144 / 0.06)
    assert out["energy_basis"] == "fleet"


def test_servers_of_one_job_share_its_gpus():
    minutes = [served(n, server=s, job_id="j1") for n in range(60) for s in ("s1", "s2")]
    out = [
        r
        for r in mart(database(**{**FULL, "telemetry__inference_minutes": minutes}), "token_cost")
        if r["work"] == "inference"
    ]
    assert [(r["gpu_hours"], r["gpu_hours_basis"], r["energy_basis"]) for r in out] == [(1.0, "job", "job")] * 2


def test_the_price_of_each_day_counts():
    # from hour 16 on (the next UTC day) staff cost twice as much
    dearer = {**STAFF, "valid_from_date": dt.date(2026, 3, 2), "monthly_usd": 11_688.0}
    before = {**STAFF, "valid_to_date": dt.date(2026, 3, 1)}
    long = {**JOB, "ended_at": START + dt.timedelta(hours=20)}
    out = rows(
        ref__cost_pools=[before, dearer, POWER],
        telemetry__jobs=[long],
        telemetry__gpu_hours=[hour(g, n) for g in ("G0", "G1") for n in range(20)],
    )["training"]
    assert out["fixed_usd"] == pytest.approx(2 * (16 * 1.0 + 4 * 2.0))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ref__cost_pools": []}, "no cost pool of this cluster"),
        ({"ref__cost_pools": [STAFF]}, "no pool states the price of electricity"),
        ({"telemetry__training_steps": [step(1, tokens=None)]}, "no tokens are known"),
        ({"telemetry__jobs": []}, "when it ran is not known"),
        ({"telemetry__gpu_hours": [hour(g, n) for g in ("G0", "G1") for n in range(2)], "telemetry__jobs": [{**JOB, "ended_at": START + dt.timedelta(hours=30)}]},
         "the days it ran on were not all read"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(changes, reason):
    out = rows(**changes)["training"]
    assert out["usd_per_million_tokens"] is None
    assert out["unknown_reason"].startswith(reason)


def test_a_server_on_gpus_nobody_knows_has_no_cost():
    out = rows(telemetry__inference_minutes=[served(0)])["inference"]
    assert (out["cost_usd"], out["unknown_reason"]) == (None, "the GPUs that did it are not known")
