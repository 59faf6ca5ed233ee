"""Data-centre revenue of the vendors, and NVIDIA's revenue against its own guidance."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import altair as alt

from warehouse.report import charts, text
from warehouse.report.guidance_charts import revenue_band
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words
from warehouse.report.view import AS_OF, CERTAINTY, SOURCE, Column, View

REVENUE = """
select entity, metric, definition_version, fiscal_period, period_end, value_usd, qoq_ratio, yoy_ratio, ttm_usd,
    share_of_revenue_ratio, definition, source, trim(coalesce(form, '') || ' ' || coalesce(accession, source)) as source_name,
    source_url, certainty, value_known_at as known_at
from mart.vendor_datacenter_revenue
where is_latest
order by period_end desc, entity, metric
"""

# The newest statement before the quarter's figure came out; what others say of it later is no guidance.
GUIDED = """
select entity, target_period as fiscal_period, target_period_end, actual_usd as value_usd, low_usd, mid_usd, high_usd,
    actual_to_mid_ratio as beat_ratio, stated_known_at as guided_at, coalesce(channel || ' ' || source, source) as source_name,
    source_url, certainty, known_at
from mart.guidance_history
where is_latest and is_newest_statement and metric = 'revenue' and entity = 'NVDA' and target_period like '%Q%'
    and mid_usd is not null
order by target_period, stated_known_at
"""

STATED = """
select entity, metric, target_period, channel, low_usd, mid_usd, high_usd, revision_ratio, actual_usd, actual_position,
    actual_to_mid_ratio, definition, source, source as source_name, source_url, certainty, stated_known_at as known_at
