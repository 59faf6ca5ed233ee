"""Segment tables of releases: AMD's data centre, Micron's business units, Broadcom's AI revenue.

Belongs here: the rows of these companies and what must agree. Does not belong here: NVIDIA, cash flows, guidance.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sources.sec.figures import FINANCIALS, Figure, Found, figure_of, find_line, plain, revenue_by_period, sums_to
from sources.sec.filing import Exhibit, Filing
from sources.sec.money import dollars
from sources.sec.statements import Line, Statement

AMD_DEFINITION = "AMD Data Center segment net revenue, GAAP"
AMD_SEGMENTS = {
    "data center": "data_center_revenue",
    "client": "client_revenue",
    "gaming": "gaming_revenue",
    "client and gaming": "client_and_gaming_revenue",
    "embedded": "embedded_revenue",
}
MICRON_UNITS = {
    "cloud memory business unit": "revenue_bu_cloud_memory",
    "core data center business unit": "revenue_bu_core_data_center",
    "mobile and client business unit": "revenue_bu_mobile_and_client",
    "automotive and embedded business unit": "revenue_bu_automotive_and_embedded",
}
# What Micron reports outside its four units was 1 to 6 million in six quarters; more means that a unit is missing or
# misprinted. Four figures rounded to the million may also add up to two million too much.
MICRON_OUTSIDE_UNITS = 10e6
MICRON_NOTE = "the four units leave up to 10 million of total revenue; a misprint of that size would not show"
_BROADCOM_AI = re.compile(
    r"(?:Q[1-4] )?AI (?:semiconductor )?revenue (?:of|was|grew[^.$]{0,80}? to) (?:a record )?\$([\d.]+) billion",
    re.IGNORECASE,
)


def read_amd(filing: Filing, found: Found) -> None:
    """AMD: net revenue by segment; the segments must add up to the total in each column."""
    tables = [(e, s) for e, s in filing.statements if find_line(s, "Data Center", section="net revenue")]
    if not tables:
        if any(e.type == "EX-99.1" for e in filing.exhibits):
            found.refuse(FINANCIALS, "segment_table", "no table of net revenue by segment can be read", "", "EX-99.1")
        return
    for exhibit, statement in tables:
        problem = amd_problem(statement) or _corroborated(filing, statement)
        if problem:
            raw = " | ".join(f"{line.label}: {line.texts}" for line in statement.lines)
            found.refuse(FINANCIALS, "segment_table", problem, raw, statement.caption[-80:])
        else:
            found.figures.extend(amd_figures(filing, exhibit, statement))


def amd_lines(statement: Statement) -> tuple[list[Line], Line | None]:
    """Segment rows of the revenue block, and its total."""
    block = [line for line in statement.lines if plain(line.section).startswith("net revenue")]
    totals = [line for line in block if plain(line.label) in ("total net revenue", "total revenue", "total")]
    return [line for line in block if line not in totals], totals[0] if len(totals) == 1 else None


def amd_problem(statement: Statement) -> str:
    """Empty when the table can be believed, else why not. Nothing but its own rows is looked at."""
    periods = [i for i, c in enumerate(statement.columns) if c.kind == "period"]
    if not periods or len(periods) < len(statement.columns) or statement.stray:
        return "a column does not say which period it is"
    if statement.scale is None:
        return "no unit line says whether figures are thousands or millions"
    parts, total = amd_lines(statement)
    if total is None:
        return "no total closes the segments"
    unknown = [line.label for line in parts if plain(line.label) not in AMD_SEGMENTS]
    if unknown:
        return f"row {unknown[0]!r} is not a known segment: the cut may have changed"
    names = [statement.columns[i].fiscal_period + str(statement.columns[i].length) for i in periods]
    if len(set(names)) < len(names):
        return "two columns claim the same period"
    return sums_to(parts, total, periods)


def _corroborated(filing: Filing, statement: Statement) -> str:
    """Each column's total must stand in another table under the same period, and one be written out in the text."""
    _, total = amd_lines(statement)
    if total is None or statement.scale is None:
        return "no total closes the segments"
    elsewhere = revenue_by_period(filing, statement)
    for i, column in enumerate(statement.columns):
        amount = total.numbers[i]
        if amount is None or elsewhere.get((column.fiscal_period, column.length)) != {amount * statement.scale}:
            return f"the total of {column.fiscal_period} is not the revenue another table gives"
    if not any(n is not None and filing.is_written_out(n * statement.scale) for n in total.numbers):
        return "no total is confirmed by a sum in the text"
    return ""


