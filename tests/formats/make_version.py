"""Writes the fixture of one format version, once: `python tests/formats/make_version.py vN`, when a format changes.

Belongs here: what every version's fixture holds. Does not belong here: the values a test expects of it, which stand
in the test. A folder that exists is never written again.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from assets.ingest import ingest
from assets.publish import publish_home
from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_files import recover
from sources.telemetry.spool_format import Slot
from warehouse.home import Home

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "formats"
START_US = 1_767_571_200_000_000  # 2026-01-05 00:00 UTC
TICK_US = 10_000_000
KEPT = ("telemetry/gpu_samples", "telemetry/gpu_events", "ops/loads")


def values(gpu_uuid: str, tick: int) -> dict[str, float | None]:
    """One row: GPU-b has no power reading, and no row has a memory temperature."""
    return {
        "power_w": None if gpu_uuid == "GPU-b" else 300.5 + 10 * tick,
        "energy_j": 1000.0 + 3000 * tick,
        "gpu_util_ratio": 0.25 * tick,
        "memory_used_bytes": (1 + tick) << 30,
        "memory_total_bytes": 80 << 30,
        "temperature_c": 40 + tick,
        "memory_temperature_c": None,
        "sm_clock_mhz": 1980,
        "event_reasons": 4,
        "pcie_replay_count": (1 << 40) + tick,
        "remap_pending": 0,
    }


def records() -> list[tuple[str, dict[str, Any]]]:
    """One record of every kind."""
    at, gpu = START_US, {"device": "GPU-a", "gpu_uuid": "GPU-a"}
    span = {"from_at": at, "to_at": at + TICK_US}
    return [
        ("gpu_event", gpu | {"occurred_at": at, "kind": "xid", "event_id": "79", "code": 79}),
        ("link_counter", gpu | {"sampled_at": at, "link_kind": "nvlink", "link_index": 3, "counter": "replay"} | {"value": 17}),
        ("inventory", {"valid_from": at, "gpu_uuid": "GPU-a", "gpu_serial": "1650000000001", "driver": "580.95.05"}),
        ("null_reason", span | {"device": "GPU-b", "table_name": "gpu_samples", "column_name": "power_w"} | {"reason": "not_supported"}),
        ("node_state", {"valid_from": at, "state": "up", "reason": "started"}),
        ("power_reading", {"sampled_at": at, "scope": "chassis", "device": "c-1", "power_w": 5120.0}),
        ("ecc_counter", {"sampled_at": at, "gpu_uuid": "GPU-a", "error_kind": "corrected", "counter_span": "volatile"} | {"location": "dram", "value": 5}),
        ("gpu_process", {"from_at": at, "gpu_uuid": "GPU-a", "pid": 4242, "process_name": "python", "memory_used_bytes": 1 << 30}),
        ("gap", span | {"reason": "missed_ticks", "rows": 2}),
    ]  # fmt: skip


def write_spool(folder: Path, node: str, *, crashed: bool) -> Path:
    """Three ticks of two GPUs and the records; `crashed`: as the next start of an agent recovers them."""
    spool = SpoolWriter(
        folder,
        cluster="c1",
        node=node,
        source="nvml",
        is_synthetic=False,
        slots=[Slot("GPU-a", 0, None, "nvidia-h100-sxm5-80gb"), Slot("GPU-b", 1)],
        stream_id=f"stream-of-{node}",
        boot_id="boot",
    )
    for kind, row in records():
        spool.record(kind, row, START_US)
    for tick in range(3):
        spool.samples(START_US + tick * TICK_US, [(gpu, values(gpu, tick)) for gpu in ("GPU-a", "GPU-b")])
    if not crashed:
        spool.close()
    else:
        os.close(spool._fd)
        (left,) = folder.glob("*.open")
        recover(left, print)
    (path,) = folder.glob("*.seg")
    return path


def make(version: Path) -> None:
    """The folder of one version. Raises `FileExistsError` where it is there already."""
    version.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        whole = write_spool(root / "whole", "n1", crashed=False)
        shutil.copyfile(whole, version / "sealed.seg")
        shutil.copyfile(write_spool(root / "crashed", "n2", crashed=True), version / "recovered.seg")
        home = Home(root / "home").prepare()
        shutil.copyfile(whole, home.inbox / whole.name)
        ingest(home)
        publish_home(home)
        for table in KEPT:
            shutil.copytree(home.lake / table, version / "lake" / table)
        for log in version.rglob("_delta_log/*.json"):
            log.write_text(log.read_text().replace(root.as_uri(), "file:///almanac"))


if __name__ == "__main__":
    make(FIXTURES / sys.argv[1])
