"""Jobs of the demonstration cluster: scheduler records, devices and training logs that fit its telemetry.

Belongs here: what `slurm` and `training-log` would have been given on that cluster. Does not belong here: its
samples and events (`sources.telemetry.synthetic`), which this follows phase by phase. Marked `is_synthetic`.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from assets.street import receive
from sources.base import Payload
from sources.registry import all_sources
from sources.telemetry.synthetic import CHECKPOINT_EVERY_S, CHECKPOINT_LASTS_S, Kind, Plan, phases
from sources.telemetry.synthetic_story import THROTTLED
from warehouse.home import Home

START_UP_S: Final = 180
TOKENS_PER_GPU_S: Final = 6830  # 0.40 of the BF16 peak of an H100 for the model below
GLOBAL_BATCH, SEQ_LEN, MODEL = 128, 8192, "llama-3.1-8b"
HOT_RATIO: Final = 1.12
STEPS_A_LINE: Final = 10
_PEOPLE: Final = (("mia", "research", "llm"), ("noa", "research", "vision"), ("kim", "product", "chat"))


@dataclass(slots=True)
class Run:
    """One attempt of one job: its nodes and seconds of the plan."""

    job_id: str
    attempt: int
    kind: Kind
    nodes: list[int]
    from_s: float
    to_s: float


def provide_demo_jobs(home: Home, plan: Plan | None = None) -> None:
    """Land the jobs, devices and logs of the demonstration cluster. Doing it again changes nothing."""
    plan = plan or Plan()
    known = runs(plan)
    receive(home, all_sources()["slurm"], [scheduler_payload(plan, known)])
    receive(home, all_sources()["training-log"], list(log_payloads(plan, known)))


def runs(plan: Plan) -> list[Run]:
    """The attempts behind the plan's phases; a job id of the plan becomes one that Slurm could have given."""
    found: dict[tuple[str, int], Run] = {}
    for phase in phases(plan):
        if phase.job_id is None:
            continue
        name, _, place = phase.job_id.partition("-")
        day, _, pair = place.partition("-")
        key = (f"{name}_{int(day) * 1000 + int(pair)}", phase.attempt - 1)
        run = found.setdefault(key, Run(*key, phase.kind, [], phase.from_s, phase.to_s))
        run.nodes.append(phase.node)
    return sorted(found.values(), key=lambda r: (r.job_id, r.attempt))


def scheduler_payload(plan: Plan, known: list[Run]) -> Payload:
    """What `scontrol -d show job` would have said of all of them at the end of the plan."""
    again = {(r.job_id, r.attempt - 1) for r in known}
    blocks = "\n".join(_block(plan, run, failed=(run.job_id, run.attempt) in again) for run in known)
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


def _block(plan: Plan, run: Run, *, failed: bool) -> str:
    array, _, task = run.job_id.partition("_")
    user, account, project = _PEOPLE[int(array) % len(_PEOPLE)]
    state, code = (
        ("NODE_FAIL", "0:0") if failed else ("CANCELLED", "0:15") if run.kind == "resident" else ("COMPLETED", "0:0")
    )
    names = [plan.node(n) for n in run.nodes]
    waited = 300 + 60 * (int(array) % 7)
    lines = [
        f"JobId={array}{int(task):04d} ArrayJobId={array} ArrayTaskId={task} JobName={run.kind}",
        f"   UserId={user}(1000) GroupId=users(100) Account={account} QOS=normal WCKey={project}",
        f"   JobState={state} Reason=None Restarts={run.attempt} ExitCode={code}",
        f"   SubmitTime={_stamp(plan, run.from_s - waited)} EligibleTime={_stamp(plan, run.from_s - waited)}",
        f"   StartTime={_stamp(plan, run.from_s)} EndTime={_stamp(plan, run.to_s)}",
        f"   Partition=gpu NumNodes={len(names)} NumCPUs={len(names) * 96}",
        f"   NodeList={','.join(names)}",
        f"   ReqTRES=gres/gpu={len(names) * plan.gpus} AllocTRES=node={len(names)},gres/gpu={len(names) * plan.gpus}",
        *(f"     Nodes={n} CPU_IDs=0-95 Mem=0 GRES=gpu:h100:{plan.gpus}(IDX:0-{plan.gpus - 1})" for n in names),
    ]
    return "\n".join(lines) + "\n"


def log_payloads(plan: Plan, known: list[Run]) -> Iterator[Payload]:
    """The training log of each attempt. A second attempt goes on from the last checkpoint of the first."""
    saved: dict[str, int] = {}
    for run in known:
        if run.kind != "training":
            continue
        lines, at_checkpoint = _log(plan, run, saved.get(run.job_id, 0))
        saved[run.job_id] = at_checkpoint
        meta = {"cluster": plan.cluster, "job_id": run.job_id, "attempt": str(run.attempt), "is_synthetic": "true"}
        yield Payload(
            "training-log",
            f"file:demo-{run.job_id}-{run.attempt}.jsonl",
            _at(plan, plan.seconds),
            "application/jsonl",
            "".join(json.dumps(line) + "\n" for line in lines).encode(),
            stream=f"{plan.cluster}/{run.job_id}",
            meta=meta,
        )


def _log(plan: Plan, run: Run, step: int) -> tuple[list[dict[str, object]], int]:
    gpus = len(run.nodes) * plan.gpus
    usual = GLOBAL_BATCH * SEQ_LEN / (TOKENS_PER_GPU_S * gpus)
    facts = {"event": "run", "model_config_id": MODEL, "seq_len": SEQ_LEN, "global_batch": GLOBAL_BATCH, "gpus": gpus}
    lines: list[dict[str, object]] = [{**facts, "data_parallel": gpus, "precision": "bf16", "recompute": "none"}]
    clock, saved = run.from_s + START_UP_S, step
    next_save = (clock // CHECKPOINT_EVERY_S + 1) * CHECKPOINT_EVERY_S
    while True:
        if clock >= next_save:
            lines.append(_phase(plan, clock, clock + CHECKPOINT_LASTS_S, step))
            clock, saved, next_save = clock + CHECKPOINT_LASTS_S, step, next_save + CHECKPOINT_EVERY_S
        is_hot = THROTTLED[0] in run.nodes and clock >= THROTTLED[2]
        # A little unevenness, the same on every run.
        seconds = usual * (HOT_RATIO if is_hot else 1.0) * (1 + ((step * 37) % 11 - 5) * 0.0006)
        if clock + STEPS_A_LINE * seconds > run.to_s:
            return lines, saved
        step, clock = step + STEPS_A_LINE, clock + STEPS_A_LINE * seconds
        loss = 2.0 + 8.0 / (1 + step / 40)
        told = {"event": "step", "step": step, "at": _at(plan, clock).isoformat(), "step_seconds": round(seconds, 4)}
        lines.append({**told, "tokens": GLOBAL_BATCH * SEQ_LEN, "loss": round(loss, 4)})


def _phase(plan: Plan, begin: float, end: float, step: int) -> dict[str, object]:
    span = {"from_at": _at(plan, begin).isoformat(), "to_at": _at(plan, end).isoformat()}
    return {"event": "phase", "phase": "checkpoint_save", **span, "step": step}


def _at(plan: Plan, second: float) -> dt.datetime:
    return plan.start_at + dt.timedelta(microseconds=round(second * 1e6))


def _stamp(plan: Plan, second: float) -> str:
    return f"{_at(plan, second):%Y-%m-%dT%H:%M:%S}"
