"""Pictures of efficiency, reliability and cost: what they say, that they draw, and what they need when empty."""

from __future__ import annotations

import datetime as dt

import pytest
import vl_convert

from report.pages import page
from report.rows import link_counters, warehouse

H100 = "nvidia-h100-sxm5-80gb"
START = dt.datetime(2026, 3, 1, 8, tzinfo=dt.UTC)
FIRST = {"valid_from_date": dt.date(2026, 1, 1), "source": "cost-model"}


def job(number: int, state: str = "completed") -> dict:
    return {"scheduler": "slurm", "job_id": f"j{number}", "attempt": 0, "state": state, "started_at": START,
            "ended_at": START + dt.timedelta(hours=1), "gpus_allocated": 1.0, "precision": "bf16", "node_list": f"n{number}", "source": "slurm"}  # fmt: skip


def hour(number: int) -> dict:
    return {"cluster": "c1", "node": f"n{number}", "hour_at": START, "date": START.date(), "gpu_uuid": f"G{number}", "accelerator_id": H100,
            "sample_count": 60, "power_count": 60, "seconds_covered": 3600.0, "power_mean_w": 500.0, "energy_j": 1.8e6,
            "energy_seconds": 3600.0}  # fmt: skip


TABLES = {
    "telemetry__jobs": [job(1), job(2, "node_fail")],
    "telemetry__job_gpus": [
        {"job_id": f"j{n}", "attempt": 0, "gpu_uuid": f"G{n}", "from_at": START, "share_ratio": 1.0, "source": "slurm"} for n in (1, 2)
    ],
    "telemetry__gpu_hours": [hour(1), hour(2)],
    # 6e9 FLOP a token at 50,000 and 60,000 tokens a second on a peak of 989.4 TFLOP/s: 30.3 % and 36.4 %
    "telemetry__training_steps": [
        {"job_id": f"j{n}", "attempt": 0, "step": s, "pass_number": 1, "step_seconds": 1.0, "tokens": 40_000 + 10_000 * n, "steps_covered": 1,
         "model_config_id": "m1", "completed_at": START + dt.timedelta(seconds=s), "source": "training-log"}
        for n in (1, 2) for s in (1, 2)
    ],
    "ref__model_configs": [{"model_config_id": "m1", "model": "m", "params": 1e9, "layers": 1, "hidden": 1, "heads": 1, "head_dim": 1.0, "seq_len": 1}],
    "ref__accelerators": [{"accelerator_id": H100, "vendor": "NVIDIA", "model": "H100", "bf16_dense_tflops": 989.4}],
    "ref__cost_pools": [
        {"pool": "staff", "method": "monthly", "monthly_usd": 1_461.0, "gpus": 2.0, **FIRST},
        {"pool": "power", "method": "energy", "energy_usd_per_kwh": 0.1, **FIRST},
    ],
    "telemetry__gpu_events": [
        {"cluster": "c1", "node": "n9", "occurred_at": START, "device": "G9", "kind": "xid", "event_id": "79", "code": 79, "severity": "fatal"}
    ],
}  # fmt: skip


@pytest.fixture
def shown(tmp_path):
    return page(warehouse(tmp_path, **TABLES))


def test_every_question_has_its_picture(shown):
    assert "Jobs reach an MFU of 33.4 % at the median, from 30.3 % to 36.4 %" in shown.text
    assert "Mean power of a GPU against MFU" in shown.text
    assert "2 errors of devices and lost jobs on 2 nodes" in shown.text
    assert "Links of the last 24 hours" in shown.text
    assert "USD per used GPU-hour: own" in shown.text
    assert "Cost of a million tokens" in shown.text


def test_the_pictures_draw(shown):
    for spec in shown.charts:
        vl_convert.vegalite_to_svg(spec | {"width": 400}, vl_version="6.4")


def test_a_failing_link_is_a_suspect(tmp_path):
    (bad,) = link_counters(cluster="c1")
    # twenty-nine good links beside one whose errors grew in four minutes
    read = [
        bad | {"link_index": link, "delta": 5 if link == 3 else 0, "sampled_at": bad["sampled_at"] + dt.timedelta(minutes=m)}
        for link in range(30) for m in range(4)
    ]  # fmt: skip
    text = page(warehouse(tmp_path, telemetry__link_counters=read)).text
    assert "1 of 30 links shown break a threshold" in text
    assert "Suspects, by evidence" in text


def test_what_is_empty_says_what_it_needs(tmp_path):
    text = page(warehouse(tmp_path, telemetry__gpu_events=[], telemetry__link_counters=[])).text
    assert "MFU by job is not shown: no job has one" in text
    assert "timeline of interruptions is not shown: none was seen" in text
    assert "map of links is not shown: no link was read" in text
    assert "it needs a cost model" in text
