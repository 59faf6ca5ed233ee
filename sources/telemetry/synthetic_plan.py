"""Size, window and workload of a synthetic cluster. No numbers of a board belong here, and no story."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["idle", "resident", "training", "inference"]
Workload = Literal["demo", "mixed"]
Slowness = Literal["gpu", "host"]
KINDS: Final[tuple[Kind, ...]] = ("idle", "resident", "training", "inference")
DAY_S: Final = 86_400
# How many times as long jobs took for slow parts, on average: arXiv:2410.12588 (USENIX ATC 2025 says it of large jobs).
# The listing's abstract prints 1.34 %, having lost the times sign of the paper's.
SLOWDOWN: Final = 1.34


@dataclass(frozen=True, slots=True)
class Straggler:
    """A board that makes its job slower from second `from_s` to `to_s` of the plan; no counter tells why.

    gpu: the board itself runs slowly. host: the board waits for its host, which feeds it late. slowdown: what a step
    takes over what it takes usually.
    """

    node: int
    gpu: int
    from_s: float
    to_s: float
    slowdown: float = SLOWDOWN
    cause: Slowness = "gpu"


@dataclass(frozen=True, slots=True)
class Plan:
    """Size, window and workload of a synthetic cluster.

    workload: `demo` repeats two fixed days and plants one incident of each class; `mixed` draws jobs and failures
    from published distributions, for as long as wanted. stragglers: planted ones, beside those that `mixed` draws.
    """

    cluster: str = "synthetic-demo"
    nodes: int = 2
    gpus: int = 8
    start_at: dt.datetime = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    seconds: int = DAY_S
    interval_s: float = 30.0
    seed: int = 20261101
    workload: Workload = "demo"
    stragglers: tuple[Straggler, ...] = ()

    def node(self, number: int) -> str:
        return f"{'demo' if self.workload == 'demo' else 'gpu'}-{number + 1:04d}"

    def gpu_uuid(self, node: int, gpu: int) -> str:
        return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{self.cluster}/{node}/{gpu}')}"

    @property
    def start_us(self) -> int:
        return int(self.start_at.timestamp()) * 1_000_000

    @property
    def ticks(self) -> int:
        return int(self.seconds / self.interval_s)
