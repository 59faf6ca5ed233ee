"""Capital expenditure from the cash-flow statement of a release, as each company defines it.

Belongs here: the rows that make each definition, and the arithmetic of the statement that must hold. Does not belong
here: segments, guidance, the same figures from XBRL (`companyfacts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sources.sec.figures import FINANCIALS, Figure, Found, figure_of, find_line, plain
from sources.sec.filing import Exhibit, Filing
from sources.sec.rules_revenue import TOTALS
from sources.sec.statements import Column, Line, Statement


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric as the sum of rows: spending rows are printed negative and counted positive."""

    metric: str
    words: str
    rows: tuple[tuple[str, ...], ...]


_PURCHASES = (
    "Purchases of property and equipment",
    "Purchases of property and equipment, net",
    "Additions to property and equipment",
    "Capital expenditures",
    "Purchases of property, plant and equipment",
    "Purchase of property and equipment, including capitalized internal-use software",
)
_GROSS = Definition("capex_cash_ppe", "gross cash purchases of property and equipment", (_PURCHASES,))
_LEASES = ("Principal payments on finance leases", "Principal repayments of finance leases")
DEFINITIONS = {
    "AMZN": (
        _GROSS,
        Definition(
            "capex_net_of_proceeds",
            "purchases of property and equipment net of proceeds from sales and incentives",
            (_PURCHASES, ("Proceeds from property and equipment sales and incentives",)),
        ),
        Definition("finance_lease_principal_payments", "principal repayments of finance leases", (_LEASES,)),
    ),
    "META": (
        _GROSS,
        Definition(
            "capex_incl_finance_lease_principal",
            "cash purchases of property and equipment plus principal payments on finance leases",
            (_PURCHASES, _LEASES),
        ),
        Definition("finance_lease_principal_payments", "principal payments on finance leases", (_LEASES,)),
    ),
    "GOOGL": (_GROSS,),
    "MSFT": (_GROSS,),
    "CRWV": (_GROSS,),
}
_INVESTED = (
    "Net cash provided by (used in) investing activities",
    "Net cash used in investing activities",
    "Net cash used for investing activities",
    "Net cash from investing",
    "Net cash used in investing",
)
_OPERATED = (
    "Net cash provided by operating activities",
    "Net cash provided by (used in) operating activities",
    "Net cash from operations",
)
_EARNED = ("Net income", "Net income (loss)", "Net loss")
_YEAR = 4
_BEGIN = ("beginning of period", "beginning of year", "at beginning of period")
_END = ("end of period", "end of year", "at end of period")


def read(filing: Filing, found: Found) -> None:
    """Add the company's capital expenditure of each dated column whose arithmetic holds."""
    tables = [(e, s) for e, s in filing.statements if find_line(s, *_PURCHASES) and find_line(s, *_INVESTED)]
    if not tables and any(e.type == "EX-99.1" for e in filing.exhibits):
        found.refuse(FINANCIALS, "cash_flow", "no cash-flow statement can be read", "", "EX-99.1")
    for exhibit, statement in tables:
        problem = cash_flow_problem(filing, statement)
        if problem:
            raw = " | ".join(f"{line.label}: {line.texts}" for line in statement.lines)
            found.refuse(FINANCIALS, "cash_flow", problem, raw, statement.caption[-80:])
            continue
        for definition in DEFINITIONS[filing.company.ticker]:
            found.figures.extend(_figures(filing, exhibit, statement, definition))


def cash_flow_problem(filing: Filing, statement: Statement) -> str:
    """Empty when the statement can be believed, else why not."""
    if statement.scale is None:
        return "no unit line says whether figures are thousands or millions"
    if statement.stray:
        return "figures stand outside the columns that have a heading"
    periods = [i for i, c in enumerate(statement.columns) if c.kind == "period"]
    if not periods or any(c.period_end is None for c in statement.columns):
        return "a column does not say when its period ended"
    names = [(c.heading, c.period_end) for c in statement.columns]
    if len(set(names)) < len(names):
        return "two columns claim the same period"
    own = [i for i in periods if (statement.columns[i].fiscal_year, statement.columns[i].quarter) == filing.quarter]
    if not own:
        return "no column is the quarter the filing reports"
    return (
        _investing_adds_up(statement)
        or _cash_carries_over(statement)
        or _longer_is_more(statement)
        or _scale_is_confirmed(filing, statement)
    )


def _investing_adds_up(statement: Statement) -> str:
    """Rows between the investing heading and its total must add up in every column."""
    total = find_line(statement, *_INVESTED)
    if total is None:
        return "no total closes the investing activities"
    end = statement.lines.index(total)
    parts: list[Line] = []
    for line in reversed(statement.lines[:end]):
        if line.section != total.section or plain(line.label) in {plain(t) for t in _OPERATED}:
            break
        parts.append(line)
    for i in range(len(statement.columns)):
        added = sum(line.numbers[i] or 0.0 for line in parts)
        if total.numbers[i] is None or abs(added - (total.numbers[i] or 0.0)) > 1:
            return f"investing activities of column {i + 1} add up to {added:,.0f}, not {total.texts[i]}"
    return ""


