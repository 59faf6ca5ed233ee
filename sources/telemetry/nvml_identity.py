"""What a board is: serial, place, firmware, fabric, MIG instances; the columns of `telemetry.inventory`.

Belongs here: slow-moving facts, read at the start, after each new initialisation and every minute for those that
administration changes. Does not belong here: anything that is sampled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from sources.telemetry.nvml_catalogue import accelerator_of
from sources.telemetry.nvml_errors import absent_reason

Facts = dict[str, str | int | float | bool | None]
_FABRIC_COMPLETED: Final = 3
_ARCH_UNKNOWN: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance: its handle, UUID and the GPU instance whose counters it sees."""

    handle: Any
    uuid: str
    gpu_instance_id: int
    facts: Facts


def ask(call: Callable[..., Any], *args: Any) -> Any:
    """The answer, or None where the driver has none. Raises `DeviceLostError` or `DriverDownError`."""
    try:
        answer = call(*args)
    except pynvml.NVMLError as error:
        absent_reason(error.value)
        return None
    return _text(answer) if isinstance(answer, bytes) else answer  # pynvml decodes only some of its texts


def architecture(handle: Any) -> int | None:
    """NVML's number of the architecture (7 Ampere, 9 Hopper, 10 Blackwell), None where unknown."""
    found: int | None = ask(pynvml.nvmlDeviceGetArchitecture, handle)
    return None if found == _ARCH_UNKNOWN else found


def link_count(handle: Any) -> int:
    """NVLinks of the board by field 91; 0 where there are none."""
    answer = ask(pynvml.nvmlDeviceGetFieldValues, handle, [pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT])
    if answer is None or answer[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return 0
    return int(answer[0].value.uiVal)


def static_facts(handle: Any) -> Facts:
    """Facts that change only when a board or its firmware is exchanged."""
    pci = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion)
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    name = ask(pynvml.nvmlDeviceGetName, handle)
    return {
        "gpu_index": ask(pynvml.nvmlDeviceGetIndex, handle),
        "gpu_serial": ask(pynvml.nvmlDeviceGetSerial, handle),
        "gpu_name": name,
        "accelerator_id": accelerator_of(name or ""),
        "pci_bus_id": _text(pci.busId).lower() if pci else None,
        "module_id": ask(pynvml.nvmlDeviceGetModuleId, handle),
        "board_part_number": ask(pynvml.nvmlDeviceGetBoardPartNumber, handle),
        "vbios": ask(pynvml.nvmlDeviceGetVbiosVersion, handle),
        "inforom": ask(pynvml.nvmlDeviceGetInforomImageVersion, handle),
        "driver": ask(pynvml.nvmlSystemGetDriverVersion),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "gsp_firmware": ask(pynvml.nvmlDeviceGetGspFirmwareVersion, handle),
        "memory_total_bytes": memory.total if memory else None,
        "nvlink_count": link_count(handle),
        **_platform(handle),
    }


def changing_facts(handle: Any) -> Facts:
    """Facts that an administrator or the fabric manager changes while the driver runs."""
    limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    mig = ask(pynvml.nvmlDeviceGetMigMode, handle)
    ecc = ask(pynvml.nvmlDeviceGetEccMode, handle)
    return {
        "power_limit_w": None if limit is None else limit / 1000,
        "is_mig_enabled": None if mig is None else bool(mig[0]),
        "is_ecc_enabled": None if ecc is None else bool(ecc[0]),
        **_fabric(handle),
    }


def _fabric(handle: Any) -> Facts:
    facts: Facts = {"fabric_cluster_uuid": None, "fabric_clique_id": None}
    for form in (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.c_nvmlGpuFabricInfo_v2_t):
        info = form()
        if ask(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, pynvml.byref(info)) is None:
            continue
        if info.state == _FABRIC_COMPLETED and info.status == pynvml.NVML_SUCCESS:
            raw = bytes(info.clusterUuid).hex()
            facts["fabric_cluster_uuid"] = f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
            facts["fabric_clique_id"] = info.cliqueId
        break
    return facts


def _platform(handle: Any) -> Facts:
    info = pynvml.c_nvmlPlatformInfo_v2_t()
    if ask(pynvml.nvmlDeviceGetPlatformInfo, handle, pynvml.byref(info)) is None:
        return {"chassis_serial": None, "slot": None}
    return {
        "chassis_serial": _text(info.chassisSerialNumber) or None,
        "slot": f"{info.slotNumber[0]}/{info.trayIndex[0]}",
    }


def instances(handle: Any, board: str) -> list[Instance]:
    """MIG instances of a board; their indices have holes. `board` is the UUID they name as parent."""
    if not (mode := ask(pynvml.nvmlDeviceGetMigMode, handle)) or not mode[0]:
        return []
    found = []
    for index in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        own = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        uuid = own and ask(pynvml.nvmlDeviceGetUUID, own)
        number = ask(pynvml.nvmlDeviceGetGpuInstanceId, own) if uuid else None
        if number is None:
            continue
        name = ask(pynvml.nvmlDeviceGetName, own) or ""
        memory = ask(pynvml.nvmlDeviceGetMemoryInfo, own)
        profile = re.search(r"MIG (\S+)", name)
        facts: Facts = {
            "parent_gpu_uuid": board,
            "gpu_name": name or None,
            "mig_profile": profile.group(1) if profile else None,
            "memory_total_bytes": memory.total if memory else None,
        }
        found.append(Instance(own, uuid, number, facts))
    return found


def _text(raw: bytes | str) -> str:
    return raw.decode(errors="replace").strip("\0 ") if isinstance(raw, bytes) else raw
