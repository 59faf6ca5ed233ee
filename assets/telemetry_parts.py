"""Rows that come in parts: a Prometheus sends the metrics of one scrape in several requests, some of them late.

Belongs here: joining the parts of a row, before it lands and after. Does not belong here: two readings that disagree
(the first stands), collectors that write a row at once. A part that comes after its row has landed fills the columns
that are null there: the files that hold such rows are written again, and one commit names the new ones instead.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import polars as pl
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction
from sqlmodel import SQLModel

from assets.telemetry_files import Written, remove_files, remove_unnamed, write_files
from assets.telemetry_known import Known
from warehouse.errors import WarehouseError
from warehouse.lake import Lake, Load
from warehouse.schema.declare import key_of, lake_schema
from warehouse.schema.telemetry import GpuSample

QUARANTINED: Final = pl.Schema(dict.fromkeys(("rule", "reason", "raw", "locator", "payload_sha256"), pl.String()))
IN_PARTS: Final = ("prometheus",)
ATTEMPTS: Final = 10
_KEY: Final = tuple(key_of(GpuSample))


def one_for_each(ordered: pl.DataFrame, same: pl.Series) -> pl.DataFrame:
    """Rows without repeats; `same` marks a row whose key is that of the row before. The first stays.

    Where a collector's rows come in parts, the others fill what is null in it.
    """
    kept = ordered.filter(~same)
    run = (~same).cum_sum().alias("@run")
    parts = ordered.with_columns(run).filter(run.is_duplicated() & _in_parts(ordered))
    if parts.is_empty():
        return kept
    whole = _joined(parts, ["@run"])
    return kept.with_columns(run.filter(~same)).update(whole, on="@run").drop("@run")


def joined(frames: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """Frames of several layouts, each without repeats, as one without repeats; how many rows were left out."""
    whole = pl.concat(frames, rechunk=False)
    keys = whole.select(_KEY).clear()
    for number, later in enumerate(frames):
        before = [frame.select(_KEY) for frame in frames[:number]]
        if before:
            keys.extend(later.select(_KEY).join(pl.concat(before), on=_KEY, how="semi"))
    keys = keys.unique()
    if keys.is_empty():
        return whole, 0
    again = first_or_joined(whole.join(keys, on=_KEY, how="semi", maintain_order="left"), _KEY)
    rows = pl.concat([whole.join(keys, on=_KEY, how="anti", maintain_order="left"), again])
    return rows, whole.height - rows.height


def first_or_joined(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """One row for each key: the first, or the parts as one where a collector's rows come in parts."""
    parts = rows.filter(_in_parts(rows))
    if parts.is_empty():
        return rows.unique(subset=key, keep="first", maintain_order=True)
    firsts = rows.filter(~_in_parts(rows)).unique(subset=key, keep="first", maintain_order=True)
    return pl.concat([firsts, _joined(parts, key)])


def too_late(lake: Lake, model: type[SQLModel], rows: pl.DataFrame) -> pl.DataFrame:
    """Records that know more than the row of theirs that landed, for the quarantine: no table but samples is filled in."""
    key = key_of(model)
    values = [n for n in rows.columns if n not in key and n in lake_schema(model)]
    if not _in_parts(rows.head(1)).any() or not lake.exists(model):
        return pl.DataFrame(schema=QUARANTINED)
    stored = lake.scan(model).select(*key, *(pl.col(name).is_null().alias(f"@no {name}") for name in values))
    typed = rows.with_columns(
        pl.col(name).cast(kind, strict=False) for name, kind in lake_schema(model).items() if name in key
    )
    held = typed.lazy().join(stored, on=key, how="inner", maintain_order="left").collect()
    news = pl.any_horizontal(pl.col(name).is_not_null() & pl.col(f"@no {name}") for name in values)
    return held.filter(news).select(
        pl.lit("one row for a key").alias("rule"),
        pl.lit("a part of this row came after the row had landed").alias("reason"),
        pl.struct(rows.columns).struct.json_encode().alias("raw"),
        pl.lit("").alias("locator"),
        pl.lit(None, pl.String).alias("payload_sha256"),
    )


