"""Which readings it takes to tell how much a counter grew: the one before, those that come after a late one.

Belongs here: finding rows of counters' series. Does not belong here: committing (`grown.py`), how growth is told
(`telemetry_links.py`, `telemetry_boards.py`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from sqlmodel import SQLModel

from assets.landing import MOST_NODES
from warehouse.schema.declare import key_of, lake_schema

OWN: Final = "@own"
FIRST: Final = "@first"
LAST: Final = "@last"
# Collectors tell every counter once an hour: the reading before is nearly always in the first of these.
REACHES: Final = (dt.timedelta(hours=2), dt.timedelta(days=1), dt.timedelta(days=7), None)
read_at: Final = pl.col("sampled_at")


@dataclass(frozen=True, slots=True)
class Growing:
    """A table of counters, the table of their growth, the columns of a series, and the function that tells growth.

    narrow: what `delta_status` says only as long as no value of the series, read whenever, is beyond what few bits can
    show; beyond: is a value so?
    """

    raw: type[SQLModel]
    grown: type[SQLModel]
    series: tuple[str, ...]
    deltas: Callable[[pl.DataFrame], pl.DataFrame]
    narrow: tuple[str, ...] = ()
    beyond: pl.Expr | None = None


def not_yet(
    one: Growing,
    raw: pl.LazyFrame,
    told: pl.LazyFrame,
    begin: dt.datetime,
    end: dt.datetime,
    nodes: Sequence[str] | None,
) -> pl.DataFrame:
    """Readings of a span that have no growth yet. nodes: the only ones looked at."""
    here = (
        (pl.col("date") >= begin.date())
        & (pl.col("date") <= (end - dt.timedelta(microseconds=1)).date())
        & read_at.is_between(begin, end, closed="left")
        & (_among(nodes) if nodes is not None else pl.lit(value=True))
    )
    key = key_of(one.raw)
    return raw.filter(here).join(told.filter(here).select(key), on=key, how="anti").collect()


def narrow_before(one: Growing, told: pl.LazyFrame, new: pl.DataFrame, counters: Sequence[str]) -> pl.DataFrame:
    """Series with a row told as of few bits, of which a new reading shows that they have more.

    counters: those of which any row was ever told so.
    """
    nothing = pl.DataFrame(schema={name: lake_schema(one.raw)[name] for name in one.series})
    if one.beyond is None or not counters:
        return nothing
    wide = new.filter(one.beyond & pl.col("counter").is_in(counters)).select(one.series).unique()
    if wide.is_empty():
        return nothing
    was = pl.col("delta_status").is_in(one.narrow) & pl.col("counter").is_in(counters)
    return told.filter(was).select(one.series).unique().join(wide.lazy(), on=one.series).collect()


@dataclass(frozen=True, slots=True)
class Late:
    """Nodes (None: all) and time, ends included, in which rows come out otherwise; those rows, and the new ones outside."""

    first: dt.datetime
    last: dt.datetime
    nodes: Sequence[str] | None
    rows: pl.DataFrame
    others: pl.DataFrame


def late_window(one: Growing, told: pl.LazyFrame, new: pl.DataFrame) -> Late | None:
    """What a new reading changes that lies before one already told of in its series; None where all come in order."""
    if new.is_empty():
        return None
    ends = _ends(one, new)
    begin = _instant(ends, FIRST, last=False)
    after = told.filter(pl.col("date") >= begin.date(), read_at > begin, _among_those(new)).select(
        *one.series, "sampled_at"
    )
    late = after.join(ends.lazy(), on=one.series).filter(pl.col(FIRST) < read_at).select(one.series).unique().collect()
    if late.is_empty():
        return None
    found = late.get_column("node").unique().sort().to_list()
    mine = new.filter(_among(found))
    first, newest = (_instant(mine, "sampled_at", last=is_last) for is_last in (False, True))
    last = max(newest, _next_readable(one, told, ends.join(late, on=one.series, how="semi")) or newest)
    nodes = found if len(found) <= MOST_NODES else None
    here = read_at.is_between(first, last) & (_among(nodes) if nodes is not None else pl.lit(value=True))
    there = (
        told.filter(here, pl.col("date") >= first.date(), pl.col("date") <= last.date()).select(new.columns).collect()
    )
    return Late(first, last, nodes, pl.concat([there, new.filter(here)]), new.filter(~here))


def rows_before(one: Growing, raw: pl.LazyFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """For each series of the rows, the last readable one before its first; none where there is none."""
    found = [pl.DataFrame(schema=lake_schema(one.raw))]
    wanted = _ends(one, rows.filter(pl.col("value").is_not_null())).select(*one.series, FIRST)
    if wanted.is_empty():
        return found[0]
    begin, end = (_instant(wanted, FIRST, last=is_last) for is_last in (False, True))
    for reach in REACHES:
        since = begin - reach if reach is not None else None
        readable = raw.filter(read_at < end, pl.col("date") <= end.date(), pl.col("value").is_not_null())
        if since is not None:
            readable = readable.filter(read_at >= since, pl.col("date") >= since.date())
        one_each = (
            readable.filter(_among_those(wanted)).join(wanted.lazy(), on=one.series).filter(read_at < pl.col(FIRST))
        )
        there = one_each.drop(FIRST).sort("sampled_at").unique(one.series, keep="last").collect()
        found.append(there.select(found[0].columns))
        wanted = wanted.join(there, on=one.series, how="anti")
        if wanted.is_empty():
            break
    return pl.concat(found)


def grown(one: Growing, raw: pl.LazyFrame, rows: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The rows with their growth. before: the last readable row before them of each series."""
    given = pl.concat(
        [before.with_columns(pl.lit(value=False).alias(OWN)), rows.with_columns(pl.lit(value=True).alias(OWN))]
    )
    told = one.deltas(given)
    if one.narrow:
        unsure = told.filter(pl.col(OWN), pl.col("delta_status").is_in(one.narrow)).select(one.series).unique()
        if unsure.height:
            highest = _highest(one, raw, unsure).join(given, on=key_of(one.raw), how="anti")
            told = one.deltas(
                pl.concat([given, highest.with_columns(pl.lit(value=False).alias(OWN)).select(given.columns)])
            )
    return told.filter(OWN).select(lake_schema(one.grown).names())


