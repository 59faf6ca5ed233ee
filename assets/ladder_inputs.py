"""What one day of the ladder is computed from, cut to what can change that day, and its hash.

Belongs here: reading the lake, the cut, the hash. Does not belong here: the ladder (`ladder_daily.py`), keeping its
table (`ladder_lake.py`). The cut matters: a job that goes on, or a board seen again, must not touch days gone by.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from assets.telemetry_intervals import close_inventory, close_node_states
from warehouse.bitemporal import with_versions
from warehouse.lake import Lake
from warehouse.schema import tables
from warehouse.schema.telemetry_rollups import GpuMinute

INVENTORY, STATES, EVENTS = "telemetry.inventory", "telemetry.node_states", "telemetry.gpu_events"
JOBS, STAYS = "telemetry.jobs", "telemetry.job_gpus"
STEPS, PHASES = "telemetry.training_steps", "telemetry.job_phases"
MINUTES, POOLS = "telemetry.gpu_minutes", "ref.cost_pools"
# Columns that the ladder reads; a change in any other column touches no day.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    INVENTORY: ("cluster", "source", "node", "gpu_uuid", "parent_gpu_uuid", "gpu_index", "mig_profile", "valid_from", "valid_to"),
    STATES: ("cluster", "source", "node", "state", "valid_from", "valid_to"),
    EVENTS: ("cluster", "gpu_uuid", "kind", "occurred_at"),
    JOBS: ("cluster", "scheduler", "job_id", "attempt", "started_at", "ended_at"),
    STAYS: ("cluster", "job_id", "attempt", "gpu_uuid", "from_at", "to_at", "share_ratio", "parent_gpu_uuid", "mig_profile"),
    STEPS: ("cluster", "job_id", "attempt", "step", "completed_at", "step_seconds", "steps_covered", "segment", "is_warm_up"),
    PHASES: ("cluster", "job_id", "attempt", "phase", "from_at", "to_at"),
}  # fmt: skip
JOB: Final = ["cluster", "job_id"]


@dataclass(slots=True)
class Inputs:
    """Everything the ladder reads, once; `zones` names the zone in which each cluster is billed."""

    frames: Mapping[str, pl.DataFrame]
    minutes: pl.LazyFrame
    files: Mapping[dt.date, str]
    zones: Mapping[str, str]
    days: list[tuple[dt.date, bool]] = field(default_factory=list)

    def of_day(self, day: dt.date, is_synthetic: bool) -> dict[str, pl.DataFrame]:
        """Tables as `ladder_window` takes them for one UTC day."""
        wanted = (pl.col("date") == day) & (pl.col("is_synthetic") == is_synthetic)
        return {**self._cut(day, is_synthetic), MINUTES: one_collector(self.minutes.filter(wanted).collect())}

    def fingerprint(self, day: dt.date, is_synthetic: bool) -> str:
        """A hash of the day's inputs: rows as they are cut, the files that hold its minutes, its zones."""
        digest = hashlib.sha256(self.files.get(day, "").encode())
        digest.update(repr(sorted(self.zones.items())).encode())
        for name, frame in sorted(self._cut(day, is_synthetic).items()):
            total = int(frame.hash_rows(seed=1).cast(pl.Int128).sum() or 0) if frame.height else 0
            digest.update(f"{name}:{frame.height}:{total}".encode())
        return digest.hexdigest()[:24]

    def _cut(self, day: dt.date, is_synthetic: bool) -> dict[str, pl.DataFrame]:
        same = {
            n: f.filter(pl.col("is_synthetic") == is_synthetic).drop("is_synthetic") for n, f in self.frames.items()
        }
        return cut(same, day)


def read_inputs(lake: Lake, authorities: Mapping[str, str]) -> Inputs:
    """Newest versions of facts, closed intervals of states, and the days that have minutes."""
    frames = {}
    for name, columns in NEEDED.items():
        frame = lake.scan(tables()[name]).collect()
        if name in (JOBS, STAYS, STEPS, PHASES):
            frame = with_versions(frame, tables()[name], authorities).filter(pl.col("is_preferred"))
        if name == INVENTORY:
            frame = close_inventory(frame)
        if name == STATES:
            frame = close_node_states(frame)
        frames[name] = frame.select(*columns, "is_synthetic")
    minutes = lake.scan(GpuMinute)
    days = minutes.select("date", "is_synthetic").unique().collect().sort("date", "is_synthetic").rows()
    return Inputs(frames, minutes, _files(lake), billing_zones(lake), days)


def billing_zones(lake: Lake) -> dict[str, str]:
    """The zone in which each cluster with a cost model is billed: the newest that its file states."""
    pools = lake.scan(tables()[POOLS]).filter(pl.col("time_zone").is_not_null()).collect()
    newest = pools.sort("known_at").group_by("cluster").agg(pl.col("time_zone").last())
    return dict(newest.sort("cluster").iter_rows())


