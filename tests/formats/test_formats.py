"""What an earlier version wrote still loads, and what a later one wrote is left whole for it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from assets.ingest import IngestReport, ingest
from assets.publish import publish_home
from sources.telemetry.segment import read_segment
from sources.telemetry.spool_format import FRAME_BYTES, HEAD, MAGIC, SEAL, Seal, frame, header_payload
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QuarantineRecord
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_fleet import GpuEvent

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "formats"
VERSIONS = sorted(path for path in FIXTURES.iterdir() if path.is_dir())
START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
TICK = dt.timedelta(seconds=10)
SHOWN = (
    "sampled_at", "gpu_uuid", "gpu_index", "power_w", "energy_j", "gpu_util_ratio", "memory_used_bytes",
    "temperature_c", "memory_temperature_c", "sm_clock_mhz", "event_reasons", "pcie_replay_count",
)  # fmt: skip
GIB = 1_073_741_824
# Every version's segments hold these six rows: three ticks of two GPUs, ten seconds apart.
ROWS = [
    (START, "GPU-a", 0, 300.5, 1000.0, 0.0, GIB, 40, None, 1980, 4, 1_099_511_627_776),
    (START + TICK, "GPU-a", 0, 310.5, 4000.0, 0.25, 2 * GIB, 41, None, 1980, 4, 1_099_511_627_777),
    (START + 2 * TICK, "GPU-a", 0, 320.5, 7000.0, 0.5, 3 * GIB, 42, None, 1980, 4, 1_099_511_627_778),
    (START, "GPU-b", 1, None, 1000.0, 0.0, GIB, 40, None, 1980, 4, 1_099_511_627_776),
    (START + TICK, "GPU-b", 1, None, 4000.0, 0.25, 2 * GIB, 41, None, 1980, 4, 1_099_511_627_777),
    (START + 2 * TICK, "GPU-b", 1, None, 7000.0, 0.5, 3 * GIB, 42, None, 1980, 4, 1_099_511_627_778),
]  # fmt: skip
RECORDS = {
    "gpu_events": ("select kind, code, severity, device from telemetry.gpu_events", ("xid", 79, "fatal", "GPU-a")),
    "link_counters": ("select link_index, counter, value from telemetry.link_counters", (3, "replay", 17)),
    "inventory": ("select gpu_serial, driver from telemetry.inventory", ("1650000000001", "580.95.05")),
    "null_reasons": (
        "select column_name, reason from telemetry.null_reasons where device = 'GPU-b'",
        ("power_w", "not_supported"),
    ),
    "gaps": ("select reason, raw_value from telemetry.null_reasons where device = '*'", ("missed_ticks", "2")),
    "node_states": ("select state, reason from telemetry.node_states", ("up", "started")),
    "power_readings": ("select scope, device, power_w from telemetry.power_readings", ("chassis", "c-1", 5120.0)),
    "ecc_counters": ("select location, value from telemetry.ecc_counters", ("dram", 5)),
    "gpu_processes": ("select pid, process_name from telemetry.gpu_processes", (4242, "python")),
}


@pytest.fixture
def house(home: Path) -> Home:
    return Home(home).prepare()


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A sealed segment of this version, to be turned into one of a later."""
    return Path(shutil.copyfile(VERSIONS[-1] / "sealed.seg", tmp_path / "c1~n1~nvml~later.seg"))


def shown(frame: pl.DataFrame, node: str) -> list[tuple[Any, ...]]:
    rows = frame.filter(pl.col("node") == node).select(SHOWN)
    text = [name for name, kind in rows.schema.items() if kind == pl.Categorical]
    return rows.with_columns(pl.col(text).cast(pl.String)).sort("gpu_uuid", "sampled_at").rows()


@pytest.mark.parametrize("version", VERSIONS, ids=lambda p: p.name)
@pytest.mark.parametrize(("name", "node"), [("sealed.seg", "n1"), ("recovered.seg", "n2")])
def test_a_segment_of_every_version_is_read(version: Path, name: str, node: str) -> None:
    segment = read_segment(version / name)
    assert segment.damage == []
    assert shown(segment.samples, node) == ROWS
    assert set(segment.records) >= {"gpu_event", "link_counter", "inventory", "null_reason", "node_state", "gap"}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda p: p.name)
def test_a_spool_of_every_version_lands_and_is_published(version: Path, house: Home) -> None:
    shutil.copy(version / "sealed.seg", house.inbox)
    report = ingest(house)
    assert list(report.complaints()) == []
    assert shown(Lake(house.lake).scan(GpuSample).collect(), "n1") == ROWS
    publish_home(house)
    with duckdb.connect(str(house.database), read_only=True) as con:
        told = {name: con.sql(query).fetchall() for name, (query, _) in RECORDS.items()}
    assert told == {name: [row] for name, (_, row) in RECORDS.items()}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda p: p.name)
def test_a_lake_of_every_version_takes_more_and_knows_what_it_had(version: Path, house: Home) -> None:
    shutil.copytree(version / "lake", house.lake, dirs_exist_ok=True)
    assert shown(Lake(house.lake).scan(GpuSample).collect(), "n1") == ROWS
    shutil.copy(version / "sealed.seg", house.inbox)  # what it holds already
    shutil.copy(version / "recovered.seg", house.inbox)
    report = ingest(house)
    assert list(report.complaints()) == []
    assert [one.counts.landed for one in report.landed if one.table == "telemetry.gpu_samples"] == [6]
    assert report.segments == 2
    publish_home(house)
    with duckdb.connect(str(house.database), read_only=True) as con:
        samples = con.sql("select * from telemetry.gpu_samples").pl()
        loads = con.sql(
            "select rows_read, rows_landed, rows_rejected, rows_duplicate from ops.loads "
            "where table_name = 'telemetry.gpu_samples' order by delta_version"
        ).fetchall()
        events = con.sql("select node, code from telemetry.gpu_events order by node").fetchall()
    assert (shown(samples, "n1"), shown(samples, "n2"), samples.height) == (ROWS, ROWS, 12)
    assert loads == [(6, 6, 0, 0), (6, 6, 0, 0)]
    assert events == [("n1", 79), ("n2", 79)]


def test_a_table_from_before_a_column_opens_with_it_null(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = "remap_pending"
    from warehouse import lake as module

    whole = module.delta_schema(GpuSample)
    older = type(whole)([f for f in whole.fields if f.name != newest])
    with monkeypatch.context() as patch:
        patch.setattr(module, "delta_schema", lambda _model: older)
        handle = Lake(house.lake).open(GpuSample)
    assert newest not in {f.name for f in handle.schema().fields}
    old = VERSIONS[-1] / "lake/telemetry/gpu_samples"
    (file,) = old.rglob("*.parquet")
    before = pl.read_parquet(file, hive_partitioning=False).drop(newest)
    before.with_columns(pl.lit(START.date()).alias("date")).write_delta(
        str(Lake(house.lake).path(GpuSample)), mode="append"
    )
    rows = Lake(house.lake).scan(GpuSample).collect()
    assert shown(rows, "n1") == ROWS
    assert rows[newest].to_list() == [None] * 6
    shutil.copy(VERSIONS[-1] / "recovered.seg", house.inbox)
    ingest(house)
    publish_home(house)
    with duckdb.connect(str(house.database), read_only=True) as con:
        counted = con.sql(f"select count(*), count({newest}) from telemetry.gpu_samples").fetchall()
    assert counted == [(12, 6)]
