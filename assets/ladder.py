"""The ladder: capacity → up → allocated → running → productive GPU-hours, every loss named, summing to the whole.

Belongs here: GPU time from states of nodes, stays of jobs, idle stretches and job timelines. Does not belong
here: what happens inside a job (`ladder_jobs.py`), idle power (`idle.py`). Time is counted in whole microseconds
of one GPU, so that the rungs add up exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from assets.ladder_jobs import KEY
from assets.ladder_jobs import RUNGS as JOB_RUNGS

GPU: Final = ("cluster", "gpu_uuid")
FLEET_RUNGS: Final = ("down", "unallocated", "allocated_idle")
RUNGS: Final = (*FLEET_RUNGS, *JOB_RUNGS)


def ladder(
    capacity: pl.DataFrame, down: pl.DataFrame, stays: pl.DataFrame, idle: pl.DataFrame, timelines: pl.DataFrame
) -> pl.DataFrame:
    """GPU time by rung: cluster, job_id, attempt (null where no job held the GPU), rung, gpu_us.

    capacity, down, idle: cluster, gpu_uuid, from_us, to_us. stays: those and job_id, attempt, share_ratio (null:
    the holders of the moment share equally). timelines: as `job_timelines` gives them, tiling each attempt.
    Within one moment of one GPU: down before anything, then idle while held, then the job's own rung; what no
    job holds is unallocated. A stay of a job without a timeline is `unlogged`.
    """
    pieces = _pieces(capacity, down, stays, idle)
    fleet = pieces.filter(pl.col("rung").is_not_null())
    running = pieces.filter(pl.col("rung").is_null()).drop("rung")
    found = _spread(running, timelines)
    columns = ["cluster", "job_id", "attempt", "rung"]
    return (
        pl.concat([fleet.select(*columns, "gpu_us"), found.select(*columns, "gpu_us")])
        .group_by(columns)
        .agg(pl.col("gpu_us").sum())
        .filter(pl.col("gpu_us") > 0)
        .sort(columns, nulls_last=True)
    )


def shares(rungs: pl.DataFrame, by: tuple[str, ...] = ("cluster",), digits: int = 4) -> pl.DataFrame:
    """Rungs of each group with `share_ratio`, rounded so that every group sums to exactly 1 (largest remainders)."""
    # 128 bits: a month of a large fleet in microseconds times the unit passes 64.
    summed = rungs.group_by(*by, "rung").agg(pl.col("gpu_us").cast(pl.Int128).sum())
    unit = 10**digits
    whole = pl.col("gpu_us").sum().over(list(by))
    summed = summed.with_columns(
        (pl.col("gpu_us") * unit // whole).alias("units"), (pl.col("gpu_us") * unit % whole).alias("left")
    )
    missing = unit - pl.col("units").sum().over(list(by))
    place = pl.col("left").rank("ordinal", descending=True).over(list(by))
    summed = summed.sort(*by, "rung").with_columns(
        (pl.col("units") + (place <= missing).cast(pl.Int128)).alias("units")
    )
    order = pl.col("rung").replace_strict({r: n for n, r in enumerate(RUNGS)}, return_dtype=pl.Int64)
    return (
        summed.with_columns(
            (pl.col("units") / unit).alias("share_ratio"), (pl.col("gpu_us") / 3.6e9).alias("gpu_hours")
        )
        .sort(*by, order)
        .drop("left")
    )


def even_stays(stays: pl.DataFrame) -> pl.DataFrame:
    """Stays cut where the holders of a GPU change, with the share each really has: a GPU is never held above 1."""
    nothing = stays.select(*GPU, "from_us", "to_us").clear()
    held = _pieces(stays.select(nothing.columns), nothing, stays, nothing).filter(pl.col("job_id").is_not_null())
    share = pl.col("gpu_us") / (pl.col("to_us") - pl.col("from_us"))
    return held.select(*GPU, "from_us", "to_us", "job_id", "attempt", share.alias("share_ratio"))


def _pieces(capacity: pl.DataFrame, down: pl.DataFrame, stays: pl.DataFrame, idle: pl.DataFrame) -> pl.DataFrame:
    """Each GPU cut at every edge; one row for each holder of a piece, with its whole microseconds."""
    edges = (
        pl.concat(
            [f.select(*GPU, pl.col(c).alias("at")) for f in (capacity, down, stays, idle) for c in ("from_us", "to_us")]
        )
        .unique()
        .sort(*GPU, "at")
    )
    cut = (
        edges.with_columns(pl.col("at").shift(-1).over(list(GPU)).alias("to_us"))
        .rename({"at": "from_us"})
        .drop_nulls("to_us")
    )
    cut = _mark(_mark(_mark(cut, capacity, "is_capacity"), down, "is_down"), idle, "is_idle").filter("is_capacity")
    held = cut.filter(~pl.col("is_down")).join_where(
        stays.select(
            *(pl.col(c).alias(f"stay_{c}") for c in (*GPU, "from_us", "to_us")), "job_id", "attempt", "share_ratio"
        ),
        pl.col("cluster") == pl.col("stay_cluster"),
        pl.col("gpu_uuid") == pl.col("stay_gpu_uuid"),
        pl.col("from_us") >= pl.col("stay_from_us"),
        pl.col("to_us") <= pl.col("stay_to_us"),
    )
    held = _apportion(held)
    free = (
        cut.join(
            held.group_by(*GPU, "from_us").agg(pl.col("gpu_us").sum().alias("held_us")),
            on=[*GPU, "from_us"],
            how="left",
        )
        .with_columns((pl.col("to_us") - pl.col("from_us") - pl.col("held_us").fill_null(0)).alias("gpu_us"))
        .with_columns(pl.when("is_down").then(pl.lit("down")).otherwise(pl.lit("unallocated")).alias("rung"))
    )
    idle_or_job = pl.when("is_idle").then(pl.lit("allocated_idle")).alias("rung")
    columns = ["cluster", "gpu_uuid", "from_us", "to_us", "job_id", "attempt", "rung", "gpu_us"]
    nobody = [pl.lit(None, pl.String).alias("job_id"), pl.lit(None, pl.Int64).alias("attempt")]
    return pl.concat([held.with_columns(idle_or_job).select(columns), free.with_columns(nobody).select(columns)])


def _mark(cut: pl.DataFrame, intervals: pl.DataFrame, name: str) -> pl.DataFrame:
    """Is a piece inside any of the intervals? Intervals of one GPU may overlap each other."""
    # The furthest end of all intervals that have begun decides, since pieces never straddle an edge.
    reach = intervals.select(*GPU, pl.col("from_us").alias("begun_us"), pl.col("to_us").alias("reach_us")).sort(
        "begun_us"
    )
    reach = reach.with_columns(pl.col("reach_us").cum_max().over(list(GPU)))
    joined = cut.sort("from_us").join_asof(
        reach, left_on="from_us", right_on="begun_us", by=list(GPU), strategy="backward", check_sortedness=False
    )
    return joined.with_columns((pl.col("reach_us") >= pl.col("to_us")).fill_null(value=False).alias(name)).drop(
        "begun_us", "reach_us"
    )


def _apportion(held: pl.DataFrame) -> pl.DataFrame:
    """Whole microseconds for each holder: by stated shares (scaled down where they exceed the GPU), else equally."""
    moment = [*GPU, "from_us"]
    stated = pl.col("share_ratio").sum().over(moment)
    unstated = pl.col("share_ratio").is_null().sum().over(moment)
    rest = (1 - stated).clip(0) / unstated
    share = (
        pl.when(pl.col("share_ratio").is_null())
        .then(rest)
        .otherwise(pl.col("share_ratio") / pl.max_horizontal(stated, 1.0))
    )
    length = pl.col("to_us") - pl.col("from_us")
    held = held.sort(*moment, "job_id", "attempt").with_columns(share.alias("share"), length.alias("length_us"))
    # Edges of cumulated shares are rounded, not the parts, so that parts of a whole add up to it.
    upper = (pl.col("share").cum_sum().over(moment).clip(0, 1) * pl.col("length_us")).round().cast(pl.Int64)
    return held.with_columns(upper.alias("upper_us")).with_columns(
        (pl.col("upper_us") - pl.col("upper_us").shift(1).over(moment).fill_null(0)).alias("gpu_us")
    )


def _spread(running: pl.DataFrame, timelines: pl.DataFrame) -> pl.DataFrame:
    """Give each held piece to the rungs its job was on meanwhile, through each job's cumulated time by rung."""
    steps = _cumulated(timelines)
    at = [_at(running, steps, edge) for edge in ("from_us", "to_us")]
    spans = running.with_row_index("piece").with_columns((pl.col("to_us") - pl.col("from_us")).alias("length_us"))
    wide = spans.hstack([(at[1][r] - at[0][r]).alias(r) for r in JOB_RUNGS])
    long = wide.unpivot(
        list(JOB_RUNGS),
        index=["piece", "cluster", "job_id", "attempt", "length_us", "gpu_us"],
        variable_name="rung",
        value_name="rung_us",
    )
    order = pl.col("rung").replace_strict({r: n for n, r in enumerate(JOB_RUNGS)}, return_dtype=pl.Int64).alias("order")
    long = long.with_columns(pl.col("rung_us").fill_null(0), order).sort("piece", "order")
    # Scaled to the holder's part by rounding cumulated edges; what the timeline leaves open is not known.
    upper = (pl.col("rung_us").cum_sum().over("piece") / pl.col("length_us") * pl.col("gpu_us")).round().cast(pl.Int64)
    long = long.with_columns(upper.alias("upper_us"))
    long = long.with_columns(
        (pl.col("upper_us") - pl.col("upper_us").shift(1).over("piece").fill_null(0)).alias("part_us")
    )
    open_part = long.group_by("piece").agg(
        pl.col("cluster", "job_id", "attempt", "gpu_us").first(), pl.col("part_us").sum()
    )
    unknown = open_part.select(
        "cluster",
        "job_id",
        "attempt",
        pl.lit("unlogged").alias("rung"),
        (pl.col("gpu_us") - pl.col("part_us")).alias("gpu_us"),
    )
    return pl.concat([long.select("cluster", "job_id", "attempt", "rung", pl.col("part_us").alias("gpu_us")), unknown])


