"""`mart.node_actions` on nodes with one fault each."""

from __future__ import annotations

import pytest

from marts.tables import at, database, mart

NOON = "2026-03-02T12:00:00"


def event(code: int | None, *, kind: str = "xid", when: str = NOON, device: str = "A", **given) -> dict:
    row = {"occurred_at": at(when), "kind": kind, "code": code, "event_id": str(code or kind), "device": device}
    return row | {"gpu_uuid": device} | given


def hour(**given) -> dict:
    return {"hour_at": at("2026-03-02T11:00:00"), "date": at(NOON).date(), "gpu_uuid": "A"} | given


def actions(**tables) -> list[dict]:
    return mart(database(**{f"telemetry__{name}": rows for name, rows in tables.items()}), "node_actions")


@pytest.mark.parametrize(
    ("xid", "action"),
    [
        (event(79, severity="fatal", action="RESTART_BM"), "drain"),
        (event(95, severity="error", action="RESET_GPU"), "reset"),
        (event(74, severity="error", action="WORKFLOW_NVLINK_ERR"), "drain"),
        (event(149, severity="fatal", action="WORKFLOW_NVLINK5_ERR"), "drain"),
        (event(145, severity="warning", action="WORKFLOW_NVLINK5_ERR"), "watch"),  # the driver printed Nonfatal
        (event(1, severity="error", action="CONTACT_SUPPORT"), "watch"),
        (event(31, severity="error", action="RESTART_APP"), None),
        (event(63, severity="info", action="IGNORE"), None),
        (event(79, kind="xid_last"), None),
    ],
)
def test_an_xid_asks_what_the_catalogue_says(xid: dict, action: str | None) -> None:
    found = actions(gpu_events=[xid])
    assert [row["action"] for row in found] == ([action] if action else [])


def test_a_node_is_drained_if_any_of_its_devices_asks_for_it() -> None:
    told = [
        event(95, severity="error", action="RESET_GPU"),
        event(79, severity="fatal", action="RESTART_BM", device="B"),
        event(95, severity="error", action="RESET_GPU", device="C", node="n2"),
    ]
    found = {(r["node"], r["device"]): (r["node_action"], r["action"], r["why"]) for r in actions(gpu_events=told)}
    assert found == {
        ("n1", "A"): ("drain", "reset", "XID 95 (RESET_GPU)"),
        ("n1", "B"): ("drain", "drain", "XID 79 (RESTART_BM)"),
        ("n2", "C"): ("reset", "reset", "XID 95 (RESET_GPU)"),
    }


def test_an_event_of_the_kernel_log_finds_the_board_by_its_bus_at_that_time() -> None:
    boards = [
        {"valid_from": at("2026-02-01T00:00:00"), "valid_to": at("2026-03-02T11:00:00"), "gpu_uuid": "OLD"},
        {"valid_from": at("2026-03-02T11:00:00"), "gpu_uuid": "NEW", "gpu_serial": "S9"},
    ]
    boards = [b | {"pci_bus_id": "00000000:1B:00.0"} for b in boards]
    xid = event(79, severity="fatal", action="RESTART_BM", device="0000:1b:00", gpu_uuid=None, pci_bus_id="0000:1b:00")
    (row,) = actions(gpu_events=[xid], inventory=boards)
    assert (row["device"], row["gpu_serial"], row["pci_bus_id"]) == ("NEW", "S9", "00000000:1B:00.0")


def test_events_older_than_a_day_ask_nothing() -> None:
    old = event(79, severity="fatal", action="RESTART_BM", when="2026-03-01T11:59:00")
    assert actions(gpu_events=[old, event(None, kind="returned", device="Z")]) == []


