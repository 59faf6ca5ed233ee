"""A made-up week of twelve GPUs with planted faults, as spool segments, scheduler exports, mappings and logs.

Day 0: a job gets 16 GPU-hours and does nothing; a node dies for half a day under its job. Day 1: three hours of a job
are slow and nothing is hot. Day 2: a rack is hot for six hours. Days 3 and 4: a job fails and goes on from a state
half an hour before midnight. Day 5: two jobs share a GPU as MIG instances.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sources.base import Payload
from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Slot

CLUSTER = "week"
START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
DAYS, INTERVAL_S, HOUR = 7, 60, 3600
NODES, GPUS = 6, 2
ACCELERATOR = "nvidia-h100-sxm5-80gb"
MEMORY = 80 << 30
IDLE_W, LOADING_W, TRAINING_W, HOT_W, MIG_W = 67.0, 200.0, 600.0, 450.0, 300.0
STEP_S, TOKENS = 60.0, 1_000_000


@dataclass(frozen=True)
class Run:
    """One attempt: its nodes, hours of the week, seconds of start-up, and (steps, seconds of each) from a first step on."""

    job: str
    attempt: int
    nodes: tuple[int, ...]
    begin_h: float
    end_h: float
    state: str
    start_up_s: int = 0
    first_step: int = 0
    steps: tuple[tuple[int, float], ...] = ()


# Every run ends with its last step: start-up and steps fill the hours.
RUNS = (
    Run("9001", 0, (5,), 0, 8, "COMPLETED"),  # holds two GPUs and does nothing
    Run("9002", 0, (0,), 0, 6, "NODE_FAIL", 300, 0, ((355, 60.0),)),
    Run("9003", 0, (1,), 24, 36, "COMPLETED", 300, 0, ((175, 60.0), (120, 90.0), (360, 60.0))),
    Run("9004", 0, (2, 3), 48, 72, "COMPLETED", 600, 0, ((590, 60.0), (288, 75.0), (480, 60.0))),
    Run("9005", 0, (4,), 92, 102, "NODE_FAIL", 300, 0, ((595, 60.0),)),
    Run("9005", 1, (4,), 102.5, 112, "COMPLETED", 300, 205, ((565, 60.0),)),
)
DOWN = (0, 6, 18)  # node, hours
HOT = ((2, 3), 58, 64)
MIG = (1, 1, ("MIG-a", "3g.40gb", 120, 130, "9006"), ("MIG-b", "4g.40gb", 125, 135, "9007"))


def gpu(node: int, number: int) -> str:
    return f"GPU-{node:08d}-0000-0000-0000-{number:012d}"


def at(hours: float) -> dt.datetime:
    return START + dt.timedelta(hours=hours)


def watts(node: int, number: int, second: int) -> float:
    """Power of a GPU; it stands still between the whole minutes at which it changes."""
    hours = second / HOUR
    if node == MIG[0] and number == MIG[1] and MIG[2][2] <= hours < MIG[3][3]:
        return MIG_W
    for run in RUNS:
        if node in run.nodes and run.begin_h <= hours < run.end_h and run.steps:
            if second < run.begin_h * HOUR + run.start_up_s:
                return LOADING_W
            return HOT_W if node in HOT[0] and HOT[1] <= hours < HOT[2] else TRAINING_W
    return IDLE_W


def write_spool(folder: Path) -> None:
    """Segments of every node: one for each day and node."""
    for node in range(NODES):
        _write_node(folder, node)


def _write_node(folder: Path, node: int) -> None:
    slots = [Slot(gpu(node, n), n, None, ACCELERATOR) for n in range(GPUS)]
    energy, heat, now = [0.0] * GPUS, [0] * GPUS, [0.0]
    with SpoolWriter(
        folder, cluster=CLUSTER, node=f"w{node}", source="nvml", is_synthetic=True, slots=slots,
        segment_seconds=86_400.0, fsync_ms=1e12, clock=lambda: now[0], stream_id=f"{node + 1:x}" * 32,
    ) as spool:  # fmt: skip
        for kind, row, when in _records(node):
            spool.record(kind, row, when)
        for second in range(0, DAYS * 24 * HOUR, INTERVAL_S):
            now[0] = float(second)
            if node == DOWN[0] and DOWN[1] * HOUR <= second < DOWN[2] * HOUR:
                energy = [0.0] * GPUS
                continue
            rows = []
            for n in range(GPUS):
                power = watts(node, n, second)
                rows.append((gpu(node, n), _reading(power, energy[n], heat[n])))
                energy[n] += power * INTERVAL_S
                heat[n] += 50_000_000_000 if power == HOT_W else 0
            for name, _, begin_h, end_h, _job in MIG[2:] if node == MIG[0] else ():
                if begin_h * HOUR <= second < end_h * HOUR:
                    spool.slot(name, parent_gpu_uuid=gpu(node, MIG[1]))
                    rows.append((name, {"tensor_active_ratio": 0.3, "sm_active_ratio": 0.6}))
            spool.samples(_us(second), rows)


def _reading(power: float, energy: float, heat: int) -> dict[str, float]:
    active = 0.0 if power == IDLE_W else 0.1 if power == LOADING_W else 0.5
    return {"power_w": power, "power_limit_w": 700.0, "energy_j": energy, "tensor_active_ratio": active, "sm_active_ratio": active,
            "memory_total_bytes": MEMORY, "memory_used_bytes": MEMORY // 100 if power == IDLE_W else MEMORY // 2,
            "throttle_hw_thermal_ns": heat, "throttle_sw_thermal_ns": 0, "throttle_power_brake_ns": 0}  # fmt: skip


def _us(second: float) -> int:
    return int(START.timestamp()) * 1_000_000 + round(second * 1e6)


def _records(node: int) -> Iterator[tuple[str, dict[str, object], int]]:
    place = {"rack": f"rack-{node // 2}", "accelerator_id": ACCELERATOR, "memory_total_bytes": MEMORY}
    for n in range(GPUS):
        board = {"valid_from": _us(0), "gpu_uuid": gpu(node, n), "gpu_index": n, "gpu_serial": f"S{node}{n}", **place}
        yield "inventory", board, _us(0)
    for name, profile, begin_h, _, _job in MIG[2:] if node == MIG[0] else ():
        row = {
            "valid_from": _us(begin_h * HOUR),
            "gpu_uuid": name,
            "parent_gpu_uuid": gpu(node, MIG[1]),
            "mig_profile": profile,
        }
        yield "inventory", row, _us(0)
    states = [(0, "idle"), (DOWN[1], "down"), (DOWN[2], "idle")] if node == DOWN[0] else [(0, "idle")]
    for hours, state in states:
        yield "node_state", {"valid_from": _us(hours * HOUR), "state": state}, _us(0)


def scheduler(until_h: float) -> Payload:
    """What `scontrol -d show job` said of every run that had ended by then."""
    blocks = "\n".join(_block(run) for run in RUNS if run.end_h <= until_h)
    meta = {"cluster": CLUSTER, "is_synthetic": "true"}
    return Payload(
        "slurm",
        f"file:jobs-{until_h}.txt",
        at(until_h),
        "text/plain",
        blocks.encode(),
        stream=f"{CLUSTER}/jobs",
        meta=meta,
    )


def _block(run: Run) -> str:
    names, count = [f"w{n}" for n in run.nodes], len(run.nodes) * GPUS
    lines = [
        f"JobId={run.job} JobName=j{run.job}",
        f"   UserId=mia(1000) GroupId=users(100) Account=llm QOS=normal WCKey=p{run.job}",
        f"   JobState={run.state} Reason=None Restarts={run.attempt} ExitCode=0:0",
        f"   SubmitTime={at(run.begin_h):%Y-%m-%dT%H:%M:%S} EligibleTime={at(run.begin_h):%Y-%m-%dT%H:%M:%S}",
        f"   StartTime={at(run.begin_h):%Y-%m-%dT%H:%M:%S} EndTime={at(run.end_h):%Y-%m-%dT%H:%M:%S}",
        f"   Partition=gpu NumNodes={len(names)} NumCPUs={len(names) * 96}",
        f"   NodeList={','.join(names)}",
        f"   ReqTRES=gres/gpu={count} AllocTRES=node={len(names)},gres/gpu={count}",
        *(f"     Nodes={n} CPU_IDs=0-95 Mem=0 GRES=gpu:h100:{GPUS}(IDX:0-{GPUS - 1})" for n in names),
    ]
    return "\n".join(lines) + "\n"


def mappings() -> Iterator[Payload]:
    """The mapping directory of the node with the MIG instances, each time a job came or went."""
    node, _, *instances = MIG
    for hours in sorted({h for i in instances for h in i[2:4]}):
        files = {name: (job if begin <= hours < end else "") for name, _, begin, end, job in instances}
        meta = {"cluster": CLUSTER, "node": f"w{node}", "is_synthetic": "true"}
        yield Payload("job-mapping", f"file:w{node}", at(hours), "application/json", json.dumps(files).encode(),
                      stream=f"{CLUSTER}/w{node}", meta=meta)  # fmt: skip


def logs(jobs: tuple[str, ...]) -> Iterator[Payload]:
    """The training log of each run of these jobs, a line for each step."""
    for run in RUNS:
        if run.job not in jobs or not run.steps:
            continue
        gpus = len(run.nodes) * GPUS
        facts = {
            "event": "run",
            "seq_len": 1000,
            "global_batch": 1000,
            "gpus": gpus,
            "model_config_id": "m",
            "precision": "bf16",
        }
        lines: list[dict[str, object]] = [facts]
        clock, step = run.begin_h * HOUR + run.start_up_s, run.first_step
        for count, seconds in run.steps:
            for _ in range(count):
                clock, step = clock + seconds, step + 1
                when = (START + dt.timedelta(seconds=clock)).isoformat()
                lines.append({"event": "step", "step": step, "at": when, "step_seconds": seconds, "tokens": TOKENS})
        assert clock == run.end_h * HOUR, f"{run.job}: the log does not fill the run"
        meta = {"cluster": CLUSTER, "job_id": run.job, "attempt": str(run.attempt), "is_synthetic": "true"}
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
        yield Payload("training-log", f"file:{run.job}-{run.attempt}.jsonl", at(run.end_h), "application/jsonl", body,
                      stream=f"{CLUSTER}/{run.job}", meta=meta)  # fmt: skip
