"""The source `training-log`: finds the dialect of a log and gives its steps, phases, job facts and model shape.

Belongs here: the contract with the street. Does not belong here: dialects and derivations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.training_logs.arguments import DEGREES, RECOMPUTE, SHAPE, config_hash
from sources.training_logs.deepspeed import DeepSpeed
from sources.training_logs.finish import finish_steps
from sources.training_logs.hf_trainer import HfTrainer
from sources.training_logs.jsonl import Jsonl
from sources.training_logs.megatron import Megatron
from sources.training_logs.mllog import Mllog
from sources.training_logs.nemo import Nemo
from sources.training_logs.reading import Dialect, Reading, Scalar, clean_text
from sources.training_logs.torchtitan import Torchtitan

STEPS, PHASES, JOBS, MODELS = (
    "telemetry.training_steps",
    "telemetry.job_phases",
    "telemetry.jobs",
    "ref.model_configs",
)
# Order settles ties: frameworks built on another print its lines too.
DIALECTS: tuple[Dialect, ...] = (Jsonl(), Megatron(), Nemo(), Torchtitan(), DeepSpeed(), HfTrainer(), Mllog())
SUFFIXES = (".log", ".txt", ".out", ".err", ".jsonl", ".json", ".mllog")
OPTIONS = (
    "cluster",
    "job_id",
    "attempt",
    "seq_len",
    "global_batch",
    "gpus",
    "model_config_id",
    "precision",
    "accelerator_id",
    "recompute",
    "time_zone",
    "is_synthetic",
)


class TrainingLog:
    """Logs of training runs, from local files.

    Options of `read`, each of which may be left out: cluster, job_id (else from `slurm-ID.out`, else the file
    name), attempt, seq_len, global_batch, gpus, model_config_id, precision, accelerator_id, time_zone of printed times (else UTC).
    """

    name = "training-log"
    publisher = "the cluster's own jobs"
    homepage = ""
    licence = "own data"
    terms = "local files; nothing is fetched"
    cadence: Cadence = "hourly"
    tables = (STEPS, PHASES, JOBS, MODELS)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 2
    off_reason = "local files only: almanac load training-log FILE"
    options = OPTIONS
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: logs are local."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each log file."""
        for file, name in local_files(paths, SUFFIXES):
            meta = {k: options[k] for k in OPTIONS if options.get(k)}
            meta.setdefault("job_id", _job_id(file.name))
            stream = f"{meta.get('cluster', 'local')}/{meta['job_id']}"
            yield payload_of(self.name, file, name, options, media_type="text/plain", meta=meta, stream=stream)

    def parse(self, payload: Payload) -> Parsed:
        """Steps and what else the log states. Raises `ParseError` when no dialect is found in it."""
        text = clean_text(payload.read())
        dialect = _dialect(text)
        reading = dialect.read(text)
        facts = {**reading.facts, **_stated(payload.meta)}
        steps = finish_steps(reading.steps, facts, payload.meta.get("time_zone", "UTC"))
        if steps.is_empty() and not reading.losses:
            raise ParseError(f"{dialect.framework} lines, but none states a step; nothing can be read")
        frames = {STEPS: _step_rows(steps, facts, payload, dialect.framework)}
        if reading.phases.height:
            frames[PHASES] = _phase_rows(reading, payload)
        frames.update(_run_rows(facts, payload, dialect.framework))
        return Parsed({k: v for k, v in frames.items() if v.height}, tuple(_rejects(reading)))


def _job_id(name: str) -> str:
    found = re.search(r"slurm-(\d+(?:_\d+)?)", name)
    return found.group(1) if found else name.rsplit(".", 1)[0]


def _dialect(text: str) -> Dialect:
    if not text.strip():
        raise ParseError("the log is empty; wait until the job has written to it")
    best = max(DIALECTS, key=lambda d: d.hits(text))
    if best.hits(text) == 0:
        known = ", ".join(d.framework for d in DIALECTS)
        raise ParseError(f"no training step found; known are the logs of {known}")
    return best


