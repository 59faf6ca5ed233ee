"""Reads an MLPerf log as the official reader does, in one pass and constant memory.

Belongs here: bytes of one log to the few facts a run is scored by. Does not belong here: what the facts mean
(`training.py`, `assets/mlperf_score.py`), power logs (`power.py`).

The rules are those of mlcommons/logging, compliance_checker/mlp_parser: latin-1, universal newlines, what follows
the last `:::MLLOG ` of a line is JSON with a time, a key, a value and metadata, and one line that is not makes the
whole run void. Nearly all lines are of no interest, so a regular expression that accepts only valid JSON of the
usual shape proves them sound at several times the speed of `json.loads`; the others are parsed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

TOKEN = b":::MLLOG "
CHUNK = 1 << 20
MAX_LINE = 8 << 20
HEAD_BYTES = 512

_STRING = rb'"[^"\\\x00-\x1f]*+"'
_NUMBER = rb"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][-+]?\d++)?"
_SCALAR = rb"(?:" + _STRING + rb"|" + _NUMBER + rb"|null|true|false)"
_MORE = rb"(?:, " + _STRING + rb": " + _SCALAR + rb")*+"
_PAIRS = rb"(?:" + _STRING + rb": " + _SCALAR + _MORE + rb")?+"
_METADATA = rb'(?:"file": ' + _STRING + rb', "lineno": [1-9]\d*+' + _MORE + rb"|" + _PAIRS + rb")"
_VALUE = rb"(?:null|" + _NUMBER + rb"|" + _STRING + rb"|true|false|\{" + _PAIRS + rb"\})"
_EVENT = rb'"(?:POINT_IN_TIME|INTERVAL_START|INTERVAL_END)"'
_WANTED = (
    b"run_start",
    b"run_stop",
    b"eval_accuracy",
    b"global_batch_size",
    b"train_samples",
    b"max_sequence_length",
    b"lowest_numerical_precision_linear",
)


def _sound(key: bytes) -> re.Pattern[bytes]:
    """Matches only valid JSON: a log line as mllog writes it, whose key is `key`."""
    head = rb'\{"namespace": ' + _STRING + rb', "time_ms": [1-9]\d*+, "event_type": ' + _EVENT
    tail = rb', "value": ' + _VALUE + rb', "metadata": \{' + _METADATA + rb"\}\}[ \t]*+\r?\n"
    return re.compile(head + rb', "key": "' + key + rb'"' + tail)


# Most specific alternatives first: this expression is where the time goes.
_UNWANTED = _sound(rb"(?!(?:" + b"|".join(_WANTED) + rb')")[A-Za-z0-9_.-]++')
_EVALUATION = _sound(b"eval_accuracy")
_LINE_END = re.compile(rb"[\r\n]")


@dataclass(slots=True)
class RunLog:
    """The facts of one run. Times are Unix milliseconds; `eval_metadata` and `eval_value` are of the last evaluation.

    `first_corrupt` is the beginning of the first line that is not valid; `head` the first bytes of the file.
    """

    size_bytes: int = 0
    sha256: str = ""
    line_count: int = 0
    corrupt_count: int = 0
    first_corrupt: str = ""
    started_ms: float | None = None
    stopped_ms: float | None = None
    stop_metadata: dict[str, Any] = field(default_factory=dict)
    eval_value: float | None = None
    eval_metadata: dict[str, Any] = field(default_factory=dict)
    global_batch_size: float | None = None
    train_samples: float | None = None
    sequence_length: float | None = None
    linear_precision: str | None = None
    head: bytes = b""


def read_log(stream: BinaryIO) -> RunLog:
    """Read a log to its end. Any bytes are accepted; what is not a log line is skipped."""
    log, digest = RunLog(), hashlib.sha256()
    last_eval = b""
    for block in _whole_lines(stream, log, digest):
        pieces = block.split(TOKEN)
        del pieces[0]
        matches = map(_UNWANTED.match, pieces)
        others = [piece for piece, match in zip(pieces, matches, strict=True) if match is None]
        log.line_count += len(pieces) - len(others)
        for piece in others:
            if _EVALUATION.match(piece):
                log.line_count += 1
                last_eval = piece
            elif _take(log, piece) == "eval_accuracy":
                last_eval = piece
    if last_eval:
        line = parse_line(last_eval) or {}
        log.eval_value, log.eval_metadata = number(line["value"]), _mapping(line["metadata"])
    log.sha256 = digest.hexdigest()
    return log


def parse_line(piece: bytes) -> dict[str, Any] | None:
    """The JSON after a token; None if a second token follows on the same line. Raises `ValueError`."""
    end = _LINE_END.search(piece)
    if end is None:
        return None
    line = json.loads(piece[: end.start()].decode("latin-1").strip())
    if not isinstance(line, dict) or not {"time_ms", "key", "value", "metadata"} <= line.keys():
        raise ValueError("not a log line: time_ms, key, value or metadata is missing")
    try:
        line["time_ms"] = float(line["time_ms"])
    except TypeError:
        raise ValueError("time_ms is not a number") from None
    return line


def number(value: object) -> float | None:
    """A finite JSON number as float; None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _whole_lines(stream: BinaryIO, log: RunLog, digest: Any) -> Iterator[bytes]:
    """Blocks that end at a line end; the last one is given one."""
    rest = b""
    while chunk := stream.read(CHUNK):
        log.size_bytes += len(chunk)
        digest.update(chunk)
        if len(log.head) < HEAD_BYTES:
            log.head += chunk[: HEAD_BYTES - len(log.head)]
        block = rest + chunk
        # A trailing "\r" may be half of "\r\n": only "\n" cuts, unless a file has none.
        cut = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, -1) + 1
        rest = block[cut:]
        if cut:
            yield block[:cut]
        if len(rest) > MAX_LINE:
            rest = _shorten(rest)
    if rest:
        yield rest + b"\n"


def _shorten(line: bytes) -> bytes:
    """An endless line without what the reader drops anyway; cut short if its log part alone is endless."""
    start = line.rfind(TOKEN)
    if start < 0:
        return line[-len(TOKEN) :]
    return line[start : start + (MAX_LINE >> 1)]


def _mapping(metadata: object) -> dict[str, Any]:
    """Metadata of power logs is the empty string."""
    return metadata if isinstance(metadata, dict) else {}


def _take(log: RunLog, piece: bytes) -> str:
    """Read one line into `log`; its key, empty if there is none."""
    try:
        line = parse_line(piece)
    except ValueError:
        log.line_count += 1
        log.corrupt_count += 1
        log.first_corrupt = log.first_corrupt or _LINE_END.split(piece)[0][:200].decode("latin-1").strip()
        return ""
    if line is None:
        return ""
    log.line_count += 1
    key, value, metadata = str(line["key"]), line["value"], _mapping(line["metadata"])
    if key == "run_start" and log.started_ms is None:
        log.started_ms = line["time_ms"]
    elif key == "run_stop" and log.stopped_ms is None:
        log.stopped_ms, log.stop_metadata = line["time_ms"], metadata
    elif key == "train_samples":
        log.train_samples = number(value)
    elif key == "global_batch_size" and log.global_batch_size is None:
        log.global_batch_size = number(value)
    elif key == "max_sequence_length" and log.sequence_length is None:
        log.sequence_length = number(value)
    elif key == "lowest_numerical_precision_linear" and log.linear_precision is None:
        log.linear_precision = str(value) if value is not None else None
    return key
