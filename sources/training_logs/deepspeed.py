"""DeepSpeed: `step=…, skipped=…` with its timer line, and the pipeline engine's `steps: … iter time (s): …`.

Belongs here: that dialect. DeepSpeed prints samples a second; a step time follows only where the batch is known.
"""

from __future__ import annotations

import re

import polars as pl

from sources.training_logs.reading import Reading, Scalar, first_fact, local_time, number, records, whole

_STEP = r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\] \[INFO\] \[[^\]]*\] \[Rank \d+\] )?\bstep=\d+, skipped=\d+"
_PIPE = r"\bsteps: \d+ loss: \S+ iter time \(s\): [\d.]+ samples/sec:"


class DeepSpeed:
    """The DeepSpeed dialect."""

    framework = "deepspeed"

    def hits(self, text: str) -> int:
        """Records found."""
        return max(len(re.findall(_PIPE, text)), len(re.findall(r"\bstep=\d+, skipped=\d+", text)))

    def read(self, text: str) -> Reading:
        """One step for each report."""
        pipe = records(text, _PIPE).select(
            whole(r"steps: (\d+)").alias("step"),
            number(r"loss: (\S+) iter").alias("loss"),
            number(r"iter time \(s\): ([\d.]+)").alias("step_seconds"),
            number(r"samples/sec: ([\d.]+)").alias("samples_per_s"),
        )
        engine = records(text, _STEP).select(
            whole(r"\bstep=(\d+)").alias("step"),
            local_time(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+)\]").alias("local_time"),
            whole(r"skipped=(\d+)").alias("skipped_total"),
            number(r"lr=\[([^,\]]+)").alias("learning_rate"),
            pl.coalesce(number(r"CurrSamplesPerSec=([\d.]+)"), number(r"\bSamplesPerSec=([\d.]+)")).alias(
                "samples_per_s"
            ),
        )
        # DeepSpeed prints the running total of skipped steps; the table holds those since the last line.
        engine = engine.with_columns(
            pl.col("skipped_total").diff().clip(lower_bound=0).fill_null(pl.col("skipped_total")).alias("skipped_steps")
        ).drop("skipped_total")
        facts: dict[str, Scalar] = {}
        for key, pattern in (
            ("global_batch", r"train_batch_size \.{3,} (\d+)"),
            ("gpus", r"world_size \.{3,} (\d+)"),
        ):
            value = first_fact(text, pattern)
            if value is not None:
                facts[key] = value
        return Reading(pipe if pipe.height > engine.height else engine, facts=facts)
