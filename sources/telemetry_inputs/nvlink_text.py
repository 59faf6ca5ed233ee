"""NVLink in text: `nvidia-smi nvlink -s` (state and speed of links) and `nvlink -e` (their error counters).

Belongs here: the two listings. Does not belong here: thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Reject
from sources.telemetry_inputs.context import UTC_US, Where, stamped

HEAD = re.compile(r"^GPU \d+: .*\(UUID: (?P<uuid>GPU-[0-9a-fA-F-]+)\)", re.MULTILINE)
LINE = re.compile(r"^\s*Links? (?P<links>[\d,\s-]+): (?P<rest>.+?)\s*$")
SPEED = re.compile(r"(?P<speed>[\d.]+) GB/s")
COUNT = re.compile(r"(?P<names>[A-Za-z/ ]+?) Errors?: (?P<value>\d+|N/A|<inactive>)")
COUNTERS = {"replay": "replay", "recovery": "recovery", "crc": "crc", "crc flit": "crc_flit", "crc data": "crc_data"}
SCHEMA: dict[str, Any] = {
    "sampled_at": UTC_US,
    "device": pl.String,
    "link_kind": pl.String,
    "link_index": pl.Int64,
    "counter": pl.String,
    "value": pl.Int64,
}
MB_PER_GB = 1000


def read_nvlink(text: str, where: Where) -> Parsed:
    """Rows of `link_counters`: errors under their counter's name, and the speed as `speed_mb_per_s` (0: inactive).

    Raises `ParseError` if no link is listed or nobody said when.
    """
    at = where.moment("the NVLink listing")
    rejects: list[Reject] = []
    records = [
        {"sampled_at": at, "device": uuid, "link_kind": "nvlink", "link_index": link, "counter": name, "value": value}
        for uuid, link, name, value in _entries(text, rejects)
    ]
    if not records:
        raise ParseError("the NVLink listing names no link; this board may have none")
    return Parsed({"telemetry.link_counters": stamped(pl.DataFrame(records, schema=SCHEMA), where)}, rejects)


def _entries(text: str, rejects: list[Reject]) -> Iterator[tuple[str, int, str, int | None]]:
    uuid = ""
    for number, line in enumerate(text.split("\n"), 1):
        head = HEAD.match(line)
        if head:
            uuid = head["uuid"]
            continue
        found = LINE.match(line)
        if not found or not uuid:
            continue
        values = list(_values(found["rest"]))
        if not values:
            reason = "the link's state or counter is none that is known"
            rejects.append(Reject("telemetry.link_counters", "a known item", reason, line.strip(), f"line {number}"))
        for link in _numbers(found["links"]):
            for name, value in values:
                yield uuid, link, name, value


def _values(rest: str) -> Iterator[tuple[str, int | None]]:
    speed = SPEED.fullmatch(rest)
    if speed:
        yield "speed_mb_per_s", round(float(speed["speed"]) * MB_PER_GB)
    elif rest.strip("<>").lower() == "inactive":
        yield "speed_mb_per_s", 0
    count = COUNT.fullmatch(rest)
    if count:
        value = int(count["value"]) if count["value"].isdigit() else None
        for name in count["names"].split("/"):
            if name.strip().lower() in COUNTERS:
                yield COUNTERS[name.strip().lower()], value


def _numbers(text: str) -> Iterator[int]:
    """Link numbers of `0-2, 4-5`."""
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        yield from range(int(first), int(last or first) + 1)
