"""A made-up H100 cluster, written through the real spool: what a home without GPUs shows, marked as synthetic.

Belongs here: the readings of its boards. Does not belong here: jobs (`synthetic_jobs.py`), incidents and records
(`synthetic_story.py`), the spool. Deterministic: one plan gives the same segments, byte for byte.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Slot
from sources.telemetry.synthetic_failures import outages
from sources.telemetry.synthetic_jobs import on_node
from sources.telemetry.synthetic_pace import Pace, paces
from sources.telemetry.synthetic_plan import KINDS, Plan
from sources.telemetry.synthetic_story import HBM_ERROR, LOST, THROTTLED, records

Floats = np.ndarray[Any, Any]
ACCELERATOR: Final = "nvidia-h100-sxm5-80gb"
POWER_LIMIT_W: Final = 700.0
MEMORY_TOTAL_BYTES: Final = 81559 << 20  # what the driver reports for an 80 GB H100 SXM
CHECKPOINT_EVERY_S: Final = 1800
CHECKPOINT_LASTS_S: Final = 60
_CHUNK_TICKS: Final = 4096

# kind: mean, spread · power in W (idle 65.7 to 68.7 W and 113.6 W with a model resident were read on real boards)
_POWER_W: Final = {"idle": (67.2, 0.5), "resident": (113.6, 1.0), "training": (635.0, 18.0), "inference": (330.0, 45.0)}
_GPU_UTIL: Final = {"idle": (0.0, 0.0), "resident": (0.0, 0.0), "training": (0.99, 0.006), "inference": (0.74, 0.08)}
_TENSOR: Final = {"idle": (0.0, 0.0), "resident": (0.0, 0.0), "training": (0.43, 0.02), "inference": (0.11, 0.03)}
_SM: Final = {"idle": (0.0, 0.0), "resident": (0.0, 0.0), "training": (0.91, 0.015), "inference": (0.52, 0.07)}
_DRAM: Final = {"idle": (0.0, 0.0), "resident": (0.0, 0.0), "training": (0.46, 0.02), "inference": (0.58, 0.06)}
_MEMORY_USED: Final = {"idle": 0.005, "resident": 0.83, "training": 0.93, "inference": 0.88}
_NVLINK_BYTES_PER_S: Final = {"idle": 0, "resident": 0, "training": 62e9, "inference": 9e9}
_PCIE_BYTES_PER_S: Final = {"idle": 2e4, "resident": 2e4, "training": 1.6e9, "inference": 7e8}


def write(plan: Plan, directory: Path | str, *, segment_seconds: float = 21_600.0) -> int:
    """Write the cluster's segments into `directory`; returns how many samples. Raises `OSError`."""
    return sum(_write_node(plan, node, directory, segment_seconds) for node in range(plan.nodes))


def _write_node(plan: Plan, node: int, directory: Path | str, segment_seconds: float) -> int:
    now = [0.0]
    slots = [Slot(plan.gpu_uuid(node, gpu), gpu, None, ACCELERATOR) for gpu in range(plan.gpus)]
    told = iter(records(plan, node))
    following = next(told, None)
    written = 0
    with SpoolWriter(
        directory,
        cluster=plan.cluster,
        node=plan.node(node),
        source="nvml",
        is_synthetic=True,
        slots=slots,
        segment_seconds=segment_seconds,
        fsync_ms=1e12,  # sealed segments are flushed; a power cut costs only another run
        clock=lambda: now[0],
        stream_id=uuid.uuid5(uuid.NAMESPACE_OID, repr((plan, node))).hex,
    ) as spool:
        for time_us, rows in ticks(plan, node):
            now[0] = (time_us - plan.start_us) / 1e6
            while following is not None and following[0] <= time_us:
                spool.record(following[1], following[2], following[0])
                following = next(told, None)
            spool.samples(time_us, rows)
            written += len(rows)
    return written


