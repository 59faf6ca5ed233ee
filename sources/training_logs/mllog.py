"""MLPerf logs of one's own runs: `:::MLLOG {json}` lines with `tracked_stats`.

Belongs here: steps, evaluation and start-up of such a log. Does not belong here: published MLPerf results.
"""

from __future__ import annotations

import polars as pl

from sources.training_logs.reading import Reading, Scalar, records

_START = r":::MLLOG \{"
_FACTS = {
    "global_batch_size": "global_batch",
    "max_sequence_length": "seq_len",
    "seq_length": "seq_len",
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "num_gpus": "gpus",
}
_PHASES = (("eval", "evaluation"), ("init", "start_up"))


class Mllog:
    """The MLPerf dialect."""

    framework = "mlperf"

    def hits(self, text: str) -> int:
        """Lines found."""
        return text.count(":::MLLOG {")

    def read(self, text: str) -> Reading:
        """One step for each `tracked_stats` record that carries a step and a step time."""
        lines = records(text, _START).select(pl.col("text").str.extract(r"^:::MLLOG (\{[^\n]*\})").alias("json"))
        told = (
            lines.drop_nulls()
            .unique(maintain_order=True)
            .select(
                _at("$.key").alias("key"),
                _at("$.value").alias("value"),
                pl.from_epoch(_at("$.time_ms").cast(pl.Int64, strict=False), "ms")
                .dt.replace_time_zone("UTC")
                .dt.cast_time_unit("us")
                .alias("at"),
                _at("$.metadata.step").cast(pl.Float64, strict=False).cast(pl.Int64, strict=False).alias("step"),
                _at("$.metadata.samples_count")
                .cast(pl.Float64, strict=False)
                .cast(pl.Int64, strict=False)
                .alias("consumed_samples"),
                _at("$.value.train_step_time").cast(pl.Float64, strict=False).alias("step_seconds"),
                _at("$.value.reduced_train_loss").cast(pl.Float64, strict=False).alias("loss"),
            )
        )
        is_step = (
            (pl.col("key") == "tracked_stats") & pl.col("step").is_not_null() & pl.col("step_seconds").is_not_null()
        )
        steps = told.filter(is_step).rename({"at": "completed_at"}).drop("key", "value")
        return Reading(steps, _phases(told), _facts(told))


def _at(path: str) -> pl.Expr:
    return pl.col("json").str.json_path_match(path)


def _phases(told: pl.DataFrame) -> pl.DataFrame:
    frames = []
    for key, phase in _PHASES:
        begin = told.filter(pl.col("key") == f"{key}_start").select(pl.col("at").alias("from_at"), "step")
        end = told.filter(pl.col("key") == f"{key}_stop").select(pl.col("at").alias("to_at"))
        frames.append(
            begin.sort("from_at")
            .join_asof(end.sort("to_at"), left_on="from_at", right_on="to_at", strategy="forward", coalesce=False)
            .select(pl.lit(phase).alias("phase"), "from_at", "to_at", "step")
        )
    return pl.concat(frames)


def _facts(told: pl.DataFrame) -> dict[str, Scalar]:
    pairs = told.filter(pl.col("key").is_in(list(_FACTS))).select("key", pl.col("value").cast(pl.Int64, strict=False))
    return {_FACTS[key]: value for key, value in pairs.drop_nulls().iter_rows()}
