"""Jobs across exports: which attempt a record is, and stays on devices from snapshots.

Belongs here: what one export cannot know by itself. Does not belong here: reading exports (`sources/jobs/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import polars as pl

RAW_JOBS, JOBS = "raw.scheduler_jobs", "telemetry.jobs"
INVENTORY = "telemetry.inventory"
RAW_DEVICES, JOB_GPUS = "raw.device_snapshots", "telemetry.job_gpus"
_JOB = ("cluster", "scheduler", "job_id")
_STAY = ("cluster", "job_id", "gpu_uuid")


def derive(frames: Mapping[str, pl.DataFrame], reference: Callable[[str], pl.LazyFrame]) -> dict[str, pl.DataFrame]:
    """Frames of telemetry.jobs and telemetry.job_gpus from the raw ones; other frames pass through.

    reference: reads a landed table, so that an attempt keeps its number and a stay its beginning.
    """
    out = {name: frame for name, frame in frames.items() if name not in {RAW_JOBS, RAW_DEVICES}}
    if RAW_JOBS in frames:
        ids = frames[RAW_JOBS].get_column("job_id").unique().to_list()
        known = reference(JOBS).filter(pl.col("job_id").is_in(ids)).collect()
        out[JOBS] = number_attempts(frames[RAW_JOBS], known)
    if RAW_DEVICES in frames:
        clusters = frames[RAW_DEVICES].get_column("cluster").unique().to_list()
        known = reference(JOB_GPUS).filter(pl.col("cluster").is_in(clusters)).collect()
        places = reference(INVENTORY).filter(pl.col("cluster").is_in(clusters)).collect()
        out[JOB_GPUS] = merge_snapshot(name_devices(frames[RAW_DEVICES], places), known)
    return {name: frame for name, frame in out.items() if frame.height}


def number_attempts(raw: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Fill `attempt` where the scheduler does not state it: runs of one job in order of their start, from 0.

    A run that is already known keeps its number; a waiting job that has now started stays the same attempt.
    """
    attempts = known.group_by(*_JOB, "attempt").agg(pl.col("started_at").max())
    waiting = (
        attempts.filter(pl.col("started_at").is_null()).group_by(_JOB).agg(pl.col("attempt").max().alias("waits_as"))
    )
    highest = attempts.group_by(_JOB).agg((pl.col("attempt").max() + 1).alias("next"))
    seen = attempts.drop_nulls("started_at").rename({"attempt": "seen_as"}).unique([*_JOB, "started_at"], keep="first")
    open_runs = (
        raw.filter(pl.col("attempt").is_null())
        .select(*_JOB, "started_at")
        .unique()
        .join(seen, on=[*_JOB, "started_at"], how="left")
    )
    fresh = (
        open_runs.filter(pl.col("seen_as").is_null())
        .sort(*_JOB, "started_at", nulls_last=True)
        .join(waiting, on=list(_JOB), how="left")
        .join(highest, on=list(_JOB), how="left")
        .with_columns(
            (pl.coalesce("waits_as", "next", pl.lit(0)) + pl.int_range(pl.len()).over(list(_JOB))).alias("seen_as")
        )
    )
    numbers = pl.concat(
        [frame.select(*_JOB, "started_at", "seen_as") for frame in (open_runs.drop_nulls("seen_as"), fresh)],
        how="vertical_relaxed",
    )
    joined = raw.join(numbers, on=[*_JOB, "started_at"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.coalesce("attempt", "seen_as").cast(pl.Int64).alias("attempt")).drop("seen_as")


def name_devices(snapshot: pl.DataFrame, inventory: pl.DataFrame) -> pl.DataFrame:
    """Give devices known by place (`node/index`) the UUID of the board that sat there when the stay began.

    The inventory may have begun later than the job: then the first board seen at the place is taken. A place that
    the inventory does not know stays as it is, since an index is no identity.
    """
    seen = (
        inventory.filter(pl.col("parent_gpu_uuid").is_null() & pl.col("gpu_index").is_not_null())
        .select(
            "cluster",
            pl.concat_str("node", pl.lit("/"), "gpu_index").alias("place"),
            pl.col("gpu_uuid").alias("board"),
            "valid_from",
        )
        .sort("valid_from")
    )
    began = snapshot.with_columns(pl.coalesce("from_at", "observed_at").alias("began_at")).sort("began_at")
    then, later = _seated(began, seen, "backward"), _seated(began, seen, "forward")
    return then.with_columns(
        pl.coalesce("board", later.get_column("board"), "gpu_uuid").alias("gpu_uuid"),
        (pl.col("node") if "node" in snapshot.columns else pl.lit(None, pl.String)).alias("node"),
    ).drop("board", "valid_from", "began_at")


def _seated(began: pl.DataFrame, seen: pl.DataFrame, strategy: Literal["backward", "forward"]) -> pl.DataFrame:
    return began.join_asof(
        seen,
        left_on="began_at",
        right_on="valid_from",
        by_left=["cluster", "gpu_uuid"],
        by_right=["cluster", "place"],
        strategy=strategy,
        check_sortedness=False,
    )


def merge_snapshot(snapshot: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """New stays, and the ends of those that the snapshot no longer shows on the node it covers.

    `scope` is the node of which the snapshot shows everything, null where it shows a part. A stay that goes on
    unchanged makes no row.
    """
    if "scope" not in snapshot.columns:
        snapshot = snapshot.with_columns(pl.lit(None, pl.String).alias("scope"))
    snapshot = snapshot.with_columns(
        pl.coalesce("from_at", "observed_at").alias("from_at"),
        pl.col("attempt").fill_null(0),
        pl.col("observed_at").alias("known_at"),
    )
    current = known.sort("known_at").unique([*_STAY, "from_at"], keep="last").filter(pl.col("to_at").is_null())
    starts = current.select(*_STAY, pl.col("from_at").alias("since"), pl.col("share_ratio").alias("share_before"))
    joined = snapshot.drop_nulls("job_id").join(starts, on=list(_STAY), how="left")
    same = pl.col("since").is_not_null() & pl.col("share_ratio").eq_missing(pl.col("share_before"))
    begun = joined.filter(~same).with_columns(pl.coalesce("since", "from_at").alias("from_at"))
    begun = begun.drop("since", "share_before", "observed_at", "scope")
    covered = snapshot.drop_nulls("scope").select("cluster", pl.col("scope").alias("node"), "observed_at").unique()
    gone = (
        current.join(covered, on=["cluster", "node"], how="inner")
        .filter(pl.col("from_at") < pl.col("observed_at"))
        .join(snapshot, on=list(_STAY), how="anti")
    )
    ended = gone.with_columns(pl.col("observed_at").alias("to_at"), pl.col("observed_at").alias("known_at"))
    shared = [c for c in ended.columns if c in begun.columns or c == "to_at"]
    return pl.concat([begun, ended.select(shared)], how="diagonal_relaxed")
