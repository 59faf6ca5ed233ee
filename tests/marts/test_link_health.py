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
        return row | {"pcie_link_width_min": lanes, "pcie_replay_delta_count": replays, "sample_count": 60}

    found = health(gpu_hours=[hour("A", 16, 0), hour("B", 8, 0), hour("C", 16, 2)])
    told = {r["device"]: (r["verdict"], r["rule"]) for r in found}
    assert told == {
        "A": ("ok", "no rule broken"),
        "B": ("fail", "PCIe width below what board and slot or like boards have"),
        "C": ("warn", "PCIe replays >= 1"),
    }


IB = {"link_kind": "infiniband", "device": "mlx5_0", "link_index": 1}
ROCE = {"link_kind": "roce", "device": "rocep1s0", "link_index": 1}


def test_what_a_ports_users_do_is_no_error_of_the_port() -> None:
    # Requests, retries and flushed queues grow on every healthy port; the counters of a real HCA stand below.
    busy = ("rx_write_requests", "rx_read_requests", "rx_atomic_requests", "rx_dct_connect", "duplicate_request",
            "req_cqe_flush_error", "out_of_buffer", "roce_adp_retrans", "unicast_rcv_packets", "lifespan")  # fmt: skip
    rows = [count(name, 5000, 5000, **IB) for name in busy] + [count("symbol_error", 0, 0, **IB)]
    (link,) = health(*rows)
    assert (link["error_count"], link["verdict"]) == (0, "ok")


def test_traffic_of_a_network_card_is_no_error() -> None:
    busy = ("rx_packets_phy", "rx_bytes_phy", "tx_prio3_pause", "rx_corrected_bits_phy", "frames_rx_1024b_1518b",
            "frames_rx_pause", "rsfec_correctable_word", "rsfec_ch_symbol_err_cnt", "rx_rdma_cnp_pkts")  # fmt: skip
    rows = [count(name, 5000, 5000, **ROCE) for name in busy] + [count("rx_crc_errors_phy", 0, 0, **ROCE)]
    (link,) = health(*rows)
    assert (link["error_count"], link["verdict"]) == (0, "ok")
    (link,) = health(*rows, count("frames_rx_bad_fcs", 11, 11, **ROCE))
    assert (link["error_count"], link["verdict"], link["rule"]) == (11, "warn", "other errors > 10")


def test_pauses_congestion_notifications_and_losses_of_order_are_told_apart() -> None:
    told = {"rx_prio3_pause": 7, "tx_prio3_pause": 2, "np_cnp_sent": 40, "rp_cnp_handled": 30, "out_of_sequence": 5}
    rows = [count(name, n, n, **ROCE) for name, n in told.items()] + [count("symbol_error", 0, 0, **ROCE)]
    (link,) = health(*rows)
    assert (link["pause_count"], link["cnp_count"], link["out_of_sequence_count"]) == (9, 70, 5)
    assert link["verdict"] == "ok"
    (port,) = health(count("port_xmit_wait", 90, 90, **IB), count("symbol_error", 0, 0, **IB))
    assert (port["wait_ticks"], port["pause_count"]) == (90, None)


def test_traffic_that_a_card_counts_in_two_layers_is_told_once() -> None:
    rows = [count("rx_bytes", 1000, 1000, **ROCE), count("rx_bytes_phy", 1100, 1100, **ROCE)]
    rows += [count("tx_bytes", 10, 10, **ROCE), count("symbol_error", 0, 0, **ROCE)]
    assert health(*rows)[0]["traffic_bytes"] == 1100 + 10


def test_recoveries_of_a_network_link_are_judged_too() -> None:
    assert verdict(count("link_error_recovery", 11, 11, **IB)) == ("warn", "other errors > 10")
    assert verdict(count("link_error_recovery", 10, 10, **IB)) == ("ok", "no rule broken")


