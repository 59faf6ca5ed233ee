"""One pass over a candidate that counts the rows breaking any rule: most batches break none.

Belongs here: the table of counts. Does not belong here: judging the counts (`gx.py`), which rules there are
(`suite.py`). A rule a row can break is asked in SQL together with the others; only where a count is not zero is each
of its rules asked for itself. Fifty rules asked one by one cost Great Expectations more than the reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from warehouse.quality.suite import Expectation

TABLE = "broken"


def create_screen(
    con: duckdb.DuckDBPyConnection, table: str, suite: Sequence[Expectation]
) -> dict[str, list[Expectation]]:
    """Make the table of counts, one row; returns which rules each of its columns counts the breaking rows of.

    Rules that block are counted together, every other rule alone.
    Empty where no rule is about rows, or where they cannot be asked together (the table lacks a column that a rule
    names): then each is asked for itself.
    """
    rules: dict[str, list[Expectation]] = {}
    for place, rule in enumerate(suite):
        if rule.bad:
            rules.setdefault("blocking" if rule.severity == "critical" else f"rule_{place}", []).append(rule)
    if not rules:
        return {}
    broken = {name: " or ".join(f"({r.bad})" for r in asked) for name, asked in rules.items()}
    counts = ", ".join(f"count(*) filter (where {bad}) as {name}" for name, bad in broken.items())
    # A table, not a view: Great Expectations asks it three times. As a filter each condition looks only at rows that no other has caught, and no truth value is kept for any row.
    caught = f"select * from {table} where {' or '.join(broken.values())}"
    try:
        con.execute(f"create table {TABLE} as select {counts} from ({caught})")
    except duckdb.Error:
        return {}
    return rules
