"""mart.energy on hand-made meters, hours, jobs and steps."""

from __future__ import annotations

import datetime as dt

import pytest
from marts.tables import database, mart

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def meter(
    scope: str, device: str, minutes: range, power: float | None = None, joules_a_minute: float | None = None
) -> list[dict]:
    return [
        {"sampled_at": START + dt.timedelta(minutes=m), "scope": scope, "device": device, "power_w": power,
         "energy_j": None if joules_a_minute is None else 1e9 + joules_a_minute * m}
        for m in minutes
    ]  # fmt: skip


def hour(gpu: str, number: int, watts: float | None) -> dict:
    at = START + dt.timedelta(hours=number)
    return {"hour_at": at, "date": at.date(), "gpu_uuid": gpu, "seconds_covered": 3600.0,
            "energy_j": None if watts is None else 3600 * watts, "energy_seconds": 0.0 if watts is None else 3600.0}  # fmt: skip


def day(**rows) -> dict:
    (found,) = mart(database(**rows), "energy")
    return found


THREE_HOURS = [hour(g, n, 500.0) for g in ("G0", "G1") for n in range(3)]


def test_pue_divides_sums_over_hours_that_both_meters_cover():
    # facility: 3 kW by power for three hours; IT: 2 kW by counter for the first and the third hour only
    it = [
        *meter("it", "m", range(0, 61, 10), joules_a_minute=120_000),
        *meter("it", "m", range(120, 181, 10), joules_a_minute=120_000),
    ]
    facility = meter("facility", "f", range(0, 121, 15), power=3000.0) + meter(
        "facility", "f", range(135, 181, 15), power=4000.0
    )
    out = day(telemetry__power_readings=[*it, *facility], telemetry__gpu_hours=THREE_HOURS)
    assert (out["it_hours"], out["facility_hours"], out["pue_hours"]) == (2, 3, 2)
    assert out["it_energy_kwh"] == pytest.approx(4.0)
    # third hour of the facility: a quarter of an hour from 3 to 4 kW, then 4 kW
    third = 0.25 * 3.5 + 0.75 * 4
    assert out["facility_energy_kwh"] == pytest.approx(6 + third)
    assert out["pue_ratio"] == pytest.approx((3 + third) / 4)
    assert (out["it_basis"], out["it_over_gpu_ratio"]) == ("it", 2.0)


def test_node_meters_stand_in_only_where_all_of_them_read():
    nodes = meter("node", "n1", range(0, 121, 10), power=800.0) + meter("node", "n2", range(0, 61, 10), power=700.0)
    out = day(telemetry__power_readings=nodes, telemetry__gpu_hours=THREE_HOURS)
    assert (out["it_basis"], out["it_hours"], out["it_energy_kwh"]) == ("node", 1, 1.5)
    assert out["pue_ratio"] is None


def test_a_gap_of_a_meter_is_not_filled():
    readings = meter("it", "m", range(0, 31, 10), power=1000.0) + meter("it", "m", range(50, 61, 10), power=1000.0)
    out = day(telemetry__power_readings=readings, telemetry__gpu_hours=THREE_HOURS)
    assert (out["it_hours"], out["it_energy_kwh"]) == (None, None)


def test_energy_of_jobs_and_tokens():
    job = {"scheduler": "slurm", "job_id": "j", "attempt": 0, "state": "completed", "started_at": START,
           "ended_at": START + dt.timedelta(minutes=90), "source": "slurm"}  # fmt: skip
    other = {**job, "job_id": "k"}
    held = {"job_id": "j", "attempt": 0, "gpu_uuid": "G0", "from_at": START, "share_ratio": 1.0, "source": "slurm"}
    also = {**held, "job_id": "k", "gpu_uuid": "G1", "share_ratio": 0.5}
    step = {"job_id": "j", "attempt": 0, "step": 1, "pass_number": 1, "completed_at": START + dt.timedelta(minutes=5),
            "tokens": 1000, "steps_covered": 10, "source": "training-log"}  # fmt: skip
    again = {**step, "pass_number": 2, "completed_at": START + dt.timedelta(minutes=9)}
    out = day(
        telemetry__jobs=[job, other], telemetry__job_gpus=[held, also], telemetry__training_steps=[step, again],
        telemetry__gpu_hours=THREE_HOURS,
        telemetry__power_readings=meter("it", "m", range(0, 61, 10), power=1500.0) + meter("facility", "f", range(0, 61, 10), power=1800.0),
    )  # fmt: skip
    assert out["gpu_energy_kwh"] == pytest.approx(3.0)
    assert out["job_energy_kwh"] == pytest.approx(0.75 + 0.375)
    assert out["job_energy_ratio"] == pytest.approx(1.125 / 3)
    assert (out["training_energy_kwh"], out["tokens"]) == (pytest.approx(0.75), 10_000)
    assert out["gpu_energy_per_token_j"] == pytest.approx(0.75 * 3.6e6 / 10_000)
    assert out["energy_per_token_j"] == pytest.approx(0.75 * 3.6e6 / 10_000 * 1.5 * 1.2)


def test_unknown_energy_is_not_zero():
    out = day(telemetry__gpu_hours=[hour("G0", 0, None), hour("G0", 1, 500.0)])
    assert (out["gpu_energy_kwh"], out["gpu_energy_known_ratio"]) == (0.5, 0.5)
    assert out["gpu_energy_per_token_j"] is None
