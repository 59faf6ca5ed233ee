from __future__ import annotations

import datetime as dt
import random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from assets.telemetry_clean import conform
from assets.telemetry_rollup import hours_due, rollup_hours, rollup_minutes
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def samples(rows: list[tuple[float, dict[str, Any]]], gpu: str = "GPU-a", **same: Any) -> pl.DataFrame:
    """Rows as (second after midnight, columns)."""
    full = [
        {"sampled_at": START + dt.timedelta(seconds=second), "date": START.date()}
        | {"cluster": "c", "node": "n", "source": "nvml", "is_synthetic": False, "gpu_uuid": gpu}
        | same
        | row
        for second, row in rows
    ]
    return conform(pl.DataFrame(full, infer_schema_length=None), GpuSample)


def hours(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return rollup_hours(frame.lazy()).to_dicts()


def steady(seconds: range, power: float, energy_from: float | None = 0.0, **more: Any) -> pl.DataFrame:
    """Constant power; the counter, where there is one, follows it exactly."""
    return samples(
        [
            (s, {"power_w": power} | ({} if energy_from is None else {"energy_j": energy_from + power * s}))
            for s in seconds
        ],
        **more,
    )


def test_frames_have_the_declared_columns_and_types() -> None:
    frame = steady(range(0, 120, 30), 100.0)
    assert rollup_hours(frame.lazy()).schema == lake_schema(GpuHour)
    assert rollup_minutes(frame.lazy()).schema == lake_schema(GpuMinute)


def test_no_samples_give_no_rows() -> None:
    assert rollup_hours(samples([(0.0, {})]).head(0).lazy()).height == 0


def test_energy_is_the_counters_growth_shared_at_the_hour() -> None:
    # 100 W from 00:59:35 in steps of 10 s: 25 s lie before the hour, 15 s after it.
    first, second = hours(steady(range(3575, 3616, 10), 100.0, energy_from=5e6))
    assert (first["hour_at"], second["hour_at"]) == (START, START + dt.timedelta(hours=1))
    assert first["energy_j"] == pytest.approx(2500.0)
    assert second["energy_j"] == pytest.approx(1500.0)
    assert (first["seconds_covered"], second["seconds_covered"]) == pytest.approx((25.0, 15.0))
    assert (first["energy_seconds"], second["energy_seconds"]) == pytest.approx((25.0, 15.0))
    assert {first["energy_method"], second["energy_method"]} == {"counter"}
    assert (first["sample_count"], second["sample_count"]) == (3, 2)


def test_a_sample_on_the_hour_ends_the_hour_before() -> None:
    first, second = hours(steady(range(3590, 3611, 10), 50.0))
    assert (first["energy_j"], second["energy_j"]) == pytest.approx((500.0, 500.0))
    assert (first["sample_count"], second["sample_count"]) == (1, 2)


def test_without_a_counter_energy_is_the_trapezoid() -> None:
    # 0.5 x (100 + 300) x 10 + 0.5 x (300 + 200) x 10 = 2000 + 2500
    (row,) = hours(samples([(0, {"power_w": 100.0}), (10, {"power_w": 300.0}), (20, {"power_w": 200.0})]))
    assert row["energy_j"] == pytest.approx(4500.0)
    assert row["energy_method"] == "trapezoid"


def test_a_counter_missing_in_between_is_filled_and_said_so() -> None:
    rows = [(0, 0.0), (10, 1000.0), (20, None), (30, 3000.0), (40, 4000.0)]
    (row,) = hours(samples([(s, {"power_w": 90.0, "energy_j": e}) for s, e in rows]))
    # counter over 0-10 and 30-40, trapezoid of 90 W over 10-30
    assert row["energy_j"] == pytest.approx(1000.0 + 2 * 900.0 + 1000.0)
    assert row["energy_method"] == "mixed"


def test_after_a_restart_the_trapezoid_bridges_and_the_restart_is_counted() -> None:
    rows = [(0, 7000.0), (10, 8000.0), (20, 400.0), (30, 1400.0)]
    (row,) = hours(samples([(s, {"power_w": 100.0, "energy_j": e}) for s, e in rows]))
    assert row["energy_j"] == pytest.approx(1000.0 + 1000.0 + 1000.0)
    assert row["counter_reset_count"] == 1


def test_a_gap_is_not_covered_and_its_energy_stands_apart() -> None:
    rows = [(0, 0.0), (10, 1000.0), (20, 2000.0), (1820, 50_000.0), (1830, 51_000.0)]
    (row,) = hours(samples([(s, {"power_w": 100.0, "energy_j": e}) for s, e in rows]))
    assert row["energy_j"] == pytest.approx(3000.0)
    assert row["gap_energy_j"] == pytest.approx(48_000.0)
    assert row["seconds_covered"] == pytest.approx(30.0)


def test_a_slower_but_steady_interval_is_covered() -> None:
    (row,) = hours(steady(range(0, 3600, 120), 100.0))
    assert row["seconds_covered"] == pytest.approx(3480.0)


def test_samples_ten_minutes_apart_are_never_covered() -> None:
    (row,) = hours(steady(range(0, 3600, 600), 100.0))
    assert row["seconds_covered"] == 0.0
    assert row["energy_j"] is None
    assert row["gap_energy_j"] == pytest.approx(300_000.0)


def test_a_frozen_counter_is_not_believed() -> None:
    (row,) = hours(samples([(s, {"power_w": 300.0, "energy_j": 5.0}) for s in range(0, 100, 10)]))
    assert (row["energy_j"], row["energy_method"]) == (pytest.approx(27_000.0), "trapezoid")


def test_a_mig_instance_carries_no_energy() -> None:
    (row,) = hours(steady(range(0, 100, 10), 100.0, parent_gpu_uuid="GPU-b"))
    assert row["energy_j"] is None
    assert row["energy_seconds"] == 0.0
    assert row["seconds_covered"] == pytest.approx(90.0)


def test_means_keep_zeros_and_leave_out_nulls() -> None:
    rows = [(0, 0.0), (10, 0.0), (20, 0.9), (30, None)]
    (row,) = hours(samples([(s, {"gpu_util_ratio": u}) for s, u in rows]))
    assert row["gpu_util_mean_ratio"] == pytest.approx(0.3)
    assert row["gpu_util_max_ratio"] == 0.9
    assert (row["gpu_util_count"], row["sample_count"]) == (3, 4)
    assert row["power_mean_w"] is None
    assert row["power_count"] == 0


def test_counters_grow_over_nulls_hours_and_restarts() -> None:
    rows = [(3580, 10), (3590, None), (3600, 14), (3610, 20), (3620, 3), (3630, 5)]
    first, second = hours(samples([(s, {"pcie_replay_count": v}) for s, v in rows]))
    assert first["pcie_replay_delta_count"] == 0
    # 10 to 14, 14 to 20, restart with 3, 3 to 5
    assert second["pcie_replay_delta_count"] == 4 + 6 + 3 + 2


def test_throttle_counters_become_seconds() -> None:
    rows = [(0, 0), (10, 2_500_000_000)]
    (row,) = hours(samples([(s, {"throttle_sw_thermal_ns": v}) for s, v in rows]))
    assert row["throttle_sw_thermal_seconds"] == pytest.approx(2.5)
    assert row["throttle_power_brake_seconds"] is None


def test_inactive_time_needs_evidence() -> None:
    profile = [(0, 0.0, 0.0), (10, 0.0, 0.0), (20, 0.4, 0.9), (30, 0.0, 0.01)]
    (row,) = hours(samples([(s, {"tensor_active_ratio": t, "sm_active_ratio": a}) for s, t, a in profile]))
    assert row["inactive_seconds"] == pytest.approx(20.0)
    (row,) = hours(samples([(s, {"gpu_util_ratio": u}) for s, u in [(0, 0.0), (10, 0.0), (20, 1.0)]]))
    assert row["inactive_seconds"] == pytest.approx(10.0)
    (row,) = hours(samples([(s, {"power_w": 60.0}) for s in (0, 10, 20)]))
    assert row["inactive_seconds"] is None


def test_every_event_bit_seen_is_kept() -> None:
    (row,) = hours(samples([(0, {"event_reasons": 0x4}), (10, {"event_reasons": 0x20}), (20, {"event_reasons": 0})]))
    assert row["event_reasons"] == 0x24


def test_minutes_add_up_to_hours() -> None:
    frame = steady(range(7, 7200, 13), 123.0, energy_from=9.0)
    minutes, whole = rollup_minutes(frame.lazy()), rollup_hours(frame.lazy())
    for name in ("energy_j", "seconds_covered", "energy_seconds", "sample_count"):
        assert minutes[name].sum() == pytest.approx(whole[name].sum()), name
    assert whole["energy_j"].sum() == pytest.approx(123.0 * (7196 - 7))


def test_order_of_arrival_and_other_gpus_do_not_matter() -> None:
    one = steady(range(0, 7200, 30), 100.0)
    two = steady(range(5, 7200, 30), 300.0, gpu="GPU-b", node="m")
    shuffled = pl.concat([two, one]).sample(fraction=1, shuffle=True, seed=7)
    apart = pl.concat([rollup_hours(one.lazy()), rollup_hours(two.lazy())])
    together = rollup_hours(shuffled.lazy())
    key = ["hour_at", "gpu_uuid"]
    assert_frame_equal(together.sort(key), apart.sort(key))


def test_a_late_row_changes_only_the_hours_that_are_due() -> None:
    frame = steady(range(0, 5 * 3600, 60), 100.0)
    late = frame.filter(pl.col("sampled_at").is_between(START + dt.timedelta(hours=2), START + dt.timedelta(hours=2.5)))
    without = frame.join(late, on="sampled_at", how="anti")
    before, after = rollup_hours(without.lazy()), rollup_hours(frame.lazy())
    changed = after.join(before, on=after.columns, how="anti", nulls_equal=True)["hour_at"].to_list()
    assert changed
    assert set(changed) <= set(hours_due(late))
    assert hours_due(late) == [START + dt.timedelta(hours=h) for h in (1, 2, 3)]


def restless(seed: int) -> pl.DataFrame:
    """Ten hours of two GPUs with gaps from seconds to hours, nulls, restarts and changing intervals."""
    chance = random.Random(seed)
    frames = []
    for gpu in ("GPU-a", "GPU-b"):
        second, energy, sent, rows = chance.uniform(0, 600), 1e6, 0, []
        while second < 36_000:
            power = chance.uniform(60, 700)
            row = {"power_w": power, "energy_j": energy, "nvlink_tx_bytes": sent, "gpu_index": chance.randint(0, 1)}
            rows.append((round(second, 6), {k: v for k, v in row.items() if chance.random() > 0.15}))
            step = chance.choices([10.0, 30.0, 200.0, 900.0, 9000.0], [60, 20, 10, 3, 1])[0] * chance.uniform(0.9, 1.1)
            restarted = chance.random() < 0.03
            energy = 50.0 if restarted else energy + power * step
            sent = 5 if restarted else sent + chance.randint(0, 10**9)
            second += step
        frames.append(samples(rows, gpu=gpu))
    return pl.concat(frames)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("compute", "column"), [(rollup_hours, "hour_at"), (rollup_minutes, "minute_at")])
def test_an_hour_is_the_same_from_any_window_with_its_neighbours(compute: Any, column: str, seed: int) -> None:
    frame = restless(seed)
    whole = compute(frame.lazy())
    for hour in range(10):
        begin, end = START + dt.timedelta(hours=hour), START + dt.timedelta(hours=hour + 1)
        step = dt.timedelta(hours=1)
        window = frame.filter(pl.col("sampled_at").is_between(begin - step, end + step, closed="left"))
        mine = pl.col(column).is_between(begin, end, closed="left")
        assert_frame_equal(compute(window.lazy()).filter(mine), whole.filter(mine))
