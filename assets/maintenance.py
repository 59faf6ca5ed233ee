"""Keeping the lake small and quick: compaction, retention, vacuum.

Belongs here: which files are rewritten, which days are forgotten, which files are deleted. Does not belong here:
when (`pipelines/schedules.py`). None of it changes what a reader sees, but retention, which is off unless the
operator sets a number of days.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import polars as pl
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction
from sqlmodel import SQLModel

from assets.telemetry_files import Written, remove_files, remove_unnamed, write_files
from assets.telemetry_order import IDENTITY
from warehouse.errors import WarehouseError
from warehouse.faults import fault_point
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.publish import published_versions
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema, qualified_name
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_fleet import LinkCounter
from warehouse.schema.telemetry_rollups import GpuMinute

FILE_ROWS: Final = 4_000_000  # about 60 MB: large enough to read fast, small enough to rewrite in memory
MANY_FILES: Final = 8  # small tables are rewritten once this many files gathered
SMALL_ROWS: Final = 500_000  # a file of a day that goes on is merged with others as small until it is larger
KEEP_FILES: Final = dt.timedelta(days=7)
# Days of each raw tier that the operator wants to keep; nothing is forgotten where the variable is not set.
RETENTION: Final[Mapping[str, type[SQLModel]]] = {
    "ALMANAC_KEEP_SAMPLES_DAYS": GpuSample,
    "ALMANAC_KEEP_MINUTES_DAYS": GpuMinute,
    "ALMANAC_KEEP_LINKS_DAYS": LinkCounter,
}


@dataclass(slots=True)
class Kept:
    """What a maintenance did."""

    files_before: int = 0
    files_after: int = 0
    days_forgotten: dict[str, int] = field(default_factory=dict)
    files_deleted: int = 0


def maintain(home: Home, *, today: dt.date | None = None) -> Kept:
    """Compact days that are over, forget days past their retention, delete files nobody names any more."""
    lake, done = Lake(home.lake), Kept()
    day = today or dt.datetime.now(dt.UTC).date()
    forget(lake, day, done)
    compact(lake, day, done)
    vacuum(home, lake, done)
    forget_checkpoints(lake, done)
    return done


def tidy(home: Home) -> Kept:
    """Merge the small files that rounds of an ingest leave in a day that is not over. Nothing is forgotten or deleted."""
    lake, done = Lake(home.lake), Kept()
    if lake.exists(GpuSample):
        for day in _days_in_crumbs(lake):
            _compact_day(lake, day, done, most_rows=SMALL_ROWS)
    _compact_others(lake, dt.datetime.now(dt.UTC).date(), done)
    return done


def compact(lake: Lake, today: dt.date, done: Kept) -> None:
    """Rewrite small files as few: samples of each finished day sorted by GPU and time, other tables as they are."""
    if lake.exists(GpuSample):
        for day in _days_in_pieces(lake, today):
            _compact_day(lake, day, done)
    _compact_others(lake, today, done)


def _compact_others(lake: Lake, today: dt.date, done: Kept) -> None:
    """Minutes of the day that goes on stay in a file for each hour, so that a roll-up replaces only the newest."""
    for model in tables().values():
        if model is not GpuSample and lake.exists(model):
            table = lake.open(model)
            if len(table.file_uris()) >= MANY_FILES:
                over = [("date", "!=", today.isoformat())] if model is GpuMinute else None
                told = table.optimize.compact(partition_filters=over)
                done.files_before += told["numFilesRemoved"]
                done.files_after += told["numFilesAdded"]


def _days_in_pieces(lake: Lake, today: dt.date) -> list[dt.date]:
    files = pl.DataFrame(lake.open(GpuSample).get_add_actions(flatten=True))
    if files.is_empty():
        return []
    days = files.group_by("partition.date").agg(pl.len().alias("files"), pl.col("num_records").sum().alias("rows"))
    needed = (pl.col("rows") / FILE_ROWS).ceil()
    # A day that has ended still gets late segments for a while; one more file is no reason to rewrite it.
    over = days.filter(pl.col("partition.date").cast(pl.Date) < today, pl.col("files") > needed + 1)
    return sorted(over.get_column("partition.date").cast(pl.Date).to_list())


def _days_in_crumbs(lake: Lake) -> list[dt.date]:
    files = pl.DataFrame(lake.open(GpuSample).get_add_actions(flatten=True))
    if files.is_empty():
        return []
    small = files.filter(pl.col("num_records") <= SMALL_ROWS).group_by("partition.date").len()
    many = small.filter(pl.col("len") >= MANY_FILES).get_column("partition.date")
    return sorted(many.cast(pl.Date).to_list())


def _compact_day(lake: Lake, day: dt.date, done: Kept, *, most_rows: int | None = None) -> None:
    """Rewrite a day's files, or only those of at most so many rows."""
    table = lake.open(GpuSample)
    version = table.version()
    files = pl.DataFrame(table.get_add_actions(flatten=True)).filter(pl.col("partition.date").cast(pl.Date) == day)
    if most_rows is not None:
        files = files.filter(pl.col("num_records") <= most_rows)
    root = lake.path(GpuSample)
    parts: list[Written] = []
    try:
        old = files.get_column("path").to_list()
        parts.extend(write_files(lake, GpuSample, rows) for rows in _in_order(root, old, day))
        fault_point("maintenance:rewritten")
        if not _exchange(table, files, day, parts, version):
            _take_back(parts)
            return
    except BaseException:
        remove_unnamed(lake, GpuSample, parts)
        raise
    done.files_before += files.height
    done.files_after += sum(len(p.paths) for p in parts)


