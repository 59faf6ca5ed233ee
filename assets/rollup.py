"""Bringing `telemetry.gpu_minutes` and `telemetry.gpu_hours` up to date after an ingest.

Belongs here: which hours are due, reading their samples, replacing those hours. Does not belong here: how a minute
or an hour is computed (`telemetry_rollup.py`). The commits of the samples say which hours they touched; the commit
of the hours says up to which of them it has seen, so a killed roll-up is simply done again.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
from deltalake import DeltaTable
from sqlmodel import SQLModel

from assets.landing import MOST_NODES
from assets.maintenance import kept_from
from assets.telemetry_rollup import due_from, rollup_both
from warehouse.ddl import quoted
from warehouse.faults import fault_point
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.declare import lake_schema, qualified_name
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute

SEEN = "samples_version"
RECENT = 20  # commits looked at first
SPAN_HOURS = 24
MOST_MINUTE_ROWS = 1_000_000
CHUNK_ROWS = 500_000
THREADS = 2
SOURCE = "roll-up"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)

# table, the column of its buckets, rows, the first instant and the last hour that they replace
_Change = tuple[type[SQLModel], str, pl.DataFrame, dt.datetime, int]


def roll_up(home: Home, *, load_id: str = "") -> dict[str, int]:
    """Compute every hour touched since the last roll-up; rows written by table."""
    lake = Lake(home.lake)
    written = {"telemetry.gpu_minutes": 0, "telemetry.gpu_hours": 0}
    since = _seen(lake)
    commits = lake.history(GpuSample, since=since)
    if not commits:
        return written
    newest = commits[-1]["version"]
    notes = [c["stats"].get("", {}) for c in commits]
    touched = _touched(notes)
    hours = sorted({h for hour, since_at in touched.items() for h in (_hour(since_at), hour, hour + 1)})
    nodes = _few(notes)
    load_id = load_id or uuid.uuid4().hex
    edge = kept_from(GpuSample, today())
    if edge is not None:  # what is left of a forgotten day would replace its good hours
        first_kept = (edge - EPOCH.date()).days * SPAN_HOURS
        hours = [hour for hour in hours if hour >= first_kept]
    for first, last in (part for span in _spans(hours) for part in _parts(lake, *span, nodes)):
        begin = _minutes_from(touched, first, last)
        minutes, whole = _computed(lake, first, last, nodes, begin)
        changes: list[_Change] = [(GpuMinute, "minute_at", minutes, *piece) for piece in _pieces(begin, last)]
        changes.append((GpuHour, "hour_at", whole, _at(first), last))
        for model, column, rows, at, end in changes:
            mine = _within(rows, column, at, end)
            _replace(lake, model, mine, _span(column, at, end, nodes), load_id, since)
            written[qualified_name(model)] += mine.height
            fault_point("rollup:minutes-committed")
    _remember(lake, newest, load_id)
    return written


def today() -> dt.date:
    """The UTC day."""
    return dt.datetime.now(dt.UTC).date()


def _touched(notes: Sequence[Mapping[str, Any]]) -> dict[int, dt.datetime]:
    """Hours that samples came for, each with the first minute that changes by them.

    An hour ends with what its successor makes of the interval between them, so both are due; the one before only
    where that minute lies in it.
    """
    earliest: dict[int, dt.datetime] = {}
    for note in notes:
        told = note.get("from_at")
        for hour in note.get("hours", ()):
            first = _at(hour) if told is None else max(_at(hour), dt.datetime.fromisoformat(told))
            earliest[hour] = min(first, earliest.get(hour, first))
    return {hour: due_from(first) for hour, first in earliest.items()}


def _minutes_from(touched: Mapping[int, dt.datetime], first: int, last: int) -> dt.datetime:
    """The first minute of a span that is due: what came before the span changes it from its beginning."""
    due = [since_at for hour, since_at in touched.items() if _hour(since_at) <= last and hour + 1 >= first]
    return max(_at(first), min(due)) if due else _at(first)


def _pieces(begin: dt.datetime, last: int) -> Iterator[tuple[dt.datetime, int]]:
    """Minutes of the newest hour (the last but one: the last is the one that may follow) apart from those before.

    A replaced minute costs its whole file: the hour that every round of an ingest replaces has one of its own.
    """
    newest = max(begin, _at(last - 1))
    if begin < newest:
        yield begin, last - 2
    yield newest, last


def _few(notes: Sequence[Mapping[str, Any]]) -> Sequence[str] | None:
    """The only nodes whose samples came, where the commits name them and they are few; None for all nodes.

    One node that comes late does not make a fleet's hours be computed again.
    """
    told = [note.get("nodes") for note in notes if note.get("hours")]
    nodes = sorted({node for some in told for node in some or ()})
    return nodes if nodes and None not in told and len(nodes) <= MOST_NODES else None


def _parts(lake: Lake, first: int, last: int, nodes: Sequence[str] | None) -> Iterator[tuple[int, int]]:
    """A span cut so that its minutes fit in memory, however many GPUs there are."""
    gpus = _samples(lake, first, last, nodes).select(pl.col("gpu_uuid").n_unique()).collect().item()
    step = max(1, MOST_MINUTE_ROWS // (60 * max(1, gpus)))
    for begin in range(first, last + 1, step):
        yield begin, min(begin + step - 1, last)


def _computed(
    lake: Lake, first: int, last: int, only: Sequence[str] | None, minutes_from: dt.datetime
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Minutes from an instant on and hours of a span, some nodes at a time, two threads side by side."""
    samples = _samples(lake, first, last, only)
    nodes = samples.group_by("node").len().sort("node").collect()
    chunk = pl.col("len").cum_sum() // CHUNK_ROWS
    chunks = nodes.group_by(chunk.alias("chunk"), maintain_order=True).agg(
        pl.col("node").min().alias("low"), pl.col("node").max().alias("high")
    )

    def one(low: str, high: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        mine = samples.filter(pl.col("node").is_between(pl.lit(low), pl.lit(high)))
        minutes, hours = rollup_both(mine, minutes_from)
        return _within(minutes, "minute_at", minutes_from, last), _within(hours, "hour_at", _at(first), last)

    bounds = list(chunks.select("low", "high").iter_rows())
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda bound: one(*bound), bounds))
    if not done:
        return pl.DataFrame(schema=lake_schema(GpuMinute)), pl.DataFrame(schema=lake_schema(GpuHour))
    return pl.concat([m for m, _ in done]), pl.concat([h for _, h in done])


