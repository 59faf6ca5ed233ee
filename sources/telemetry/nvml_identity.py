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
_FABRIC_STATES: Final = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
# What NVML's health mask says of the fabric, two bits each: 0 not supported, 1 true, 2 false.
_FABRIC_FLAGS: Final = (
    ("degraded_bandwidth", pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW),
    ("route_recovery", pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY),
    ("route_unhealthy", pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY),
    ("access_timeout_recovery", pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY),
)
_FLAG_BITS: Final = 3
_CONFIGURATION_BITS: Final = 15
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
        "sm_clock_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        "pcie_link_generation_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_link_width_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        **_thresholds(handle),
        **_platform(handle),
    }


def changing_facts(handle: Any) -> Facts:
    """Facts that an administrator or the fabric manager changes while the driver runs."""
    mig = ask(pynvml.nvmlDeviceGetMigMode, handle)
    ecc = ask(pynvml.nvmlDeviceGetEccMode, handle)
    return {
        **_power_limits(handle),
        "is_mig_enabled": None if mig is None else bool(mig[0]),
        "is_ecc_enabled": None if ecc is None else bool(ecc[0]),
        **_fabric(handle),
    }


def _power_limits(handle: Any) -> Facts:
    """Enforced (what the management controller leaves of it), asked for on the node, default, and the range."""
    span = ask(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, handle) or (None, None)
    told = {
        "power_limit_w": ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        "power_limit_requested_w": ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle),
        "power_limit_default_w": ask(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle),
        "power_limit_min_w": span[0],
        "power_limit_max_w": span[1],
    }
    return {name: None if milliwatts is None else milliwatts / 1000 for name, milliwatts in told.items()}


def _thresholds(handle: Any) -> Facts:
    """Temperatures, on boards before Ada; later ones give a margin, which is no temperature."""
    slowdown = ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    shutdown = ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    return {"temperature_slowdown_c": slowdown or None, "temperature_shutdown_c": shutdown or None}


def _fabric(handle: Any) -> Facts:
    facts: Facts = {
        "fabric_cluster_uuid": None,
        "fabric_clique_id": None,
        "fabric_state": None,
        "fabric_health": None,
    }
    for form in (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.c_nvmlGpuFabricInfo_v2_t):
        info = form()
        if ask(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, pynvml.byref(info)) is None:
            continue
        state = _FABRIC_STATES.get(info.state)
        is_failed = state == "completed" and info.status != pynvml.NVML_SUCCESS
        facts["fabric_state"] = "failed" if is_failed else state
        if state == "completed" and not is_failed:
            raw = bytes(info.clusterUuid).hex()
            facts["fabric_cluster_uuid"] = f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
            facts["fabric_clique_id"] = info.cliqueId
            facts["fabric_health"] = fabric_health(info.healthMask)
        break
    return facts


def fabric_health(mask: int) -> str | None:
    """What is wrong by NVML's health mask, `healthy` where nothing is, None where the fabric does not say."""
    flags = {word: mask >> shift & _FLAG_BITS for word, shift in _FABRIC_FLAGS}
    configuration = mask >> pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & _CONFIGURATION_BITS
    wrong = [word for word, flag in flags.items() if flag == 1]
    if configuration > pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE:
        wrong.append("incorrect_configuration")
    if wrong:
        return ",".join(wrong)
    return "healthy" if configuration or any(flags.values()) else None


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
