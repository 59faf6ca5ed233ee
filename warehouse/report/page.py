"""The page itself: sections in order, one file, no outside requests.

Belongs here: assembly, the content policy, the file. Does not belong here: what a section shows.
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

import duckdb

from warehouse.home import Home
from warehouse.report import text
from warehouse.report.bundle import chart_library
from warehouse.report.reader import Reader
from warehouse.report.section import Section, render, sections
from warehouse.report.text import Html, Lang, Words, escape
from warehouse.report.view import View

TITLE = Words("GPU Almanac", "GPU 年鉴")
SUBTITLE = Words(
    "GPU clusters and the industry around them: every figure with its source, date and certainty",
    "GPU 集群与行业全景：每个数字都附来源、日期与可信度",
)


def write(home: Home, lang: str) -> Path:
    """Write `report/index.html` (English) or `report/index.zh.html` and return it."""
    chosen: Lang = "zh" if lang == "zh" else "en"
    path = home.report / file_name(chosen)
    home.report.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(home.database), read_only=True) as con:
        page = assemble(Reader(con), chosen, chart_library(home.report))
    part = path.with_suffix(".part")
    part.write_text(page, encoding="utf-8")
    part.replace(path)
    return path


def file_name(lang: Lang) -> str:
    """Name of the page in a language."""
    return "index.html" if lang == "en" else f"index.{lang}.html"


def assemble(reader: Reader, lang: Lang, library: str) -> str:
    """The whole page as text."""
    about = reader.one("select build_id, published_at, almanac_version from ops.build")
    view = View(reader, lang, about["published_at"])
    registered = sections()
    body = text.join((render(section, view) for section in registered), "\n")
    starter = _asset("page.js")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(starter)}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    specs = text.json_for_script(view.charts)
    other: Lang = "en" if lang == "zh" else "zh"
    noscript = view.say(
        "Charts need JavaScript. Every figure also stands in the tables.", "图表需要 JavaScript；所有数字也列在表格中。"
    )
    return f"""<!doctype html>
<html lang="{"zh-CN" if lang == "zh" else "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy).replace("&#x27;", "'")}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(TITLE.of(lang))}</title>
<link rel="icon" href="data:,">
<style>{_asset("style.css")}</style>
</head>
<body>
<a class="skip" href="#main">{escape(view.say("Skip to the figures", "跳到正文"))}</a>
<header>
<p class="language"><a href="{file_name(other)}" hreflang="{other}">{"English" if other == "en" else "中文"}</a></p>
<h1>{escape(TITLE.of(lang))}</h1>
<p class="subtitle">{escape(SUBTITLE.of(lang))}</p>
<p class="origin">{escape(view.say("Published", "发布时间"))} {text.moment(about["published_at"])}</p>
{_contents(registered, view)}
</header>
<noscript><p class="note">{escape(noscript)}</p></noscript>
<main id="main">
{body}
</main>
<footer><p>{escape(view.say("Build", "构建"))} {escape(about["build_id"])} · GPU Almanac {escape(about["almanac_version"])}</p></footer>
<script type="application/json" id="charts">{specs}</script>
<script>{library}</script>
<script>{starter}</script>
</body>
</html>
"""


def _contents(registered: list[Section], view: View) -> Html:
    items = text.join(Html(f'<li><a href="#{s.key}">{escape(s.title.of(view.lang))}</a></li>') for s in registered)
    return Html(f'<nav aria-label="{escape(view.say("Sections", "目录"))}"><ul>{items}</ul></nav>')


def _asset(name: str) -> str:
    return files("warehouse.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
