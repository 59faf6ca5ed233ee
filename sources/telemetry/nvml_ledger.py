"""What was told last, so that the spool carries changes and not repetitions.

Belongs here: null reasons, counters, processes and inventory as change records. Does not belong here: reading them.
A span lasts until the next record of the same thing. One that ends with nothing after it is told once more as it
was, beginning and ending at that instant; so no two records share a key, and merging neighbours gives the span.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

from sources.telemetry.nvml_errors import NOT_SAMPLED
from sources.telemetry.nvml_identity import Facts
from sources.telemetry.nvml_links import Counted
from sources.telemetry.nvml_memory_errors import Cell
from sources.telemetry.nvml_processes import Process
from sources.telemetry.nvml_reading import Reading

HEARTBEAT_US: Final = 3_600_000_000
EVERY_DEVICE: Final = "*"
WHOLE_ROW: Final = "*"

Emit = Callable[[str, Mapping[str, Any]], None]


class NullLedger:
    """One record when a column becomes null and one when that ends, for each device and column."""

    def __init__(self, emit: Emit, *, table: str) -> None:
        self._emit = emit
        self._table = table
        self._open: dict[tuple[str, str], dict[str, Any]] = {}
        self._seen: dict[str, dict[str, str]] = {}

    def note(self, at_us: int, device: str, reading: Reading) -> None:
        """Take the reasons of a reading. A column that was not sampled says nothing about why it may be null."""
        if self._seen.get(device) == reading.reasons:
            return
        self._seen[device] = dict(reading.reasons)
        for column, reason in reading.reasons.items():
            if reason != NOT_SAMPLED:
                self.begin(at_us, device, column, reason, reading.raw.get(column))
        for column in reading.values.keys() - reading.reasons.keys():
            self.end(at_us, device, column)

    def begin(self, at_us: int, device: str, column: str, reason: str, raw_value: str | None = None) -> None:
        """The column is null from now on, for this reason."""
        known = self._open.get((device, column))
        if known and known["reason"] == reason:
            return
        row = {
            "from_at": at_us,
            "to_at": None,
            "device": device,
            "table_name": self._table,
            "column_name": column,
            "reason": reason,
            "raw_value": raw_value,
        }
        self._open[device, column] = row
        self._emit("null_reason", row)

    def end(self, at_us: int, device: str, column: str) -> None:
        """The column has a value again."""
        if row := self._open.pop((device, column), None):
            self._emit("null_reason", row | {"from_at": at_us, "to_at": at_us})


class Changes:
    """What was told last of each counter: a change is news, and so is anything after an hour."""

    def __init__(self) -> None:
        self._told: dict[Hashable, tuple[int, int | None]] = {}

    def is_news(self, at_us: int, key: Hashable, value: int | None) -> bool:
        """Whether this is to be told; it then counts as told. A counter that never had a value is no news."""
        told = self._told.get(key)
        if told is None and value is None:
            return False
        if told is not None and told[1] == value and at_us - told[0] < HEARTBEAT_US:
            return False
        self._told[key] = (at_us, value)
        return True


class LinkLedger:
    """A row when a counter changed, when it became unreadable, and at least once an hour. `kind`: nvlink, pcie."""

    def __init__(self, emit: Emit, *, kind: str = "nvlink") -> None:
        self._emit = emit
        self._kind = kind
        self._nulls = NullLedger(emit, table="link_counters")
        self._told = Changes()
        self._up: dict[tuple[str, int], bool] = {}

    def note(self, at_us: int, device: str, counters: Iterable[Counted]) -> None:
        """Take one reading of every counter of a device's links."""
        reasons: dict[str, str] = {}
        known = set()
        for link, counter, value, reason in counters:
            if value is None:
                reasons.setdefault(counter, reason)
            else:
                known.add(counter)
            if self._told.is_news(at_us, (device, link, counter), value):
                self._emit(
                    "link_counter",
                    {
                        "sampled_at": at_us,
                        "device": device,
                        "link_kind": self._kind,
                        "link_index": link,
                        "counter": counter,
                        "value": value,
                    },
                )
        for counter in known:
            self._nulls.end(at_us, device, counter)
        for counter, reason in reasons.items():
            if counter not in known:
                self._nulls.begin(at_us, device, counter, reason)

    def note_states(self, at_us: int, device: str, pci_bus_id: str | None, states: Iterable[tuple[int, bool]]) -> None:
        """Tell of a link that went down since the last reading; one that was down from the start is no event."""
        for link, is_up in states:
            if self._up.get((device, link)) and not is_up:
                row = {"occurred_at": at_us, "device": device, "kind": "link_down", "event_id": f"link{link}"}
                what = {"gpu_uuid": device, "pci_bus_id": pci_bus_id, "link_index": link, "severity": "error"}
                self._emit("gpu_event", row | what)
            self._up[device, link] = is_up


