"""`mart.fleet_daily` against days small enough to add up by hand."""

from __future__ import annotations

import pytest

from marts.tables import at, database, mart, on

DAY = "2026-03-02"


def hour(clock: str, gpu: str, **given) -> dict:
    """A fully covered hour of one GPU unless said otherwise."""
    row = {"hour_at": at(f"{DAY}T{clock}:00"), "date": on(DAY), "gpu_uuid": gpu}
    return row | {"seconds_covered": 3600, "sample_count": 360, "energy_seconds": 0} | given


def board(gpu: str, since: str, until: str | None = None, **given) -> dict:
    return {"valid_from": at(since), "valid_to": at(until) if until else None, "gpu_uuid": gpu} | given


def fleet(**tables) -> list[dict]:
    return mart(database(**{f"telemetry__{name}": rows for name, rows in tables.items()}), "fleet_daily")


def test_means_are_weighted_by_covered_time():
    (day,) = fleet(
        gpu_hours=[
            hour("00:00", "A", gpu_util_mean_ratio=0.8, power_mean_w=600, power_max_w=700),
            hour("00:00", "B", gpu_util_mean_ratio=0.2, power_mean_w=200, power_max_w=250, seconds_covered=1200),
        ]
    )
    assert day["gpu_util_mean_ratio"] == pytest.approx((0.8 * 3600 + 0.2 * 1200) / 4800)  # 0.65
    assert day["power_mean_w"] == pytest.approx((600 * 3600 + 200 * 1200) / 4800)  # 500
    assert day["power_max_w"] == 700
    assert (day["gpu_util_min_ratio"], day["gpu_util_max_ratio"]) == (0.2, 0.8)
    assert day["gpus_seen"] == 2
    assert day["covered_gpu_hours"] == pytest.approx(4800 / 3600, abs=1e-6)


def test_what_is_not_known_is_null_and_never_zero():
    (day,) = fleet(gpu_hours=[hour("00:00", "A", source="dcgm-exporter")])
    unknown = (
        "gpus_in_inventory capacity_gpu_hours coverage_ratio gpu_util_mean_ratio gpu_util_min_ratio idle_ratio "
        "tensor_active_mean_ratio power_mean_w energy_kwh energy_counter_ratio xid_count lost_count link_error_count "
        "ecc_corrected_count throttle_power_gpu_hours temperature_max_c links_with_errors"
    )
    assert {name: day[name] for name in unknown.split()} == dict.fromkeys(unknown.split())
    assert day["gpu_util_known_ratio"] == 0
    assert day["energy_known_ratio"] == 0


def test_energy_says_how_it_was_measured():
    (day,) = fleet(
        gpu_hours=[
            hour("00:00", "A", energy_j=1.8e6, energy_method="counter", energy_seconds=3600),
            hour("01:00", "A", energy_j=0.9e6, energy_method="trapezoid", energy_seconds=1800),
            hour("02:00", "A", energy_j=0.9e6, energy_method="mixed", energy_seconds=3600, gap_energy_j=3.6e6),
            hour("03:00", "A"),
        ]
    )
    assert day["energy_kwh"] == 1.0  # 3.6 MJ
    assert (day["energy_counter_ratio"], day["energy_trapezoid_ratio"]) == (0.5, 0.25)
    assert day["energy_known_ratio"] == 0.625  # 9,000 of 14,400 s
    assert day["gap_energy_kwh"] == 1.0


def test_idle_share_counts_only_time_in_which_activity_is_known():
    (day,) = fleet(gpu_hours=[hour("00:00", "A", inactive_seconds=900), hour("00:00", "B")])
    assert (day["idle_ratio"], day["idle_gpu_hours"]) == (0.25, 0.25)


def test_capacity_follows_the_inventory_through_a_swap():
    days = fleet(
        gpu_hours=[hour("00:00", "A"), hour("23:00", "B")],
        inventory=[
            board("A", "2026-03-01T00:00", f"{DAY}T06:00"),
            board("B", f"{DAY}T12:00"),
            board("B-mig", f"{DAY}T12:00", parent_gpu_uuid="B"),
        ],
    )
    (day,) = days
    assert day["capacity_gpu_hours"] == 6 + 12
    assert day["gpus_in_inventory"] == 2
    assert day["coverage_ratio"] == pytest.approx(2 / 18, abs=1e-6)