def test_a_lost_gpu_drains_its_node_until_it_is_back() -> None:
    lost = event(None, kind="lost", severity="fatal", when="2026-02-20T00:00:00")
    (row,) = actions(gpu_events=[lost])
    assert (row["action"], row["reason"], row["first_seen_at"]) == ("drain", "lost", at("2026-02-20T00:00:00"))
    assert actions(gpu_events=[lost, event(None, kind="returned", when="2026-02-20T01:00:00")]) == []


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"remap_pending": 1}, [("reset", "remap")]),
        ({"remap_failed": 1, "remap_pending": 1}, [("drain", "remap")]),
        ({"remapped_uncorrected_rows": 511}, []),
        ({"remapped_uncorrected_rows": 512}, [("drain", "remap")]),
        ({"retired_pages": 63}, [("drain", "pages")]),
        ({"ecc_uncorrected_delta_count": 1}, [("reset", "ecc")]),
        ({"recovery_action": 1}, [("reset", "recovery")]),
        ({"recovery_action": 4}, [("drain", "recovery")]),
        ({"recovery_action": 0}, []),
    ],
)
def test_memory_and_the_driver_ask_by_published_limits(seen: dict, expected: list) -> None:
    assert [(r["action"], r["reason"]) for r in actions(gpu_hours=[hour(**seen)])] == expected


def test_what_was_mended_asks_nothing_any_more() -> None:
    before = hour(remap_pending=1, hour_at=at("2026-03-02T10:00:00"))
    assert actions(gpu_hours=[before, hour(remap_pending=0)]) == []


def test_a_failing_link_drains_and_a_suspect_one_is_watched() -> None:
    def count(counter: str, device: str) -> dict:
        row = {"sampled_at": at(NOON), "device": device, "link_kind": "nvlink", "link_index": 3, "counter": counter}
        return row | {"value": 1, "delta": 1, "delta_status": "counted", "date": at(NOON).date()}

    found = {
        r["device"]: (r["action"], r["why"])
        for r in actions(link_counters=[count("replay", "A"), count("crc_flit", "B")])
    }
    assert found == {
        "A": ("drain", "nvlink 3: NVLink replays >= 1"),
        "B": ("watch", "nvlink 3: NVLink CRC errors >= 1"),
    }


def board(node: str, since: str, uuid: str = "A", **given) -> dict:
    return {"valid_from": at(since), "node": node, "gpu_uuid": uuid, "gpu_serial": "S1"} | given


def test_a_board_that_failed_in_another_node_before_the_swap_is_told_by_its_serial() -> None:
    boards = [
        board("n1", "2026-02-01T00:00:00", valid_to=at("2026-02-25T00:00:00")),
        board("n2", "2026-02-25T00:00:00"),
        board("n3", "2026-02-01T00:00:00", "B", gpu_serial="S2"),
    ]
    long_ago = event(79, severity="fatal", action="RESTART_BM", when="2026-02-20T00:00:00")
    told = [
        long_ago,
        event(95, severity="error", action="RESET_GPU", node="n2"),
        event(95, severity="error", action="RESET_GPU", node="n3", device="B"),
        event(31, severity="warning", action="RESTART_APP", when="2026-02-10T00:00:00", node="n4"),
        event(None, kind="returned", device="Z"),  # n1 lives on without the board
    ]
    boards.append(board("n4", "2026-02-05T00:00:00", valid_to=at("2026-02-11T00:00:00")))  # an application's own fault
    found = {r["node"]: r["other_nodes"] for r in actions(gpu_events=told, inventory=boards)}
    assert found == {"n2": "n1", "n3": None}


