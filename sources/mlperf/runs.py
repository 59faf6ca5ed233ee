"""From the facts of a log to one run: how it ended and why, how long it took, how much work it did.

Belongs here: outcome, minutes, convergence counter and energy of one result file. Does not belong here: which
runs count and what they score (`assets/mlperf_score.py`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sources.mlperf.benchmarks import Benchmark
from sources.mlperf.mllog import RunLog, number
from sources.mlperf.power import PowerLog

MS_PER_MINUTE = 60_000
LATEST_MS = 4_102_444_800_000  # 2100-01-01: a time beyond it is not one


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and why in one sentence where it is no success."""

    word: str
    reason: str | None = None


def outcome_of(log: RunLog) -> Outcome:
    """The outcome by the official rules: an unreadable line, a missing stop or any status but success fails a run."""
    if missing := _missing_content(log):
        return Outcome("unreadable", missing)
    if log.corrupt_count:
        return Outcome(
            "corrupt",
            f"{log.corrupt_count} log line(s) are not valid JSON, for which the official reader rejects the run; "
            f"the first: {log.first_corrupt[:120]}",
        )
    if log.started_ms is None:
        return Outcome("no_start", "run_start is not logged" if log.line_count else "the file holds no log line")
    if log.stopped_ms is None:
        return Outcome("no_stop", "run_stop is not logged: the run did not finish")
    return _end_of(log, log.started_ms, log.stopped_ms)


def _end_of(log: RunLog, started_ms: float, stopped_ms: float) -> Outcome:
    if not 0 < started_ms <= stopped_ms < LATEST_MS:
        return Outcome("corrupt", f"run_start {started_ms:.0f} ms and run_stop {stopped_ms:.0f} ms are no span")
    status = log.stop_metadata.get("status")
    if status != "success":
        stated = f"run_stop has status {status!r}" if status is not None else "run_stop has no status"
        return Outcome("aborted", f"{stated}, not 'success'")
    return Outcome("success")


def _missing_content(log: RunLog) -> str | None:
    """Why the bytes are not the submitted log at all; None if they may be."""
    head = log.head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not log.size_bytes:
        return "the file is empty: its content was not delivered"
    if head.startswith(b"version https://git-lfs"):
        return "the file is a Git LFS pointer: its content was not delivered"
    if head.startswith((b"<!doctype", b"<html")):
        return "the file is a web page, not a log"
    return None


def counter_of(log: RunLog, rule: Benchmark | None) -> tuple[float | None, str | None]:
    """(work done until the stop, log key it was read from) by the benchmark's rule; (None, None) if not logged."""
    if rule is None or rule.counter == "unknown":
        return None, None
    if rule.counter == "train_samples":
        return log.train_samples, "train_samples.value" if log.train_samples is not None else None
    if rule.counter == "eval_epoch":
        at = number(log.eval_metadata.get("epoch_num"))
        return at, "eval_accuracy.metadata.epoch_num" if at is not None else None
    at = number(log.stop_metadata.get("samples_count"))
    if at is not None:
        return at, "run_stop.metadata.samples_count"
    at = number(log.eval_metadata.get("samples_count"))
    return at, "eval_accuracy.metadata.samples_count" if at is not None else None


def energy_of(minutes: float | None, logs: Sequence[PowerLog] | None) -> tuple[float | None, str | None]:
    """(energy in J, reason): mean power of all nodes and switches times the run time. `None` logs: not measured."""
    if logs is None:
        return None, None
    if not logs:
        return None, "the directory has power logs, but none of this run"
    if minutes is None:
        return None, "the run has no time to train"
    for log in logs:
        if log.mean_power_w is None:
            return None, log.reason
    return sum(log.mean_power_w or 0.0 for log in logs) * minutes * 60, None


def run_row(run_file: str, log: RunLog, rule: Benchmark | None, power: Sequence[PowerLog] | None) -> dict[str, Any]:
    """One row of `raw.mlperf_runs`, without the columns of its directory."""
    outcome = outcome_of(log)
    readable = outcome.word != "unreadable"
    started, stopped = _moment(log.started_ms), _moment(log.stopped_ms)
    minutes = None
    if started and stopped and log.started_ms is not None and log.stopped_ms is not None:
        minutes = (log.stopped_ms - log.started_ms) / MS_PER_MINUTE
        minutes = minutes if minutes >= 0 else None
    counter, counter_key = counter_of(log, rule)
    energy_j, energy_reason = energy_of(minutes if outcome.word == "success" else None, power)
    status = log.stop_metadata.get("status")
    metric = log.eval_metadata.get("metric")
    return {
        "run_file": run_file,
        "outcome": outcome.word,
        "outcome_reason": outcome.reason,
        "started_at": started,
        "stopped_at": stopped,
        "minutes": minutes,
        "stop_status": str(status) if status is not None else None,
        "global_batch_size": _count(log.global_batch_size),
        "sequence_length": _count(log.sequence_length),
        "convergence_counter": counter,
        "counter_unit": rule.unit if rule and counter is not None else None,
        "counter_key": counter_key,
        "eval_accuracy": log.eval_value,
        "eval_metric": str(metric) if metric is not None else None,
        "linear_precision": log.linear_precision,
        "energy_j": energy_j,
        "energy_reason": energy_reason,
        "power_log_count": len(power or ()),
        "mllog_line_count": log.line_count if readable else None,
        "corrupt_line_count": log.corrupt_count if readable else None,
        "log_bytes": log.size_bytes,
        "log_sha256": log.sha256,
    }


def _moment(ms: float | None) -> dt.datetime | None:
    """A logged time; None for 0 and for what is no time of this century."""
    if ms is None or not 0 < ms < LATEST_MS:
        return None
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)


def _count(value: float | None) -> int | None:
    return int(value) if value is not None and value >= 1 and value.is_integer() else None
