"""AMD GPUs: `rocm-smi -a --json` and `amd-smi static|metric --json`.

Belongs here: both tools' JSON into samples and inventory. Does not belong here: XGMI links.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject
from sources.telemetry_inputs.context import UTC_US, LocalInput, Where, rows, stamped, text_of, with_accelerator
from sources.telemetry_inputs.sentinels import word_reason

# rocm-smi's keys differ from version to version; the first that is present counts. `GPU memory use (%)` of older ones
# is left out: they do not agree on whether it is memory held or memory busy.
ROCM: Mapping[str, tuple[tuple[str, ...], float]] = {
    "power_w": (("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)"), 1),
    "power_limit_w": (("Max Graphics Package Power (W)",), 1),
    "temperature_c": (("Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)"), 1),
    "memory_temperature_c": (("Temperature (Sensor memory) (C)",), 1),
    "gpu_util_ratio": (("GPU use (%)",), 0.01),
    "memory_util_ratio": (("GPU Memory Read/Write Activity (%)",), 0.01),
    "memory_total_bytes": (("VRAM Total Memory (B)",), 1),
    "memory_used_bytes": (("VRAM Total Used Memory (B)",), 1),
    "graphics_clock_mhz": (("sclk clock speed:",), 1),
    "memory_clock_mhz": (("mclk clock speed:",), 1),
    "pcie_replay_count": (("PCIe Replay Count",), 1),
    "fan_speed_ratio": (("Fan speed (%)",), 0.01),
}
# amd-smi metric: paths into its JSON; a value is a number or {"value": …, "unit": …}.
METRIC: Mapping[str, tuple[str, float]] = {
    "power_w": ("power/socket_power", 1),
    "gpu_util_ratio": ("usage/gfx_activity", 0.01),
    "memory_util_ratio": ("usage/umc_activity", 0.01),
    "temperature_c": ("temperature/edge|temperature/hotspot", 1),
    "memory_temperature_c": ("temperature/mem", 1),
    "energy_j": ("energy/total_energy_consumption", 1),
    "graphics_clock_mhz": ("clock/gfx_0/clk", 1),
    "memory_clock_mhz": ("clock/mem_0/clk", 1),
    "memory_total_bytes": ("mem_usage/total_vram", 1048576),
    "memory_used_bytes": ("mem_usage/used_vram", 1048576),
    "ecc_corrected_count": ("ecc/total_correctable_count", 1),
    "ecc_uncorrected_count": ("ecc/total_uncorrectable_count", 1),
    "pcie_replay_count": ("pcie/replay_count", 1),
}
# Only the first partition of a socket has the sensors; the others print zeros.
SOCKET_SCOPE = ("power_w", "energy_j", "power_limit_w", "temperature_c", "memory_temperature_c")
INTEGERS = ("_bytes", "_mhz", "_count")
INVENTORY: dict[str, Any] = {
    "valid_from": UTC_US,
    "gpu_uuid": pl.String,
    "parent_gpu_uuid": pl.String,
    "gpu_index": pl.Int64,
    "gpu_serial": pl.String,
    "gpu_name": pl.String,
    "pci_bus_id": pl.String,
    "vbios": pl.String,
    "driver": pl.String,
    "board_part_number": pl.String,
    "mig_profile": pl.String,
    "memory_total_bytes": pl.Int64,
    "power_limit_w": pl.Float64,
}
Record = dict[str, Any]


class AmdSmi(LocalInput):
    """JSON of rocm-smi and amd-smi."""

    name = "amd-smi"
    publisher = "AMD"
    homepage = "https://rocm.docs.amd.com/projects/amdsmi/"
    tables = ("telemetry.gpu_samples", "telemetry.inventory", "telemetry.null_reasons")
    media_type = "application/json"

    def parse(self, payload: Payload) -> Parsed:
        """Samples, inventory and null reasons. Raises `ParseError` if it is the JSON of neither tool."""
        where = Where.of(payload)
        document = _document(text_of(payload, "AMD's JSON"))
        at = where.moment("AMD's JSON")
        samples: list[Record] = []
        boards: list[Record] = []
        reasons: list[Record] = []
        rejects: list[Reject] = []
        read = _of_amd(document, where) if isinstance(document, list) else _of_rocm(document, where)
        for board, sample, why in read:
            boards.append({"valid_from": at, **board})
            if any(value is not None for value in sample.values()):
                samples.append({"sampled_at": at, **{k: board.get(k) for k in IDENTITY}, **sample})
            reasons += [{"from_at": at, "device": board["gpu_uuid"], **one} for one in why]
        if not boards:
            raise ParseError("AMD's JSON lists no GPU; was the driver loaded?")
        frames = {
            "telemetry.gpu_samples": _frame(samples, where),
            "telemetry.inventory": stamped(with_accelerator(rows(boards, INVENTORY)), where, time_column=None),
            "telemetry.null_reasons": _reasons(reasons, where),
        }
        return Parsed({name: frame for name, frame in frames.items() if frame.height}, rejects)


IDENTITY = ("gpu_uuid", "parent_gpu_uuid", "gpu_index", "gpu_name")


def _document(text: str) -> Any:
    # A stub that only prints the JSON is accepted as well: the document is what stands between its quotes.
    found = re.search(r"echo -e '(.*)'\s*$", text, re.DOTALL) if text.startswith("#!") else None
    try:
        document = json.loads(found[1] if found else text)
    except json.JSONDecodeError as error:
        raise ParseError(f"the JSON is cut or broken at line {error.lineno}; take the capture again") from None
    is_rocm = isinstance(document, dict) and any(re.fullmatch(r"card\d+", key) for key in document)
    is_amd = isinstance(document, list) and all(isinstance(e, dict) and "gpu" in e for e in document)
    if not (is_rocm or is_amd):
        raise ParseError("this is the JSON of neither rocm-smi -a --json nor amd-smi static|metric --json")
    return document


def _of_rocm(document: dict[str, Any], where: Where) -> Iterator[tuple[Record, Record, list[Record]]]:
    driver = (document.get("system") or {}).get("Driver version")
    for key, card in document.items():
        if not re.fullmatch(r"card\d+", key):
            continue
        bus = _identity(card.get("PCI Bus"))
        unique = _identity(card.get("Unique ID"))
        sample: Record = {}
        why: list[Record] = []
        for column, (names, factor) in ROCM.items():
            text = next((card[name] for name in names if name in card), None)
            if text is not None:
                value, reason = _value(str(text).strip("()"), column, factor)
                sample[column] = value
                if reason:
                    why.append({"column_name": column, "reason": reason, "raw_value": str(text)})
        yield (
            {
                "gpu_uuid": (unique and f"amd-{unique}") or f"amd-{where.node}-{(bus or key).lower()}",
                "gpu_index": int(key[4:]),
                "gpu_serial": _identity(card.get("Serial Number")),
                "gpu_name": card.get("Card series") or card.get("Card Series"),
                "pci_bus_id": bus,
                "vbios": card.get("VBIOS version"),
                "driver": driver,
                "board_part_number": card.get("Card SKU"),
                "memory_total_bytes": sample.get("memory_total_bytes"),
                "power_limit_w": sample.get("power_limit_w"),
            },
            sample,
            why,
        )


def _of_amd(document: list[dict[str, Any]], where: Where) -> Iterator[tuple[Record, Record, list[Record]]]:
    for entry in document:
        asic, board, bus = entry.get("asic") or {}, entry.get("board") or {}, (entry.get("bus") or {}).get("bdf")
        partition = entry.get("partition") or {}
        serial = _identity(asic.get("asic_serial"))
        socket = f"amd-{serial}" if serial else f"amd-{where.node}-{(bus or str(entry['gpu'])).lower()}"
        number = partition.get("partition_id") or 0
        split = partition.get("compute_partition") not in (None, "SPX", "N/A")
        sample, why = _metrics(entry, is_part=split and number > 0)
        yield (
            {
                "gpu_uuid": f"{socket}/{number}" if split else socket,
                "parent_gpu_uuid": socket if split else None,
                "gpu_index": entry["gpu"],
                "gpu_serial": _identity(board.get("product_serial")),
                "gpu_name": _identity(asic.get("market_name")),
                "pci_bus_id": bus,
                "board_part_number": _identity(board.get("model_number")),
                "mig_profile": partition.get("compute_partition") if split else None,
                "memory_total_bytes": sample.get("memory_total_bytes"),
            },
            sample,
            why,
        )


def _metrics(entry: dict[str, Any], *, is_part: bool) -> tuple[Record, list[Record]]:
    sample: Record = {}
    why: list[Record] = []
    for column, (path, factor) in METRIC.items():
        found = [place for place in (_at(entry, one) for one in path.split("|")) if place is not None]
        if not found:
            continue
        raw, unit = next((place for place in found if not word_reason(place[0])), found[0])
        value, reason = _value(raw, column, factor)
        if column == "energy_j" and unit not in ("", "J"):
            value, reason = None, "unknown_unit"
        if is_part and column in SOCKET_SCOPE:
            value, reason = None, "board_scope"
        sample[column] = value
        if reason:
            why.append({"column_name": column, "reason": reason, "raw_value": raw})
    return sample, why


def _at(entry: dict[str, Any], path: str) -> tuple[str, str] | None:
    """Text and unit at a path of amd-smi's JSON."""
    place: Any = entry
    for part in path.split("/"):
        place = place.get(part) if isinstance(place, dict) else None
    if isinstance(place, dict):
        return str(place.get("value")), str(place.get("unit") or "")
    return None if place is None else (str(place), "")


