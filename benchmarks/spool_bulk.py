"""Many full-size spool segments in seconds, and how fast the spool is written, read, cleaned and rolled up.

Belongs here: bulk segments for measuring. Does not belong here: the synthetic cluster people see
(`sources/telemetry/synthetic.py`), whose story these repeat without its incidents.
Run: `python benchmarks/spool_bulk.py [nodes] [ticks]`; prints one JSON object.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import (
    CLEAN,
    FRAME_BYTES,
    GPU_COLUMNS,
    HEAD,
    HEADER,
    MAGIC,
    RECORD,
    SAMPLES,
    SYNC,
    VERSION,
    Seal,
    Slot,
    frame,
    header_payload,
)
from sources.telemetry.synthetic import ACCELERATOR, ticks
from sources.telemetry.synthetic_plan import Plan
from sources.telemetry.synthetic_story import COUNTERS, NVLINKS

TEMPLATE = Plan(cluster="bulk", nodes=1)


def bulk_segments(
    directory: Path,
    *,
    nodes: int,
    tick_count: int,
    interval_s: float = 1.0,
    hours_from: int = 6,
    links: bool = True,
) -> int:
    """Write one sealed segment for each node; returns the number of samples.

    links: also what an agent tells of its NVLinks meanwhile, which at a sample every 10 s is one record for five samples.

    Busy and idle readings come from the synthetic cluster. Every node has noise of its own, so that no node's bytes
    repeat another's: a compressor would find that, and no real cluster has it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        cluster="bulk", nodes=1, seconds=int((hours_from * 3600) + tick_count * interval_s), interval_s=interval_s
    )
    rows = _rows(plan, tick_count)
    count = rows.shape[0]
    for node in range(nodes):
        body = _segment(plan, node, _varied(rows, node, interval_s), links=links)
        (directory / f"bulk~{node:05d}~nvml~{0:08d}.seg").write_bytes(body)
    return nodes * count * plan.gpus


def _rows(plan: Plan, tick_count: int) -> np.ndarray[Any, Any]:
    kinds = [("t", "<i8"), ("slot", "<u2"), ("null", "<u8"), *((c.name, "<" + c.type) for c in GPU_COLUMNS)]
    rows = np.zeros((tick_count, plan.gpus), np.dtype(kinds))
    rows["null"], rows["slot"] = (1 << len(GPU_COLUMNS)) - 1, np.arange(plan.gpus)
    wanted = plan.ticks - tick_count
    slots = {plan.gpu_uuid(0, gpu): gpu for gpu in range(plan.gpus)}
    for i, (time_us, told) in enumerate(ticks(plan, 0)):
        if i < wanted:
            continue
        rows["t"][i - wanted] = time_us
        for uuid, values in told:
            gpu = slots[uuid]  # a lost GPU is missing from the tick
            null = sum(1 << k for k, c in enumerate(GPU_COLUMNS) if c.name not in values)
            rows[i - wanted, gpu] = (time_us, gpu, null, *(values.get(c.name, 0) for c in GPU_COLUMNS))
    return rows


GAUGES = ("power_w", "power_instant_w", "temperature_c", "memory_temperature_c")
BLOCK_TICKS = 64  # readings are shuffled within so many ticks: phases of the day stay where they are
UNEVEN = 0.05  # a training step moves a fixed number of bytes; its pace drifts from block to block