@pytest.mark.parametrize(
    ("counter", "up", "down", "port"),
    [("state", 4, 1, IB), ("state", 4, 2, IB), ("state_is_active", 1, 0, ROCE), ("speed_mb_per_s", 26562, 0, {})],
)
def test_a_link_that_is_down_now_and_was_up_fails(counter: str, up: int, down: int, port: dict) -> None:
    fine = count("symbol_error", 0, 0, **port)
    before = count(counter, up, None, when="2026-03-02T11:00:00", **port)
    (link,) = health(fine, before, count(counter, down, None, **port))
    assert (link["is_down"], link["verdict"], link["rule"]) == (True, "fail", "link is down and was up before")
    (link,) = health(
        fine, count(counter, down, None, when="2026-03-02T11:00:00", **port), count(counter, up, 0, **port)
    )
    assert (link["is_down"], link["verdict"]) == (False, "ok")
    (link,) = health(fine, count(counter, down, None, **port))  # never up: nothing may be plugged in
    assert link["verdict"] == "ok"


def test_a_link_that_never_came_up_as_on_like_boards_is_watched() -> None:
    boards = [{"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": g, "accelerator_id": "a100"} for g in "AB"]
    rows = [count("speed_mb_per_s", 0 if gpu == "A" else 25000, 0, device=gpu) for gpu in "AB"]
    found = {r["device"]: (r["verdict"], r["rule"]) for r in health(*rows, inventory=boards)}
    assert found["A"] == ("warn", "link was never up, as it is on like boards")


@pytest.mark.parametrize(
    ("source", "architecture", "value", "expected"),
    [
        ("dcgm-exporter", "Hopper", 0, ("unknown", "DCGM reads 0 from this architecture whatever happens")),
        ("prometheus", "Grace Blackwell", 0, ("unknown", "DCGM reads 0 from this architecture whatever happens")),
        ("dcgm-exporter", "Hopper", 3, ("fail", "NVLink replays >= 1")),
        ("dcgm-exporter", "Ampere", 0, ("ok", "no rule broken")),
        ("nvml", "Hopper", 0, ("ok", "no rule broken")),
    ],
)
def test_quirk_16_a_zero_that_hopper_answers_to_old_fields_is_no_health(source, architecture, value, expected) -> None:
    tables = {
        "inventory": [{"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": "A", "accelerator_id": "x"}],
        "ref__accelerators": [{"accelerator_id": "x", "architecture": architecture, "vendor": "NVIDIA", "model": "X"}],
    }
    rows = [count(f"{name}_all_links", value, value, link_index=0, source=source) for name in ("replay", "crc_flit")]
    (link,) = health(*rows, **tables)
    assert (link["verdict"], link["rule"]) == expected
    assert (link["error_count"] is None) == (expected[0] == "unknown")


def test_pcie_is_measured_by_what_board_and_slot_can_do() -> None:
    def hour(gpu: str, lanes: int, generation: int, idle_s: float) -> dict:
        row = {"hour_at": at("2026-03-02T11:00:00"), "date": at(NEW).date(), "gpu_uuid": gpu, "accelerator_id": "h100"}
        row |= {"pcie_link_width_min": lanes, "pcie_link_generation_max": generation, "pcie_replay_delta_count": 0}
        return row | {"inactive_seconds": idle_s, "seconds_covered": 3600.0, "sample_count": 60}

    able = {"pcie_link_width_max": 16, "pcie_link_generation_max": 5, "accelerator_id": "h100"}
    boards = [{"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": g} | able for g in "ABCD"]
    hours = [hour("A", 16, 5, 0.0), hour("B", 8, 5, 0.0), hour("C", 16, 3, 0.0), hour("D", 16, 1, 3600.0)]
    found = {r["device"]: r for r in health(gpu_hours=hours, inventory=boards)}
    assert {d: (r["verdict"], r["rule"]) for d, r in found.items()} == {
        "A": ("ok", "no rule broken"),
        "B": ("fail", "PCIe width below what board and slot or like boards have"),
        "C": ("warn", "PCIe generation below expected while the GPU works"),
        "D": ("ok", "no rule broken"),  # idle links fall back to generation 1
    }
    assert (found["C"]["pcie_generation"], found["C"]["expected_pcie_generation"]) == (3, 5)
    assert (found["D"]["pcie_generation"], found["D"]["expected_pcie_generation"]) == (None, 5)


