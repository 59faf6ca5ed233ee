"""Inference: from a round's published summary, and the logs of its runs, to raw rows.

Belongs here: reading records and logs, and comparing the two. Does not belong here: finding the files
(`inference.py`), resolving accelerators (`assets/mlperf.py`).
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Reject
from sources.mlperf.rounds import known_at, repository, repository_link
from sources.mlperf.systems import SystemFileError, read_system, submitter_of, whole

TABLE = "market.mlperf_inference"
RAW = "raw.mlperf_inference"
LOG_NAME = "performance/run_1/mlperf_log_summary.txt"

# Line of the log that the published figure is taken from, by scenario and unit. Interactive logs call themselves
# Server. Latencies are published as estimates and have no such line.
_LOG_LINES = {
    ("offline", "tokens/s"): "Tokens per second",
    ("offline", "samples/s"): "Samples per second",
    ("server", "tokens/s"): "Completed tokens per second",
    ("interactive", "tokens/s"): "Completed tokens per second",
}
# Directories of the open division also write them in small letters.
_SCENARIOS = {word.lower(): word for word in ("Offline", "Server", "Interactive", "SingleStream", "MultiStream")}
_AVAILABILITY = {"available": "available", "preview": "preview", "rdi": "research", "research": "research"}
_LOG_PATH = re.compile(
    r"^(?P<location>(?P<division>closed|open)/(?P<org>[^/]+)/results/(?P<platform>[^/]+)/(?P<model>[^/]+)/(?P<scenario>[^/]+))/"
)

_TEXT = (
    "round", "division", "suite", "organization", "platform", "model", "scenario", "performance_unit", "location",
    "result_id", "submitter", "availability", "system", "used_model", "accelerator", "power_unit",
    "log_performance_key", "log_validity", "log_reason", "source_name", "source_url", "notes",
)  # fmt: skip
_COUNTS = ("node_count", "accelerators_per_node", "accelerator_count", "processors_per_node")
_FIGURES = ("performance", "performance_per_accelerator", "power_value", "log_performance")
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(_TEXT, pl.String),
    **dict.fromkeys(_COUNTS, pl.Int64),
    **dict.fromkeys(_FIGURES, pl.Float64),
    "is_latency": pl.Boolean,
    "log_agrees": pl.Boolean,
    "known_at": pl.Datetime("us", "UTC"),
}


def read_summary(body: bytes, logs: Mapping[str, bytes], round_: str, retrieved_at: dt.datetime) -> Parsed:
    """`raw.mlperf_inference` of one round. `logs`: log files by location. Raises `ParseError`."""
    try:
        records = json.loads(body.decode("utf-8-sig"), parse_float=Decimal)
    except ValueError as error:
        raise ParseError(f"summary_results.json of {round_} is not JSON ({error}); fetch it again") from None
    if not isinstance(records, list) or not records:
        raise ParseError(f"summary_results.json of {round_} holds no list of results; fetch it again")
    rows, rejects = [], []
    for index, record in enumerate(records):
        try:
            rows.append(_row(record, logs, round_, retrieved_at))
        except (KeyError, ValueError, ArithmeticError, TypeError, AttributeError) as error:
            raw = json.dumps(record, default=str, ensure_ascii=False)[:2_000]
            reason = f"the record cannot be read: {type(error).__name__} {error}"
            rejects.append(Reject(TABLE, "unreadable_record", reason, raw, f"record {index}"))
    return Parsed({RAW: pl.DataFrame(rows, schema=SCHEMA)}, rejects)


def read_logs(
    logs: Mapping[str, bytes], systems: Mapping[str, bytes], round_: str, retrieved_at: dt.datetime
) -> Parsed:
    """Rows of a folder that has logs but no summary: what the logs say, and no published figure."""
    rows, rejects = [], []
    for path, body in logs.items():
        found = _LOG_PATH.match(path + "/")
        system = systems.get(f"{found['division']}/{found['org']}/systems/{found['platform']}.json") if found else None
        if found is None or system is None:
            reason = "the log's system file is missing" if found else "the log lies outside a results directory"
            rejects.append(Reject(TABLE, "log_without_system", reason, body[:500].decode("utf-8", "replace"), path))
            continue
        try:
            rows.append(_log_row(found, path, body, system, round_) | _provenance(round_, path, retrieved_at))
        except (SystemFileError, ValueError, ArithmeticError) as error:
            rejects.append(Reject(TABLE, "unreadable_log", str(error), body[:500].decode("utf-8", "replace"), path))
    return Parsed({RAW: pl.DataFrame(rows, schema=SCHEMA)}, rejects)


def log_figures(body: bytes) -> dict[str, str]:
    """`key : value` lines of a log summary; the first of each key counts."""
    found: dict[str, str] = {}
    for line in body.decode("latin-1").splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(key.strip(), value.strip())
    return found


def agree(published: Decimal, logged: Decimal) -> bool:
    """Do two printed figures agree to the coarser one's last digit (half a unit of it)?"""
    digits = min(_decimals(published), _decimals(logged))
    return abs(published - logged) <= Decimal(1).scaleb(-digits) / 2


