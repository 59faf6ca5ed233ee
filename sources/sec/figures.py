"""What a company's rules give: figures and refusals, and their way into frames.

Belongs here: `Figure`, `Found`, the checks shared by all rules, the frame of `market.financials`. Does not belong here:
any company.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sources.base import Reject
from sources.sec.filing import Exhibit, Filing
from sources.sec.fiscal import label
from sources.sec.statements import Column, Line, Statement

FINANCIALS = "market.financials"
GUIDANCE = "market.guidance"
BASES = {0: "instant", 1: "quarter", 2: "half", 3: "nine_months", 4: "year"}
LENGTHS = {0: "at period end", 1: "three months", 2: "six months", 3: "nine months", 4: "fiscal year"}
GROWTH_TOLERANCE = 1.0
FINANCIAL_SCHEMA: dict[str, Any] = {
    "entity": pl.String,
    "metric": pl.String,
    "definition_version": pl.String,
    "fiscal_period": pl.String,
    "period_basis": pl.String,
    "period_end": pl.Date,
    "value_usd": pl.Float64,
    "value": pl.Float64,
    "currency": pl.String,
    "unit": pl.String,
    "precision_usd": pl.Float64,
    "definition": pl.String,
    "concept": pl.String,
    "derivation": pl.String,
    "form": pl.String,
    "accession": pl.String,
    "known_at": pl.Datetime("us", "UTC"),
    "known_at_precision": pl.String,
    "source_name": pl.String,
    "source_url": pl.String,
    "notes": pl.String,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: what it is, its period (year, quarter, length in quarters), value in dollars, where it stands."""

    exhibit: Exhibit
    metric: str
    fiscal_year: int
    quarter: int
    length: int
    value: float
    step: float
    label: str
    definition: str
    version: str = "1"
    period_end: dt.date | None = None
    derivation: str | None = None
    notes: str | None = None


@dataclass(slots=True)
class Found:
    """What rules found in one filing; `guidance` holds finished rows."""

    figures: list[Figure] = field(default_factory=list)
    guidance: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def refuse(self, table: str, rule: str, reason: str, raw: str, locator: str) -> None:
        """Keep what could not be read for a person to look at."""
        self.rejects.append(Reject(table, rule, reason, raw[:2000], locator))


def find_line(statement: Statement, *labels: str, section: str = "") -> Line | None:
    """The one row with this label (any of the spellings) in this section; None when absent or there twice."""
    wanted = {plain(text) for text in labels}
    hits = [line for line in statement.lines if plain(line.label) in wanted and section.lower() in line.section.lower()]
    return hits[0] if len(hits) == 1 else None


def plain(text: str) -> str:
    """A label for comparison: lower case, no footnote marks, straight quotes, `and` for `&`."""
    text = text.lower().replace("\u2019", "'").replace("&", "and").replace(", and ", " and ").rstrip(":* ")
    while text.endswith(")") and text[-2:-1].isdigit() and "(" in text:
        text = text[: text.rindex("(")].strip()
    return " ".join(text.rstrip(":* ").split())


def sums_to(parts: Sequence[Line], total: Line, columns: Sequence[int], tolerance: float = 1.0) -> str:
    """Empty when the parts add up to the total in every column, else what does not."""
    for i in columns:
        values = [p.numbers[i] for p in parts]
        whole = total.numbers[i]
        known = [v for v in values if v is not None]
        if whole is None or len(known) < len(values):
            return f"a figure is missing in column {i + 1}"
        if abs(sum(known) - whole) > tolerance:
            return f"{' + '.join(p.label for p in parts)} = {sum(known):,.0f}, {total.label} says {whole:,.0f}"
    return ""


