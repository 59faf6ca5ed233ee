"""From fields of sacct or squeue to rows of telemetry.jobs.

Belongs here: what the fields mean, steps and allocations, array tasks, contradictions. Does not belong here:
cutting text (`tables.py`), numbering of attempts across exports (`assets/jobs.py`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import polars as pl

from sources.base import Reject
from sources.jobs.users import user_columns
from sources.jobs.values import duration_seconds, gpu_type, instant, node_lists, state, text, tres
from sources.training_logs.arguments import DEGREES, command_line, config_hash

JOBS = "telemetry.jobs"
RAW_JOBS = "raw.scheduler_jobs"
_FIELDS = (
    "job_id", "raw_job_id", "name", "user", "account", "wckey", "partition", "qos", "cluster", "submit", "eligible",
    "start", "end", "state", "reason", "exit_code", "req_tres", "alloc_tres", "tres_per_node", "req_gres", "alloc_gres",
    "nodes", "cpus", "node_list", "time_limit", "elapsed", "elapsed_raw", "suspended", "energy", "restarts",
    "submit_line",
)  # fmt: skip
_OPEN = ("pending", "running", "suspended")


def job_rows(
    cut: pl.DataFrame, meta: Mapping[str, str], retrieved_at: dt.datetime, source_name: str
) -> tuple[pl.DataFrame, list[Reject]]:
    """Rows of raw.scheduler_jobs (jobs whose attempt may still need a number) and the refused records.

    A step (`123.0`, `123.batch`) belongs to its job and makes no row: its job row counts. A step whose job is
    not in the export is refused once for each job.
    """
    fields = cut.select(
        *(pl.col(f) if f in cut.columns else pl.lit(None, pl.String).alias(f) for f in _FIELDS), "raw"
    ).unique(maintain_order=True)
    is_step = pl.col("job_id").str.contains(r"\.")
    steps, jobs = fields.filter(is_step), fields.filter(~is_step)
    rejects = _orphans(steps, jobs)
    good = text("job_id").is_not_null() & pl.col("job_id").str.contains(r"^\d+(?:[_+][\w\[\]%,\-]+)?$")
    rejects += [Reject(JOBS, "job_id_is_known", "no job id in the record", r[:2000]) for r in jobs.filter(~good)["raw"]]
    jobs = node_lists(user_columns(jobs.filter(good)), "node_list")
    rows = _derive(jobs, meta.get("time_zone", "UTC"))
    rows = rows.with_columns(
        pl.coalesce(text("cluster"), pl.lit(meta.get("cluster", "local"))).alias("cluster"),
        pl.lit("slurm").alias("scheduler"),
        pl.lit(source_name).alias("source_name"),
        pl.lit(meta.get("is_synthetic") == "true").alias("is_synthetic"),
        pl.lit(meta.get("time_zone", "UTC")).alias("time_zone"),
        pl.coalesce(
            pl.when(pl.col("state").is_in(_OPEN).not_()).then("ended_at"),
            pl.lit(retrieved_at).cast(pl.Datetime("us", "UTC")),
        ).alias("known_at"),
    )
    return _script_facts(rows).drop("raw", "submit_line"), rejects


def _orphans(steps: pl.DataFrame, jobs: pl.DataFrame) -> list[Reject]:
    parents = steps.with_columns(pl.col("job_id").str.extract(r"^([^.]*)").alias("parent"))
    lost = parents.join(jobs, left_on="parent", right_on="job_id", how="anti").unique("parent", maintain_order=True)
    reason = "a step whose job is not in the export: ask sacct for allocations too (or only: -X)"
    return [
        Reject(JOBS, "step_has_its_job", reason, raw[:2000], str(parent))
        for parent, raw in lost.select("parent", "raw").iter_rows()
    ]


def _derive(jobs: pl.DataFrame, zone: str) -> pl.DataFrame:
    allocated = pl.coalesce(tres("alloc_tres", "gpu"), tres("alloc_gres", "gpu"))
    per_node = tres("tres_per_node", "gpu") * pl.col("nodes").cast(pl.Float64, strict=False)
    requested = pl.coalesce(tres("req_tres", "gpu"), tres("req_gres", "gpu"), per_node)
    jobs = jobs.with_columns(
        state("state").alias("house_state"),
        instant("submit", zone).alias("submitted_at"),
        instant("eligible", zone).alias("eligible_at"),
        instant("start", zone).alias("started_at"),
        instant("end", zone).alias("ended_at"),
    )
    is_open, waits = pl.col("house_state").is_in(_OPEN), pl.col("house_state") == "pending"
    elapsed, raw = duration_seconds("elapsed"), text("elapsed_raw").cast(pl.Float64, strict=False)
    agrees = elapsed.is_null() | raw.is_null() | ((elapsed - raw).abs() <= 1)
    has_gpus = allocated.fill_null(0) > 0
    return jobs.select(
        "cluster",
        "job_id",
        text("raw_job_id").alias("raw_job_id"),
        pl.col("job_id").str.extract(r"^(\d+)_").alias("array_job_id"),
        pl.col("job_id").str.extract(r"^\d+_(.+)$").str.strip_chars("[]").alias("array_task_id"),
        text("name").alias("job_name"),
        "user_name",
        "user_name_kind",
        text("account").alias("account"),
        text("wckey").str.strip_prefix("*").alias("project"),
        text("partition").alias("queue"),
        text("qos").alias("qos"),
        "submitted_at",
        "eligible_at",
        # squeue gives an expected start for a waiting job, and sacct an end for one that runs: neither happened.
        pl.when(~waits).then("started_at").alias("started_at"),
        pl.when(~is_open).then("ended_at").alias("ended_at"),
        pl.col("house_state").alias("state"),
        pl.coalesce(
            pl.when(pl.col("state").str.strip_chars().str.to_lowercase() != pl.col("house_state")).then(
                pl.col("state").str.replace(r"(?i)^(CANCELLED) by .*$", "$1 by a user")
            ),
            text("reason"),
        ).alias("state_reason"),
        pl.when(~is_open).then(pl.col("exit_code").str.extract(r"^(\d+):").cast(pl.Int64)).alias("exit_code"),
        pl.when(~is_open).then(pl.col("exit_code").str.extract(r":(\d+)$").cast(pl.Int64)).alias("exit_signal"),
        requested.alias("gpus_requested"),
        # A plan is not an allocation: squeue fills the allocated resources of waiting jobs too.
        pl.when(~waits & (allocated.is_not_null() | text("alloc_tres").is_not_null()))
        .then(allocated.fill_null(0))
        .alias("gpus_allocated"),
        pl.coalesce(gpu_type("alloc_tres"), gpu_type("req_tres"), gpu_type("alloc_gres")).alias("gpu_type"),
        pl.when(~waits)
        .then(pl.coalesce(tres("alloc_tres", "node"), text("nodes").cast(pl.Float64, strict=False)).cast(pl.Int64))
        .alias("nodes_allocated"),
        pl.when(~waits)
        .then(pl.coalesce(tres("alloc_tres", "cpu"), text("cpus").cast(pl.Float64, strict=False)).cast(pl.Int64))
        .alias("cpus_allocated"),
        pl.when(~waits).then("node_list").alias("node_list"),
        duration_seconds("time_limit").alias("time_limit_seconds"),
        pl.when(agrees).then(pl.coalesce(raw, elapsed)).alias("elapsed_seconds"),
        duration_seconds("suspended").alias("suspended_seconds"),
        text("energy").cast(pl.Float64, strict=False).replace({0.0: None}).alias("energy_j"),
        text("restarts").cast(pl.Int64, strict=False).alias("attempt"),
        pl.concat_str(
            pl.when(~agrees).then(
                pl.concat_str(
                    pl.lit("Elapsed "), "elapsed", pl.lit(" and ElapsedRaw "), "elapsed_raw", pl.lit(" disagree")
                )
            ),
            pl.when(~has_gpus & (tres("alloc_tres", "shard") > 0)).then(pl.lit("shares of GPUs (gres/shard) only")),
            separator="; ",
            ignore_nulls=True,
        )
        .replace({"": None})
        .alias("notes"),
        "submit_line",
        "raw",
    )


def _script_facts(rows: pl.DataFrame) -> pl.DataFrame:
    """Parallel degrees and configuration hash from the submit line, each distinct line once."""
    lines = rows.get_column("submit_line").drop_nulls().unique().to_list()
    facts = {line: command_line(line) for line in lines}
    columns = [
        pl.col("submit_line")
        .replace_strict({k: v.get(degree) for k, v in facts.items()}, default=None, return_dtype=pl.Int64)
        .alias(degree)
        for degree in DEGREES
    ]
    for name in ("precision", "recompute"):
        told = {k: v.get(name) for k, v in facts.items()}
        columns.append(pl.col("submit_line").replace_strict(told, default=None, return_dtype=pl.String).alias(name))
    digests = {k: config_hash(v) for k, v in facts.items()}
    digest = pl.col("submit_line").replace_strict(digests, default=None, return_dtype=pl.String).alias("config_hash")
    return rows.with_columns(*columns, digest)
