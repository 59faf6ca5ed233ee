"""The kernel log as the agent hears it: XIDs, SXIDs and GPUs that fell off the bus, with the kernel's own time.

Belongs here: tailing /dev/kmsg without blocking, and telling the lines that speak of a GPU. Does not belong
here: saved logs (`telemetry_inputs/kernel_xid.py`), what a code means (`nvml_catalogue.py`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KMSG: Final = Path("/dev/kmsg")
OFF_THE_BUS: Final = 79
_RECORD_BYTES: Final = 8192  # the kernel never returns more than one record a read
_BUS: Final = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
_XID: Final = re.compile(rf"NVRM: Xid \(PCI:{_BUS}\): (?P<code>\d+)(?P<rest>.*)")
_SXID: Final = re.compile(rf"SXid \(PCI:{_BUS}\): (?P<code>\d+)(?P<rest>.*)")
_FALLEN: Final = re.compile(rf"NVRM: GPU (?:at PCI:)?{_BUS}: GPU has fallen off the bus")
# One message in three lines names the GPU before it says what happened.
_OPENED: Final = re.compile(rf"NVRM: The NVIDIA GPU {_BUS}")
_OPEN_LINES: Final = 2
_PROCESS: Final = re.compile(r"pid='?(?P<pid>\d+)'?,\s*name='?(?P<name>[^,']*)")
_LINK: Final = re.compile(r"\b[Ll]ink (?P<link>\d+)\b")
_SUBCODE: Final = re.compile(r"(?P<subcode>[A-Z][A-Z0-9_]{2,})\s+(?:Non-?)?[Ff]atal")
_GRAVITY: Final = re.compile(r"\b(?P<non>non-?)?fatal\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One line that speaks of a GPU or switch. `pci_bus_id` has no function part where the line has none."""

    occurred_at_us: int
    kind: str
    code: int
    pci_bus_id: str
    message: str
    pid: int | None = None
    process_name: str | None = None
    link_index: int | None = None
    subcode: str | None = None
    severity: str | None = None


def understand(message: str, occurred_at_us: int) -> KernelEvent | None:
    """The event in a line of the kernel log, or None."""
    if fallen := _FALLEN.search(message):
        return _off_the_bus(fallen["pci"], message, occurred_at_us)
    for kind, pattern in (("xid", _XID), ("sxid", _SXID)):
        if found := pattern.search(message):
            rest = found["rest"]
            process, link, subcode = _PROCESS.search(rest), _LINK.search(rest), _SUBCODE.search(rest)
            return KernelEvent(
                occurred_at_us,
                kind,
                int(found["code"]),
                found["pci"].lower(),
                message,
                pid=int(process["pid"]) if process else None,
                process_name=process["name"] if process else None,
                link_index=int(link["link"]) if link else None,
                subcode=subcode["subcode"] if subcode else None,
                severity=_printed_severity(rest),
            )
    return None


def _off_the_bus(pci: str, message: str, occurred_at_us: int) -> KernelEvent:
    return KernelEvent(occurred_at_us, "xid", OFF_THE_BUS, pci.lower(), message)


def _printed_severity(text: str) -> str | None:
    """Some lines say themselves whether they are fatal."""
    gravity = _GRAVITY.search(text)
    if gravity is None:
        return None
    return "warning" if gravity["non"] else "fatal"


def same_device(short: str, full: str) -> bool:
    """Whether two PCI bus ids mean one device; the kernel writes `0000:3b:00` or `3b:00.0`, NVML `00000000:3b:00.0`."""

    def parts(text: str) -> list[int]:
        numbers = [int(part, 16) for part in text.split(".", maxsplit=1)[0].split(":")]
        return [0, *numbers][-3:]

    return parts(short) == parts(full)


class KernelLog:
    """A tail of the kernel log from now on. Where it cannot be read, `reason` says why and nothing comes.

    `overwritten` counts how often records were lost because the kernel's ring went round before they were read.
    """

    def __init__(self, path: Path = KMSG) -> None:
        self.reason = ""
        self.overwritten = 0
        self._opened: tuple[str, int] = ("", 0)  # bus id of an unfinished message, lines it may still go on
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.close()
            self.reason = "no_permission" if isinstance(error, PermissionError) else "not_found"

    def events(self) -> Iterator[KernelEvent]:
        """What the log says since the last call."""
        while self._fd >= 0:
            try:
                record = os.read(self._fd, _RECORD_BYTES)
            except BrokenPipeError:  # the kernel moves us on to the oldest record it still has
                self.overwritten += 1
                continue
            except BlockingIOError:
                return
            except OSError:
                self.close()
                self.reason = "unknown_error"
                return
            if not record:
                return
            for line in record.decode(errors="replace").splitlines():
                if event := self._event(line):
                    yield event

    def _event(self, line: str) -> KernelEvent | None:
        """A record is `priority,sequence,µs since boot,flags;message`; other lines are its dictionary."""
        head, semicolon, message = line.partition(";")
        fields = head.split(",")
        if not semicolon or len(fields) < 3 or not fields[2].isdigit():  # noqa: PLR2004
            return None
        at_us = _wall_clock_us(int(fields[2]))
        bus, lines_left = self._opened
        self._opened = (bus, lines_left - 1)
        if opened := _OPENED.search(message):
            self._opened = (opened["pci"], _OPEN_LINES)
        elif event := understand(message, at_us):
            return event
        elif lines_left > 0 and "fallen off the bus" in message:
            return _off_the_bus(bus, message, at_us)
        return None

    def close(self) -> None:
        """Release the log."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _wall_clock_us(since_boot_us: int) -> int:
    """The kernel stamps with its monotonic clock; the difference to now is taken off the wall clock."""
    now_us = time.time_ns() // 1000
    age_us = time.monotonic_ns() // 1000 - since_boot_us
    return now_us - max(age_us, 0)
