"""NeMo: the progress line of version 2 and the progress bar of version 1.

Belongs here: those two forms. Does not belong here: Megatron-LM's own lines, which NeMo may also print.
"""

from __future__ import annotations

import re

import polars as pl

from sources.training_logs.arguments import megatron_arguments
from sources.training_logs.reading import Reading, number, records, whole

_LINE = r"Training epoch \d+, iteration \d+/\d+ \|"
_BAR = r"Epoch \d+: *:? *\d+%\|[^\n]*?\| *\d+/\d+ \["
_FLOAT = r"([-+\d.,eE]+|nan|inf)"


class Nemo:
    """The NeMo dialect."""

    framework = "nemo"

    def hits(self, text: str) -> int:
        """Records found that name their step."""
        return len(re.findall(rf"(?:{_LINE}|{_BAR})[^\n]*global_step", text))

    def read(self, text: str) -> Reading:
        """One step for each line; the bar is redrawn within a step, so only its last state counts."""
        shared = (
            whole(r"global_step[:=] *([\d.]+)").alias("step"),
            number(rf"reduced_train_loss[:=] *{_FLOAT}").alias("loss"),
            number(rf"\blr: *{_FLOAT}").alias("learning_rate"),
            whole(r"global_batch_size[:=] *([\d.]+)").alias("samples"),
            # The bar prints 1.63e+6 for a count: rounded, so no count at all.
            whole(r"consumed_samples[:=] *(\d+(?:\.0)?)(?:[^\d.e]|$)").alias("consumed_samples"),
        )
        timing = number(rf"train_step_timing in s[:=] *{_FLOAT}")
        per_item = number(r", *([\d.]+)s/it")
        rate = number(r", *([\d.]+)it/s")
        line_text = "\n".join(line for line in text.split("\n") if "global_step" in line)
        lines = records(line_text, _LINE).select(*shared, timing.alias("step_seconds"))
        bars = (
            records(line_text, _BAR)
            .select(*shared, pl.coalesce(timing, per_item, 1 / rate).alias("step_seconds"))
            .filter((pl.col("step") != pl.col("step").shift(-1)).fill_null(value=True))
        )
        return Reading(lines if lines.height >= bars.height else bars, facts=megatron_arguments(text))
