"""The row rule about time: a sample dated ahead of our clock, or before any GPU of today, is refused.

Belongs here: the rule for rows of documents, and the limits. Does not belong here: segments of our own agent, which
are judged as a whole (`assets/clock_checks.py`); plans, which may lie ahead (jobs and their tables).

One such row would make its cluster's newest reading, and by it "the last 24 hours" of every mart.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import polars as pl
from sqlmodel import SQLModel

from warehouse.quality.rows import REFUSED, raw_form
from warehouse.schema.declare import key_of, table_of

MOST_AHEAD: Final = dt.timedelta(hours=1)  # more is no drift: a time zone taken for UTC, or no time at all
EARLIEST: Final = dt.datetime(2016, 1, 1, tzinfo=dt.UTC)  # a clock without battery starts at 1970 or 2000
MOMENTS: Final = ("sampled_at", "occurred_at", "from_at", "valid_from")
LATE_RULE: Final = "{} is not ahead of the clock"
EARLY_RULE: Final = f"{{}} >= {EARLIEST:%Y-%m-%d}"
TWO_DAYS_H: Final = 48


def moment_of(model: type[SQLModel]) -> str | None:
    """The column that says when a row of a telemetry table was observed; None where the table has none."""
    if table_of(model).info["kind"] != "telemetry":
        return None
    return next((name for name in MOMENTS if name in key_of(model)), None)


def refuse_mistimed(frame: pl.DataFrame, model: type[SQLModel], now: dt.datetime) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(good rows, refused rows with rule, reason and raw form) by the time of each row alone.

    now: our own clock. Invented rows (`is_synthetic`) may lie anywhere.
    """
    name = moment_of(model)
    if name is None or frame.is_empty():
        return frame, pl.DataFrame(schema=REFUSED)
    at = pl.col(name)
    is_late, is_early = at > now + MOST_AHEAD, at < EARLIEST
    invented = pl.col("is_synthetic").fill_null(value=False) if "is_synthetic" in frame.columns else pl.lit(value=False)
    bad = frame.select(((is_late | is_early) & ~invented).fill_null(value=False)).to_series()
    if not bad.any():
        return frame, pl.DataFrame(schema=REFUSED)
    refused = frame.filter(bad).select(
        pl.when(is_late).then(pl.lit(LATE_RULE.format(name))).otherwise(pl.lit(EARLY_RULE.format(name))).alias("rule"),
        pl.when(is_late)
        .then(pl.format(f"{name} is {{}}, dated ahead of the clock by {{}}; {LATE_ADVICE}", _said(at), _span(at, now)))
        .otherwise(pl.format(f"{name} is {{}}, before any GPU this house knows; {EARLY_ADVICE}", _said(at)))
        .alias("reason"),
        raw_form(frame),
    )
    return frame.filter(~bad), refused


LATE_ADVICE: Final = "local time taken for UTC, milliseconds where seconds were due, or a wrong clock?"
EARLY_ADVICE: Final = "seconds where milliseconds were due, or a clock without time?"


def _said(at: pl.Expr) -> pl.Expr:
    return at.dt.strftime("%Y-%m-%d %H:%M:%S UTC")


def _span(at: pl.Expr, now: dt.datetime) -> pl.Expr:
    hours = (at - now).dt.total_hours()
    return pl.when(hours < TWO_DAYS_H).then(pl.format("{} hours", hours)).otherwise(pl.format("{} days", hours // 24))
