from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from spool_writers import START_US, sealed, writer

from assets.telemetry_clean import Cleaned, UnitError, clean_segments
from sources.telemetry.segment import read_segments
from sources.telemetry.spool_format import GPU_COLUMNS, Column
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample

AT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def cleaned(directory: Path, columns: tuple[Column, ...], rows: list[dict[str, Any]], **options: Any) -> Cleaned:
    """One GPU, a row a second."""
    with writer(directory, columns=columns, **options) as spool:
        for k, row in enumerate(rows):
            spool.samples(START_US + k * 1_000_000, [("GPU-a", row)])
    return clean_segments(read_segments([(p.name, p) for p in sealed(directory)]))


def values(told: Cleaned, column: str) -> list[Any]:
    return told.frames["telemetry.gpu_samples"][column].to_list()


def reasons(told: Cleaned) -> list[tuple[Any, ...]]:
    frame = told.frames["telemetry.null_reasons"]
    return frame.select("column_name", "reason", "raw_value", "from_at", "to_at").rows()


def test_samples_have_exactly_the_declared_columns_and_types(tmp_path: Path) -> None:
    told = cleaned(tmp_path, GPU_COLUMNS, [{"power_w": 65.7}])
    frame = told.frames["telemetry.gpu_samples"].cast({pl.Categorical: pl.String})
    assert frame.schema == lake_schema(GpuSample)
    assert values(told, "date") == [dt.date(2026, 11, 1)]
    assert told.undeclared == []


def test_units_become_those_of_the_table_without_rounding_noise(tmp_path: Path) -> None:
    columns = (
        Column("power_w", "u4", "mW"),
        Column("energy_j", "u8", "mJ"),
        Column("gpu_util_ratio", "u2", "percent"),
        Column("tensor_active_ratio", "u2", "basis_points"),
        Column("nvlink_tx_bytes", "u8", "KiB"),
        Column("throttle_power_cap_ns", "u8", "us"),
    )
    row = {"power_w": 65_700, "energy_j": 1_234_567, "gpu_util_ratio": 29, "tensor_active_ratio": 4321}
    told = cleaned(tmp_path, columns, [row | {"nvlink_tx_bytes": 3, "throttle_power_cap_ns": 7}])
    assert values(told, "power_w") == [65.7]
    assert values(told, "energy_j") == [1234.567]
    assert values(told, "gpu_util_ratio") == [0.29]
    assert values(told, "tensor_active_ratio") == [0.4321]
    assert values(told, "nvlink_tx_bytes") == [3072]
    assert values(told, "throttle_power_cap_ns") == [7000]


def test_a_unit_nobody_knows_blocks(tmp_path: Path) -> None:
    with pytest.raises(UnitError, match="power_w"):
        cleaned(tmp_path, (Column("power_w", "f8", "hp"),), [{"power_w": 1.0}])


@pytest.mark.parametrize(
    ("column", "raw", "reason"),
    [
        (Column("gpu_util_ratio", "u4", "percent"), 686_103, "out_of_range"),
        (Column("gpu_util_ratio", "u4", "percent"), 4_294_967_295, "blank"),
        (Column("gpu_util_ratio", "u4", "percent"), 101, "out_of_range"),
        (Column("sm_clock_mhz", "u4", "MHz"), 2_147_483_632, "blank"),
        (Column("sm_clock_mhz", "i8", "MHz"), 2_147_483_635, "blank"),
        (Column("memory_used_bytes", "u8", "bytes"), 0xFFFF_FFFF_FFFF_FFFF, "blank"),
        (Column("ecc_corrected_count", "i8", ""), 9_223_372_036_854_775_794, "blank"),
        (Column("power_w", "f8", "W"), 140_737_488_355_328.0, "blank"),
        (Column("power_w", "f8", "W"), 140_737_488_355_330.0, "not_supported"),
        (Column("tensor_active_ratio", "f8", "ratio"), 1.40737488355328e16, "blank"),
        (Column("power_w", "f8", "W"), 9.223372036854775808e18, "blank"),
        (Column("memory_temperature_c", "i2", "°C"), 0, "zero_without_sensor"),
    ],
)
def test_sentinels_become_null_with_a_reason(tmp_path: Path, column: Column, raw: float, reason: str) -> None:
    told = cleaned(tmp_path, (column,), [{column.name: raw}])
    assert values(told, column.name) == [None]
    ((name, why, text, from_at, to_at),) = reasons(told)
    assert (name, why, from_at, to_at) == (column.name, reason, AT, AT)
    assert float(text) == pytest.approx(float(raw))


def test_numbers_that_only_look_like_sentinels_stay(tmp_path: Path) -> None:
    columns = (Column("memory_used_bytes", "u8", "bytes"), Column("temperature_c", "i2", "°C"))
    told = cleaned(tmp_path, columns, [{"memory_used_bytes": 2_147_483_632, "temperature_c": 0}])
    assert values(told, "memory_used_bytes") == [2_147_483_632]
    assert values(told, "temperature_c") == [0.0]
    assert "telemetry.null_reasons" not in told.frames


