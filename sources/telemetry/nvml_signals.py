"""Which NVML fields and calls fill which column of `telemetry.gpu_samples`, and how often they are read.

Belongs here: the lists. Counters are in the fast list, so that no tick of them is missing; slow gauges are read
every minute and are null in between (`not_sampled`). Does not belong here: decoding, identity, links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pynvml

from sources.telemetry.nvml_errors import absent_reason
from sources.telemetry.nvml_fields import ALL_LINKS, Signal
from sources.telemetry.nvml_reading import Number, Reading

KIB: Final = 1024
_MODULE: Final = pynvml.NVML_POWER_SCOPE_MODULE

FAST: Final = (
    # Absent on GA100 and before; there nvmlDeviceGetPowerUsage answers, with an instantaneous value.
    Signal("power_w", ((pynvml.NVML_FI_DEV_POWER_AVERAGE, 0),), over=1000),
    Signal("power_instant_w", ((pynvml.NVML_FI_DEV_POWER_INSTANT, 0),), over=1000),
    Signal(
        "energy_j",
        ((pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0), (pynvml.NVML_FI_DEV_ENERGY, 0)),
        over=1000,
    ),
    Signal("memory_temperature_c", ((pynvml.NVML_FI_DEV_MEMORY_TEMP, 0),)),
    Signal("throttle_power_cap_ns", ((pynvml.NVML_FI_DEV_PERF_POLICY_POWER, 0),)),
    Signal("throttle_sw_thermal_ns", ((pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, 0),)),
    Signal("throttle_hw_thermal_ns", ((pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 0),)),
    Signal("throttle_power_brake_ns", ((pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, 0),)),
    Signal("pcie_tx_bytes", ((pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),)),
    Signal("pcie_rx_bytes", ((pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),)),
    Signal("pcie_replay_count", ((pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0),)),
    Signal("ecc_corrected_count", ((pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 0),)),
    Signal("ecc_uncorrected_count", ((pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0),)),
)
NVLINK_TOTALS: Final = (
    Signal("nvlink_tx_bytes", ((pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),), times=KIB),
    Signal("nvlink_rx_bytes", ((pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),), times=KIB),
)
# Only asked on a Grace host: a driver that does not know scopes would answer with the GPU's own power.
GRACE: Final = (
    Signal(
        "module_power_w",
        ((pynvml.NVML_FI_DEV_POWER_AVERAGE, _MODULE), (pynvml.NVML_FI_DEV_POWER_INSTANT, _MODULE)),
        over=1000,
    ),
)
SLOW: Final = (
    Signal("remapped_corrected_rows", ((pynvml.NVML_FI_DEV_REMAPPED_COR, 0),)),
    Signal("remapped_uncorrected_rows", ((pynvml.NVML_FI_DEV_REMAPPED_UNC, 0),)),
    Signal("remap_pending", ((pynvml.NVML_FI_DEV_REMAPPED_PENDING, 0),)),
    Signal("remap_failed", ((pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 0),)),
    Signal(
        "retired_pages",
        ((pynvml.NVML_FI_DEV_RETIRED_SBE, 0), (pynvml.NVML_FI_DEV_RETIRED_DBE, 0)),
        is_sum=True,
    ),
    Signal("recovery_action", ((pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0),)),
)


def nvlink_sums(links: int) -> tuple[Signal, ...]:
    """NVLink traffic where the driver has no total (NVLink 5): the bytes of every link, added."""
    if not links:
        return ()
    return (
        Signal(
            "nvlink_tx_bytes",
            tuple((pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, link) for link in range(links)),
            is_sum=True,
        ),
        Signal(
            "nvlink_rx_bytes",
            tuple((pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, link) for link in range(links)),
            is_sum=True,
        ),
    )


Call = tuple[tuple[str, ...], Callable[[Any], tuple[Number, ...]]]


def _power(handle: Any) -> tuple[Number, ...]:
    return (pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,)


def _utilisation(handle: Any) -> tuple[Number, ...]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu / 100, rates.memory / 100


def _memory(handle: Any) -> tuple[Number, ...]:
    # Version 1 counts reserved memory as used; where only that exists, the column stays null.
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return memory.used, memory.total, memory.reserved


def _memory_total(handle: Any) -> tuple[Number, ...]:
    return (pynvml.nvmlDeviceGetMemoryInfo(handle).total,)


def _temperature(handle: Any) -> tuple[Number, ...]:
    return (pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU),)


def _temperature_before_13(handle: Any) -> tuple[Number, ...]:
    return (pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),)


def _clock(kind: int) -> Callable[[Any], tuple[Number, ...]]:
    return lambda handle: (pynvml.nvmlDeviceGetClockInfo(handle, kind),)


def _one(function: str, over: int = 1) -> Callable[[Any], tuple[Number, ...]]:
    def call(handle: Any) -> tuple[Number, ...]:
        value: Number = getattr(pynvml, function)(handle)
        return (value if over == 1 else value / over,)

    return call


MEMORY_CALLS: Final[tuple[Call, ...]] = (
    (("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes"), _memory),
    (("memory_total_bytes",), _memory_total),
)
# A later call for a column is made only where the earlier one gave nothing.
FAST_CALLS: Final[tuple[Call, ...]] = (
    (("power_w",), _power),
    (("gpu_util_ratio", "memory_util_ratio"), _utilisation),
    *MEMORY_CALLS,
    (("temperature_c",), _temperature),
    (("temperature_c",), _temperature_before_13),
    (("sm_clock_mhz",), _clock(pynvml.NVML_CLOCK_SM)),
    (("memory_clock_mhz",), _clock(pynvml.NVML_CLOCK_MEM)),
    (("graphics_clock_mhz",), _clock(pynvml.NVML_CLOCK_GRAPHICS)),
    (("event_reasons",), _one("nvmlDeviceGetCurrentClocksEventReasons")),
    (("event_reasons",), _one("nvmlDeviceGetCurrentClocksThrottleReasons")),
    (("performance_state",), _one("nvmlDeviceGetPerformanceState")),
)
SLOW_CALLS: Final[tuple[Call, ...]] = (
    (("power_limit_w",), _one("nvmlDeviceGetEnforcedPowerLimit", over=1000)),
    (("pcie_link_generation",), _one("nvmlDeviceGetCurrPcieLinkGeneration")),
    (("pcie_link_width",), _one("nvmlDeviceGetCurrPcieLinkWidth")),
    (("fan_speed_ratio",), _one("nvmlDeviceGetFanSpeed", over=100)),
)
SLOW_COLUMNS: Final = (*(s.column for s in SLOW), *(column for columns, _ in SLOW_CALLS for column in columns))


def make_calls(calls: tuple[Call, ...], handle: Any, reading: Reading) -> None:
    """Make each call whose columns are not all known yet. Raises `DeviceLostError` or `DriverDownError`."""
    for columns, call in calls:
        if all(map(reading.has, columns)):
            continue
        try:
            values = call(handle)
        except pynvml.NVMLError as error:
            reason = absent_reason(error.value)
            for column in columns:
                reading.miss(column, reason)
            continue
        for column, value in zip(columns, values, strict=True):
            if not reading.has(column):
                reading.put(column, value)
