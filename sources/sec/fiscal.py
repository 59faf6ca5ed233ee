"""Fiscal years and quarters from period ends, for 52/53-week years and any year-end month.

Belongs here: the label of a period. Does not belong here: the ends themselves, which are always read, never computed.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache

import polars as pl

QUARTER_DAYS = 91.3125
# A year of 52/53 weeks ends up to a week off the month's last day; a quarter inside it drifts a little more.
DRIFT_DAYS = 16
YEAR_END_DRIFT_DAYS = 7


def fiscal_columns(period_end: pl.Expr, year_end_month: pl.Expr) -> pl.Expr:
    """Struct `fiscal_year` (Int32), `fiscal_quarter` (1 to 4) and `year_end_gap_days` of a period's last day.

    The year is named after the calendar year in which its last month falls (NVIDIA's year to January 2027 is FY27).
    `fiscal_quarter` is null where the day is not near any quarter end of that calendar.
    """
    same_year = pl.date(period_end.dt.year(), year_end_month, 1).dt.month_end()
    overdue = (period_end - same_year).dt.total_days() > DRIFT_DAYS
    year = period_end.dt.year() + overdue.cast(pl.Int32)
    days_left = (pl.date(year, year_end_month, 1).dt.month_end() - period_end).dt.total_days()
    steps = (days_left / QUARTER_DAYS).round().cast(pl.Int32)
    # A December year that ends on 2 January belongs to the year before.
    spill = steps == 4  # noqa: PLR2004
    near = (days_left - steps * QUARTER_DAYS).abs() <= DRIFT_DAYS
    return pl.struct(
        fiscal_year=pl.when(spill).then(year - 1).otherwise(year).cast(pl.Int32),
        fiscal_quarter=pl.when(near).then(pl.when(spill).then(4).otherwise(4 - steps)).cast(pl.Int32),
        year_end_gap_days=pl.when(spill).then(days_left - 4 * QUARTER_DAYS).otherwise(days_left).cast(pl.Float64).abs(),
    )


@lru_cache(maxsize=4096)
def fiscal_quarter(period_end: dt.date, year_end_month: int) -> tuple[int, int]:
    """(fiscal year, quarter) of a quarter's last day. Raises `ValueError` where it is no quarter end."""
    row = pl.select(f=fiscal_columns(pl.lit(period_end), pl.lit(year_end_month))).row(0)[0]
    if row["fiscal_quarter"] is None:
        raise ValueError(f"{period_end} is not the end of a quarter of a year that ends in month {year_end_month}")
    return row["fiscal_year"], row["fiscal_quarter"]


@lru_cache(maxsize=4096)
def year_end_gap(period_end: dt.date, year_end_month: int) -> float:
    """Days between a day and the nominal end of the fiscal year it lies in or just after."""
    row = pl.select(f=fiscal_columns(pl.lit(period_end), pl.lit(year_end_month))).row(0)[0]
    return float(row["year_end_gap_days"])


def label(fiscal_year: int, quarter: int | None = None) -> str:
    """`FY27Q1`, or `FY27` for a whole year."""
    return f"FY{fiscal_year % 100:02d}" + (f"Q{quarter}" if quarter else "")
