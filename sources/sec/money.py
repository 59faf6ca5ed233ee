"""Sums as sentences write them: ranges, tolerances, "approximately", "at least".

Belongs here: the grammar of amounts. Does not belong here: what an amount is about (`guidance.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_UNIT = r"\[?(thousand|million|billion|trillion)\]?"
_ONE = rf"\$\s?({_NUMBER})(?:\s*{_UNIT})?"
_TWO = rf"\$?\s?({_NUMBER})\s*{_UNIT}"
_JOIN = r"\s*(?:to|and|-|\u2010|\u2011|\u2012|\u2013|\u2014)\s*"
_RANGE = re.compile(rf"{_ONE}{_JOIN}{_TWO}", re.IGNORECASE)
_TOLERANCE = re.compile(
    rf"\$\s?({_NUMBER})\s*{_UNIT}\s*,?\s*(?:plus or minus|\u00b1|\+/-)\s*"
    rf"(?:\$\s?({_NUMBER})\s*{_UNIT}|({_NUMBER})\s*(?:%|percent))",
    re.IGNORECASE,
)
_SINGLE = re.compile(rf"\$\s?({_NUMBER})\s*{_UNIT}", re.IGNORECASE)
_AT_LEAST = re.compile(r"(?:\bover|\bmore than|\bat least|\babove|\bexceed(?:ing)?|\bin excess of)\s*$", re.IGNORECASE)
_AT_MOST = re.compile(r"(?:\bup to|\bat most|\bless than|\bno more than|\bbelow)\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sum:
    """An amount in dollars with its form and the place it takes in the text."""

    kind: str
    low: float | None
    mid: float | None
    high: float | None
    ratio: float | None
    start: int
    end: int


def sums_in(text: str) -> list[Sum]:
    """Every sum in a text, each counted once, in reading order. Only sums with a unit of scale count."""
    found: list[Sum] = []
    for reader in (_tolerances, _ranges, _singles):
        for one in reader(text):
            if all(one.end <= other.start or one.start >= other.end for other in found):
                found.append(one)
    return sorted(found, key=lambda s: s.start)


def dollars(number: str, unit: str) -> float:
    """`4.40`, `billion` as dollars, exact to the dollar."""
    # Decimal digits times a power of ten: rounding keeps 4.40 billion at 4,400,000,000 exactly.
    return float(round(float(number.replace(",", "")) * _SCALES[unit.lower()]))


def _tolerances(text: str) -> list[Sum]:
    found = []
    for m in _TOLERANCE.finditer(text):
        mid = dollars(m[1], m[2])
        if m[5]:
            ratio = float(m[5].replace(",", "")) / 100
            half = mid * ratio
            kind = "plus_minus_percent"
        else:
            half, ratio, kind = dollars(m[3], m[4]), None, "plus_minus_amount"
        found.append(Sum(kind, float(round(mid - half)), mid, float(round(mid + half)), ratio, *m.span()))
    return found


def _ranges(text: str) -> list[Sum]:
    found = []
    for m in _RANGE.finditer(text):
        low, high = dollars(m[1], m[2] or m[4]), dollars(m[3], m[4])
        if low <= high:
            found.append(Sum("range", low, (low + high) / 2, high, None, *m.span()))
    return found


def _singles(text: str) -> list[Sum]:
    found = []
    for m in _SINGLE.finditer(text):
        value, before = dollars(m[1], m[2]), text[max(0, m.start() - 20) : m.start()]
        if _AT_LEAST.search(before):
            found.append(Sum("at_least", value, None, None, None, *m.span()))
        elif _AT_MOST.search(before):
            found.append(Sum("at_most", None, None, value, None, *m.span()))
        else:
            found.append(Sum("approximately", value, value, value, None, *m.span()))
    return found
