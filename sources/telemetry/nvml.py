"""The GPUs of this node through NVML: finding them, reading them, finding them again after they were lost.

Belongs here: handles and what hangs on them. Does not belong here: when to read (`agent.py`), and where the
readings go. A GPU is its UUID; its index is an attribute that a reboot may change.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import Any, Final

import pynvml

from sources.telemetry.nvml_errors import (
    BOARD_SCOPE,
    NOT_SAMPLED,
    DeviceLostError,
    DriverDownError,
    absent_reason,
    said_of,
)
from sources.telemetry.nvml_fields import FieldBatch
from sources.telemetry.nvml_gpm import METRICS, RATIOS, Gpm
from sources.telemetry.nvml_identity import (
    Facts,
    Instance,
    architecture,
    changing_facts,
    instances,
    link_count,
    static_facts,
)
from sources.telemetry.nvml_links import Counted, Links, PcieLink
from sources.telemetry.nvml_memory_errors import Cell, MemoryErrors
from sources.telemetry.nvml_processes import Process, processes
from sources.telemetry.nvml_reading import Reading
from sources.telemetry.nvml_signals import (
    FAST,
    FAST_CALLS,
    GRACE,
    MEMORY_CALLS,
    NVLINK_TOTALS,
    SLOW,
    SLOW_CALLS,
    SLOW_COLUMNS,
    make_calls,
    nvlink_sums,
)

BOARD_COLUMNS: Final = frozenset(
    {signal.column for signal in (*FAST, *NVLINK_TOTALS, *GRACE, *SLOW)}
    | {column for columns, _ in (*FAST_CALLS, *SLOW_CALLS) for column in columns}
    | METRICS.keys()
)
_INSTANCE_COLUMNS: Final = frozenset(RATIOS) | {column for columns, _ in MEMORY_CALLS for column in columns}
_UNKNOWN: Final = pynvml.NVML_ERROR_UNKNOWN


class Board:
    """One GPU: its handle, prepared batches, performance monitor, links and MIG instances.

    Raises `DeviceLostError` or `DriverDownError` from every method but `close`.
    """

    def __init__(self, handle: Any, uuid: str, *, machine: str) -> None:
        self.handle = handle
        self.uuid = uuid
        arch = architecture(handle)
        links = link_count(handle)
        self._fast = FieldBatch((*FAST, *self._link_traffic(links), *(GRACE if machine == "aarch64" else ())))
        self._is_grace_host = machine == "aarch64"
        self._slow = FieldBatch(SLOW)
        self._gpm = Gpm(handle)
        self._links = Links(arch, links)
        self._pcie = PcieLink()
        self._memory_errors = MemoryErrors()
        self._static = static_facts(handle)
        self._instances: list[tuple[Instance, Gpm]] = []
        self.refresh()

    def _link_traffic(self, links: int) -> tuple[Any, ...]:
        """The total over all links where the driver gives one, else the bytes of each link."""
        total = Reading()
        FieldBatch(NVLINK_TOTALS).read(self.handle, total)
        if not total.is_empty() or not links:
            return NVLINK_TOTALS
        parts, probe = nvlink_sums(links), Reading()
        FieldBatch(parts).read(self.handle, probe)
        return NVLINK_TOTALS if probe.is_empty() else parts

    @property
    def pci_bus_id(self) -> str | None:
        """PCI bus id as NVML writes it."""
        found = self._static["pci_bus_id"]
        return None if found is None else str(found)

    @property
    def index(self) -> int | None:
        """The driver's number for it, for people only."""
        found = self._static["gpu_index"]
        return found if isinstance(found, int) else None

    def seed(self, now: float) -> None:
        """Take the first performance sample, so that the first tick already has a difference."""
        for gpm in (self._gpm, *(gpm for _, gpm in self._instances)):
            gpm.read(now, Reading())

    def refresh(self) -> None:
        """Read again what administration changes: limits, ECC and MIG mode, fabric, MIG instances."""
        self._changing = changing_facts(self.handle)
        known = {instance.uuid: gpm for instance, gpm in self._instances}
        found = instances(self.handle, self.uuid)
        self._instances = [
            (i, known.pop(i.uuid) if i.uuid in known else Gpm(self.handle, gpu_instance_id=i.gpu_instance_id))
            for i in found
        ]
        for gone in known.values():
            gone.close()

    def inventory(self) -> Iterator[tuple[str, Facts]]:
        """(UUID, facts) of the board and of each of its MIG instances."""
        board = {**self._static, **self._changing}
        yield self.uuid, board
        shared = ("accelerator_id", "gpu_serial", "pci_bus_id", "module_id", "vbios", "driver", "cuda")
        for instance, _ in self._instances:
            yield instance.uuid, {key: board[key] for key in shared} | instance.facts

    def read(self, now: float, *, is_slow: bool) -> Iterator[tuple[str, Reading]]:
        """(UUID, reading) of the board, then of each MIG instance, at monotonic second `now`.

        What is only read in the slow loop is null with `not_sampled` otherwise.
        """
        reading = Reading()
        self._fast.read(self.handle, reading)
        if not self._is_grace_host:
            reading.miss("module_power_w", "not_supported")
        make_calls(FAST_CALLS, self.handle, reading)
        if is_slow:
            self._slow.read(self.handle, reading)
            make_calls(SLOW_CALLS, self.handle, reading)
        if reading.is_empty() and "unknown_error" in reading.reasons.values():
            raise DeviceLostError(_UNKNOWN)
        if not is_slow:
            for column in SLOW_COLUMNS:
                reading.miss(column, NOT_SAMPLED)
        self._gpm.read(now, reading)
        yield self.uuid, reading
        for instance, gpm in self._instances:
            yield instance.uuid, _read_instance(instance, gpm, now)

    def links(self) -> Iterator[Counted]:
        """Every error counter of every NVLink."""
        return self._links.read(self.handle)

    def link_states(self) -> Iterator[tuple[int, bool]]:
        """(link, whether it is up)."""
        return self._links.states(self.handle)

    def pcie(self) -> Iterator[Counted]:
        """Every error counter of the board's PCIe link."""
        return self._pcie.read(self.handle)

    def memory_errors(self) -> Iterator[tuple[Cell, int | None, str]]:
        """The ECC matrix."""
        return self._memory_errors.read(self.handle)

    def processes(self) -> tuple[list[Process], str]:
        """Compute processes of the board and its MIG instances, or why they are not known."""
        own = {instance.gpu_instance_id: instance.uuid for instance, _ in self._instances}
        return processes(self.handle, self.uuid, own)

    def close(self) -> None:
        """Free what was allocated for this GPU; the driver must still be initialised."""
        for gpm in (self._gpm, *(gpm for _, gpm in self._instances)):
            gpm.close()


