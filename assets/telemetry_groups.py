"""A group of segments made ready to land: read, cleaned, judged row by row, written as files not yet committed.

Belongs here: what one thread does with its share of a batch. Does not belong here: rules about the whole batch, the
gate, the commit (`ingest.py`). Several groups run side by side; each lets go of its rows once they are on disk.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from assets.landing import hours_of, nodes_of
from assets.telemetry_clean import clean_segments
from assets.telemetry_files import Written, write_files
from assets.telemetry_known import Known
from assets.telemetry_parts import late_parts
from assets.telemetry_refused import with_origin
from assets.telemetry_unknown import unknown_kinds, unknown_records
from assets.waiting import THREADS, Waiting
from sources.telemetry.rooms import Rooms
from sources.telemetry.segment import read_segments
from warehouse.lake import Lake
from warehouse.quality.batches import Sizes, sizes_of
from warehouse.quality.edges import edges_of
from warehouse.quality.rows import REFUSED, refuse
from warehouse.schema.declare import qualified_name
from warehouse.schema.telemetry import GpuSample

SAMPLES = qualified_name(GpuSample)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of a group. `hurt` are segments with damage: nothing of them is in here.

    read = kept + refused + repeated; records: frames of the other telemetry tables; unknown: records that no table
    takes, for the quarantine; late: parts of rows that have landed already, counted as repeated; edges: those of the
    kept samples; sizes: what batch rules compare, nothing where no row is kept; nodes: None where they are many; span:
    first and last time of the kept samples.
    """

    segment_ids: Sequence[str]
    hurt: Sequence[Waiting]
    records: Mapping[str, pl.DataFrame]
    unknown: pl.DataFrame
    late: pl.DataFrame
    undeclared: Sequence[str]
    read: int
    kept: int
    refused: pl.DataFrame
    edges: pl.DataFrame
    sizes: Mapping[str, Sizes]
    hours: Sequence[int]
    nodes: Sequence[str] | None
    span: tuple[dt.datetime, dt.datetime] | None
    written: Written


def prepare(lake: Lake, groups: Sequence[Sequence[Waiting]], known: Known) -> list[Prepared]:
    """Every group, in their order. Raises `OSError` when the disk is full: nothing is committed then."""
    rooms = Rooms()
    if len(groups) == 1:
        return [_prepare(lake, groups[0], known, rooms)]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda group: _prepare(lake, group, known, rooms), groups))


def _prepare(lake: Lake, group: Sequence[Waiting], known: Known, rooms: Rooms) -> Prepared:
    hurt: list[Waiting] = []
    batch = read_segments(((str(w.path), w.path) for w in group), rooms)
    if batch.damage:
        names = {name for name, _ in batch.damage}
        hurt = [w for w in group if str(w.path) in names]
        batch = read_segments(((str(w.path), w.path) for w in group if w not in hurt), rooms)
    cleaned = clean_segments(batch)
    read = batch.sample_count
    ids = batch.segment_ids
    unknown = unknown_records(batch.records)
    undeclared = [*cleaned.undeclared, *unknown_kinds(batch.records)]
    del batch
    records = {name: frame for name, frame in cleaned.frames.items() if name != SAMPLES}
    rows = cleaned.frames.get(SAMPLES)
    del cleaned
    if rows is None or rows.is_empty():
        nothing, late = with_origin(pl.DataFrame(schema=REFUSED), group), pl.DataFrame()
        return Prepared(
            ids, hurt, records, unknown, late, undeclared, read, 0, nothing, late, {}, [], [], None, Written([], [])
        )
    fresh = known.without_known(rows)
    late = refuse(late_parts(known, rows), GpuSample)[0] if fresh.height < rows.height else rows.clear()
    del rows
    edges = edges_of(fresh)
    good, refused = refuse(fresh, GpuSample, edges)
    if good.height < fresh.height:
        edges = edges_of(good)
    del fresh
    span = good.select(pl.col("sampled_at").min().alias("a"), pl.col("sampled_at").max().alias("b")).row(0)
    return Prepared(
        ids,
        hurt,
        records,
        unknown,
        late,
        undeclared,
        read,
        good.height,
        with_origin(refused, [w for w in group if w not in hurt]),
        edges,
        sizes_of(good, GpuSample),
        hours_of(good),
        nodes_of(good),
        span if good.height else None,
        write_files(lake, GpuSample, good),
    )
