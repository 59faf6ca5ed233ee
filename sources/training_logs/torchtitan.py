"""torchtitan: `step: 2  loss: …  tps: 5,970  tflops: …  mfu: …%`.

Belongs here: that dialect. `tps` is tokens a second of one device; the printed MFU is against torchtitan's own
table of peaks (A100 for a GPU it does not know), so it is kept as stated and never used.
"""

from __future__ import annotations

import re

import polars as pl

from sources.training_logs.reading import Reading, Scalar, first_fact, local_time, number, records, whole

_START = r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ - \S+ - \S+ - )?\bstep: *\d+ +loss: "
_FLOAT = r"([-+\d.,eE]+|nan|inf)"


class Torchtitan:
    """The torchtitan dialect."""

    framework = "torchtitan"

    def hits(self, text: str) -> int:
        """Records found."""
        return len(re.findall(r"\bstep: *\d+ +loss: .*\btps:", text))

    def read(self, text: str) -> Reading:
        """One step for each report."""
        steps = (
            records(_one_rank(text), _START)
            # A record ends with its line: what follows belongs to another rank or message.
            .with_columns(pl.col("text").str.extract(r"^([^\n]*)"))
            .select(
                whole(r"\bstep: *(\d+)").alias("step"),
                local_time(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+)").alias("local_time"),
                number(rf"loss: *{_FLOAT}").alias("loss"),
                number(rf"grad_norm: *{_FLOAT}").alias("grad_norm"),
                number(r"\btps: *([\d.,]+)").alias("tokens_per_s_per_gpu"),
                number(r"tflops: *([\d.,]+)").alias("stated_tflops_per_gpu"),
                pl.lit("model").alias("stated_tflops_kind"),
                (number(r"mfu: *([\d.,]+)%") / 100).alias("stated_mfu_ratio"),
            )
        )
        facts: dict[str, Scalar] = {}
        for key, pattern in (("seq_len", r"sequence length (\d+)"), ("global_batch", r"global batch size (\d+)")):
            value = first_fact(text, pattern)
            if value is not None:
                facts[key] = value
        # Its selective mode saves chosen operators or every other layer: how much is computed again is not printed.
        if re.search(r"Applied full activation checkpointing to the model", text):
            facts["recompute"] = "full"
        return Reading(steps, facts=facts)


def _one_rank(text: str) -> str:
    """Lines of the lowest rank that reports steps: others print the same step and would look like a repetition."""
    ranks = [int(r) for r in re.findall(r"^\[rank(\d+)\]:.*\bstep: *\d+ +loss: ", text, re.MULTILINE)]
    if len(set(ranks)) < 2:  # noqa: PLR2004 - one rank needs no choice
        return text
    other = re.compile(rf"^\[rank(?!{min(ranks)}\])\d+\]:[^\n]*$", re.MULTILINE)
    return other.sub("", text)