def amd_figures(filing: Filing, exhibit: Exhibit, statement: Statement) -> list[Figure]:
    """Segments and total in every column; FY25's merged client and gaming is a row of its own name."""
    parts, total = amd_lines(statement)
    figures = []
    for line in [*parts, *([total] if total else [])]:
        metric = AMD_SEGMENTS.get(plain(line.label), "revenue")
        words = AMD_DEFINITION if metric == "data_center_revenue" else f"AMD {line.label}, GAAP"
        for i in range(len(statement.columns)):
            one = figure_of(filing, exhibit, statement, line, i, metric, words)
            figures.extend([one] if one else [])
    return figures


def read_micron(filing: Filing, found: Found) -> None:
    """Micron: revenue of the four units; the unit comes from the results table they must add up to."""
    tables = [(e, s) for e, s in filing.statements if _unit_lines(s)]
    if not tables and any(e.type == "EX-99.1" for e in filing.exhibits):
        found.refuse(FINANCIALS, "unit_table", "no table of business units can be read", "", "EX-99.1")
    revenue = revenue_by_period(filing)
    for exhibit, statement in tables:
        lines = _unit_lines(statement)
        scaled, problem = _micron_scale(filing, statement, lines, revenue)
        if problem:
            raw = " | ".join(f"{line.section} {line.label}: {line.texts}" for line in statement.lines)
            found.refuse(FINANCIALS, "unit_table", problem, raw, statement.caption[-80:])
            continue
        for line in lines:
            for i in range(len(scaled.columns)):
                metric = MICRON_UNITS[plain(line.section)]
                one = figure_of(filing, exhibit, scaled, line, i, metric, f"{line.section} revenue")
                label = f"{line.section}: {line.label}"
                found.figures.extend([replace(one, label=label, notes=MICRON_NOTE)] if one else [])


def _unit_lines(statement: Statement) -> list[Line]:
    return [line for line in statement.lines if plain(line.label) == "revenue" and plain(line.section) in MICRON_UNITS]


def _micron_scale(
    filing: Filing, statement: Statement, lines: list[Line], revenue: dict[tuple[str, int], set[float]]
) -> tuple[Statement, str]:
    """The unit table with the scale of the revenue it adds up to, and why it cannot be believed."""
    if {plain(line.section) for line in lines} != set(MICRON_UNITS) or len(lines) != len(MICRON_UNITS):
        return statement, "the four business units are not all there once"
    if statement.stray or any(c.kind != "period" for c in statement.columns):
        return statement, "a column does not say which period it is"
    scales: set[float] = set()
    for i in range(len(statement.columns)):
        scale, problem = _column_scale(filing, statement, lines, revenue, i)
        if problem:
            return statement, problem
        scales.add(scale)
    if len(scales) != 1:
        return statement, "the columns do not share one unit"
    return replace(statement, scale=scales.pop()), ""


def _column_scale(
    filing: Filing, statement: Statement, lines: list[Line], revenue: dict[tuple[str, int], set[float]], i: int
) -> tuple[float, str]:
    """Scale at which the units of one column add up to its total revenue, and why there is none."""
    column = statement.columns[i]
    amounts = [line.numbers[i] for line in lines]
    whole = revenue.get((column.fiscal_period, column.length), set())
    if len(whole) != 1 or any(a is None for a in amounts):
        return 0.0, f"total revenue of {column.fiscal_period} is not given once beside the units"
    (total,) = whole
    if not filing.is_written_out(total):
        return 0.0, f"total revenue of {column.fiscal_period} is not confirmed by a sum in the text"
    units = sum(a for a in amounts if a is not None)
    fits = [s for s in (1e3, 1e6, 1e9) if -len(lines) * s / 2 <= total - units * s <= MICRON_OUTSIDE_UNITS]
    return (fits[0], "") if len(fits) == 1 else (0.0, f"the units of {column.fiscal_period} do not make total revenue")


def read_broadcom(filing: Filing, found: Found) -> None:
    """Broadcom: AI revenue, which stands in prose only and is rounded."""
    if filing.quarter is None:
        return
    year, quarter = filing.quarter
    for exhibit, document in zip(filing.exhibits, filing.documents, strict=True):
        sums = {m[1] for m in _BROADCOM_AI.finditer(document.prose)}
        if len(sums) > 1:
            found.refuse(FINANCIALS, "ai_revenue", "more than one AI revenue is named", " | ".join(sums), exhibit.type)
        elif sums:
            text = sums.pop()
            step = 1e9 / 10 ** len(text.partition(".")[2])
            found.figures.append(
                Figure(
                    exhibit,
                    "ai_semiconductor_revenue",
                    year,
                    quarter,
                    1,
                    dollars(text, "billion"),
                    step,
                    "AI semiconductor revenue",
                    "Broadcom's own AI semiconductor revenue, prose only, rounded",
                    period_end=filing.ends.get(f"FY{year % 100:02d}Q{quarter}"),
                )
            )