def test_a_board_whose_links_failed_elsewhere_is_told_too() -> None:
    def count(node: str, when: str, device: str) -> dict:
        row = {"sampled_at": at(when), "node": node, "device": device, "link_kind": "nvlink", "link_index": 3}
        return row | {"counter": "replay", "value": 1, "delta": 1, "delta_status": "counted", "date": at(when).date()}

    boards = [
        board("n1", "2026-02-01T00:00:00", valid_to=at("2026-02-25T00:00:00")),
        board("n2", "2026-02-25T00:00:00", "A2"),
    ]
    rows = [count("n1", "2026-02-20T00:00:00", "A"), count("n2", NOON, "A2")]
    (row,) = actions(link_counters=rows, inventory=boards)
    assert (row["node"], row["reason"], row["gpu_serial"], row["other_nodes"]) == ("n2", "link", "S1", "n1")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"fabric_state": "failed"}, "NVLink fabric: registration failed"),
        (
            {"fabric_state": "completed", "fabric_health": "degraded_bandwidth,route_unhealthy"},
            "NVLink fabric: degraded_bandwidth, route_unhealthy",
        ),
        ({"fabric_state": "completed", "fabric_health": "healthy"}, None),
        ({"fabric_state": "failed", "valid_to": at(NOON)}, None),
    ],
)
def test_a_fabric_that_is_not_well_is_watched(told: dict, why: str | None) -> None:
    found = actions(inventory=[board("n1", "2026-03-01T00:00:00") | told])
    assert [(r["action"], r["reason"], r["why"]) for r in found] == ([("watch", "fabric", why)] if why else [])


def recovery(to: str, *, when: str = NOON, **given) -> dict:
    message = f"NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to {to}"
    return event(154, severity="info", action="IGNORE", message=message, when=when) | given


@pytest.mark.parametrize(
    ("to", "action"),
    [("0x1 (GPU Reset Required)", "reset"), ("0x4 (Drain and Reset)", "drain"), ("0x2 (Node Reboot)", "drain"), ("0x0 (None)", None)],
)  # fmt: skip
def test_what_xid_154_asks_for_is_asked(to: str, action: str | None) -> None:
    found = [(r["action"], r["reason"]) for r in actions(gpu_events=[recovery(to)])]
    assert found == ([(action, "recovery")] if action else [])


