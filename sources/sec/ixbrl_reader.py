"""Tagged numbers of an inline XBRL document, each with its printed row label.

Belongs here: contexts, scale and sign, the row and section a number stands in. Does not belong here: which facts are
wanted (`ixbrl.py`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lxml import etree

from sources.base import ParseError
from sources.sec.htmltables import tidy
from sources.sec.statements import MONTH, parse_date

IX = "{http://www.xbrl.org/2013/inlineXBRL}"
_XBRLI = "{http://www.xbrl.org/2003/instance}"
_XBRLDI = "{http://xbrl.org/2006/xbrldi}"
_XHTML = "{http://www.w3.org/1999/xhtml}"
_DAY = rf"{MONTH}\.?\s+\d{{1,2}},\s+20\d\d"
_SIGNED = re.compile(rf"\bDated?\s*:?\s*({_DAY})|({_DAY})\s+By:", re.IGNORECASE)
_BLOCKS = (f"{_XHTML}p", f"{_XHTML}div", f"{_XHTML}td", f"{_XHTML}body")
_LONGEST_PARAGRAPH = 4000
_LENGTHS = {1: (84, 99), 2: (175, 190), 3: (266, 281), 4: (357, 378)}
# Days from the end of the period to the latest credible signature.
_LONGEST_WAIT = 150


@dataclass(frozen=True, slots=True)
class Context:
    """What a number is about: a period or an instant (`start` is None), and its dimensions."""

    start: dt.date | None
    end: dt.date
    dimensions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """One tagged number: value in units, the step it was printed in, and where it stands.

    `label` is the printed label of its row in a table; `sentence` the paragraph of a number in prose.
    """

    concept: str
    context: Context
    value: float
    step: float
    label: str
    section: str
    table: int
    sentence: str = ""


@dataclass(slots=True)
class Document:
    """Facts of a document in order, what its cover says (`dei`), and the day it was signed."""

    facts: list[Fact] = field(default_factory=list)
    cover: dict[str, str] = field(default_factory=dict)
    signed: dt.date | None = None


def quarters(context: Context) -> int | None:
    """Length in quarters; 0 for an instant, None for any other length."""
    if context.start is None:
        return 0
    days = (context.end - context.start).days + 1
    return next((n for n, (low, high) in _LENGTHS.items() if low <= days <= high), None)


def read_document(body: bytes, name: str) -> Document:
    """Read an inline XBRL document. Raises `ParseError` when it is none."""
    try:
        root = etree.fromstring(body, etree.XMLParser(recover=False, huge_tree=False, resolve_entities=False))
    except etree.XMLSyntaxError as error:
        raise ParseError(f"{name}: not an inline XBRL document, or cut short: {error.msg}") from error
    contexts = {c.get("id", ""): context for c in root.iter(f"{_XBRLI}context") if (context := _context(c))}
    if not contexts:
        raise ParseError(f"{name}: no XBRL contexts; is it the primary document of a 10-Q or 10-K?")
    document = Document()
    for tag in root.iter(f"{IX}nonNumeric"):
        concept = tag.get("name", "")
        if concept.startswith("dei:"):
            document.cover.setdefault(concept[4:], tidy("".join(tag.itertext())))
    document.facts = list(_facts(root, contexts))
    document.signed = _signed(
        tidy(" ".join(root.itertext())), parse_date(document.cover.get("DocumentPeriodEndDate", ""))
    )
    return document


def _signed(text: str, ended: dt.date | None) -> dt.date | None:
    """The day beside the signature (`Date: …`, or right before `By:`): reports are filed on the day they are signed."""
    if ended is None:
        return None
    days = [parse_date(m[1] or m[2]) for m in _SIGNED.finditer(text)]
    return next((d for d in reversed(days) if d and 0 < (d - ended).days <= _LONGEST_WAIT), None)


def _context(node: Any) -> Context | None:
    end = node.findtext(f".//{_XBRLI}endDate") or node.findtext(f".//{_XBRLI}instant")
    start = node.findtext(f".//{_XBRLI}startDate")
    if not end:
        return None
    members = [
        (m.get("dimension", ""), tidy("".join(m.itertext())))
        for m in node.iter(f"{_XBRLDI}explicitMember", f"{_XBRLDI}typedMember")
    ]
    return Context(
        dt.date.fromisoformat(start.strip()) if start else None,
        dt.date.fromisoformat(end.strip()),
        tuple(sorted(members)),
    )


def _facts(root: Any, contexts: dict[str, Context]) -> Iterator[Fact]:
    """Facts in tables with the label of their row; then those in prose, which have none (`table` is -1)."""
    seen: set[Any] = set()
    for at, table in enumerate(root.iter(f"{_XHTML}table")):
        section = ""
        for row in table.iter(f"{_XHTML}tr"):
            cells = [tidy("".join(td.itertext())) for td in row.iter(f"{_XHTML}td", f"{_XHTML}th")]
            words = [c for c in cells if c]
            tags = list(row.iter(f"{IX}nonFraction"))
            if len(words) == 1 and not tags:
                section = words[0]
            for tag in tags:
                seen.add(tag)
                fact = _fact(tag, contexts, words[0] if words else "", section, at)
                if fact:
                    yield fact
    for tag in root.iter(f"{IX}nonFraction"):
        fact = None if tag in seen else _fact(tag, contexts, "", "", -1)
        if fact:
            yield replace(fact, sentence=_paragraph(tag))


def _paragraph(tag: Any) -> str:
    """Text of the block a number stands in."""
    block = next((a for a in tag.iterancestors() if a.tag in _BLOCKS), tag)
    return tidy("".join(block.itertext()))[:_LONGEST_PARAGRAPH]


def _fact(tag: Any, contexts: dict[str, Context], label: str, section: str, table: int) -> Fact | None:
    """A number in dollars; None for other units, empty cells, numbers in numbers already counted."""
    context = contexts.get(tag.get("contextRef", ""))
    text = tidy("".join(tag.itertext())).replace(",", "")
    if context is None or "usd" not in tag.get("unitRef", "").lower() or "share" in tag.get("unitRef", "").lower():
        return None
    scale = int(tag.get("scale") or 0)
    if "zero" in tag.get("format", ""):
        value = 0.0
    elif re.fullmatch(r"\d+(?:\.\d+)?", text):
        value = float(round(float(text) * 10.0**scale, 6))
    else:
        return None
    sign = -1.0 if tag.get("sign") == "-" else 1.0
    return Fact(tag.get("name", ""), context, sign * value, 10.0**scale, label, section, table)
