"""The registry of sections: one module in `sections/` each, found by walking the package.

Belongs here: what a section is, and why one cannot be shown. Does not belong here: any section.
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb

from warehouse.report import text
from warehouse.report.text import Html, Words, escape
from warehouse.report.view import View

NOTHING_YET = Words("nothing has been loaded into it yet", "尚未载入数据")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    needs: tables without which it has nothing to show · also: marts it shows where they are there · empty: why a
    needed table may be empty.
    """

    key: str
    order: int
    title: Words
    build: Callable[[View], Iterator[Html]]
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    empty: Words = NOTHING_YET


def sections() -> list[Section]:
    """Every section in reading order. A module in `sections/` that defines `SECTION` is one."""
    from warehouse.report import sections as package

    found = []
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        if isinstance(section := getattr(loaded, "SECTION", None), Section):
            found.append(section)
    return sorted(found, key=lambda s: (s.order, s.key))


def covered() -> frozenset[str]:
    """Tables that some section shows in its own way."""
    return frozenset(table for section in sections() for table in (*section.needs, *section.also))


def missing(section: Section, view: View) -> str | None:
    """Why the section cannot be shown, in one line; None when it can."""
    for table in section.needs:
        if table not in view.reader.tables:
            return view.say(f"Not shown: this warehouse has no table {table}.", f"未显示：本数据库没有表 {table}。")
        if not view.reader.has(table):
            why = section.empty.of(view.lang)
            return view.say(f"Not shown: {table} is empty, {why}.", f"未显示：{table} 为空，{why}。")
    return None


def render(section: Section, view: View) -> Html:
    """The section as HTML, or its heading with the reason why it is not there.

    A file published by another version may lack a column: that costs its section, not the page.
    """
    why = missing(section, view)
    drawn = len(view.charts)
    try:
        inner = view.reason(why) if why else text.join(section.build(view), "\n")
    except duckdb.Error as error:
        del view.charts[drawn:]
        said = " ".join(str(error).split())[:200]
        inner = view.reason(view.say(f"Not shown: the query failed: {said}", f"未显示：查询失败：{said}"))
    title = escape(section.title.of(view.lang))
    return Html(
        f'<section id="{section.key}" aria-labelledby="h-{section.key}"><h2 id="h-{section.key}">{title}</h2>\n{inner}</section>'
    )