def _cumulated(timelines: pl.DataFrame) -> pl.DataFrame:
    """At each segment's start: what each rung has had so far, and which rung begins."""
    length = pl.col("to_us") - pl.col("from_us")
    ordered = timelines.sort(*KEY, "from_us")
    return ordered.with_columns(
        (
            pl.when(pl.col("rung") == r).then(length).otherwise(0).cum_sum().over(list(KEY))
            - pl.when(pl.col("rung") == r).then(length).otherwise(0)
        ).alias(r)
        for r in JOB_RUNGS
    ).select(
        *KEY,
        pl.col("from_us").alias("begun_us"),
        pl.col("to_us").alias("ends_us"),
        pl.col("rung").alias("now"),
        *JOB_RUNGS,
    )


def _at(running: pl.DataFrame, cumulated: pl.DataFrame, edge: str) -> Mapping[str, pl.Series]:
    """Each rung's time up to an edge of the pieces, in the order of the pieces."""
    points = running.with_row_index("piece").select("piece", *KEY, pl.col(edge).alias("at")).sort("at")
    joined = points.join_asof(
        cumulated.sort("begun_us"),
        left_on="at",
        right_on="begun_us",
        by=list(KEY),
        strategy="backward",
        check_sortedness=False,
    ).sort("piece")
    into = pl.min_horizontal("at", "ends_us") - pl.col("begun_us")
    full = joined.select(
        (pl.col(r).fill_null(0) + pl.when(pl.col("now") == r).then(into).otherwise(0)).alias(r) for r in JOB_RUNGS
    )
    return {r: full[r] for r in JOB_RUNGS}