def _highest(one: Growing, raw: pl.LazyFrame, series: pl.DataFrame) -> pl.DataFrame:
    """The row with the highest value of each series, whenever it was read."""
    mine = raw.filter(_among_those(series), pl.col("value").is_not_null()).join(series.lazy(), on=one.series)
    return mine.sort("value").unique(one.series, keep="last").collect()


def _next_readable(one: Growing, told: pl.LazyFrame, ends: pl.DataFrame) -> dt.datetime | None:
    """When the last of the series is read again after the end of its rows; series that never are do not count."""
    begin, end = (_instant(ends, LAST, last=is_last) for is_last in (False, True))
    wanted = ends.select(*one.series, LAST)
    latest: dt.datetime | None = None
    for reach in REACHES:
        readable = told.filter(read_at > begin, pl.col("date") >= begin.date(), pl.col("value").is_not_null())
        if reach is not None:
            readable = readable.filter(read_at <= end + reach, pl.col("date") <= (end + reach).date())
        later = readable.filter(_among_those(wanted)).join(wanted.lazy(), on=one.series).filter(read_at > pl.col(LAST))
        again = later.group_by(one.series).agg(read_at.min()).collect()
        if again.height:
            newest = _instant(again, "sampled_at", last=True)
            latest = newest if latest is None else max(latest, newest)
        wanted = wanted.join(again, on=one.series, how="anti")
        if wanted.is_empty():
            break
    return latest


def _instant(rows: pl.DataFrame, column: str, *, last: bool) -> dt.datetime:
    """The first or last instant of a column that is not empty."""
    at: dt.datetime = rows.select(pl.col(column).max() if last else pl.col(column).min()).item()
    return at


def _ends(one: Growing, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(one.series).agg(read_at.min().alias(FIRST), read_at.max().alias(LAST))


def _among(nodes: Sequence[str]) -> pl.Expr:
    return pl.col("node").is_in(nodes)


def _among_those(rows: pl.DataFrame) -> pl.Expr:
    """The nodes of the rows: what files and row groups can be told apart by."""
    nodes = rows.get_column("node").unique().to_list()
    return _among(nodes) if len(nodes) <= MOST_NODES else pl.lit(value=True)