def _decimals(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _row(
    record: Mapping[str, Any], logs: Mapping[str, bytes], round_: str, retrieved_at: dt.datetime
) -> dict[str, Any]:
    text = {k: str(v).strip() for k, v in record.items() if v is not None and not isinstance(v, dict | list)}
    location, unit = text.get("Location", "").strip("/"), text["Performance_Units"]
    performance = Decimal(text["Performance_Result"])
    if not performance.is_finite() or text["Category"] not in ("closed", "open"):
        raise ValueError(f"performance {performance}, category {text['Category']}")
    nodes, each = whole(text.get("Nodes")) or None, whole(text.get("a#"))
    count = nodes * each if nodes and each is not None else None
    is_latency = "latency" in unit.lower()
    organization = location.split("/")[1] if location.count("/") > 1 else text["Submitter"]
    row = {
        "round": round_,
        "division": text["Category"],
        "suite": text["Suite"],
        "organization": organization,
        "platform": text["Platform"],
        "model": text["Model"],
        "scenario": _SCENARIOS.get(text["Scenario"].lower(), text["Scenario"]),
        "performance_unit": unit,
        "location": location,
        "result_id": text.get("ID") or None,
        "submitter": submitter_of(text["Submitter"]),
        "availability": _AVAILABILITY.get(text.get("Availability", "").lower()),
        "system": text.get("System") or None,
        "used_model": text.get("UsedModel") or None,
        "node_count": nodes,
        "accelerator": text.get("Accelerator") or None,
        "accelerators_per_node": each,
        "accelerator_count": count,
        "processors_per_node": whole(text.get("p#")),
        "performance": float(performance),
        "performance_per_accelerator": float(performance) / count if count and not is_latency else None,
        "is_latency": is_latency,
        "power_value": float(text["Power_Result"]) if text.get("Power_Result") else None,
        "power_unit": text.get("Power_Units") or None,
    }
    row |= _cross_check(performance, text["Scenario"], unit, logs.get(location))
    return row | _provenance(round_, location, retrieved_at)


def _cross_check(published: Decimal, scenario: str, unit: str, log: bytes | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("log_performance", "log_performance_key", "log_validity", "log_agrees"))
    row["log_reason"] = None
    if log is None:
        return row | {"log_reason": "no log of this result is held"}
    figures = log_figures(log)
    row["log_validity"] = figures.get("Result is")
    line = _LOG_LINES.get((scenario.lower(), unit.lower()))
    if line is None:
        return row | {"log_reason": f"no log line states {unit} of the {scenario} scenario"}
    if line not in figures:
        return row | {"log_reason": f"the log has no line {line!r}"}
    try:
        logged = Decimal(figures[line])
    except ArithmeticError:
        return row | {"log_reason": f"the log's line {line!r} holds no number"}
    same = agree(published, logged)
    reason = None if same else f"published {published}, the log says {logged}"
    return row | {
        "log_performance": float(logged),
        "log_performance_key": line,
        "log_agrees": same,
        "log_reason": reason,
    }


def _log_row(found: re.Match[str], path: str, body: bytes, system: bytes, round_: str) -> dict[str, Any]:
    figures, described = log_figures(body), read_system(system, found["org"])
    scenario = found["scenario"]
    lines = [(line, unit) for (kind, unit), line in _LOG_LINES.items() if kind == scenario.lower() and line in figures]
    if not lines:
        raise ValueError(f"the log states no throughput of the {scenario} scenario")
    line, unit = lines[0]
    return {
        "round": round_,
        "division": found["division"],
        "suite": str(json.loads(system).get("system_type") or "unknown"),
        "organization": found["org"],
        "platform": found["platform"],
        "model": found["model"],
        "scenario": _SCENARIOS.get(scenario.lower(), scenario),
        "performance_unit": unit.capitalize(),
        "location": f"{path}/{LOG_NAME}",
        "submitter": described.submitter,
        "system": described.system,
        "node_count": described.node_count,
        "accelerator": described.accelerator,
        "accelerators_per_node": described.accelerators_per_node,
        "accelerator_count": described.accelerator_count,
        "is_latency": False,
        "log_performance": float(Decimal(figures[line])),
        "log_performance_key": line,
        "log_validity": figures.get("Result is"),
        "log_reason": "the folder has no summary_results.json: the published figure is not known",
    }


def _provenance(round_: str, path: str, retrieved_at: dt.datetime) -> dict[str, Any]:
    moment, remark = known_at("inference", round_, retrieved_at)
    return {
        "known_at": moment,
        "source_name": f"mlcommons/{repository('inference', round_)}",
        "source_url": repository_link("inference", round_, path),
        "notes": remark,
    }