def late_parts(known: Known, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose key the table holds with a null where they have a value."""
    rows = rows.filter(_in_parts(rows))
    near = known.near(rows) if rows.height else []
    if not near:
        return rows.clear()
    values = _values(rows)
    stored = _stored(near).select(*_typed(rows), *(pl.col(name).is_null().alias(f"@no {name}") for name in values))
    held = rows.lazy().join(stored, on=_KEY, how="inner", maintain_order="left")
    news = pl.any_horizontal(pl.col(name).is_not_null() & pl.col(f"@no {name}") for name in values)
    return held.filter(news).select(rows.columns).collect()


def fill_in(lake: Lake, rows: pl.DataFrame, load: Callable[[pl.DataFrame], Load]) -> int:
    """Fill what late parts know into the rows that landed; how many rows were filled. Safe to repeat.

    Raises `OSError` when the disk is full: nothing is changed then.
    """
    if rows.is_empty():
        return 0
    for _ in range(ATTEMPTS):
        known = Known(lake)
        late = late_parts(known, rows)
        if late.is_empty():
            return 0
        written: list[Written] = []
        gone: list[RemoveAction] = []
        try:
            for path, day, whole in _filled(known, late):
                written.append(write_files(lake, GpuSample, whole))
                gone.append(_removed(known, path, day))
            if _exchanged(lake.open(GpuSample), known.version, written, gone, load(late)):
                return late.height
        except BaseException:
            remove_unnamed(lake, GpuSample, written)
            raise
        _take_back(written)
    raise WarehouseError("other processes kept writing samples; run `almanac ingest` again")


def _in_parts(rows: pl.DataFrame) -> pl.Series:
    return rows.get_column("source").cast(pl.String).is_in(IN_PARTS)


def _values(rows: pl.DataFrame) -> list[str]:
    return [name for name in rows.columns if name not in _KEY and name != "date" and not name.startswith("@")]


def _joined(parts: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """The first value of each column in each group of parts."""
    rest = pl.exclude(on).drop_nulls().first()
    return parts.group_by(on, maintain_order=True).agg(rest).select(parts.columns)


def _typed(rows: pl.DataFrame) -> list[pl.Expr]:
    return [pl.col(name).cast(rows.schema[name]) for name in _KEY]


def _stored(paths: list[Path]) -> pl.LazyFrame:
    """Files as the table's columns, those they were written without null; `date` is their folder's."""
    schema = {name: kind for name, kind in lake_schema(GpuSample).items() if name != "date"}
    scan = pl.scan_parquet(paths, hive_partitioning=False, missing_columns="insert")
    have = scan.collect_schema()
    return scan.select(
        pl.col(name).cast(kind) if name in have else pl.lit(None, kind).alias(name) for name, kind in schema.items()
    )


def _filled(known: Known, late: pl.DataFrame) -> Iterator[tuple[Path, dt.date, pl.DataFrame]]:
    """Each file that holds a row to be filled, its day, and its rows after that."""
    plain = late.with_columns(pl.col(name).cast(kind) for name, kind in lake_schema(GpuSample).items())
    for path in known.near(late):
        rows = _stored([path]).collect()
        if not rows.join(plain, on=_KEY, how="semi").height:
            continue
        new = plain.select(*_KEY, *(pl.col(name).alias(f"@new {name}") for name in _values(plain)))
        joined_rows = rows.join(new, on=_KEY, how="left", maintain_order="left")
        whole = joined_rows.with_columns(pl.coalesce(name, f"@new {name}").alias(name) for name in _values(plain))
        day = dt.date.fromisoformat(unquote(path.parent.name).removeprefix("date="))
        yield path, day, whole.with_columns(pl.lit(day).alias("date")).select(lake_schema(GpuSample).names())


def _removed(known: Known, path: Path, day: dt.date) -> RemoveAction:
    name, size = known.action_of(path)
    return RemoveAction(name, True, int(time.time() * 1000), size, {"date": day.isoformat()})  # noqa: FBT003 - delta's own order


def _exchanged(
    table: DeltaTable, version: int, written: Sequence[Written], gone: Sequence[RemoveAction], load: Load
) -> bool:
    """False when another process committed since the files were read."""
    if table.version() != version:
        return False
    properties = CommitProperties(custom_metadata=load.metadata(), max_commit_retries=0)
    try:
        table.create_write_transaction(
            [*(add for one in written for add in one.adds), *gone],
            "append",
            table.schema(),
            ["date"],
            commit_properties=properties,
        )
    except CommitFailedError:
        return False
    return True


def _take_back(written: Sequence[Written]) -> None:
    for one in written:
        remove_files(one)
