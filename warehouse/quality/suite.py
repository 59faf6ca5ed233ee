"""The expectation suite of a table as data, read off its declaration.

Belongs here: which expectations, with which severity. Does not belong here: running them (`gx.py`): importing
Great Expectations costs seconds, so nothing here does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from sqlmodel import SQLModel

from warehouse.ddl import quoted
from warehouse.quality.rows import identity
from warehouse.schema.declare import bounds_of, key_of, lake_columns, table_of

_OTHER_COLUMNS: Final = (
    "select count(*) from (select column_name as name from (describe candidate)) as have "
    "full join (select unnest([{}]) as name) as wanted on have.name = wanted.name "
    "where have.name is null or wanted.name is null"
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One Great Expectations rule by class name; `critical` blocks a batch, `warning` reports.

    bad: SQL that is true of a row that breaks the rule; empty where the rule is about the whole table.
    count: for a rule about the whole table a query on `candidate` that gives one number, 0 where nothing breaks it.
    """

    name: str
    kind: str
    arguments: dict[str, Any]
    severity: str
    bad: str = ""
    count: str = ""


def suite_of(model: type[SQLModel]) -> list[Expectation]:
    """Columns present, keys given and unique, bounds, allowed words, and the table's own checks."""
    table = table_of(model)
    columns = lake_columns(model)
    names = [c.name for c in columns]
    out = [
        Expectation(
            "the columns are the declared ones",
            "ExpectTableColumnsToMatchSet",
            {"column_set": names, "exact_match": True},
            "critical",
            count=_OTHER_COLUMNS.format(", ".join(quoted(name) for name in names)),
        )
    ]
    for column in columns:
        if not column.nullable or column.primary_key:
            out.append(
                Expectation(
                    f"{column.name} is given",
                    "ExpectColumnValuesToNotBeNull",
                    {"column": column.name},
                    "critical",
                    f'"{column.name}" is null',
                )
            )
        low, high = bounds_of(model, column.name)
        if low is not None or high is not None:
            bounds = {k: v for k, v in (("min_value", low), ("max_value", high)) if v is not None}
            name = f"{column.name} is between {_text(low)} and {_text(high)}"
            arguments = {"column": column.name, **bounds}
            bad = " or ".join(
                f'"{column.name}" {sign} {bound!r}' for sign, bound in (("<", low), (">", high)) if bound is not None
            )
            out.append(Expectation(name, "ExpectColumnValuesToBeBetween", arguments, "critical", bad))
        if column.info["one_of"]:
            words = list(column.info["one_of"])
            listed = ", ".join(quoted(word) for word in words)
            out.append(
                Expectation(
                    f"{column.name} is one of {', '.join(words)}",
                    "ExpectColumnValuesToBeInSet",
                    {"column": column.name, "value_set": words},
                    "critical",
                    f'"{column.name}" not in ({listed})',
                )
            )
    out.append(uniqueness_of(model))
    for name, severity, bad in table.info["checks"]:
        # Of a table with fifty columns and millions of rows only what tells the row and the reason is read.
        told = [f'"{c.name}"' for c in columns if c.primary_key or re.search(rf"\b{c.name}\b", bad)]
        listed = ", ".join(told) if table.info["kind"] == "telemetry" else "*"
        query = f"select {listed} from {{batch}} where {bad}"
        out.append(Expectation(name, "UnexpectedRowsExpectation", {"unexpected_rows_query": query}, severity, bad))
    return out


def uniqueness_of(model: type[SQLModel]) -> Expectation:
    """Facts are unique by key and value (conflicts are kept and shown); everything else by key."""
    fact = table_of(model).info["kind"] == "fact"
    columns = list(dict.fromkeys([*key_of(model), *(identity(model) if fact else [])]))
    listed = ", ".join(f'"{c}"' for c in columns)
    # One grouped query in SQL: GX's own compound-uniqueness expectation concatenates text for every row.
    query = f"select {listed}, count(*) as times from {{batch}} group by all having count(*) > 1"
    return Expectation(
        f"{', '.join(columns)} is unique",
        "UnexpectedRowsExpectation",
        {"unexpected_rows_query": query},
        "critical",
        count=f"select count(*) from ({query.format(batch='candidate')})",
    )


def _text(bound: float | None) -> str:
    return "anything" if bound is None else f"{bound:g}"
