"""GPU samples as Parquet files inside the lake's folder, before they are committed.

Belongs here: files, partition folders, the Delta add actions. Does not belong here: which rows, which encodings
(`telemetry_encodings.py`), the gate, the commit.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from sqlmodel import SQLModel

from assets.telemetry_encodings import encodings
from assets.telemetry_known import bounds
from warehouse.lake import Lake

ROW_GROUP = 1_000_000
WRITE_BATCH = 16_384
PAGE_ROWS = 32_768  # a page is pressed by itself, and a reader who seeks one GPU takes whole pages apart
PAGE_BYTES = 4 << 20
# Arrow's own allocator gives the memory of every file back and asks for it again, and the system clears it each time.
pa.set_memory_pool(pa.system_memory_pool())
Numbers = np.ndarray[Any, np.dtype[np.int64]]
SOUGHT = ("sampled_at", "cluster", "node", "gpu_uuid")  # columns by which a reader skips row groups


@dataclass(frozen=True, slots=True)
class Written:
    """Files not yet committed, and the actions that would add them."""

    paths: Sequence[Path]
    adds: Sequence[AddAction]


def write_files(lake: Lake, model: type[SQLModel], rows: pl.DataFrame) -> Written:
    """One file for each UTC day (column `date`), sorted as given. The table must exist, partitioned by `date`.

    Raises `OSError` when the disk is full; nothing is left behind then.
    """
    root = lake.path(model)
    paths: list[Path] = []
    adds: list[AddAction] = []
    try:
        days = rows.get_column("date").unique().sort()
        for day in days:
            path, add = _write_day(root, day, rows if len(days) == 1 else rows.filter(pl.col("date") == day))
            paths.append(path)
            adds.append(add)
    except BaseException:
        remove_files(Written(paths, adds))
        raise
    return Written(paths, adds)


def remove_files(written: Written) -> None:
    """Take back files that will not be committed."""
    for path in written.paths:
        path.unlink(missing_ok=True)


def remove_unnamed(lake: Lake, model: type[SQLModel], some: Sequence[Written]) -> None:
    """After an interruption: take back files that no commit names. It may have come just after the commit."""
    root = lake.path(model)
    named = {root / unquote(path) for path in pl.DataFrame(lake.open(model).get_add_actions())["path"]}
    for one in some:
        remove_files(Written([path for path in one.paths if path not in named], []))


def _write_day(root: Path, day: dt.date, rows: pl.DataFrame) -> tuple[Path, AddAction]:
    folder = root / f"date={day.isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{uuid.uuid4()}.zstd.parquet"
    try:
        _write(path, rows.drop("date"))
        return path, _add_action(folder, path, day, rows)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _write(path: Path, body: pl.DataFrame) -> None:
    columns = {name: _arrow(body.get_column(name)) for name in body.columns}
    # A column without nulls is written as required: neither writer nor readers then handle a level for each value.
    schema = pa.schema([pa.field(name, c.type, nullable=c.null_count > 0) for name, c in columns.items()])
    chosen = encodings(body)
    pq.write_table(
        pa.Table.from_arrays(list(columns.values()), schema=schema),
        path,
        compression="zstd",
        compression_level=1,
        use_dictionary=chosen.dictionary,
        column_encoding=dict(chosen.other),
        write_statistics=[name for name in SOUGHT if name in columns],
        row_group_size=ROW_GROUP,
        write_batch_size=WRITE_BATCH,
        max_rows_per_page=PAGE_ROWS,
        data_page_size=PAGE_BYTES,
        store_schema=False,
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _arrow(column: pl.Series) -> pa.Array:
    """Text as a dictionary made from its runs: rows lie GPU by GPU, so few values need to be looked at."""
    if column.dtype not in (pl.String, pl.Categorical):
        return _plain(column.rechunk())
    if column.null_count() == len(column):
        return pa.nulls(len(column), pa.string())
    starts = _starts(column.to_physical())
    heads = _plain(column.gather(starts).cast(pl.String)).dictionary_encode()
    codes = np.repeat(heads.indices.fill_null(-1).to_numpy(), np.diff(starts, append=len(column)))
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0 if heads.null_count else None), heads.dictionary
    )


def _starts(told: pl.Series) -> Numbers:
    """Where a row begins that differs from the row before."""
    if told.null_count() or not told.dtype.is_integer():
        changes = told.slice(1).ne_missing(told.slice(0, len(told) - 1)).arg_true().to_numpy()
    else:
        numbers = told.to_numpy()
        changes = np.flatnonzero(numbers[1:] != numbers[:-1])
    return np.concatenate(([0], changes.astype(np.int64) + 1))


def _plain(column: pl.Series) -> pa.Array:
    """Delta's string is Arrow's plain string; Polars gives the view kind."""
    array = column.to_arrow()
    return array.cast(pa.string()) if column.dtype == pl.String else array


def _add_action(folder: Path, path: Path, day: dt.date, rows: pl.DataFrame) -> AddAction:
    bounded = ("sampled_at", "cluster", "node")
    low, high = bounds(rows, bounded)
    stats = {
        "numRecords": rows.height,
        "minValues": {"sampled_at": _iso(low[0]), "cluster": low[1], "node": low[2]},
        # Statistics hold milliseconds: rounding the latest time down would hide rows from a filter.
        "maxValues": {"sampled_at": _iso(high[0] + dt.timedelta(milliseconds=1)), "cluster": high[1], "node": high[2]},
        "nullCount": dict.fromkeys(bounded, 0),
    }
    return AddAction(
        path=f"{folder.name}/{path.name}",
        size=path.stat().st_size,
        partition_values={"date": day.isoformat()},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(stats),
    )


def _iso(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
