"""mart.job_efficiency on hand-made tables: MFU, contradiction, energy at the edges, attribution, reasons."""

from __future__ import annotations

import datetime as dt

import pytest
from marts.tables import database, mart

from assets.flops import Shape, count_flops

H100 = "nvidia-h100-sxm5-80gb"
START = dt.datetime(2026, 3, 1, 8, tzinfo=dt.UTC)
MODEL = {"model_config_id": "m1", "model": "m", "params": 1e9, "layers": 10, "hidden": 512, "heads": 8, "head_dim": 64.0,
         "seq_len": 1024}  # fmt: skip
JOB = {"scheduler": "slurm", "job_id": "j1", "attempt": 0, "state": "completed", "submitted_at": START - dt.timedelta(hours=1),
       "eligible_at": START - dt.timedelta(minutes=30), "started_at": START, "ended_at": START + dt.timedelta(minutes=90),
       "gpus_allocated": 2.0, "source": "slurm"}  # fmt: skip
PEAK = {
    "accelerator_id": H100,
    "vendor": "NVIDIA",
    "model": "H100",
    "bf16_dense_tflops": 989.4,
    "fp8_dense_tflops": 1978.9,
}


def step(number: int, seconds: float, **more) -> dict:
    base = {"job_id": "j1", "attempt": 0, "step": number, "pass_number": 1, "step_seconds": seconds, "tokens": 250_000,
            "steps_covered": 1, "is_warm_up": number == 1, "model_config_id": "m1", "source": "training-log",
            "completed_at": START + dt.timedelta(seconds=number)}  # fmt: skip
    return {**base, **more}


def hour(gpu: str, number: int, tensor: float | None = 0.5, energy: float | None = 3600 * 600.0) -> dict:
    at = START + dt.timedelta(hours=number)
    return {"hour_at": at, "date": at.date(), "gpu_uuid": gpu, "accelerator_id": H100, "sample_count": 60,
            "seconds_covered": 3600.0, "energy_j": energy, "energy_seconds": 3600.0 if energy else 0.0,
            "tensor_active_mean_ratio": tensor}  # fmt: skip


def minute(gpu: str, number: int, energy: float) -> dict:
    at = START + dt.timedelta(minutes=number)
    return {"minute_at": at, "date": at.date(), "gpu_uuid": gpu, "sample_count": 1, "seconds_covered": 60.0,
            "energy_j": energy, "energy_seconds": 60.0}  # fmt: skip


def held(gpu: str, **more) -> dict:
    return {
        "job_id": "j1",
        "attempt": 0,
        "gpu_uuid": gpu,
        "from_at": START,
        "share_ratio": 1.0,
        "source": "slurm",
        **more,
    }


FULL = {
    "telemetry__jobs": [JOB],
    "telemetry__job_gpus": [held("G0"), held("G1")],
    "telemetry__training_steps": [step(1, 5.0), *[step(n, 1.0) for n in range(2, 6)], step(5, 1.0, pass_number=2)],
    "telemetry__gpu_hours": [hour(g, n) for g in ("G0", "G1") for n in (0, 1)],
    # in the second hour the job runs for 30 minutes at 700 W, then the board idles at 100 W
    "telemetry__gpu_minutes": [
        minute(g, 60 + n, 60 * (700.0 if n < 30 else 100.0)) for g in ("G0", "G1") for n in range(60)
    ],
    "ref__model_configs": [MODEL],
    "ref__accelerators": [PEAK],
}


def row(**changes) -> dict:
    (found,) = mart(database(**{**FULL, **changes}), "job_efficiency")
    return found


def test_mfu_from_steps_model_and_peak():
    out = row()
    per_token = 6e9 + 12 * 10 * 8 * 64 * 1024
    # warm-up left out: 250,000 tokens a second on two GPUs
    assert out["tokens_per_s"] == 250_000
    assert out["model_flops_per_token"] == per_token
    assert out["achieved_tflops_per_gpu"] == pytest.approx(250_000 * per_token / 2 / 1e12)
    assert out["mfu_ratio"] == pytest.approx(250_000 * per_token / 2 / 989.4e12, abs=1e-6)
    assert out["mfu_causal_ratio"] < out["mfu_ratio"]
    assert (out["peak_precision"], out["is_precision_assumed"], out["flops_formula"]) == (
        "bf16",
        True,
        "palm, full attention",
    )
    assert out["contradicts_tensor_active"] is True  # 0.766 against a tensor pipe active half of the time
    assert (out["reported_steps"], out["repeated_steps"], out["last_step"]) == (6, 1, 5)
    assert out["tokens"] == 5 * 250_000  # the repeated step counts once


