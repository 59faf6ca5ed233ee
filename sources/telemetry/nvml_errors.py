"""What an NVML return code means to the agent: an absent signal, a lost GPU, or a dead driver.

Belongs here: the codes and the words for them. Does not belong here: any call to the driver.
"""

from __future__ import annotations

from typing import Final

import pynvml

# A signal that is not there: the column is null and this word is its reason.
ABSENT: Final[dict[int, str]] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_NOT_FOUND: "not_found",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "function_not_found",
    pynvml.NVML_ERROR_NO_DATA: "no_data",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "argument_version_mismatch",
    pynvml.NVML_ERROR_DEPRECATED: "deprecated",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "invalid_argument",
    pynvml.NVML_ERROR_NOT_READY: "not_ready",
    pynvml.NVML_ERROR_INVALID_STATE: "invalid_state",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_IN_USE: "in_use",
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE: "insufficient_size",
    pynvml.NVML_ERROR_CORRUPTED_INFOROM: "corrupted_inforom",
    pynvml.NVML_ERROR_MEMORY: "memory",
    pynvml.NVML_ERROR_UNKNOWN: "unknown_error",
}
# One GPU is gone; the others go on.
LOST: Final[dict[int, str]] = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_is_lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset_required",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "gpu_not_found",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "operating_system",
}
# The driver as a whole is gone; every GPU is lost until a new initialisation succeeds.
DOWN: Final[dict[int, str]] = {
    pynvml.NVML_ERROR_UNINITIALIZED: "uninitialized",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver_not_loaded",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "library_not_found",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "lib_rm_version_mismatch",
}
# The loaded library is older or newer than the kernel module: only a new process loads the right one.
NEEDS_NEW_PROCESS: Final = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH

NO_PERMISSION: Final = ABSENT[pynvml.NVML_ERROR_NO_PERMISSION]
# Reasons the agent itself gives; the driver was not at fault.
NOT_SAMPLED: Final = "not_sampled"  # read by the slow loop only
NO_PREVIOUS_SAMPLE: Final = "no_previous_sample"  # a difference needs two readings
BOARD_SCOPE: Final = "board_scope"  # a MIG instance has no sensor of its own; the board's row has the value
OUT_OF_RANGE: Final = "out_of_range"  # the driver said success, the value cannot be
INCOMPLETE: Final = "incomplete"  # a sum of which some parts did not answer


class DeviceLostError(Exception):
    """This GPU does not answer any more. `code` is NVML's return code, `reason` its word."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.reason = LOST.get(code) or DOWN.get(code) or word(code)
        super().__init__(self.reason)


class DriverDownError(Exception):
    """NVML as a whole does not answer. `code` is NVML's return code, `reason` its word."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.reason = DOWN.get(code) or word(code)
        super().__init__(self.reason)


def word(code: int) -> str:
    """The word for a return code, also for one that newer drivers invent."""
    return ABSENT.get(code) or LOST.get(code) or DOWN.get(code) or f"nvml_error_{code}"


def said_of(error: Exception) -> str:
    """An error that is none of NVML's, in one short line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def absent_reason(code: int) -> str:
    """The reason of a null. Raises `DeviceLostError` or `DriverDownError` when more than the signal is missing."""
    if code in DOWN:
        raise DriverDownError(code)
    if code in LOST:
        raise DeviceLostError(code)
    return word(code)
