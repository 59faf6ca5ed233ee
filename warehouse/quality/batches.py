"""Batch rules: what makes a whole batch suspect, compared with the last batch of the same source and stream.

Belongs here: collapse, jump of magnitude, all nulls, too many rejects. Does not belong here: row rules, GX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlmodel import SQLModel

from warehouse.schema.declare import lake_schema, table_of

MAX_REJECT_RATIO = 0.05
MIN_REJECTS = 20
JUMP_RATIO = 5.0
MIN_ROWS_TO_COMPARE = 20
MAGNITUDE_RATIO = 100.0
MIN_VALUES_TO_COMPARE = 5
ENOUGH = 10_000  # values for a median that is compared a hundredfold


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one rule on one batch; `sample` shows the values that decided."""

    expectation: str
    severity: str
    passed: bool
    unexpected_count: int | None = None
    sample: str = ""


def steady_columns(model: type[SQLModel]) -> list[str]:
    """Numeric columns whose median does not jump a hundredfold between batches."""
    info = table_of(model).info
    schema = lake_schema(model)
    names = info.get("steady") or info["value"]
    return [n for n in names if schema[n].is_numeric()]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many values a column has, and the sizes of some of them, taken by chance: enough for a median."""

    count: int
    some: pl.Series


def sizes_of(good: pl.DataFrame, model: type[SQLModel]) -> dict[str, Sizes]:
    """The steady columns of good rows. Holds no reference to the rows."""
    found = {}
    for name in steady_columns(model):
        values = good.get_column(name).drop_nulls()
        some = values.sample(ENOUGH, seed=0) if len(values) > ENOUGH else values
        found[name] = Sizes(len(values), some.cast(pl.Float64).abs())
    return found


def batch_stats(parts: Sequence[Mapping[str, Sizes]], read: int, model: type[SQLModel]) -> dict[str, Any]:
    """What the next batch is compared with: rows read, and for each steady column its count and median size."""
    stats: dict[str, Any] = {"read": read}
    for name in steady_columns(model):
        known = [part[name] for part in parts]
        some = pl.concat([one.some for one in known]) if known else pl.Series(dtype=pl.Float64)
        stats[name] = [sum(one.count for one in known), some.median()]
    return stats


def batch_rules(
    now: Mapping[str, Any], rows: int, rejected: int, last: Mapping[str, Any] | None, model: type[SQLModel]
) -> list[Outcome]:
    """Every batch rule, passed or not, for one stream of one table.

    now, last: `batch_stats` of this batch and of the one before it; rows: good rows of this one.
    """
    read = int(now["read"])
    outcomes = [_rejects(read, rejected), *_all_null(rows, now, last, model)]
    if last:
        if table_of(model).info["kind"] != "telemetry":
            outcomes.extend(_row_count(read, int(last.get("read", 0)), table_of(model).info["collapse"]))
        outcomes.extend(_magnitude(now, last, model))
    return outcomes


def _rejects(read: int, rejected: int) -> Outcome:
    bad = rejected > MIN_REJECTS and rejected > MAX_REJECT_RATIO * read
    return Outcome(
        f"at most {MAX_REJECT_RATIO:.0%} of the rows (and {MIN_REJECTS}) are refused",
        "critical",
        not bad,
        rejected,
        f"{rejected} of {read} rows were refused" if bad else "",
    )


def _row_count(read: int, before: int, collapse: float) -> list[Outcome]:
    if before < MIN_ROWS_TO_COMPARE:
        return []
    text = f"{read} rows, the last batch had {before}"
    fell, rose = read < collapse * before, read > JUMP_RATIO * before
    return [
        Outcome("the number of rows does not collapse", "critical", not fell, None, text if fell else ""),
        Outcome("the number of rows does not jump", "warning", not rose, None, text if rose else ""),
    ]


def _magnitude(now: Mapping[str, Any], last: Mapping[str, Any], model: type[SQLModel]) -> list[Outcome]:
    outcomes = []
    for name in steady_columns(model):
        (count, median), (count_before, before) = now[name], last.get(name) or (0, None)
        if min(count, count_before) < MIN_VALUES_TO_COMPARE or not median or not before:
            continue
        bad = not 1 / MAGNITUDE_RATIO < median / before < MAGNITUDE_RATIO
        outcomes.append(
            Outcome(
                f"the magnitude of {name} does not change {MAGNITUDE_RATIO:g}-fold",
                "critical",
                not bad,
                None,
                f"median {median:g}, the last batch had {before:g}" if bad else "",
            )
        )
    return outcomes


def _all_null(
    rows: int, now: Mapping[str, Any], last: Mapping[str, Any] | None, model: type[SQLModel]
) -> list[Outcome]:
    if rows < MIN_VALUES_TO_COMPARE or not last:
        return []
    outcomes = []
    # Telemetry batches differ in which nodes they hold, and a node may honestly have no such sensor.
    severity = "warning" if table_of(model).info["kind"] == "telemetry" else "critical"
    for name in steady_columns(model):
        had = (last.get(name) or (0, None))[0]
        gone = now[name][0] == 0 and had >= MIN_VALUES_TO_COMPARE
        outcomes.append(
            Outcome(
                f"{name} is not null in every row",
                severity,
                not gone,
                rows if gone else 0,
                f"all {rows} rows are null, the last batch had {had} values" if gone else "",
            )
        )
    return outcomes
