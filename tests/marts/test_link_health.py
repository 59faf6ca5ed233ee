"""`mart.link_health` against links whose counters can be compared by hand."""

from __future__ import annotations

import pytest

from marts.tables import at, database, mart

NEW = "2026-03-02T12:00:00"


def count(counter: str, value: int, delta: int | None = 0, when: str = NEW, **given) -> dict:
    """A reading of NVLink 3 of GPU A unless said otherwise."""
    row = {"sampled_at": at(when), "device": "A", "link_kind": "nvlink", "link_index": 3, "counter": counter}
    status = {"delta_status": "counted" if delta is not None else "first"}
    return row | {"value": value, "delta": delta, "date": at(when).date()} | status | given


def health(*rows: dict, **tables) -> list[dict]:
    given = {f"telemetry__{name}": some for name, some in tables.items() if not name.startswith("ref__")}
    given |= {name: some for name, some in tables.items() if name.startswith("ref__")}
    return mart(database(telemetry__link_counters=rows, **given), "link_health")


def verdict(*rows: dict, **tables) -> tuple[object, object]:
    (link,) = health(*rows, **tables)
    return link["verdict"], link["rule"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([count("replay", 5, 1)], ("fail", "NVLink replays >= 1")),
        ([count("recovery", 5, 2)], ("fail", "NVLink recoveries >= 1")),
        ([count("crc_flit", 5, 1)], ("warn", "NVLink CRC errors >= 1")),
        ([count("replay", 5, 0)], ("ok", "no rule broken")),
        ([count("replay", 5, None)], ("unknown", "no error counter read twice")),
        (
            [count("crc_flit", 65535, None, delta_status="saturated"), count("replay", 0, 0)],
            ("unknown", "a counter stands at its maximum or could not be read"),
        ),
        ([count("rcv_errors", 11, 11)], ("warn", "other errors > 10")),
        ([count("rcv_errors", 10, 10)], ("ok", "no rule broken")),
    ],
)
def test_nvlink_verdicts_follow_the_published_thresholds(rows, expected) -> None:
    assert verdict(*rows) == expected


def test_a_hundred_crc_errors_a_second_fail() -> None:
    first = count("crc_flit", 0, None, when="2026-03-02T11:59:00")
    assert verdict(first, count("crc_flit", 5999, 5999)) == ("warn", "NVLink CRC errors >= 1")
    assert verdict(first, count("crc_flit", 6000, 6000)) == ("fail", "NVLink CRC errors >= 100/s")


@pytest.mark.parametrize(
    ("raw", "ratio", "expected"),
    [
        (0x5 << 8 | 12, 5e-12, "fail"),  # 5 * 10^-12
        (0x5 << 8 | 13, 5e-13, "ok"),
        (0xF << 8 | 255, 0.0, "ok"),  # the sign for no error
        (0x1 << 8 | 238, 0.0, "ok"),  # Blackwell's
    ],
)
def test_an_encoded_bit_error_rate_is_decoded_before_it_is_compared(raw: int, ratio: float, expected: str) -> None:
    (link,) = health(count("effective_ber_raw", raw, 0), count("replay", 0, 0))
    assert link["bit_error_ratio"] == pytest.approx(ratio)
    assert link["verdict"] == expected


def test_states_and_speeds_are_no_errors() -> None:
    port = {"link_kind": "infiniband", "device": "mlx5_0", "link_index": 1}
    rows = [count("state", 4, 3, **port), count("phys_state", 5, 4, **port), count("symbol_error", 0, 0, **port)]
    (link,) = health(*rows, count("rate_mbit_per_s", 400_000, 200_000, **port))
    assert (link["error_count"], link["verdict"], link["speed_mbit_per_s"]) == (0, "ok", 400_000)


def test_symbol_errors_over_the_bits_received_alarm_on_infiniband() -> None:
    port = {"link_kind": "infiniband", "device": "mlx5_0", "link_index": 1}
    # 2 errors over 10^12 bits are 2e-12, over 4 * 10^12 bits 5e-13.
    for received, expected in ((125_000_000_000, "fail"), (500_000_000_000, "ok")):
        rows = [count("symbol_error", 2, 2, **port), count("port_rcv_bytes", received, received, **port)]
        (link,) = health(*rows)
        assert link["bit_error_ratio"] == pytest.approx(2 / (received * 8))
        assert link["verdict"] == expected
        assert link["traffic_bytes"] == received


