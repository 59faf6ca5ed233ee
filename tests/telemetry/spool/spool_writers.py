"""What the spool tests share: a writer with two columns and rows of one or two GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Column

START_US = 1_793_491_200_000_000  # 2026-11-01 00:00 UTC
COLUMNS = (Column("power_w", "f8", "W"), Column("sm_clock_mhz", "u2", "MHz"))


def writer(directory: Path, **options: Any) -> SpoolWriter:
    given: dict[str, Any] = {
        "cluster": "c1",
        "node": "n1",
        "source": "nvml",
        "is_synthetic": False,
        "columns": COLUMNS,
        "stream_id": "0123456789abcdef",
        "notify": lambda _line: None,
        "clock": lambda: 0.0,
    }
    return SpoolWriter(directory, **(given | options))


def write_ticks(spool: SpoolWriter, ticks: range, gpus: tuple[str, ...] = ("GPU-a", "GPU-b")) -> list[bool]:
    """Tick k: power 100+k, clock 1000+k, a second after tick k-1."""
    return [
        spool.samples(
            START_US + k * 1_000_000, [(gpu, {"power_w": 100.0 + k, "sm_clock_mhz": 1000 + k}) for gpu in gpus]
        )
        for k in ticks
    ]


def by_time(samples: pl.DataFrame) -> pl.DataFrame:
    """Rows by time and GPU: the order in which a segment gives them back is not promised."""
    return samples.sort("sampled_at", "gpu_uuid")


def sealed(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.seg"))
