"""From what a dialect read to rows of telemetry.training_steps.

Belongs here: restarts, repeated steps, tokens, step times and warm-up, which no log states by itself.
Does not belong here: any dialect.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sources.training_logs.reading import Scalar, with_step_columns

WARM_UP_LINES = 5
WARM_UP_RATIO = 1.1


def finish_steps(read: pl.DataFrame, facts: Mapping[str, Scalar], time_zone: str) -> pl.DataFrame:
    """Add segment, pass, batch, tokens, step time, rates and warm-up to steps in the order of the log.

    facts: `seq_len`, `global_batch`, `gpus` where the log or the caller states them. time_zone: that of
    printed times without one. A line printed twice counts once; a step with other figures ran again.
    """
    steps = with_step_columns(read).filter(pl.col("step") >= 0).unique(maintain_order=True)
    steps = steps.with_columns(
        pl.coalesce("completed_at", _utc("local_time", time_zone)).alias("completed_at"),
        (pl.col("step") <= pl.col("step").shift(1)).fill_null(value=False).cum_sum().cast(pl.Int64).alias("segment"),
        (pl.col("step").cum_count().over("step")).cast(pl.Int64).alias("pass_number"),
        pl.coalesce("samples", pl.lit(facts.get("global_batch"), pl.Int64)).alias("samples"),
    )
    steps = steps.with_columns(_ahead("step").alias("steps_ahead"))
    steps = _steps_covered(steps)
    steps = _samples(steps)
    steps = _tokens(steps, facts.get("seq_len"))
    steps = _step_seconds(steps)
    steps = _rates(steps, facts.get("gpus"))
    helpers = ("steps_ahead", "local_time", "elapsed_seconds", "samples_per_s", "consumed_samples", "consumed_tokens")
    return _warm_up(steps).drop(helpers)


def _utc(column: str, time_zone: str) -> pl.Expr:
    zoned = pl.col(column).dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    return zoned.dt.convert_time_zone("UTC")


def _ahead(column: str) -> pl.Expr:
    return pl.col(column).diff().over("segment")


def _steps_covered(steps: pl.DataFrame) -> pl.DataFrame:
    """The usual distance of lines is the log interval; lines cut out of a log do not widen it."""
    distances = steps.get_column("steps_ahead").drop_nulls()
    usual = None if distances.is_empty() else int(distances.mode().sort()[0])
    interval = pl.lit(usual, pl.Int64)  # null where the log has one line
    return steps.with_columns(pl.min_horizontal("steps_ahead", interval).fill_null(interval).alias("steps_covered"))


def _samples(steps: pl.DataFrame) -> pl.DataFrame:
    """Where the batch is not printed: the growth of the consumed samples, when it is the same everywhere."""
    growth = _ahead("consumed_samples") / pl.col("steps_ahead")
    seen = steps.select(growth.drop_nulls().unique()).to_series()
    if seen.len() != 1 or seen[0] != int(seen[0]) or seen[0] <= 0:
        return steps
    return steps.with_columns(pl.coalesce("samples", pl.lit(int(seen[0]), pl.Int64)).alias("samples"))


def _tokens(steps: pl.DataFrame, seq_len: Scalar | None) -> pl.DataFrame:
    if seq_len is None:
        lengths = steps.select(
            (_ahead("consumed_tokens") / _ahead("consumed_samples")).drop_nulls().unique()
        ).to_series()
        finite = lengths.filter(lengths.is_finite())
        if finite.len() == 1 and finite[0] == int(finite[0]) and finite[0] > 0:
            seq_len = int(finite[0])
    steps = steps.with_columns(pl.lit(seq_len, pl.Int64).alias("seq_len"))
    by_batch = pl.col("samples") * pl.col("seq_len")
    grown = pl.when(pl.col("steps_ahead") == pl.col("steps_covered")).then(
        (_ahead("consumed_tokens") / pl.col("steps_ahead")).cast(pl.Int64, strict=False)
    )
    return steps.with_columns(
        pl.coalesce("tokens", by_batch, grown).alias("tokens"),
        pl.when(pl.col("tokens").is_not_null())
        .then(pl.lit("stated"))
        .when(by_batch.is_not_null())
        .then(pl.lit("batch_x_seq_len"))
        .when(grown.is_not_null())
        .then(pl.lit("consumed_difference"))
        .alias("tokens_basis"),
    )


def _step_seconds(steps: pl.DataFrame) -> pl.DataFrame:
    by_rate = pl.col("samples") / pl.col("samples_per_s")
    passed = pl.coalesce(_ahead("completed_at").dt.total_microseconds() / 1e6, _ahead("elapsed_seconds"))
    by_clock = passed / pl.col("steps_ahead")
    return steps.with_columns(
        pl.coalesce("step_seconds", by_rate, by_clock).alias("step_seconds"),
        pl.when(pl.col("step_seconds").is_not_null())
        .then(pl.lit("stated"))
        .when(by_rate.is_not_null())
        .then(pl.lit("samples_per_s"))
        .when(by_clock.is_not_null())
        .then(pl.lit("timestamps"))
        .alias("step_seconds_basis"),
    )


def _rates(steps: pl.DataFrame, gpus: Scalar | None) -> pl.DataFrame:
    steps = steps.with_columns(pl.lit(gpus, pl.Int64).alias("gpus"))
    whole = pl.col("tokens_per_s_per_gpu") * pl.col("gpus")
    steps = steps.with_columns(
        pl.coalesce("tokens_per_s", whole, pl.col("tokens") / pl.col("step_seconds")).alias("tokens_per_s")
    )
    # A step's tokens by rate and time are good to the digits printed, not exact.
    by_rate = (pl.col("tokens_per_s") * pl.col("step_seconds")).round().cast(pl.Int64, strict=False)
    return steps.with_columns(
        pl.coalesce("tokens", by_rate).alias("tokens"),
        pl.when(pl.col("tokens").is_null() & by_rate.is_not_null())
        .then(pl.lit("tokens_per_s_x_time"))
        .otherwise(pl.col("tokens_basis"))
        .alias("tokens_basis"),
    )


def _warm_up(steps: pl.DataFrame) -> pl.DataFrame:
    """The first line of a segment, and in a long one the slow among its first five; a lone line cannot be told."""
    place = pl.int_range(pl.len()).over("segment")
    lines = pl.len().over("segment")
    slow = pl.col("step_seconds") > WARM_UP_RATIO * pl.col("step_seconds").median().over("segment")
    early = (place == 0) | ((place < WARM_UP_LINES) & (lines > 2 * WARM_UP_LINES) & slow.fill_null(value=False))
    return steps.with_columns(pl.when(lines > 1).then(early).alias("is_warm_up"))