def _varied(rows: np.ndarray[Any, Any], node: int, interval_s: float) -> np.ndarray[Any, Any]:
    """The same day with other noise: gauges shuffled nearby, counters grown unevenly from another start."""
    chance = np.random.default_rng(node)
    varied = rows.copy()
    count, gpus = rows.shape
    order = (np.arange(count) // BLOCK_TICKS)[:, None] + chance.random((count, gpus))
    places = np.argsort(order, axis=0)
    names = [c.name for c in GPU_COLUMNS if c.name in GAUGES or c.name.endswith("_ratio")]
    for name in names:
        varied[name] = np.take_along_axis(rows[name], places, axis=0)
    varied["power_w"] = np.round(varied["power_w"] * chance.uniform(0.97, 1.03, gpus), 3)
    varied["energy_j"] = np.round(
        chance.integers(1, 10**9, gpus) + np.cumsum(varied["power_w"] * interval_s, axis=0), 3
    )
    blocks = chance.uniform(1 - UNEVEN, 1 + UNEVEN, (count // BLOCK_TICKS + 1, gpus))
    rate = np.repeat(blocks, BLOCK_TICKS, axis=0)[:count]
    for name in (c.name for c in GPU_COLUMNS if c.name.endswith(("x_bytes", "_ns"))):
        step = np.diff(rows[name].astype(np.int64), axis=0, prepend=rows[name][:1].astype(np.int64)).clip(0)
        unit = 1024 if name.endswith("bytes") else 1  # NVML counts links in KiB
        grown = np.cumsum((step * rate).astype(np.int64) // unit * unit, axis=0)
        varied[name] = (rows[name][:1] // unit * unit + grown).astype(np.uint64)
    varied["pcie_replay_count"] = np.cumsum(chance.random((count, gpus)) < 0.002 * (node % 7 == 0), axis=0)
    return varied


def _segment(plan: Plan, node: int, rows: np.ndarray[Any, Any], *, links: bool) -> bytes:
    slots = [list(Slot(plan.gpu_uuid(node, gpu), gpu, None, ACCELERATOR)) for gpu in range(plan.gpus)]
    header = header_payload(
        {
            "version": VERSION,
            "segment_id": f"bulk-{node:05d}-00000000",
            "segment_number": 0,
            "stream_id": f"bulk-{node:05d}",
            "created_at_us": int(rows["t"][0, 0]),
            "cluster": "bulk",
            "node": f"bulk-{node:05d}",
            "source": "nvml",
            "is_synthetic": True,
            "boot_id": None,
            "columns": [list(c) for c in GPU_COLUMNS],
            "slots": slots,
        }
    )
    count, gpus = rows.shape
    length = gpus * rows.dtype.itemsize
    first, last = int(rows["t"][0, 0]), int(rows["t"][-1, 0])
    fields = [(name, kind, (gpus,)) for name, (kind, *_) in (rows.dtype.fields or {}).items()]
    frames = np.zeros(count, [("head", f"V{HEAD.size}"), ("crc", "<u4"), *fields])
    for name, *_ in fields:
        frames[name] = rows[name]
    view = memoryview(frames.view(np.uint8)).cast("B")
    size = FRAME_BYTES + length
    for i in range(count):
        head = HEAD.pack(SYNC, SAMPLES, gpus, length, i + 1)
        at = i * size
        view[at : at + HEAD.size] = head
        frames["crc"][i] = zlib.crc32(view[at + FRAME_BYTES : at + size], zlib.crc32(head))
    records = _link_records(plan, node, first, last) if links else []
    told = [frame(RECORD, count + 1 + k, row) for k, row in enumerate(records)]
    body = b"".join((MAGIC, frame(HEADER, 0, header), view, *told, frame(HEADER, count + len(told) + 1, header)))
    return body + Seal(len(body), count + len(told) + 2, count * gpus, first, last, CLEAN).pack(zlib.crc32(body))


BAD_NODES = 7  # one link of every so many nodes errs
ERRORS_PER_MINUTE = {"replay": 2.0, "recovery": 0.2, "crc_flit": 6.0, "crc_data": 1.0}


def _link_records(plan: Plan, node: int, first_us: int, last_us: int) -> list[bytes]:
    """NVLink error counters as an agent in mid-life tells them: each once an hour, and a change within the minute."""
    chance = np.random.default_rng((node, 1))
    series = [(gpu, link, counter) for gpu in range(plan.gpus) for link in range(NVLINKS) for counter in COUNTERS]
    bad = (int(chance.integers(plan.gpus)), int(chance.integers(NVLINKS))) if node % BAD_NODES == 0 else None
    told: list[tuple[int, int, int, str, int]] = []
    for place, (gpu, link, counter) in enumerate(series):
        if (gpu, link) == bad:
            minutes = np.arange(first_us, last_us + 1, 60_000_000)
            values = np.cumsum(chance.poisson(ERRORS_PER_MINUTE[counter], len(minutes)))
            grew = np.diff(values, prepend=-1) > 0
            told += [
                (int(at), gpu, link, counter, int(value)) for at, value in zip(minutes[grew], values[grew], strict=True)
            ]
        else:
            begin = first_us + 3_600_000_000 * place // len(series)
            told += [(at, gpu, link, counter, 0) for at in range(begin, last_us + 1, 3_600_000_000)]
    uuids = [plan.gpu_uuid(node, gpu) for gpu in range(plan.gpus)]
    return [
        f'{{"kind":"link_counter","row":{{"sampled_at":{at},"device":"{uuids[gpu]}","link_kind":"nvlink",'
        f'"link_index":{link},"counter":"{counter}","value":{value}}}}}'.encode()
        for at, gpu, link, counter, value in sorted(told)
    ]


def writer_us_per_tick(count: int = 5000) -> float:
    """CPU time of the writer for a tick of eight GPUs, file writes included."""
    told = [rows for _, rows in zip(range(100), (r for _, r in ticks(TEMPLATE, 0)), strict=False)]
    directory = tempfile.mkdtemp()
    try:
        with SpoolWriter(directory, cluster="b", node="n", source="nvml", is_synthetic=True) as spool:
            spool.samples(1, told[0])
            before = time.process_time()
            for k in range(count):
                spool.samples(k * 1_000_000, told[k % 100])
            return (time.process_time() - before) / count * 1e6
    finally:
        shutil.rmtree(directory)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    before = time.perf_counter()
    result = work()
    return result, time.perf_counter() - before


def main() -> None:
    from assets.telemetry_clean import clean_segments
    from assets.telemetry_rollup import rollup_hours
    from sources.telemetry.segment import read_segments

    nodes, tick_count = (int(a) for a in (*sys.argv[1:3], "128", "600")[:2])
    told: dict[str, float] = {"writer_us_per_tick_of_8": round(writer_us_per_tick(), 1)}
    with tempfile.TemporaryDirectory() as directory:
        rows, seconds = _timed(lambda: bulk_segments(Path(directory), nodes=nodes, tick_count=tick_count))
        told |= {"rows": rows, "generate_s": round(seconds, 2)}
        for attempt in ("cold", "warm"):
            paths = sorted(Path(directory).glob("*.seg"))
            batch, read_s = _timed(lambda paths=paths: read_segments((p.name, p) for p in paths))
            cleaned, clean_s = _timed(lambda batch=batch: clean_segments(batch))
            frame_ = cleaned.frames["telemetry.gpu_samples"]
            _, roll_s = _timed(lambda frame_=frame_: rollup_hours(frame_.lazy()))
            told |= {
                f"{attempt}_read_rows_per_s": round(rows / read_s),
                f"{attempt}_clean_rows_per_s": round(rows / clean_s),
                f"{attempt}_rollup_rows_per_s": round(rows / roll_s),
            }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