def test_an_open_day_counts_until_its_last_hour():
    (day,) = fleet(gpu_hours=[hour("03:00", "A")], inventory=[board("A", f"{DAY}T00:00")])
    assert day["capacity_gpu_hours"] == 4


def test_a_day_without_readings_between_two_days_is_shown():
    later = hour("00:00", "A") | {"hour_at": at("2026-03-04T00:00"), "date": on("2026-03-04")}
    days = fleet(gpu_hours=[hour("00:00", "A"), later], inventory=[board("A", "2026-03-01T00:00")])
    (dark,) = [d for d in days if d["date"] == on("2026-03-03")]
    assert (dark["gpus_seen"], dark["covered_gpu_hours"], dark["capacity_gpu_hours"]) == (0, 0, 24)
    assert dark["gpu_util_mean_ratio"] is None


def test_mig_instances_cover_their_board_once_and_stay_out_of_means():
    (day,) = fleet(
        gpu_hours=[
            hour("00:00", "A", power_mean_w=300),
            hour("00:00", "A-1", parent_gpu_uuid="A", tensor_active_mean_ratio=0.9),
            hour("00:00", "A-2", parent_gpu_uuid="A", tensor_active_mean_ratio=0.1),
        ]
    )
    assert (day["gpus_seen"], day["mig_instances_seen"], day["covered_gpu_hours"]) == (1, 2, 1)
    assert day["power_mean_w"] == 300
    assert day["tensor_active_mean_ratio"] is None


def event(kind: str, event_id: str, **given) -> dict:
    row = {"occurred_at": at(f"{DAY}T05:00"), "device": "A", "kind": kind, "event_id": event_id}
    return row | given


def test_events_are_counted_by_kind_and_severity():
    (day,) = fleet(
        gpu_hours=[hour("00:00", "A")],
        gpu_events=[
            event("xid", "79", code=79, severity="fatal"),
            event("xid", "63", code=63, severity="info"),
            event("lost", "lost", severity="fatal"),
            event("returned", "returned", severity="info"),
        ],
    )
    found = ("xid_count", "xid_error_count", "lost_count", "returned_count", "fatal_event_count")
    assert [day[name] for name in found] == [2, 1, 1, 1, 2]


def test_a_quiet_day_of_the_agent_is_zero_unless_it_could_not_watch():
    (quiet,) = fleet(gpu_hours=[hour("00:00", "A")])
    assert quiet["xid_count"] == 0
    blind = {"from_at": at(f"{DAY}T00:00"), "device": "*", "table_name": "gpu_events", "column_name": "message"}
    (day,) = fleet(gpu_hours=[hour("00:00", "A")], null_reasons=[blind | {"reason": "no_permission"}])
    assert day["xid_count"] is None


def counter(clock: str, name: str, delta: int | None, **given) -> dict:
    row = {"sampled_at": at(f"{DAY}T{clock}:00"), "date": on(DAY), "device": "A", "link_kind": "nvlink"}
    status = "first" if delta is None else "counted"
    return row | {"link_index": 3, "counter": name, "value": 9, "delta": delta, "delta_status": status} | given


def test_link_errors_leave_out_traffic_and_first_readings():
    (day,) = fleet(
        gpu_hours=[hour("00:00", "A")],
        link_counters=[
            counter("00:00", "replay", None),
            counter("01:00", "replay", 5),
            counter("02:00", "crc_flit", 7),
            counter("02:00", "recovery", 0),
            counter("02:00", "port_xmit_data", 10**9, link_kind="infiniband"),
            counter("03:00", "symbol_error", None, link_kind="infiniband", delta_status="saturated"),
        ],
    )
    assert day["link_error_count"] == 12
    assert (day["link_replay_count"], day["link_crc_count"], day["link_recovery_count"]) == (5, 7, 0)
    assert day["links_with_errors"] == 1
    assert day["link_unknown_count"] == 1


def test_synthetic_and_real_rows_and_two_collectors_stay_apart():
    days = fleet(
        gpu_hours=[
            hour("00:00", "A"),
            hour("00:00", "A", source="dcgm-exporter"),
            hour("00:00", "S", is_synthetic=True, cluster="demo"),
        ]
    )
    assert sorted((d["cluster"], d["source"], d["is_synthetic"]) for d in days) == [
        ("c1", "dcgm-exporter", False),
        ("c1", "nvml", False),
        ("demo", "nvml", True),
    ]
