"""InfiniBand ports: the folder /sys/class/infiniband as it was copied, and `perfquery -x` text.

Belongs here: reading both into link counters. Does not belong here: RoCE NIC statistics (`roce`), thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject
from sources.local_files import observed_at
from sources.telemetry.port_files import PortCount, port_counts, port_names, with_bytes
from sources.telemetry_inputs.bundles import TAR, pack, unpack
from sources.telemetry_inputs.context import PLACE, UNKNOWN, LocalInput, Where, stamped, text_of
from sources.telemetry_inputs.nvlink_text import SCHEMA

# The kernel's older names on the left of perfquery's; both files then speak of one counter.
PERFQUERY = {
    "PortXmitData": "port_xmit_data",
    "PortRcvData": "port_rcv_data",
    "PortXmitPkts": "port_xmit_packets",
    "PortRcvPkts": "port_rcv_packets",
    "PortUnicastXmitPkts": "unicast_xmit_packets",
    "PortUnicastRcvPkts": "unicast_rcv_packets",
    "PortMulticastXmitPkts": "multicast_xmit_packets",
    "PortMulticastRcvPkts": "multicast_rcv_packets",
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "port_rcv_switch_relay_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortXmitConstraintErrors": "port_xmit_constraint_errors",
    "PortRcvConstraintErrors": "port_rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "VL15Dropped": "VL15_dropped",
    "PortXmitWait": "port_xmit_wait",
    "QP1Dropped": "qp1_dropped",
}
MAX_MEMBER = 1 << 16


class InfiniBand(LocalInput):
    """Counters of InfiniBand ports."""

    name = "infiniband"
    publisher = "Linux RDMA drivers"
    homepage = "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband"
    tables = ("telemetry.link_counters",)
    options = (*PLACE, "device")

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Files one by one; the port folders of one host as one payload (their files only make sense together)."""
        for path in paths:
            hosts = sorted({ports.parent.parent for ports in path.rglob("ports")}) if path.is_dir() else []
            if path.is_dir() and (path / "ports").is_dir():
                hosts = [path.parent]
            for host in hosts:
                inside = path if host == path.parent else host
                files = sorted(f for f in inside.rglob("*") if f.is_file() and "/ports/" in f.as_posix())
                yield self._bundle(host, files, options)
            cards = sorted(e.name for e in path.iterdir() if (e / "ports").is_dir()) if path.is_dir() else []
            if cards and not hosts:  # the living folder: its cards are links, which a search does not follow
                yield self._bundle(path, [path / name for card in cards for name in port_names(path, card)], options)
            others = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
            yield from super().read([f for f in others if not any(h in f.parents for h in hosts)], options)

    def _bundle(self, folder: Path, files: Sequence[Path], options: Mapping[str, str]) -> Payload:
        body = pack((file.relative_to(folder).as_posix(), text) for file in files if (text := _read(file)) is not None)
        meta = self.stated(options)
        stream = f"{meta.get('cluster', UNKNOWN)}/{meta.get('node', folder.name)}"
        return Payload(self.name, f"file:{folder.name}", observed_at(options), TAR, body, stream, meta=meta)

    def parse(self, payload: Payload) -> Parsed:
        """One row for each counter of each port. Raises `ParseError`."""
        where = Where.of(payload)
        at = where.moment("a capture of InfiniBand counters")
        rejects: list[Reject] = []
        if payload.media_type == TAR:
            found = list(_of_folder(payload.read(), rejects))
        else:
            name = where.options.get("device") or Path(where.options.get("file", "")).stem or UNKNOWN
            found = list(_of_perfquery(text_of(payload, "the output of perfquery"), name, rejects))
        if not found:
            raise ParseError("no port counter in it: copy /sys/class/infiniband or save perfquery -x")
        records = [
            {
                "sampled_at": at,
                "device": count.device,
                "link_kind": count.link_kind,
                "link_index": count.port,
                "counter": count.counter,
                "value": count.value,
            }
            for count in with_bytes(found)
        ]
        return Parsed({"telemetry.link_counters": stamped(pl.DataFrame(records, schema=SCHEMA), where)}, rejects)


def _read(file: Path) -> bytes | None:
    """None for the attributes that the kernel refuses to read."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def _of_folder(body: bytes, rejects: list[Reject]) -> Iterator[PortCount]:
    texts = {name: text.decode("utf-8", "replace") for name, text in unpack(body, MAX_MEMBER).items()}
    for told in port_counts(texts):
        if isinstance(told, PortCount):
            yield told
        else:
            reason = "the counter holds no number"
            raw = told.text[:200]
            rejects.append(Reject("telemetry.link_counters", "a counter is a number", reason, raw, told.name))


def _of_perfquery(text: str, device: str, rejects: list[Reject]) -> Iterator[PortCount]:
    port = 0
    for number, line in enumerate(text.split("\n"), 1):
        head = re.match(r"# Port (?:extended )?counters:.*\bport (\d+)", line)
        if head:
            port = int(head[1])
            continue
        found = re.match(r"([A-Za-z0-9]+):\.+(\S+)\s*$", line)
        if not found:
            if line.strip():
                reason = "no counter of perfquery"
                rejects.append(Reject("telemetry.link_counters", "a known line", reason, line[:200], f"line {number}"))
            continue
        counter = PERFQUERY.get(found[1])
        if counter and found[2].isdigit():
            yield PortCount(device, "infiniband", port, counter, int(found[2]))


SOURCE = InfiniBand()
