"""Reading a page of the report as a browser would, without running it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import duckdb

from warehouse.home import Home
from warehouse.report.page import assemble
from warehouse.report.reader import Reader


class Page(HTMLParser):
    """Tags with their attributes, scripts, styles and the text a person sees."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self._words: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open.append(tag)
            if tag == "script":
                self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._open:
            self.styles.append(data)
        else:
            self._words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self._words))

    @property
    def charts(self) -> list[dict]:
        (found,) = [text for attributes, text in self.scripts if attributes.get("id") == "charts"]
        return json.loads(found)

    @property
    def policy(self) -> str:
        (found,) = [a["content"] for t, a in self.tags if t == "meta" and a.get("http-equiv")]
        return found or ""

    def links(self) -> list[str]:
        return [a.get("href") or "" for t, a in self.tags if t == "a"]

    def has_class(self, name: str) -> bool:
        return any(name in (a.get("class") or "").split() for _, a in self.tags)


def page(home: Home, lang: str = "en") -> Page:
    """The page, with a stand-in for the chart library, which takes seconds to bundle."""
    with duckdb.connect(str(home.database), read_only=True) as con:
        return Page(assemble(Reader(con), lang, "window.vegaEmbed = function () {};"))


def digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