from mart.guidance_history
where is_latest
order by stated_known_at desc, entity, metric, target_period
"""

DATA_CENTRE = "data_center_revenue"
NAMES = {"NVDA": "NVIDIA", "AMD": "AMD"}


def build(view: View) -> Iterator[Html]:
    """Lines of data-centre revenue, then actual against guided revenue."""
    rows = view.reader.rows(REVENUE)
    yield from revenue(view, [r for r in rows if r["metric"] == DATA_CENTRE], rows)
    if not view.reader.has("mart.guidance_history"):
        yield view.reason(
            view.say(
                "Guidance is not shown: mart.guidance_history is empty.", "未显示指引：mart.guidance_history 为空。"
            )
        )
        return
    guided = view.reader.rows(GUIDED)
    if guided:
        yield from band(view, guided, [r for r in rows if r["metric"] == DATA_CENTRE and r["entity"] == "NVDA"])
        yield from guidance(view, guided)
    yield statements(view)


def revenue(view: View, rows: list[Row], every: list[Row]) -> Iterator[Html]:
    """Quarterly data-centre revenue of each vendor, and a table of every metric that is held."""
    if rows:
        yield from lines(view, rows)
    columns = (
        Column("entity", Words("Company", "公司")),
        Column("metric", Words("Counted", "口径")),
        Column("fiscal_period", Words("Fiscal quarter", "财季")),
        Column("period_end", Words("Ends", "截止日"), "day"),
        Column("value_usd", Words("Revenue", "收入"), "usd"),
        Column("qoq_ratio", Words("On the quarter", "环比"), "change"),
        Column("yoy_ratio", Words("On the year", "同比"), "change"),
        Column("share_of_revenue_ratio", Words("Of all revenue", "占总收入"), "percent"),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    caption = view.say("Revenue by quarter and metric", "各季度收入（按口径）")
    yield view.table(columns, every, caption=caption, folded=True)


def lines(view: View, rows: list[Row]) -> Iterator[Html]:
    """Quarterly data-centre revenue of each vendor as lines."""
    newest = {r["entity"]: r for r in reversed(rows)}
    parts = [_newest(view, row) for row in sorted(newest.values(), key=lambda r: -r["value_usd"])]
    yield view.finding(view.say("Data-centre revenue: ", "数据中心收入：") + view.say("; ", "；").join(parts))
    divisor, unit = text.money_unit(view.lang)
    order = sorted(newest, key=lambda e: -newest[e]["value_usd"])
    shown = [
        {
            "e": NAMES.get(r["entity"], r["entity"]),
            "d": r["period_end"],
            "p": r["fiscal_period"],
            "v": r["value_usd"] / divisor,
        }
        for r in rows
    ]
    line = (
        charts.base(shown, "e", "d", "p", "v")
        .mark_line(point=True, strokeWidth=2.5)
        .encode(
            x=alt.X("d:T", title=None, axis=alt.Axis(format="%Y", tickCount="year")),
            y=alt.Y("v:Q", title=unit),
            color=alt.Color("e:N", title=None, scale=charts.colours([NAMES.get(e, e) for e in order])),
            tooltip=[
                charts.tip("e:N", view.say("Company", "公司")),
                charts.tip("p:N", view.say("Fiscal quarter", "财季")),
                charts.tip("v:Q", unit, ",.2f"),
            ],
        )
    )
    yield view.chart(
        line,
        title=view.say(f"Quarterly data-centre revenue, {unit}", f"季度数据中心收入（{unit}）"),
        alt=view.say("Lines of quarterly data-centre revenue by vendor", "各厂商季度数据中心收入折线"),
        rows=rows,
    )
    yield view.note(
        view.say(
            "Companies draw the border of their data-centre business differently: levels are not like for like. "
            "NVIDIA's fiscal year runs eleven months ahead of the calendar.",
            "各公司数据中心业务口径不同，金额不可直接比较。英伟达财年比日历年早约十一个月。",
        )
    )


def _newest(view: View, row: Row) -> str:
    name = NAMES.get(row["entity"], row["entity"])
    yearly = f" ({row['yoy_ratio'] * 100:+.0f} %)" if row["yoy_ratio"] is not None else ""
    return (
        f"{name} {text.usd(row['value_usd'], view.lang)} {view.say('in', '')} {row['fiscal_period']}{yearly}".replace(
            "  ", " "
        )
    )


def band(view: View, guided: list[Row], centre: list[Row]) -> Iterator[Html]:
    """What NVIDIA guided, what it reported, and how much of it was the data centre."""
    title = view.say("NVIDIA: revenue against the guided range", "英伟达：收入与指引区间")
    yield view.chart(
        revenue_band(view, guided, centre),
        title=f"{title}, {text.money_unit('en')[1]}" if view.lang == "en" else f"{title}（{text.money_unit('zh')[1]}）",
        alt=title,
        rows=[*guided, *centre],
    )
    yield view.note(
        view.say(
            "NVIDIA guides total revenue, not its data centre: only the blue line may be compared with the band.",
            "英伟达只给出总收入指引，不含数据中心单独指引：仅蓝线可与区间比较。",
        )
    )


def guidance(view: View, rows: list[Row]) -> Iterator[Html]:
    """Distance of reported revenue from the midpoint guided, with the guided band around zero."""
    done = [r for r in rows if r["beat_ratio"] is not None]
    ahead = [r for r in rows if r["value_usd"] is None]
    if done:
        beaten = sum(r["value_usd"] > r["high_usd"] for r in done)
        middle = median(r["beat_ratio"] for r in done) * 100
        yield view.finding(
            view.say(
                f"NVIDIA ended above its guided range in {beaten} of {len(done)} quarters; the median result lay {middle:+.1f} % "
                "from the midpoint",
                f"英伟达 {len(done)} 个季度中有 {beaten} 个高于指引区间；实际收入较指引中值的中位偏差为 {middle:+.1f} %",
            )
        )
        shown = [
            {
                "p": r["fiscal_period"],
                "b": r["beat_ratio"],
                "lo": r["low_usd"] / r["mid_usd"] - 1,
                "hi": r["high_usd"] / r["mid_usd"] - 1,
                "v": text.usd(r["value_usd"], view.lang),
                "g": f"{text.usd(r['low_usd'], view.lang)} – {text.usd(r['high_usd'], view.lang)}",
            }
            for r in done
        ]
        tips = [
            charts.tip("p:N", view.say("Fiscal quarter", "财季")),
            charts.tip("g:N", view.say("Guided", "指引")),
            charts.tip("v:N", view.say("Reported", "实际")),
            charts.tip("b:Q", view.say("Against the midpoint", "较中值"), "+.1%"),
        ]
        base = charts.base(shown, "p", "b", "lo", "hi", "v", "g", height=260)
        x = alt.X("p:N", title=None, axis=alt.Axis(labelAngle=-45))
        title = view.say("Reported revenue against the midpoint of guidance", "实际收入相对指引中值")
        bars = base.mark_bar().encode(
            x=x,
            y=alt.Y("b:Q", title=None, axis=alt.Axis(format="+.0%")),
            color=alt.condition("datum.b >= 0", alt.value(charts.BLUE), alt.value(charts.RED)),
            tooltip=tips,
        )
        band = base.mark_bar(opacity=0.6, color=charts.ORANGE, width={"band": 0.98}).encode(
            x=x, y=alt.Y("lo:Q", title=None), y2="hi:Q", tooltip=tips
        )
        yield view.chart(
            alt.layer(bars, band).properties(width="container"),
            title=title + view.say("; the orange band is the guided range", "；橙色带为指引区间"),
            alt=title,
            rows=rows,
        )
    for row in ahead[-1:]:
        yield view.note(
            view.say(
                f"Next: {row['fiscal_period']}, guided {text.usd(row['low_usd'], 'en')} to {text.usd(row['high_usd'], 'en')} "
                f"on {text.day(row['guided_at'])}.",
                f"下一季：{row['fiscal_period']}，{text.day(row['guided_at'])} 给出指引 "
                f"{text.usd(row['low_usd'], 'zh')} 至 {text.usd(row['high_usd'], 'zh')}。",
            )
        )
    columns = (
        Column("fiscal_period", Words("Fiscal quarter", "财季")),
        Column("guided_at", Words("Guided on", "指引日期"), "day"),
        Column("low_usd", Words("Low", "低"), "usd"),
        Column("mid_usd", Words("Mid", "中"), "usd"),
        Column("high_usd", Words("High", "高"), "usd"),
        Column("value_usd", Words("Reported", "实际"), "usd"),
        Column("beat_ratio", Words("Against mid", "较中值"), "change"),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    caption = view.say("NVIDIA, total revenue: guidance and result", "英伟达总收入：指引与实际")
    yield view.table(columns, list(reversed(rows)), caption=caption, folded=True)


def statements(view: View) -> Html:
    """Every statement of every company, newest first."""
    columns = (
        Column("known_at", Words("Said on", "日期"), "day"),
        Column("entity", Words("Company", "公司")),
        Column("metric", Words("Counted", "口径")),
        Column("target_period", Words("For", "期间")),
        Column("channel", Words("Channel", "渠道")),
        Column("low_usd", Words("Low", "低"), "usd"),
        Column("mid_usd", Words("Mid", "中"), "usd"),
        Column("high_usd", Words("High", "高"), "usd"),
        Column("revision_ratio", Words("Revised by", "调整"), "change"),
        Column("actual_usd", Words("Result", "实际"), "usd"),
        Column("actual_to_mid_ratio", Words("Against mid", "较中值"), "change"),
        SOURCE,
        CERTAINTY,
    )
    rows = view.reader.rows(STATED)
    caption = view.say("Every statement of guidance, newest first", "全部指引表述（最新在前）")
    return view.table(columns, rows, caption=caption, folded=True)


SECTION = Section(
    "vendors",
    30,
    Words("Vendor data-centre revenue and guidance", "厂商数据中心收入与指引"),
    build,
    needs=("mart.vendor_datacenter_revenue",),
    also=("mart.guidance_history",),
)
