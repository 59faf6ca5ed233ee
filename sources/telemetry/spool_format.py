"""The bytes of a spool segment: magic, frames, seal. Standard library only: the node agent imports this.

Belongs here: layouts, checksums, and the walk over frames that survives damage. Does not belong here: files and
their life (`spool.py`), turning frames into tables (`segment.py`).

A segment is `MAGIC`, a header frame (JSON), frames of samples and records, the header frame again, and a seal.
A frame is its head (sync mark, kind, length, sequence number), a CRC-32 over head and payload, and the payload.

Samples of a frame are the rows of one tick. Format 1 holds them row after row; format 2 column after column: all times,
all slots, all null masks, all values of the first column and so on, which a reader takes apart in half the time.

A later format has another `MAGIC`, or a header with a higher `version`: a reader leaves such a segment where it is.
Within a format, frames and records of a kind that a reader does not know are reported and kept, never misread.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

MAGIC: Final = b"ALMSPOL1"
VERSION: Final = 2
BY_ROW: Final = 1  # the format whose frames hold row after row
SYNC: Final = b"\xa1\x1c\xf7\x0e"
HEADER, SAMPLES, RECORD = 1, 2, 3
KINDS: Final = (HEADER, SAMPLES, RECORD)
HEAD: Final = struct.Struct("<4sBxHIQ")  # sync, kind, rows, payload length, sequence
CRC: Final = struct.Struct("<I")
FRAME_BYTES: Final = HEAD.size + CRC.size
# magic, data length, frames, rows, first and last sample time (µs), flags, CRC of everything before itself
SEAL: Final = struct.Struct("<8sQQQqqII")
SEAL_MAGIC: Final = b"ALMSEAL1"
CLEAN, RECOVERED = 1, 0
MAX_PAYLOAD: Final = 1 << 24
ROW_PREFIX: Final = "qHQ"  # sample time in µs, GPU slot, one null bit per column
CODES: Final[Mapping[str, str]] = {
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "f4": "f",
    "f8": "d",
}


Body = bytes | mmap.mmap


class Column(NamedTuple):
    """One value of a sample row: lake column it fills, type on disk, unit of the number as written."""

    name: str
    type: str
    unit: str


def _columns(kind: str, unit: str, names: str) -> list[Column]:
    return [Column(name, kind, unit) for name in names.split()]


GPU_COLUMNS: Final[tuple[Column, ...]] = (
    *_columns("f8", "W", "power_w power_instant_w power_limit_w module_power_w"),
    Column("energy_j", "f8", "J"),
    *_columns("f8", "ratio", "gpu_util_ratio memory_util_ratio graphics_active_ratio sm_active_ratio"),
    *_columns("f8", "ratio", "sm_occupancy_ratio tensor_active_ratio dram_active_ratio"),
    *_columns("u8", "bytes", "memory_used_bytes memory_total_bytes memory_reserved_bytes"),
    *_columns("i2", "°C", "temperature_c memory_temperature_c"),
    *_columns("u4", "MHz", "sm_clock_mhz memory_clock_mhz graphics_clock_mhz"),
    Column("performance_state", "u1", ""),
    Column("fan_speed_ratio", "f8", "ratio"),
    Column("event_reasons", "u8", ""),
    *_columns("u8", "ns", "throttle_power_cap_ns throttle_sw_thermal_ns throttle_hw_thermal_ns"),
    Column("throttle_power_brake_ns", "u8", "ns"),
    *_columns("u8", "bytes", "nvlink_tx_bytes nvlink_rx_bytes pcie_tx_bytes pcie_rx_bytes"),
    *_columns("f8", "bytes/s", "nvlink_tx_bytes_per_s nvlink_rx_bytes_per_s pcie_tx_bytes_per_s pcie_rx_bytes_per_s"),
    *_columns("u1", "", "pcie_link_generation pcie_link_width"),
    *_columns("u8", "", "pcie_replay_count ecc_corrected_count ecc_uncorrected_count"),
    *_columns("u4", "", "remapped_corrected_rows remapped_uncorrected_rows"),
    *_columns("u1", "", "remap_pending remap_failed"),
    Column("retired_pages", "u4", ""),
    Column("recovery_action", "u1", ""),
)


class Slot(NamedTuple):
    """One GPU of the node, as the segment's header names it."""

    gpu_uuid: str
    gpu_index: int | None = None
    parent_gpu_uuid: str | None = None
    accelerator_id: str | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    """A span of a segment that could not be read."""

    offset: int
    length: int
    reason: str


class Frame(NamedTuple):
    """A whole frame: `start` is its head, the payload lies in `[begin, end)`."""

    start: int
    kind: int
    rows: int
    sequence: int
    begin: int
    end: int


def frame(kind: int, sequence: int, payload: bytes | bytearray | memoryview, rows: int = 0) -> bytes:
    """A frame ready to be written."""
    head = HEAD.pack(SYNC, kind, rows, len(payload), sequence)
    return b"".join((head, CRC.pack(zlib.crc32(payload, zlib.crc32(head))), payload))


