"""NVLink errors come from the interface that tells the truth on each architecture; MIG and XIDs are attributed."""

from __future__ import annotations

import polars as pl
import pytest
from agent_machine import Machine, uuid_of

from sources.telemetry.nvml_events import Echoes


def counters(machine: Machine, gpu: int, link: int, kind: str = "nvlink") -> dict[str, list[object]]:
    wanted = (uuid_of(gpu), link, kind)
    rows = [r for r in machine.records("link_counter") if (r["device"], r["link_index"], r["link_kind"]) == wanted]
    found: dict[str, list[object]] = {}
    for row in rows:
        found.setdefault(str(row["counter"]), []).append(row["value"])
    return found


def test_hopper_counters_grow_then_reset_and_are_told_on_change(machine: Machine) -> None:
    machine.say("1 nv.4.0 17")
    machine.start()
    machine.until(lambda: counters(machine, 1, 4).get("replay") == [17])
    machine.say("1 nv.4.0 21")
    machine.until(lambda: counters(machine, 1, 4)["replay"] == [17, 21])
    machine.say()
    machine.until(lambda: counters(machine, 1, 4)["replay"] == [17, 21, 0])
    assert counters(machine, 1, 4) == {
        "replay": [17, 21, 0],
        "recovery": [0],
        "crc_flit": [0],
        "crc_data": [0],
        "ecc_data": [0],
        "speed_mb_per_s": [26562],
    }
    assert counters(machine, 0, 17)["replay"] == [0]
    assert counters(machine, 0, 18) == {}
    assert {r["link_kind"] for r in machine.records("link_counter")} == {"nvlink", "pcie"}


def test_hopper_does_not_believe_the_legacy_fields(machine: Machine) -> None:
    # The legacy field of link 4's replays says 99 while the Hopper call says 3.
    machine.say("0 fi.50 99", "0 nv.4.0 3")
    machine.command("--once")
    assert counters(machine, 0, 4)["replay"] == [3]


def test_hopper_falls_back_to_its_fields_where_the_call_is_missing(machine: Machine) -> None:
    machine.say("* err.nvmlDeviceGetNvLinkErrorCounter 13", "0 fi.161.2 5", "0 fi.162.2 6", "0 fi.163.2 7")
    machine.command("--once")
    found = counters(machine, 0, 2)
    assert (found["replay"], found["recovery"], found["crc"]) == ([5], [6], [7])
    assert "crc_flit" not in found
    told = {r["column_name"]: r["reason"] for r in machine.records("null_reason") if r["table_name"] == "link_counters"}
    assert told["crc_flit"] == "function_not_found"


def test_ampere_reads_the_legacy_fields_of_twelve_links(machine: Machine) -> None:
    # Link 3: flit 35, data 42, replay 49, recovery 56, ECC 151; link 7: flit 97, data 103, replay 109, recovery 115.
    machine.say(
        *("* arch 7", "* links 12", "0 fi.35 1", "0 fi.42 2", "0 fi.49 3", "0 fi.56 4", "0 fi.151 5"),
        *("0 fi.97 6", "0 fi.103 7", "0 fi.109 8", "0 fi.115 9", "0 fi.155 10"),
    )
    machine.command("--once")
    low, high = counters(machine, 0, 3), counters(machine, 0, 7)
    speed = {"speed_mb_per_s": [26562]}
    assert low == speed | {"crc_flit": [1], "crc_data": [2], "replay": [3], "recovery": [4], "ecc_data": [5]}
    assert high == speed | {"crc_flit": [6], "crc_data": [7], "replay": [8], "recovery": [9], "ecc_data": [10]}


def test_blackwell_reads_its_own_fields_and_sums_the_bytes_of_its_links(machine: Machine) -> None:
    machine.say(
        *("* arch 10", "* links 2", "0 fi_err.138 3", "0 fi_err.139 3"),
        *("0 fi.206.1 11", "0 fi.215.1 12", "0 fi.161.1 99"),
        *("0 fi.202.0 1000", "0 fi.202.1 234", "0 fi.204.0 5", "0 fi.204.1 6"),
        *("0 fi.220.1 1292", "0 fi.222.1 4095", "0 fi.164.1 53125"),
    )
    machine.command("--once")
    found = counters(machine, 0, 1)
    assert (found["malformed_packet"], found["recovery"]) == ([11], [12])
    # Bit-error rates stay encoded: 1292 is 0x50c, 5 * 10^-12; 4095 is 15 and 255, no error at all.
    assert (found["effective_ber_raw"], found["symbol_ber_raw"], found["speed_mb_per_s"]) == ([1292], [4095], [53125])
    assert "replay" not in found
    row = machine.samples().row(by_predicate=pl.col("gpu_uuid") == uuid_of(0), named=True)
    assert (row["nvlink_tx_bytes"], row["nvlink_rx_bytes"]) == (1234, 11)


def test_a_links_speed_is_told_when_it_changes(machine: Machine) -> None:
    machine.start()
    machine.until_rows()
    machine.say("2 fi.164.5 0")
    machine.until(lambda: counters(machine, 2, 5)["speed_mb_per_s"] == [26562, 0])


