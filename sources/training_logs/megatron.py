"""Megatron-LM and its kin (Megatron-DeepSpeed, GPT-NeoX): `iteration N/ M | key: value | …`.

Belongs here: that dialect. The unit of the step time is read from its key, never assumed: older logs print
seconds, newer ones milliseconds. Figures called TFLOPs count recompute; `throughput per GPU` is model FLOPs.
"""

from __future__ import annotations

import re

import polars as pl

from sources.training_logs.arguments import megatron_arguments
from sources.training_logs.reading import Reading, local_time, number, records, whole

# NeMo also prints `iteration N/M |`; what follows the bar tells them apart.
_MARK = r"\biteration +\d+ */ *\d+ +\| +(?:consumed samples|elapsed time)"
_START = r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\] *)?(?:samples/sec: [\d.]+ \| )?" + _MARK
_FLOAT = r"([-+\d.,eE]+|nan|inf|-inf|NaN)"


class Megatron:
    """The Megatron-LM dialect."""

    framework = "megatron-lm"

    def hits(self, text: str) -> int:
        """Records found."""
        return len(re.findall(_MARK, text))

    def read(self, text: str) -> Reading:
        """One step for each record."""
        seconds = number(rf"elapsed time per iteration \(s\): *{_FLOAT}")
        milliseconds = number(rf"elapsed time per iteration \(ms\): *{_FLOAT}")
        model_tflops = number(rf"throughput per GPU \(TFLOP/s/GPU\): *{_FLOAT}")
        other_tflops = number(r"(?:\bTFLOPs|approx flops per GPU): *([\d.,]+)")
        steps = records(text, _START).select(
            whole(r"iteration +(\d+)").alias("step"),
            local_time(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\]").alias("local_time"),
            pl.coalesce(seconds, milliseconds / 1000).alias("step_seconds"),
            whole(r"consumed samples: *([\d,]+)").alias("consumed_samples"),
            whole(r"consumed tokens: *([\d,]+)").alias("consumed_tokens"),
            whole(r"global batch size: *([\d,]+)").alias("samples"),
            number(r"(?:samples per second|samples/sec): *([\d.,]+)").alias("samples_per_s"),
            number(rf"\blm[ _]loss: *{_FLOAT}").alias("loss"),
            number(rf"learning rate: *{_FLOAT}").alias("learning_rate"),
            number(rf"grad norm: *{_FLOAT}").alias("grad_norm"),
            whole(r"number of skipped iterations: *(\d+)").alias("skipped_steps"),
            pl.coalesce(model_tflops, other_tflops).alias("stated_tflops_per_gpu"),
            pl.when(model_tflops.is_not_null())
            .then(pl.lit("model"))
            .when(other_tflops.is_not_null())
            .then(pl.lit("hardware"))
            .alias("stated_tflops_kind"),
        )
        return Reading(steps, facts=megatron_arguments(text))