def _stated(meta: Mapping[str, str]) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {}
    for key in ("seq_len", "global_batch", "gpus"):
        if meta.get(key):
            if not meta[key].isdecimal() or int(meta[key]) < 1:
                raise ParseError(f"-o {key}={meta[key]} is not a whole number above 0")
            facts[key] = int(meta[key])
    facts.update({k: meta[k] for k in ("model_config_id", "precision", "accelerator_id", "recompute") if meta.get(k)})
    if facts.get("recompute") not in (None, *RECOMPUTE):
        raise ParseError(f"-o recompute={meta['recompute']} is none of {', '.join(RECOMPUTE)}")
    return facts


def _identity(payload: Payload) -> dict[str, Any]:
    return {
        "cluster": payload.meta.get("cluster", "local"),
        "job_id": payload.meta.get("job_id") or _job_id(payload.url.rsplit("/", 1)[-1].removeprefix("file:")),
        "attempt": int(payload.meta.get("attempt", "0")),
        "is_synthetic": payload.meta.get("is_synthetic") == "true",
        "source_name": payload.url.removeprefix("file:"),
    }


def _literals(values: Mapping[str, Any]) -> list[pl.Expr]:
    return [pl.lit(value).alias(name) for name, value in values.items()]


def _model_id(facts: Mapping[str, Scalar]) -> str | None:
    if "model_config_id" in facts:
        return str(facts["model_config_id"])
    shape = {k: facts[k] for k in SHAPE if k in facts}
    digest = config_hash(shape) if "layers" in shape else None
    return f"log-{digest[:12]}" if digest else None


def _step_rows(steps: pl.DataFrame, facts: Mapping[str, Scalar], payload: Payload, framework: str) -> pl.DataFrame:
    return steps.with_columns(
        *_literals({**_identity(payload), "framework": framework}),
        pl.lit(_model_id(facts), pl.String).alias("model_config_id"),
        pl.coalesce("completed_at", pl.lit(payload.retrieved_at).cast(pl.Datetime("us", "UTC"))).alias("known_at"),
    )


def _phase_rows(reading: Reading, payload: Payload) -> pl.DataFrame:
    known_at = pl.coalesce("to_at", "from_at").alias("known_at")
    return reading.phases.unique(maintain_order=True).with_columns(*_literals(_identity(payload)), known_at)


def _run_rows(facts: Mapping[str, Scalar], payload: Payload, framework: str) -> dict[str, pl.DataFrame]:
    """The run as the log sees it (scheduler `none`), and its model where the log states the shape."""
    if not any(
        k in facts for k in (*DEGREES, *SHAPE, "gpus", "global_batch", "precision", "accelerator_id", "recompute")
    ):
        return {}
    degrees = {k: facts[k] for k in DEGREES if k in facts}
    job = {
        **_identity(payload),
        **degrees,
        "scheduler": "none",
        "state": "unknown",
        "gpus_allocated": float(facts["gpus"]) if "gpus" in facts else None,
        "framework": framework,
        "precision": facts.get("precision"),
        "recompute": facts.get("recompute"),
        "accelerator_id": facts.get("accelerator_id"),
        "model_config_id": _model_id(facts),
        "config_hash": config_hash(facts),
        "known_at": payload.retrieved_at,
    }
    frames = {JOBS: pl.DataFrame([job], infer_schema_length=None)}
    if "layers" in facts and "model_config_id" not in facts:
        shape = {k: facts[k] for k in SHAPE if k in facts}
        model = {"model_config_id": _model_id(facts), "model": f"shape printed by {payload.url.removeprefix('file:')}"}
        row = {**shape, **model, "known_at": payload.retrieved_at, "source_name": payload.url.removeprefix("file:")}
        frames[MODELS] = pl.DataFrame([row], infer_schema_length=None)
    return frames


def _rejects(reading: Reading) -> Iterator[Reject]:
    for number, (reason, raw) in enumerate(reading.losses):
        yield Reject(STEPS, "line_is_readable", reason, raw[:2000], f"refused line {number}")


SOURCE = TrainingLog()
