"""What a section builds with: findings, charts, tables, banners and the line on where figures come from.

Belongs here: HTML of these pieces, escaped. Does not belong here: what a section shows, the page around it.
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warehouse.report import text
from warehouse.report.reader import Reader, Row
from warehouse.report.text import Html, Lang, Words, escape

# Kinds of column whose cells are right-aligned.
NUMERIC = frozenset({"usd", "price", "number", "short", "int", "percent", "change"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: where its value stands in a row, its title and how it is written."""

    key: str
    title: Words
    kind: str = "text"
    digits: int = 1


SOURCE = Column("source_name", Words("Source", "来源"), "source")
CERTAINTY = Column("certainty", Words("Certainty", "可信度"), "certainty")
AS_OF = Column("known_at", Words("As of", "截至"), "day")
PROVENANCE = (AS_OF, SOURCE, CERTAINTY)


@dataclass
class View:
    """The published file seen through one language; collects the charts of the page."""

    reader: Reader
    lang: Lang
    published_at: dt.datetime
    charts: list[dict[str, Any]] = field(default_factory=list)

    def say(self, en: str, zh: str) -> str:
        """The phrase in this page's language."""
        return Words(en, zh).of(self.lang)

    def finding(self, sentence: str) -> Html:
        """A heading that says what the figures below show."""
        return Html(f"<h3>{escape(sentence)}</h3>")

    def note(self, sentence: str) -> Html:
        """A remark on method or meaning."""
        return Html(f'<p class="note">{escape(sentence)}</p>')

    def reason(self, sentence: str) -> Html:
        """Why something is not shown."""
        return Html(f'<p class="reason">{escape(sentence)}</p>')

    def banner(self, sentence: str) -> Html:
        """A warning that cannot be overlooked."""
        return Html(f'<p class="banner" role="note"><strong>{escape(sentence)}</strong></p>')

    def chart(self, chart: Any, *, title: str, alt: str, rows: Iterable[Row] = (), source: Html | None = None) -> Html:
        """A figure with a caption; `rows` are those it was drawn from and give the line on sources."""
        spec = chart.to_dict()
        spec.pop("$schema", None)
        self.charts.append(spec)
        number = len(self.charts)
        origin = source if source is not None else self.origin(rows)
        return Html(
            f'<figure aria-labelledby="t{number}"><figcaption id="t{number}">{escape(title)}</figcaption>'
            f'<div class="chart" id="chart{number}" role="img" aria-label="{escape(alt)}"></div>{origin}</figure>'
        )

    def origin(self, rows: Iterable[Row]) -> Html:
        """`As of … · Source … · Certainty …` over the rows behind a figure."""
        kept = list(rows)
        known = [r["known_at"] for r in kept if r.get("known_at") is not None]
        names: dict[str, object] = {}
        for row in kept:
            names.setdefault(str(row.get("source_name") or row.get("source") or ""), row.get("source_url"))
        names.pop("", None)
        shown = [text.links(name, url) for name, url in list(names.items())[:4]]
        if len(names) > len(shown):
            shown.append(
                escape(
                    self.say(
                        f"and {len(names) - len(shown)} more, in the table", f"等，另 {len(names) - len(shown)} 个见表"
                    )
                )
            )
        sure = sorted({str(r["certainty"]) for r in kept if r.get("certainty")})
        parts = [
            escape(self.say("As of ", "截至 ") + text.day(max(known, default=None))),
            Html(escape(self.say("Source: ", "来源：")) + (text.join(shown, "; ") if shown else "–")),
            escape(
                self.say("Certainty: ", "可信度：")
                + (text.certainty(", ".join(sure), self.lang) if sure else self.say("primary", "一手来源"))
            ),
        ]
        return Html(f'<p class="origin">{text.join(parts, " · ")}</p>')

    def own_origin(self, day: dt.date | dt.datetime | None, what: str, *, synthetic: bool) -> Html:
        """The same line for what the own clusters report."""
        parts = (
            self.say("As of ", "截至 ") + text.day(day),
            self.say("Source: ", "来源：") + what,
            self.say("Certainty: ", "可信度：")
            + (self.say("synthetic", "合成") if synthetic else self.say("measured", "实测")),
        )
        return Html(f'<p class="origin">{escape(" · ".join(parts))}</p>')

    def table(
        self, columns: Sequence[Column], rows: Sequence[Row], *, caption: str, folded: bool = False, most: int = 400
    ) -> Html:
        """A table; folded ones open on a click. Rows beyond `most` are counted, not shown."""
        head = "".join(f'<th scope="col"{_side(c)}>{escape(c.title.of(self.lang))}</th>' for c in columns)
        body = "".join(
            "<tr>" + "".join(f"<td{_side(c)}>{self.cell(c, row)}</td>" for c in columns) + "</tr>"
            for row in rows[:most]
        )
        more = len(rows) - most
        rest = (
            self.note(self.say(f"{more:,} more rows in the warehouse.", f"数据库中另有 {more:,} 行。"))
            if more > 0
            else ""
        )
        shown = (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
            f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}"
        )
        if not folded:
            return Html(shown)
        count = self.say(f"{len(rows):,} row{'s' * (len(rows) != 1)}", f"{len(rows):,} 行")
        return Html(f"<details><summary>{escape(caption)} ({count})</summary>{shown}</details>")

    def cell(self, column: Column, row: Mapping[str, Any]) -> Html:
        """One value as HTML."""
        value = row.get(column.key)
        if column.kind == "html":
            return Html(value or "")
        if column.kind == "source":
            label = value or row.get("source") or ""
            return text.links(label, row.get("source_url")) if label or row.get("source_url") else text.UNKNOWN
        if column.kind == "certainty":
            primary = self.say("primary", "一手来源") if row.get("source_rank") == 1 else None
            return escape(text.certainty(value or primary, self.lang)) if value or primary else text.UNKNOWN
        if value is None or value == "":
            return text.UNKNOWN
        return escape(self.written(column, value))

    def written(self, column: Column, value: Any) -> str:
        """One value as text."""
        if column.kind in _WRITERS:
            return _WRITERS[column.kind](value, column, self.lang)
        if isinstance(value, dt.datetime):
            return text.moment(value)
        return text.short(value) if isinstance(value, float) else str(value)


_WRITERS: Mapping[str, Callable[[Any, Column, Lang], str]] = {
    "usd": lambda value, _, lang: text.usd(value, lang),
    "price": lambda value, _, __: text.price(value),
    "percent": lambda value, column, _: text.percent(value, column.digits),
    "change": lambda value, _, __: text.change(value),
    "number": lambda value, column, _: text.number(value, column.digits),
    "short": lambda value, _, __: text.short(value),
    "int": lambda value, _, __: text.number(value),
    "day": lambda value, _, __: text.day(value),
    "moment": lambda value, _, __: text.moment(value),
}


def _side(column: Column) -> str:
    if column.kind in NUMERIC:
        return ' class="num"'
    if column.kind in ("html", "long"):
        return ' class="wide"'
    return ' class="day"' if column.kind in ("day", "moment", "name") else ""
