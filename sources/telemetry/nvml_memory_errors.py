"""ECC errors by kind, span and memory: the whole matrix with one batch and four calls.

Belongs here: which field or call gives which cell. Does not belong here: deltas, the totals that every sample row
carries (`nvml_signals.py`), NVML's SRAM status, which only root may ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pynvml

from sources.telemetry.nvml_errors import absent_reason
from sources.telemetry.nvml_fields import FieldBatch, Signal
from sources.telemetry.nvml_reading import Number, Reading


class Cell(NamedTuple):
    """One counter: corrected or uncorrected, volatile or aggregate, and the memory it counts in."""

    error_kind: str
    counter_span: str
    location: str


# NVML names the fields NVML_FI_DEV_ECC_<SBE|DBE>_<VOL|AGG>_<memory>; SBE are corrected errors, DBE uncorrected ones.
_KINDS: Final = {"SBE": "corrected", "DBE": "uncorrected"}
_SPANS: Final = {"VOL": "volatile", "AGG": "aggregate"}
_MEMORIES: Final = {
    "TOTAL": "total",
    "L1": "l1",
    "L2": "l2",
    "DEV": "dram",
    "REG": "register_file",
    "TEX": "texture",
    "CBU": "cbu",
}
FIELDS: Final[dict[Cell, int]] = {
    Cell(kind, span, memory): getattr(pynvml, f"NVML_FI_DEV_ECC_{k}_{s}_{m}")
    for k, kind in _KINDS.items()
    for s, span in _SPANS.items()
    for m, memory in _MEMORIES.items()
    if hasattr(pynvml, f"NVML_FI_DEV_ECC_{k}_{s}_{m}")  # corrected errors of the CBU have no field
}
# Ampere and later count all caches and registers as SRAM, for which there is only a call.
CALLS: Final[dict[Cell, tuple[int, int, int]]] = {
    Cell(kind, span, "sram"): (error, counter, pynvml.NVML_MEMORY_LOCATION_SRAM)
    for error, kind in ((pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, "corrected"),
                        (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, "uncorrected"))
    for counter, span in ((pynvml.NVML_VOLATILE_ECC, "volatile"), (pynvml.NVML_AGGREGATE_ECC, "aggregate"))
}  # fmt: skip


class MemoryErrors:
    """The ECC matrix of one board."""

    def __init__(self) -> None:
        self._cells = {" ".join(cell): cell for cell in FIELDS}
        self._batch = FieldBatch([Signal(name, ((FIELDS[cell], 0),)) for name, cell in self._cells.items()])

    def read(self, handle: Any) -> Iterator[tuple[Cell, int | None, str]]:
        """(cell, errors or None, why none) of every cell. Raises `DeviceLostError` or `DriverDownError`."""
        reading = Reading()
        self._batch.read(handle, reading)
        for name, cell in self._cells.items():
            value: Number | None = reading.values[name]
            yield cell, None if value is None else int(value), reading.reasons.get(name, "")
        for cell, arguments in CALLS.items():
            try:
                yield cell, int(pynvml.nvmlDeviceGetMemoryErrorCounter(handle, *arguments)), ""
            except pynvml.NVMLError as error:
                yield cell, None, absent_reason(error.value)