def test_errors_of_pcie_join_its_replays_in_one_row() -> None:
    hour = {"hour_at": at("2026-03-02T11:00:00"), "date": at(NEW).date(), "gpu_uuid": "A", "pcie_link_width_min": 16}
    pcie = {"link_kind": "pcie", "link_index": 0}
    rows = [count("bad_tlp", 12, 12, **pcie), count("l0_to_recovery", 900, 900, **pcie)]
    rows += [count("unsupported_requests", 900, 900, **pcie)]
    (link,) = health(*rows, gpu_hours=[hour | {"pcie_replay_delta_count": 3, "sample_count": 60}])
    assert (link["link_kind"], link["replay_count"], link["other_error_count"]) == ("pcie", 3, 12)
    assert (link["error_count"], link["verdict"], link["rule"]) == (15, "warn", "other errors > 10")
    assert link["last_error_at"] == at(NEW)


def pcie_hour(clock: int, samples: int, replays: int | None = 0, **given) -> dict:
    row = {"hour_at": at(f"2026-03-02T{clock:02}:00:00"), "date": at(NEW).date(), "gpu_uuid": "A"}
    return row | {"sample_count": samples, "pcie_replay_delta_count": replays, "pcie_link_width_min": 16} | given


@pytest.mark.parametrize(
    ("hours", "errors", "expected"),
    [
        ([pcie_hour(11, 60, None)], None, "unknown"),  # lanes were read, no counter was
        ([pcie_hour(11, 1)], None, "unknown"),  # one reading
        ([pcie_hour(8, 1), pcie_hour(11, 1)], None, "unknown"),  # too far apart to be compared
        ([pcie_hour(10, 1), pcie_hour(11, 1)], 0, "ok"),
        ([pcie_hour(10, 1, None), pcie_hour(11, 1)], None, "unknown"),
        ([pcie_hour(11, 2)], 0, "ok"),
    ],
)
def test_a_pcie_counter_that_was_not_read_twice_is_no_evidence(hours, errors, expected) -> None:
    (link,) = health(gpu_hours=hours)
    assert (link["error_count"], link["replay_count"], link["verdict"]) == (errors, errors, expected)
    assert link["rule"] == ("no rule broken" if expected == "ok" else "no error counter read twice")


def test_pcie_lanes_that_are_missing_fail_without_any_counter() -> None:
    (link,) = health(
        gpu_hours=[pcie_hour(11, 1, None, pcie_link_width_min=8)],
        inventory=[{"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": "A", "pcie_link_width_max": 16}],
    )
    assert (link["verdict"], link["error_count"]) == ("fail", None)


def test_pcie_was_last_read_in_the_last_minute_with_a_sample_not_at_the_end_of_the_hour() -> None:
    def minute(clock: str, samples: int, **given) -> dict:
        row = {"minute_at": at(f"2026-03-02T{clock}:00"), "date": at(NEW).date(), "gpu_uuid": "A"}
        return row | {"sample_count": samples, "pcie_link_width_min": 16 if samples else None} | given

    minutes = [minute("11:02", 1), minute("11:07", 1), minute("11:08", 0), minute("11:30", 1, gpu_uuid="B")]
    (link,) = health(gpu_hours=[pcie_hour(11, 2)], gpu_minutes=minutes)
    assert link["last_read_at"] == at("2026-03-02T11:07:00")
    (link,) = health(gpu_hours=[pcie_hour(11, 2)])
    assert link["last_read_at"] == at("2026-03-02T11:00:00")


PCIE = {"link_kind": "pcie", "link_index": 0, "device": "A"}