def test_the_stated_precision_chooses_the_peak():
    stated = {**JOB, "precision": "fp8"}
    out = row(telemetry__jobs=[stated])
    assert (out["peak_dense_tflops"], out["is_precision_assumed"]) == (1978.9, False)
    assert out["contradicts_tensor_active"] is False


def test_waits_attribution_and_energy_at_the_edges():
    out = row()
    assert out["wait_seconds"] == 1800
    assert (out["gpu_hours"], out["attributed_gpu_hours"], out["attributed_ratio"]) == (3.0, 3.0, 1.0)
    # first hour 600 W, then 30 minutes of 700 W, on two GPUs
    assert out["energy_kwh"] == pytest.approx(2 * (0.6 + 0.35), abs=1e-6)
    assert out["energy_known_ratio"] == pytest.approx(1.0)
    assert out["gpu_energy_per_token_j"] == pytest.approx(2 * 0.95 * 3.6e6 / 1_250_000)


def test_half_of_a_gpu_and_half_of_the_gpus_known():
    out = row(telemetry__job_gpus=[held("G0", share_ratio=0.5)], telemetry__gpu_minutes=[])
    assert (out["attributed_gpu_hours"], out["attributed_ratio"]) == (0.75, 0.25)
    assert out["energy_kwh"] == pytest.approx(0.5 * (0.6 + 0.3))  # without minutes the hour is shared by time


def test_energy_of_a_token_needs_the_energy_of_the_time():
    out = row(telemetry__gpu_hours=[hour("G0", 0), hour("G0", 1), hour("G1", 0, energy=None), hour("G1", 1)])
    assert out["energy_known_ratio"] == pytest.approx(2 / 3)
    assert out["gpu_energy_per_token_j"] is None


def test_collectors_are_not_added_up():
    twice = [*FULL["telemetry__gpu_hours"], {**hour("G0", 0), "source": "dcgm-exporter", "seconds_covered": 1800.0}]
    assert row(telemetry__gpu_hours=twice)["energy_kwh"] == row()["energy_kwh"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"telemetry__training_steps": []}, "no training log"),
        ({"telemetry__training_steps": [step(2, 1.0, tokens=None)]}, "tokens a second not known"),
        ({"telemetry__training_steps": [step(2, 1.0, model_config_id=None)]}, "model not known"),
        ({"ref__model_configs": []}, "the shape of the model is not complete"),
        ({"telemetry__gpu_hours": []}, "accelerator not known"),
        ({"telemetry__jobs": [{**JOB, "precision": "fp4"}]}, "no published dense fp4 peak"),
    ],
)
def test_an_unknown_mfu_says_why(changes, reason):
    out = row(**changes)
    assert out["mfu_ratio"] is None
    assert out["mfu_unknown_reason"].startswith(reason)


@pytest.mark.parametrize(("kind", "mfu", "hfu"), [("model", 0.5, None), ("hardware", None, 0.5)])
def test_printed_tflops_are_divided_by_our_own_peak(kind, mfu, hfu):
    stated = {"stated_tflops_per_gpu": 494.7, "stated_tflops_kind": kind, "stated_mfu_ratio": 0.99}
    out = row(telemetry__training_steps=[step(2, 1.0, **stated), step(3, 1.0, **stated)])
    assert (out["stated_mfu_ratio"], out["stated_hfu_ratio"]) == (mfu, hfu)


def test_a_log_without_a_scheduler_is_a_job_too():
    out = row(telemetry__jobs=[])
    assert (out["scheduler"], out["state"], out["gpus"]) == ("none", "unknown", 2)


