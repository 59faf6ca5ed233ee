"""Which job holds which boards of the synthetic cluster, and when: the fixed demonstration days, or drawn jobs.

Belongs here: attempts, and what they mean for one node. Does not belong here: drawing and placing jobs
(`synthetic_schedule.py`), readings (`synthetic.py`), what scheduler and training log say (`assets/demo_jobs.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from sources.telemetry.synthetic_plan import DAY_S, Kind, Plan, Straggler

State = Literal["completed", "cancelled", "failed", "node_fail", "running"]
Board = tuple[int, int]  # node, GPU


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of one job on its boards, in seconds of the plan. `slow`: what holds it back."""

    job_id: str
    attempt: int
    kind: Kind
    boards: tuple[Board, ...]
    submitted_s: float
    from_s: float
    to_s: float
    state: State
    slow: tuple[Straggler, ...] = ()

    @property
    def nodes(self) -> dict[int, list[int]]:
        """GPUs of each node."""
        held: dict[int, list[int]] = {}
        for node, gpu in self.boards:
            held.setdefault(node, []).append(gpu)
        return held


# hour from, hour to, kind, job, attempt; even nodes follow the first day, odd nodes the second, in pairs
_DAYS: Final[tuple[tuple[tuple[float, float, Kind, int, int], ...], ...]] = (
    (
        (0, 6.5, "training", 1001, 0),
        (7, 14, "training", 1002, 0),
        (15.25, 20, "training", 1002, 1),
        (20, 22, "resident", 1003, 0),
    ),
    (
        (0, 6, "inference", 1000, 0),
        (7, 14, "training", 1002, 0),
        (15.25, 20, "training", 1002, 1),
        (20, 24, "inference", 1004, 0),
    ),
)
_WAITED_S: Final = (300, 60)  # how long a job of the demonstration waited: at least, and more by its number


def attempts(plan: Plan) -> list[Attempt]:
    """Every attempt that began within the plan, by job and attempt."""
    found = [a for a in _all(plan) if a.from_s < plan.seconds]
    return sorted(found, key=lambda a: (a.job_id, a.attempt))


def on_node(plan: Plan, node: int) -> list[Attempt]:
    """Attempts that hold boards of a node, in order of time."""
    if plan.workload == "mixed":
        return _by_node(plan)[node]
    pair = range(node - node % 2, min(node - node % 2 + 2, plan.nodes))
    mine = [a for a in _demo(plan, pair) if node in a.nodes]
    return sorted(mine, key=lambda a: (a.from_s, a.job_id))


def _all(plan: Plan) -> Iterator[Attempt]:
    if plan.workload == "demo":
        for first in range(0, plan.nodes, 2):
            yield from _demo(plan, range(first, min(first + 2, plan.nodes)))
    else:
        yield from _drawn(plan)


def _demo(plan: Plan, pair: range) -> list[Attempt]:
    found: dict[tuple[str, int], Attempt] = {}
    for node in pair:
        boards = tuple((node, gpu) for gpu in range(plan.gpus))
        for day in range(-(-plan.seconds // DAY_S)):
            for begin, end, kind, number, attempt in _DAYS[node % 2]:
                from_s, to_s = day * DAY_S + begin * 3600, min(day * DAY_S + end * 3600, plan.seconds)
                if from_s >= to_s:
                    continue
                key = (f"{number}_{day * 1000 + node // 2}", attempt)
                if key in found:
                    found[key] = replace(found[key], boards=(*found[key].boards, *boards))
                    continue
                waited = _WAITED_S[0] + _WAITED_S[1] * (number % 7)
                state: State = "cancelled" if kind == "resident" else "completed"
                found[key] = Attempt(*key, kind, boards, from_s - waited, from_s, to_s, state)
    again = {(job, attempt - 1) for job, attempt in found}
    return [
        _held_back(plan, replace(a, state="node_fail") if (a.job_id, a.attempt) in again else a) for a in found.values()
    ]


def _held_back(plan: Plan, one: Attempt, more: tuple[Straggler, ...] = ()) -> Attempt:
    """The attempt with the stragglers among its boards, cut to its time. Only training waits for its slowest."""
    if one.kind != "training":
        return one
    boards = set(one.boards)
    slow = [
        replace(s, from_s=max(s.from_s, one.from_s), to_s=min(s.to_s, one.to_s))
        for s in (*plan.stragglers, *more)
        if (s.node, s.gpu) in boards and s.from_s < one.to_s and s.to_s > one.from_s
    ]
    return replace(one, slow=tuple(sorted(slow, key=lambda s: s.from_s))) if slow else one


@lru_cache(maxsize=2)
def _drawn(plan: Plan) -> tuple[Attempt, ...]:
    from sources.telemetry.synthetic_schedule import schedule

    return tuple(_held_back(plan, one, one.slow) for one in schedule(plan))


@lru_cache(maxsize=2)
def _by_node(plan: Plan) -> dict[int, list[Attempt]]:
    found: dict[int, list[Attempt]] = defaultdict(list)
    for one in sorted(_drawn(plan), key=lambda a: (a.from_s, a.job_id)):
        for node in one.nodes:
            found[node].append(one)
    return found
