"""HTML of a filing as text and as tables whose cells know which columns they span.

Belongs here: cleaning, reading with BeautifulSoup on lxml, column positions. Does not belong here: what a heading or a
row means (`statements.py`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning
from bs4.element import NavigableString

# Most bytes of a release are inline style; nothing is read from it. Removing it first halves the time.
_NOISE = re.compile(r"""\s(?:style|class|id|width|height|valign|align|bgcolor)=(?:"[^"]*"|'[^']*')""")
# Cells that are not displayed take no column; they are how the layout tool pads its rows.
_HIDDEN_CELL = re.compile(r"<(t[dh])\b[^>]*display:\s*none[^>]*>(?:\s|&#160;|&nbsp;)*</\1>", re.IGNORECASE)
# Inline markup carries no structure; without it the tree has half the nodes.
_INLINE = re.compile(r"</?(?:span|font|b|i|u|a|strong|em|small|sup|sub)(?:\s[^<>]*)?>", re.IGNORECASE)
_SGML = re.compile(r"\A\s*<DOCUMENT>.*?<TEXT>", re.DOTALL)
_SPACE = re.compile(r"\s+")
_TEXT_BEFORE = 400
_HIDDEN = ["script", "style", "ix:header", "head"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of one cell and the columns it covers: from `start` up to, not including, `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """The non-empty cells of a row, and how many columns the row covers in all."""

    cells: tuple[Cell, ...]
    width: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that hold text, and the text that stands before the table."""

    rows: tuple[Row, ...]
    before: str


@dataclass(frozen=True, slots=True)
class Html:
    """A document: all its text with single spaces, the text outside tables, its tables in order."""

    text: str
    prose: str
    tables: tuple[Table, ...]


def sgml_field(html: str, field: str) -> str:
    """A field of the wrapper EDGAR puts before an exhibit, such as TYPE or FILENAME; empty when there is none."""
    found = re.search(rf"<{field}>([^\r\n<]+)", html[:2000])
    return found.group(1).strip() if found else ""


def tidy(text: str) -> str:
    """Single spaces, no soft hyphens, plain spaces for hard ones."""
    return _SPACE.sub(" ", text.replace("\u00a0", " ").replace("\u00ad", "").replace("\u200b", "")).strip()


def read_html(html: str) -> Html:
    """Read a document. Never raises: what is no table gives no table."""
    with warnings.catch_warnings():
        # An inline XBRL document is XHTML; the HTML reader is right for what is taken from it.
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        soup = BeautifulSoup(_clean(html), "lxml", multi_valued_attributes=None)
    for hidden in soup.find_all(_HIDDEN):
        hidden.decompose()
    tables: list[Table] = []
    everything: list[str] = []
    prose: list[str] = []
    before: list[str] = []
    for node in _in_order(soup):
        if isinstance(node, Tag):
            rows = tuple(_rows(node))
            tables.append(Table(rows, tidy(" ".join(before))[-_TEXT_BEFORE:]))
            before = []
            everything.extend(" ".join(cell.text for cell in row.cells) for row in rows)
        else:
            text = str(node)
            before.append(text)
            prose.append(text)
            everything.append(text)
    return Html(tidy(" ".join(everything)), tidy(" ".join(prose)), tuple(tables))


def _clean(html: str) -> str:
    return _INLINE.sub("", _NOISE.sub("", _HIDDEN_CELL.sub("", _SGML.sub("", html, count=1))))


def _in_order(root: Tag) -> Iterator[Tag | NavigableString]:
    """Strings outside tables and innermost tables, in document order."""
    for child in root.contents:
        if isinstance(child, Tag):
            if child.name == "table" and next(_tags(child, "table"), None) is None:
                yield child
            else:
                yield from _in_order(child)
                if child.name in ("p", "div", "tr", "li", "br", "h1", "h2", "h3"):
                    yield NavigableString(" ")
        elif type(child) is NavigableString:
            yield child


def _rows(table: Tag) -> Iterator[Row]:
    held: dict[int, int] = {}  # column → rows for which a cell from above still covers it
    for row in _tags(table, "tr"):
        cells: list[Cell] = []
        at = 0
        below: dict[int, int] = {}
        for td in row.contents:
            if not isinstance(td, Tag) or td.name not in ("td", "th"):
                continue
            while at in held:
                at += 1
            span, down = _number(td, "colspan"), _number(td, "rowspan")
            text = tidy(td.get_text(" "))
            if text:
                cells.append(Cell(at, at + span, text))
            if down > 1:
                below |= dict.fromkeys(range(at, at + span), down)
            at += span
        width = max([at, *(c + 1 for c in held)], default=0)
        held = {c: n - 1 for c, n in (held | below).items() if n > 1}
        if cells:
            yield Row(tuple(cells), width)


def _tags(root: Tag, name: str) -> Iterator[Tag]:
    """Descendants of a name, not looked for inside one another."""
    for child in root.contents:
        if isinstance(child, Tag):
            if child.name == name:
                yield child
            else:
                yield from _tags(child, name)


def _number(td: Tag, name: str) -> int:
    raw = str(td.get(name) or "1").strip()
    return max(1, int(raw)) if raw.isdigit() else 1
