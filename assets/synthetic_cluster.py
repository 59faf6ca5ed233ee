"""A synthetic cluster of any size in a home: telemetry, jobs and logs, and the truth about what was planted.

Belongs here: the way of a plan through the street. Does not belong here: what it draws (`sources.telemetry.synthetic*`),
its jobs' records (`demo_jobs.py`), the demonstration of a home without GPUs (`demo.py`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from assets.demo_jobs import provide_demo_jobs
from assets.ingest import ingest
from assets.rollup import roll_up
from sources.base import AlmanacError
from sources.telemetry.synthetic import write
from sources.telemetry.synthetic_failures import failures
from sources.telemetry.synthetic_jobs import attempts
from sources.telemetry.synthetic_plan import Plan
from sources.telemetry.synthetic_story import decaying
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.telemetry import GpuSample

TRUTH: Final[dict[str, Any]] = {
    "kind": pl.String,
    "node": pl.String,
    "gpu_uuid": pl.String,
    "link_index": pl.Int64,
    "from_at": pl.Datetime("us", "UTC"),
    "to_at": pl.Datetime("us", "UTC"),
    "cause": pl.String,
    "slowdown": pl.Float64,
    "job_id": pl.String,
    "attempt": pl.Int64,
}


class ClusterKnownError(AlmanacError):
    """The home holds a cluster of that name already."""


@dataclass(frozen=True, slots=True)
class Provided:
    """What a plan put into the home. `complaints`: one line for each thing that did not land."""

    plan: Plan
    samples: int
    jobs: int
    complaints: tuple[str, ...]


def named(plan: Plan) -> Plan:
    """The plan with a cluster name that no other plan has: one name, one set of readings."""
    mark = hashlib.sha256(repr(replace(plan, cluster="")).encode()).hexdigest()[:6]
    return replace(plan, cluster=f"synthetic-{plan.workload}-{plan.nodes}x{plan.gpus}-{mark}")


def provide_cluster(home: Home, plan: Plan) -> Provided:
    """Write, land and roll up a plan's telemetry, then its jobs, devices and logs; publishing is left to the caller.

    Twice changes nothing, so an interrupted call is simply made again. Raises `ClusterKnownError` where the home has a
    cluster of a name that `named` did not give: two sets of readings must not mix.
    """
    if plan != named(plan) and any(plan.cluster in commit["stats"] for commit in Lake(home.lake).history(GpuSample)):
        raise ClusterKnownError(f"cluster {plan.cluster} is in this home already; take another --cluster or --seed")
    with tempfile.TemporaryDirectory(prefix="synthetic-", dir=home.root) as folder:
        samples = write(plan, folder)
        report = ingest(home, [Path(folder)])
    roll_up(home)
    provide_demo_jobs(home, plan)
    return Provided(plan, samples, len(attempts(plan)), tuple(report.complaints()))


def truth(plan: Plan) -> pl.DataFrame:
    """What is wrong in the cluster, in order of time: kind straggler, failure or link. One row each, as in `TRUTH`.

    gpu_uuid of a failure: the board it hit, null where the whole node; cause of a straggler: gpu (slow of itself) or
    host (fed late); a link decays all the time.
    """
    return pl.DataFrame(list(_told(plan)), schema=TRUTH).sort("from_at", "kind", "node", "gpu_uuid")


def _told(plan: Plan) -> Iterator[dict[str, Any]]:
    for one in attempts(plan):
        for slow in one.slow:
            yield {
                "kind": "straggler",
                **_where(plan, slow.node, slow.gpu),
                **_when(plan, slow.from_s, slow.to_s),
                "cause": slow.cause,
                "slowdown": slow.slowdown,
                "job_id": one.job_id,
                "attempt": one.attempt,
            }
    for node in range(plan.nodes):
        for failure in failures(plan, node):
            gpu = None if failure.cause.kind == "host" else failure.gpu
            times = _when(plan, failure.from_s, failure.to_s)
            yield {"kind": "failure", **_where(plan, node, gpu), **times, "cause": failure.cause.name}
    for node, gpu, link in decaying(plan):
        if node < plan.nodes and gpu < plan.gpus:
            times = _when(plan, 0, plan.seconds)
            yield {"kind": "link", **_where(plan, node, gpu), "link_index": link, **times, "cause": "decay"}


def _where(plan: Plan, node: int, gpu: int | None) -> dict[str, Any]:
    return {"node": plan.node(node), "gpu_uuid": None if gpu is None else plan.gpu_uuid(node, gpu)}


def _when(plan: Plan, from_s: float, to_s: float) -> dict[str, Any]:
    begin, end = (plan.start_at + dt.timedelta(seconds=second) for second in (from_s, to_s))
    return {"from_at": begin, "to_at": end}
