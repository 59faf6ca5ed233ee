"""Errors, speed and state of each NVLink, read by the interface that tells the truth on that architecture; PCIe errors.

Belongs here: the three tiers and their counters' names. Does not belong here: deltas, thresholds, InfiniBand.
The legacy totals answer SUCCESS with 0 on Hopper, and the Hopper fields do not exist on Blackwell, so the tier
follows the architecture and never the return code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pynvml

from sources.telemetry.nvml_errors import absent_reason
from sources.telemetry.nvml_fields import FieldBatch, Signal
from sources.telemetry.nvml_reading import Reading

LEGACY_LINKS: Final = 12  # links above have no field ids
_FIRST_SIX: Final = 6
# counter -> field id of link 0 and of link 6; the ids of a group are consecutive
LEGACY: Final[dict[str, tuple[int, int]]] = {
    "crc_flit": (pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6),
    "crc_data": (pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6),
    "replay": (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6),
    "recovery": (pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6),
    "ecc_data": (pynvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0, pynvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L6),
}
# counter -> argument of nvmlDeviceGetNvLinkErrorCounter
HOPPER_CALL: Final[dict[str, int]] = {
    "replay": pynvml.NVML_NVLINK_ERROR_DL_REPLAY,
    "recovery": pynvml.NVML_NVLINK_ERROR_DL_RECOVERY,
    "crc_flit": pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
    "crc_data": pynvml.NVML_NVLINK_ERROR_DL_CRC_DATA,
    "ecc_data": pynvml.NVML_NVLINK_ERROR_DL_ECC_DATA,
}
# counter -> field id, with the link as scope; used on Hopper only for what the call does not give
HOPPER_FIELDS: Final[dict[str, int]] = {
    "replay": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
    "recovery": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
    "crc": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
}
BLACKWELL_FIELDS: Final[dict[str, int]] = {
    "malformed_packet": pynvml.NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS,
    "buffer_overrun": pynvml.NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS,
    "rcv_errors": pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS,
    "rcv_remote_errors": pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS,
    "rcv_general_errors": pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS,
    "local_link_integrity": pynvml.NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS,
    "xmit_discards": pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS,
    "recovery_successful": pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
    "recovery_failed": pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
    "recovery": pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
    "effective_errors": pynvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS,
    "symbol_errors": pynvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS,
    # Rates, still encoded: mantissa in bits 8 to 11, negative exponent in bits 0 to 7; 15 and 255 mean no error.
    "effective_ber_raw": pynvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER,
    "symbol_ber_raw": pynvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER,
}
# On every architecture, with the link as scope. A link that is down has speed 0 or none.
SPEED: Final[dict[str, int]] = {"speed_mb_per_s": pynvml.NVML_FI_DEV_NVLINK_GET_SPEED}
# Replays are in every sample, with the board's bytes; these tell what is wrong where they grow.
PCIE: Final[dict[str, int]] = {
    "replay_rollover": pynvml.NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER,
    "l0_to_recovery": pynvml.NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER,
    "correctable_errors": pynvml.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS,
    "naks_received": pynvml.NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED,
    "naks_sent": pynvml.NVML_FI_DEV_PCIE_COUNT_NAKS_SENT,
    "receiver_errors": pynvml.NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR,
    "bad_tlp": pynvml.NVML_FI_DEV_PCIE_COUNT_BAD_TLP,
    "bad_dllp": pynvml.NVML_FI_DEV_PCIE_COUNT_BAD_DLLP,
    "non_fatal_errors": pynvml.NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR,
    "fatal_errors": pynvml.NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR,
    "unsupported_requests": pynvml.NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ,
    "lcrc_errors": pynvml.NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR,
    "lane_errors": pynvml.NVML_FI_DEV_PCIE_COUNT_LANE_ERROR,
}

Counted = tuple[int, str, int | None, str]  # link, counter, value or None, reason of a None


class Links:
    """The NVLinks of one board. `read` yields every counter of every link that exists."""

    def __init__(self, arch: int | None, links: int) -> None:
        self._links = links
        self._is_hopper = arch == pynvml.NVML_DEVICE_ARCH_HOPPER
        if self._is_hopper:
            self._batch = _per_link(links, HOPPER_FIELDS | SPEED)
        elif arch is not None and arch > pynvml.NVML_DEVICE_ARCH_HOPPER:
            self._batch = _per_link(links, BLACKWELL_FIELDS | SPEED)
        else:
            self._batch = FieldBatch([*_legacy(min(links, LEGACY_LINKS)), *_signals(links, SPEED)])

    def read(self, handle: Any) -> Iterator[Counted]:
        """Every counter. Raises `DeviceLostError` or `DriverDownError`."""
        known: set[tuple[int, str]] = set()
        if self._is_hopper:
            for link, counter, value, reason in self._call(handle):
                if value is not None:
                    known.add((link, counter))
                elif counter in HOPPER_FIELDS:
                    continue  # the field of the same name answers below
                yield link, counter, value, reason
        reading = Reading()
        self._batch.read(handle, reading)
        for name, answer in reading.values.items():
            number, _, counter = name.partition(" ")
            link = int(number)
            # The sum of both CRC counters says nothing new where each of them is known.
            if (link, counter) in known or (counter == "crc" and (link, "crc_flit") in known):
                continue
            yield link, counter, None if answer is None else int(answer), reading.reasons.get(name, "")

    def _call(self, handle: Any) -> Iterator[Counted]:
        for link in range(self._links):
            for counter, number in HOPPER_CALL.items():
                try:
                    yield link, counter, pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, number), ""
                except pynvml.NVMLError as error:
                    yield link, counter, None, absent_reason(error.value)

    def states(self, handle: Any) -> Iterator[tuple[int, bool]]:
        """(link, whether it is up) for the links whose state the driver tells."""
        for link in range(self._links):
            try:
                yield link, bool(pynvml.nvmlDeviceGetNvLinkState(handle, link))
            except pynvml.NVMLError as error:
                absent_reason(error.value)


class PcieLink:
    """The PCIe link of one board, as link 0."""

    def __init__(self) -> None:
        self._batch = FieldBatch([Signal(counter, ((field_id, 0),)) for counter, field_id in PCIE.items()])

    def read(self, handle: Any) -> Iterator[Counted]:
        """Every counter. Raises `DeviceLostError` or `DriverDownError`."""
        reading = Reading()
        self._batch.read(handle, reading)
        for counter, answer in reading.values.items():
            yield 0, counter, None if answer is None else int(answer), reading.reasons.get(counter, "")


def _per_link(links: int, fields: dict[str, int]) -> FieldBatch:
    return FieldBatch(_signals(links, fields))


def _signals(links: int, fields: dict[str, int]) -> list[Signal]:
    return [
        Signal(f"{link} {counter}", ((field_id, link),))
        for link in range(links)
        for counter, field_id in fields.items()
    ]


def _legacy(links: int) -> list[Signal]:
    return [
        Signal(f"{link} {counter}", ((low + link if link < _FIRST_SIX else high + link - _FIRST_SIX, 0),))
        for link in range(links)
        for counter, (low, high) in LEGACY.items()
    ]