def _value(text: str, column: str, factor: float) -> tuple[float | int | None, str]:
    """The number in our unit, or None and the reason."""
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(?:[A-Za-z%°/]+)?\s*", text)
    if not found:
        return None, word_reason(text) or "unreadable"
    number = float(found[1]) * factor
    if column.endswith("_ratio") and column != "fan_speed_ratio" and not 0 <= number <= 1:
        return None, "out_of_range"
    return (round(number) if column.endswith(INTEGERS) else number), ""


def _identity(text: Any) -> str | None:
    """An identity, unless the tool prints that it has none."""
    value = str(text or "").strip()
    return None if word_reason(value) or not value.strip("0") else value


def _frame(samples: list[Record], where: Where) -> pl.DataFrame:
    if not samples:
        return pl.DataFrame()
    names = dict.fromkeys(name for sample in samples for name in sample)
    schema: dict[str, Any] = {
        name: pl.Int64 if name.endswith(INTEGERS) or name == "gpu_index" else pl.Float64 for name in names
    }
    schema |= {"sampled_at": UTC_US, "gpu_uuid": pl.String, "parent_gpu_uuid": pl.String, "gpu_name": pl.String}
    frame = with_accelerator(rows([{n: s.get(n) for n in names} for s in samples], {n: schema[n] for n in names}))
    return stamped(frame.drop("gpu_name"), where)


def _reasons(reasons: list[Record], where: Where) -> pl.DataFrame:
    if not reasons:
        return pl.DataFrame()
    schema: dict[str, Any] = {
        "from_at": UTC_US,
        "device": pl.String,
        "column_name": pl.String,
        "reason": pl.String,
        "raw_value": pl.String,
    }
    frame = rows(reasons, schema).with_columns(pl.lit("gpu_samples").alias("table_name"))
    return stamped(frame, where, time_column=None)


class RocmSmi(AmdSmi):
    """The same parser under the older tool's name."""

    name = "rocm-smi"
    homepage = "https://rocm.docs.amd.com/projects/rocm_smi_lib/"


SOURCES = (AmdSmi(), RocmSmi())
