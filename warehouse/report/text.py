"""How figures, days and links are written in each language, and the one way text becomes HTML.

Belongs here: escaping, number formats, links. Does not belong here: sentences of a section.
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import datetime as dt
import html
import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, NewType
from urllib.parse import urlsplit

Lang = Literal["en", "zh"]
Html = NewType("Html", str)
MILLION, BILLION, YI = 1e6, 1e9, 1e8
CODE_LENGTH = 3
UNKNOWN = Html('<span class="unknown" title="not known">–</span>')


class Words(NamedTuple):
    """One phrase in both languages."""

    en: str
    zh: str

    def of(self, lang: Lang) -> str:
        return self.zh if lang == "zh" else self.en


def escape(text: object) -> Html:
    """Text as HTML. Everything that was read from outside passes through here."""
    return Html(html.escape(str(text), quote=True))


def json_for_script(value: Any) -> str:
    """JSON that cannot end or open a tag inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def link(label: object, url: object) -> Html:
    """A link, or the bare label where the address is not a plain web address."""
    address = str(url or "").strip()
    try:
        parts = urlsplit(address)
    except ValueError:
        return escape(label)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return escape(label)
    return Html(f'<a href="{escape(address)}" rel="noopener noreferrer nofollow">{escape(label)}</a>')


def links(label: object, urls: object) -> Html:
    """Links to one or several addresses that are separated by blanks."""
    listed = str(urls or "").split()
    if len(listed) <= 1:
        return link(label, listed[0] if listed else "")
    numbered = (link(f"[{number}]", url) for number, url in enumerate(listed, 1))
    return Html(f"{escape(label)} {' '.join(numbered)}")


def join(parts: Iterable[Html], between: str = "") -> Html:
    """Pieces of HTML as one; `between` is ours, never data."""
    return Html(between.join(parts))


def number(value: float | None, digits: int = 0) -> str:
    """With thousands separators; a dash where it is not known."""
    return "–" if value is None else f"{value:,.{digits}f}"


def short(value: float | None) -> str:
    """Three or four figures that matter, whatever the size."""
    if value is None:
        return "–"
    size = abs(value)
    if value == int(value) and size < MILLION * 10:
        return f"{value:,.0f}"
    return number(value, next((digits for least, digits in ((1000, 0), (100, 1), (1, 2)) if size >= least), 3))


def money_unit(lang: Lang) -> tuple[float, str]:
    """Divisor and name of the unit in which large sums of dollars are written."""
    return (YI, "亿美元") if lang == "zh" else (BILLION, "billion USD")


CERTAINTIES = {
    "high": "高",
    "medium": "中",
    "low": "低",
    "estimate": "估计",
    "analyst": "分析师",
    "analyst estimate": "分析师估计",
    "survey": "调查",
    "press": "媒体",
    "secondary": "二手来源",
    "confirmed": "已确认",
    "likely": "较可信",
    "unverified": "未核实",
    "company claim": "企业自述",
    "announced": "已宣布",
    "memory": "凭记忆",
    "definition": "定义",
}


def certainty(words: object, lang: Lang) -> str:
    """How sure a figure is, in the page's language; words that are not known here stay as they are."""
    if lang == "en":
        return str(words)
    return "、".join(CERTAINTIES.get(word, word) for word in str(words).split(", "))


def usd(value: float | None, lang: Lang) -> str:
    """A large sum: `$165.1 bn`, or `1,650.5 亿美元`."""
    if value is None:
        return "–"
    if lang == "zh":
        return f"{value / YI:,.1f} 亿美元"
    return f"${value / BILLION:,.1f} bn" if abs(value) >= BILLION else f"${value / MILLION:,.1f} m"


def price(value: float | None) -> str:
    """Dollars and cents."""
    return "–" if value is None else f"${value:,.2f}"


def percent(ratio: float | None, digits: int = 1) -> str:
    """A ratio as a percentage."""
    return "–" if ratio is None else f"{ratio * 100:,.{digits}f} %"


def change(ratio: float | None) -> str:
    """A signed percentage with an arrow, so that colour is not needed."""
    if ratio is None:
        return "–"
    arrow = "▲" if ratio > 0 else "▼" if ratio < 0 else "="
    return f"{arrow} {ratio * 100:+,.1f} %"


def day(value: dt.date | dt.datetime | None) -> str:
    """An ISO day."""
    return "–" if value is None else f"{value:%Y-%m-%d}"


def moment(value: dt.datetime | None) -> str:
    """An instant to the minute, UTC."""
    return "–" if value is None else f"{value.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def measured(value: float | None, unit: str | None, lang: Lang) -> str:
    """A figure as an indicator states it; units that are no part of the number stand beside it."""
    unit = unit or ""
    if value is None or unit == "USD":
        return usd(value, lang)
    if unit == "USD per quarter":
        return usd(value, lang) + (" 每季" if lang == "zh" else " a quarter")
    if unit == "USD per GPU-hour":
        return f"{value:,.2f} 美元" if lang == "zh" else price(value)
    if unit.startswith(("percent", "MFU")):
        return percent(value, 0) if unit.startswith("MFU") else f"{short(value)} %"
    return currency(value, unit, lang) if len(unit) == CODE_LENGTH else short(value)


def currency(value: float, code: str, lang: Lang) -> str:
    """A sum in another currency than dollars, with its code."""
    return f"{value / YI:,.1f} 亿 {code}" if lang == "zh" else f"{value / BILLION:,.1f} bn {code}"