def test_power_above_the_limit_is_real_above_twice_the_limit_is_not(tmp_path: Path) -> None:
    columns = (Column("power_w", "f8", "W"), Column("power_limit_w", "f8", "W"))
    rows = [{"power_w": 409.7, "power_limit_w": 400.0}, {"power_w": 800.1}, {"power_w": 599.7}]
    told = cleaned(tmp_path, columns, rows)
    assert values(told, "power_w") == [409.7, None, 599.7]
    assert [r[:3] for r in reasons(told)] == [("power_w", "implausible", "800.1")]


def test_negative_power_is_left_for_the_gate(tmp_path: Path) -> None:
    assert values(cleaned(tmp_path, (Column("power_w", "f8", "W"),), [{"power_w": -1.0}]), "power_w") == [-1.0]


def test_neighbouring_nulls_share_one_reason_and_a_good_value_ends_it(tmp_path: Path) -> None:
    told = cleaned(
        tmp_path,
        (Column("memory_temperature_c", "i2", "°C"),),
        [{"memory_temperature_c": t} for t in (0, 0, 45, 0)],
    )
    second = dt.timedelta(seconds=1)
    assert [r[3:] for r in reasons(told)] == [(AT, AT + second), (AT + 3 * second, AT + 3 * second)]


def test_repeated_samples_are_counted_and_left_out(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        for power in (1.0, 2.0):
            spool.samples(START_US, [("GPU-a", {"power_w": power, "sm_clock_mhz": 1})])
    told = clean_segments(read_segments([(p.name, p) for p in sealed(tmp_path)]))
    assert values(told, "power_w") == [1.0]
    assert told.duplicates == {"telemetry.gpu_samples": 1}


def test_an_undeclared_column_is_named_and_not_landed(tmp_path: Path) -> None:
    told = cleaned(tmp_path, (Column("power_w", "f8", "W"), Column("mood", "u1", "")), [{"power_w": 1.0, "mood": 3}])
    assert told.undeclared == ["gpu_samples.mood"]
    assert "mood" not in told.frames["telemetry.gpu_samples"].columns


def test_rows_are_sorted_by_gpu_and_time(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        for k in (2, 0, 1):
            spool.samples(START_US + k, [(g, {"power_w": float(k), "sm_clock_mhz": 1}) for g in ("GPU-b", "GPU-a")])
    told = clean_segments(read_segments([(p.name, p) for p in sealed(tmp_path)]))
    frame = told.frames["telemetry.gpu_samples"].select("gpu_uuid", "power_w")
    assert frame.partition_by("gpu_uuid", as_dict=False)[0]["power_w"].to_list() == [0.0, 1.0, 2.0]
    assert frame["gpu_uuid"].rle().struct.field("len").to_list() == [3, 3]


def test_records_become_rows_of_their_tables(tmp_path: Path) -> None:
    link = {"device": "GPU-a", "link_kind": "nvlink", "link_index": 3, "counter": "replay", "value": 5}
    why = {"from_at": START_US, "device": "GPU-a", "table_name": "gpu_samples", "column_name": "power_w"}
    with writer(tmp_path) as spool:
        spool.record("link_counter", link | {"sampled_at": START_US}, START_US)
        spool.record("null_reason", why | {"reason": "not_supported"}, START_US)
        spool.record("node_state", {"valid_from": START_US, "state": "drain", "reason": "xid 79"}, START_US)
    told = clean_segments(read_segments([(p.name, p) for p in sealed(tmp_path)]))
    (row,) = told.frames["telemetry.link_counters"].to_dicts()
    assert (row["sampled_at"], row["date"], row["link_index"], row["value"]) == (AT, AT.date(), 3, 5)
    assert told.frames["telemetry.null_reasons"]["reason"].to_list() == ["not_supported"]
    assert told.frames["telemetry.node_states"].select("node", "state").rows() == [("n1", "drain")]


def test_layouts_of_different_agents_land_in_one_frame(tmp_path: Path) -> None:
    with writer(tmp_path, node="n1", columns=(Column("power_w", "u4", "mW"),), stream_id="a") as spool:
        spool.samples(START_US, [("GPU-a", {"power_w": 100_000})])
    with writer(tmp_path, node="n2", columns=(Column("power_w", "f8", "W"),), stream_id="b") as spool:
        spool.samples(START_US, [("GPU-b", {"power_w": 200.0})])
    told = clean_segments(read_segments([(p.name, p) for p in sealed(tmp_path)]))
    assert sorted(values(told, "power_w")) == [100.0, 200.0]
    assert isinstance(told.frames["telemetry.gpu_samples"], pl.DataFrame)
