"""A job's time, cut into what it went to: start-up, checkpoints, rollback, stragglers, throttling, progress.

Belongs here: the timeline of one attempt from its log. Does not belong here: GPUs and the fleet (`ladder.py`).
Every microsecond of an attempt gets exactly one rung, so that whatever is summed later sums to the whole.
"""

from __future__ import annotations

from typing import Final

import polars as pl

KEY: Final = ("cluster", "job_id", "attempt")
SLOW_RATIO: Final = 1.03  # a step this much above the job's usual time lost its excess to something
USUAL_QUANTILE: Final = 0.1  # of the step times: what the job does when nothing holds it up
# Earlier wins where two claims overlap: a stated phase knows better than what steps let one infer.
RUNGS: Final = (
    "start_up",
    "checkpoint",
    "evaluation",
    "data_stall",
    "exposed_communication",
    "rollback",
    "throttled",
    "straggler",
    "productive",
    "unlogged",
    "other",
)
_PHASE_RUNG: Final = {"checkpoint_save": "checkpoint", "checkpoint_restore": "checkpoint"}
_CLAIM: Final = {
    **{k: pl.String() for k in ("cluster", "job_id", "rung")},
    "attempt": pl.Int64(),
    "from_us": pl.Int64(),
    "to_us": pl.Int64(),
}


def job_timelines(
    jobs: pl.DataFrame, steps: pl.DataFrame, phases: pl.DataFrame, throttled: pl.DataFrame, until: int | None = None
) -> pl.DataFrame:
    """Segments that tile each attempt: cluster, job_id, attempt, from_us, to_us, rung (µs since 1970, UTC).

    jobs: KEY, from_us, to_us of attempts that ran. steps: KEY, step, completed_at, step_seconds, steps_covered,
    segment, is_warm_up. phases: KEY, phase, from_at, to_at. throttled: KEY, from_us, to_us, when any of the job's
    GPUs was held back by heat or a power brake. until: what a job usually takes for a step is learned from the steps
    begun before it, so that a day once over stays as it was found. An attempt without any step is `unlogged`: what it did is not known.
    """
    timed = _timed_steps(steps, until)
    claims = pl.concat(
        [
            _phase_claims(phases),
            _start_up(jobs, timed),
            _step_claims(timed, throttled),
            _rest(jobs, timed),
        ]
    )
    return tile(jobs.select(*KEY, "from_us", "to_us"), claims)


