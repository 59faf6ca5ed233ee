"""GPU samples as Parquet files inside the lake's folder, before they are committed.

Belongs here: encodings, partition folders, the Delta add actions. Does not belong here: which rows, the gate, the
commit. Encodings bring a value to less than half a byte: whole numbers and times as deltas; gauges repeat, so a
dictionary suits them; the energy counter never repeats, and its bytes are split instead.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from sqlmodel import SQLModel

from warehouse.lake import Lake

ROW_GROUP = 1_000_000
THREADS = 2
NEVER_REPEATS = ("energy_j",)


@dataclass(frozen=True, slots=True)
class Written:
    """Files not yet committed, and the actions that would add them."""

    paths: Sequence[Path]
    adds: Sequence[AddAction]


def write_files(lake: Lake, model: type[SQLModel], rows: pl.DataFrame) -> Written:
    """One file for each UTC day (column `date`), sorted as given. The table must be partitioned by `date`."""
    lake.open(model)
    root = lake.path(model)
    days = rows.partition_by("date", as_dict=True, maintain_order=True)
    with ThreadPoolExecutor(THREADS) as pool:
        made = list(pool.map(lambda item: _write_day(root, item[0][0], item[1]), days.items()))
    return Written([path for path, _ in made], [add for _, add in made])


def remove_files(written: Written) -> None:
    """Take back files that will not be committed."""
    for path in written.paths:
        path.unlink(missing_ok=True)


def _write_day(root: Path, day: dt.date, rows: pl.DataFrame) -> tuple[Path, AddAction]:
    folder = root / f"date={day.isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{uuid.uuid4()}.zstd.parquet"
    body = rows.drop("date")
    table = _plain_strings(body.to_arrow())
    whole = [f.name for f in table.schema if pa.types.is_integer(f.type) or pa.types.is_timestamp(f.type)]
    split = [f.name for f in table.schema if f.name in NEVER_REPEATS]
    repeating = [
        f.name
        for f in table.schema
        if pa.types.is_string(f.type) or (pa.types.is_floating(f.type) and f.name not in NEVER_REPEATS)
    ]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=1,
        use_dictionary=repeating,
        column_encoding={
            **dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
            **dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        },
        row_group_size=ROW_GROUP,
        store_schema=False,
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())
    first, last = rows.select(pl.col("sampled_at").min().alias("a"), pl.col("sampled_at").max().alias("b")).row(0)
    stats = {
        "numRecords": rows.height,
        "minValues": {"sampled_at": _iso(first)},
        # Statistics hold milliseconds: rounding the latest time down would hide rows from a filter.
        "maxValues": {"sampled_at": _iso(last + dt.timedelta(milliseconds=1))},
        "nullCount": {"sampled_at": 0},
    }
    add = AddAction(
        path=f"{folder.name}/{path.name}",
        size=path.stat().st_size,
        partition_values={"date": day.isoformat()},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(stats),
    )
    return path, add


def _plain_strings(table: pa.Table) -> pa.Table:
    """Delta's string is Arrow's plain string; Polars gives the large or view kind."""
    fields = [
        pa.field(f.name, pa.string() if pa.types.is_large_string(f.type) or pa.types.is_string_view(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def _iso(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
