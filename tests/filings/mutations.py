"""Ways to spoil a release: each takes the table rows of an exhibit and changes their layout, never a figure's truth.

A spoiled release may give the right figure or none; a wrong one is a failure. Works on the HTML itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from lxml import html

Rows = list[html.HtmlElement]


def tables_with(root: html.HtmlElement, words: str) -> list[html.HtmlElement]:
    """Tables without inner tables whose text holds the words."""
    return [t for t in root.iter("table") if words in " ".join(t.text_content().split()) and t.find(".//table") is None]


def groups(row: html.HtmlElement) -> list[list[html.HtmlElement]] | None:
    """Cells of a row by logical column (three columns each); None for a row that is not cut that way."""
    out: dict[int, list[html.HtmlElement]] = {}
    at = 0
    for td in row.findall("td"):
        if "display:none" in (td.get("style") or ""):
            continue
        span = int(td.get("colspan") or 1)
        if at // 3 != (at + span - 1) // 3:
            return None
        out.setdefault(at // 3, []).append(td)
        at += span
    return [out[k] for k in sorted(out)]


def is_heading(row: html.HtmlElement) -> bool:
    return bool(re.search(r"FY\d\d|FQ\d|Ended|\b20\d\d\b|Q/Q", row.text_content())) and not re.search(
        r"\d,\d{3}", row.text_content()
    )


def permute(rows: Rows, dice: random.Random, *, only_body: bool) -> None:
    """Reorder the columns in every row alike, or only in the rows below the heading."""
    cut = [(row, groups(row)) for row in rows]
    counts = [len(g) for _, g in cut if g]
    width = max(set(counts), key=counts.count, default=0)
    order = list(range(1, width))
    dice.shuffle(order)
    for row, parts in cut:
        if parts and len(parts) == width and not (only_body and is_heading(row)):
            reorder(row, parts, [0, *order])


def reorder(row: html.HtmlElement, parts: list[list[html.HtmlElement]], order: list[int]) -> None:
    for td in row.findall("td"):
        row.remove(td)
    for i in order:
        row.extend(parts[i])


def columns_together(rows: Rows, dice: random.Random) -> None:
    permute(rows, dice, only_body=False)


def columns_without_heading(rows: Rows, dice: random.Random) -> None:
    permute(rows, dice, only_body=True)


def heading_dropped(rows: Rows, dice: random.Random) -> None:
    for row in rows:
        if is_heading(row):
            row.getparent().remove(row)


def heading_cell_emptied(rows: Rows, dice: random.Random) -> None:
    cells = [td for row in rows if is_heading(row) for td in row.findall("td") if td.text_content().strip()]
    if cells:
        empty(dice.choice(cells))


def row_dropped(rows: Rows, dice: random.Random) -> None:
    row = dice.choice(rows)
    row.getparent().remove(row)


def rows_moved(rows: Rows, dice: random.Random) -> None:
    """A row below the heading stands elsewhere below it."""
    body = [row for row in rows if not is_heading(row)]
    if len(body) > 2:
        row, other = dice.sample(body, 2)
        row.getparent().remove(row)
        other.addnext(row)


def unit_changed(rows: Rows, dice: random.Random) -> None:
    word = dice.choice(["thousands", "billions", ""])
    root = rows[0].getroottree().getroot()
    for node in root.iter():
        if isinstance(node.tag, str):
            node.text = re.sub(r"\bmillions\b", word, node.text) if node.text else node.text
            node.tail = re.sub(r"\bmillions\b", word, node.tail) if node.tail else node.tail


def figure_changed(rows: Rows, dice: random.Random) -> None:
    """One digit of one figure is another: the sums no longer hold."""
    cells = [
        td for row in rows for td in row.findall("td") if re.fullmatch(r"\(?\$?[\d,]{4,}\)?", td.text_content().strip())
    ]
    if cells:
        td = dice.choice(cells)
        text = td.text_content().strip()
        places = [i for i, ch in enumerate(text) if ch.isdigit()]
        i = dice.choice(places[:-1])
        fill(td, text[:i] + str((int(text[i]) + dice.randint(1, 9)) % 10) + text[i + 1 :])


def cell_emptied(rows: Rows, dice: random.Random) -> None:
    cells = [td for row in rows for td in row.findall("td") if re.search(r"\d", td.text_content())]
    if cells:
        empty(dice.choice(cells))


def cell_removed(rows: Rows, dice: random.Random) -> None:
    """A cell vanishes and the rest of its row moves to the left."""
    row = dice.choice(rows)
    cells = row.findall("td")
    if len(cells) > 1:
        row.remove(dice.choice(cells[1:]))


def empty(td: html.HtmlElement) -> None:
    fill(td, "")


def fill(td: html.HtmlElement, text: str) -> None:
    for child in list(td):
        td.remove(child)
    td.text = text


MUTATIONS: tuple[Callable[[Rows, random.Random], None], ...] = (
    columns_together,
    columns_without_heading,
    heading_dropped,
    heading_cell_emptied,
    row_dropped,
    rows_moved,
    unit_changed,
    figure_changed,
    cell_emptied,
    cell_removed,
)


def spoil(text: str, words: str, seed: int, how: Callable[[Rows, random.Random], None]) -> str:
    """The document with one change to each table that holds the words."""
    wrapper, mark, body = text.partition("<TEXT>")
    root = html.fromstring(body if mark else text)
    dice = random.Random(seed)
    for table in tables_with(root, words):
        rows = [row for row in table.iter("tr") if row.text_content().strip()]
        if rows:
            how(rows, dice)
    return wrapper + mark + html.tostring(root, encoding="unicode") if mark else html.tostring(root, encoding="unicode")