def tile(frames: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """Cut each attempt at every edge of a claim, and give each piece to the first rung of RUNGS that claims it."""
    clipped = claims.join(frames.rename({"from_us": "low", "to_us": "high"}), on=list(KEY)).with_columns(
        pl.max_horizontal("from_us", "low").alias("from_us"), pl.min_horizontal("to_us", "high").alias("to_us")
    )
    clipped = clipped.filter(pl.col("from_us") < pl.col("to_us"))
    rank = pl.col("rung").replace_strict({r: n for n, r in enumerate(RUNGS)}, return_dtype=pl.Int64).alias("rank")
    starts = clipped.select(*KEY, pl.col("from_us").alias("at"), rank, pl.lit(1).alias("turn"))
    ends = clipped.select(*KEY, pl.col("to_us").alias("at"), rank, pl.lit(-1).alias("turn"))
    edges = pl.concat([frames.select(*KEY, pl.col(c).alias("at")) for c in ("from_us", "to_us")])
    turns = pl.concat([starts, ends]).group_by(*KEY, "at", "rank").agg(pl.col("turn").sum())
    # One column for each rung: how many of its claims are open after this edge.
    wide = (
        pl.concat([edges, turns.select(*KEY, "at")])
        .unique()
        .join(
            turns.pivot("rank", index=[*KEY, "at"], values="turn", on_columns=list(range(len(RUNGS)))),
            on=[*KEY, "at"],
            how="left",
        )
        .sort(*KEY, "at")
        .with_columns(pl.col(str(n)).fill_null(0).cum_sum().over(list(KEY)) for n in range(len(RUNGS)))
    )
    first = pl.coalesce(pl.when(pl.col(str(n)) > 0).then(pl.lit(RUNGS[n])) for n in range(len(RUNGS)))
    return (
        wide.with_columns(pl.col("at").shift(-1).over(list(KEY)).alias("to_us"))
        .filter(pl.col("to_us").is_not_null())
        .select(*KEY, pl.col("at").alias("from_us"), "to_us", first.fill_null("other").alias("rung"))
    )


def _timed_steps(steps: pl.DataFrame, until: int | None) -> pl.DataFrame:
    """Steps with a time and a length, their interval, the job's usual step time, and the part later thrown away."""
    timed = steps.filter(pl.col("completed_at").is_not_null() & pl.col("step_seconds").is_not_null()).sort(
        *KEY, "completed_at", "step"
    )
    covered = pl.col("steps_covered").fill_null(1)
    length = (pl.col("step_seconds") * covered * 1e6).round().cast(pl.Int64)
    timed = timed.with_columns(pl.col("completed_at").dt.epoch("us").alias("to_us"), covered.alias("covered"))
    begun = pl.lit(value=True) if until is None else pl.col("completed_at").dt.epoch("us") - length < until
    steady = begun & ~pl.col("is_warm_up").fill_null(value=False)
    usual = pl.col("step_seconds").filter(steady).quantile(USUAL_QUANTILE, "lower")
    timed = timed.with_columns(
        (pl.col("to_us") - length).alias("from_us"),
        usual.over("cluster", "job_id").alias("usual_s"),
        length.alias("length_us"),
    )
    # A line cannot reach back over the line before it: what lies between is another line's time.
    before = pl.col("to_us").shift(1).over(list(KEY))
    timed = timed.with_columns(pl.max_horizontal("from_us", before).alias("from_us"))
    return _wasted(timed)


def _wasted(timed: pl.DataFrame) -> pl.DataFrame:
    """`wasted_ratio`: the share of a line's steps that a later stretch of the same job ran again."""
    stretch = ["cluster", "job_id", "attempt", "segment"]
    stretches = (
        timed.with_columns(pl.col("segment").fill_null(0))
        .group_by(stretch)
        .agg(
            (pl.col("step") - pl.col("covered")).min().alias("resumes_after"),
            pl.col("from_us").min().alias("begins_us"),
        )
        .sort("cluster", "job_id", "begins_us")
        .with_columns(
            pl.col("resumes_after")
            .shift(-1)
            .reverse()
            .cum_min()
            .reverse()
            .over("cluster", "job_id")
            .alias("kept_up_to")
        )
    )
    timed = timed.with_columns(pl.col("segment").fill_null(0)).join(
        stretches.select(*stretch, "kept_up_to"), on=stretch, how="left"
    )
    again = (pl.col("step") - pl.col("kept_up_to")).clip(0) / pl.col("covered")
    return timed.with_columns(again.clip(0, 1).fill_null(0.0).alias("wasted_ratio"))


def _claims(frame: pl.DataFrame, rung: str | pl.Expr, from_us: pl.Expr, to_us: pl.Expr) -> pl.DataFrame:
    name = pl.lit(rung) if isinstance(rung, str) else rung
    picked = frame.select(
        "cluster", "job_id", name.alias("rung"), "attempt", from_us.alias("from_us"), to_us.alias("to_us")
    )
    return picked.cast(_CLAIM)  # type: ignore[arg-type]


def _phase_claims(phases: pl.DataFrame) -> pl.DataFrame:
    known = phases.filter(pl.col("to_at").is_not_null())
    rung = pl.col("phase").replace(_PHASE_RUNG)
    return _claims(known, rung, pl.col("from_at").dt.epoch("us"), pl.col("to_at").dt.epoch("us"))


def _start_up(jobs: pl.DataFrame, timed: pl.DataFrame) -> pl.DataFrame:
    """From the attempt's start to its first step, and what warm-up steps took over the usual time."""
    first = timed.group_by(KEY).agg(pl.col("from_us").min().alias("first_us"))
    before = jobs.join(first, on=list(KEY))
    warm = timed.filter(pl.col("is_warm_up").fill_null(value=False) & pl.col("usual_s").is_not_null())
    excess = (pl.col("step_seconds") - pl.col("usual_s")).clip(0) * pl.col("covered") * 1e6
    return pl.concat(
        [
            _claims(before, "start_up", pl.col("from_us"), pl.col("first_us")),
            _claims(warm, "start_up", pl.col("from_us"), pl.col("from_us") + excess.round().cast(pl.Int64)),
        ]
    )


def _step_claims(timed: pl.DataFrame, throttled: pl.DataFrame) -> pl.DataFrame:
    """Progress, the end of a line that was thrown away, and the excess of slow steps."""
    length = pl.col("to_us") - pl.col("from_us")
    wasted = timed.filter(pl.col("wasted_ratio") > 0)
    lost = (length * pl.col("wasted_ratio")).round().cast(pl.Int64)
    is_slow = (pl.col("step_seconds") > SLOW_RATIO * pl.col("usual_s")) & ~pl.col("is_warm_up").fill_null(value=False)
    slow = _held_back(timed.filter(is_slow), throttled)
    excess = ((pl.col("step_seconds") - pl.col("usual_s")) * pl.col("covered") * 1e6).round().cast(pl.Int64)
    cause = pl.when("is_throttled").then(pl.lit("throttled")).otherwise(pl.lit("straggler"))
    return pl.concat(
        [
            _claims(timed, "productive", pl.col("from_us"), pl.col("to_us")),
            _claims(wasted, "rollback", pl.col("to_us") - lost, pl.col("to_us")),
            _claims(slow, cause, pl.col("to_us") - excess, pl.col("to_us")),
        ]
    )


def _held_back(slow: pl.DataFrame, throttled: pl.DataFrame) -> pl.DataFrame:
    """`is_throttled`: the step overlaps a stretch in which one of the job's GPUs was held back."""
    stretches = throttled.select(*KEY, pl.col("from_us").alias("hot_from_us"), pl.col("to_us").alias("hot_to_us")).sort(
        "hot_from_us"
    )
    ended = stretches.with_columns(pl.col("hot_to_us").cum_max().over(list(KEY)))
    joined = slow.sort("to_us").join_asof(
        ended, left_on="to_us", right_on="hot_from_us", by=list(KEY), strategy="backward", allow_exact_matches=False,
        check_sortedness=False,
    )  # fmt: skip
    return joined.with_columns((pl.col("hot_to_us") > pl.col("from_us")).fill_null(value=False).alias("is_throttled"))


def _rest(jobs: pl.DataFrame, timed: pl.DataFrame) -> pl.DataFrame:
    """The whole attempt as `unlogged` where no step is known; gaps of the others stay `other`."""
    silent = jobs.join(timed, on=list(KEY), how="anti")
    return _claims(silent, "unlogged", pl.col("from_us"), pl.col("to_us"))
