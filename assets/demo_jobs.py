"""Jobs of a synthetic cluster: scheduler records, devices and training logs that fit its telemetry.

Belongs here: what `slurm` and `training-log` would have been given on that cluster. Does not belong here: who holds
which boards when (`sources.telemetry.synthetic_jobs`), samples and events. Marked `is_synthetic`.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Final

from assets.street import receive
from sources.base import Payload
from sources.registry import all_sources
from sources.telemetry.synthetic import CHECKPOINT_EVERY_S, CHECKPOINT_LASTS_S
from sources.telemetry.synthetic_jobs import Attempt, attempts
from sources.telemetry.synthetic_plan import Plan
from sources.telemetry.synthetic_story import THROTTLED
from warehouse.home import Home

START_UP_S: Final = 180
TOKENS_PER_GPU_S: Final = 6830  # 0.40 of the BF16 peak of an H100 for the model below
GLOBAL_BATCH, SEQ_LEN, MODEL = 128, 8192, "llama-3.1-8b"
HOT_RATIO: Final = 1.12
STEPS_A_LINE: Final = 10
SMALL_GPUS: Final = 8
CORES: Final = 96
_PEOPLE: Final = (("mia", "research", "llm"), ("noa", "research", "vision"), ("kim", "product", "chat"))


def provide_demo_jobs(home: Home, plan: Plan | None = None) -> None:
    """Land the jobs, devices and logs of a synthetic cluster, by default the demonstration's. Twice changes nothing."""
    plan = plan or Plan()
    known = attempts(plan)
    receive(home, all_sources()["slurm"], [scheduler_payload(plan, known)])
    receive(home, all_sources()["training-log"], list(log_payloads(plan, known)))


def scheduler_payload(plan: Plan, known: Sequence[Attempt]) -> Payload:
    """What `scontrol -d show job` would have said of all of them at the end of the plan."""
    blocks = "\n".join(_block(plan, one) for one in known)
    meta = {"cluster": plan.cluster, "is_synthetic": "true"}
    return Payload(
        "slurm",
        "file:demo-jobs.txt",
        _at(plan, plan.seconds),
        "text/plain",
        blocks.encode(),
        stream=f"{plan.cluster}/jobs",
        meta=meta,
    )


_ENDS: Final = {
    "completed": ("COMPLETED", "0:0"),
    "cancelled": ("CANCELLED", "0:15"),
    "failed": ("FAILED", "1:0"),
    "node_fail": ("NODE_FAIL", "0:0"),
    "running": ("RUNNING", "0:0"),
}


