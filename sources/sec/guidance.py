"""What a company expects, from its own sentences: revenue and capital expenditure, period, definition, evidence.

Belongs here: the grammar of statements. A sentence it does not cover is refused for a person to read, never guessed.
Does not belong here: amounts (`money.py`), what is said only on calls (`guidance_notes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sources.sec.companies import Company
from sources.sec.fiscal import label
from sources.sec.money import Sum, sums_in

_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
_ABBREVIATIONS = (
    "inc.",
    "corp.",
    "ltd.",
    "co.",
    "u.s.",
    "no.",
    "vs.",
    "mr.",
    "ms.",
    "nov.",
    "feb.",
    "calif.",
    "approx.",
)
_AHEAD = re.compile(
    r"\b(expect(?:s|ed)?|anticipat(?:e|es|ed)|guidance|outlook|estimat(?:e|es)|project(?:s|ed)?|will (?:be|spend|invest)"
    r"|plan(?:s|ned)? to|forecast(?:s|ing)?)\b",
    re.IGNORECASE,
)
_CAPEX = re.compile(r"\b(capital expenditures?|capital expenses?|cap-?ex)\b", re.IGNORECASE)
_REVENUE = re.compile(r"\b(revenues?|net sales)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(was|were|increased|decreased|grew|reported|totaled)\b", re.IGNORECASE)
_PRIOR = re.compile(
    r"(?:,?\s*(?:updated|increased|narrowed|raised|lowered|decreased|reduced|revised|up|down)\s+)?from\s+"
    r"(?:our|its|the|their)?\s*(?:prior|previous|earlier)\s+(?:range|outlook|estimate|guidance|expectation)s?"
    r"(?:\s+range)?\s+of\s+",
    re.IGNORECASE,
)
_QUARTER = re.compile(
    r"\b(first|second|third|fourth)\s+(?:fiscal\s+)?quarter\s*(?:of\s+)?(?:fiscal\s+)?(?:year\s+)?(20\d\d)?",
    re.IGNORECASE,
)
_QN = re.compile(r"\bQ([1-4])(?:\s*(?:FY|fiscal)?\s*'?(\d{2}|20\d\d))?\b")
_YEARS = (
    re.compile(r"\b(?:fiscal(?:\s+year)?|FY)\s*'?(20\d\d|\d\d)\b", re.IGNORECASE),
    re.compile(r"\bfull[\s-]*year\s+(?:of\s+)?(20\d\d)\b", re.IGNORECASE),
    re.compile(r"\b(20\d\d)\s+(?:total\s+)?(?:cash\s+)?(?:capital exp|cap-?ex)", re.IGNORECASE),
    re.compile(r"\b(?:in|for|during)\s+(?:the\s+)?(?:full[\s-]*year\s+)?(20\d\d)\b", re.IGNORECASE),
)
_CALENDAR = re.compile(r"\bcalendar(?:\s+year)?\s+(20\d\d)\b", re.IGNORECASE)
_FULL_YEAR = re.compile(r"\b(?:full[\s-]*year|for the year)\b", re.IGNORECASE)
_CONTEXT = re.compile(
    r"\b(?:outlook|guidance) for the (first|second|third|fourth) quarter(?: of)?(?: fiscal)?(?: year)? (20\d\d)"
    r"|\b(first|second|third|fourth) quarter(?: of)?(?: fiscal)? (20\d\d) (?:guidance|outlook)",
    re.IGNORECASE,
)
# Words right before "revenue" that leave it the total; anything else names a part of it.
_TOTAL_WORDS = re.compile(
    r"(?:^|[,:;\u2022(]\s*|\b(?:expects?|expect|anticipates?|our|its|total|net|that|quarter|20\d\d|consolidated|and)\s+)$",
    re.IGNORECASE,
)
MEANINGS = {
    "META": (
        "capex_incl_finance_lease_principal",
        "capital expenditures including principal payments on finance leases",
    ),
    "GOOGL": ("capex_cash_ppe", "capital expenditures (cash purchases of property and equipment)"),
    "MSFT": (
        "capex_mgmt_incl_finance_leases",
        "capital expenditures including finance leases, as management counts them",
    ),
    "ORCL": ("capex_cash_ppe", "capital expenditures (cash)"),
}
CALENDAR = -1
COMPANY_DEFINITION = ("capex_company_definition", "capital expenditures as the company counts them")


@dataclass(frozen=True, slots=True)
class Stated:
    """One statement that the grammar covers: about (fiscal year, quarter), (fiscal year, 0), or (calendar year, -1)."""

    metric: str
    target: tuple[int, int]
    amount: Sum
    prior: Sum | None
    definition: str
    evidence: str
    confidence: str

    @property
    def target_period(self) -> str:
        """`FY27Q2`, `FY26` or `CY2026`."""
        year, quarter = self.target
        return f"CY{year}" if quarter == CALENDAR else label(year, quarter or None)


@dataclass(frozen=True, slots=True)
class Unread:
    """A sentence that looks ahead and names a sum, and why the grammar does not cover it."""

    sentence: str
    reason: str


def sentences(text: str) -> Iterator[str]:
    """Sentences and bullet points of a text with single spaces."""
    start = 0
    for m in re.finditer(
        r"(?<=[.!?:])[\u201d\u2019\"']?\s+(?=[A-Z\u2022\u201c\"])|\s*(?:[\u2022\u25cf\u25aa\u00b7]|_{3,})\s*", text
    ):
        piece = text[start : m.start()].strip()
        if piece.lower().rsplit(" ", 1)[-1] in _ABBREVIATIONS:
            continue
        if piece:
            yield piece
        start = m.end()
    if text[start:].strip():
        yield text[start:].strip()


def read_guidance(text: str, company: Company, own: tuple[int, int] | None) -> tuple[list[Stated], list[Unread]]:
    """Statements on revenue and capital expenditure; `own` is the (fiscal year, quarter) the document reports."""
    stated: list[Stated] = []
    unread: list[Unread] = []
    context: tuple[int, int] | None = None
    for sentence in sentences(text):
        heading = _CONTEXT.search(sentence)
        if heading:
            context = (int(heading[2] or heading[4]), _ORDINALS[(heading[1] or heading[3]).lower()])
        if "$" not in sentence or not _AHEAD.search(sentence):
            continue
        if _CAPEX.search(sentence):
            one = _capex(sentence, company, own)
        elif _REVENUE.search(sentence) and not _PAST.search(sentence[: sentence.find("$")]):
            one = _revenue(sentence, own, context)
        else:
            continue
        if isinstance(one, Stated):
            stated.append(one)
        elif one is not None:
            unread.append(one)
    return stated, unread


def _revenue(sentence: str, own: tuple[int, int] | None, context: tuple[int, int] | None) -> Stated | Unread | None:
    word = _REVENUE.search(sentence)
    amounts = sums_in(sentence)
    ahead = _AHEAD.search(sentence)
    if word is None or ahead is None or not amounts or amounts[0].start < word.end():
        return None
    before = sentence[: word.start()]
    metric, definition = "revenue", "total revenue"
    if re.search(r"\bAI(?: semiconductor)?\s+$", before):
        metric, definition = "ai_semiconductor_revenue", "AI semiconductor revenue as the company counts it"
    elif not _TOTAL_WORDS.search(before):
        return Unread(sentence, "a part of revenue, not the total, is guided") if _names_target(sentence) else None
    target = _quarter_of(sentence, own) or context
    if target is None or (own is not None and not _is_after(target, own)):
        return Unread(sentence, "the sentence does not say which coming quarter it is about")
    return Stated(metric, target, amounts[0], None, definition, sentence, "high")


def _names_target(sentence: str) -> bool:
    return bool(_QUARTER.search(sentence) or _QN.search(sentence))


def _capex(sentence: str, company: Company, own: tuple[int, int] | None) -> Stated | Unread | None:
    prior, rest = _without_prior(sentence)
    amounts = sums_in(rest)
    if not amounts:
        return None if _PAST.search(sentence) else Unread(sentence, "no sum with a unit stands in the sentence")
    if _PAST.search(rest[: amounts[0].start]) and not _AHEAD.search(rest[: amounts[0].start]):
        return None
    if len(amounts) > 1:
        return Unread(sentence, "more than one sum stands in the sentence")
    target = _capex_target(rest, company, own)
    if isinstance(target, str):
        return Unread(sentence, target)
    metric, definition, sure = _capex_definition(sentence, company)
    return Stated(metric, target, amounts[0], prior, definition, sentence, "high" if sure else "medium")


def _without_prior(sentence: str) -> tuple[Sum | None, str]:
    """The earlier range that the sentence names, and the sentence without it."""
    named = _PRIOR.search(sentence)
    if not named:
        return None, sentence
    earlier = [s for s in sums_in(sentence) if s.start >= named.end() - 1]
    if not earlier:
        return None, sentence
    return earlier[0], sentence[: named.start()] + sentence[earlier[0].end :]


def _capex_definition(sentence: str, company: Company) -> tuple[str, str, bool]:
    """Metric, words, and whether the sentence itself says what is counted."""
    text = sentence.lower()
    if "principal payments on finance leases" in text:
        return *MEANINGS["META"], True
    if "net cash outlay" in text:
        return "capex_net_cash_outlay", "net cash outlay for capital expenditures, less financing and prepayments", True
    if company.ticker == "AMZN" and re.search(r"cash cap-?ex", text):
        return "capex_net_of_proceeds", "cash capital expenditures, net of proceeds from sales and incentives", True
    return *MEANINGS.get(company.ticker, COMPANY_DEFINITION), False


def _capex_target(text: str, company: Company, own: tuple[int, int] | None) -> tuple[int, int] | str:
    """What period the sentence is about, as in `Stated.target`, or why it cannot be told."""
    is_calendar_year = company.year_end_month == 12  # noqa: PLR2004
    calendar = {int(m[1]) for m in _CALENDAR.finditer(text)}
    if len(calendar) == 1:
        return calendar.pop(), 0 if is_calendar_year else CALENDAR
    quarter = _quarter_of(text, own)
    if quarter:
        return quarter
    years, is_fiscal = _years_in(text)
    if len(years) == 1 and (is_calendar_year or is_fiscal):
        return years.pop(), 0
    if years:
        return "more than one year is named, or a bare year that may be the fiscal or the calendar one"
    if _FULL_YEAR.search(text) and own and own[1] < 4:  # noqa: PLR2004
        return own[0], 0
    return "the sentence does not say which period it is about"


def _years_in(text: str) -> tuple[set[int], bool]:
    """The years named in the clearest way that occurs, and whether they are said to be fiscal."""
    for pattern in _YEARS:
        years = {2000 + int(m[1][-2:]) for m in pattern.finditer(text)}
        if years:
            return years, pattern is _YEARS[0]
    return set(), False


def _quarter_of(text: str, own: tuple[int, int] | None) -> tuple[int, int] | None:
    """The one quarter a text names; without a year, the next one of that number after the reported quarter."""
    found: set[tuple[int, int]] = set()
    named = [(_ORDINALS[m[1].lower()], m[2]) for m in _QUARTER.finditer(text)]
    named += [(int(m[1]), m[2]) for m in _QN.finditer(text)]
    for quarter, year in named:
        if year:
            found.add((2000 + int(year[-2:]), quarter))
        elif own:
            found.add((own[0] + (quarter <= own[1]), quarter))
    return _first_after(found, own)


def _first_after(found: set[tuple[int, int]], own: tuple[int, int] | None) -> tuple[int, int] | None:
    """The only candidate after the reported quarter; the others are comparisons. Without one: None."""
    coming = {f for f in found if own is None or _is_after(f, own)}
    return coming.pop() if len(coming) == 1 else None


def _is_after(target: tuple[int, int], own: tuple[int, int]) -> bool:
    return 4 * target[0] + target[1] > 4 * own[0] + own[1]
