"""The values in the spool are those the driver gave, in the columns' units; an absent one is null with a reason.

Expected values are the stub's constants: GPU g draws 300 + g W, has used (g + 1) kJ, is busy 50 + g %, and so on.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from agent_machine import Machine, uuid_of

GIB = 1 << 30


@pytest.fixture
def samples(machine: Machine) -> pl.DataFrame:
    done = machine.command("--once")
    assert done.returncode == 0, done.stderr
    return machine.samples()


def one(samples: pl.DataFrame, gpu: int) -> dict[str, object]:
    return samples.row(by_predicate=pl.col("gpu_uuid") == uuid_of(gpu), named=True)


def test_every_gpu_has_one_row_by_uuid(samples: pl.DataFrame) -> None:
    assert samples["gpu_uuid"].to_list() == [uuid_of(gpu) for gpu in range(8)]
    assert samples["gpu_index"].to_list() == list(range(8))
    assert samples["sampled_at"].n_unique() == 1
    assert set(samples["accelerator_id"]) == {"nvidia-h100-sxm5-80gb"}
    assert samples.select("cluster", "node", "source", "is_synthetic").unique().rows() == [
        ("local", "n1", "nvml", False)
    ]


@pytest.mark.parametrize("gpu", [0, 7])
def test_values_are_in_the_units_of_the_columns(samples: pl.DataFrame, gpu: int) -> None:
    row = one(samples, gpu)
    expected = {
        "power_w": 300.0 + gpu,
        "power_instant_w": 310.0 + gpu,
        "power_limit_w": 700.0,
        "energy_j": 1000.0 * (gpu + 1),
        "gpu_util_ratio": (50 + gpu) / 100,
        "memory_util_ratio": (20 + gpu) / 100,
        "memory_used_bytes": (gpu + 1) * GIB,
        "memory_total_bytes": 85_520_809_984,
        "memory_reserved_bytes": 524_288_000,
        "temperature_c": 40 + gpu,
        "memory_temperature_c": 55,
        "sm_clock_mhz": 1980 - 10 * gpu,
        "memory_clock_mhz": 2619,
        "performance_state": 0,
        "event_reasons": 4,
        "throttle_power_cap_ns": 7_000_000,
        "throttle_sw_thermal_ns": 9000,
        "throttle_hw_thermal_ns": 0,
        "nvlink_tx_bytes": 2048 * 1024,
        "nvlink_rx_bytes": 4096 * 1024,
        "pcie_tx_bytes": 111_000,
        "pcie_rx_bytes": 222_000,
        "pcie_replay_count": 2,
        "pcie_link_generation": 5,
        "pcie_link_width": 16,
        "ecc_corrected_count": 5,
        "ecc_uncorrected_count": 0,
        "remapped_corrected_rows": 3,
        "remapped_uncorrected_rows": 1,
        "remap_pending": 0,
        "remap_failed": 0,
        "recovery_action": 0,
    }
    assert {column: row[column] for column in expected} == expected


def test_performance_metrics_are_differences_as_ratios(samples: pl.DataFrame) -> None:
    # The stub's metric is its own id plus half the GPU's number, in percent.
    row = one(samples, 4)
    metrics = (
        "graphics_active_ratio",
        "sm_active_ratio",
        "sm_occupancy_ratio",
        "tensor_active_ratio",
        "dram_active_ratio",
    )
    assert [row[m] for m in metrics] == pytest.approx([0.03, 0.04, 0.05, 0.07, 0.12])


def test_link_rates_of_the_performance_monitor_are_bytes_a_second(samples: pl.DataFrame) -> None:
    # Metric ids 20 and 21 (PCIe TX, RX), 60 and 61 (NVLink RX, TX), plus half the GPU's number, in MiB/s.
    row = one(samples, 4)
    assert (row["pcie_tx_bytes_per_s"], row["pcie_rx_bytes_per_s"]) == (22 * 2**20, 23 * 2**20)
    assert (row["nvlink_rx_bytes_per_s"], row["nvlink_tx_bytes_per_s"]) == (62 * 2**20, 63 * 2**20)


def test_an_unsupported_signal_is_null_with_one_reason_and_never_zero(machine: Machine) -> None:
    machine.say("3 fi_err.185 3", "3 fi_err.186 3", "3 err.nvmlDeviceGetPowerUsage 3")
    assert machine.command("--interval", "0.2", "--duration", "0.9").returncode == 0
    samples = machine.samples()
    ticks = samples.filter(gpu_uuid=uuid_of(3))
    assert ticks.height >= 2
    assert ticks["power_w"].null_count() == ticks.height
    assert samples.filter(pl.col("gpu_uuid") != uuid_of(3))["power_w"].null_count() == 0
    reasons = [r for r in machine.records("null_reason") if r["device"] == uuid_of(3) and r["column_name"] == "power_w"]
    assert [(r["reason"], r["to_at"], r["table_name"]) for r in reasons] == [("not_supported", None, "gpu_samples")]


def test_every_null_of_a_column_has_a_reason(machine: Machine) -> None:
    machine.command("--once")
    told = {(r["device"], r["column_name"]) for r in machine.records("null_reason")}
    for row in machine.samples().iter_rows(named=True):
        for column, value in row.items():
            if value is None and column not in ("parent_gpu_uuid", "accelerator_id"):
                assert (row["gpu_uuid"], column) in told or ("*", column) in told, column


def test_a_reason_ends_when_the_value_is_back(machine: Machine) -> None:
    machine.say("2 err.nvmlDeviceGetUtilizationRates 4")
    machine.start()
    machine.until_rows()
    machine.say()
    machine.until_rows(24)
    assert machine.stop() != 0  # this runner does not catch SIGTERM
    began, ended = [
        r for r in machine.records("null_reason") if r["device"] == uuid_of(2) and r["column_name"] == "gpu_util_ratio"
    ]
    assert (began["reason"], began["to_at"]) == ("no_permission", None)
    assert ended["reason"] == "no_permission"
    assert ended["from_at"] == ended["to_at"]
    assert ended["to_at"] > began["from_at"]
    assert machine.samples().filter(gpu_uuid=uuid_of(2))["gpu_util_ratio"].to_list()[-1] == 0.52


def test_an_impossible_value_is_refused_and_kept_as_raw(machine: Machine) -> None:
    machine.say("1 util 686103", "6 fi.82 0")
    machine.command("--once")
    samples = machine.samples()
    assert one(samples, 1)["gpu_util_ratio"] is None
    assert one(samples, 6)["memory_temperature_c"] is None  # boards without a sensor answer 0 °C
    refused = {r["column_name"]: r for r in machine.records("null_reason") if r["reason"] == "out_of_range"}
    assert refused["gpu_util_ratio"]["raw_value"] == "6861.03"
    assert refused["memory_temperature_c"]["raw_value"] == "0"


def test_slow_signals_are_null_between_their_readings(machine: Machine) -> None:
    machine.command("--interval", "0.2", "--duration", "0.9")
    limits = machine.samples().filter(gpu_uuid=uuid_of(0))["power_limit_w"].to_list()
    assert limits[0] == 700.0
    assert set(limits[1:]) == {None}
    told = [r for r in machine.records("null_reason") if r["column_name"] == "power_limit_w"]
    assert [(r["device"], r["reason"]) for r in told] == [("*", "not_sampled")]


def test_counters_are_in_every_row(machine: Machine) -> None:
    machine.command("--interval", "0.2", "--duration", "0.9")
    samples = machine.samples()
    assert samples.height >= 16
    for counter in ("energy_j", "ecc_corrected_count", "ecc_uncorrected_count", "pcie_replay_count", "nvlink_tx_bytes"):
        assert samples[counter].null_count() == 0, counter


def test_64_bit_counters_are_not_cut(machine: Machine) -> None:
    machine.say("0 energy_mj 9007199254740000", "0 fi.197 9007199254740992")
    machine.command("--once")
    row = one(machine.samples(), 0)
    assert row["energy_j"] == 9007199254740.0
    assert row["pcie_tx_bytes"] == 9007199254740992


def test_a_driver_that_refuses_the_batch_is_asked_field_by_field(machine: Machine) -> None:
    machine.say("* no_batch 1")
    machine.command("--once")
    row = one(machine.samples(), 5)
    assert (row["power_w"], row["energy_j"], row["ecc_corrected_count"], row["remapped_corrected_rows"]) == (
        305.0,
        6000.0,
        5,
        3,
    )
    assert row["retired_pages"] is None


def test_an_old_driver_gives_what_it_has(old_machine: Machine) -> None:
    done = old_machine.command("--once")
    assert done.returncode == 0, done.stderr
    row = one(old_machine.samples(), 5)
    assert row["power_w"] == 305.0  # no field 185: the old call
    assert row["temperature_c"] == 45
    assert row["event_reasons"] == 4
    assert row["energy_j"] == 6000.0
    assert row["memory_total_bytes"] == 85_520_809_984
    assert row["memory_used_bytes"] is None  # version 1 counts reserved memory as used
    assert row["tensor_active_ratio"] is None
    reasons = {r["column_name"]: r["reason"] for r in old_machine.records("null_reason") if r["device"] == uuid_of(5)}
    assert reasons["memory_used_bytes"] == "function_not_found"
    assert reasons["tensor_active_ratio"] == "function_not_found"
    assert reasons["recovery_action"] == "not_supported"


def test_module_power_is_only_asked_on_grace(machine: Machine) -> None:
    code = (
        "import pynvml; from sources.telemetry.nvml import Driver\n"
        "for kind in ('x86_64', 'aarch64'):\n"
        "    d = Driver(machine=kind); d.open(0.0)\n"
        "    board = d.boards[sorted(d.boards)[0]]\n"
        "    print([r.values['module_power_w'] for _, r in board.read(1.0, is_slow=False)])\n"
        "    d.close()\n"
    )
    machine.say("0 fi.185.1 950000")
    done = machine.run_python(code)
    assert done.stdout.split() == ["[None]", "[950.0]"], done.stderr


def test_inventory_says_what_the_board_is(machine: Machine) -> None:
    machine.command("--once")
    boards = {r["gpu_uuid"]: r for r in machine.records("inventory")}
    assert len(boards) == 8
    board = boards[uuid_of(3)]
    expected = {
        "gpu_index": 3,
        "gpu_serial": "1650000003",
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "accelerator_id": "nvidia-h100-sxm5-80gb",
        "pci_bus_id": "00000000:13:00.0",
        "module_id": 4,
        "vbios": "96.00.74.00.03",
        "inforom": "G520.0200.00.03",
        "driver": "580.65.06",
        "cuda": "13.0",
        "gsp_firmware": "580.65.06",
        "memory_total_bytes": 85_520_809_984,
        "power_limit_w": 700.0,
        "nvlink_count": 18,
        "is_mig_enabled": False,
        "is_ecc_enabled": True,
        "fabric_cluster_uuid": "abababab-abab-abab-abab-abababababab",
        "fabric_clique_id": 1,
        "fabric_state": "completed",
        "fabric_health": None,
        "power_limit_requested_w": 700.0,
        "power_limit_default_w": 700.0,
        "power_limit_min_w": 200.0,
        "power_limit_max_w": 700.0,
        "temperature_slowdown_c": None,
        "temperature_shutdown_c": None,
        "sm_clock_max_mhz": 1980,
        "memory_clock_max_mhz": 2619,
        "pcie_link_generation_max": 5,
        "pcie_link_width_max": 16,
        "parent_gpu_uuid": None,
        "valid_to": None,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }
    assert {column: board[column] for column in expected} == expected


def test_limits_that_differ_are_told_apart(machine: Machine) -> None:
    machine.say("1 limit_mw 450000", "1 requested_mw 600000", "1 slowdown 90", "1 fabric 2", "4 fabric_health 1")
    machine.command("--once")
    boards = {r["gpu_uuid"]: r for r in machine.records("inventory")}
    board = boards[uuid_of(1)]
    assert (board["power_limit_w"], board["power_limit_requested_w"]) == (450.0, 600.0)
    assert (board["temperature_slowdown_c"], board["temperature_shutdown_c"]) == (90, 95)
    assert (board["fabric_state"], board["fabric_cluster_uuid"], board["fabric_clique_id"]) == (
        "in_progress",
        None,
        None,
    )
    assert boards[uuid_of(4)]["fabric_health"] == "degraded_bandwidth"


def test_ecc_errors_are_told_by_memory(machine: Machine) -> None:
    # Field 12: uncorrected, volatile, device memory; 22: corrected, aggregate, device memory; SRAM has a call.
    machine.say("2 fi.12 1", "2 fi.22 31", "2 ecc.1.1.7 2")
    machine.command("--once")
    rows = [r for r in machine.records("ecc_counter") if r["gpu_uuid"] == uuid_of(2)]
    found = {(r["error_kind"], r["counter_span"], r["location"]): r["value"] for r in rows}
    assert found["uncorrected", "volatile", "dram"] == 1
    assert found["corrected", "aggregate", "dram"] == 31
    assert found["uncorrected", "aggregate", "sram"] == 2
    # The totals are fields 3 to 6, as the stub has them.
    totals = [found[e, s, "total"] for s in ("volatile", "aggregate") for e in ("corrected", "uncorrected")]
    assert totals == [5, 0, 12, 1]
    assert ("corrected", "volatile", "l2") not in found  # not counted on this board: no row, and no zero


def test_processes_have_a_span_and_a_name(machine: Machine) -> None:
    machine.say(f"2 pid {os.getpid()}", "2 processes 1", "2 process_bytes 4096", "0 processes 0")
    machine.start()
    machine.until_rows()
    machine.say("2 processes 0", "0 processes 0")
    mine = lambda: [r for r in machine.records("gpu_process") if r["gpu_uuid"] == uuid_of(2)]  # noqa: E731
    machine.until(lambda: len(mine()) == 2)
    came, went = mine()
    assert (came["pid"], came["memory_used_bytes"], came["to_at"]) == (os.getpid(), 4096, None)
    assert came["process_name"] == Path("/proc/self/comm").read_text().strip()
    assert (went["pid"], went["from_at"] == went["to_at"], went["to_at"] > came["from_at"]) == (os.getpid(), True, True)
    assert not [r for r in machine.records("gpu_process") if r["gpu_uuid"] == uuid_of(0)]


def test_a_process_of_a_mig_instance_belongs_to_the_instance(machine: Machine) -> None:
    machine.say("1 mig 1", "1 processes 1", "1 process_gi 8")
    machine.command("--once")
    rows = [r for r in machine.records("gpu_process") if r["pid"] == 100 and r["gpu_uuid"].startswith("MIG")]
    assert [r["gpu_uuid"] for r in rows] == [f"MIG-00000000-0000-0000-0001-{1:012d}"]


def test_a_changed_power_limit_begins_a_new_state(machine: Machine) -> None:
    machine.start()
    machine.until_rows()
    machine.say("0 limit_mw 500000")
    machine.until(lambda: len([r for r in machine.records("inventory") if r["gpu_uuid"] == uuid_of(0)]) == 2)
    first, second = [r for r in machine.records("inventory") if r["gpu_uuid"] == uuid_of(0)]
    assert (first["power_limit_w"], second["power_limit_w"]) == (700.0, 500.0)
    assert second["valid_from"] > first["valid_from"]
    from assets.telemetry_intervals import close_intervals

    told = pl.DataFrame([first, second]).cast({"valid_to": pl.Datetime("us", "UTC")})
    spans = close_intervals(told, ["cluster", "node", "gpu_uuid", "source"])
    assert spans["valid_to"].to_list() == [second["valid_from"], None]
