"""Total revenue of a release, where two of its tables give the same figure for the same period.

Belongs here: the rows that hold the total, and the agreement asked for. Does not belong here: parts of revenue.
"""

from __future__ import annotations

from sources.sec.figures import Figure, Found, figure_of, find_line
from sources.sec.filing import Filing

TOTALS = (
    "Revenue",
    "Revenues",
    "Total revenue",
    "Total revenues",
    "Net revenue",
    "Total net revenue",
    "Total net sales",
    "Worldwide (WW) net sales",
)
_LENGTHS = (1, 4)


def read(filing: Filing, found: Found) -> None:
    """Add total revenue of each quarter and year on which at least two tables agree.

    The reported quarter must also be written out in the text, which settles the unit; else nothing is taken.
    """
    by_period: dict[tuple[str, int], list[Figure]] = {}
    tables: dict[tuple[str, int], set[int]] = {}
    for at, (exhibit, statement) in enumerate(filing.statements):
        line = find_line(statement, *TOTALS)
        if line is None or statement.scale is None or statement.stray:
            continue
        for i, column in enumerate(statement.columns):
            if column.kind == "period" and column.length in _LENGTHS:
                one = figure_of(filing, exhibit, statement, line, i, "revenue", "total revenue")
                if one is not None:
                    by_period.setdefault((column.fiscal_period, column.length), []).append(one)
                    tables.setdefault((column.fiscal_period, column.length), set()).add(at)
    own = [f for some in by_period.values() for f in some if (f.fiscal_year, f.quarter, f.length) == (*_own(filing), 1)]
    if not own or not all(filing.is_written_out(f.value) for f in own):
        return
    for period, figures in by_period.items():
        if len(tables[period]) > 1 and len({f.value for f in figures}) == 1:
            found.figures.append(figures[0])


def _own(filing: Filing) -> tuple[int, int]:
    return filing.quarter or (0, 0)
