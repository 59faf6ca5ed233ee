"""A table of figures: which period each column is, what unit holds, what each row says in each column.

Belongs here: headings, units, numbers with split cells and brackets. Does not belong here: which rows are wanted, and
whether they agree with one another (`checks.py`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sources.sec.fiscal import YEAR_END_DRIFT_DAYS, fiscal_quarter, label, year_end_gap
from sources.sec.htmltables import Cell, Row, Table

Kind = Literal["period", "instant", "qoq", "yoy", "other"]
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_DATE = re.compile(rf"({MONTH})\.?\s*(\d{{1,2}}),?\s*((?:19|20)\d\d)")
_WORDS = {"three": 1, "six": 2, "nine": 3, "twelve": 4, "quarter": 1, "qtr": 1, "year": 4}
_COUNTS = {"two": 2, "three": 3, "four": 4}
_LENGTH = re.compile(
    r"\b(three|six|nine|twelve)[\s-]+months?\s+ended|\b((?:two|three|four)\s+(?:fiscal\s+)?quarters)\s+ended"
    r"|\b(year[\s-]+to[\s-]+date|quarter|qtr|year)s?\b\.?(?:\s+ended)?",
    re.IGNORECASE,
)
_HEADING = re.compile(
    rf"(?:{MONTH}\.?\s*\d{{1,2}},?(?:\s*(?:19|20)\d\d)?|(?:19|20)\d\d|.*\bmonths?\s+ended\b.*"
    r"|.*\b(?:quarter|year)s?\s+ended\b.*|Year[\s-]to[\s-]date\b.*|Q[1-4]\s*(?:FY)?\s*'?\d\d(?:\d\d)?|FY\s*'?\d\d(?:\d\d)?|FQ[1-4]-\d\d"
    r"|[1-4](?:st|nd|rd|th)\s+Qtr\.?|Q/Q|Y/Y.*|.*\bChange|As of.*|(?:Non-)?GAAP(?:\s*\(\d\))?(?:\s+Outlook)?|%\s*Change"
    r"|Adjustments)",
    re.IGNORECASE,
)
_UNIT_LINE = re.compile(
    r"\((?:[^()]{0,60}?\bin\s+|Unit:\s*NT\$\s*|)(?:US\$|NT\$|\$)?\s*(?:of\s+)?(thousand|million|billion)s?\b[^()]*\)",
    re.IGNORECASE,
)
# Words of the label column that say what the dates beside them are.
_OVER_ALL = re.compile(r"\bmonths?\s+ended\b|\b(?:quarter|year)s?\s+ended\b|^As of\b", re.IGNORECASE)
SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_AMOUNT = re.compile(r"\(?-?(?:US|NT)?\$?\d[\d,]*(?:\.\d+)?\)?")
_DASHES = ("\u2014", "\u2013", "-", "--", "\u2015")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it is about and where it stands. `length` counts quarters."""

    start: int
    end: int
    heading: str
    kind: Kind
    length: int = 0
    fiscal_year: int = 0
    quarter: int = 0
    period_end: dt.date | None = None

    @property
    def fiscal_period(self) -> str:
        """`FY27Q1`, or `FY27` for a whole year."""
        return label(self.fiscal_year, None if self.length == 4 else self.quarter)  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class Line:
    """One row: label, the heading row above it, and for each column the printed text and the number in it."""

    label: str
    section: str
    texts: tuple[str, ...]
    numbers: tuple[float | None, ...]
    percents: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A table read: columns, scale of its numbers (None where no unit stands), rows; `stray` counts unplaced figures."""

    caption: str
    columns: tuple[Column, ...]
    scale: float | None
    lines: tuple[Line, ...]
    stray: int = 0

    def periods(self, length: int) -> list[int]:
        """Indexes of the columns that hold periods of that many quarters."""
        return [i for i, c in enumerate(self.columns) if c.kind == "period" and c.length == length]


def read_statement(table: Table, year_end_month: int) -> Statement | None:
    """Read a table of figures; None for a table that has none (contacts, bullets)."""
    head, body = _split(table.rows)
    if not head or not body:
        return None
    first_figure = min((c.start for row in body for c in row.cells[1:] if _is_figure(c.text)), default=0)
    usual_width = Counter(row.width for row in body).most_common(1)[0][0]
    columns = tuple(_column(h, year_end_month) for h in _leaves(head, first_figure, usual_width))
    lines: list[Line] = []
    section, stray = "", 0
    for row in body:
        label_text, cells = _label(row.cells, columns)
        if not cells:
            section = label_text
            continue
        placed, lost = _place(cells, columns)
        stray += lost + (row.width != usual_width)
        numbers, percents = tuple(number(t) for t in placed), tuple(percent(t) for t in placed)
        lines.append(Line(label_text, section, tuple(placed), numbers, percents))
    texts = [c.text for row in table.rows for c in row.cells if not _is_figure(c.text)]
    caption = " ".join([table.before, *(c.text for row in head for c in row.cells if c.start < first_figure)])
    return Statement(caption, columns, _scale(texts, table.before), tuple(lines), stray)


def _split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Heading rows and body rows: the body begins at the first row with a label and a figure beside it.

    A label without figures right before the body (`Net revenue:`) belongs to the body.
    """
    for i, row in enumerate(rows):
        first, beside = row.cells[0], [c for c in row.cells[1:] if _is_figure(c.text)]
        if beside and not _HEADING.fullmatch(first.text) and _is_label(first.text):
            while i > 0 and _is_section(rows[i - 1]):
                i -= 1  # noqa: PLW2901 - the body grows upwards
            return list(rows[:i]), list(rows[i:])
    return list(rows), []


