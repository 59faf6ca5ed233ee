"""NVIDIA: revenue by market platform from the CFO commentary, supply commitments, the split given only in prose.

Belongs here: the rows of NVIDIA's tables and what must agree before one is believed. Does not belong here: guidance.
"""

from __future__ import annotations

import re

from sources.sec.figures import (
    FINANCIALS,
    Figure,
    Found,
    figure_of,
    find_line,
    growth_agrees,
    plain,
    revenue_by_period,
    sums_to,
)
from sources.sec.filing import Exhibit, Filing
from sources.sec.money import dollars
from sources.sec.statements import Line, Statement

PLATFORM = "NVIDIA market platform, GAAP revenue"
# Row label → metric, version, and whether it is part of the data centre (0), a platform (1), or the total (2).
ROWS = {
    "data center": ("data_center_revenue", "1", 1),
    "compute": ("data_center_compute_revenue", "1", 0),
    "networking": ("data_center_networking_revenue", "1", 0),
    "hyperscale": ("data_center_hyperscale_revenue", "2", 0),
    "ai clouds, industrial and enterprise": ("data_center_acie_revenue", "2", 0),
    "gaming": ("gaming_revenue", "1", 1),
    "professional visualization": ("professional_visualization_revenue", "1", 1),
    "automotive": ("automotive_revenue", "1", 1),
    "oem and other": ("oem_and_other_revenue", "1", 1),
    "edge computing": ("edge_computing_revenue", "2", 1),
    "total": ("revenue", "1", 2),
    "total revenue": ("revenue", "1", 2),
}
_PROSE_SPLIT = re.compile(
    r"Under the previous sub-markets, Data Center compute revenue was (?:a record )?\$([\d.]+) billion.{0,120}?"
    r"Data Center networking revenue was (?:a record )?\$([\d.]+) billion",
    re.IGNORECASE,
)
_COMMITMENTS = (
    (
        re.compile(r"total supply-related commitments were \$([\d.]+) billion", re.IGNORECASE),
        "1",
        "total supply-related commitments",
    ),
    (
        re.compile(
            r"Purchase commitments and obligations for inventory and manufacturing capacity were \$([\d.]+) billion",
            re.IGNORECASE,
        ),
        "inventory-and-capacity",
        "purchase commitments and obligations for inventory and manufacturing capacity",
    ),
    (
        re.compile(
            r"inventory purchase and long-term supply and capacity obligations were \$([\d.]+) billion", re.IGNORECASE
        ),
        "inventory-and-capacity",
        "inventory purchase and long-term supply and capacity obligations",
    ),
)


def read(filing: Filing, found: Found) -> None:
    """Add NVIDIA's figures to `found`."""
    tables = [(e, s) for e, s in filing.statements if is_platform_table(s)]
    if not tables and any(e.type == "EX-99.2" for e in filing.exhibits):
        found.refuse(FINANCIALS, "platform_table", "no table of revenue by market platform can be read", "", "EX-99.2")
    for exhibit, statement in tables:
        problem = platform_problem(filing, statement)
        if problem:
            raw = " | ".join(f"{line.label}: {line.texts}" for line in statement.lines)
            found.refuse(FINANCIALS, "platform_table", problem, raw, statement.caption[-80:])
        else:
            found.figures.extend(platform_figures(filing, exhibit, statement))
    _prose_split(filing, found)
    _supply_commitments(filing, found)


def is_platform_table(statement: Statement) -> bool:
    """A table with a data-centre row and a total, whatever its caption says."""
    labels = {plain(line.label) for line in statement.lines}
    return "data center" in labels and bool(labels & {"total", "total revenue"})


def platform_problem(filing: Filing, statement: Statement) -> str:
    """Empty when the table can be believed, else the reason it cannot."""
    lengths = {c.length for c in statement.columns if c.kind == "period"}
    if not lengths:
        return "no column says which period it is"
    if statement.stray or any(c.kind == "other" for c in statement.columns):
        return "figures stand outside the columns that have a heading"
    if statement.scale is None:
        return "no unit line says whether figures are thousands or millions"
    unknown = [line.label for line in statement.lines if plain(line.label) not in ROWS]
    if unknown:
        return f"row {unknown[0]!r} is not known: the cut of platforms may have changed"
    periods = [i for i, c in enumerate(statement.columns) if c.kind == "period"]
    names = [statement.columns[i].fiscal_period + str(statement.columns[i].length) for i in periods]
    if len(set(names)) < len(names):
        return "two columns claim the same period"
    return _sums(statement, periods) or _own_column(filing, statement, periods) or _changes(statement, periods)


def _rows_of(statement: Statement, level: int) -> list[Line]:
    return [line for line in statement.lines if ROWS[plain(line.label)][2] == level]


def _sums(statement: Statement, periods: list[int]) -> str:
    total = find_line(statement, "Total", "Total revenue")
    centre = find_line(statement, "Data Center")
    if total is None or centre is None:
        return "the data-centre row or the total is missing or stands twice"
    parts = _rows_of(statement, 0)
    inner = sums_to(parts, centre, periods) if parts else ""
    return inner or sums_to(_rows_of(statement, 1), total, periods)