def ticks(plan: Plan, node: int) -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """Sample time in µs and the rows of each tick of a node, as the spool takes them."""
    uuids = [plan.gpu_uuid(node, gpu) for gpu in range(plan.gpus)]
    boards = [_Board(plan, node, gpu) for gpu in range(plan.gpus)]
    for begin in range(0, plan.ticks, _CHUNK_TICKS):
        count = min(_CHUNK_TICKS, plan.ticks - begin)
        seconds = (begin + np.arange(count)) * plan.interval_s
        kinds, slow = _kinds(plan, node, seconds), paces(plan, node, seconds)
        chunks = [board.read(seconds, kinds[gpu], slow.get(gpu)) for gpu, board in enumerate(boards)]
        names = tuple(chunks[0][0])
        columns = [list(zip(*(values[name].tolist() for name in names), strict=True)) for values, _ in chunks]
        absent = [gone.tolist() for _, gone in chunks]
        for i, second in enumerate(seconds.tolist()):
            rows = [
                (gpu_uuid, dict(zip(names, column[i], strict=True)))
                for gpu_uuid, column, gone in zip(uuids, columns, absent, strict=True)
                if not gone[i]
            ]
            yield plan.start_us + round(second * 1e6), rows


def _kinds(plan: Plan, node: int, seconds: Floats) -> Floats:
    """What each board (rows) does at each second (columns), as a place in KINDS."""
    kinds = np.zeros((plan.gpus, len(seconds)), np.int8)
    for one in on_node(plan, node):
        begin, end = np.searchsorted(seconds, (one.from_s, one.to_s))
        if begin < end:
            kinds[one.nodes[node], begin:end] = KINDS.index(one.kind)
    return kinds


