"""One batch of NVML field values for one GPU, decoded by value type with every return code honoured.

Belongs here: the ctypes array, its decoding and the scale to the column's unit. Does not belong here: which
fields make up a batch (`nvml_signals`), nor what an error means to the loop (`nvml_errors`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from sources.telemetry.nvml_errors import INCOMPLETE, OUT_OF_RANGE, absent_reason
from sources.telemetry.nvml_reading import Number, Reading

ALL_LINKS: Final = 0xFFFFFFFF
_UNKNOWN_U64: Final = 0xFFFFFFFFFFFFFFFF
_LOW_32: Final = 0xFFFFFFFF

# nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value (8 bytes).
_LAYOUT: Final = struct.Struct("=IIqqIIQ")
_DOUBLE, _U32, _ULONG, _U64, _S64, _S32, _U16 = range(7)


@dataclass(frozen=True, slots=True)
class Signal:
    """A column and the fields, as (field id, scope), that fill it: raw value `times` / `over`.

    `fields` are tried in order and the first that answers wins; with `is_sum` they are added, and the column
    is null unless all of them answer.
    """

    column: str
    fields: tuple[tuple[int, int], ...]
    times: int = 1
    over: int = 1
    is_sum: bool = False


class FieldBatch:
    """`nvmlDeviceGetFieldValues` with a prepared array: one driver call a tick for one GPU."""

    def __init__(self, signals: Sequence[Signal]) -> None:
        if ctypes.sizeof(pynvml.c_nvmlFieldValue_t) != _LAYOUT.size:
            raise RuntimeError("nvmlFieldValue_t has another size than this agent decodes: update the agent")
        self._spans: list[tuple[Signal, int, int]] = []
        fields: list[tuple[int, int]] = []
        for signal in signals:
            self._spans.append((signal, len(fields), len(fields) + len(signal.fields)))
            fields += signal.fields
        self._count = len(fields)
        self._array = (pynvml.c_nvmlFieldValue_t * self._count)()
        for slot, (field_id, scope) in zip(self._array, fields, strict=True):
            slot.fieldId, slot.scopeId = field_id, scope
            # A driver that leaves a slot untouched must show neither a zero nor the value of the tick before.
            slot.nvmlReturn = pynvml.NVML_ERROR_NO_DATA
        self._prepared = bytes(self._array)
        self._is_refused = False

    def read(self, handle: Any, reading: Reading) -> None:
        """Fill the columns of this batch. Raises `DeviceLostError` or `DriverDownError`."""
        if not self._count:
            return
        answers = self._ask(handle)
        if isinstance(answers, str):
            for signal, _, _ in self._spans:
                reading.miss(signal.column, answers)
            return
        for signal, start, end in self._spans:
            value, reason = (_total if signal.is_sum else _first)(answers[start:end])
            if value is None:
                reading.miss(signal.column, reason)
            elif not reading.has(signal.column):
                value *= signal.times
                reading.put(signal.column, value if signal.over == 1 else value / signal.over)

    def _ask(self, handle: Any) -> list[tuple[Number | None, str]] | str:
        """A (value, reason) for each field, or the one reason why there is none."""
        if not self._is_refused:
            ctypes.memmove(self._array, self._prepared, len(self._prepared))
            code = _get_field_values(handle, self._array)
            if code == pynvml.NVML_SUCCESS:
                return [_answer(raw[4], raw[5], raw[6]) for raw in _LAYOUT.iter_unpack(bytes(self._array))]
            reason = absent_reason(code)
            if code != pynvml.NVML_ERROR_INVALID_ARGUMENT:
                return reason
            self._is_refused = True  # the driver takes no batch with a field that it does not know
        return [self._ask_one(handle, index) for index in range(self._count)]

    def _ask_one(self, handle: Any, index: int) -> tuple[Number | None, str]:
        single = (pynvml.c_nvmlFieldValue_t * 1).from_buffer_copy(self._prepared, index * _LAYOUT.size)
        code = _get_field_values(handle, single)
        if code != pynvml.NVML_SUCCESS:
            return None, absent_reason(code)
        raw = _LAYOUT.unpack(bytes(single))
        return _answer(raw[4], raw[5], raw[6])


def _get_field_values(handle: Any, array: Any) -> int:
    try:
        # The public wrapper allocates and fills a new array at every call.
        call = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")  # noqa: SLF001
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(call(handle, ctypes.c_int32(len(array)), ctypes.byref(array)))


def _answer(value_type: int, code: int, bits: int) -> tuple[Number | None, str]:
    if code != pynvml.NVML_SUCCESS:
        return None, absent_reason(code)
    return decode(value_type, bits), OUT_OF_RANGE


def _first(answers: Sequence[tuple[Number | None, str]]) -> tuple[Number | None, str]:
    return next((answer for answer in answers if answer[0] is not None), answers[0])


def _total(answers: Sequence[tuple[Number | None, str]]) -> tuple[Number | None, str]:
    known = [value for value, _ in answers if value is not None]
    if not known:
        return answers[0]
    return (sum(known), "") if len(known) == len(answers) else (None, INCOMPLETE)


def decode(value_type: int, bits: int) -> Number | None:
    """The number in an `nvmlValue_t` whose 8 bytes read as an unsigned integer are `bits`.

    None for a type this agent does not know, for NaN, and for the pattern that means "not available".
    """
    low = bits & _LOW_32
    if value_type == _U32:
        return None if low == _LOW_32 else low
    if value_type in (_U64, _ULONG):
        return None if bits == _UNKNOWN_U64 else bits
    if value_type == _DOUBLE:
        number: float = struct.unpack("=d", struct.pack("=Q", bits))[0]
        return number if abs(number) < float("inf") else None
    if value_type == _S32:
        return low - (1 << 32) if low >> 31 else low
    if value_type == _S64:
        return bits - (1 << 64) if bits >> 63 else bits
    return bits & 0xFFFF if value_type == _U16 else None