def _own_column(filing: Filing, statement: Statement, periods: list[int]) -> str:
    """The filing's own quarter or year must be there, and its total be written out in words."""
    if filing.quarter is None:
        return "the filing does not say which quarter it reports"
    year, quarter = filing.quarter
    total = find_line(statement, "Total", "Total revenue")
    own = [i for i in periods if (statement.columns[i].fiscal_year, statement.columns[i].quarter) == (year, quarter)]
    if not own or total is None or statement.scale is None:
        return "no column is the quarter the filing reports"
    for i in own:
        amount = total.numbers[i]
        if amount is None or not filing.is_written_out(amount * statement.scale):
            return f"the total {amount} of {statement.columns[i].fiscal_period} is not confirmed by a sum in the text"
    return ""


def _changes(statement: Statement, periods: list[int]) -> str:
    """Printed changes must follow from the figures; comparatives of a table without them are not confirmed."""
    if not any(c.kind in ("qoq", "yoy") for c in statement.columns):
        return "" if len(periods) == 1 else "no printed change confirms the comparative columns"
    current, previous, year_ago = comparatives(statement, periods)
    if len(periods) != 1 + (previous is not None) + (year_ago is not None):
        return "a comparative column is neither the quarter before nor the year before"
    for line in statement.lines:
        problem = growth_agrees(statement, line, current, previous, year_ago)
        if problem:
            return problem
    return ""


def comparatives(statement: Statement, periods: list[int]) -> tuple[int, int | None, int | None]:
    """Column of the newest period, of the quarter before it, of the year before it."""
    index = {i: 4 * statement.columns[i].fiscal_year + statement.columns[i].quarter for i in periods}
    current = max(periods, key=lambda i: index[i])
    at = {v: i for i, v in index.items()}
    is_year = statement.columns[current].length == 4  # noqa: PLR2004
    return current, None if is_year else at.get(index[current] - 1), at.get(index[current] - 4)


def platform_figures(filing: Filing, exhibit: Exhibit, statement: Statement) -> list[Figure]:
    """Every row in the filing's own column, and in the comparatives whose total another table gives for that period.

    Printed changes alone do not tell the quarter before from the year before: both could have changed places.
    """
    total = find_line(statement, "Total", "Total revenue")
    elsewhere = revenue_by_period(filing, statement)
    sure = [
        i
        for i, c in enumerate(statement.columns)
        if c.kind == "period"
        and total is not None
        and statement.scale is not None
        and (
            (c.fiscal_year, c.quarter) == filing.quarter
            or elsewhere.get((c.fiscal_period, c.length)) == {(total.numbers[i] or 0.0) * statement.scale}
        )
    ]
    figures = []
    for line in statement.lines:
        metric, version, _ = ROWS[plain(line.label)]
        for i in sure:
            definition = PLATFORM if metric != "revenue" else "total revenue, GAAP"
            if line.numbers[i] is not None:
                one = figure_of(filing, exhibit, statement, line, i, metric, definition, version=version)
                figures.extend([one] if one else [])
    return figures


def _prose_split(filing: Filing, found: Found) -> None:
    """Compute and networking where the table gives the newer split only; they must add up to the data centre."""
    own = [
        f
        for f in found.figures
        if f.metric == "data_center_revenue" and (f.fiscal_year, f.quarter) == filing.quarter and f.length == 1
    ]
    for exhibit, document in zip(filing.exhibits, filing.documents, strict=True):
        match = _PROSE_SPLIT.search(document.text)
        if not match or not own:
            continue
        step = 1e9 / 10 ** len(match[1].partition(".")[2])
        compute, networking = dollars(match[1], "billion"), dollars(match[2], "billion")
        if abs(compute + networking - own[0].value) > step:
            found.refuse(FINANCIALS, "prose_split", "the split does not add up to data centre", match[0], exhibit.type)
            continue
        for metric, value in (("compute", compute), ("networking", networking)):
            found.figures.append(
                Figure(
                    exhibit,
                    f"data_center_{metric}_revenue",
                    own[0].fiscal_year,
                    own[0].quarter,
                    1,
                    value,
                    step,
                    f"Data Center {metric} revenue",
                    f"{PLATFORM}, previous sub-markets, prose only, rounded",
                    period_end=own[0].period_end,
                )
            )
        return


def _supply_commitments(filing: Filing, found: Found) -> None:
    """The sentence on commitments; its wording, and what it counts, drifted: one version for each wording."""
    if filing.quarter is None:
        return
    year, quarter = filing.quarter
    for exhibit, document in zip(filing.exhibits, filing.documents, strict=True):
        for pattern, version, words in _COMMITMENTS:
            match = pattern.search(document.text)
            if match:
                step = 1e9 / 10 ** len(match[1].partition(".")[2])
                found.figures.append(
                    Figure(
                        exhibit,
                        "supply_commitments",
                        year,
                        quarter,
                        0,
                        dollars(match[1], "billion"),
                        step,
                        words,
                        words,
                        version=version,
                        period_end=filing.ends.get(f"FY{year % 100:02d}Q{quarter}"),
                    )
                )