def test_five_flaps_fail_and_one_warns_whoever_saw_them() -> None:
    port = {"link_kind": "infiniband", "device": "mlx5_0", "link_index": 1}
    assert verdict(count("link_downed", 5, 5, **port)) == ("fail", "link went down >= 5 times")
    assert verdict(count("link_downed", 1, 1, **port)) == ("warn", "link went down")
    down = {"occurred_at": at("2026-03-02T11:00:00"), "device": "A", "gpu_uuid": "A", "kind": "link_down"}
    (link,) = health(count("replay", 0, 0), gpu_events=[down | {"event_id": "link3", "link_index": 3}])
    assert (link["flap_count"], link["verdict"]) == (1, "warn")


def test_more_than_15_of_the_last_30_minutes_with_errors_fail() -> None:
    port = {"link_kind": "xgmi"}
    bad = [count("overrun", k, 1, when=f"2026-03-02T11:{31 + k}:30", **port) for k in range(16)]
    newest = count("overrun", 99, 0, **port)
    assert verdict(*bad, newest) == ("fail", "errors in more than 15 of the last 30 minutes")
    assert verdict(*bad[1:], newest)[0] == "warn"


def test_a_speed_below_the_models_or_the_peers_fails_and_an_unused_link_does_not() -> None:
    boards = [{"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": g, "accelerator_id": "h100"} for g in "AB"]
    h100 = [{"accelerator_id": "h100", "architecture": "Hopper", "vendor": "NVIDIA", "model": "H100"}]
    tables = {"inventory": boards, "ref__accelerators": h100}

    def told(speed: int) -> list[dict]:
        return health(count("speed_mb_per_s", speed, 0), count("replay", 0, 0), **tables)

    assert told(26562)[0]["verdict"] == "ok"  # 26.5625 GB/s, printed as 26.562
    assert (told(20000)[0]["verdict"], told(20000)[0]["rule"]) == ("fail", "speed below expected")
    assert told(0)[0]["verdict"] == "ok"  # never up: no bridge is fitted
    fast = [count("speed_mb_per_s", 25000, 0, device=g) for g in ("B", "A")]
    slow = [count("speed_mb_per_s", 12500, 0, device="A", link_index=4)]
    found = {(r["device"], r["link_index"]): r["verdict"] for r in health(*fast, *slow)}
    assert found[("A", 4)] == "fail"


def test_only_the_last_24_hours_decide_but_first_errors_are_remembered() -> None:
    old = count("replay", 7, 7, when="2026-02-20T00:00:00")
    (link,) = health(old, count("replay", 7, 0))
    assert (link["verdict"], link["replay_count"]) == ("ok", 0)
    assert link["first_error_at"] == at("2026-02-20T00:00:00")


def test_links_that_suffer_in_the_same_minutes_are_neighbours_within_a_node() -> None:
    rows = [count("replay", 1, 1), count("replay", 1, 1, link_index=4), count("replay", 1, 1, node="n2")]
    quiet = count("replay", 1, 0, link_index=5)
    found = {(r["node"], r["link_index"]): (r["neighbour_count"], r["neighbours"]) for r in health(*rows, quiet)}
    assert found == {("n1", 3): (1, "A#4"), ("n1", 4): (1, "A#3"), ("n1", 5): (0, None), ("n2", 3): (0, None)}


def test_a_board_that_failed_elsewhere_is_found_by_its_serial_after_a_swap() -> None:
    boards = [
        {"valid_from": at("2026-02-01T00:00:00"), "node": "n1", "gpu_uuid": "A", "gpu_serial": "S1"},
        {"valid_from": at("2026-02-25T00:00:00"), "node": "n2", "gpu_uuid": "A2", "gpu_serial": "S1"},
    ]
    rows = [
        count("replay", 3, 3, when="2026-02-20T00:00:00"),
        count("replay", 1, 1, node="n2", device="A2"),
    ]
    (link,) = [r for r in health(*rows, inventory=boards) if r["node"] == "n2"]
    assert (link["gpu_serial"], link["other_nodes"]) == ("S1", "n1")


def test_pcie_lanes_below_those_of_like_boards_fail_and_replays_warn() -> None:
    def hour(gpu: str, lanes: int, replays: int) -> dict:
        row = {"hour_at": at("2026-03-02T11:00:00"), "date": at(NEW).date(), "gpu_uuid": gpu, "accelerator_id": "h100"}
        return row | {"pcie_link_width_min": lanes, "pcie_replay_delta_count": replays}

    found = health(gpu_hours=[hour("A", 16, 0), hour("B", 8, 0), hour("C", 16, 2)])
    told = {r["device"]: (r["verdict"], r["rule"]) for r in found}
    assert told == {
        "A": ("ok", "no rule broken"),
        "B": ("fail", "PCIe width below that of like boards"),
        "C": ("warn", "PCIe replays >= 1"),
    }
