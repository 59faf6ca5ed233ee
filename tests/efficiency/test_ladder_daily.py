"""A day of the ladder from tables as they are landed."""

from __future__ import annotations

import datetime as dt

import polars as pl

from assets.ladder import RUNGS as COMPUTED
from assets.ladder_daily import DAY_US, ladder_day
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema
from warehouse.schema.ladder import RUNGS

DAY = dt.date(2026, 3, 2)
START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)


def table(name: str, rows: list[dict]) -> pl.DataFrame:
    schema = lake_schema(tables()[name])
    filled = [{"cluster": "c", "source": "nvml", "is_synthetic": False, **row} for row in rows]
    return (
        pl.DataFrame(filled, schema={k: schema[k] for k in schema}, orient="row")
        if rows
        else pl.DataFrame(schema=schema)
    )


def hours(value: float) -> dt.datetime:
    return START + dt.timedelta(hours=value)


def given(**rows: list[dict]) -> dict[str, pl.DataFrame]:
    names = (
        "inventory",
        "node_states",
        "gpu_events",
        "job_gpus",
        "jobs",
        "training_steps",
        "job_phases",
        "gpu_minutes",
    )
    return {f"telemetry.{n}": table(f"telemetry.{n}", rows.get(n, [])) for n in names}


def board(gpu: str, node: str, index: int, **more) -> dict:
    return {"valid_from": hours(-100), "node": node, "gpu_uuid": gpu, "gpu_index": index, **more}


def job(job_id: str, a: float, b: float | None, **more) -> dict:
    return {"scheduler": "slurm", "job_id": job_id, "attempt": 0, "state": "running", "started_at": hours(a),
            "ended_at": None if b is None else hours(b), "known_at": hours(a), **more}  # fmt: skip


def stay(job_id: str, gpu: str, a: float, b: float | None, **more) -> dict:
    return {"job_id": job_id, "attempt": 0, "gpu_uuid": gpu, "from_at": hours(a), "to_at": None if b is None else hours(b),
            "share_ratio": 1.0, "known_at": hours(a), **more}  # fmt: skip


def minutes(gpu: str, a: float, b: float, watts: float, active: float, hot: bool = False) -> list[dict]:
    return [
        {"minute_at": hours(a) + dt.timedelta(minutes=m), "date": DAY, "node": "n", "gpu_uuid": gpu, "accelerator_id": "x",
         "power_mean_w": watts, "tensor_active_mean_ratio": active, "sm_active_mean_ratio": active,
         "throttle_hw_thermal_seconds": 30.0 if hot else 0.0}
        for m in range(round((b - a) * 60))
    ]  # fmt: skip


def test_a_day_of_everything():
    inventory = [board("G0", "n1", 0), board("G1", "n1", 1), board("G2", "n2", 0), board("G3", "n2", 1),
                 board("M0", "n2", 2, parent_gpu_uuid="G3", mig_profile="3g.40gb")]  # fmt: skip
    steps = [
        {"job_id": "A", "attempt": 0, "step": n + 1, "pass_number": 1, "completed_at": hours(2) + dt.timedelta(seconds=60 * (n + 1)),
         "step_seconds": 60.0, "steps_covered": 1, "segment": 0, "is_warm_up": False, "known_at": hours(2)}
        for n in range(600)
    ]  # fmt: skip
    # from hour 12 on the job is hot: 60 steps of two minutes
    steps += [{**steps[0], "step": 601 + n, "completed_at": hours(12) + dt.timedelta(seconds=120 * (n + 1)), "step_seconds": 120.0}
              for n in range(60)]  # fmt: skip
    out = ladder_day(
        given(
            inventory=inventory,
            jobs=[job("A", 1, 14), job("B", -5, None), job("C", 0, 10)],
            # A holds G0 by its place and G1 by name; B a MIG instance; C sits on G2 and does nothing for hours 3-9
            job_gpus=[stay("A", "n1/0", 1, None), stay("A", "G1", 1, 14), stay("B", "M0", -5, None), stay("C", "G2", 0, 10)],
            training_steps=steps,
            job_phases=[{"job_id": "A", "attempt": 0, "phase": "checkpoint_save", "from_at": hours(11), "to_at": hours(11.5), "known_at": hours(1)}],
            gpu_minutes=minutes("G2", 3, 9, 67.0, 0.0) + minutes("G1", 12, 14, 600.0, 0.5, hot=True),
            gpu_events=[{"occurred_at": hours(20), "node": "n1", "device": "G0", "kind": "lost", "event_id": "", "gpu_uuid": "G0"},
                        {"occurred_at": hours(22), "node": "n1", "device": "G0", "kind": "returned", "event_id": "", "gpu_uuid": "G0"}],
            node_states=[{"valid_from": hours(18), "node": "n2", "state": "drained"}, {"valid_from": hours(21), "node": "n2", "state": "idle"}],
        ),
        DAY,
        is_synthetic=False,
    )  # fmt: skip
    assert out["gpu_us"].sum() == 4 * DAY_US
    took = {(r["job_id"], r["rung"]): r["gpu_us"] / 3.6e9 for r in out.to_dicts()}
    assert took == {
        ("A", "start_up"): 2 * 1.0,
        ("A", "checkpoint"): 2 * 0.5,
        ("A", "throttled"): 2 * 1.0,  # half of two hours
        ("A", "productive"): 2 * (10 - 0.5 + 1),
        ("B", "unlogged"): 3 / 7 * 21,
        ("C", "allocated_idle"): 6,
        ("C", "unlogged"): 4,
        ("", "down"): 2 + 2 * 3,
        ("", "unallocated"): took["", "unallocated"],
    }
    schema = lake_schema(tables()["telemetry.ladder_daily"])
    assert set(out.columns) == set(schema)
    out.cast({c: schema[c] for c in out.columns}, strict=True)


def test_an_empty_cluster_is_all_unallocated():
    out = ladder_day(given(inventory=[board("G0", "n", 0, valid_from=hours(12))]), DAY, is_synthetic=True)
    assert out.select("rung", "gpu_us", "is_synthetic").rows() == [("unallocated", DAY_US // 2, True)]


def test_declared_and_computed_rungs_are_the_same():
    assert set(RUNGS) == set(COMPUTED)
