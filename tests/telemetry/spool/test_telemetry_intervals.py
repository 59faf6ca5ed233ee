from __future__ import annotations

import datetime as dt

import polars as pl

from assets.telemetry_intervals import close_intervals

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