def _is_section(row: Row) -> bool:
    """One label in the first column that is neither a heading nor a unit line."""
    first = row.cells[0]
    alone = len(row.cells) == 1 and first.start == 0 and first.end < row.width
    return alone and _is_label(first.text) and not _HEADING.fullmatch(first.text) and not _UNIT_LINE.search(first.text)


def _is_label(text: str) -> bool:
    return bool(re.search(r"[A-Za-z]", text)) and not _AMOUNT.fullmatch(text)


def _is_figure(text: str) -> bool:
    """An amount, a percentage or a lone dollar sign; a bare year is a heading, not a figure."""
    bare = text.replace(" ", "")
    if re.fullmatch(r"(19|20)\d\d", bare):
        return False
    return bool(_AMOUNT.fullmatch(bare)) or bare in ("$", "NT$", *_DASHES) or "±" in text


@dataclass(frozen=True, slots=True)
class _Heading:
    """A lowest heading cell and the texts above it, top first; `sure` is false where the rows do not line up."""

    leaf: Cell
    text: str
    sure: bool


def _leaves(head: Sequence[Row], first_figure: int, usual_width: int) -> list[_Heading]:
    """Lowest heading cells with what stands above. A word in the label column (`As of`) holds for its whole row.

    A row that covers fewer columns than the body does not line up with it: a heading alone in such a row still holds
    for every column; of two, nobody can say which is whose.
    """
    rows: list[tuple[list[Cell], bool, str]] = []
    for row in head:
        cells = [c for c in row.cells if c.end > first_figure and _HEADING.fullmatch(c.text)]
        words = [c.text for c in row.cells if c.end <= first_figure and _OVER_ALL.search(c.text)]
        rows.append((cells, row.width == usual_width, " ".join(words)))
    found: list[_Heading] = []
    for i, (cells, _, lead) in enumerate(rows):
        for cell in cells:
            if any(_overlap(c, cell) for later, _, _ in rows[i + 1 :] for c in later):
                continue
            above: list[str] = [lead] if lead else []
            sure = True
            for earlier, aligned, word in rows[:i]:
                over = [c.text for c in earlier if not aligned or _overlap(c, cell)]
                sure = sure and (aligned or len(earlier) <= 1)
                if word and not earlier:
                    above.append(word)
                above.extend(over)
            if rows[i][1] or not _has_body_below(rows, i):
                found.append(_Heading(cell, " ".join([*above, cell.text]), sure and rows[i][1]))
    return sorted(found, key=lambda h: h.leaf.start)


def _has_body_below(rows: Sequence[tuple[list[Cell], bool, str]], i: int) -> bool:
    """Whether a lower heading row has cells: then a row that does not line up holds no leaves itself."""
    return any(cells for cells, _, _ in rows[i + 1 :])


def _overlap(a: Cell | Column, b: Cell | Column) -> int:
    return max(0, min(a.end, b.end) - max(a.start, b.start))


def _column(head: _Heading, year_end_month: int) -> Column:
    heading = head.text
    where = (head.leaf.start, head.leaf.end, heading)
    if not head.sure:
        return Column(*where, "other")
    if re.search(r"Q/Q|quarter-over-quarter", heading, re.IGNORECASE):
        return Column(*where, "qoq")
    if re.search(r"Y/Y|year-over-year|change", heading, re.IGNORECASE):
        return Column(*where, "yoy")
    named = re.search(r"\bQ([1-4])\s*(?:FY)?\s*'?((?:20)?\d\d)\b|\bFQ([1-4])-(\d\d)\b", heading)
    if named:
        quarter, year = (named[1], named[2]) if named[1] else (named[3], named[4])
        return Column(*where, "period", 1, 2000 + int(year[-2:]), int(quarter))
    whole = re.search(r"\bFY\s*'?((?:20)?\d\d)\b", heading)
    if whole:
        return Column(*where, "period", 4, 2000 + int(whole[1][-2:]), 4)
    return _dated(where, heading, year_end_month)


