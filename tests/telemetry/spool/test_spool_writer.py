from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from spool_writers import START_US, by_time, sealed, write_ticks, writer

from sources.telemetry.segment import read_segment, read_segments
from sources.telemetry.spool_format import GPU_COLUMNS
from warehouse.schema.declare import table_of
from warehouse.schema.telemetry import GpuSample


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        spool.slot("GPU-a", gpu_index=0, accelerator_id="nvidia-h100-sxm5-80gb")
        assert write_ticks(spool, range(3), ("GPU-a",)) == [True, True, True]
    (path,) = sealed(tmp_path)
    segment = read_segment(path)
    assert segment.damage == []
    assert segment.segment_id == "0123456789abcdef-00000000"
    assert segment.samples.select("power_w", "sm_clock_mhz").rows() == [(100.0, 1000), (101.0, 1001), (102.0, 1002)]
    first = segment.samples.row(0, named=True)
    assert first["sampled_at"] == dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    assert (first["cluster"], first["node"], first["source"], first["is_synthetic"]) == ("c1", "n1", "nvml", False)
    assert (first["gpu_uuid"], first["gpu_index"], first["parent_gpu_uuid"]) == ("GPU-a", 0, None)
    assert first["accelerator_id"] == "nvidia-h100-sxm5-80gb"


def test_null_and_missing_are_null_and_zero_is_zero(tmp_path: Path) -> None:
    rows = [{"power_w": 0.0, "sm_clock_mhz": None}, {"power_w": None, "sm_clock_mhz": 0}, {"sm_clock_mhz": 7}, {}]
    with writer(tmp_path) as spool:
        for k, row in enumerate([*rows, {"power_w": 1.0, "sm_clock_mhz": 2}]):
            spool.samples(START_US + k, [("GPU-a", row)])
    samples = read_segment(sealed(tmp_path)[0]).samples
    assert samples.select("power_w", "sm_clock_mhz").rows() == [
        (0.0, None),
        (None, 0),
        (None, 7),
        (None, None),
        (1.0, 2),
    ]


def test_the_same_nulls_again_and_again_stay_null(tmp_path: Path) -> None:
    with writer(tmp_path, columns=GPU_COLUMNS) as spool:
        values = {c.name: None if c.name == "fan_speed_ratio" else 1 for c in GPU_COLUMNS}
        for k in range(3):
            spool.samples(START_US + k, [("GPU-a", values)])
        spool.samples(START_US + 3, [("GPU-a", values | {"fan_speed_ratio": 0.5, "power_w": None})])
    samples = read_segment(sealed(tmp_path)[0]).samples
    assert samples["fan_speed_ratio"].to_list() == [None, None, None, 0.5]
    assert samples["power_w"].to_list() == [1.0, 1.0, 1.0, None]
    assert samples["recovery_action"].to_list() == [1, 1, 1, 1]


def test_a_value_too_large_for_its_column_is_null_with_a_reason(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(1), ("GPU-a",))
        spool.samples(START_US + 1, [("GPU-a", {"power_w": 1.0, "sm_clock_mhz": 70_000})])
    segment = read_segment(sealed(tmp_path)[0])
    assert segment.samples["sm_clock_mhz"].to_list() == [1000, None]
    (reason,) = segment.records["null_reason"].to_dicts()
    assert (reason["device"], reason["column_name"], reason["reason"]) == ("GPU-a", "sm_clock_mhz", "out_of_range")
    assert reason["raw_value"] == "70000"


def test_an_unknown_column_is_an_error(tmp_path: Path) -> None:
    with writer(tmp_path) as spool, pytest.raises(KeyError, match="power_mw"):
        spool.samples(START_US, [("GPU-a", {"power_mw": 1})])


def test_a_new_gpu_begins_a_new_segment(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(2), ("GPU-a",))
        write_ticks(spool, range(2, 4), ("GPU-a", "GPU-b"))
    paths = sealed(tmp_path)
    assert [by_time(read_segment(p).samples)["gpu_uuid"].to_list() for p in paths] == [
        ["GPU-a", "GPU-a"],
        ["GPU-a", "GPU-b", "GPU-a", "GPU-b"],
    ]