def test_pcie_errors_are_counters_of_link_0(machine: Machine) -> None:
    machine.say("3 fi.176 9", "3 fi_err.183 3")
    machine.command("--once")
    found = counters(machine, 3, 0, "pcie")
    assert (found["correctable_errors"], found["l0_to_recovery"], found["bad_tlp"]) == ([6], [4], [9])
    assert "lane_errors" not in found
    assert len(found) == 12


def test_a_sum_over_links_is_null_when_one_link_is_silent(machine: Machine) -> None:
    machine.say(
        "* arch 10", "* links 2", "0 fi_err.138 3", "0 fi_err.139 3", "0 fi.202.0 1000", "0 fi.204.0 1", "0 fi.204.1 2"
    )
    machine.command("--once")
    row = machine.samples().row(by_predicate=pl.col("gpu_uuid") == uuid_of(0), named=True)
    assert (row["nvlink_tx_bytes"], row["nvlink_rx_bytes"]) == (None, 3)
    told = [
        r for r in machine.records("null_reason") if r["device"] == uuid_of(0) and r["column_name"] == "nvlink_tx_bytes"
    ]
    assert [r["reason"] for r in told] == ["incomplete"]


def test_a_link_that_goes_down_is_an_event(machine: Machine) -> None:
    machine.say("0 up.9 0")  # down from the start is not news
    machine.start()
    machine.until_rows()
    machine.say("0 up.9 0", "3 up.11 0")
    machine.until(lambda: machine.events("link_down"))
    machine.until_rows(16)
    (down,) = machine.events("link_down")
    assert (down["gpu_uuid"], down["link_index"], down["severity"]) == (uuid_of(3), 11, "error")


def test_mig_instances_have_rows_but_not_the_boards_power(machine: Machine) -> None:
    machine.say("0 mig 1")
    machine.command("--once")
    samples = machine.samples()
    instances = samples.filter(pl.col("parent_gpu_uuid").is_not_null())
    assert instances["gpu_uuid"].to_list() == [f"MIG-00000000-0000-0000-{i:04d}-{0:012d}" for i in range(2)]
    assert set(instances["accelerator_id"]) == {"nvidia-h100-sxm5-80gb"}  # the board they are part of
    assert instances["parent_gpu_uuid"].unique().to_list() == [uuid_of(0)]
    for column in ("power_w", "energy_j", "temperature_c", "ecc_corrected_count", "gpu_util_ratio", "nvlink_tx_bytes"):
        assert instances[column].null_count() == 2, column
    assert instances["memory_used_bytes"].to_list() == [(1 << 30) // 4] * 2
    # GPU instance 7: the stub's metric 5 plus 50.
    assert instances["tensor_active_ratio"].to_list() == pytest.approx([0.55, 0.55])
    assert samples["power_w"].sum() == sum(300 + gpu for gpu in range(8))
    board = samples.row(by_predicate=pl.col("gpu_uuid") == uuid_of(0), named=True)
    assert board["gpu_util_ratio"] is None  # not supported while MIG is on
    reasons = {(r["device"], r["column_name"]): r["reason"] for r in machine.records("null_reason")}
    assert reasons[instances["gpu_uuid"][0], "power_w"] == "board_scope"
    rows = [r for r in machine.records("inventory") if r["parent_gpu_uuid"] == uuid_of(0)]
    assert [(r["mig_profile"], r["gpu_serial"]) for r in rows] == [("1g.10gb", "1650000000")] * 2


def test_mig_instances_that_vanish_end_in_the_inventory(machine: Machine) -> None:
    machine.say("0 mig 1")
    machine.start()
    machine.until_rows(10)
    machine.say()
    machine.until(lambda: [r for r in machine.records("inventory") if r["parent_gpu_uuid"] and r["valid_to"]])
    machine.until_rows(8)
    last = machine.samples().filter(pl.col("sampled_at") == pl.col("sampled_at").max())
    assert last["parent_gpu_uuid"].null_count() == 8


def test_an_xid_is_an_event_of_its_gpu(machine: Machine) -> None:
    machine.start()
    machine.until_rows()
    machine.say("2 xid 48", "2 xid_seq 1")
    machine.until(lambda: machine.events("xid"))
    (xid,) = machine.events("xid")
    assert (xid["severity"], xid["action"]) == ("error", "WORKFLOW_XID_48")
    assert (xid["gpu_uuid"], xid["code"], xid["event_id"], xid["pci_bus_id"]) == (
        uuid_of(2),
        48,
        "48",
        "00000000:12:00.0",
    )


def test_an_incident_told_by_two_channels_is_one() -> None:
    echoes = Echoes()
    assert echoes.is_new(1_000_000, "kernel_log", "GPU-1", 79)
    assert not echoes.is_new(1_400_000, "nvml", "GPU-1", 79)
    assert echoes.is_new(1_500_000, "nvml", "GPU-1", 79)  # each report answers for one other report only
    assert echoes.is_new(1_600_000, "nvml", "GPU-2", 79)
    assert echoes.is_new(9_000_000, "kernel_log", "GPU-2", 79)  # too long after to be the same


def test_a_storm_in_one_channel_stays_a_storm() -> None:
    echoes = Echoes()
    assert all(echoes.is_new(1_000_000 + second * 1_000_000, "kernel_log", "GPU-1", 119) for second in range(20))
