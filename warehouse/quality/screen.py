"""One pass over a candidate that counts the rows breaking any rule: most batches break none.

Belongs here: the view that counts. Does not belong here: judging the counts (`gx.py`), which rules there are
(`suite.py`). A rule a row can break is asked in SQL together with the others; only where a count is not zero is each
of its rules asked for itself. Fifty rules asked one by one cost Great Expectations more than the reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from warehouse.quality.suite import Expectation

VIEW = "broken"


def create_screen(
    con: duckdb.DuckDBPyConnection, table: str, suite: Sequence[Expectation]
) -> dict[str, list[Expectation]]:
    """Make the view, one row; returns which rules each of its columns counts the breaking rows of.

    Rules that block are counted together, every other rule alone.
    Empty where no rule is about rows, or where the table lacks a column that a rule names: then each rule is asked.
    """
    rules: dict[str, list[Expectation]] = {}
    for place, rule in enumerate(suite):
        if rule.bad:
            rules.setdefault("blocking" if rule.severity == "critical" else f"rule_{place}", []).append(rule)
    if not rules:
        return {}
    counts = (
        f"count(*) filter (where {' or '.join(f'({r.bad})' for r in asked)}) as {name}" for name, asked in rules.items()
    )
    try:
        con.execute(f"create view {VIEW} as select {', '.join(counts)} from {table}")
    except duckdb.BinderException:
        return {}
    return rules
