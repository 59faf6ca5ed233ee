"""Small spools for tests of ingest: a few nodes, readings that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Column, Slot
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.telemetry import GpuSample

START_US = 1_793_491_200_000_000  # 2026-11-01 00:00 UTC
SECOND_US = 1_000_000
COLUMNS = (
    Column("power_w", "f8", "W"),
    Column("energy_j", "f8", "J"),
    Column("temperature_c", "i2", "°C"),
    Column("memory_total_bytes", "u8", "bytes"),
    Column("sm_clock_mhz", "u4", "MHz"),
)


def reading(tick: int, *, power_w: float = 400.0) -> dict[str, float]:
    """Steady power; the energy counter grows by it every second."""
    return {
        "power_w": power_w,
        "energy_j": power_w * tick,
        "temperature_c": 50,
        "memory_total_bytes": 80 << 30,
        "sm_clock_mhz": 1980,
    }


def write_segment(
    folder: Path,
    node: str,
    ticks: Sequence[int],
    *,
    gpus: Sequence[str] = ("a", "b"),
    columns: Sequence[Column] = COLUMNS,
    rows: Mapping[int, Mapping[str, float]] | None = None,
    power_w: float = 400.0,
    stream_id: str | None = None,
    records: Sequence[tuple[str, dict[str, Any]]] = (),
    cluster: str = "c1",
) -> Path:
    """One sealed segment: tick k is k seconds after 2026-11-01 00:00 UTC. Returns its path."""
    before = set(folder.glob("*.seg"))
    names = [f"GPU-{node}-{gpu}" for gpu in gpus]
    with SpoolWriter(
        folder,
        cluster=cluster,
        node=node,
        source="nvml",
        is_synthetic=False,
        columns=columns,
        slots=[Slot(name, i) for i, name in enumerate(names)],
        stream_id=stream_id,
        clock=lambda: 0.0,
        notify=lambda _line: None,
    ) as spool:
        for kind, row in records:
            spool.record(kind, row, START_US + ticks[0] * SECOND_US)
        for tick in ticks:
            values = rows[tick] if rows else reading(tick, power_w=power_w)
            spool.samples(START_US + tick * SECOND_US, [(name, values) for name in names])
    (path,) = set(folder.glob("*.seg")) - before
    return path


def event(tick: int, node: str, code: int = 79) -> tuple[str, dict[str, Any]]:
    """An XID without severity or action, as some collectors tell it."""
    device = f"GPU-{node}-a"
    row = {"occurred_at": START_US + tick * SECOND_US, "device": device, "gpu_uuid": device, "kind": "xid"}
    return "gpu_event", row | {"event_id": str(code), "code": code}


def link(tick: int, node: str, value: int | None = None) -> tuple[str, dict[str, Any]]:
    """A reading of a link's error counter; it grows by one a second unless a value is given."""
    row = {"sampled_at": START_US + tick * SECOND_US, "device": f"GPU-{node}-a", "link_kind": "nvlink", "link_index": 0}
    return "link_counter", row | {"counter": "replay", "value": tick if value is None else value}


def samples(home: Home) -> pl.DataFrame:
    """What the lake holds, by GPU and time."""
    return Lake(home.lake).scan(GpuSample).collect().sort("node", "gpu_uuid", "sampled_at")
