"""RoCE NICs: `ethtool -S`, `rdma statistic -j`, `rdma link` and `nicctl show port statistics -j`.

Belongs here: reading these into link counters. Does not belong here: InfiniBand ports (`infiniband`), thresholds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject
from sources.telemetry_inputs.context import PLACE, LocalInput, Where, stamped, text_of
from sources.telemetry_inputs.nvlink_text import SCHEMA

Entry = tuple[str, str, int, str, int]
# Counters of single queues (tx_0_pkts) and of frame sizes say nothing of the link.
QUEUE = re.compile(r"^[rt]x_?\d+_|^(rx|tx)\d+_|_queue_?\d+|^ch\d+_|\[\d+\]")
LINK = re.compile(r"^link (?P<device>[^/\s]+)/(?P<port>\d+) state (?P<state>\S+) physical_state (?P<physical>\S+)")
UP = {"ACTIVE": 1, "LINK_UP": 1}


class Roce(LocalInput):
    """Statistics of RDMA network cards."""

    name = "roce"
    publisher = "NIC drivers and vendors' tools"
    homepage = "https://docs.kernel.org/networking/statistics.html"
    tables = ("telemetry.link_counters",)
    options = (*PLACE, "device")

    def parse(self, payload: Payload) -> Parsed:
        """One row for each counter of each port. Raises `ParseError`."""
        where = Where.of(payload)
        text = text_of(payload, "the statistics")
        at = where.moment("a NIC's statistics")
        rejects: list[Reject] = []
        if text.lstrip()[0] in "[{":
            found = list(_of_json(text, rejects))
        elif LINK.search(text):
            found = list(_of_links(text, rejects))
        else:
            found = list(_of_ethtool(text, _device(where), rejects))
        if not found:
            raise ParseError("no counter in it: save ethtool -S, rdma statistic -j or nicctl … -j")
        records = [
            {"sampled_at": at, "device": d, "link_kind": kind, "link_index": port, "counter": c, "value": v}
            for d, kind, port, c, v in found
        ]
        return Parsed({"telemetry.link_counters": stamped(pl.DataFrame(records, schema=SCHEMA), where)}, rejects)


def _device(where: Where) -> str:
    """The interface: the option `device`, else the part of the file's name after `ethtool_S_`."""
    if where.options.get("device"):
        return where.options["device"]
    stem = Path(where.options.get("file", "")).stem
    found = re.match(r"ethtool_S_(.+)", stem)
    if not found:
        raise ParseError("ethtool prints no interface name: give it with -o device=NAME")
    return found[1]


def _of_ethtool(text: str, device: str, rejects: list[Reject]) -> Iterator[Entry]:
    if not text.lstrip().startswith("NIC statistics:"):
        raise ParseError("this is none of ethtool -S, rdma -j and nicctl -j")
    for number, line in enumerate(text.split("\n")[1:], 2):
        name, colon, value = (part.strip() for part in line.rpartition(":"))
        if not line.strip() or QUEUE.search(name):
            continue
        if colon and value.isdigit():
            yield device, "roce", 0, name, int(value)
        else:
            reason = "no counter of ethtool"
            rejects.append(Reject("telemetry.link_counters", "a known line", reason, line[:200], f"line {number}"))


def _of_links(text: str, rejects: list[Reject]) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        found = LINK.match(line.strip())
        if found:
            port = int(found["port"])
            yield found["device"], "roce", port, "state_is_active", UP.get(found["state"], 0)
            yield found["device"], "roce", port, "physical_state_is_up", UP.get(found["physical"], 0)
        elif line.strip():
            reason = "no line of rdma link"
            rejects.append(Reject("telemetry.link_counters", "a known line", reason, line[:200], f"line {number}"))


def _of_json(text: str, rejects: list[Reject]) -> Iterator[Entry]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"the JSON is cut or broken at line {error.lineno}; take the capture again") from None
    if isinstance(document, list) and not all(isinstance(entry, dict) for entry in document):
        raise ParseError("this is none of ethtool -S, rdma -j and nicctl -j")
    if isinstance(document, list):
        for entry in document:
            yield from _counted(entry.get("ifname"), entry.get("port"), entry, rejects)
    for nic in document.get("nic", []) if isinstance(document, dict) else []:
        for number, port in enumerate(nic.get("port", []), 1):
            yield from _counted(nic.get("id"), number, port.get("statistics", {}), rejects)


def _counted(device: Any, port: Any, counters: dict[str, Any], rejects: list[Reject]) -> Iterator[Entry]:
    for name, value in counters.items():
        if name in ("ifname", "port", "ifindex"):
            continue
        if device and isinstance(port, int) and str(value).isdigit():
            yield str(device), "roce", port, name, int(value)
        else:
            reason = "device, port or number is missing"
            rejects.append(
                Reject(
                    "telemetry.link_counters",
                    "a counter is a number",
                    reason,
                    f"{name}: {value}"[:200],
                    f"{device}/{port}",
                )
            )


SOURCE = Roce()