@pytest.mark.parametrize(
    ("rows", "counts", "expected"),
    [
        ([count("bad_tlp", 10, 10, **PCIE)], (10, None, 10), ("ok", "no rule broken")),
        ([count("bad_tlp", 11, 11, **PCIE)], (11, None, 11), ("warn", "other errors > 10")),
        # 6 damaged packets found by their checksum and 5 malformed ones: 11 in all
        (
            [count("lcrc_errors", 6, 6, **PCIE), count("bad_dllp", 5, 5, **PCIE)],
            (11, None, 5),
            ("warn", "other errors > 10"),
        ),
        ([count("replay_rollover", 1, 1, **PCIE)], (1, 1, None), ("warn", "PCIe replays >= 1")),
        ([count("replay_rollover", 1, None, **PCIE)], (None, None, None), ("unknown", "no error counter read twice")),
        (
            [count("bad_tlp", 5, None, delta_status="saturated", **PCIE), count("bad_dllp", 0, 0, **PCIE)],
            (0, None, 0),
            ("unknown", "a counter stands at its maximum or could not be read"),
        ),
    ],
)
def test_a_pcie_link_known_by_counters_alone_is_judged(rows, counts, expected) -> None:
    (link,) = health(*rows)
    assert (link["link_kind"], link["link_index"], link["last_read_at"]) == ("pcie", 0, at(NEW))
    assert (link["error_count"], link["replay_count"], link["other_error_count"]) == counts
    assert (link["verdict"], link["rule"]) == expected
    assert (link["width_lanes"], link["pcie_generation"]) == (None, None)


def test_pcie_counters_err_in_hours_and_each_collector_has_its_row() -> None:
    early = [count("bad_tlp", k, 1, when=f"2026-03-02T10:{k:02}:00", **PCIE) for k in range(16)]
    late = [count("bad_tlp", 20, 4, when="2026-03-02T11:59:00", **PCIE), count("bad_tlp", 20, 0, **PCIE)]
    sampled = pcie_hour(11, 60, source="dcgm-exporter")
    found = {r["source"]: r for r in health(*early, *late, gpu_hours=[sampled])}
    assert {source: (r["error_count"], r["error_periods"]) for source, r in found.items()} == {
        "nvml": (20, 2),  # 16 in the hour from 10, 4 in the hour from 11
        "dcgm-exporter": (0, 0),
    }
    assert found["nvml"]["bad_minutes"] == 1
    assert found["nvml"]["first_error_at"] == at("2026-03-02T10:00:00")
    assert found["nvml"]["window_from_at"] == at("2026-03-01T12:00:00")


def test_more_than_15_of_the_last_30_minutes_fail_a_pcie_link_too() -> None:
    bad = [count("receiver_errors", k, 1, when=f"2026-03-02T11:{31 + k}:30", **PCIE) for k in range(16)]
    assert verdict(*bad, count("receiver_errors", 16, 0, **PCIE)) == (
        "fail",
        "errors in more than 15 of the last 30 minutes",
    )


def test_lanes_by_a_counter_are_measured_by_like_boards_of_a_known_model_only() -> None:
    def lanes(device: str, width: int) -> dict:
        return count("width_lanes", width, 0, link_kind="pcie", link_index=0, device=device)

    rows = [lanes("A", 16), lanes("B", 8), *(count("bad_tlp", 0, 0, **PCIE | {"device": d}) for d in "AB")]
    boards = [{"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": g, "accelerator_id": "h100"} for g in "AB"]
    found = {
        r["device"]: (r["width_lanes"], r["expected_width_lanes"], r["verdict"])
        for r in health(*rows, inventory=boards)
    }
    assert found == {"A": (16, 16, "ok"), "B": (8, 16, "fail")}
    found = {r["device"]: (r["width_lanes"], r["expected_width_lanes"], r["verdict"]) for r in health(*rows)}
    assert found == {"A": (16, None, "ok"), "B": (8, None, "ok")}


def test_a_second_port_and_a_board_of_samples_do_not_hide_each_other() -> None:
    rows = [count("bad_tlp", 0, 0, **PCIE | {"link_index": 1}), count("replay", 0, 0, link_index=0)]
    able = {"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": "A", "pcie_link_width_max": 16}
    found = health(*rows, gpu_hours=[pcie_hour(11, 60)], inventory=[able | {"pcie_link_generation_max": 5}])
    told = {
        (r["link_kind"], r["link_index"]): (r["expected_width_lanes"], r["expected_pcie_generation"]) for r in found
    }
    assert told == {("pcie", 0): (16, 5), ("pcie", 1): (16, 5), ("nvlink", 0): (None, None)}


def test_checksum_errors_of_a_network_port_count_with_its_other_errors() -> None:
    assert verdict(count("rx_crc_errors_phy", 11, 11, **ROCE)) == ("warn", "other errors > 10")
    assert verdict(count("rx_crc_errors_phy", 10, 10, **ROCE)) == ("ok", "no rule broken")
