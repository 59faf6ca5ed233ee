"""Two charts of guidance: reported revenue over the band that was guided, and how guidance was revised.

Belongs here: the drawing. Does not belong here: the questions to the marts and the words around (`sections/`).
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.view import View


def revenue_band(view: View, guided: list[Row], centre: list[Row]) -> alt.LayerChart:
    """Guided range of total revenue as a band, reported total and its data-centre part as lines, by quarter.

    guided: `fiscal_period`, `target_period_end`, `low_usd`, `high_usd`, `value_usd` (null until reported);
    centre: `period_end`, `fiscal_period`, `value_usd`.
    """
    divisor, unit = text.money_unit(view.lang)
    names = (
        view.say("Guided range of total revenue", "总收入指引区间"),
        view.say("Total revenue reported", "已披露总收入"),
        view.say("Of it data centre", "其中数据中心"),
    )
    band = [
        {"d": r["target_period_end"], "p": r["fiscal_period"], "s": names[0]}
        | {"lo": r["low_usd"] / divisor, "hi": r["high_usd"] / divisor}
        for r in guided
        if r["target_period_end"] is not None
    ]
    lines = [
        {"d": r["target_period_end"], "p": r["fiscal_period"], "s": names[1], "v": r["value_usd"] / divisor}
        for r in guided
        if r["value_usd"] is not None and r["target_period_end"] is not None
    ]
    lines += [
        {"d": r["period_end"], "p": r["fiscal_period"], "s": names[2], "v": r["value_usd"] / divisor} for r in centre
    ]
    colour = alt.Color(
        "s:N", title=None, scale=alt.Scale(domain=list(names), range=[charts.ORANGE, charts.BLUE, charts.GREEN])
    )
    x = alt.X("d:T", title=None, axis=alt.Axis(format="%Y", tickCount="year"))
    period = charts.tip("p:N", view.say("Fiscal quarter", "财季"))
    ranges = (
        charts.base(band, "d", "p", "s", "lo", "hi", height=300)
        .mark_bar(opacity=0.75, width=12)
        .encode(
            x=x,
            y=alt.Y("lo:Q", title=unit),
            y2="hi:Q",
            color=colour,
            tooltip=[
                period,
                charts.tip("lo:Q", view.say("Low, ", "低，") + unit, ",.2f"),
                charts.tip("hi:Q", view.say("High, ", "高，") + unit, ",.2f"),
            ],
        )
    )
    drawn = (
        charts.base(lines, "d", "p", "s", "v", height=300)
        .mark_line(point={"size": 22}, strokeWidth=1.5)
        .encode(
            x=x,
            y=alt.Y("v:Q", title=unit),
            color=colour,
            tooltip=[charts.tip("s:N", view.say("Line", "项目")), period, charts.tip("v:Q", unit, ",.2f")],
        )
    )
    return alt.layer(ranges, drawn).properties(width="container")


def revisions(view: View, rows: list[Row]) -> alt.LayerChart:
    """Each statement on a year as a range at the day it was made; a line joins statements of one definition on one year.

    rows: `entity`, `metric`, `target_period`, `known_at`, `low_usd`, `mid_usd`, `high_usd`, `channel`.
    """
    divisor, unit = text.money_unit(view.lang)
    order = list(dict.fromkeys(r["entity"] for r in rows))
    shown = []
    for r in rows:
        ends = [v for v in (r["low_usd"], r["mid_usd"], r["high_usd"]) if v is not None]
        said = text.usd(min(ends), view.lang)
        if max(ends) > min(ends):
            said += f" – {text.usd(max(ends), view.lang)}"
        elif r["high_usd"] is None:
            said = view.say(f"at least {said}", f"不低于 {said}")
        shown.append(
            {
                "d": r["known_at"],
                "e": r["entity"],
                "k": f"{r['entity']} {r['target_period']}",
                "lo": min(ends) / divisor,
                "hi": max(ends) / divisor,
                "m": (min(ends) + max(ends)) / 2 / divisor,
                "g": said,
                "c": r["channel"],
                "q": r["metric"],
            }
        )
    tips = [
        charts.tip("k:N", view.say("Company and year", "公司与年度")),
        charts.tip("d:T", view.say("Said on", "日期")),
        charts.tip("g:N", view.say("Guidance", "指引")),
        charts.tip("q:N", view.say("Counted", "口径")),
        charts.tip("c:N", view.say("Channel", "渠道")),
    ]
    base = charts.base(shown, "d", "e", "k", "lo", "hi", "m", "g", "c", "q", height=300)
    x = alt.X("d:T", title=None, axis=alt.Axis(format="%Y-%m", tickCount=8))
    colour = alt.Color("e:N", title=None, scale=charts.colours(order))
    y = alt.Y("m:Q", title=unit)
    line = base.mark_line(strokeWidth=1.5, interpolate="step-after").encode(
        x=x, y=y, color=colour, detail=["k:N", "q:N"]
    )
    span = base.mark_rule(strokeWidth=5, opacity=0.55).encode(
        x=x, y=alt.Y("lo:Q", title=unit), y2="hi:Q", color=colour, tooltip=tips
    )
    points = base.mark_point(filled=True, size=45).encode(x=x, y=y, color=colour, tooltip=tips)
    newest = {(s["k"], s["q"]): s for s in sorted(shown, key=lambda s: s["d"])}
    names = (
        charts.base(newest.values(), "d", "e", "k", "m", height=300)
        .mark_text(align="left", dx=8, fontSize=10)
        .encode(x=x, y=y, text="k:N", color=colour)
    )
    return alt.layer(line, span, points, names).properties(width="container")