def growth_agrees(statement: Statement, line: Line, current: int, previous: int | None, year_ago: int | None) -> str:
    """Empty when the printed changes follow from the figures, else what does not; needs at least one printed change."""
    for kind, base in (("qoq", previous), ("yoy", year_ago)):
        printed = [line.percents[i] for i, c in enumerate(statement.columns) if c.kind == kind]
        now, then = line.numbers[current], line.numbers[base] if base is not None else None
        if base is None:
            continue
        if len(printed) != 1 or printed[0] is None or now is None or not then:
            return f"no printed change stands beside {line.label}"
        change = 100 * (now / then - 1)
        if abs(change - printed[0]) > max(GROWTH_TOLERANCE, abs(change) * 0.005):
            return f"{line.label} changed by {change:.1f} %, the table prints {printed[0]:g} %"
    return ""


def revenue_by_period(filing: Filing, but: Statement | None = None) -> dict[tuple[str, int], set[float]]:
    """Total revenue by period and length, in dollars, as the filing's other tables give it."""
    found: dict[tuple[str, int], set[float]] = {}
    for _, statement in filing.statements:
        line = find_line(statement, "Revenue", "Net revenue", "Total net revenue", "Revenues", "Total revenue")
        if statement is but or line is None or statement.scale is None or statement.stray:
            continue
        for column, amount in zip(statement.columns, line.numbers, strict=True):
            if column.kind == "period" and amount:
                found.setdefault((column.fiscal_period, column.length), set()).add(amount * statement.scale)
    return found


def figure_of(
    filing: Filing,
    exhibit: Exhibit,
    statement: Statement,
    line: Line,
    i: int,
    metric: str,
    definition: str,
    **more: Any,
) -> Figure | None:
    """The figure of one row in one column; None where the cell holds none or only a dash."""
    column: Column = statement.columns[i]
    amount, scale = line.numbers[i], statement.scale
    if amount is None or scale is None or not any(ch.isdigit() for ch in line.texts[i]):
        return None
    sign = more.pop("sign", 1)
    return Figure(
        exhibit,
        metric,
        column.fiscal_year,
        column.quarter,
        column.length,
        float(round(sign * amount * scale, 2)),
        scale,
        line.label,
        definition,
        period_end=filing.end_of(column),
        **more,
    )


def to_frame(filing: Filing, figures: Sequence[Figure], found: Found) -> pl.DataFrame:
    """Figures as rows of `market.financials`; one without a period end, or stated twice differently, is refused."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    conflicting: set[tuple[str, str, str]] = set()
    for f in sorted(figures, key=lambda f: f.step):
        period = label(f.fiscal_year, None if f.length == 4 else f.quarter)  # noqa: PLR2004
        if f.period_end is None:
            found.refuse(FINANCIALS, "period_end", f"the filing does not say when {period} ended", repr(f), f.label)
            continue
        key = (f.metric, f.version, period)
        if key in rows:
            if abs(rows[key]["value"] - f.value) > f.step / 2:
                conflicting.add(key)
            continue
        rows[key] = _row(filing, f, period)
    for key in conflicting:
        found.refuse(
            FINANCIALS, "stated_twice", f"the filing gives two figures for {' '.join(key)}", repr(rows[key]), key[0]
        )
        del rows[key]
    return pl.DataFrame(list(rows.values()), schema=FINANCIAL_SCHEMA)


def _row(filing: Filing, f: Figure, period: str) -> dict[str, Any]:
    return {
        "entity": filing.company.ticker,
        "metric": f.metric,
        "definition_version": f.version,
        "fiscal_period": period,
        "period_basis": BASES[f.length],
        "period_end": f.period_end,
        "value_usd": f.value,
        "value": f.value,
        "currency": "USD",
        "unit": "USD",
        "precision_usd": f.step,
        "definition": f"{f.definition}, {LENGTHS[f.length]}",
        "concept": f.label,
        "derivation": f.derivation,
        "form": filing.form,
        "accession": filing.accession,
        "known_at": filing.known_at,
        "known_at_precision": filing.precision,
        "source_name": filing.name_of(f.exhibit),
        "source_url": filing.url_of(f.exhibit),
        "notes": "preliminary, announced before the results" if filing.is_preliminary else f.notes,
    }
