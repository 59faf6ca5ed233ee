from __future__ import annotations

import datetime as dt

import polars as pl

from assets.telemetry_intervals import close_intervals, close_inventory, close_null_reasons

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def hour(h: int) -> dt.datetime:
    return START + dt.timedelta(hours=h)


def states(rows: list[tuple[int, int | None, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(
        [(hour(a), None if b is None else hour(b), node, state) for a, b, node, state in rows],
        schema={
            "valid_from": pl.Datetime("us", "UTC"),
            "valid_to": pl.Datetime("us", "UTC"),
            "node": pl.String,
            "state": pl.String,
        },
        orient="row",
    )


def closed(rows: list[tuple[int, int | None, str, str]]) -> list[tuple[object, ...]]:
    return close_intervals(states(rows), ["node"]).rows()


def test_a_state_ends_where_the_next_begins_and_repeats_collapse() -> None:
    rows = [(0, None, "a", "idle"), (1, None, "a", "idle"), (2, None, "a", "down"), (5, None, "a", "idle")]
    assert closed(rows) == [
        (hour(0), hour(2), "a", "idle"),
        (hour(2), hour(5), "a", "down"),
        (hour(5), None, "a", "idle"),
    ]


def test_order_of_arrival_does_not_matter() -> None:
    rows = [(0, None, "a", "idle"), (0, None, "b", "down"), (2, None, "a", "down"), (3, None, "a", "down")]
    assert closed(rows[::-1]) == closed(rows)


def test_a_stated_end_stands_and_a_return_is_a_new_interval() -> None:
    rows = [(0, 1, "a", "drain"), (4, None, "a", "drain")]
    assert closed(rows) == [(hour(0), hour(1), "a", "drain"), (hour(4), None, "a", "drain")]


def test_a_stated_end_past_the_next_state_is_cut() -> None:
    assert closed([(0, 9, "a", "idle"), (4, None, "a", "down")])[0] == (hour(0), hour(4), "a", "idle")


def inventory(rows: list[tuple[int, str, str, str]]) -> pl.DataFrame:
    """hour, node, GPU, PCI bus id"""
    return pl.DataFrame(
        [(hour(h), None, "c", node, gpu, None, bus, "nvml", False) for h, node, gpu, bus in rows],
        schema={
            "valid_from": pl.Datetime("us", "UTC"),
            "valid_to": pl.Datetime("us", "UTC"),
            "cluster": pl.String,
            "node": pl.String,
            "gpu_uuid": pl.String,
            "parent_gpu_uuid": pl.String,
            "pci_bus_id": pl.String,
            "source": pl.String,
            "is_synthetic": pl.Boolean,
        },
        orient="row",
    )


def stays(rows: list[tuple[int, str, str, str]]) -> list[tuple[object, ...]]:
    told = close_inventory(inventory(rows)).sort("gpu_uuid", "valid_from")
    return told.select("gpu_uuid", "node", "valid_from", "valid_to").rows()


def test_a_board_that_moved_left_its_old_node_and_comes_back_as_a_new_stay() -> None:
    assert stays([(0, "n1", "A", "1b"), (3, "n2", "A", "1b"), (5, "n1", "A", "1b")]) == [
        ("A", "n1", hour(0), hour(3)),
        ("A", "n2", hour(3), hour(5)),
        ("A", "n1", hour(5), None),
    ]


def test_a_board_ends_where_another_is_seen_in_its_place() -> None:
    rows = [(0, "n1", "A", "1b"), (0, "n1", "B", "2c"), (4, "n1", "C", "1b"), (4, "n1", "B", "2c")]
    assert stays(rows) == [("A", "n1", hour(0), hour(4)), ("B", "n1", hour(0), None), ("C", "n1", hour(4), None)]


def test_a_board_that_made_room_and_came_back_has_two_stays() -> None:
    rows = [(0, "n1", "A", "1b"), (1, "n1", "B", "1b"), (2, "n1", "A", "1b")]
    assert stays(rows) == [("A", "n1", hour(0), hour(1)), ("A", "n1", hour(2), None), ("B", "n1", hour(1), hour(2))]


def test_boards_that_a_masked_capture_puts_in_one_place_do_not_end_each_other() -> None:
    rows = [(h, "n1", gpu, "00") for h in (0, 1) for gpu in ("A", "B")]
    assert stays(rows) == [("A", "n1", hour(0), None), ("B", "n1", hour(0), None)]


def test_a_reason_lasts_until_it_is_told_to_end_and_repeats_collapse() -> None:
    columns = ("cluster", "node", "device", "table_name", "column_name", "source", "is_synthetic")
    who = dict(zip(columns, ("c", "n", "A", "gpu_samples", "power_w", "nvml", False), strict=True))
    spans = [(0, None, "lost"), (1, None, "lost"), (2, 2, "lost"), (5, None, "not_supported")]
    frame = pl.DataFrame(
        [{"from_at": hour(a), "to_at": None if b is None else hour(b), **who, "reason": why} for a, b, why in spans],
        schema_overrides={"to_at": pl.Datetime("us", "UTC"), "from_at": pl.Datetime("us", "UTC")},
    )
    for given in (frame, frame[::-1]):
        told = close_null_reasons(given)
        assert told.select("from_at", "to_at", "reason").rows() == [
            (hour(0), hour(2), "lost"),
            (hour(5), None, "not_supported"),
        ]
