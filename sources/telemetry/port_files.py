"""What the files of /sys/class/infiniband say: counters, state and rate of each port, InfiniBand and RoCE alike.

Belongs here: which of them count, their names and texts. Does not belong here: reading them from a living node
(`port_watch.py`) or from a copy (`sources/telemetry_inputs/infiniband.py`). Standard library only: the agent uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

PORT: Final = re.compile(r"(?P<device>[^/]+)/ports/(?P<port>\d+)/(?:counters|hw_counters)/(?P<counter>[^/]+)$")
ATTRIBUTE: Final = re.compile(r"(?P<device>[^/]+)/ports/(?P<port>\d+)/(?P<name>rate|state|phys_state|link_layer)$")
ATTRIBUTES: Final = ("link_layer", "phys_state", "rate", "state")
NO_COUNTER: Final = "lifespan"  # the driver's refresh interval in ms
MBIT_PER_GBIT: Final = 1000
# The port counts data in words of four bytes. The raw counter stays; a second one under a name of its own has bytes.
WORDS: Final = {"port_xmit_data": "port_xmit_bytes", "port_rcv_data": "port_rcv_bytes"}
BYTES_PER_WORD: Final = 4


class PortCount(NamedTuple):
    """One number of one port. `link_kind`: infiniband, or roce where the port speaks Ethernet."""

    device: str
    link_kind: str
    port: int
    counter: str
    value: int


class Unread(NamedTuple):
    """A counter's file that holds no number."""

    name: str
    text: str


def port_counts(texts: Mapping[str, str]) -> Iterator[PortCount | Unread]:
    """Every number in the files of some ports, `…/DEVICE/ports/N/…` to what stands in them. Other files are ignored."""
    stripped = {name: text.strip() for name, text in texts.items()}
    kinds = link_kinds(stripped)
    for name, text in stripped.items():
        port, attribute = PORT.search(name), ATTRIBUTE.search(name)
        place = port or attribute
        if not place or (port and port["counter"] == NO_COUNTER):
            continue
        where = place["device"], kinds.get((place["device"], place["port"]), "infiniband"), int(place["port"])
        if port and text.isdigit():
            yield PortCount(*where, port["counter"], int(text))
        elif port:
            yield Unread(name, text)
        elif attribute and attribute["name"] != "link_layer" and (number := re.match(r"[\d.]+", text)):
            is_rate = attribute["name"] == "rate"
            value = round(float(number[0]) * (MBIT_PER_GBIT if is_rate else 1))
            yield PortCount(*where, "rate_mbit_per_s" if is_rate else attribute["name"], value)


def link_kinds(texts: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Kind of link by (device, port), for the ports that name their link layer."""
    return {
        (found["device"], found["port"]): "roce" if text.strip() == "Ethernet" else "infiniband"
        for name, text in texts.items()
        if (found := ATTRIBUTE.search(name)) and found["name"] == "link_layer"
    }


def with_bytes(counts: Iterable[PortCount]) -> Iterator[PortCount]:
    """The counts, and after each that counts words the same in bytes."""
    for count in counts:
        yield count
        if count.counter in WORDS:
            yield count._replace(counter=WORDS[count.counter], value=count.value * BYTES_PER_WORD)


def port_names(folder: Path, card: str) -> Iterator[str]:
    """The files of a card's ports that tell of its links, as `CARD/ports/N/…`, in order. Raises `OSError`."""
    for port in sorted((folder / card / "ports").iterdir()):
        groups = [port / "counters", port / "hw_counters"]  # older drivers have no hw_counters
        files = [port / name for name in ATTRIBUTES]
        files += [file for group in groups if group.is_dir() for file in sorted(group.iterdir())]
        yield from (file.relative_to(folder).as_posix() for file in files if file.exists() and file.name != NO_COUNTER)
