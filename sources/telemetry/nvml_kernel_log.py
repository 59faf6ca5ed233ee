"""The kernel log as the agent hears it: XIDs, SXIDs and GPUs that fell off the bus, with the kernel's own time.

Belongs here: tailing /dev/kmsg without blocking, and telling the lines that speak of a GPU. Does not belong
here: saved logs (`kernel_xid.py`), severities and actions (the catalogue is joined when the rows are cleaned).
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
_XID: Final = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+),\s*(?P<rest>.*)")
_SXID: Final = re.compile(r"nvidia-nvswitch\d+: SXid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+),\s*(?P<rest>.*)")
_FALLEN: Final = re.compile(
    r"NVRM: GPU (?:at PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F:.]+): GPU has fallen off the bus"
)
_PROCESS: Final = re.compile(r"pid='?(?P<pid>\d+)'?,\s*name=(?P<name>[^,]*)")
_LINK: Final = re.compile(r"\b[Ll]ink (?P<link>\d+)")


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


def understand(message: str, occurred_at_us: int) -> KernelEvent | None:
    """The event in a line of the kernel log, or None."""
    if fallen := _FALLEN.search(message):
        return KernelEvent(occurred_at_us, "xid", OFF_THE_BUS, fallen["pci"].lower(), message)
    for kind, pattern in (("xid", _XID), ("sxid", _SXID)):
        if found := pattern.search(message):
            process = _PROCESS.search(found["rest"])
            link = _LINK.search(found["rest"]) if kind == "sxid" else None
            return KernelEvent(
                occurred_at_us,
                kind,
                int(found["code"]),
                found["pci"].lower(),
                message,
                pid=int(process["pid"]) if process else None,
                process_name=process["name"] if process else None,
                link_index=int(link["link"]) if link else None,
            )
    return None


def same_device(short: str, full: str) -> bool:
    """Whether two PCI bus ids mean one device; the kernel writes `0000:3b:00`, NVML `00000000:3b:00.0`."""

    def parts(text: str) -> list[int]:
        return [int(part, 16) for part in text.split(".", maxsplit=1)[0].split(":")]

    return parts(short) == parts(full)


class KernelLog:
    """A tail of the kernel log from now on. Where it cannot be read, `reason` says why and nothing comes."""

    def __init__(self, path: Path = KMSG) -> None:
        self.reason = ""
        self.overwritten = 0
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
            except BrokenPipeError:  # the ring went round before we read: the kernel moves us to the oldest record
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
            yield from _events(record.decode(errors="replace"))

    def close(self) -> None:
        """Release the log."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _events(text: str) -> Iterator[KernelEvent]:
    """Records are `priority,sequence,µs since boot,flags;message`; further lines are its dictionary."""
    for line in text.splitlines():
        head, semicolon, message = line.partition(";")
        fields = head.split(",")
        if not semicolon or len(fields) < 3 or not fields[2].isdigit():  # noqa: PLR2004
            continue
        if event := understand(message, _wall_clock_us(int(fields[2]))):
            yield event


def _wall_clock_us(since_boot_us: int) -> int:
    """The kernel stamps with its monotonic clock; the difference to now is taken off the wall clock."""
    now_us = time.time_ns() // 1000
    age_us = time.monotonic_ns() // 1000 - since_boot_us
    return now_us - max(age_us, 0)
