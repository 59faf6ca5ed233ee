"""Energy of a job, from samples through roll-ups to the mart, against the integral of the power that made them."""

from __future__ import annotations

import datetime as dt
import math

import polars as pl
import pytest
from marts.tables import database, fill

from assets.energy import integrate_power
from assets.telemetry_rollup import rollup_hours, rollup_minutes
from warehouse.marts import marts
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
SECONDS, EVERY = 4 * 3600, 10
FROM_S, TO_S = 17 * 60 + 30, 3 * 3600 + 42 * 60 + 10
PERIOD = 1800.0


def power(t: float, gpu: int) -> float:
    return 500.0 + 50 * gpu + 150 * math.sin(2 * math.pi * t / PERIOD)


def energy(t: float, gpu: int) -> float:
    """The integral of `power` from 0 to t."""
    return (500.0 + 50 * gpu) * t + 150 * PERIOD / (2 * math.pi) * (1 - math.cos(2 * math.pi * t / PERIOD))


def samples(*, counter: bool) -> pl.DataFrame:
    schema = lake_schema(tables()["telemetry.gpu_samples"])
    rows = [
        {"cluster": "c1", "source": "nvml", "is_synthetic": True, "node": "n1", "gpu_uuid": f"G{g}", "gpu_index": g,
         "sampled_at": START + dt.timedelta(seconds=s), "date": START.date(), "power_w": power(s, g),
         "energy_j": 1e6 + energy(s, g) if counter else None}
        for g in range(2)
        for s in range(0, SECONDS + 1, EVERY)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema={k: schema[k] for k in schema}, orient="row")


def job_energy_kwh(frame: pl.DataFrame) -> float:
    at = START + dt.timedelta(seconds=FROM_S), START + dt.timedelta(seconds=TO_S)
    job = {"scheduler": "slurm", "job_id": "j", "state": "completed", "started_at": at[0], "ended_at": at[1], "source": "slurm",
           "is_synthetic": True}  # fmt: skip
    held = [{"job_id": "j", "gpu_uuid": f"G{g}", "from_at": at[0], "share_ratio": 1.0, "source": "slurm", "is_synthetic": True}
            for g in range(2)]  # fmt: skip
    con = database(telemetry__jobs=[job])
    fill(con, "telemetry.job_gpus", held)
    for name, rows in (("gpu_minutes", rollup_minutes(frame.lazy())), ("gpu_hours", rollup_hours(frame.lazy()))):
        con.register("incoming", rows)
        con.execute(f"insert into telemetry.{name} by name select * from incoming")
        con.unregister("incoming")
    sql = next(m.sql for m in marts() if m.name == "job_efficiency")
    con.execute(f"create table mart.job_efficiency as {sql}")
    found = con.execute("select energy_kwh from mart.job_efficiency").fetchone()
    assert found is not None
    return float(found[0])


@pytest.mark.parametrize("counter", [True, False], ids=["counter", "power only"])
def test_job_energy_agrees_with_the_integral(counter):
    exact = sum(energy(TO_S, g) - energy(FROM_S, g) for g in range(2)) / 3.6e6
    assert job_energy_kwh(samples(counter=counter)) == pytest.approx(exact, rel=1e-3)


def test_the_trapezoid_agrees_with_the_integral():
    out = integrate_power(samples(counter=False))
    for g, found in enumerate(out.sort("gpu_uuid")["energy_j"]):
        assert found == pytest.approx(energy(SECONDS, g), rel=1e-4)