def _read_instance(instance: Instance, gpm: Gpm, now: float) -> Reading:
    reading = Reading()
    make_calls(MEMORY_CALLS, instance.handle, reading)
    gpm.read(now, reading)
    for column in BOARD_COLUMNS - _INSTANCE_COLUMNS:
        reading.miss(column, BOARD_SCOPE)
    return reading


class Driver:
    """NVML of this node: `boards` by UUID, and the indices that could not be opened with the reason.

    progress: called before each GPU is opened, which takes seconds without persistence mode.
    """

    def __init__(self, *, machine: str = "", progress: Callable[[], None] = lambda: None) -> None:
        self._progress = progress
        self._machine = machine or platform.machine()
        self.boards: dict[str, Board] = {}
        self.closed_doors: dict[int, str] = {}
        self._is_open = False

    def open(self, now: float) -> None:
        """Initialise and find every GPU; one that does not answer does not hide the others.

        Raises `DriverDownError` when NVML itself does not come up.
        """
        try:
            pynvml.nvmlInitWithFlags(0)
            self._is_open = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            raise DriverDownError(error.value) from None
        self.closed_doors = {}
        for index in range(count):
            self._progress()
            try:
                self._attach(pynvml.nvmlDeviceGetHandleByIndex(index), now)
            except pynvml.NVMLError as error:
                try:
                    self.closed_doors[index] = absent_reason(error.value)
                except DeviceLostError as lost:
                    self.closed_doors[index] = lost.reason
            except DeviceLostError as lost:
                self.closed_doors[index] = lost.reason
            except DriverDownError:
                raise
            except Exception as error:  # noqa: BLE001 - one GPU nobody can make sense of must not hide the others
                self.closed_doors[index] = said_of(error)

    def _attach(self, handle: Any, now: float) -> None:
        board = Board(handle, pynvml.nvmlDeviceGetUUID(handle), machine=self._machine)
        board.seed(now)
        self.boards[board.uuid] = board

    def find_again(self, uuid: str, now: float) -> bool:
        """Open a lost GPU anew without disturbing the others. False where it still does not answer."""
        try:
            self._attach(pynvml.nvmlDeviceGetHandleByUUID(uuid), now)
        except DriverDownError:
            raise
        except Exception:  # noqa: BLE001 - NVML's refusals and what nobody foresaw alike: it is not back
            self.boards.pop(uuid, None)
            return False
        return True

    def forget(self, uuid: str) -> None:
        """Drop a lost GPU's handle."""
        if board := self.boards.pop(uuid, None):
            board.close()

    def close(self) -> None:
        """Release every handle and shut NVML down; safe to call at any time."""
        for uuid in list(self.boards):
            self.forget(uuid)
        if self._is_open:
            self._is_open = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                return