def _cash_carries_over(statement: Statement) -> str:
    """Cash at the end of the earlier of two like periods must be that at the beginning of one that follows it.

    This is what tells two columns apart whose headings were swapped. It applies where the statement holds a period
    of a year beside its quarter; two columns of one quarter a year apart share no balance.
    """
    begin, end = _balance(statement, _BEGIN), _balance(statement, _END)
    if begin is None or end is None:
        return "the statement does not show cash at the beginning and at the end"
    for i, a in enumerate(statement.columns):
        for j, b in enumerate(statement.columns):
            if i == j or a.period_end is None or b.period_end is None:
                continue
            if a.period_end == b.period_end and end.numbers[i] != end.numbers[j]:
                return f"cash at {a.period_end} differs between two columns"
            year_apart = 350 < (b.period_end - a.period_end).days < 380  # noqa: PLR2004
            if year_apart and _rank(b) == _YEAR and begin.numbers[j] != end.numbers[i]:
                return f"cash at {a.period_end} is not where the year to {b.period_end} begins"
    return ""


def _longer_is_more(statement: Statement) -> str:
    """Of two periods that end on one day the longer must have spent more; else their columns changed places."""
    line = find_line(statement, *_PURCHASES)
    for i, a in enumerate(statement.columns):
        for j, b in enumerate(statement.columns):
            longer = a.period_end == b.period_end and _rank(a) > _rank(b) > 0
            if longer and line and abs(line.numbers[i] or 0.0) <= abs(line.numbers[j] or 0.0):
                return f"the longer of two periods to {a.period_end} shows the smaller spending"
    return ""


def _rank(column: Column) -> int:
    """Length in quarters, also of a trailing year, which counts as no period of the fiscal calendar."""
    return column.length or (_YEAR if column.heading.lower().startswith(("twelve", "year")) else 0)


def _balance(statement: Statement, words: tuple[str, ...]) -> Line | None:
    labels = [(line, plain(line.label).replace("of the ", "of ")) for line in statement.lines]
    hits = [line for line, text in labels if text.endswith(words) and "cash" in text]
    return hits[0] if len(hits) == 1 else None


def _scale_is_confirmed(filing: Filing, statement: Statement) -> str:
    """A main figure of the newest columns must be written out in the text."""
    if statement.scale is None:
        return "no unit line"
    newest = max(c.period_end for c in statement.columns if c.period_end)
    lines = [find_line(statement, *_OPERATED), find_line(statement, *_PURCHASES), find_line(statement, *_EARNED)]
    for line in lines:
        for i, column in enumerate(statement.columns):
            amount = line.numbers[i] if line and column.period_end == newest else None
            if amount and filing.is_written_out(abs(amount) * statement.scale):
                return ""
    return (
        ""
        if _is_tied_to_income(filing, statement)
        else "no figure of the newest period is confirmed by a sum in the text"
    )


def _is_tied_to_income(filing: Filing, statement: Statement) -> bool:
    """Net income of the reported quarter is that of an income statement whose revenue is written out in the text."""
    own = filing.quarter
    for _, other in filing.statements:
        revenue, earned, same = find_line(other, *TOTALS), find_line(other, *_EARNED), find_line(statement, *_EARNED)
        if other is statement or other.scale is None or other.stray or not (revenue and earned and same):
            continue
        for i, a in enumerate(statement.columns):
            for j, b in enumerate(other.columns):
                is_own = (
                    a.kind == b.kind == "period" and (a.fiscal_year, a.quarter) == (b.fiscal_year, b.quarter) == own
                )
                mine, theirs, sold = same.numbers[i], earned.numbers[j], revenue.numbers[j]
                if is_own and a.length == b.length and mine and theirs and sold and statement.scale:
                    tied = mine * statement.scale == theirs * other.scale
                    if tied and filing.is_written_out(sold * other.scale):
                        return True
    return False


def _figures(filing: Filing, exhibit: Exhibit, statement: Statement, definition: Definition) -> list[Figure]:
    """The definition's figure in each quarter or year column in which all its rows have a figure."""
    lines = [find_line(statement, *row) for row in definition.rows]
    figures = []
    for i, column in enumerate(statement.columns):
        if column.kind != "period" or column.length not in (1, 4):
            continue
        parts = [
            figure_of(filing, exhibit, statement, line, i, definition.metric, definition.words, sign=-1)
            for line in lines
            if line is not None
        ]
        known = [p for p in parts if p is not None]
        if len(known) == len(definition.rows):
            label = " + ".join(p.label for p in known)
            derivation = f"sum of the rows {label}" if len(known) > 1 else None
            first = known[0]
            figures.append(
                Figure(
                    exhibit,
                    definition.metric,
                    first.fiscal_year,
                    first.quarter,
                    first.length,
                    sum(p.value for p in known),
                    first.step,
                    label,
                    definition.words,
                    period_end=first.period_end,
                    derivation=derivation,
                )
            )
    return figures