class InventoryLedger:
    """A row when a board or MIG instance is first seen, and when anything about it changed."""

    def __init__(self, emit: Emit, *, boot_id: str | None) -> None:
        self._emit = emit
        self._boot_id = boot_id
        self._told: dict[str, dict[str, Any]] = {}

    def note(self, at_us: int, board: str, facts: Iterable[tuple[str, Facts]]) -> None:
        """Take a board and its MIG instances; an instance that is not among them any more has ended."""
        present = set()
        for uuid, what in facts:
            present.add(uuid)
            row = {"gpu_uuid": uuid, "parent_gpu_uuid": None, **what, "boot_id": self._boot_id}
            told = self._told.get(uuid)
            if told and {**told, "valid_from": None} == {**row, "valid_from": None, "valid_to": None}:
                continue
            self._told[uuid] = {"valid_from": at_us, "valid_to": None, **row}
            self._emit("inventory", self._told[uuid])
        for uuid in [u for u, row in self._told.items() if row["parent_gpu_uuid"] == board and u not in present]:
            self._emit("inventory", self._told.pop(uuid) | {"valid_from": at_us, "valid_to": at_us})


class EccLedger:
    """ECC counters as `LinkLedger` tells links. A memory that a board does not count in is no news and no reason."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._nulls = NullLedger(emit, table="ecc_counters")
        self._told = Changes()

    def note(self, at_us: int, device: str, cells: Iterable[tuple[Cell, int | None, str]]) -> None:
        """Take one reading of a board's matrix; a board that gives none of it has one reason for all."""
        reason = ""
        is_silent = True
        for cell, value, why in cells:
            reason = reason or why
            is_silent = is_silent and value is None
            if self._told.is_news(at_us, (device, *cell), value):
                row = {"sampled_at": at_us, "gpu_uuid": device, **cell._asdict(), "value": value}
                self._emit("ecc_counter", row)
        if is_silent:
            self._nulls.begin(at_us, device, "value", reason)
        else:
            self._nulls.end(at_us, device, "value")


class ProcessLedger:
    """A row when a process is first seen on a GPU, when its memory moved by a tenth, every hour, and when it is gone."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._nulls = NullLedger(emit, table="gpu_processes")
        self._told: dict[str, dict[tuple[str, int], tuple[int, Process]]] = {}

    def note(self, at_us: int, board: str, found: Iterable[Process], reason: str) -> None:
        """Take the processes of a board; `reason`: why they are not known, empty where they are."""
        if reason:
            self._nulls.begin(at_us, board, WHOLE_ROW, reason)
            return
        self._nulls.end(at_us, board, WHOLE_ROW)
        told = self._told.setdefault(board, {})
        present = set()
        for process in found:
            key = (process.gpu_uuid, process.pid)
            present.add(key)
            before = told.get(key)
            if before is None or at_us - before[0] >= HEARTBEAT_US or _grew(before[1], process):
                told[key] = (at_us, process)
                self._tell(process, at_us, None)
        for key in told.keys() - present:
            self._tell(told.pop(key)[1], at_us, at_us)

    def _tell(self, process: Process, from_us: int, to_us: int | None) -> None:
        row = {"from_at": from_us, "to_at": to_us, "gpu_uuid": process.gpu_uuid, "pid": process.pid}
        self._emit("gpu_process", row | {"process_name": process.name, "memory_used_bytes": process.memory_bytes})


def _grew(before: Process, now: Process) -> bool:
    """Another program under the same number, or a tenth more or less memory."""
    if before.name != now.name or (before.memory_bytes is None) != (now.memory_bytes is None):
        return True
    if before.memory_bytes is None or now.memory_bytes is None:
        return False
    return abs(now.memory_bytes - before.memory_bytes) > before.memory_bytes / 10
