"""One tick after another: read every GPU, note what changed, lose and find GPUs again.

Belongs here: what a tick does. Does not belong here: time between ticks, signals, the watchdog (`agent.py`),
the driver's calls (`nvml.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from sources.telemetry.nvml import Board, Driver
from sources.telemetry.nvml_errors import (
    NEEDS_NEW_PROCESS,
    NO_PERMISSION,
    NOT_SAMPLED,
    DeviceLostError,
    DriverDownError,
)
from sources.telemetry.nvml_events import EventWatch
from sources.telemetry.nvml_guard import Guard
from sources.telemetry.nvml_kernel_log import KernelLog
from sources.telemetry.nvml_ledger import (
    EVERY_DEVICE,
    WHOLE_ROW,
    EccLedger,
    InventoryLedger,
    LinkLedger,
    NullLedger,
    ProcessLedger,
)
from sources.telemetry.nvml_processes import blindness
from sources.telemetry.nvml_reading import Number
from sources.telemetry.nvml_signals import SLOW_COLUMNS

SLOW_S: Final = 60.0
LONGEST_RETRY_S: Final = 300.0
LISTENS_AFTER_S: Final = 1.0  # an event thread that lives so long after its start is well
SETTLE_S: Final = 0.12  # the first performance sample is this old at the first tick, so that there is a difference

Row = tuple[str, Mapping[str, Number | None]]


class Sink(Protocol):
    """Where readings go; safe to call from several threads."""

    def samples(self, at_us: int, rows: Sequence[Row]) -> None: ...
    def record(self, kind: str, row: Mapping[str, Any]) -> None: ...
    def slot(self, uuid: str, *, index: int | None, parent: str | None, accelerator_id: str | None) -> None: ...


class NeedsNewProcessError(Exception):
    """The driver was exchanged under the agent: only a new process can load the library that fits it."""


class Collector:
    """Reads the GPUs of a node into a sink.

    columns: the sample columns every row carries · retry_s: first pause before a lost GPU or driver is looked
    for again; it doubles up to five minutes · clock: monotonic seconds · notify: takes one line for a person.
    `on_progress` is called before each GPU, so that a watchdog can tell slow from hung.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        columns: Sequence[str],
        interval_s: float,
        slow_s: float = SLOW_S,
        retry_s: float = 1.0,
        boot_id: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        notify: Callable[[str], None],
    ) -> None:
        self._sink = sink
        self._empty: dict[str, Number | None] = dict.fromkeys(columns)
        self._slow_s = slow_s
        self._is_always_slow = interval_s >= slow_s
        self._first_retry_s = retry_s
        self._notify = notify
        self.on_progress: Callable[[], None] = lambda: None
        self._driver = Driver(progress=self._progress)
        self._log = KernelLog()
        self._clock = clock
        self.watch = EventWatch(sink.record, self._log)
        self._nulls = NullLedger(sink.record, table="gpu_samples")
        self._links = LinkLedger(sink.record)
        self._pcie = LinkLedger(sink.record, kind="pcie")
        self._ecc = EccLedger(sink.record)
        self._processes = ProcessLedger(sink.record)
        self._inventory = InventoryLedger(sink.record, boot_id=boot_id)
        self._guard = Guard(sink.record, notify, {"gpu_samples": self._nulls})
        self._lost: dict[str, str | None] = {}  # UUID -> PCI bus id
        self._down = ""
        self._down_since_us = 0
        self._known: set[str] = set()
        self._doors: dict[int, str] = {}
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._calm_at = 0.0
        self._slow_at = 0.0
        self._listen_again_s = retry_s
        self._listen_again_at = 0.0
        self._listening_since = 0.0
        self.samples_taken = 0

    @property
    def gpus(self) -> int:
        """GPUs that answer now."""
        return len(self._driver.boards)

    @property
    def down(self) -> str:
        """Why NVML as a whole does not answer; empty while it does."""
        return self._down

    def _progress(self) -> None:
        self.on_progress()

    def start(self, at_us: int) -> None:
        """Open the driver and say why columns will be null. Without a driver the agent waits for one."""
        try:
            self._open(at_us)
        except DriverDownError as error:
            self._go_down(error, at_us)
        if self._log.reason:
            NullLedger(self._sink.record, table="gpu_events").begin(at_us, EVERY_DEVICE, "message", self._log.reason)
        if unseen := blindness():
            NullLedger(self._sink.record, table="gpu_processes").begin(at_us, EVERY_DEVICE, WHOLE_ROW, unseen)
        if not self._is_always_slow:
            for column in SLOW_COLUMNS:
                self._nulls.begin(at_us, EVERY_DEVICE, column, NOT_SAMPLED)

    def tick(self, at_us: int) -> None:
        """Read every GPU once. Raises `NeedsNewProcessError`."""
        try:
            self._keep_listening(at_us)
            if self._down or self._lost or self._strangers():
                self._look_again(at_us)
            elif self._clock() >= self._calm_at:
                self._retry_s = self._first_retry_s
            now = self._clock()
            is_slow = self._is_always_slow or now >= self._slow_at
            if is_slow:
                self._slow_at = now + self._slow_s
            self._read_all(at_us, is_slow=is_slow)
        except DriverDownError as error:
            self._go_down(error, at_us)

    def close(self) -> None:
        """Stop listening, release every handle, shut the driver's library down."""
        self.watch.stop()
        self._log.close()
        self._driver.close()

    def _read_all(self, at_us: int, *, is_slow: bool) -> None:
        rows: list[Row] = []
        lost: list[tuple[Board, str]] = []
        try:
            for board in self._driver.boards.values():
                self._progress()
                try:
                    self._read(board, at_us, rows, is_slow=is_slow)
                except DeviceLostError as error:
                    lost.append((board, error.reason))
        finally:
            if rows:
                self._sink.samples(at_us, rows)
                self.samples_taken += len(rows)
        if lost:
            self._lose(lost, at_us)

    def _read(self, board: Board, at_us: int, rows: list[Row], *, is_slow: bool) -> None:
        """Append the rows of a board. Each part is guarded: one that fails leaves the others as they are."""
        guarded = partial(self._guard.run, at_us, board.uuid)
        if is_slow:
            guarded("inventory", WHOLE_ROW, lambda: self._take_stock(board, at_us))
            guarded("link_counters", "nvlink", lambda: self._links.note(at_us, board.uuid, board.links()))
            guarded("gpu_events", "link_down", lambda: self._note_states(board, at_us))
            guarded("link_counters", "pcie", lambda: self._pcie.note(at_us, board.uuid, board.pcie()))
            guarded("ecc_counters", WHOLE_ROW, lambda: self._ecc.note(at_us, board.uuid, board.memory_errors()))
            guarded("gpu_processes", WHOLE_ROW, lambda: self._processes.note(at_us, board.uuid, *board.processes()))
        guarded("gpu_samples", WHOLE_ROW, lambda: self._take_samples(board, at_us, rows, is_slow=is_slow))

    def _take_stock(self, board: Board, at_us: int) -> None:
        board.refresh()
        self._name_slots(board)
        self._inventory.note(at_us, board.uuid, board.inventory())

    def _note_states(self, board: Board, at_us: int) -> None:
        self._links.note_states(at_us, board.uuid, board.pci_bus_id, board.link_states())

    def _take_samples(self, board: Board, at_us: int, rows: list[Row], *, is_slow: bool) -> None:
        for uuid, reading in board.read(self._clock(), is_slow=is_slow):
            self._nulls.note(at_us, uuid, reading)
            rows.append((uuid, {**self._empty, **reading.values}))

    def _name_slots(self, board: Board) -> None:
        """Each new slot begins a new segment, so they are named before anything is written."""
        self._known.add(board.uuid)
        for uuid, facts in board.inventory():
            parent, model = facts.get("parent_gpu_uuid"), facts.get("accelerator_id")
            self._sink.slot(
                uuid,
                index=board.index,
                parent=str(parent) if parent else None,
                accelerator_id=str(model) if model else None,
            )

    def _open(self, at_us: int) -> None:
        self._driver.open(self._clock())
        self._down = ""
        for board in [] if self._known else self._driver.boards.values():
            self._name_slots(board)
        doors = self._driver.closed_doors
        if self._strangers():  # else lost GPUs stand behind the closed doors, and that is told already
            for index, reason in doors.items():
                if self._doors.get(index) != reason and reason != NO_PERMISSION:
                    message = f"the GPU with driver index {index} does not answer: {reason}"
                    self._event(at_us, "lost", None, event_id=f"index:{index}", message=message)
        for index, reason in doors.items():
            if reason == NO_PERMISSION:  # the count includes GPUs that this process may not open
                self._nulls.begin(at_us, f"index:{index}", WHOLE_ROW, reason)
        self._doors = dict(doors)
        self._listen()
        self._slow_at = 0.0
        time.sleep(SETTLE_S)

    def _strangers(self) -> int:
        """GPUs that do not answer and never did, so that their UUID is not known."""
        shut = [reason for reason in self._driver.closed_doors.values() if reason != NO_PERMISSION]
        return max(0, len(shut) - len(self._lost))

    def _keep_listening(self, at_us: int) -> None:
        """A deaf agent must not look healthy, nor its samples end: told, and listened again after a pause."""
        part = EVERY_DEVICE, "gpu_events", WHOLE_ROW
        now = self._clock()
        if not self.watch.failure:
            if self._guard.fails(*part) and now - self._listening_since >= LISTENS_AFTER_S:
                self._guard.recover(at_us, *part)
                self._listen_again_s = self._first_retry_s
            return
        if not self._guard.fails(*part):
            self._guard.fail(at_us, *part, self.watch.failure)
            self._listen_again_at = now + self._listen_again_s
        if now >= self._listen_again_at:
            self._listen_again_s = min(self._listen_again_s * 2, LONGEST_RETRY_S)
            self._listen_again_at = now + self._listen_again_s
            self._listen()

    def _listen(self) -> None:
        self._listening_since = self._clock()
        self.watch.start({uuid: (board.handle, board.pci_bus_id) for uuid, board in self._driver.boards.items()})

    def _lose(self, lost: Sequence[tuple[Board, str]], at_us: int) -> None:
        if not self._lost:
            self._retry_at = self._clock() + self._retry_s
        self.watch.stop()
        for board, reason in lost:
            self._mark_lost(board, reason, at_us)
            self._driver.forget(board.uuid)
        self._listen()

    def _mark_lost(self, board: Board, reason: str, at_us: int) -> None:
        self._lost[board.uuid] = board.pci_bus_id
        message = f"GPU {board.uuid} is lost: {reason}"
        self._event(at_us, "lost", board.uuid, event_id=reason, message=message)
        self._nulls.begin(at_us, board.uuid, WHOLE_ROW, "lost", reason)

    def _go_down(self, error: DriverDownError, at_us: int) -> None:
        if error.code == NEEDS_NEW_PROCESS:
            raise NeedsNewProcessError(error.reason) from None
        self.watch.stop()
        for board in self._driver.boards.values():
            self._mark_lost(board, error.reason, at_us)
        self._driver.close()
        if not self._down:
            self._notify(f"NVML does not answer ({error.reason}); looking again in {self._retry_s:.0f} s")
            self._down_since_us = at_us
            self._retry_at = self._clock() + self._retry_s
        self._down = error.reason

    def _look_again(self, at_us: int) -> None:
        if self._clock() < self._retry_at:
            return
        self._retry_s = min(self._retry_s * 2, LONGEST_RETRY_S)
        self._retry_at = self._clock() + self._retry_s
        was_down = self._down
        # First without disturbing the others; a new initialisation interrupts every GPU's differences.
        if (
            was_down
            or self._strangers()
            or not all(self._driver.find_again(uuid, self._clock()) for uuid in self._lost)
        ):
            self.watch.stop()
            self._driver.close()
            self._open(at_us)
        else:
            self._listen()
        if was_down and not self._lost and not self.samples_taken:
            gap = {"from_at": self._down_since_us, "to_at": at_us, "reason": was_down, "rows": None}
            self._sink.record("gap", gap)
        for uuid in self._driver.boards:
            if uuid in self._lost or uuid not in self._known:
                self._event(at_us, "returned", uuid, event_id="answers", message=f"GPU {uuid} answers again")
                self._nulls.end(at_us, uuid, WHOLE_ROW)
                self._lost.pop(uuid, None)
        self._slow_at = 0.0
        self._calm_at = self._clock() + SLOW_S

    def _event(self, at_us: int, kind: str, uuid: str | None, *, event_id: str, message: str) -> None:
        board = self._driver.boards.get(uuid or "")
        row = {"occurred_at": at_us, "device": uuid or "node", "kind": kind, "event_id": event_id, "gpu_uuid": uuid}
        row["severity"] = "fatal" if kind == "lost" else "info"
        bus = board.pci_bus_id if board else self._lost.get(uuid or "")
        self._sink.record("gpu_event", row | {"pci_bus_id": bus, "message": message})
        self._notify(message)