def _files(lake: Lake) -> dict[dt.date, str]:
    """Names of the files that hold each day's minutes: the roll-up writes new ones for what it computes again."""
    if not lake.exists(GpuMinute):
        return {}
    found: dict[dt.date, list[str]] = {}
    for uri in lake.open(GpuMinute).file_uris():
        day = uri.rsplit("/date=", 1)[1].split("/", 1)[0]
        found.setdefault(dt.date.fromisoformat(day), []).append(uri.rsplit("/", 1)[1])
    return {day: " ".join(sorted(names)) for day, names in found.items()}


def one_collector(minutes: pl.DataFrame) -> pl.DataFrame:
    """Where two collectors see one GPU, the one that covered more of the day."""
    key = ["cluster", "gpu_uuid"]
    covered = minutes.group_by(*key, "source").agg(pl.col("seconds_covered").sum())
    best = covered.sort("seconds_covered", "source", descending=[True, False]).unique(
        key, keep="first", maintain_order=True
    )
    return minutes.join(best.select(*key, "source"), on=[*key, "source"])


def cut(frames: Mapping[str, pl.DataFrame], day: dt.date) -> dict[str, pl.DataFrame]:
    """What can change one UTC day: later ends count as open, later rows only where they roll the day's steps back."""
    start = dt.datetime.combine(day, dt.time(), dt.UTC)
    end = start + dt.timedelta(days=1)
    jobs = _until(frames[JOBS], "started_at", "ended_at", end).filter(
        pl.col("ended_at").is_null() | (pl.col("ended_at") > start)
    )
    held = _until(_with_job_ends(frames[STAYS], frames[JOBS]), "from_at", "to_at", end).filter(
        pl.col("to_at").is_null() | (pl.col("to_at") > start)
    )
    names = jobs.select(JOB).unique()
    inventory = _until(frames[INVENTORY], "valid_from", "valid_to", end)
    # The collector that knew a board first: one that comes later must not take its past away.
    first = inventory.sort("valid_from", "source").unique(["cluster", "gpu_uuid"], keep="first").select(
        "cluster", "gpu_uuid", "source"
    )  # fmt: skip
    return {
        INVENTORY: inventory.join(first, on=["cluster", "gpu_uuid", "source"], how="semi"),
        STATES: _until(frames[STATES], "valid_from", "valid_to", end),
        EVENTS: frames[EVENTS].filter(
            (pl.col("occurred_at") < end)
            & pl.col("kind").is_in(["lost", "returned"])
            & pl.col("gpu_uuid").is_not_null()
        ),
        JOBS: jobs,
        STAYS: held,
        STEPS: _steps(frames[STEPS].join(names, on=JOB, how="semi"), end),
        PHASES: _phases(frames[PHASES].join(names, on=JOB, how="semi"), end),
    }


def _with_job_ends(held: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Stays that last no longer than their attempt: a scheduler seldom says when a device was given back."""
    attempt = [*JOB, "attempt"]
    ends = jobs.drop_nulls("ended_at").group_by(attempt).agg(pl.col("ended_at").max())
    joined = held.join(ends, on=attempt, how="left")
    return joined.with_columns(pl.min_horizontal("to_at", "ended_at").alias("to_at")).drop("ended_at")


def _until(frame: pl.DataFrame, begin: str, finish: str, end: dt.datetime) -> pl.DataFrame:
    """Rows that begin before the day's end, with later ends open: how it went on is no business of this day."""
    begun = frame.filter(pl.col(begin) < end)
    return begun.with_columns(pl.when(pl.col(finish) < end).then(pl.col(finish)).alias(finish))


def _phases(phases: pl.DataFrame, end: dt.datetime) -> pl.DataFrame:
    """Phases with a known end that begin before the day's end, cut to it: an open one is not known to have lasted."""
    begun = phases.filter((pl.col("from_at") < end) & pl.col("to_at").is_not_null())
    return begun.with_columns(pl.min_horizontal("to_at", pl.lit(end).dt.cast_time_unit("us")).alias("to_at"))


def _steps(steps: pl.DataFrame, end: dt.datetime) -> pl.DataFrame:
    """Lines that begin before the day's end, and later ones that run again what was run before it."""
    covered = pl.col("steps_covered").fill_null(1)
    begun_at = pl.col("completed_at") - (pl.col("step_seconds") * covered * 1e6).round().cast(pl.Duration("us"))
    timed = steps.drop_nulls(["completed_at", "step_seconds"]).with_columns((begun_at < end).alias("@before"))
    reached = timed.filter("@before").group_by(JOB).agg(pl.col("step").max().alias("@reached"))
    again = timed.join(reached, on=JOB, how="left").filter(
        pl.col("@before") | (pl.col("step") - covered < pl.col("@reached"))
    )
    return again.drop("@before", "@reached")
