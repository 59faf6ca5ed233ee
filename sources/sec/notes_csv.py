"""CSV files a person fills: reading, and the checks that all of them share.

Belongs here: rows with line numbers, amounts with a unit, days, links. Does not belong here: what a file is about
(`guidance_notes.py`, `estimates.py`).
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import re
from collections.abc import Iterator, Mapping

from sources.base import ParseError, Payload
from sources.sec.documents import document_name, read_text
from sources.texts import decoded

PERIOD = re.compile(r"^(FY\d{2}(Q[1-4])?|CY20\d\d)$")
TICKER = re.compile(r"^[A-Z0-9][A-Z0-9.\-]{0,11}$")
UNITS = {"usd": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}


class NoteError(ValueError):
    """One row cannot be used: the message says which field and what is allowed."""


def rows_of(payload: Payload, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, row) of a CSV with a header. Raises `ParseError` for another file or missing columns.

    Columns nobody asked for, such as who entered the row, are read by nobody and stored nowhere.
    """
    name = document_name(payload)
    text = read_text(payload)
    if text.lstrip()[:1] in "<{[":
        raise ParseError(f"{name}: this is no CSV file")
    reader = csv.DictReader(io.StringIO(text))
    try:
        missing = [n for n in needed if n not in (reader.fieldnames or [])]
        if missing:
            raise ParseError(f"{name}: column {missing[0]!r} is missing; the header must name {', '.join(needed)}")
        for row in reader:
            yield reader.line_num, {k: (v or "").strip() for k, v in row.items() if isinstance(k, str)}
    except csv.Error as error:
        raise ParseError(f"{name}: this is no CSV file, or a damaged one: {error}") from None


def only_columns(body: bytes, kept: tuple[str, ...]) -> bytes:
    """The CSV without any other column, so that who entered a row is not kept; a body that is no CSV stays as it is."""
    try:
        reader = csv.DictReader(io.StringIO(decoded(body, "strict")))
        names = [n for n in reader.fieldnames or [] if n in kept]
        if not names or len(names) == len(reader.fieldnames or []):
            return body
        out = io.StringIO()
        writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(reader)
    except (UnicodeDecodeError, csv.Error):
        return body
    return out.getvalue().encode()


def amount(row: Mapping[str, str], field: str) -> float | None:
    """A sum in dollars: the field times the row's `unit` (usd, thousand, million, billion); None when empty."""
    text = row.get(field, "").replace(",", "")
    if not text:
        return None
    unit = UNITS.get(row.get("unit", "").lower())
    if unit is None:
        raise NoteError(f"unit is {row.get('unit')!r}; write one of {', '.join(UNITS)}")
    try:
        value = float(text)
    except ValueError:
        raise NoteError(f"{field} is {text!r}, not a number") from None
    if not math.isfinite(value) or value < 0:
        raise NoteError(f"{field} is {text!r}; a sum that is not negative is due")
    return float(round(value * unit, 2))


def day(row: Mapping[str, str], field: str) -> dt.datetime:
    """A day as the first moment of it, UTC."""
    try:
        return dt.datetime.combine(dt.date.fromisoformat(row.get(field, "")), dt.time(), dt.UTC)
    except ValueError:
        raise NoteError(f"{field} is {row.get(field)!r}; write a day such as 2026-07-29") from None


def matching(row: Mapping[str, str], field: str, pattern: re.Pattern[str], example: str) -> str:
    """A field that must have a form."""
    value = row.get(field, "")
    if not pattern.match(value):
        raise NoteError(f"{field} is {value!r}; write it like {example}")
    return value


def link(row: Mapping[str, str], field: str) -> str:
    """A web address."""
    value = row.get(field, "")
    if not re.match(r"^https?://[^\s]+$", value):
        raise NoteError(f"{field} is {value!r}; a web address that shows the figure is due")
    return value
