"""The house's own training log: one JSON object a line, so that any framework can write it.

Belongs here: that format and its reading. Three kinds of line; unknown keys are ignored:

    {"event": "run", "seq_len": 4096, "global_batch": 512, "gpus": 64, "tensor_parallel": 8, "layers": 32}
    {"event": "step", "step": 7, "at": "2026-11-01T00:00:10Z", "step_seconds": 9.8, "tokens": 2097152, "loss": 2.31}
    {"event": "phase", "phase": "checkpoint_save", "from_at": "2026-11-01T00:01:00Z", "to_at": "2026-11-01T00:01:30Z"}

A run may also state `recompute` (none, selective: attention alone, full), `precision`, `model_config_id` and
`accelerator_id`. Times carry a zone. A step needs `step`; everything else may be missing and is then not known.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from sources.training_logs.arguments import DEGREES, RECOMPUTE, SHAPE
from sources.training_logs.reading import PHASE_COLUMNS, Reading, Scalar

_NUMBERS = (
    "step_seconds",
    "tokens",
    "samples",
    "consumed_samples",
    "consumed_tokens",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "loss",
    "learning_rate",
    "grad_norm",
    "skipped_steps",
)
PHASES = ("start_up", "data_stall", "exposed_communication", "checkpoint_save", "checkpoint_restore", "evaluation")
_FACTS = (*DEGREES, *SHAPE, "global_batch", "gpus", "model_config_id", "precision", "accelerator_id", "recompute")


class Jsonl:
    """The house's own dialect."""

    framework = "jsonl"

    def hits(self, text: str) -> int:
        """Lines found."""
        return sum(text.count(f'"event"{gap}"{kind}"') for gap in (":", ": ") for kind in ("run", "step", "phase"))

    def read(self, text: str) -> Reading:
        """Steps, phases and facts; a broken line is refused with its reason."""
        lines = pl.DataFrame({"text": text.split("\n")}).filter(pl.col("text").str.strip_chars() != "")
        event = pl.col("text").str.json_path_match("$.event")
        broken = [line for line in lines.get_column("text") if not _is_object(line)]
        sound = lines.filter(~pl.col("text").is_in(broken))
        steps = sound.filter(event == "step").select(
            "text", _at("step").cast(pl.Int64, strict=False), _time("at"), *map(_float, _NUMBERS)
        )
        phases = sound.filter(event == "phase").select(
            "text", _at("phase"), _time("from_at"), _time("to_at"), _at("step").cast(pl.Int64, strict=False)
        )
        good_step = pl.col("step").is_not_null() & (pl.col("at").is_not_null() | _at("at").is_null())
        good_phase = pl.col("phase").is_in(list(PHASES)) & pl.col("from_at").is_not_null()
        losses = [("not a JSON object", line) for line in broken]
        losses += [("a step needs a number and a time with its zone", t) for t in steps.filter(~good_step)["text"]]
        losses += [
            ("a phase needs a known name and a start with its zone", t)
            for t in phases.filter(~good_phase.fill_null(value=False))["text"]
        ]
        return Reading(
            steps.filter(good_step).rename({"at": "completed_at"}).drop("text"),
            phases.filter(good_phase).select(list(PHASE_COLUMNS)),
            _facts(sound.filter(event == "run").get_column("text").to_list()),
            tuple(losses),
        )


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _at(name: str) -> pl.Expr:
    return pl.col("text").str.json_path_match(f"$.{name}").alias(name)


def _float(name: str) -> pl.Expr:
    return _at(name).cast(pl.Float64, strict=False).alias(name)


def _time(name: str) -> pl.Expr:
    zoned = pl.when(_at(name).str.contains(r"(?:Z|[+-]\d\d:?\d\d)$")).then(_at(name).str.replace(r"Z$", "+00:00"))
    return (
        zoned.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", strict=False, time_zone="UTC")
        .cast(pl.Datetime("us", "UTC"))
        .alias(name)
    )


def _facts(runs: list[str]) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {}
    for line in runs:
        told: dict[str, Any] = json.loads(line)
        facts.update({k: told[k] for k in _FACTS if isinstance(told.get(k), int | float | str | bool)})
    if facts.get("recompute") not in (None, *RECOMPUTE):
        facts.pop("recompute")
    return facts
