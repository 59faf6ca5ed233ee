"""Chance failures of a synthetic cluster, as often and of the kinds that a published training run met.

Belongs here: when what breaks, and the records that tell of it. Does not belong here: the fixed incidents of the
demonstration day (`synthetic_story.py`), samples. Source: Llama 3, table of unexpected interruptions (419 in 54 days
on 16,384 H100: one in 50,677 GPU-hours). A day of 16 GPUs sees one in 130 days, so the demonstration sees none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sources.telemetry.synthetic_plan import Plan

GPU_HOURS_PER_FAILURE: Final = 54 * 24 * 16384 / 419
REPAIR_S: Final = (1800, 14_400)  # an hour or two, as operators tell it: our assumption, the table has none
Told = tuple[int, str, dict[str, Any]]  # time in µs, record kind, row


@dataclass(frozen=True, slots=True)
class Cause:
    """A line of the table, and how a collector would see it. `code` is the XID; `loses` the board until repaired."""

    name: str
    count: int
    code: int | None = None
    loses: bool = False
    kind: str = "xid"


# The table's counts; which XID tells of which cause is ours, from the vendor's catalogue.
CAUSES: Final = (
    Cause("Faulty GPU", 148, 79, loses=True),
    Cause("GPU HBM3 memory", 72, 94),
    Cause("Software bug", 54, 31),
    Cause("Network switch/cable", 35, kind="link_down"),
    Cause("Host maintenance (unplanned)", 32, kind="host"),
    Cause("GPU SRAM memory", 19, 48),
    Cause("GPU system processor", 17, 119),
    Cause("NIC", 7, kind="link_down"),
    Cause("NCCL watchdog timeouts", 7, kind="host"),
    Cause("Silent data corruption", 6, 48),
    Cause("GPU thermal interface and sensor", 6, kind="throttle"),
    Cause("SSD, power supply, chassis, board, CPU, memory", 14, kind="host"),
    Cause("Dependency", 2, kind="host"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of one board or node: seconds from the plan's start until it is repaired."""

    gpu: int
    from_s: float
    to_s: float
    cause: Cause


def failures(plan: Plan, node: int) -> list[Failure]:
    """What breaks in a node within the plan, in order of time. The same plan gives the same failures."""
    chance = random.Random(f"{plan.seed}/{plan.cluster}/{node}/failures")  # noqa: S311 - seeded on purpose
    rate = plan.gpus / (GPU_HOURS_PER_FAILURE * 3600)
    found: list[Failure] = []
    at = chance.expovariate(rate)
    while at < plan.seconds:
        cause = chance.choices(CAUSES, [c.count for c in CAUSES])[0]
        found.append(Failure(chance.randrange(plan.gpus), at, at + chance.uniform(*REPAIR_S), cause))
        at += chance.expovariate(rate)
    return found


def outages(plan: Plan, node: int, gpu: int) -> list[tuple[float, float]]:
    """Spans in which a board gives no samples."""
    return [(f.from_s, f.to_s) for f in failures(plan, node) if f.gpu == gpu and f.cause.loses]


def failure_records(plan: Plan, node: int) -> Iterator[Told]:
    """Events of the failures and, in the demonstration, node states: the node is drained until repaired.

    In a mixed workload the node's state follows from its jobs too, and is told with them.
    """
    for failure in failures(plan, node):
        begin, end = (plan.start_us + round(s * 1e6) for s in (failure.from_s, failure.to_s))
        device = plan.gpu_uuid(node, failure.gpu)
        event = {"occurred_at": begin, "device": device, "gpu_uuid": device, "message": failure.cause.name}
        if failure.cause.kind == "xid":
            yield (
                begin,
                "gpu_event",
                event | {"kind": "xid", "event_id": str(failure.cause.code), "code": failure.cause.code},
            )
        elif failure.cause.kind != "host":
            yield (
                begin,
                "gpu_event",
                event | {"kind": failure.cause.kind, "event_id": failure.cause.kind, "severity": "error"},
            )
        if failure.cause.loses:
            for kind, at in (("lost", begin), ("returned", end)):
                severity = "fatal" if kind == "lost" else "info"
                yield at, "gpu_event", event | {"occurred_at": at, "kind": kind, "event_id": kind, "severity": severity}
            why = {"from_at": begin, "to_at": end, "device": device, "table_name": "gpu_samples"}
            yield end, "null_reason", why | {"column_name": "*", "reason": "lost"}
        for state, at in (("drain", begin), ("allocated", end)) if plan.workload == "demo" else ():
            reason = failure.cause.name if state == "drain" else None
            yield at, "node_state", {"valid_from": at, "state": state, "reason": reason}
