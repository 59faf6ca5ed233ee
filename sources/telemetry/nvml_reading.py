"""One reading of one device: values by column, and for each null its reason.

Belongs here: how a value or its absence is noted, and the few bounds beyond which a value is known to be false.
Does not belong here: any call to the driver.
"""

from __future__ import annotations

from typing import Final

from sources.telemetry.nvml_errors import OUT_OF_RANGE

Number = int | float

# Values outside are false, seen in the field: 4294967295 % utilisation, memory at 0 °C on boards without a sensor.
PLAUSIBLE: Final[dict[str, tuple[float, float]]] = {
    "gpu_util_ratio": (0, 1),
    "memory_util_ratio": (0, 1),
    "graphics_active_ratio": (0, 1),
    "sm_active_ratio": (0, 1),
    "sm_occupancy_ratio": (0, 1),
    "tensor_active_ratio": (0, 1),
    "dram_active_ratio": (0, 1),
    "fan_speed_ratio": (0, 5),
    "memory_temperature_c": (1, 200),
    "temperature_c": (-60, 200),
    "performance_state": (0, 15),
    "power_w": (0, 100_000),
    "power_instant_w": (0, 100_000),
    "module_power_w": (0, 100_000),
    "power_limit_w": (0, 100_000),
}


class Reading:
    """`values[column]` is a number or None; a None has a word in `reasons`, and `raw` when a value was refused."""

    __slots__ = ("raw", "reasons", "values")

    def __init__(self) -> None:
        self.values: dict[str, Number | None] = {}
        self.reasons: dict[str, str] = {}
        self.raw: dict[str, str] = {}

    def put(self, column: str, value: Number) -> None:
        """Note a value, or refuse it where it cannot be."""
        bounds = PLAUSIBLE.get(column)
        if bounds and not bounds[0] <= value <= bounds[1]:
            self.miss(column, OUT_OF_RANGE)
            self.raw[column] = str(value)
            return
        self.values[column] = value
        self.reasons.pop(column, None)

    def miss(self, column: str, reason: str) -> None:
        """Note that a value is absent; an earlier value or reason for the column stands."""
        if self.values.setdefault(column, None) is None:
            self.reasons.setdefault(column, reason)

    def has(self, column: str) -> bool:
        """Whether the column has a value."""
        return self.values.get(column) is not None

    def is_empty(self) -> bool:
        """Whether nothing at all could be read."""
        return all(value is None for value in self.values.values())
