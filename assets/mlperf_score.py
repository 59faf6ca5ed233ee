"""The official score: which runs count, their olympic mean, and the time to train.

Belongs here: scoring frames of runs as MLCommons scores them. Does not belong here: reading logs
(`sources/mlperf/`), work done and utilisation (`mlperf_work.py`, `mlperf.py`).

Rules: training_policies, training_rules.adoc, "Benchmark Results"; mlcommons/logging, result_summarizer,
`_compute_olympic_average`. A failed run takes one of the slots that are dropped at the slow end.
"""

from __future__ import annotations

import polars as pl

from sources.mlperf.benchmarks import BENCHMARKS

DIRECTORY = ("round", "organization", "system_desc_id", "benchmark")


def rules() -> pl.DataFrame:
    """One row for each benchmark: runs required and runs dropped at either end."""
    return pl.DataFrame(
        [
            {"benchmark": name, "runs_required": b.runs_required, "dropped_each_side": b.dropped_each_side}
            for name, b in BENCHMARKS.items()
        ]
    )


def place_runs(runs: pl.DataFrame, directories: pl.DataFrame) -> pl.DataFrame:
    """`runs` with the counts of their directory, `minutes_reason` and `slot`.

    runs: one row a result file, with `outcome` and `minutes`. directories: those that may be scored, with
    `scaling_problem`; runs of any other directory are `not_scored`.
    """
    ok = pl.col("outcome") == "success"
    counted = (
        runs.join(rules(), on="benchmark", how="left")
        .join(
            directories.select(*DIRECTORY, "scaling_problem", pl.lit(value=True).alias("may_score")),
            on=DIRECTORY,
            how="left",
        )
        .with_columns(
            pl.len().over(DIRECTORY).alias("run_count"),
            (~ok).sum().over(DIRECTORY).alias("failed_run_count"),
            (pl.col("outcome") == "unreadable").sum().over(DIRECTORY).alias("missing_count"),
            pl.when(ok)
            .then(pl.struct("minutes", "run_file"))
            .rank("ordinal")
            .over([*DIRECTORY, ok])
            .cast(pl.Int64)
            .alias("order"),
        )
    )
    return counted.with_columns(_reason().alias("minutes_reason")).with_columns(_slot().alias("slot"))


def score(placed: pl.DataFrame) -> pl.DataFrame:
    """One row a directory: counts, unscaled olympic mean (null with `minutes_reason`), fastest and slowest run."""
    kept = pl.col("slot") == "kept"
    ok = pl.col("outcome") == "success"
    minutes = pl.col("minutes")
    return placed.group_by(DIRECTORY).agg(
        pl.col("runs_required", "run_count", "failed_run_count", "dropped_each_side", "minutes_reason").first(),
        kept.sum().cast(pl.Int64).alias("kept_run_count"),
        minutes.filter(kept).mean().alias("unscaled_minutes"),
        minutes.filter(ok).min().alias("fastest_minutes"),
        minutes.filter(ok).max().alias("slowest_minutes"),
    )


def _reason() -> pl.Expr:
    """Why a directory has no official time; null if it has one."""
    found, required = pl.col("run_count"), pl.col("runs_required")
    failed, dropped = pl.col("failed_run_count"), pl.col("dropped_each_side")
    return (
        pl.when(pl.col("may_score").is_null())
        .then(pl.lit("the directory is not scored"))
        .when(pl.col("missing_count") > 0)
        .then(pl.format("the content of {} result file(s) is not there", "missing_count"))
        .when(found != required)
        .then(pl.format("{} result files found, the rules require {}", found, required))
        .when(failed > dropped)
        .then(pl.format("{} runs failed, the rules allow {}", failed, dropped))
        .when(pl.col("scaling_problem").is_not_null())
        .then(pl.col("scaling_problem"))
    )


def _slot() -> pl.Expr:
    good = pl.col("run_count") - pl.col("failed_run_count")
    slow_slots = pl.col("dropped_each_side") - pl.col("failed_run_count")
    return (
        pl.when(pl.col("outcome") != "success")
        .then(pl.lit("failed"))
        .when(pl.col("minutes_reason").is_not_null())
        .then(pl.lit("not_scored"))
        .when(pl.col("order") <= pl.col("dropped_each_side"))
        .then(pl.lit("dropped_fastest"))
        .when(pl.col("order") > good - slow_slots)
        .then(pl.lit("dropped_slowest"))
        .otherwise(pl.lit("kept"))
    )
