"""Growth of counters kept in the lake: `telemetry.link_counters` and `telemetry.ecc_counters` with their deltas.

Belongs here: which rows are due, and committing them once. Does not belong here: how growth is told
(`telemetry_links.py`, `telemetry_boards.py`), which rows that takes (`grown_rows.py`), publishing.

A reading that comes in order only adds a row. One that comes late changes those after it in its series, up to the
next readable one; that span of its nodes is then replaced. The commits of the readings say which hours they touched;
the commits here say up to which of them they have seen, so a killed round is simply done again.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl
from deltalake import DeltaTable
from sqlmodel import SQLModel

from assets.grown_rows import Growing, grown, late_window, narrow_before, not_yet, rows_before
from assets.landing import MOST_NODES
from assets.maintenance import kept_from
from assets.telemetry_boards import ECC, ecc_deltas
from assets.telemetry_links import NARROW, SERIES, is_beyond, link_deltas
from warehouse.ddl import quoted
from warehouse.errors import WarehouseError
from warehouse.faults import fault_point
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.declare import lake_schema, qualified_name
from warehouse.schema.telemetry_boards import EccCounter, EccGrowth
from warehouse.schema.telemetry_fleet import LinkCounter, LinkGrowth

LINKS: Final = Growing(LinkCounter, LinkGrowth, SERIES, link_deltas, NARROW, is_beyond())
BOARDS: Final = Growing(EccCounter, EccGrowth, ECC, ecc_deltas)
SOURCE: Final = "growth"
SEEN: Final = "seen_version"
NARROW_COUNTERS: Final = "narrow_counters"
RECENT: Final = 20  # commits looked at first
ATTEMPTS: Final = 10
HOUR: Final = dt.timedelta(hours=1)
DAY: Final = dt.timedelta(days=1)
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Span = tuple[dt.datetime, dt.datetime]  # from the first instant to before the second, within one UTC day


class _OvertakenError(Exception):
    """Another process committed first."""


def update_growth(lake: Lake, *, today: dt.date | None = None) -> int:
    """Bring the growth of every counter up to date; returns how many rows were written."""
    day = today or dt.datetime.now(dt.UTC).date()
    return sum(_update(lake, one, day) for one in (LINKS, BOARDS) if lake.exists(one.raw))


def _update(lake: Lake, one: Growing, today: dt.date) -> int:
    for _ in range(ATTEMPTS):
        try:
            return _Round(lake, one, kept_from(one.raw, today)).run()
        except _OvertakenError:
            continue
    raise WarehouseError(f"{qualified_name(one.grown)}: other processes kept committing first; run again")


@dataclass(slots=True)
class _Due:
    """What was read since: spans of time in order, the only nodes where they are few, or everything again."""

    spans: list[Span] = field(default_factory=list)
    nodes: Sequence[str] | None = None
    is_replaced: bool = False


class _Round:
    """One look at one table: its readings as they are now, and our own version, which no other may move meanwhile."""

    def __init__(self, lake: Lake, one: Growing, kept_from: dt.date | None) -> None:
        self.lake, self.one, self.kept_from = lake, one, kept_from
        self.load_id = uuid.uuid4().hex
        self.version = lake.open(one.grown).version()
        self.table = lake.open(one.raw)
        self.raw = _scan(self.table, one.raw, kept_from)
        self.seen, self.narrow = self._known()
        self.written = 0

    def run(self) -> int:
        newest = self.table.version()
        due = self._due() if newest > self.seen else _Due()
        if due.is_replaced:
            self._again_from(dt.date.min)
        for begin, end in due.spans:
            self._take(begin, end, due.nodes)
            fault_point("growth:span-committed")
        self._forget()
        wrong = self._first_wrong()
        if wrong is not None:  # something else than landing has changed the readings
            self._again_from(wrong)
        if newest > self.seen:
            self.seen = newest
            self._commit(pl.DataFrame(schema=lake_schema(self.one.grown)))
        return self.written

    def _known(self) -> tuple[int, list[str]]:
        for limit in (RECENT, None):
            for commit in reversed(self.lake.history(self.one.grown, limit=limit)):
                notes = commit["stats"].get("", {})
                if SEEN in notes:
                    return int(notes[SEEN]), list(notes[NARROW_COUNTERS])
        return -1, []

    def _due(self) -> _Due:
        if self.seen < 0:
            return _Due([(at, at + DAY) for at in map(_midnight, sorted(_rows_by_day(self.table, self.kept_from)))])
        told = [e for e in self.table.history(self.table.version() - self.seen) if int(e["version"]) > self.seen]
        ours = [e for e in told if e.get("almanac")]
        if any(str(e.get("operationParameters", {}).get("mode", "")) == "Overwrite" for e in ours):
            return _Due(is_replaced=True)
        notes = [json.loads(e.get("almanac_stats") or "{}").get("", {}) for e in ours]
        named = [n.get("nodes") for n in notes if n.get("hours")]
        nodes = sorted({node for some in named for node in some or ()})
        is_few = bool(nodes) and None not in named and len(nodes) <= MOST_NODES
        hours = sorted({h for n in notes for h in n.get("hours", [])})
        first = _midnight(self.kept_from) if self.kept_from else EPOCH
        return _Due([s for s in _spans(hours) if s[0] >= first], nodes if is_few else None)

    def _take(self, begin: dt.datetime, end: dt.datetime, nodes: Sequence[str] | None) -> None:
        """Add the growth of readings of a span that are not there yet."""
        new = not_yet(self.one, self.raw, self._grown(), begin, end, nodes)
        if new.is_empty():
            return
        widened = narrow_before(self.one, self._grown(), new, self.narrow)
        if widened.height:
            self._whole_series(widened)
            new = new.join(widened.select("node", "counter").unique(), on=("node", "counter"), how="anti")
        late = late_window(self.one, self._grown(), new)
        if late is not None:
            rows, new = late.rows, late.others
            self._commit(self._told(rows), _where(late.first, late.last, late.nodes))
        if new.height:
            self._commit(self._told(new))

    def _told(self, rows: pl.DataFrame) -> pl.DataFrame:
        told = grown(self.one, self.raw, rows, rows_before(self.one, self.raw, rows))
        if self.one.narrow:
            seen = told.filter(pl.col("delta_status").is_in(self.one.narrow)).get_column("counter").unique()
            self.narrow = sorted({*self.narrow, *seen})
        return told

    def _whole_series(self, series: pl.DataFrame) -> None:
        """All rows of these counters of these nodes: one more bit has shown that what was told of them was wrong."""
        nodes, counters = (series.get_column(n).unique().sort().to_list() for n in ("node", "counter"))
        mine = pl.col("node").is_in(nodes) & pl.col("counter").is_in(counters)
        rows = self.raw.filter(mine).collect()
        where = f"node in ({_listed(nodes)}) and counter in ({_listed(counters)})"
        self._commit(self.one.deltas(rows), where)

    def _again_from(self, first: dt.date) -> None:
        """Every day from the first on, anew."""
        for day in sorted(_rows_by_day(self.table, self.kept_from)):
            if day >= first:
                rows = self.raw.filter(pl.col("date") == day).collect()
                self._commit(self._told(rows), f"date = '{day}'")

    def _forget(self) -> None:
        """Leave out days whose readings are forgotten; the growth of those after them stays known."""
        gone = _rows_by_day(self.lake.open(self.one.grown)).keys() - _rows_by_day(self.table, self.kept_from).keys()
        if gone:
            nothing = pl.DataFrame(schema=lake_schema(self.one.grown))
            self._commit(nothing, f"date in ({_listed([str(day) for day in sorted(gone)])})")

    def _first_wrong(self) -> dt.date | None:
        """The first day that has more rows here than readings, or fewer."""
        wanted, have = _rows_by_day(self.table, self.kept_from), _rows_by_day(self.lake.open(self.one.grown))
        return min((day for day, rows in wanted.items() if rows != have.get(day, 0)), default=None)

    def _grown(self) -> pl.LazyFrame:
        table = self.lake.open(self.one.grown)
        if table.version() != self.version:
            raise _OvertakenError
        return _scan(table, self.one.grown)

    def _commit(self, rows: pl.DataFrame, where: str | None = None) -> None:
        notes: dict[str, Any] = {SEEN: self.seen, NARROW_COUNTERS: self.narrow}
        load = Load(self.load_id, SOURCE, Counts(rows.height, rows.height), stats={"": notes})
        expected = self.version
        prepare: Callable[[DeltaTable, list[str]], tuple[pl.DataFrame, Load] | None] = lambda handle, _todo: (  # noqa: E731
            (rows, load) if handle.version() == expected else None
        )
        if self.lake.commit(self.one.grown, [], prepare, replace=where) is None:
            raise _OvertakenError
        self.version += 1
        self.written += rows.height


def _scan(table: DeltaTable, model: type[SQLModel], first: dt.date | None = None) -> pl.LazyFrame:
    rows = pl.scan_delta(table).select(pl.col(name).cast(kind) for name, kind in lake_schema(model).items())
    return rows if first is None else rows.filter(pl.col("date") >= first)


def _rows_by_day(table: DeltaTable, first: dt.date | None = None) -> dict[dt.date, int]:
    files = pl.DataFrame(table.get_add_actions(flatten=True))
    if files.is_empty():
        return {}
    days = files.group_by(pl.col("partition.date").cast(pl.Date).alias("day")).agg(pl.col("num_records").sum())
    return {day: rows for day, rows in days.iter_rows() if rows and (first is None or day >= first)}


def _spans(hours: Sequence[int]) -> Iterator[Span]:
    """The hours of each day, from the first of them to the last."""
    days: dict[int, list[int]] = {}
    for hour in hours:
        days.setdefault(hour // 24, []).append(hour)
    for _, mine in sorted(days.items()):
        yield EPOCH + mine[0] * HOUR, EPOCH + (mine[-1] + 1) * HOUR


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def _where(first: dt.datetime, last: dt.datetime, nodes: Sequence[str] | None) -> str:
    span = (
        f"date >= '{first.date()}' and date <= '{last.date()}' and sampled_at >= '{first:%Y-%m-%dT%H:%M:%S.%fZ}' "
        f"and sampled_at <= '{last:%Y-%m-%dT%H:%M:%S.%fZ}'"
    )
    return span if nodes is None else f"{span} and node in ({_listed(nodes)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in names)