def _seen(lake: Lake) -> int:
    """Every roll-up's last commit says it; older commits are read only after other work on the table."""
    for limit in (RECENT, None):
        for commit in reversed(lake.history(GpuHour, limit=limit)):
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


def _samples(lake: Lake, first: int, last: int, nodes: Sequence[str] | None) -> pl.LazyFrame:
    """Samples of the hours and of one hour on either side: intervals reach across."""
    begin, end = _at(first - 1), _at(last + 2)
    samples = lake.scan(GpuSample).filter(
        pl.col("date").is_between(begin.date(), end.date()), pl.col("sampled_at").is_between(begin, end, closed="left")
    )
    return samples if nodes is None else samples.filter(pl.col("node").is_in(nodes))


def _within(rows: pl.DataFrame, column: str, begin: dt.datetime, last: int) -> pl.DataFrame:
    return rows.filter(pl.col(column).is_between(begin, _at(last + 1), closed="left"))


def _replace(
    lake: Lake,
    model: type[SQLModel],
    rows: pl.DataFrame,
    where: str,
    load_id: str,
    since: int,
) -> None:
    load = Load(load_id, SOURCE, Counts(rows.height, rows.height), stats={"": {SEEN: since}})
    _commit(lake, model, rows, load, where)


def _span(column: str, begin: dt.datetime, last: int, nodes: Sequence[str] | None) -> str:
    """The rows of a roll-up from an instant to the end of an hour (and of nodes), as an SQL condition."""
    end = _at(last + 1)
    hours = (
        f"date >= '{begin.date()}' and date <= '{end.date()}' and {column} >= '{begin:%Y-%m-%dT%H:%M:%SZ}' "
        f"and {column} < '{end:%Y-%m-%dT%H:%M:%SZ}'"
    )
    if nodes is None:
        return hours
    listed = ", ".join(quoted(node) for node in nodes)
    return f"{hours} and node in ({listed})"


def _remember(lake: Lake, newest: int, load_id: str) -> None:
    load = Load(load_id, SOURCE, Counts(), "nothing new", stats={"": {SEEN: newest}})
    empty = lake.scan(GpuHour).limit(0).collect()
    _commit(lake, GpuHour, empty, load, None)


def _commit(lake: Lake, model: type[SQLModel], rows: pl.DataFrame, load: Load, where: str | None) -> None:
    prepare: Callable[[DeltaTable, list[str]], tuple[pl.DataFrame, Load]] = lambda _handle, _todo: (rows, load)  # noqa: E731
    lake.commit(model, [], prepare, replace=where)


def _at(hour: int) -> dt.datetime:
    return EPOCH + hour * HOUR


def _hour(at: dt.datetime) -> int:
    return (at - EPOCH) // HOUR
