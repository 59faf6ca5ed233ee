"""From a bundle's members to the raw frames of one results directory.

Belongs here: reading every member once, in the order it comes, and refusing what cannot be used. Does not belong
here: finding members (`training.py`, `github.py`), the score (`assets/mlperf_score.py`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import polars as pl

from sources.base import Parsed, ParseError, Reject
from sources.mlperf.benchmarks import BENCHMARKS, benchmark_id_of
from sources.mlperf.layout import DirectoryName, is_run, is_system_file, place_in_results, power_log
from sources.mlperf.mllog import RunLog, number, read_log
from sources.mlperf.power import PowerLog, read_node, read_switch
from sources.mlperf.rounds import known_at, repository, repository_link
from sources.mlperf.runs import run_row
from sources.mlperf.systems import SystemFile, SystemFileError, read_system, submitter_of

DIRECTORIES = "raw.mlperf_directories"
RUNS = "raw.mlperf_runs"
RESULTS_TABLE, RUNS_TABLE = "market.mlperf_results", "market.mlperf_runs"
MAX_SMALL = 1 << 20

_TIME = pl.Datetime("us", "UTC")
_KEY: dict[str, Any] = {
    "round": pl.String,
    "organization": pl.String,
    "system_desc_id": pl.String,
    "benchmark": pl.String,
    "benchmark_id": pl.String,
    "submitter": pl.String,
    "known_at": _TIME,
    "source_name": pl.String,
    "source_url": pl.String,
    "notes": pl.String,
}
DIRECTORY_SCHEMA: dict[str, Any] = _KEY | {
    "division": pl.String,
    "availability": pl.String,
    "system": pl.String,
    "framework": pl.String,
    "accelerator": pl.String,
    "accelerator_count": pl.Int64,
    "node_count": pl.Int64,
    "accelerators_per_node": pl.Int64,
    "accelerator_memory_gb": pl.Float64,
    "host_processor": pl.String,
    "software_notes": pl.String,
    "scaling_factor": pl.Float64,
    "scaling_problem": pl.String,
    "logs_sha256": pl.String,
}
RUN_SCHEMA: dict[str, Any] = _KEY | {
    "run_file": pl.String,
    "outcome": pl.String,
    "outcome_reason": pl.String,
    "started_at": _TIME,
    "stopped_at": _TIME,
    "minutes": pl.Float64,
    "stop_status": pl.String,
    "global_batch_size": pl.Int64,
    "sequence_length": pl.Int64,
    "convergence_counter": pl.Float64,
    "counter_unit": pl.String,
    "counter_key": pl.String,
    "eval_accuracy": pl.Float64,
    "eval_metric": pl.String,
    "linear_precision": pl.String,
    "energy_j": pl.Float64,
    "energy_reason": pl.String,
    "power_log_count": pl.Int64,
    "mllog_line_count": pl.Int64,
    "corrupt_line_count": pl.Int64,
    "log_bytes": pl.Int64,
    "log_sha256": pl.String,
}


@dataclass(slots=True)
class _Found:
    """What the members of one bundle hold."""

    round: str = ""
    name: DirectoryName | None = None
    system: bytes | None = None
    scaling: bytes | None = None
    runs: dict[str, RunLog] = field(default_factory=dict)
    power: dict[str, list[PowerLog]] = field(default_factory=dict)
    strays: dict[str, bytes] = field(default_factory=dict)


def read_directory(members: Iterable[tuple[str, BinaryIO]], retrieved_at: dt.datetime) -> Parsed:
    """Frames `raw.mlperf_directories` (one row, none if refused) and `raw.mlperf_runs`. Raises `ParseError`."""
    found = _collect(members)
    if found.name is None:
        raise ParseError("the bundle holds no <round>/<organization>/results/<system>/<benchmark>/: nothing to read")
    rejects = [_stray(found.name, path, head) for path, head in found.strays.items()]
    system, refused = _system(found, found.name)
    if refused:
        rejects.append(refused)
    key = _key(found.round, found.name, system, retrieved_at)
    rule = BENCHMARKS.get(found.name.benchmark)
    rows = [
        key | run_row(run, log, rule, found.power.get(run.removesuffix(".txt"), []) if found.power else None)
        for run, log in found.runs.items()
    ]
    directories = [_directory_row(key, found, system)] if system and not refused else []
    frames = {
        DIRECTORIES: pl.DataFrame(directories, schema=DIRECTORY_SCHEMA),
        RUNS: pl.DataFrame(rows, schema=RUN_SCHEMA),
    }
    return Parsed(frames, rejects)


def _collect(members: Iterable[tuple[str, BinaryIO]]) -> _Found:
    found = _Found()
    for path, stream in members:
        if place := place_in_results(path):
            found.round, found.name, rest = place
            _take(found, rest, stream)
        elif is_system_file(path):
            found.system = stream.read(MAX_SMALL)
    return found


def _take(found: _Found, path: str, stream: BinaryIO) -> None:
    if is_run(path):
        found.runs[path] = read_log(stream)
    elif path == "scaling.json":
        found.scaling = stream.read(MAX_SMALL)
    elif power := power_log(path):
        log = read_node(stream) if power[1] == "node" else read_switch(stream)
        found.power.setdefault(power[0], []).append(log)
    elif path != "empty":
        found.strays[path] = stream.read(MAX_SMALL)


def _system(found: _Found, name: DirectoryName) -> tuple[SystemFile | None, Reject | None]:
    """The system file, or why this directory cannot become a result. Its runs land all the same."""
    if name.benchmark not in BENCHMARKS:
        text = f"how many runs {name.benchmark!r} needs and which are dropped is not known: its runs are not scored"
        return None, _refuse(name, "unknown_benchmark", text, ", ".join(found.runs))
    if not found.runs:
        return None, _refuse(name, "no_result_files", "the directory holds no result_*.txt", "")
    if found.system is None:
        text = f"{name.system_path} is missing, so the accelerators are not known; add it and load again"
        return None, _refuse(name, "system_file_missing", text, ", ".join(found.runs))
    try:
        return read_system(found.system, name.organization), None
    except SystemFileError as error:
        raw = found.system.decode("utf-8", "replace")
        return None, _refuse(name, "system_file_unreadable", f"{name.system_path}: {error}", raw)


def _key(round_: str, name: DirectoryName, system: SystemFile | None, retrieved_at: dt.datetime) -> dict[str, Any]:
    moment, remark = known_at("training", round_, retrieved_at)
    return {
        "round": round_,
        "organization": name.organization,
        "system_desc_id": name.system_desc_id,
        "benchmark": name.benchmark,
        "benchmark_id": benchmark_id_of(name.benchmark),
        "submitter": system.submitter if system else submitter_of(name.organization),
        "known_at": moment,
        "source_name": f"mlcommons/{repository('training', round_)}",
        "source_url": repository_link("training", round_, name.path),
        "notes": remark,
    }


def _directory_row(key: dict[str, Any], found: _Found, system: SystemFile) -> dict[str, Any]:
    factor, problem = _scaling(found.scaling)
    together = hashlib.sha256("\n".join(sorted(log.sha256 for log in found.runs.values())).encode())
    return key | {
        "division": system.division,
        "availability": system.availability,
        "system": system.system,
        "framework": system.framework,
        "accelerator": system.accelerator,
        "accelerator_count": system.accelerator_count,
        "node_count": system.node_count,
        "accelerators_per_node": system.accelerators_per_node,
        "accelerator_memory_gb": system.accelerator_memory_gb,
        "host_processor": system.host_processor,
        "software_notes": system.software_notes,
        "scaling_factor": factor,
        "scaling_problem": problem,
        "logs_sha256": together.hexdigest(),
    }


def _scaling(body: bytes | None) -> tuple[float | None, str | None]:
    """(factor, problem): 1 without a file; no factor where the file cannot be read."""
    if body is None:
        return 1.0, None
    try:
        factor = number(json.loads(body.decode("utf-8-sig"))["scaling_factor"])
    except (ValueError, KeyError, TypeError):
        factor = None
    if factor is None or factor <= 0:
        return None, "scaling.json holds no usable scaling_factor"
    return factor, None


def _stray(name: DirectoryName, path: str, head: bytes) -> Reject:
    text = "neither a result log (result_*.txt) nor a file the rules know beside it"
    return Reject(RUNS_TABLE, "stray_file", text, head.decode("utf-8", "replace"), f"{name.path}/{path}")


def _refuse(name: DirectoryName, rule: str, reason: str, raw: str) -> Reject:
    return Reject(RESULTS_TABLE, rule, reason, raw[:2_000], name.path)
