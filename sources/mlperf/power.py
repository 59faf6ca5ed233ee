"""Reads the power logs that lie beside a result: energy of a run as the official summarizer computes it.

Belongs here: node and switch logs to a mean power. Does not belong here: result logs (`mllog.py`); the energy of
a run is the mean power times its time to train (mlcommons/logging, result_summarizer, `_compute_power_node`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

from sources.mlperf.mllog import CHUNK, TOKEN, number, parse_line


@dataclass(frozen=True, slots=True)
class PowerLog:
    """Mean power over the measurement, conversion losses included; None with a reason where it cannot be had."""

    mean_power_w: float | None
    reason: str = ""


def read_node(stream: BinaryIO) -> PowerLog:
    """A node's log: readings held until the next one are integrated over the measurement (W times ms)."""
    lines = sorted(_lines(stream), key=lambda line: float(line["time_ms"]))
    efficiency, area_w_ms = 1.0, 0.0
    start: float | None = None
    stop: float | None = None
    previous = last = 0.0
    for line in lines:
        key, value, at = line["key"], number(line["value"]), float(line["time_ms"])
        if key == "power_measurement_start":
            start = previous = at
        elif key == "power_reading" and start is not None and stop is None and value is not None:
            area_w_ms += value * (at - previous)
            previous = last = at
        elif key == "power_measurement_stop":
            stop = at
        elif key == "conversion_eff" and value is not None:
            efficiency = value
    if start is None:
        return PowerLog(None, "power_measurement_start is missing")
    span_ms = (stop if stop is not None else last) - start
    if span_ms <= 0 or area_w_ms <= 0:
        return PowerLog(None, "no power reading lies within the measurement")
    return PowerLog(efficiency * area_w_ms / span_ms)


def read_switch(stream: BinaryIO) -> PowerLog:
    """A switch's log: its power is an estimate that the submitter states once."""
    efficiency = 1.0
    for line in _lines(stream):
        value = number(line["value"])
        if line["key"] == "conversion_eff" and value is not None:
            efficiency = value
        elif line["key"] == "interconnect_power_est" and value is not None:
            return PowerLog(efficiency * value)
    return PowerLog(None, "interconnect_power_est is missing")


def _lines(stream: BinaryIO) -> list[dict[str, Any]]:
    """All log lines that can be read; the official reader skips the others here."""
    found = []
    rest = b""
    while chunk := stream.read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        found.extend(whole)
    lines = []
    for text in (*found, rest):
        if TOKEN not in text:
            continue
        try:
            line = parse_line(text.rpartition(TOKEN)[2] + b"\n")
        except ValueError:
            continue
        if line is not None:
            lines.append(line)
    return lines