def header_payload(header: Mapping[str, Any]) -> bytes:
    """A segment's header as bytes; equal headers give equal bytes."""
    return json.dumps(header, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def row_format(columns: Sequence[Column], rows: int = 1) -> str:
    """`struct` format of the samples of one frame, column after column; for one row that is the row.

    Raises `ValueError` for an unknown type or more than 64 columns.
    """
    if len(columns) > 64:  # noqa: PLR2004 - one bit each in the null mask
        raise ValueError(f"{len(columns)} columns; a sample row has room for 64: split the collector's columns")
    unknown = [c for c in columns if c.type not in CODES]
    if unknown:
        raise ValueError(f"column {unknown[0].name}: type {unknown[0].type!r} is not one of {', '.join(CODES)}")
    return "<" + "".join(f"{rows}{code}" for code in (*ROW_PREFIX, *(CODES[c.type] for c in columns)))


def fitting(value: float, column: Column) -> int | float | None:
    """The value as the column's type holds it, or None where it does not fit."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN is the one unequal to itself
        return None
    if column.type[0] == "f":
        return float(value)
    whole = round(value)
    bits = 8 * int(column.type[1])
    low, high = (0, (1 << bits) - 1) if column.type[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return whole if low <= whole <= high else None


class Seal(NamedTuple):
    """What the seal says of the bytes before it."""

    length: int
    frames: int
    rows: int
    first_us: int
    last_us: int
    flags: int
    crc: int = 0

    def pack(self, data_crc: int) -> bytes:
        """The seal as bytes; `data_crc` is the CRC-32 of the segment before it."""
        told = SEAL.pack(SEAL_MAGIC, *self[:-1], 0)[: -CRC.size]
        return told + CRC.pack(zlib.crc32(told, data_crc))

    def holds(self, data_crc: int) -> bool:
        """Whether the segment and the seal itself are as they were sealed."""
        return self.pack(data_crc)[-CRC.size :] == CRC.pack(self.crc)


def is_later_mark(body: Body) -> bool:
    """Whether the file begins with the mark of another format of ours; damage to this one's can look like it."""
    mark = bytes(body[: len(MAGIC)])
    return mark != MAGIC and mark[:-1] == MAGIC[:-1] and mark[-1:].isdigit()


def read_seal(body: Body) -> Seal | None:
    """The seal at the end of a segment, or None where there is none that fits the length."""
    if len(body) < len(MAGIC) + SEAL.size:
        return None
    magic, *rest = SEAL.unpack_from(body, len(body) - SEAL.size)
    seal = Seal(*rest)
    return seal if magic == SEAL_MAGIC and seal.length == len(body) - SEAL.size else None


def walk(body: Body, end: int) -> Iterator[Frame | Damage]:
    """Every whole frame in `body[:end]` in order, and every span that is none.

    After a span that cannot be read the walk goes on at the next frame whose checksum holds, so one bad bit
    costs one frame. Lost frames show as a jump in the sequence where no damage explains them.
    """
    at, expected = len(MAGIC), 0
    if body[:at] != MAGIC[: len(body)]:
        yield Damage(0, min(at, len(body)), "not the mark of a spool segment")
    if end < at:
        yield Damage(end, 0, "torn: the segment ends within its mark")
        return
    while at < end:
        found = _frame_at(body, at, end)
        if isinstance(found, Frame):
            if found.sequence != expected:
                yield Damage(at, 0, f"frames {expected} to {found.sequence - 1} are missing")
            yield found
            at, expected = found.end, found.sequence + 1
            continue
        following = _next_frame(body, at + 1, end)
        if following is None:
            yield Damage(at, end - at, found)
            return
        yield Damage(at, following.start - at, found)
        at, expected = following.start, following.sequence


def _frame_at(body: Body, at: int, end: int) -> Frame | str:
    """The frame that starts at `at`, or why there is none."""
    if end - at < FRAME_BYTES:
        return "torn: the frame's head is not whole"
    sync, kind, rows, length, sequence = HEAD.unpack_from(body, at)
    if sync != SYNC or length > MAX_PAYLOAD:
        return "not a frame's head"
    begin = at + FRAME_BYTES
    if begin + length > end:
        return "torn: the frame's payload is not whole"
    (crc,) = CRC.unpack_from(body, at + HEAD.size)
    with memoryview(body) as view:
        if zlib.crc32(view[begin : begin + length], zlib.crc32(view[at : at + HEAD.size])) != crc:
            return "checksum does not hold"
    return Frame(at, kind, rows, sequence, begin, begin + length)


def _next_frame(body: Body, start: int, end: int) -> Frame | None:
    at = body.find(SYNC, start, end)
    while at >= 0:
        found = _frame_at(body, at, end)
        if isinstance(found, Frame):
            return found
        at = body.find(SYNC, at + 1, end)
    return None
