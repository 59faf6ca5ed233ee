"""Bringing `telemetry.gpu_minutes` and `telemetry.gpu_hours` up to date after an ingest.

Belongs here: which hours are due, reading their samples, replacing those hours. Does not belong here: how a minute
or an hour is computed (`telemetry_rollup.py`). The commits of the samples say which hours they touched; the commit
of the hours says up to which of them it has seen, so a killed roll-up is simply done again.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence

import polars as pl
from deltalake import DeltaTable
from sqlmodel import SQLModel

from assets.landing import HOUR_US
from assets.telemetry_rollup import rollup_hours, rollup_minutes
from warehouse.faults import fault_point
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute

SEEN = "samples_version"
SPAN_HOURS = 24
SOURCE = "roll-up"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def roll_up(home: Home, *, load_id: str = "") -> dict[str, int]:
    """Compute every hour touched since the last roll-up; rows written by table."""
    lake = Lake(home.lake)
    written = {"telemetry.gpu_minutes": 0, "telemetry.gpu_hours": 0}
    since = _seen(lake)
    commits = lake.history(GpuSample, since=since)
    if not commits:
        return written
    newest = commits[-1]["version"]
    hours = sorted({h + d for c in commits for h in c["stats"].get("", {}).get("hours", []) for d in (-1, 0, 1)})
    load_id = load_id or uuid.uuid4().hex
    spans = list(_spans(hours))
    for first, last in spans:
        samples = _samples(lake, first, last)
        for model, column, compute in (
            (GpuMinute, "minute_at", rollup_minutes),
            (GpuHour, "hour_at", rollup_hours),
        ):
            rows = _within(compute(samples), column, first, last)
            _replace(lake, model, rows, column, (first, last), load_id, since)
            written[f"telemetry.{model.__tablename__}"] += rows.height
            fault_point("rollup:minutes-committed")
    _remember(lake, newest, load_id)
    return written


def _seen(lake: Lake) -> int:
    for commit in reversed(lake.history(GpuHour)):
        seen = commit["stats"].get("", {}).get(SEEN)
        if seen is not None:
            return int(seen)
    return -1


def _spans(hours: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring hours, at most a day each, so that memory stays bounded."""
    start = previous = None
    for hour in hours:
        if start is None or previous is None:
            start = hour
        elif hour != previous + 1 or hour - start >= SPAN_HOURS:
            yield start, previous
            start = hour
        previous = hour
    if start is not None and previous is not None:
        yield start, previous


def _samples(lake: Lake, first: int, last: int) -> pl.LazyFrame:
    """Samples of the hours and of one hour on either side: intervals reach across."""
    begin, end = _at(first - 1), _at(last + 2)
    return lake.scan(GpuSample).filter(
        pl.col("date").is_between(begin.date(), end.date()), pl.col("sampled_at").is_between(begin, end, closed="left")
    )


def _within(rows: pl.DataFrame, column: str, first: int, last: int) -> pl.DataFrame:
    return rows.filter((pl.col(column).dt.epoch("us") // HOUR_US).is_between(first, last))


def _replace(
    lake: Lake,
    model: type[SQLModel],
    rows: pl.DataFrame,
    column: str,
    span: tuple[int, int],
    load_id: str,
    since: int,
) -> None:
    begin, end = _at(span[0]), _at(span[1] + 1)
    where = (
        f"date >= '{begin.date()}' and date <= '{end.date()}' and {column} >= '{begin:%Y-%m-%dT%H:%M:%SZ}' "
        f"and {column} < '{end:%Y-%m-%dT%H:%M:%SZ}'"
    )
    load = Load(load_id, SOURCE, Counts(rows.height, rows.height), stats={"": {SEEN: since}})
    _commit(lake, model, rows, load, where)


def _remember(lake: Lake, newest: int, load_id: str) -> None:
    load = Load(load_id, SOURCE, Counts(), "nothing new", stats={"": {SEEN: newest}})
    empty = lake.scan(GpuHour).limit(0).collect()
    _commit(lake, GpuHour, empty, load, None)


def _commit(lake: Lake, model: type[SQLModel], rows: pl.DataFrame, load: Load, where: str | None) -> None:
    prepare: Callable[[DeltaTable, list[str]], tuple[pl.DataFrame, Load]] = lambda _handle, _todo: (rows, load)  # noqa: E731
    lake.commit(model, [], prepare, replace=where)


def _at(hour: int) -> dt.datetime:
    return EPOCH + hour * HOUR
