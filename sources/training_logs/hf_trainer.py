"""Hugging Face Trainer: `trainer_state.json`, printed `{'loss': …}` lines, and LLaMA-Factory's trainer_log.jsonl.

Belongs here: those three forms. The Trainer prints no step time; one follows only where the form states time.
"""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

from sources.base import ParseError
from sources.training_logs.reading import Reading

_PRINTED = re.compile(r"\{'loss': '?[^{}]*'epoch': '?[\d.]+'?[^{}]*\}")
_PROGRESS = r"(\d+)/\d+ \[\d[\d:]*<"
_FLOAT = r"'?([-+\d.eE]+|nan|inf)'?"


class HfTrainer:
    """The Hugging Face Trainer dialect."""

    framework = "hf-trainer"

    def hits(self, text: str) -> int:
        """Records found."""
        head = text.lstrip()[:1]
        if head == "{" and '"log_history"' in text:
            return text.count('"step"')
        return len(_PRINTED.findall(text)) + text.count('{"current_steps"')

    def read(self, text: str) -> Reading:
        """One step for each report. A printed report before any progress bar names no step and is refused."""
        if text.lstrip().startswith("{") and '"log_history"' in text:
            try:
                return _state(json.loads(text))
            except ValueError as error:
                raise ParseError(f"the trainer's state is cut or broken ({error}); copy it again") from None
        if '{"current_steps"' in text:
            return _factory(text)
        return _printed(text)


def _state(document: dict[str, Any]) -> Reading:
    reports = [r for r in document["log_history"] if "loss" in r and "step" in r]
    steps = pl.DataFrame(
        {
            "step": [r["step"] for r in reports],
            "loss": [r["loss"] for r in reports],
            "learning_rate": [r.get("learning_rate") for r in reports],
            "grad_norm": [r.get("grad_norm") for r in reports],
            "consumed_tokens": [r.get("num_input_tokens_seen") for r in reports],
        },
        strict=False,
    )
    return Reading(steps)


def _factory(text: str) -> Reading:
    lines = pl.DataFrame({"text": text.split("\n")}).filter(pl.col("text").str.starts_with('{"current_steps"'))
    clock = pl.col("text").str.json_path_match("$.elapsed_time").str.extract_all(r"\d+")
    days = pl.when(pl.col("text").str.contains("day")).then(clock.list.get(0, null_on_oob=True).cast(pl.Int64) * 86_400)
    hms = clock.list.tail(3).list.eval(pl.element().cast(pl.Int64))
    elapsed = days.fill_null(0) + hms.list.get(0) * 3600 + hms.list.get(1) * 60 + hms.list.get(2)
    steps = lines.select(
        pl.col("text").str.json_path_match("$.current_steps").cast(pl.Int64, strict=False).alias("step"),
        pl.col("text").str.json_path_match("$.loss").cast(pl.Float64, strict=False).alias("loss"),
        pl.coalesce(pl.col("text").str.json_path_match("$.lr"), pl.col("text").str.json_path_match("$.learning_rate"))
        .cast(pl.Float64, strict=False)
        .alias("learning_rate"),
        elapsed.alias("elapsed_seconds"),
    )
    return Reading(steps.filter(pl.col("loss").is_not_null()))


def _printed(text: str) -> Reading:
    lines = pl.DataFrame({"text": text.split("\n")}).with_columns(
        pl.col("text").str.extract(_PROGRESS).cast(pl.Int64, strict=False).forward_fill().alias("step")
    )
    reports = lines.filter(pl.col("text").str.contains(r"\{'loss': .*'epoch'"))
    lost = reports.filter(pl.col("step").is_null()).get_column("text").to_list()
    steps = reports.filter(pl.col("step").is_not_null()).select(
        "step",
        pl.col("text").str.extract(rf"'loss': {_FLOAT}").cast(pl.Float64, strict=False).alias("loss"),
        pl.col("text").str.extract(rf"'grad_norm': {_FLOAT}").cast(pl.Float64, strict=False).alias("grad_norm"),
        pl.col("text").str.extract(rf"'learning_rate': {_FLOAT}").cast(pl.Float64, strict=False).alias("learning_rate"),
    )
    return Reading(
        steps, losses=tuple(("the report names no step and no progress bar stands before it", t) for t in lost)
    )
