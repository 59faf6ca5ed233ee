"""The compute processes on a GPU: process id, the program's name, GPU memory.

Belongs here: asking NVML, and the name that the kernel gives. Does not belong here: users, arguments, jobs (the
scheduler knows those), how long a process stays (`nvml_ledger.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pynvml

from sources.telemetry.nvml_errors import absent_reason

OTHER_PID_NAMESPACE: Final = "other_pid_namespace"  # a container without the host's process ids sees none of them
_HOST_NAMESPACE: Final = "pid:[4026531836]"  # the kernel's fixed number of the first namespace
_NAMESPACE: Final = Path("/proc/self/ns/pid")


class Process(NamedTuple):
    """One process on one GPU or MIG instance."""

    gpu_uuid: str
    pid: int
    name: str | None
    memory_bytes: int | None


def processes(handle: Any, board: str, instances: Mapping[int, str]) -> tuple[list[Process], str]:
    """(processes of a board, why they are not known). `instances`: MIG instances' UUIDs by GPU instance id.

    Raises `DeviceLostError` or `DriverDownError`.
    """
    try:
        found = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError as error:
        return [], absent_reason(error.value)
    told = {}
    for one in found:
        uuid = instances.get(one.gpuInstanceId, board)
        told[uuid, one.pid] = Process(uuid, one.pid, _name(one.pid), one.usedGpuMemory)
    return list(told.values()), ""


def blindness(namespace: Path = _NAMESPACE) -> str:
    """Why an empty list would mean nothing here, or empty text."""
    try:
        return "" if str(namespace.readlink()) == _HOST_NAMESPACE else OTHER_PID_NAMESPACE
    except OSError:
        return ""


def _name(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() or None
    except OSError:
        return None
