from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from assets.telemetry_clean import Cleaned, clean_segments
from assets.telemetry_links import link_deltas
from assets.telemetry_rollup import rollup_hours
from sources.telemetry.segment import read_segments
from sources.telemetry.synthetic import write
from sources.telemetry.synthetic_plan import Plan
from sources.telemetry.synthetic_story import DECAYING, LOST, THROTTLED
from warehouse.schema import tables
from warehouse.schema.declare import bounds_of, key_of, lake_schema

PLAN = Plan()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    directory = tmp_path_factory.mktemp("synthetic")
    assert write(PLAN, directory) == 2 * 8 * 2880 - 120  # one GPU is lost for an hour of 30 s ticks
    batch = read_segments([(p.name, p) for p in sorted(directory.glob("*.seg"))])
    assert batch.damage == []
    return clean_segments(batch)


def test_every_row_is_marked_synthetic_and_of_the_demo_cluster(told: Cleaned) -> None:
    for name, frame in told.frames.items():
        assert frame["is_synthetic"].all(), name
        assert frame["cluster"].unique().to_list() == ["synthetic-demo"], name


def test_rows_keep_their_tables_bounds_and_keys(told: Cleaned) -> None:
    for name, frame in told.frames.items():
        model = tables()[name]
        assert frame.cast({pl.Categorical: pl.String}).schema == lake_schema(model), name
        assert frame.select(key_of(model)).is_unique().all(), name
        for column in frame.columns:
            low, high = bounds_of(model, column)
            values = frame[column].drop_nulls()
            assert low is None or values.is_empty() or values.min() >= low, f"{name}.{column}"
            assert high is None or values.is_empty() or values.max() <= high, f"{name}.{column}"


def test_the_window_is_one_fixed_day(told: Cleaned) -> None:
    at = told.frames["telemetry.gpu_samples"]["sampled_at"]
    assert at.min() == dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    assert at.max() == dt.datetime(2026, 11, 1, 23, 59, 30, tzinfo=dt.UTC)


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    plan = Plan(nodes=1, gpus=2, seconds=3 * 3600)
    for name in ("one", "two"):
        write(plan, tmp_path / name)
    one, two = (sorted((tmp_path / name).glob("*.seg")) for name in ("one", "two"))
    assert [p.name for p in one] == [p.name for p in two]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    write(Plan(nodes=1, gpus=2, seconds=3 * 3600, seed=1), tmp_path / "other")
    assert [p.read_bytes() for p in sorted((tmp_path / "other").glob("*.seg"))] != [p.read_bytes() for p in one]


def test_a_bigger_plan_has_its_size(tmp_path: Path) -> None:
    assert write(Plan(nodes=3, gpus=4, seconds=600, interval_s=10), tmp_path) == 3 * 4 * 60


def test_idle_boards_draw_what_idle_boards_draw(told: Cleaned) -> None:
    samples = told.frames["telemetry.gpu_samples"]
    idle = samples.filter(pl.col("sampled_at").dt.hour() >= 22, node="demo-0001")["power_w"]
    assert 65.0 < idle.mean() < 69.5  # type: ignore[operator]


def test_the_lost_gpu_is_away_for_its_hour_and_its_counter_restarts(told: Cleaned) -> None:
    gpu = PLAN.gpu_uuid(*LOST[:2])
    samples = told.frames["telemetry.gpu_samples"].filter(gpu_uuid=gpu).sort("sampled_at")
    assert samples.filter(pl.col("sampled_at").dt.hour() == 14).is_empty()
    assert samples.select((pl.col("energy_j").diff() < 0).sum()).item() == 1
    assert samples.select((pl.col("nvlink_tx_bytes").diff() < 0).sum()).item() == 1
    hours = rollup_hours(told.frames["telemetry.gpu_samples"].lazy()).filter(gpu_uuid=gpu)
    assert sorted(hours["hour_at"].dt.hour()) == [h for h in range(24) if h != LOST[2] // 3600]
    events = told.frames["telemetry.gpu_events"].filter(gpu_uuid=gpu).sort("occurred_at", "kind")
    assert events.select("kind", "code").rows() == [("lost", None), ("xid", 79), ("returned", None)]
    why = told.frames["telemetry.null_reasons"].filter(reason="lost")
    assert why["device"].to_list() == [gpu]


def test_the_throttled_gpu_runs_hot_and_slow(told: Cleaned) -> None:
    hot = told.frames["telemetry.gpu_samples"].filter(gpu_uuid=PLAN.gpu_uuid(*THROTTLED[:2]))
    assert hot["throttle_sw_thermal_ns"].max() > 0  # type: ignore[operator]
    throttled = hot.filter(pl.col("event_reasons") & 0x20 != 0)
    assert throttled["sm_clock_mhz"].max() == 1410
    assert throttled["temperature_c"].min() > 50  # type: ignore[operator]


def test_only_the_decaying_link_grows_and_ever_faster(told: Cleaned) -> None:
    deltas = link_deltas(told.frames["telemetry.link_counters"])
    growing = deltas.filter(pl.col("delta") > 0)
    places = growing.select("device", "link_index").unique().rows()
    assert places == [(PLAN.gpu_uuid(*DECAYING[:2]), DECAYING[2])]
    half = pl.col("sampled_at").dt.hour() < 12
    assert growing.filter(half)["delta"].sum() * 4 < growing.filter(~half)["delta"].sum()


def test_energy_agrees_with_power(told: Cleaned) -> None:
    hours = rollup_hours(told.frames["telemetry.gpu_samples"].lazy())
    by_power = (hours["power_mean_w"] * hours["seconds_covered"]).sum()
    assert hours["energy_j"].sum() == pytest.approx(by_power, rel=0.005)