def test_only_the_newest_recovery_action_counts_and_it_is_told_once() -> None:
    before = recovery("0x4 (Drain and Reset)", when="2026-03-02T11:00:00")
    after = recovery("0x1 (GPU Reset Required)")
    (row,) = actions(gpu_events=[before, after])
    assert (row["action"], row["why"]) == (
        "reset",
        "XID 154: changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    )
    now = {"hour_at": at(NOON)}
    told = actions(gpu_events=[before, after], gpu_hours=[hour(recovery_action=1) | now])
    assert [(r["reason"], r["why"]) for r in told] == [
        ("recovery", "the driver asks for a reset of the GPU or its bus")
    ]
    assert actions(gpu_events=[before, recovery("0x0 (None)")]) == []
    assert actions(gpu_events=[after], gpu_hours=[hour(recovery_action=0) | now]) == []  # read since, and over


def minute(clock: str, samples: int = 6, **given) -> dict:
    row = {"minute_at": at(f"2026-03-02T{clock}:00"), "date": at(NOON).date(), "gpu_uuid": "A"}
    return row | {"sample_count": samples} | given


RESET = {"severity": "error", "action": "RESET_GPU", "device": "A"}


@pytest.mark.parametrize(
    ("read", "is_asked"),
    [
        ([minute("12:05")], True),  # 23 h 35 min after it; by the end of that hour 24 h 30 min would have passed
        ([minute("12:05"), minute("12:29")], True),
        ([minute("12:05"), minute("12:30")], False),
        ([minute("12:05"), minute("12:40", 0)], True),  # no sample in it
        ([minute("12:05"), minute("12:40", source="dcgm-exporter")], True),  # of a collector that has no hour there
    ],
)
def test_a_reason_lasts_24_hours_up_to_the_nodes_newest_reading_not_to_an_hours_end(read: list, is_asked: bool) -> None:
    xid = event(95, when="2026-03-01T12:30:00", **RESET)
    found = actions(gpu_events=[xid], gpu_hours=[hour(hour_at=at(NOON))], gpu_minutes=read)
    assert bool(found) == is_asked
    if found:
        newest = max(row["minute_at"] for row in read if row["sample_count"] and row.get("source", "nvml") == "nvml")
        assert found[0]["node_read_at"] == newest


def test_a_node_that_fell_silent_keeps_its_reason_while_others_live_on() -> None:
    told = [event(79, severity="fatal", action="RESTART_BM", when="2026-02-20T00:00:00")]
    hours = [
        hour(node="n2", gpu_uuid="B"),
        hour(hour_at=at("2026-02-19T23:00:00"), date=at("2026-02-19T00:00:00").date()),
    ]
    (row,) = actions(gpu_events=told, gpu_hours=hours)
    assert (row["node"], row["action"], row["node_read_at"]) == ("n1", "drain", at("2026-02-20T00:00:00"))
    assert actions(gpu_events=told, gpu_hours=[*hours, hour()]) == []  # n1 was read ten days on, without it


@pytest.mark.parametrize(("read_at", "is_asked"), [("11:49", True), ("11:51", False), (None, False)])
def test_a_recovery_action_is_over_only_if_it_was_read_after_the_event(read_at: str | None, is_asked: bool) -> None:
    told = recovery("0x1 (GPU Reset Required)", when="2026-03-02T11:50:00")
    minutes = [minute(read_at)] if read_at else []  # without minutes the end of the hour has to do
    found = actions(gpu_events=[told], gpu_hours=[hour(recovery_action=0)], gpu_minutes=minutes)
    assert bool(found) == is_asked


def sxid(when: str, **given) -> dict:
    """A fatal error of a switch, as the kernel's log tells it."""
    row = {"occurred_at": at(when), "kind": "sxid", "code": 20034, "event_id": "20034:link30", "link_index": 30}
    bus = {"device": "0000:c1:00", "pci_bus_id": "0000:c1:00", "gpu_uuid": None}
    return row | bus | {"severity": "fatal", "source": "kernel-xid"} | given


@pytest.mark.parametrize(
    "again",
    [
        sxid("2026-03-02T11:00:07"),  # Fabric Manager's log, or dmesg: whole seconds
        sxid("2026-03-02T11:00:07.250000", source="nvml", device="0000:c1:00.0"),  # the agent, with the function
        sxid("2026-03-02T11:00:07.250000", device="00000000:C1:00.0", source="journal"),
    ],
)
def test_an_error_of_a_switch_in_two_logs_of_its_node_is_one(again: dict) -> None:
    (row,) = actions(gpu_events=[sxid("2026-03-02T11:00:07.250000"), again])
    assert (row["device"], row["action"], row["why"], row["occurrences"]) == ("0000:c1:00", "drain", "SXID 20034", 1)
    assert row["first_seen_at"] == min(at("2026-03-02T11:00:07.250000"), again["occurred_at"])


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"when": "2026-03-02T11:00:08"}, {("n1", "0000:c1:00"): 2}),  # another second
        ({"when": "2026-03-02T11:00:07", "link_index": 31}, {("n1", "0000:c1:00"): 2}),  # another link
        ({"when": "2026-03-02T11:00:07", "code": 12028}, {("n1", "0000:c1:00"): 2}),
        (
            {"when": "2026-03-02T11:00:07", "device": "0000:c2:00", "pci_bus_id": "0000:c2:00"},
            {("n1", "0000:c1:00"): 1, ("n1", "0000:c2:00"): 1},
        ),
        # nodes of one model have their switches on the same buses
        ({"when": "2026-03-02T11:00:07", "node": "n2"}, {("n1", "0000:c1:00"): 1, ("n2", "0000:c1:00"): 1}),
    ],
)
def test_errors_of_switches_that_differ_stay_apart(other: dict, expected: dict) -> None:
    found = actions(gpu_events=[sxid("2026-03-02T11:00:07.250000"), sxid(**other)])
    assert {(r["node"], r["device"]): r["occurrences"] for r in found} == expected


def test_an_xid_that_two_collectors_told_is_counted_once() -> None:
    first = event(95, when="2026-03-02T11:00:07.100000", **RESET)
    (row,) = actions(gpu_events=[first, first | {"occurred_at": at("2026-03-02T11:00:07"), "source": "kernel-xid"}])
    assert (row["occurrences"], row["sources"]) == (1, "kernel-xid, nvml")