class _Board:
    """One GPU: its random stream and the counters that go on from chunk to chunk."""

    def __init__(self, plan: Plan, node: int, gpu: int) -> None:
        self._interval = plan.interval_s
        self._random = np.random.default_rng((plan.seed, node, gpu))
        self._place = (node, gpu)
        self._outages = outages(plan, node, gpu)
        self._is_demo = plan.workload == "demo"
        self._bias = 1.0 + self._random.uniform(-0.015, 0.015)  # boards of one model differ a little
        self._counters: dict[str, float] = {"energy": float(self._random.integers(1, 10**9))}

    def read(self, seconds: Floats, kinds: Floats, pace: Pace | None) -> tuple[dict[str, Floats], Floats]:
        """Columns of the given seconds (a value each), and where the board was lost."""
        n = len(seconds)
        is_training = kinds == KINDS.index("training")
        hot = self._meets(THROTTLED) & (seconds >= THROTTLED[2]) & is_training
        saving = is_training & (seconds % CHECKPOINT_EVERY_S < CHECKPOINT_LASTS_S)
        gone = self._meets(LOST) & (seconds >= LOST[2]) & (seconds < LOST[3])
        for from_s, to_s in self._outages:
            gone |= (seconds >= from_s) & (seconds < to_s)
        slow = np.where(hot, 0.72, 1.0) * np.where(saving, 0.05, 1.0)
        power = self._draw(_POWER_W, kinds) * self._bias * np.where(hot, 0.8, 1.0)
        power = np.clip(np.where(saving, 190.0 + power * 0.02, power), 60.0, POWER_LIMIT_W + 12)
        if pace is not None:
            power = pace.power(power)
        broken = self._meets(HBM_ERROR) & (seconds >= HBM_ERROR[2])
        temperature = np.round(24.5 + 0.06 * power + np.where(hot, 24.0, 0.0)).astype(np.int64)
        busy = kinds >= KINDS.index("training")
        clock = np.where(hot, 1410, np.where(busy, 1980, 345))
        moved = _per_kind(_NVLINK_BYTES_PER_S, kinds) * slow
        nvlink = self._grow("nvlink", moved if pace is None else moved * pace.share, gone).astype(np.int64)
        pcie = self._grow("pcie", _per_kind(_PCIE_BYTES_PER_S, kinds), gone).astype(np.int64)
        capped = (power > POWER_LIMIT_W - 8) & ~hot
        values = {
            "power_w": np.round(power, 3),
            "power_instant_w": np.round(np.clip(power + self._random.normal(0, 6, n), 60, None), 3),
            "power_limit_w": np.full(n, POWER_LIMIT_W),
            "energy_j": np.round(self._grow("energy", power, gone), 3),
            "gpu_util_ratio": np.round(np.clip(self._draw(_GPU_UTIL, kinds) * np.where(saving, 0.1, 1), 0, 1), 2),
            "memory_util_ratio": np.round(np.clip(self._draw(_DRAM, kinds) * slow * 0.8, 0, 1), 2),
            "graphics_active_ratio": _share(self._draw(_GPU_UTIL, kinds) * slow),
            "sm_active_ratio": _share(self._draw(_SM, kinds) * slow),
            "sm_occupancy_ratio": _share(self._draw(_SM, kinds) * slow * 0.33),
            "tensor_active_ratio": _share(self._draw(_TENSOR, kinds) * slow),
            "dram_active_ratio": _share(self._draw(_DRAM, kinds) * slow),
            "memory_used_bytes": (_per_kind(_MEMORY_USED, kinds) * MEMORY_TOTAL_BYTES).astype(np.int64),
            "memory_total_bytes": np.full(n, MEMORY_TOTAL_BYTES),
            "memory_reserved_bytes": np.full(n, 478 << 20),
            "temperature_c": temperature,
            "memory_temperature_c": temperature + 9,
            "sm_clock_mhz": clock,
            "graphics_clock_mhz": clock,
            "memory_clock_mhz": np.full(n, 2619),
            "performance_state": np.zeros(n, np.int64),
            "event_reasons": np.select([hot, capped, ~busy], [0x20, 0x4, 0x1], 0),
            "throttle_power_cap_ns": self._grow("cap", np.where(capped, 3e8, 0.0), gone).astype(np.int64),
            "throttle_sw_thermal_ns": self._grow("thermal", np.where(hot, 8.5e8, 0.0), gone).astype(np.int64),
            "throttle_hw_thermal_ns": np.zeros(n, np.int64),
            "throttle_power_brake_ns": np.zeros(n, np.int64),
            "nvlink_tx_bytes": nvlink,
            "nvlink_rx_bytes": nvlink,
            "pcie_tx_bytes": pcie // 2,
            "pcie_rx_bytes": pcie,
            "pcie_link_generation": np.full(n, 5),
            "pcie_link_width": np.full(n, 16),
            "pcie_replay_count": np.zeros(n, np.int64),
            "ecc_corrected_count": np.where(broken, 3, 0),
            "ecc_uncorrected_count": np.where(broken, 1, 0),
            "remapped_corrected_rows": np.zeros(n, np.int64),
            "remapped_uncorrected_rows": np.where(broken, 1, 0),
            "remap_pending": np.where(broken, 1, 0),
            "remap_failed": np.zeros(n, np.int64),
            "recovery_action": np.where(broken, 1, 0),
        }
        if pace is not None:
            pace.change(values)
        return values, gone

    def _meets(self, incident: tuple[int, ...]) -> bool:
        """Is this the board of one of the demonstration's fixed incidents?"""
        return self._is_demo and self._place == incident[:2]

    def _draw(self, table: dict[str, tuple[float, float]], kinds: Floats) -> Floats:
        mean = np.array([table[kind][0] for kind in KINDS])[kinds]
        spread = np.array([table[kind][1] for kind in KINDS])[kinds]
        drawn: Floats = mean + spread * self._random.standard_normal(len(kinds))
        return drawn

    def _grow(self, name: str, per_second: Floats, gone: Floats) -> Floats:
        """A counter: it stands still while the board is lost, and starts again at 0 when it returns."""
        total: Floats = self._counters.get(name, 0.0) + np.cumsum(np.where(gone, 0.0, per_second) * self._interval)
        lost = np.flatnonzero(gone)
        if lost.size:
            total[lost[-1] :] -= total[lost[-1]]
        self._counters[name] = float(total[-1])
        return total


def _share(values: Floats) -> Floats:
    share: Floats = np.round(np.clip(values, 0, 1), 4)
    return share


def _per_kind(table: dict[str, float], kinds: Floats) -> Floats:
    each: Floats = np.array([table[kind] for kind in KINDS])[kinds]
    return each
