"""The page itself: sections in order, one file, no outside requests.

Belongs here: assembly of sections. Does not belong here: what a section shows.
"""

from __future__ import annotations

import html
from pathlib import Path

import duckdb

from warehouse.home import Home
from warehouse.marts import marts


def write(home: Home, lang: str) -> Path:
    """Write `report/index.html` (English) or `report/index.zh.html` and return it."""
    name = "index.html" if lang == "en" else f"index.{lang}.html"
    parts = [f"<!doctype html><html lang={lang}><meta charset=utf-8><title>GPU Almanac</title>"]
    with duckdb.connect(str(home.database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        for mart in marts():
            rows = con.sql(f"select * from mart.{mart.name} limit 50")
            head = "".join(f"<th>{html.escape(c)}" for c in rows.columns)
            body = "".join("<tr>" + "".join(f"<td>{html.escape(str(v))}" for v in r) for r in rows.fetchall())
            parts.append(f"<h2>{html.escape(mart.meaning)}</h2><table><tr>{head}{body}</table>")
    path = home.report / name
    part = path.with_suffix(".part")
    part.write_text("\n".join(parts), encoding="utf-8")
    part.replace(path)
    return path
