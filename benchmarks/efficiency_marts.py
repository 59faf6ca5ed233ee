"""How long the efficiency marts take on 4,096 GPUs x 30 days of hours, with jobs, logs and a cost model.

Belongs here: a made-up month put straight into a lake, and the time of each step from there. Does not belong here:
samples and roll-ups (`spool_bulk.py`). Minutes are left out but for one a day, so that idle time is not looked for.
Run: `python benchmarks/efficiency_marts.py [gpus] [days]`; prints one JSON object.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import polars as pl

from assets.bills import bills
from assets.ladder_lake import update_ladder
from warehouse.bitemporal import with_versions
from warehouse.ddl import create_table, duckdb_type, published_columns
from warehouse.lake import Counts, Lake, Load
from warehouse.marts import marts
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema, table_of

START: Final = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
GPUS_A_NODE: Final = 8
JOB_HOURS: Final = 18  # each node works for 18 hours, rests for two, and begins again
REST_HOURS: Final = 2
LINES_A_JOB: Final = 36
H100: Final = "nvidia-h100-sxm5-80gb"
AUTHORITIES: Final = {"slurm": "primary", "training-log": "primary", "cost-model": "primary"}
EFFICIENCY: Final = (
    "job_efficiency",
    "mfu_hourly",
    "ladder",
    "reliability",
    "energy",
    "gpu_price_trend",
    "cost_vs_market",
    "own_cost_daily",
    "token_cost",
    "cost_monthly",
    "cost_focus",
    "link_counter_kinds",
    "link_history",
    "pcie_links",
    "link_health",
    "suspects",
)


def main(gpus: int, days: int) -> dict[str, Any]:
    """Processor seconds of each step, and their sum."""
    took: dict[str, float] = {}
    wall: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "lake")
        rows = _fill(lake, gpus, days)
        _timed((took, wall), "ladder days", lambda: update_ladder(lake, AUTHORITIES))
        _timed((took, wall), "ladder days, nothing new", lambda: update_ladder(lake, AUTHORITIES))
        bill = _timed((took, wall), "bills", lambda: bills(lake, AUTHORITIES))
        with duckdb.connect(str(Path(folder) / "warehouse.duckdb")) as con:
            _timed((took, wall), "tables (not counted)", lambda: _tables(con, lake, bill))
            for mart in marts():
                if mart.name in EFFICIENCY:
                    _timed(
                        (took, wall),
                        mart.name,
                        lambda sql=mart.sql, name=mart.name: con.execute(f"create table mart.{name} as {sql}"),
                    )
            counts = {m: con.sql(f"select count(*) from mart.{m}").fetchall()[0][0] for m in EFFICIENCY}
    summed = {
        "marts": sum(took[m] for m in EFFICIENCY),
        "marts_wall": sum(wall[m] for m in EFFICIENCY),
        "with_ladder_and_bills_wall": sum(wall[m] for m in (*EFFICIENCY, "ladder days", "bills")),
    }
    report = {"gpus": gpus, "days": days, "rows": rows, "mart_rows": counts, "cpu_seconds": took, "wall_seconds": wall}
    return {**report, "total_s": {name: round(seconds, 2) for name, seconds in summed.items()}}


def _timed(clocks: tuple[dict[str, float], dict[str, float]], name: str, work: Callable[[], Any]) -> Any:
    """Processor time of all threads, which other work on the machine does not change, and time on the wall."""
    begun = (time.process_time(), time.perf_counter())
    result = work()
    ended = (time.process_time(), time.perf_counter())
    for clock, first, last in zip(clocks, begun, ended, strict=True):
        clock[name] = round(last - first, 3)
    return result


def _fill(lake: Lake, gpus: int, days: int) -> dict[str, int]:
    boards = pl.DataFrame({"number": np.arange(gpus)}).select(
        pl.format("GPU-{}", "number").alias("gpu_uuid"),
        pl.format("n{}", pl.col("number") // GPUS_A_NODE).alias("node"),
        (pl.col("number") // GPUS_A_NODE).alias("node_number"),
    )
    hours = pl.DataFrame({"hour": np.arange(days * 24)})
    jobs = _jobs(gpus // GPUS_A_NODE, days)
    frames = {
        "telemetry.inventory": boards.with_columns(pl.lit(START).alias("valid_from"), pl.lit(H100).alias("accelerator_id")),
        "telemetry.gpu_hours": boards.join(hours, how="cross").select(
            "gpu_uuid", "node", _at("hour").alias("hour_at"), _at("hour").dt.date().alias("date"), pl.lit(H100).alias("accelerator_id"),
            pl.lit(360).alias("sample_count"), pl.lit(3600.0).alias("seconds_covered"), pl.lit(360).alias("power_count"),
            pl.lit(600.0).alias("power_mean_w"), pl.lit(2.16e6).alias("energy_j"), pl.lit(3600.0).alias("energy_seconds"),
            pl.lit(0.45).alias("tensor_active_mean_ratio"), pl.lit(1980.0).alias("sm_clock_mean_mhz"),
        ),
        "telemetry.gpu_minutes": hours.filter(pl.col("hour") % 24 == 0).select(
            pl.lit("n0").alias("node"), pl.lit("GPU-0").alias("gpu_uuid"), _at("hour").alias("minute_at"), _at("hour").dt.date().alias("date"),
            pl.lit(60.0).alias("seconds_covered"),
        ),
        "telemetry.jobs": jobs.with_columns(
            pl.lit("slurm").alias("scheduler"), pl.lit("completed").alias("state"), pl.lit(8.0).alias("gpus_allocated"),
            pl.lit("bf16").alias("precision"), pl.lit("full").alias("recompute"), pl.format("a{}", pl.col("node_number") % 40).alias("account"),
            pl.format("u{}", pl.col("node_number") % 200).alias("user_name"), pl.col("node").alias("node_list"),
            pl.col("started_at").alias("submitted_at"), pl.col("ended_at").alias("known_at"), pl.lit("slurm").alias("source"),
        ),
        "telemetry.job_gpus": jobs.join(boards.select("node", "gpu_uuid"), on="node").with_columns(
            pl.col("started_at").alias("from_at"), pl.col("ended_at").alias("to_at"), pl.lit(1.0).alias("share_ratio"),
            pl.col("ended_at").alias("known_at"), pl.lit("slurm").alias("source"),
        ),
        "telemetry.training_steps": _steps(jobs),
        "ref.cost_pools": pl.DataFrame(
            [
                {"pool": "servers", "method": "capital", "category": "compute", "purchase_usd": 30_000.0 * gpus, "life_months": 48.0,
                 "discount_rate_ratio": 0.08, "gpus": float(gpus)},
                {"pool": "power", "method": "energy", "category": "power", "energy_usd_per_kwh": 0.1, "pue_ratio": 1.2},
            ]
        ).with_columns(pl.lit(dt.date(2026, 1, 1)).alias("valid_from_date"), pl.lit("Europe/Berlin").alias("time_zone"),
                       pl.lit(START).alias("known_at"), pl.lit("cost-model").alias("source")),
        "ref.model_configs": pl.DataFrame(
            [{"model_config_id": "m", "model": "m", "params": 8e9, "layers": 32, "hidden": 4096, "heads": 32, "seq_len": 8192}]
        ).with_columns(pl.lit(START).alias("known_at"), pl.lit("curated").alias("source")),
        "ref.accelerators": pl.DataFrame(
            [{"accelerator_id": H100, "vendor": "NVIDIA", "model": "H100", "bf16_dense_tflops": 989.4, "matrix_clock_mhz": 1830.0, "tdp_w": 700.0}]
        ).with_columns(pl.lit(START).alias("known_at"), pl.lit("curated").alias("source")),
    }  # fmt: skip
    for name, frame in frames.items():
        _put(lake, name, frame)
    return {name: frame.height for name, frame in frames.items()}


def _at(column: str) -> pl.Expr:
    return pl.lit(START).dt.cast_time_unit("us") + pl.duration(hours=column)


def _jobs(nodes: int, days: int) -> pl.DataFrame:
    """One job a node at a time; every node begins at another hour."""
    begins = np.arange(0, days * 24 - JOB_HOURS - REST_HOURS, JOB_HOURS + REST_HOURS)
    grid = pl.DataFrame({"node_number": np.arange(nodes)}).join(pl.DataFrame({"begin": begins}), how="cross")
    begun = pl.col("begin") + pl.col("node_number") % REST_HOURS
    return grid.select(
        "node_number",
        pl.format("n{}", "node_number").alias("node"),
        pl.format("{}-{}", "node_number", "begin").alias("job_id"),
        pl.lit(0).alias("attempt"),
        (pl.lit(START).dt.cast_time_unit("us") + pl.duration(hours=begun)).alias("started_at"),
        (pl.lit(START).dt.cast_time_unit("us") + pl.duration(hours=begun + JOB_HOURS)).alias("ended_at"),
    )


def _steps(jobs: pl.DataFrame) -> pl.DataFrame:
    """A line every half hour, of ten steps."""
    lines = pl.DataFrame({"line": np.arange(1, LINES_A_JOB + 1)})
    seconds = JOB_HOURS * 3600 / LINES_A_JOB
    done = pl.col("started_at") + pl.duration(seconds=pl.col("line") * seconds)
    return jobs.select("job_id", "attempt", "started_at").join(lines, how="cross").select(
        "job_id", "attempt", (pl.col("line") * 10).alias("step"), pl.lit(1).alias("pass_number"), done.alias("completed_at"),
        pl.lit(seconds / 10).alias("step_seconds"), pl.lit(10).alias("steps_covered"), pl.lit(1_000_000).alias("tokens"),
        (pl.col("line") == 1).alias("is_warm_up"), pl.lit(0).alias("segment"), pl.lit("m").alias("model_config_id"), pl.lit(8192).alias("seq_len"),
        done.alias("known_at"), pl.lit("training-log").alias("source"),
    )  # fmt: skip


def _put(lake: Lake, name: str, frame: pl.DataFrame) -> None:
    schema = lake_schema(tables()[name])
    base = {"cluster": "big", "source": "nvml", "is_synthetic": True}
    have = frame.with_columns(pl.lit(v).alias(k) for k, v in base.items() if k in schema and k not in frame.columns)
    whole = have.select(
        (pl.col(k).cast(t) if k in have.columns else pl.lit(None, t)).alias(k) for k, t in schema.items()
    )
    lake.commit(tables()[name], [], lambda *_: (whole, Load("b", "b", Counts(whole.height, whole.height))))


def _tables(con: duckdb.DuckDBPyConnection, lake: Lake, bill: pl.DataFrame) -> None:
    """The published tables, as publish makes them."""
    con.execute("set TimeZone = 'UTC'")
    for schema in ("ref", "telemetry", "market", "mart", "ops"):
        con.execute(f"create schema {schema}")
    for name, model in tables().items():
        con.execute(create_table(model))
        frame = bill if name == "telemetry.bill_monthly" else lake.scan(model).collect()
        if frame.is_empty():
            continue
        if "is_latest" in table_of(model).columns:
            frame = with_versions(frame, model, AUTHORITIES)
        columns = published_columns(model)
        con.register("incoming", frame.select(columns))
        listed = ", ".join(f'"{c}"::{duckdb_type(model, c)}' for c in columns)
        con.execute(f"insert into {name} select {listed} from incoming")
        con.unregister("incoming")


if __name__ == "__main__":
    wanted = [int(a) for a in sys.argv[1:]] + [4096, 30][len(sys.argv) - 1 :]
    print(json.dumps(main(*wanted), indent=2))