def _in_order(root: Path, paths: list[str], day: dt.date) -> Iterator[pl.DataFrame]:
    """Rows of a day by GPU and time, some nodes at a time."""
    scan = pl.scan_parquet([root / unquote(path) for path in paths], hive_partitioning=False, missing_columns="insert")
    nodes = scan.group_by("node").len().sort("node").collect()
    chunk = (pl.col("len").cum_sum() // FILE_ROWS).alias("chunk")
    bounds = nodes.group_by(chunk, maintain_order=True).agg(
        pl.col("node").min().alias("low"), pl.col("node").max().alias("high")
    )
    schema = lake_schema(GpuSample)
    for low, high in bounds.select("low", "high").iter_rows():
        rows = scan.filter(pl.col("node").is_between(pl.lit(low), pl.lit(high))).collect()
        whole = rows.with_columns(
            pl.lit(day).alias("date"),
            *(pl.lit(None, kind).alias(n) for n, kind in schema.items() if n not in rows.columns and n != "date"),
        )
        yield whole.select(schema.names()).sort(*IDENTITY, "sampled_at")


def _exchange(table: DeltaTable, files: pl.DataFrame, day: dt.date, parts: list[Written], version: int) -> bool:
    """Name the new files instead of the old ones in one commit; False when another process committed meanwhile."""
    now = int(time.time() * 1000)
    adds = [add for part in parts for add in part.adds]
    for add in adds:
        add.data_change = False
    gone = [
        RemoveAction(path, False, now, size, {"date": day.isoformat()})  # noqa: FBT003 - delta's own order
        for path, size in files.select("path", "size_bytes").iter_rows()
    ]
    if table.version() != version:
        return False
    try:
        table.create_write_transaction(
            [*adds, *gone],
            "append",
            table.schema(),
            ["date"],
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except CommitFailedError:
        return False
    return True


def _take_back(parts: list[Written]) -> None:
    for part in parts:
        remove_files(part)


def kept_from(model: type[SQLModel], today: dt.date) -> dt.date | None:
    """First day of a table that is kept; None where nothing is forgotten. Raises `WarehouseError` for no number."""
    for variable, table in RETENTION.items():
        text = os.environ.get(variable, "")
        if table is model and text:
            if not text.isdigit() or int(text) < 1:
                raise WarehouseError(f"{variable} is {text!r}: give a number of days, or nothing to keep everything")
            return today - dt.timedelta(days=int(text))
    return None


def forget(lake: Lake, today: dt.date, done: Kept) -> None:
    """Leave out whole days before the retention's edge. The roll-ups of those days stay."""
    for model in RETENTION.values():
        edge = kept_from(model, today)
        if edge is None or not lake.exists(model):
            continue
        table = lake.open(model)
        files = pl.DataFrame(table.get_add_actions(flatten=True))
        days = files.get_column("partition.date").cast(pl.Date) if files.height else pl.Series([], dtype=pl.Date)
        old = days.filter(days < edge).n_unique()
        if old:
            table.delete(f"date < '{edge.isoformat()}'")
            done.days_forgotten[qualified_name(model)] = old


def vacuum(home: Home, lake: Lake, done: Kept) -> None:
    """Delete files that no version of the last seven days, and not the published file, names."""
    published = published_versions(home)
    for name, model in tables().items():
        if lake.exists(model):
            keep = [published[name]] if name in published else None
            gone = lake.open(model).vacuum(
                int(KEEP_FILES.total_seconds() // 3600), dry_run=False, full=True, keep_versions=keep
            )
            done.files_deleted += len(gone)


def forget_checkpoints(lake: Lake, done: Kept) -> None:
    """Delete checkpoints older than seven days but the newest of each table.

    A checkpoint names every file and every mark anew, so Delta's, one each hundred commits, would come to outweigh the
    log that they spare readers. That log is kept whole: any version can still be read, only more slowly.
    """
    edge = time.time() - KEEP_FILES.total_seconds()
    for model in tables().values():
        log = lake.path(model) / "_delta_log"
        found = sorted(log.glob("*.checkpoint*.parquet"))
        kept = {path.name[:20] for path in found[-1:]} | _pointed_at(log)
        for path in found:
            if path.name[:20] not in kept and path.stat().st_mtime < edge:
                path.unlink()
                done.files_deleted += 1


def _pointed_at(log: Path) -> set[str]:
    """The checkpoint that readers are sent to; after a crash it may not be the newest."""
    try:
        return {f"{json.loads((log / '_last_checkpoint').read_bytes())['version']:020d}"}
    except (FileNotFoundError, ValueError):
        return set()