def test_segments_end_by_size_and_by_age(tmp_path: Path) -> None:
    now = [0.0]
    with writer(tmp_path / "age", segment_seconds=60, clock=lambda: now[0]) as spool:
        for k in range(120):
            now[0] = float(k)
            write_ticks(spool, range(k, k + 1))
    assert [read_segment(p).samples.height for p in sealed(tmp_path / "age")] == [120, 120]
    with writer(tmp_path / "size", segment_bytes=2000) as spool:
        write_ticks(spool, range(100))
    paths = sealed(tmp_path / "size")
    assert len(paths) > 1
    assert sum(read_segment(p).samples.height for p in paths) == 200
    assert max(p.stat().st_size for p in paths) < 2000 + 1000  # header copy and seal come on top


def test_records_of_every_kind_come_back_with_the_node(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        assert spool.record("gpu_event", {"occurred_at": START_US, "kind": "xid", "code": 79}, START_US)
        assert spool.record("inventory", {"valid_from": START_US, "gpu_uuid": "GPU-a"}, START_US)
    records = read_segment(sealed(tmp_path)[0]).records
    (event,) = records["gpu_event"].to_dicts()
    assert (event["node"], event["code"], event["occurred_at"]) == ("n1", 79, dt.datetime(2026, 11, 1, tzinfo=dt.UTC))
    assert records["inventory"]["valid_from"].to_list() == [dt.datetime(2026, 11, 1, tzinfo=dt.UTC)]


def test_an_unknown_record_kind_is_an_error(tmp_path: Path) -> None:
    with writer(tmp_path) as spool, pytest.raises(ValueError, match="gpu_event"):
        spool.record("event", {})


def test_a_writer_that_wrote_nothing_leaves_nothing(tmp_path: Path) -> None:
    writer(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_many_segments_read_together_equal_each_read_alone(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        with writer(tmp_path, node=node, segment_bytes=2000, stream_id=node) as spool:
            spool.record("gpu_event", {"occurred_at": START_US, "kind": "xid", "code": 79}, START_US)
            write_ticks(spool, range(50))
    paths = sealed(tmp_path)
    batch = read_segments([(p.name, p) for p in paths])
    ((_, samples),) = batch.samples
    alone = pl.concat([read_segment(p).samples for p in paths])
    assert samples.sort("node", "sampled_at", "gpu_uuid").equals(alone.sort("node", "sampled_at", "gpu_uuid"))
    assert batch.sample_count == 200
    assert batch.records["gpu_event"]["node"].sort().to_list() == ["n1", "n2"]


def test_lost_gpu_ticks_between_whole_ones_keep_their_places(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(2))
        write_ticks(spool, range(2, 3), ("GPU-b",))
        spool.record("gpu_event", {"occurred_at": START_US, "kind": "lost"}, START_US)
        write_ticks(spool, range(3, 200))
    samples = read_segment(sealed(tmp_path)[0]).samples
    assert samples.height == 2 * 2 + 1 + 2 * 197
    assert samples.filter(gpu_uuid="GPU-a")["power_w"].to_list() == [100.0, 101.0, *(100.0 + k for k in range(3, 200))]


def test_default_columns_are_those_of_the_table_in_its_units() -> None:
    table = table_of(GpuSample)
    for column in GPU_COLUMNS:
        assert (table.columns[column.name].info["unit"] or "") == column.unit, column.name
    told = {"sampled_at", "cluster", "node", "gpu_uuid", "source", "is_synthetic", "date"}
    told |= {"parent_gpu_uuid", "gpu_index", "accelerator_id"}
    assert {c.name for c in GPU_COLUMNS} == set(table.columns.keys()) - told


def test_the_writer_needs_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import sources.telemetry.spool; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'sources'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rows_come_gpu_by_gpu_where_every_tick_has_the_same_gpus(tmp_path: Path) -> None:
    with writer(tmp_path, segment_bytes=2000) as spool:
        write_ticks(spool, range(50))
    paths = sealed(tmp_path)
    assert len(paths) > 1
    ((_, samples),) = read_segments([(p.name, p) for p in paths]).samples
    assert samples["gpu_uuid"].to_list() == ["GPU-a"] * 50 + ["GPU-b"] * 50
    assert samples["power_w"].to_list() == [100.0 + k for k in range(50)] * 2
