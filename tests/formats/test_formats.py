"""What an earlier version wrote still loads, and what a later one wrote is left whole for it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from assets.ingest import ingest
from assets.publish import publish_home
from sources.telemetry import spool
from sources.telemetry.segment import read_segment
from sources.telemetry.spool_files import recover
from sources.telemetry.spool_format import HEADER, MAGIC, SEAL, Frame, Seal, frame, header_payload, walk
from warehouse import lake as module
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QualityResult, QuarantineRecord
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_fleet import GpuEvent, LinkCounter

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


Change = Callable[[dict[str, Any]], Mapping[str, Any]]


def rewritten(
    path: Path, change: Change = dict, *, mark: bytes = MAGIC, extra: bytes | None = None, flags: int = 1
) -> None:
    """The segment with another header, and perhaps a further frame of kind 9 after the header; sealed as it should."""
    body = path.read_bytes()
    frames = [item for item in walk(body, len(body) - SEAL.size) if isinstance(item, Frame)]
    told: list[tuple[int, bytes, int]] = []
    for item in frames:
        payload = body[item.begin : item.end]
        if item.kind == HEADER:
            payload = header_payload(change(json.loads(payload)))
        told.append((item.kind, payload, item.rows))
    if extra is not None:
        told.insert(1, (9, extra, 0))
    data = mark + b"".join(frame(kind, i, payload, rows) for i, (kind, payload, rows) in enumerate(told))
    seal = Seal(len(data), len(told), 6, 0, 0, flags)
    path.write_bytes(data + seal.pack(zlib.crc32(data)))


LATER: dict[str, tuple[Change, bytes, str]] = {
    "version": (lambda h: h | {"version": 3}, MAGIC, "spool format 3, this version reads up to 2"),
    "mark": (lambda h: h | {"version": 3}, b"ALMSPOL3", "spool format 3, this version reads up to 2"),
    "column type": (
        lambda h: h | {"columns": [["power_w", "f2", "W"], *h["columns"][1:]]},
        MAGIC,
        "does not read as a format up to 2 (column power_w: type 'f2'",
    ),
    "lost key": (
        lambda h: {k: v for k, v in h.items() if k != "slots"},
        MAGIC,
        "does not read as a format up to 2 ('slots')",
    ),
    "slot": (lambda h: h | {"slots": [[*s, "new"] for s in h["slots"]]}, MAGIC, "does not read as a format up to 2"),
}


@pytest.mark.parametrize("case", LATER)
def test_a_segment_of_a_later_format_waits_where_it_is_and_holds_up_no_other(
    case: str, house: Home, segment: Path
) -> None:
    change, mark, said = LATER[case]
    rewritten(segment, change, mark=mark)
    later = Path(shutil.copy(segment, house.inbox))
    body = later.read_bytes()
    shutil.copy(VERSIONS[-1] / "recovered.seg", house.inbox)
    for landed in (6, 0):
        report = ingest(house)
        assert report.rows_landed >= landed
        assert report.failed
        (line,) = report.complaints()
        assert said in line
        assert "1 segments, the first c1~n1~nvml~later.seg" in line
        assert "install a newer almanac" in line
        assert [p.name for p in house.inbox.glob("*.seg")] == [later.name]
        assert later.read_bytes() == body
    assert Lake(house.lake).scan(GpuSample).collect()["node"].unique().to_list() == ["n2"]


def test_a_later_layout_without_any_frame_of_ours_waits_too(house: Home) -> None:
    (house.inbox / "a.seg").write_bytes(b"ALMSPOL3" + bytes(500))
    (line,) = ingest(house).complaints()
    assert "spool format 3" in line
    assert (house.inbox / "a.seg").exists()


def test_a_damaged_mark_is_damage_and_no_later_format(house: Home, segment: Path) -> None:
    segment.write_bytes(b"ALMSPOL3" + segment.read_bytes()[8:])
    shutil.copy(segment, house.inbox)
    assert ingest(house).damage
    assert shown(Lake(house.lake).scan(GpuSample).collect(), "n1") == ROWS


@pytest.mark.parametrize("flags", [1, 0], ids=["clean", "recovered"])
def test_a_frame_of_an_unknown_kind_keeps_its_segment_and_costs_no_row(flags: int, house: Home, segment: Path) -> None:
    rewritten(segment, extra=b"from a newer agent", flags=flags)
    shutil.copy(segment, house.inbox)
    report = ingest(house)
    assert shown(Lake(house.lake).scan(GpuSample).collect(), "n1") == ROWS
    assert "a frame of kind 9, which this version does not know" in " ".join(report.complaints())
    assert [p.name for p in house.quarantine.glob("*.seg")] == [segment.name]  # kept until a version knows it


def test_an_unfinished_segment_with_an_unknown_frame_is_recovered_with_it(segment: Path) -> None:
    rewritten(segment, extra=b"from a newer agent")
    body = segment.read_bytes()
    left = segment.with_suffix(".open")
    left.write_bytes(body[: len(body) - SEAL.size])
    segment.unlink()
    assert recover(left, lambda _line: None)
    assert b"from a newer agent" in segment.read_bytes()
    assert [d.reason for d in read_segment(segment).damage] == ["a frame of kind 9, which this version does not know"]


def test_records_of_an_unknown_kind_are_kept_in_quarantine(
    house: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "RECORD_KINDS", spool.RECORD_KINDS | {"coolant"})
    with spool.SpoolWriter(house.inbox, cluster="c1", node="n7", source="nvml", is_synthetic=False) as writer:
        writer.record("coolant", {"read_at": 1_767_571_200_000_000, "litres_per_minute": 31.5})
        writer.record(
            "gpu_event", {"occurred_at": 1_767_571_200_000_000, "device": "node", "kind": "x", "event_id": "1"}
        )
    report = ingest(house)
    assert not report.failed
    lake = Lake(house.lake)
    (kept,) = lake.scan(QuarantineRecord).collect().to_dicts()
    assert kept["reason"] == "no table takes records of kind coolant; a newer almanac may"
    told = json.loads(kept["raw"])
    assert (told["node"], told["litres_per_minute"], told["read_at"][:19]) == ("n7", 31.5, "2026-01-05T00:00:00")
    assert lake.scan(GpuEvent).collect().height == 1
    warned = lake.scan(QualityResult).filter(~pl.col("passed")).collect()["sample"].to_list()
    assert warned == ["left out: records of kind coolant (kept in ops.quarantine)"]


@pytest.mark.parametrize("value", ["seventeen", [17], {"high": 1}, 1.5e300, 1 << 64, 1 << 70])
def test_a_record_value_of_another_type_costs_its_own_row(house: Home, value: object) -> None:
    link = {"sampled_at": 1_767_571_200_000_000, "device": "GPU-a", "link_kind": "nvlink", "counter": "replay"}
    with spool.SpoolWriter(house.inbox, cluster="c1", node="n7", source="nvml", is_synthetic=False) as writer:
        writer.record("link_counter", link | {"link_index": 0, "value": value})
        writer.record("link_counter", link | {"link_index": 1, "value": 17})
    shutil.copy(VERSIONS[-1] / "recovered.seg", house.inbox)
    ingest(house)
    assert shown(Lake(house.lake).scan(GpuSample).collect(), "n2") == ROWS
    rows = Lake(house.lake).scan(LinkCounter).collect().filter(node="n7").sort("link_index")
    assert rows["value"].to_list()[-1] == 17


def test_an_event_whose_code_is_no_number_costs_its_own_row(house: Home) -> None:
    event = {"occurred_at": 1_767_571_200_000_000, "device": "node", "kind": "xid"}
    with spool.SpoolWriter(house.inbox, cluster="c1", node="n7", source="nvml", is_synthetic=False) as writer:
        writer.record("gpu_event", event | {"event_id": "1", "code": "n/a"})
        writer.record("gpu_event", event | {"event_id": "2", "code": 79})
    report = ingest(house)
    assert [(o.counts.read, o.counts.landed, o.counts.rejected) for o in report.landed if "events" in o.table] == [
        (2, 1, 1)
    ]
    rows = Lake(house.lake).scan(GpuEvent).collect().select("event_id", "code", "severity").rows()
    assert rows == [("2", 79, "fatal")]
