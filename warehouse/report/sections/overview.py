"""Overview: the tracked indicators as cards, each with change, date, source and certainty."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from warehouse.report import text
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words, escape
from warehouse.report.view import View

GROUPS = {
    "supply": Words("Supply", "供给端"),
    "demand": Words("Demand", "需求端"),
    "technology": Words("Technology and efficiency", "技术与效率"),
    "policy": Words("Policy and geopolitics", "政策与地缘"),
}
UNITS = {
    "wafers per quarter": Words("wafers a quarter", "片/季"),
    "documents": Words("documents", "份文件"),
    "releases": Words("releases", "个版本"),
    "installations": Words("installations", "个集群"),
    "notices": Words("notices", "条公告"),
    "minutes": Words("minutes", "分钟"),
    "USD per GPU-hour": Words("per GPU-hour", "/GPU 小时"),
    "INR per GPU-hour": Words("INR per GPU-hour", "印度卢比/GPU 小时"),
}
NEWEST = Words("newest: ", "最新：")
LEADS = {"documents": NEWEST, "releases": NEWEST, "notices": NEWEST, "installations": Words("largest: ", "最大：")}


def build(view: View) -> Iterator[Html]:
    """Four groups of cards."""
    lang = view.lang
    rows = view.reader.rows(
        "select * from mart.indicators order by array_position(['supply', 'demand', 'technology', 'policy'], "
        "indicator_group), indicator_id"
    )
    details: dict[str, list[Row]] = {}
    for reading in view.reader.rows("select * from mart.indicator_readings order by indicator_id, position"):
        details.setdefault(reading["indicator_id"], []).append(reading)
    known = sum(r["status"] != "no source yet" for r in rows)
    yield view.finding(
        view.say(
            f"{known} of {len(rows)} tracked indicators have a figure", f"{len(rows)} 项跟踪指标中 {known} 项已有数据"
        )
    )
    for group, members in groupby(rows, key=lambda r: r["indicator_group"]):
        cards = text.join(card(view, row, details.get(row["indicator_id"], [])) for row in members)
        yield Html(f'<h3>{escape(GROUPS[group].of(lang))}</h3><div class="cards">{cards}</div>')


def card(view: View, row: Row, readings: list[Row]) -> Html:
    """One indicator."""
    lang = view.lang
    name = row["name_zh"] if lang == "zh" else row["name_en"]
    head = f'<h4>{escape(name)} <span class="id">{escape(row["indicator_id"])}</span></h4>'
    reason = row["reason_zh"] if lang == "zh" else row["reason"]
    if row["status"] == "no source yet":
        missing = escape(view.say("no source yet", "尚无来源"))
        return Html(
            f'<article class="card">{head}<p class="value none">{missing}</p>'
            f'<p class="soft">{escape(reason)}</p>{more(view, row, [])}</article>'
        )
    parts = [head, f'<p class="value">{figure(view, row)}</p>', f"<p>{escape(meaning(view, row))}</p>"]
    if row["change_ratio"] is not None:
        parts.append(f'<p class="change">{escape(compared(view, row))}</p>')
    if reason:
        parts.append(f'<p class="soft">{escape(reason)}</p>')
    return Html(f'<article class="card">{"".join(parts)}{origin(view, row)}{more(view, row, readings)}</article>')


def figure(view: View, row: Row) -> Html:
    """The figure and its unit: a value, else a range."""
    lang, unit = view.lang, row["unit"]
    suffix = f" <small>{escape(UNITS[unit].of(lang))}</small>" if unit in UNITS else ""
    if row["value"] is not None:
        bound = view.say("more than ", "超过 ") if row["value_text"] == "more than" else ""
        return Html(f"{escape(bound + text.measured(row['value'], unit, lang))}{suffix}")
    low, high = (
        text.measured(row[end], unit, lang) if row[end] is not None else "" for end in ("value_low", "value_high")
    )
    said = f"{low} {view.say('to', '至')} {high}" if low and high else f"{'≥' if low else '≤'} {low or high}"
    return Html(f"{escape(said)}{suffix}")


def meaning(view: View, row: Row) -> str:
    """What the figure is: whose, of which period, with the words that go with it."""
    what = row["measure_zh"] if view.lang == "zh" else row["measure_en"]
    whose = f"{row['entity']} " if row["entity"] not in (None, "global", "market", "industry") else ""
    words = row["value_text"] if row["value_text"] not in (None, "more than") else None
    lead = LEADS[row["unit"]].of(view.lang) if row["unit"] in LEADS else ""
    counted = view.say(" to ", "，截至 ") if row["unit"] in LEADS else view.say(", ", "，")
    return f"{whose}{what}{counted}{row['period']}" + (f" · {lead}{words}" if words else "")


def compared(view: View, row: Row) -> str:
    """Changes on the figure before and on the year before."""
    before = {
        "365 days before": Words("the 365 days before", "前 365 天"),
        "90 days before": Words("the 90 days before", "前 90 天"),
    }
    named = before[row["previous_period"]].of(view.lang) if row["previous_period"] in before else row["previous_period"]
    if named == row["period"]:
        named = view.say("the statement before", "上次表述")
    said = f"{text.change(row['change_ratio'])} {view.say('on', '较')} {named}"
    if row["year_change_ratio"] is not None:
        said += f" · {text.change(row['year_change_ratio'])} {view.say('on the year', '同比')}"
    return said


def origin(view: View, row: Row) -> Html:
    """As of, source, certainty, and whether something newer should exist by now."""
    stale = row["stale_after_at"] is not None and row["stale_after_at"] < view.published_at
    badge = (
        f' <span class="badge">{escape(view.say("something newer may exist", "可能已有更新"))}</span>' if stale else ""
    )
    named = str(row["source_name"] or row["source"])
    if named.startswith("sum of "):
        named = view.say(named, named.replace("sum of ", "合计：").replace(", ", "、"))
    source = text.links(named, row["source_url"])
    sure = text.certainty(row["certainty"], view.lang) if row["certainty"] else view.say("primary", "一手来源")
    return Html(
        f'<p class="origin">{escape(view.say("As of", "截至"))} {text.day(row["as_of_date"])} · '
        f"{escape(view.say('Source:', '来源：'))} {source} · {escape(view.say('Certainty:', '可信度：'))} {escape(sure)}{badge}</p>"
    )


def more(view: View, row: Row, readings: list[Row]) -> Html:
    """The other figures of the indicator and what no source covers, folded."""
    items = [
        f"<li>{escape(meaning(view, r))}: <strong>{figure(view, r)}</strong>{origin(view, r | {'stale_after_at': None})}</li>"
        for r in readings
        if r["status"] != "no data" and r["feed"] != row["feed"]
    ]
    if row["gap"]:
        items.append(f"<li>{escape(view.say('Not covered: ', '未覆盖：'))}{escape(row['gap'])}</li>")
    if not items:
        return Html("")
    return Html(f"<details><summary>{escape(view.say('more', '更多'))}</summary><ul>{''.join(items)}</ul></details>")


SECTION = Section(
    "overview", 10, Words("Overview", "总览"), build, needs=("mart.indicators", "mart.indicator_readings")
)
