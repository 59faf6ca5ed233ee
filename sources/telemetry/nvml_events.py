"""The thread that waits for XIDs: from NVML's event set and from the kernel log, each incident told once.

Belongs here: waiting, and joining the two channels. Does not belong here: storms, incidents, MTBF.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import pynvml

from sources.telemetry.nvml_catalogue import xid_meaning
from sources.telemetry.nvml_errors import DeviceLostError, DriverDownError, absent_reason
from sources.telemetry.nvml_kernel_log import KernelEvent, KernelLog, same_device

WAIT_MS: Final = 250  # an NVML wait cannot be cancelled: it bounds how long stopping takes
SAME_INCIDENT_US: Final = 5_000_000
_NO_INSTANCE: Final = 0xFFFFFFFF

Emit = Callable[[str, Mapping[str, Any]], None]


class Echoes:
    """Drops the second report of an incident that two channels tell, each report being matched at most once.

    Two reports of one channel are two incidents: a storm stays a storm.
    """

    def __init__(self) -> None:
        self._open: deque[tuple[int, str, str, int]] = deque(maxlen=256)  # time, channel, device, code

    def is_new(self, at_us: int, channel: str, device: str, code: int) -> bool:
        """Whether no other channel has told this yet."""
        for earlier in self._open:
            if earlier[1] != channel and earlier[2:] == (device, code) and abs(earlier[0] - at_us) <= SAME_INCIDENT_US:
                self._open.remove(earlier)
                return False
        self._open.append((at_us, channel, device, code))
        return True


class EventWatch:
    """Listens from `start` to `stop`; `emit(kind of record, row)` is called from its own thread.

    `reasons` says why a channel gives nothing: `nvml` and `kernel_log` to a word, empty where it listens.
    """

    def __init__(self, emit: Emit, log: KernelLog) -> None:
        self._emit = emit
        self._log = log
        self._echoes = Echoes()
        self._overwritten = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._set: Any = None
        self._handles: dict[int, str] = {}
        self._bus: dict[str, str] = {}
        self.reasons: dict[str, str] = {"kernel_log": log.reason}
        self.busy_since: float | None = None
        self.failure: Exception | None = None

    def start(self, boards: Mapping[str, tuple[Any, str | None]]) -> None:
        """Register for XIDs of `boards`: UUID to (handle, PCI bus id)."""
        self.stop()
        self._bus = {uuid: pci for uuid, (_, pci) in boards.items() if pci} | {
            uuid: pci for uuid, pci in self._bus.items() if uuid not in boards
        }
        self._handles = {_address(handle): uuid for uuid, (handle, _) in boards.items()}
        self.reasons["nvml"] = self._register([handle for handle, _ in boards.values()])
        self.failure = None
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="almanac-events", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let go of the event set. Returns once no wait is in the driver any more."""
        self._stop.set()
        if self._thread:
            self._thread.join()
            self._thread = None
        if self._set is not None:
            events, self._set = self._set, None
            try:
                pynvml.nvmlEventSetFree(events)
            except pynvml.NVMLError:
                return

    def _register(self, handles: list[Any]) -> str:
        if not handles:
            return "not_found"
        try:
            self._set = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            return _word(error)
        reason, registered = "", 0
        for handle in handles:
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
                registered += 1
            except pynvml.NVMLError as error:
                reason = _word(error)
        return "" if registered else reason

    def _run(self) -> None:
        try:
            self._listen()
        except Exception as error:  # noqa: BLE001 - the next tick tells it: a deaf agent must not look healthy
            self.failure = error

    def _listen(self) -> None:
        while not self._stop.is_set():
            xid = None
            if self.reasons["nvml"]:
                self._stop.wait(WAIT_MS / 1000)
            else:
                xid = self._wait_in_driver()
            # The kernel's line comes first: it carries the time, the process and the text.
            for event in self._log.events():
                self._tell_kernel(event)
            self._tell_overwritten()
            if xid is not None:
                self._tell(*xid)

    def _wait_in_driver(self) -> tuple[int, str, dict[str, Any]] | None:
        """An XID as (time, channel, row); None when none came, after a pause where there is nothing to wait for."""
        self.busy_since = time.monotonic()
        try:
            data = pynvml.nvmlEventSetWait_v2(self._set, WAIT_MS)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_TIMEOUT:
                self._stop.wait(WAIT_MS / 1000)
            return None
        finally:
            self.busy_since = None
        if data.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return None
        uuid = self._handles.get(_address(data.device), "")
        instance = f"GPU instance {data.gpuInstanceId}, compute instance {data.computeInstanceId}"
        row = {
            "device": uuid or "node",
            "kind": "xid",
            "gpu_uuid": uuid or None,
            "pci_bus_id": self._bus.get(uuid),
            "code": int(data.eventData),
            "message": None if data.gpuInstanceId == _NO_INSTANCE else instance,
        }
        return time.time_ns() // 1000, "nvml", row

    def _tell_kernel(self, event: KernelEvent) -> None:
        uuid = next((uuid for uuid, pci in self._bus.items() if same_device(event.pci_bus_id, pci)), None)
        fallen = "fallen off the bus" in event.message and "Xid" not in event.message
        self._tell(
            event.occurred_at_us,
            "fallen" if fallen else "kernel_log",
            {
                "device": uuid or event.pci_bus_id,
                "kind": event.kind,
                "gpu_uuid": uuid,
                "pci_bus_id": self._bus[uuid] if uuid else event.pci_bus_id,
                "code": event.code,
                "subcode": event.subcode,
                "link_index": event.link_index,
                "severity": event.severity,
                "pid": event.pid,
                "process_name": event.process_name,
                "message": event.message,
            },
        )

    def _tell(self, at_us: int, channel: str, row: dict[str, Any]) -> None:
        if not self._echoes.is_new(at_us, channel, row["device"], row["code"]):
            return
        severity, action = xid_meaning(row["code"]) if row["kind"] == "xid" else (None, None)
        link = row.get("link_index")
        parts = (row["code"], row.get("subcode"), None if link is None else f"link{link}")
        event_id = ":".join(str(part) for part in parts if part is not None)
        known = {"event_id": event_id, "severity": row.get("severity") or severity, "action": action}
        self._emit("gpu_event", {"occurred_at": at_us, **row, **known})

    def _tell_overwritten(self) -> None:
        """Events may be missing: the kernel's ring went round before it was read."""
        if self._log.overwritten > self._overwritten:
            self._overwritten = self._log.overwritten
            now_us = time.time_ns() // 1000
            row = {"from_at": now_us, "to_at": now_us, "device": "*", "table_name": "gpu_events", "column_name": "*"}
            self._emit("null_reason", row | {"reason": "kernel_log_overwritten"})


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _word(error: Any) -> str:
    try:
        return absent_reason(error.value)
    except (DeviceLostError, DriverDownError) as gone:
        return gone.reason
