"""The parts that need no driver: value types, the kernel log, what is told again."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from sources.telemetry.agent import WallClock
from sources.telemetry.nvml_catalogue import accelerator_of
from sources.telemetry.nvml_fields import decode
from sources.telemetry.nvml_identity import fabric_health
from sources.telemetry.nvml_kernel_log import KernelLog, same_device, understand
from sources.telemetry.nvml_ledger import HEARTBEAT_US, EccLedger, LinkLedger, NullLedger, ProcessLedger
from sources.telemetry.nvml_memory_errors import Cell
from sources.telemetry.nvml_processes import Process, blindness
from sources.telemetry.nvml_reading import Reading
from sources.telemetry.spool_format import GPU_COLUMNS


def bits_of(layout: str, value: float) -> int:
    return int.from_bytes(struct.pack("=" + layout, value).ljust(8, b"\0"), "little")


@pytest.mark.parametrize(
    ("value_type", "bits", "expected"),
    [
        (0, bits_of("d", 12.5), 12.5),
        (0, bits_of("d", float("nan")), None),
        (1, bits_of("I", 4_000_000_000), 4_000_000_000),
        (1, 0xDEADBEEF_00000007, 7),  # the upper half of the union is not part of a 32-bit value
        (1, 0xFFFFFFFF, None),
        (2, 1 << 63, 1 << 63),
        (3, (1 << 53) + 1, (1 << 53) + 1),
        (3, 0xFFFFFFFFFFFFFFFF, None),
        (4, bits_of("q", -5), -5),
        (5, bits_of("i", -7), -7),
        (6, bits_of("H", 65_535), 65_535),
        (9, 1, None),
    ],
)
def test_a_value_is_read_by_its_type(value_type: int, bits: int, expected: float | None) -> None:
    assert decode(value_type, bits) == expected


def test_the_agents_columns_are_columns_of_the_table() -> None:
    from sources.telemetry.agent import COLUMNS
    from warehouse.schema.declare import table_of
    from warehouse.schema.telemetry import GpuSample

    names = {column.name for column in COLUMNS}
    assert names <= set(table_of(GpuSample).columns.keys())
    assert names == {c.name for c in GPU_COLUMNS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "nvidia-h200-sxm5-141gb"),
        ("NVIDIA GH200 480GB", None),  # the name leaves two parts open
        ("NVIDIA GeForce GTX 480", None),
    ],
)
def test_a_model_is_known_by_its_driver_name_or_not_at_all(name: str, expected: str | None) -> None:
    assert accelerator_of(name) == expected


XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
XID_31 = "NVRM: Xid (PCI:0000:9B:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault"
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error"


def test_kernel_lines_that_speak_of_a_gpu_are_understood() -> None:
    dead = understand(XID_79, 5)
    fault = understand(XID_31, 5)
    switch = understand(SXID, 5)
    assert dead
    assert fault
    assert switch
    assert (dead.kind, dead.code, dead.pci_bus_id, dead.pid, dead.occurred_at_us) == ("xid", 79, "0000:3b:00", None, 5)
    assert (fault.code, fault.pid, fault.process_name, fault.pci_bus_id) == (31, 4711, "python3", "0000:9b:00")
    assert (switch.kind, switch.code, switch.link_index, switch.severity) == ("sxid", 12028, 32, "warning")


def test_a_gpu_off_the_bus_without_an_xid_is_xid_79() -> None:
    event = understand("NVRM: GPU 0000:19:00.0: GPU has fallen off the bus.", 5)
    assert event
    assert (event.kind, event.code, event.pci_bus_id) == ("xid", 79, "0000:19:00.0")


def test_an_nvlink_xid_says_its_link_and_gravity_itself() -> None:
    line = "NVRM: Xid (PCI:0018:01:00): 145, pid=0, name=<unknown>, RLW_CTRL Nonfatal XC1 i0 Link 07 (0x00000001 0x2)"
    event = understand(line, 5)
    assert event
    assert (event.code, event.subcode, event.link_index, event.severity) == (145, "RLW_CTRL", 7, "warning")


def test_a_message_over_three_lines_is_one_event(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    log = KernelLog(path)
    path.write_text(
        "3,7,1000,-;NVRM: The NVIDIA GPU 0000:18:00.0\n"
        "3,8,1001,-;NVRM: (PCI ID: 10de:20b0) installed in this system has\n"
        "3,9,1002,-;NVRM: fallen off the bus and is not responding to commands.\n"
        "3,10,1003,-;NVRM: fallen off the bus, said a stranger\n"
    )
    (event,) = log.events()
    assert (event.code, event.pci_bus_id) == (79, "0000:18:00.0")
    log.close()


@pytest.mark.parametrize("line", ["NVRM: GPU at PCI:0000:9b:00: GPU-509665ad", "usb 1-1: new device", "NVRM: Xid 79"])
def test_other_lines_are_none_of_ours(line: str) -> None:
    assert understand(line, 5) is None


def test_every_real_kernel_line_with_an_xid_is_understood(shared: Path) -> None:
    folder = shared / "data" / "telemetry" / "kernel_xid"
    lines = [line for path in folder.iterdir() for line in path.read_text(errors="replace").splitlines()]
    told = [line for line in lines if "NVRM: Xid (PCI:" in line or ": SXid (PCI:" in line]
    assert len(told) > 20
    assert [line for line in told if understand(line, 0) is None] == []


def test_pci_bus_ids_of_kernel_and_driver_are_compared_by_number() -> None:
    assert same_device("0000:3b:00", "00000000:3B:00.0")
    assert same_device("3b:00.0", "00000000:3b:00.0")
    assert not same_device("0000:3b:00", "00000000:3c:00.0")
    assert not same_device("0001:3b:00", "00000000:3b:00.0")


def test_the_kernel_log_is_followed_from_now_on(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"4,1,1000,-;{XID_31}\n")
    log = KernelLog(path)
    assert list(log.events()) == []
    with path.open("a") as file:
        since_boot = time.monotonic_ns() // 1000 - 2_000_000
        file.write(f"4,2,{since_boot},-;{XID_79}\n SUBSYSTEM=pci\n6,3,{since_boot},-;usb 1-1: new device\n")
    (event,) = log.events()
    assert event.code == 79
    assert event.occurred_at_us / 1e6 == pytest.approx(time.time() - 2, abs=0.5)
    assert list(log.events()) == []
    log.close()


def test_a_kernel_log_that_is_not_there_says_so(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "none")
    assert log.reason == "not_found"
    assert list(log.events()) == []


class Told:
    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, kind: str, row: Any) -> None:
        self.rows.append((kind, dict(row)))


def test_an_unchanged_link_counter_is_told_once_an_hour() -> None:
    told = Told()
    ledger = LinkLedger(told)
    for minute in range(121):
        ledger.note(minute * 60_000_000, "GPU-1", [(0, "replay", 3, "")])
    assert [row["sampled_at"] for _, row in told.rows] == [0, HEARTBEAT_US, 2 * HEARTBEAT_US]


def test_a_counter_that_becomes_unreadable_is_told_as_null() -> None:
    told = Told()
    ledger = LinkLedger(told)
    ledger.note(1, "GPU-1", [(0, "replay", 3, "")])
    ledger.note(2, "GPU-1", [(0, "replay", None, "no_permission")])
    ledger.note(3, "GPU-1", [(0, "replay", 3, "")])
    values = [row["value"] for kind, row in told.rows if kind == "link_counter"]
    reasons = [(row["reason"], row["to_at"]) for kind, row in told.rows if kind == "null_reason"]
    assert values == [3, None, 3]
    assert reasons == [("no_permission", None), ("no_permission", 3)]


def test_no_two_records_of_a_reason_share_a_key() -> None:
    told = Told()
    ledger = NullLedger(told, table="gpu_samples")
    ledger.begin(1, "GPU-1", "power_w", "not_supported")
    ledger.begin(2, "GPU-1", "power_w", "not_supported")
    ledger.begin(3, "GPU-1", "power_w", "no_permission")
    ledger.end(4, "GPU-1", "power_w")
    ledger.end(5, "GPU-1", "power_w")
    spans = [(row["from_at"], row["to_at"], row["reason"]) for _, row in told.rows]
    assert spans == [(1, None, "not_supported"), (3, None, "no_permission"), (4, 4, "no_permission")]


def test_a_column_that_was_not_sampled_keeps_its_reason() -> None:
    told = Told()
    ledger = NullLedger(told, table="gpu_samples")
    for at_us, reason in ((1, "not_supported"), (2, "not_sampled"), (3, "not_supported")):
        reading = Reading()
        reading.miss("fan_speed_ratio", reason)
        ledger.note(at_us, "GPU-1", reading)
    assert [(row["from_at"], row["reason"]) for _, row in told.rows] == [(1, "not_supported")]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0, None),  # the fabric says nothing
        (0b10_10_10_10, "healthy"),  # four times "false"
        (0b10_10_10_01, "degraded_bandwidth"),
        (0b01_01_01_10, "route_recovery,route_unhealthy,access_timeout_recovery"),
        (1 << 8, "healthy"),  # the configuration is right
        (5 << 8 | 0b10, "incorrect_configuration"),  # too few NVLinks
    ],
)
def test_the_health_of_the_fabric_is_read_from_its_mask(mask: int, expected: str | None) -> None:
    assert fabric_health(mask) == expected


def at(process: Process, memory_bytes: int | None) -> Process:
    return process._replace(memory_bytes=memory_bytes)


JOB = Process("GPU-1", 4711, "python3", 1000)


def test_a_process_is_told_when_it_comes_when_its_memory_moves_each_hour_and_when_it_goes() -> None:
    told = Told()
    ledger = ProcessLedger(told)
    for minute, found in ((0, [JOB]), (1, [at(JOB, 1100)]), (2, [at(JOB, 1101)]), (3, []), (4, [])):
        ledger.note(minute, "GPU-1", found, "")
    spans = [(row["from_at"], row["to_at"], row["memory_used_bytes"]) for _, row in told.rows]
    assert spans == [(0, None, 1000), (2, None, 1101), (3, 3, 1101)]
    ledger.note(5, "GPU-1", [JOB], "")
    ledger.note(5 + HEARTBEAT_US, "GPU-1", [JOB], "")
    assert [row["from_at"] for _, row in told.rows[3:]] == [5, 5 + HEARTBEAT_US]


def test_processes_that_cannot_be_seen_are_not_taken_to_be_gone() -> None:
    told = Told()
    ledger = ProcessLedger(told)
    ledger.note(0, "GPU-1", [JOB], "")
    ledger.note(1, "GPU-1", [], "no_permission")
    ledger.note(2, "GPU-1", [JOB], "")
    assert [(kind, row["from_at"]) for kind, row in told.rows] == [
        ("gpu_process", 0),
        ("null_reason", 1),
        ("null_reason", 2),
    ]


def test_a_container_without_the_hosts_process_ids_says_that_it_sees_none(tmp_path: Path) -> None:
    for name, number, reason in (("host", 4026531836, ""), ("other", 4026532000, "other_pid_namespace")):
        link = tmp_path / name
        link.symlink_to(f"pid:[{number}]")
        assert blindness(link) == reason


def test_ecc_counters_are_told_on_change_and_a_board_without_ecc_has_one_reason() -> None:
    told = Told()
    ledger = EccLedger(told)
    dram, cbu = Cell("corrected", "volatile", "dram"), Cell("uncorrected", "volatile", "cbu")
    for at_us, errors in ((1, 7), (2, 7), (3, 9)):
        ledger.note(at_us, "GPU-1", [(dram, errors, ""), (cbu, None, "not_supported")])
    assert [(row["sampled_at"], row["location"], row["value"]) for _, row in told.rows] == [
        (1, "dram", 7),
        (3, "dram", 9),
    ]
    ledger.note(4, "GPU-2", [(dram, None, "not_supported"), (cbu, None, "not_supported")])
    (kind, row) = told.rows[-1]
    assert (kind, row["device"], row["table_name"], row["column_name"], row["reason"]) == (
        "null_reason",
        "GPU-2",
        "ecc_counters",
        "value",
        "not_supported",
    )


def test_a_clock_that_is_set_is_noticed_and_one_that_drifts_is_not() -> None:
    clock = WallClock()
    told = [clock.stepped_us(wall, mono) for wall, mono in (
        (5_000_000, 0), (15_000_400, 10_000_000), (20_100_000, 20_000_000), (40_100_000, 30_000_000),
        (49_200_000, 40_000_000),
    )]  # fmt: skip
    # Ten seconds pass each time. The clock gains 0.4 ms, is set back by 4.9 s, set forward by 10 s, loses 0.9 s.
    assert told == [0, 0, -4_900_400, 10_000_000, 0]