@pytest.mark.parametrize(
    "shape",
    [
        {"params": 671e9, "active_params": 37e9, "layers": 61, "heads": 128, "head_dim": 192.0, "value_head_dim": 128.0,
         "seq_len": 4096},
        {"params": 8.03e9, "embedding_params": 5e8, "layers": 32, "heads": 32, "hidden": 4096, "seq_len": 8192},
        {"params": 69e9, "trainable_params": 1e6, "layers": 80, "heads": 64, "head_dim": 128.0, "seq_len": 8192},
        {"params": 1e9, "embedding_params": 1e8, "is_tied_embedding": True, "layers": 2, "heads": 4, "head_dim": 64.0,
         "seq_len": 4096, "attention_window": 512},
    ],
    ids=["moe-mla", "embedding", "frozen", "window-tied"],
)  # fmt: skip
def test_sql_and_calculator_count_alike(shape):
    out = row(ref__model_configs=[{"model_config_id": "m1", "model": "m", **shape}])
    assert out["model_flops_per_token"] == pytest.approx(count_flops(Shape(**shape)).model_flops_per_token, rel=1e-12)


def test_hours_carry_the_sums_from_which_groups_follow():
    late = [step(n, 2.0, completed_at=START + dt.timedelta(hours=1, seconds=n)) for n in range(10, 13)]
    out = mart(
        database(**{**FULL, "telemetry__training_steps": [*FULL["telemetry__training_steps"], *late]}), "mfu_hourly"
    )
    first, second = sorted(out, key=lambda r: r["hour_at"])
    per_token = 6e9 + 12 * 10 * 8 * 64 * 1024
    # five steps of a second (one of them repeated) and three of two seconds; warm-up left out
    assert (first["steps"], second["steps"], second["step_seconds"]) == (5, 3, 6.0)
    assert first["mfu_ratio"] == pytest.approx(250_000 * per_token / 2 / 989.4e12, abs=1e-6)
    assert second["mfu_ratio"] == pytest.approx(first["mfu_ratio"] / 2, abs=1e-6)
    assert (first["step_slowdown_ratio"], second["step_slowdown_ratio"]) == (1.0, 2.0)
    whole = (first["model_flops"] + second["model_flops"]) / (first["peak_flops"] + second["peak_flops"])
    assert whole == pytest.approx(8 * 250_000 * per_token / (11 * 2 * 989.4e12))


@pytest.mark.parametrize(
    ("recompute", "factor"),
    # 6e9 + 12 x 10 x 8 x 64 x 1024 = 6,062,914,560 FLOP a token, 62,914,560 of them attention
    [("none", 1.0), ("selective", 1 + 62_914_560 / 3 / 6_062_914_560), ("full", 4 / 3)],
)
def test_hfu_counts_what_is_computed_again(recompute, factor):
    out = row(telemetry__jobs=[{**JOB, "recompute": recompute}])
    assert out["hfu_ratio"] == pytest.approx(out["mfu_ratio"] * factor, abs=2e-6)
    assert (out["recompute"], out["hfu_unknown_reason"]) == (recompute, None)


def test_hfu_is_refused_where_nothing_states_what_is_computed_again():
    out = row()
    assert (out["hfu_ratio"], out["hfu_unknown_reason"]) == (None, "what is computed again is not stated")


def test_the_bound_needs_the_clock_of_the_peak():
    hours = [{**hour(g, n), "sm_clock_mean_mhz": 1980.0} for g in ("G0", "G1") for n in (0, 1)]
    known = row(telemetry__gpu_hours=hours, ref__accelerators=[{**PEAK, "matrix_clock_mhz": 1830.0}])
    # half of the cycles, at 1980 MHz of a peak stated at 1830
    assert known["hfu_bound_ratio"] == pytest.approx(0.5 * 1980 / 1830, abs=1e-6)
    assert (known["sm_clock_mean_mhz"], known["hfu_bound_unknown_reason"]) == (1980.0, None)
    unknown = row(telemetry__gpu_hours=hours)
    assert (unknown["hfu_bound_ratio"], unknown["hfu_bound_unknown_reason"]) == (
        None,
        "the clock at which the peak is stated is not known",
    )
    assert row()["hfu_bound_unknown_reason"] == "the SM clock was not read"
