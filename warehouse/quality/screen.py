"""One pass over a candidate that counts the rows breaking any rule: most batches break none.

Belongs here: the table of counts. Does not belong here: judging the counts (`gx.py`), which rules there are
(`suite.py`). A rule a row can break is asked in SQL together with the others; only where a count is not zero is each
of its rules asked for itself. Fifty rules asked one by one cost Great Expectations more than the reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import polars as pl

from warehouse.quality.edges import SETTLED
from warehouse.quality.suite import Expectation

TABLE = "broken"


def create_screen(
    con: duckdb.DuckDBPyConnection, suite: Sequence[Expectation], edges: pl.DataFrame | None = None
) -> dict[str, list[Expectation]]:
    """Make the table of counts, one row; returns which rules each of its columns counts the breaking rows of.

    con: has the candidate as `candidate`. edges: those of the candidate, where they are known: rules they settle are
    asked of them and not of every row. Rules about rows that block are counted together, every other rule alone.
    Empty where they cannot be asked together (the table lacks a column that a rule names): then each is asked for
    itself.
    """
    settled = [rule for rule in suite if rule.bad and edges is not None and rule.kind in SETTLED]
    by_row: dict[str, list[Expectation]] = {}
    for place, rule in enumerate(suite):
        if rule.bad and rule not in settled:
            by_row.setdefault("blocking" if rule.severity == "critical" else f"rule_{place}", []).append(rule)
    alone = {f"rule_{place}": rule for place, rule in enumerate(suite) if rule.count}
    counts = [f"({rule.count}) as {name}" for name, rule in alone.items()]
    if settled:
        con.register("reach", edges)  # takes the place of those of the batch before
        counts.append(f"(select count(*) from reach where {_any(settled)}) as reached")
    try:
        # A table, not a view: Great Expectations asks it three times.
        con.execute(f"create or replace table {TABLE} as select {', '.join([*counts, '*'])} from {_rows(by_row)}")
    except duckdb.Error:
        return {}
    return by_row | {name: [rule] for name, rule in alone.items()} | ({"reached": settled} if settled else {})


def _rows(rules: Mapping[str, Sequence[Expectation]]) -> str:
    if not rules:
        return "(select 0 as none)"
    broken = {name: _any(asked) for name, asked in rules.items()}
    counts = ", ".join(f"count(*) filter (where {bad}) as {name}" for name, bad in broken.items())
    # As a filter each condition looks only at rows that no other has caught, and no truth value is kept for any.
    return f"(select {counts} from (select * from candidate where {' or '.join(broken.values())}))"


def _any(rules: Sequence[Expectation]) -> str:
    return " or ".join(f"({rule.bad})" for rule in rules)