def _block(plan: Plan, one: Attempt) -> str:
    number, _, task = one.job_id.partition("_")
    user, account, project = _PEOPLE[int(number) % len(_PEOPLE)]
    state, code = _ENDS[one.state]
    held, gpus = one.nodes, len(one.boards)
    job_id = f"JobId={number}{int(task):04d} ArrayJobId={number} ArrayTaskId={task}" if task else f"JobId={number}"
    cores = CORES * gpus // plan.gpus
    lines = [
        f"{job_id} JobName={one.kind}",
        f"   UserId={user}(1000) GroupId=users(100) Account={account} QOS=normal WCKey={project}",
        f"   JobState={state} Reason=None Restarts={one.attempt} ExitCode={code}",
        f"   SubmitTime={_stamp(plan, one.submitted_s)} EligibleTime={_stamp(plan, one.submitted_s)}",
        f"   StartTime={_stamp(plan, one.from_s)} EndTime={'Unknown' if one.state == 'running' else _stamp(plan, one.to_s)}",
        f"   Partition=gpu NumNodes={len(held)} NumCPUs={cores}",
        f"   NodeList={','.join(plan.node(node) for node in held)}",
        f"   ReqTRES=gres/gpu={gpus} AllocTRES=node={len(held)},gres/gpu={gpus}",
        *(
            f"     Nodes={plan.node(node)} CPU_IDs={_ranges(_cores(plan, mine))} Mem=0 "
            f"GRES=gpu:h100:{len(mine)}(IDX:{_ranges(mine)})"
            for node, mine in held.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _cores(plan: Plan, gpus: Sequence[int]) -> list[int]:
    """Cores of the GPUs: each has its part of the node's."""
    part = CORES // plan.gpus
    return list(range(CORES)) if len(gpus) == plan.gpus else [g * part + core for g in gpus for core in range(part)]


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers as Slurm writes them: 0-3,6."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def log_payloads(plan: Plan, known: Sequence[Attempt]) -> Iterator[Payload]:
    """The training log of each attempt that got as far as a step. A later attempt goes on from the last checkpoint."""
    saved: dict[str, int] = {}
    for one in known:
        if one.kind != "training":
            continue
        lines, saved[one.job_id] = _log(plan, one, saved.get(one.job_id, 0))
        if len(lines) == 1:
            continue
        meta = {"cluster": plan.cluster, "job_id": one.job_id, "attempt": str(one.attempt), "is_synthetic": "true"}
        yield Payload(
            "training-log",
            f"file:demo-{one.job_id}-{one.attempt}.jsonl",
            _at(plan, plan.seconds),
            "application/jsonl",
            "".join(json.dumps(line) + "\n" for line in lines).encode(),
            stream=f"{plan.cluster}/{one.job_id}",
            meta=meta,
        )


def _log(plan: Plan, one: Attempt, step: int) -> tuple[list[dict[str, object]], int]:
    gpus = len(one.boards)
    batch, each = _batch(gpus), _steps_a_line(gpus)
    usual = batch * SEQ_LEN / (TOKENS_PER_GPU_S * gpus)
    facts = {"event": "run", "model_config_id": MODEL, "seq_len": SEQ_LEN, "global_batch": batch, "gpus": gpus}
    lines: list[dict[str, object]] = [{**facts, "data_parallel": gpus, "precision": "bf16", "recompute": "none"}]
    clock, saved = one.from_s + START_UP_S, step
    next_save = (clock // CHECKPOINT_EVERY_S + 1) * CHECKPOINT_EVERY_S
    while True:
        if clock >= next_save:
            lines.append(_phase(plan, clock, clock + CHECKPOINT_LASTS_S, step))
            clock, saved, next_save = clock + CHECKPOINT_LASTS_S, step, next_save + CHECKPOINT_EVERY_S
        # A little unevenness, the same on every run.
        seconds = usual * _held_back(plan, one, clock) * (1 + ((step * 37) % 11 - 5) * 0.0006)
        if clock + each * seconds > one.to_s:
            return lines, saved
        step, clock = step + each, clock + each * seconds
        loss = 2.0 + 8.0 / (1 + step / 40)
        told = {"event": "step", "step": step, "at": _at(plan, clock).isoformat(), "step_seconds": round(seconds, 4)}
        lines.append({**told, "tokens": batch * SEQ_LEN, "loss": round(loss, 4)})


def _batch(gpus: int) -> int:
    """Sequences of a step: the same for jobs of a node to 128 GPUs, fewer below, at least one a GPU above."""
    return 16 * gpus if gpus < SMALL_GPUS else max(GLOBAL_BATCH, gpus)


def _steps_a_line(gpus: int) -> int:
    """A line for every step of a small job, else for about 100 seconds."""
    if gpus < SMALL_GPUS:
        return 1
    step_s = _batch(gpus) * SEQ_LEN / (TOKENS_PER_GPU_S * max(gpus, 2 * SMALL_GPUS))
    return STEPS_A_LINE * max(1, round(96 / step_s / STEPS_A_LINE))


def _held_back(plan: Plan, one: Attempt, second: float) -> float:
    """How many times its usual length a step takes: a hot board of the demonstration, or stragglers."""
    is_hot = plan.workload == "demo" and THROTTLED[0] in one.nodes and second >= THROTTLED[2]
    slow = [s.slowdown for s in one.slow if s.from_s <= second < s.to_s]
    return max([HOT_RATIO if is_hot else 1.0, *slow])


def _phase(plan: Plan, begin: float, end: float, step: int) -> dict[str, object]:
    span = {"from_at": _at(plan, begin).isoformat(), "to_at": _at(plan, end).isoformat()}
    return {"event": "phase", "phase": "checkpoint_save", **span, "step": step}


def _at(plan: Plan, second: float) -> dt.datetime:
    return plan.start_at + dt.timedelta(microseconds=round(second * 1e6))


def _stamp(plan: Plan, second: float) -> str:
    return f"{_at(plan, second):%Y-%m-%dT%H:%M:%S}"
