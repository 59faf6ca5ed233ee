"""Writes small MLPerf logs, system files and results directories in the shape of the public ones."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from assets.mlperf import derive
from sources.mlperf.mllog import RunLog, read_log
from sources.mlperf.training import SOURCE

START = 1_714_684_949_797
CURATED = Path(__file__).resolve().parents[2] / "sources" / "curated"


def line(key: str, value: Any = None, ms: float = START, prefix: str = "", namespace: str = "", **metadata: Any) -> str:
    """One log line, ended."""
    kind = "INTERVAL_START" if key.endswith("_start") else "POINT_IN_TIME"
    body = {
        "namespace": namespace,
        "time_ms": ms,
        "event_type": kind,
        "key": key,
        "value": value,
        "metadata": {"file": "train.py", "lineno": 12, **metadata},
    }
    return f"{prefix}:::MLLOG {json.dumps(body)}\n"


def run(minutes: float | None = 10.0, *, samples: float = 3072, status: str | None = "success", extra: str = "") -> str:
    """A log: start, an evaluation, stop after `minutes` (no stop if None); `samples` as sequences."""
    text = line("global_batch_size", 8) + line("run_start") + extra
    text += line("eval_accuracy", 0.92, START + 1_000, samples_count=samples, epoch_num=samples)
    if minutes is not None:
        more = {"status": status} if status else {}
        text += line("run_stop", None, START + minutes * 60_000, samples_count=samples, **more)
    return text


def read(text: str | bytes) -> RunLog:
    return read_log(io.BytesIO(text.encode() if isinstance(text, str) else text))


SYSTEM: dict[str, Any] = {
    "submitter": "Acme",
    "division": "closed",
    "status": "Available on-premise",
    "system_name": "acme8",
    "number_of_nodes": "1",
    "accelerators_per_node": "8",
    "accelerator_model_name": "NVIDIA H100-SXM5-80GB",
    "accelerator_memory_capacity": "80 GB",
    "framework": "frame 1.0",
    "sw_notes": "",
}


def write_directory(
    root: Path,
    logs: Mapping[str, str | bytes] | Sequence[str | bytes],
    *,
    round_: str = "v5.1",
    organization: str = "Acme",
    system: str = "acme_n1",
    benchmark: str = "llama2_70b_lora",
    factor: float | None = None,
    described: Mapping[str, Any] | None = SYSTEM,
) -> Path:
    """`<root>/<round>/<organization>/…` with one results directory; `described` None leaves the system file out."""
    base = root / round_ / organization
    folder = base / "results" / system / benchmark
    folder.mkdir(parents=True)
    named = logs if isinstance(logs, Mapping) else {f"result_{i}.txt": log for i, log in enumerate(logs)}
    for name, log in named.items():
        (folder / name).write_bytes(log.encode() if isinstance(log, str) else log)
    if factor is not None:
        (folder / "scaling.json").write_text(json.dumps({"scaling_factor": factor}))
    if described is not None:
        (base / "systems").mkdir(exist_ok=True)
        (base / "systems" / f"{system}.json").write_text(json.dumps({**SYSTEM, **described}))
    return folder


def curated(name: str) -> pl.DataFrame:
    """A curated table as it will be in the lake, as far as look-ups need it."""
    return pl.read_csv(CURATED / f"{name}.csv", infer_schema_length=None)


def tables(*paths: Path, **options: str) -> dict[str, pl.DataFrame]:
    """Market tables of everything below the paths, derived directory by directory as the street does."""
    aliases, accelerators = curated("ref.accelerator_aliases"), curated("ref.accelerators")
    found: dict[str, list[pl.DataFrame]] = {}
    for payload in SOURCE.read(paths, options):
        frames = derive(SOURCE.parse(payload).frames, aliases=aliases, accelerators=accelerators)
        for table, frame in frames.items():
            found.setdefault(table, []).append(frame)
    return {table: pl.concat(parts) for table, parts in found.items()}


def result(*paths: Path, **options: str) -> dict[str, Any]:
    """The one row of `market.mlperf_results`."""
    return tables(*paths, **options)["market.mlperf_results"].row(0, named=True)


def runs(*paths: Path, **options: str) -> list[dict[str, Any]]:
    """Rows of `market.mlperf_runs`."""
    return tables(*paths, **options)["market.mlperf_runs"].to_dicts()
