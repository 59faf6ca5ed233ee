"""Each rule of each table, broken by one made row: what counts it, what refuses it and what settles it agree."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pytest
from sqlmodel import SQLModel

from warehouse.quality.edges import SETTLED, edges_of
from warehouse.quality.rows import refuse
from warehouse.quality.screen import TABLE, create_screen
from warehouse.quality.suite import Expectation, suite_of
from warehouse.schema import tables
from warehouse.schema.declare import bounds_of, lake_columns, lake_schema

DAY = dt.date(2026, 3, 1)
TABLES = sorted(tables())


def typed(number: float, kind: pl.DataType) -> float | Decimal:
    if kind.is_decimal():
        return Decimal(str(number))
    return int(number) if kind.is_integer() else float(number)


def sound(model: type[SQLModel]) -> dict[str, Any]:
    """A row that breaks no rule: the lowest allowed number, the first allowed word; null where that may be."""
    row: dict[str, Any] = {}
    for column in lake_columns(model):
        kind = lake_schema(model)[column.name]
        if column.nullable and not column.primary_key:
            row[column.name] = None
        elif kind.is_numeric():
            low, high = bounds_of(model, column.name)
            number = low if low is not None else high if high is not None else 0
            row[column.name] = typed(number, kind)
        elif column.info["one_of"]:
            row[column.name] = column.info["one_of"][0]
        else:
            moment = dt.datetime.combine(DAY, dt.time(), dt.UTC)
            row[column.name] = {pl.Boolean: True, pl.Date: DAY, pl.Datetime: moment}.get(kind.base_type(), "x")
    return row


def breaking(model: type[SQLModel], rule: Expectation) -> list[Any]:
    """Values of the rule's column, each of which breaks it."""
    if rule.kind == "ExpectColumnValuesToNotBeNull":
        return [None]
    if rule.kind == "ExpectColumnValuesToBeInSet":
        return ["no such word"]
    kind = lake_schema(model)[rule.arguments["column"]]
    low, high = rule.arguments.get("min_value"), rule.arguments.get("max_value")
    beyond = [*([] if low is None else [low - 1]), *([] if high is None else [2 * high + 1])]
    return [typed(number, kind) for number in beyond]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        yield connection


def counts(
    con: duckdb.DuckDBPyConnection, frame: pl.DataFrame, suite: Sequence[Expectation], edges: pl.DataFrame | None
) -> dict[str, int]:
    """How many rows, or edges, the screen finds breaking each rule, or each group of rules."""
    con.register("candidate", frame)
    screen = create_screen(con, suite, edges)
    asked = {rule.name for rules in screen.values() for rule in rules}
    assert asked == {rule.name for rule in suite}
    told = con.execute(f"select {', '.join(screen)} from {TABLE}").fetchall()
    return dict(zip(screen, told[0], strict=True))


def about_one_column(model: type[SQLModel]) -> Sequence[Expectation]:
    return [rule for rule in suite_of(model) if rule.bad and "column" in rule.arguments]


@pytest.mark.parametrize("name", TABLES)
def test_a_sound_row_breaks_no_rule(con: duckdb.DuckDBPyConnection, name: str) -> None:
    model = tables()[name]
    frame = pl.DataFrame([sound(model)], schema=lake_schema(model))
    assert refuse(frame, model)[1].rows() == []
    # A table's own checks compare columns with each other: what is sound for them is told beside them.
    suite = [rule for rule in suite_of(model) if rule.count or "column" in rule.arguments]
    for edges in (None, edges_of(frame)):
        assert set(counts(con, frame, suite, edges).values()) == {0}


@pytest.mark.parametrize("name", TABLES)
def test_a_row_that_breaks_a_rule_is_counted_refused_and_seen_at_the_edges(
    con: duckdb.DuckDBPyConnection, name: str
) -> None:
    model = tables()[name]
    good = sound(model)
    for rule in about_one_column(model):
        values = breaking(model, rule)
        bad = [good | {rule.arguments["column"]: value} for value in values]
        frame = pl.DataFrame([good, *bad], schema=lake_schema(model))
        assert list(counts(con, frame, [rule], None).values()) == [len(values)], rule.name
        if rule.kind in SETTLED:
            assert counts(con, frame, [rule], edges_of(frame))["reached"] > 0, rule.name
        kept, refused = refuse(frame, model)
        assert (kept.height, refused.height) == (1, len(values)), rule.name


@pytest.mark.parametrize("name", TABLES)
def test_a_repeated_row_and_a_missing_column_are_counted(con: duckdb.DuckDBPyConnection, name: str) -> None:
    model = tables()[name]
    frame = pl.DataFrame([sound(model)] * 3, schema=lake_schema(model))
    whole = [rule for rule in suite_of(model) if rule.count]
    assert list(counts(con, frame, whole, None).values()) == [0, 1]
    last = frame.columns[-1]
    assert list(counts(con, frame.drop(last).with_columns(other=1, more=2), whole[:1], None).values()) == [3]