def _dated(where: tuple[int, int, str], heading: str, year_end_month: int) -> Column:
    """A column whose heading gives the last day: a period of that many months, or an instant."""
    day = parse_date(heading)
    if day is None:
        return Column(*where, "other")
    length = _LENGTH.search(heading)
    try:
        year, quarter = fiscal_quarter(day, year_end_month)
    except ValueError:
        return Column(*where, "other", period_end=day)
    if not length:
        return Column(*where, "instant", 0, year, quarter, day)
    quarters = _quarters_in(length, quarter)
    if quarters > 1 and quarters != quarter:
        return Column(*where, "other", period_end=day)
    if quarters == 4 and year_end_gap(day, year_end_month) > YEAR_END_DRIFT_DAYS:  # noqa: PLR2004
        return Column(*where, "other", period_end=day)
    return Column(*where, "period", quarters, year, quarter, day)


def _quarters_in(length: re.Match[str], quarter: int) -> int:
    """Length that a heading names; year to date is as long as the quarter it ends with."""
    if length[2]:
        return _COUNTS[length[2].split()[0].lower()]
    word = (length[1] or length[3]).lower()
    return quarter if "date" in word else _WORDS[word]


def parse_date(text: str) -> dt.date | None:
    """The one date in a text; None when there is none or more than one different."""
    found = {_date(m) for m in _DATE.finditer(re.sub(r"(\d{1,2}),?\s+[A-Za-z ]*?((?:19|20)\d\d)", r"\1, \2", text))}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _date(match: re.Match[str]) -> dt.date | None:
    try:
        return dt.date(int(match[3]), _MONTHS.index(match[1][:3].lower()) + 1, int(match[2]))
    except ValueError:
        return None


def _label(row: Sequence[Cell], columns: Sequence[Column]) -> tuple[str, list[Cell]]:
    """The row's label and its cells to the right. A row without label (a subtotal) has an empty one."""
    first = row[0]
    under = any(_overlap(first, c) for c in columns) and (_is_figure(first.text) or percent(first.text) is not None)
    return ("", list(row)) if under else (first.text, list(row[1:]))


def _place(cells: Sequence[Cell], columns: Sequence[Column]) -> tuple[list[str], int]:
    """Text of each column, pieces joined; and how many figures stand under no column or under two."""
    pieces: list[list[str]] = [[] for _ in columns]
    lost = 0
    for cell in cells:
        hits = sorted(((_overlap(cell, c), i) for i, c in enumerate(columns) if _overlap(cell, c)), reverse=True)
        if len(hits) == 1 or (len(hits) > 1 and hits[0][0] > hits[1][0]):
            pieces[hits[0][1]].append(cell.text)
        elif re.search(r"\d", cell.text):
            lost += 1
    return [" ".join(p) for p in pieces], lost


def number(text: str) -> float | None:
    """An amount: brackets or a minus make it negative, a dash is zero; None for percentages, words, nothing."""
    bare = text.replace(" ", "").replace("$", "").replace("NT", "").replace("US", "")
    if bare in _DASHES:
        return 0.0
    if not re.fullmatch(r"[(\-]?\d{1,3}(?:,\d{3})*(?:\.\d+)?\)?|[(\-]?\d+(?:\.\d+)?\)?", bare):
        return None
    value = float(re.sub(r"[(),\-]", "", bare))
    return -value if bare[0] in "(-" else value


def percent(text: str) -> float | None:
    """A change in percent: `20 %`, `(13) %`, `Up 18%`, `Down 13%`, `Flat`, a dash; None for anything else."""
    bare = text.replace(" ", "")
    if bare.lower() in ("flat", "unchanged") or bare in _DASHES:
        return 0.0
    found = re.fullmatch(r"(up|down)?\(?(-?[\d,]+(?:\.\d+)?)\)?%\)?", bare, re.IGNORECASE)
    if not found:
        return None
    value = float(found[2].replace(",", ""))
    return -value if bare.startswith("(") or bare.lower().startswith("down") else value


def _scale(texts: Sequence[str], before: str) -> float | None:
    """Scale of the table's figures: the unit line inside it, else the last one right before it; None if none or two."""
    inside = {m[1].lower() for t in texts for m in _UNIT_LINE.finditer(t)}
    if len(inside) == 1:
        return SCALES[inside.pop()]
    if inside:
        return None
    outside = _UNIT_LINE.findall(before)
    return SCALES[outside[-1].lower()] if outside else None
