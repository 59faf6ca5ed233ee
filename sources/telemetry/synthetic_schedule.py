"""Jobs of every size that come and go: drawn from a published trace, placed by a small scheduler.

Belongs here: sizes, durations, arrivals, placement, what a failure does to the jobs it meets. Does not belong here:
the failures themselves (`synthetic_failures.py`), readings. The same plan gives the same jobs.

Sizes and durations fit the GPU jobs of the Kalos cluster in the Acme trace (arXiv:2403.07648, cluster_summary.csv):
median 1 GPU, mean 26.8, largest 1,024; median run time 124 s, mean 1,260 s; mean weighted by GPUs 10,000 s, so large
jobs run longer; the longest 625,740 s. Some waiting may be in those times: rows of that trace count a job from its
submission, and the mean wait was 214 s. A cluster takes no job larger than half of itself.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from sources.telemetry.synthetic_failures import Failure, failures
from sources.telemetry.synthetic_jobs import Attempt, Board, State
from sources.telemetry.synthetic_plan import Kind, Plan, Slowness, Straggler

LARGEST: Final = 1024
SHARE_OF_ONE: Final = 0.5
SIZE_RATIO: Final = 0.73  # each doubling is so much rarer than the one before: gives the mean of 26.9
# run time = 69.4 s · gpus^0.545 · e^(1.85·normal): median 123 s, mean 1,260 s over those sizes
RUN_S: Final = (69.4, 0.545, 1.85)
LONGEST_S: Final = 625_740
SHORTEST_S: Final = 10
# Completed, cancelled, failed: shares of jobs where they are small, of GPU time where they are large (same table).
ENDS: Final[tuple[State, ...]] = ("completed", "cancelled", "failed")
ENDS_SMALL: Final = (0.541, 0.062, 0.397)
ENDS_LARGE: Final = (0.313, 0.607, 0.080)
BUSY: Final = 0.8  # of the boards; two research clusters ran above 80 % (arXiv:2410.21680)
# Ours, no source: what small and large jobs do; how many training jobs have a straggler; how deep backfill looks.
WHAT_SMALL: Final = (0.5, 0.2, 0.3)
WHAT_LARGE: Final = (0.85, 0.15, 0.0)
WHAT: Final[tuple[Kind, ...]] = ("training", "inference", "resident")
SLOW_JOBS: Final = 0.05
SLOW_S: Final = (30, 36_000)  # tens of seconds to nearly ten hours: arXiv:2410.12588, abstract
BACKFILL: Final = 64
CHECKPOINT_S: Final = 1800
FIRST_JOB: Final = 20_001


@dataclass(slots=True)
class _Job:
    """A job that waits or runs; `left_s` is the run time it still needs."""

    job_id: str
    gpus: int
    kind: Kind
    left_s: float
    end: State
    submitted_s: float
    attempt: int = 0
    from_s: float = 0.0
    boards: tuple[Board, ...] = ()


def schedule(plan: Plan) -> list[Attempt]:
    """Every attempt that began within the plan, in the order in which they ended; those still running come last."""
    return list(_Scheduler(plan).run())


def sizes(plan: Plan) -> list[tuple[int, float]]:
    """Possible sizes of a job in GPUs, and how often each is asked for."""
    biggest = min(LARGEST, max(1, plan.nodes * plan.gpus // 2))
    found = [1]
    while (twice := found[-1] * 2) <= biggest:
        # Beyond a node whole nodes are taken.
        found.append(twice if twice <= plan.gpus else plan.gpus * max(1, twice // plan.gpus))
    larger = [SIZE_RATIO**k for k in range(1, len(found))]
    rest = (1 - SHARE_OF_ONE) / sum(larger) if larger else 0.0
    return list(zip(found, [SHARE_OF_ONE if larger else 1.0, *(w * rest for w in larger)], strict=True))


def mean_gpu_seconds(plan: Plan) -> float:
    """GPU time an average job takes."""
    scale, power, spread = RUN_S
    return scale * math.exp(spread**2 / 2) * float(sum(share * gpus ** (1 + power) for gpus, share in sizes(plan)))


class _Scheduler:
    """First come, first served, and what fits meanwhile; an event is what happens at a second of the plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chance = random.Random(f"{plan.seed}/{plan.cluster}/jobs")  # noqa: S311 - seeded on purpose
        self._sizes, self._shares = zip(*sizes(plan), strict=True)
        self._rate = BUSY * plan.nodes * plan.gpus / mean_gpu_seconds(plan)
        self._free = [list(range(plan.gpus)) for _ in range(plan.nodes)]
        self._off: Counter[int] = Counter()
        self._queue: list[_Job] = []
        self._running: dict[str, _Job] = {}
        self._events: list[tuple[float, int, Callable[[float], list[Attempt]]]] = []
        self._numbers = count(FIRST_JOB)
        self._order = count()

    def run(self) -> Iterator[Attempt]:
        plan = self._plan
        for node in range(plan.nodes):
            for failure in failures(plan, node):
                self._at(failure.from_s, partial(self._break, node, failure))
                self._at(failure.to_s, partial(self._repair, node))
        # The plan begins as busy as it goes on.
        while sum(job.gpus for job in self._queue) < BUSY * plan.nodes * plan.gpus:
            self._queue.append(self._draw(0.0))
        self._start_waiting(0.0)
        self._at(self._chance.expovariate(self._rate), self._arrive)
        while self._events and self._events[0][0] < plan.seconds:
            now, _, happen = heapq.heappop(self._events)
            yield from happen(now)
            self._start_waiting(now)
        for job in self._running.values():
            yield self._attempt(job, plan.seconds, "running")

    def _at(self, second: float, happen: Callable[[float], list[Attempt]]) -> None:
        heapq.heappush(self._events, (second, next(self._order), happen))

    def _arrive(self, now: float) -> list[Attempt]:
        self._queue.append(self._draw(now))
        self._at(now + self._chance.expovariate(self._rate), self._arrive)
        return []

    def _draw(self, now: float) -> _Job:
        chance = self._chance
        gpus = chance.choices(self._sizes, self._shares)[0]
        scale, power, spread = RUN_S
        run_s = scale * gpus**power * chance.lognormvariate(0, spread)
        is_small = gpus < self._plan.gpus
        kind = chance.choices(WHAT, WHAT_SMALL if is_small else WHAT_LARGE)[0]
        end = chance.choices(ENDS, ENDS_SMALL if is_small else ENDS_LARGE)[0]
        left_s = min(max(run_s, SHORTEST_S), LONGEST_S)
        return _Job(str(next(self._numbers)), gpus, kind, left_s, end, now)

    def _start_waiting(self, now: float) -> None:
        left: list[_Job] = []
        for place, job in enumerate(self._queue):
            boards = self._place(job.gpus) if place < BACKFILL else ()
            if not boards:
                left.append(job)
                continue
            for node, gpu in boards:
                self._free[node].remove(gpu)
            job.boards, job.from_s = boards, now
            self._running[job.job_id] = job
            self._at(now + job.left_s, partial(self._end, job, job.attempt))
        self._queue = left

    def _place(self, gpus: int) -> tuple[Board, ...]:
        """Whole nodes for a job that fills some; else the fullest node that still has room."""
        usable = [(len(free), node) for node, free in enumerate(self._free) if free and not self._off[node]]
        if gpus >= self._plan.gpus:
            whole = [node for room, node in usable if room == self._plan.gpus][: gpus // self._plan.gpus]
            if len(whole) * self._plan.gpus < gpus:
                return ()
            return tuple((node, gpu) for node in whole for gpu in self._free[node])
        _, node = min(((room, node) for room, node in usable if room >= gpus), default=(0, -1))
        return tuple((node, gpu) for gpu in self._free[node][:gpus]) if node >= 0 else ()

    def _end(self, job: _Job, attempt: int, now: float) -> list[Attempt]:
        if self._running.get(job.job_id) is not job or job.attempt != attempt:
            return []  # a failure ended that attempt
        return [self._leave(job, now, job.end)]

    def _leave(self, job: _Job, now: float, state: State) -> Attempt:
        del self._running[job.job_id]
        for node, gpu in job.boards:
            insort(self._free[node], gpu)
        return self._attempt(job, now, state)

    def _break(self, node: int, failure: Failure, now: float) -> list[Attempt]:
        """The node takes no job until it is repaired; jobs on the broken part end there and queue again."""
        self._off[node] += 1
        hit = {(node, failure.gpu)} if failure.cause.kind != "host" else {(node, g) for g in range(self._plan.gpus)}
        ended = []
        for job in [j for j in self._running.values() if hit & set(j.boards)]:
            ended.append(self._leave(job, now, "node_fail"))
            saved_s = (now - job.from_s) // CHECKPOINT_S * CHECKPOINT_S
            job.left_s = max(job.left_s - saved_s, SHORTEST_S)
            job.attempt, job.submitted_s = job.attempt + 1, now
            self._queue.insert(0, job)
        return ended

    def _repair(self, node: int, _now: float) -> list[Attempt]:
        self._off[node] -= 1
        return []

    def _attempt(self, job: _Job, until: float, state: State) -> Attempt:
        slow = self._stragglers(job, until) if job.kind == "training" and len(job.boards) > 1 else ()
        times = (job.submitted_s, job.from_s, until)
        return Attempt(job.job_id, job.attempt, job.kind, job.boards, *times, state, slow)

    def _stragglers(self, job: _Job, until: float) -> tuple[Straggler, ...]:
        chance = random.Random(f"{self._plan.seed}/{job.job_id}/{job.attempt}/slow")  # noqa: S311 - seeded on purpose
        if chance.random() >= SLOW_JOBS:
            return ()
        node, gpu = chance.choice(job.boards)
        from_s = chance.uniform(job.from_s, until)
        lasts = math.exp(chance.uniform(*map(math.log, SLOW_S)))
        cause: Slowness = "gpu" if chance.random() < 0.5 else "host"  # noqa: PLR2004 - even chances
        return (Straggler(node, gpu, from_s, min(from_s + lasts, until), cause=cause),)
