"""npu-smi: the table that Huawei's tool prints for Ascend NPUs.

Belongs here: the two-line rows of `npu-smi info`. Does not belong here: HCCS links.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject
from sources.telemetry_inputs.context import UTC_US, LocalInput, Where, rows, stamped, text_of, with_accelerator

MIB = 1 << 20
FIRST = re.compile(
    r"^\|\s*(?P<npu>\d+)\s+(?P<name>\S+)\s*\|\s*(?P<health>\S+)\s*\|\s*(?P<power>\S+)\s+(?P<temp>\S+)\s+\S+\s*/\s*\S+\s*\|$"
)
SECOND = re.compile(
    r"^\|\s*(?P<chip>\d+)\s*\|\s*(?P<bus>[0-9A-Fa-f:.]+)\s*\|\s*(?P<core>\S+)\s+\S+\s*/\s*\S+\s+(?P<used>\d+)\s*/\s*(?P<total>\d+)\s*\|$"
)
SAMPLE: dict[str, Any] = {
    "sampled_at": UTC_US,
    "gpu_uuid": pl.String,
    "gpu_index": pl.Int64,
    "gpu_name": pl.String,
    "pci_bus_id": pl.String,
    "power_w": pl.Float64,
    "temperature_c": pl.Float64,
    "gpu_util_ratio": pl.Float64,
    "memory_used_bytes": pl.Int64,
    "memory_total_bytes": pl.Int64,
    "driver": pl.String,
}


class NpuSmi(LocalInput):
    """Output of npu-smi info."""

    name = "npu-smi"
    publisher = "Huawei"
    homepage = "https://support.huawei.com/enterprise/en/ascend-computing"
    tables = ("telemetry.gpu_samples", "telemetry.inventory")

    def parse(self, payload: Payload) -> Parsed:
        """One row for each chip. The table has no UUID: a chip is `npu-` with node and bus id. Raises `ParseError`."""
        where = Where.of(payload)
        text = text_of(payload, "the output of npu-smi")
        version = re.search(r"npu-smi (\S+)\s+Version: (\S+)", text)
        if not version:
            raise ParseError("this is no table of npu-smi: save npu-smi info")
        at = where.moment("npu-smi's table")
        records: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        first: re.Match[str] | None = None
        for number, line in enumerate(text.split("Process id")[0].split("\n"), 1):
            second = SECOND.match(line.rstrip())
            if second and first:
                records.append(_record(first, second, where, version[2]) | {"sampled_at": at})
                first = None
                continue
            opened = FIRST.match(line.rstrip())
            if re.match(r"^\|\s*\d", line) and not opened and not second:
                rejects.append(
                    Reject(
                        "telemetry.gpu_samples",
                        "two lines for each chip",
                        "the line is cut",
                        line[:200],
                        f"line {number}",
                    )
                )
            first = opened or first
        if not records:
            raise ParseError("npu-smi lists no chip; was the driver loaded?")
        frame = with_accelerator(stamped(rows(records, SAMPLE), where))
        board = frame.select(
            pl.col("sampled_at").alias("valid_from"),
            "cluster",
            "node",
            "gpu_uuid",
            "gpu_index",
            "gpu_name",
            "pci_bus_id",
            "driver",
            "memory_total_bytes",
            "accelerator_id",
            "is_synthetic",
        )
        samples = frame.drop("gpu_name", "pci_bus_id", "driver")
        return Parsed({"telemetry.gpu_samples": samples, "telemetry.inventory": board}, rejects)


def _record(first: re.Match[str], second: re.Match[str], where: Where, driver: str) -> dict[str, Any]:
    core = _number(second["core"])
    return {
        "gpu_uuid": f"npu-{where.node}-{second['bus'].lower()}",
        "gpu_index": int(first["npu"]),
        "gpu_name": first["name"],
        "pci_bus_id": second["bus"],
        "power_w": _number(first["power"]),
        "temperature_c": _number(first["temp"]),
        "gpu_util_ratio": None if core is None else core / 100,
        "memory_used_bytes": int(second["used"]) * MIB,
        "memory_total_bytes": int(second["total"]) * MIB,
        "driver": driver,
    }


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


SOURCE = NpuSmi()
