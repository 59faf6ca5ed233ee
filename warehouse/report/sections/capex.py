"""Capital expenditure: what companies spent each quarter, and how far they are through what they guided."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from warehouse.report import charts, text
from warehouse.report.guidance_charts import revisions
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words
from warehouse.report.view import AS_OF, CERTAINTY, SOURCE, Column, View

COMPANIES = ("AMZN", "GOOGL", "MSFT", "META", "ORCL")
METRICS = {
    "capex_cash_ppe": Words("cash for property and equipment", "购置不动产与设备现金"),
    "capex_incl_finance_lease_principal": Words("with finance-lease principal", "含融资租赁本金"),
    "capex_net_of_proceeds": Words("net of proceeds", "扣除处置收入"),
    "capex_mgmt_incl_finance_leases": Words("with finance leases, as management counts", "管理口径，含融资租赁"),
    "capex_company_definition": Words("as the company defines it", "公司口径"),
}

QUARTERS = """
select entity, calendar_quarter, fiscal_period, period_end, value_usd, qoq_ratio, yoy_ratio, ttm_usd, source,
    coalesce(form || ' ' || coalesce(accession, ''), source) as source_name, source_url, certainty,
    value_known_at as known_at
from mart.capex_quarterly
where is_latest and metric = 'capex_cash_ppe'
order by period_end desc, entity
"""

PROGRESS = """
with held as (
    select entity, metric, coalesce(guidance_period, left(fiscal_period, 4)) as period, value_usd, calendar_quarter,
        left(fiscal_period, 4) as fiscal_year, period_end, guidance_period, guidance_low_usd, guidance_mid_usd,
        guidance_high_usd, guidance_known_at, guidance_channel, guidance_source_url, certainty
    from mart.capex_quarterly
    where is_latest
)
select entity, metric, guidance_period, sum(value_usd) as spent_usd, count(*) as quarters,
    arg_max(guidance_low_usd, period_end) as low_usd, arg_max(guidance_mid_usd, period_end) as mid_usd,
    arg_max(guidance_high_usd, period_end) as high_usd, arg_max(guidance_known_at, period_end) as known_at,
    arg_max(guidance_channel, period_end) as source_name, arg_max(guidance_source_url, period_end) as source_url,
    any_value(certainty) as certainty, max(period_end) as period_end
from held
where guidance_period is not null
group by entity, metric, guidance_period
qualify row_number() over (partition by entity, metric order by max(period_end) desc) = 1
    and max(period_end) > max(max(period_end)) over () - 200
order by coalesce(arg_max(guidance_mid_usd, period_end), arg_max(guidance_low_usd, period_end)) desc
"""

# Statements on the years that are not long over.
REVISIONS = """
select entity, metric, target_period, channel, low_usd, mid_usd, high_usd, source, source as source_name, source_url,
    certainty, stated_known_at as known_at
from mart.guidance_history
where is_latest and metric like 'capex%' and target_period not like '%Q%'
    and target_period_end > (select max(stated_known_at)::date - 600 from mart.guidance_history)
order by entity, target_period, stated_known_at
"""


def build(view: View) -> Iterator[Html]:
    """Stacked quarters, progress against guidance, tables."""
    rows = view.reader.rows(QUARTERS)
    stacked = [r for r in rows if r["entity"] in COMPANIES]
    if stacked:
        yield view.finding(headline(view, stacked))
        yield view.chart(
            quarters_chart(view, stacked),
            title=view.say(
                f"Quarterly capital expenditure, cash for property and equipment ({text.money_unit('en')[1]})",
                f"季度资本开支：购置不动产与设备现金支出（{text.money_unit('zh')[1]}）",
            ),
            alt=headline(view, stacked),
            rows=stacked,
        )
        yield view.note(
            view.say(
                "Quarters are placed in the calendar quarter that holds their middle. A quarter is drawn once all but one "
                "company have reported it; a missing part is not known, not zero.",
                "各财季按其中点所在的日历季度归类。至多一家公司未披露的季度才会绘出；缺少的部分表示未知，而非零。",
            )
        )
    progress = view.reader.rows(PROGRESS)
    if progress:
        yield from against_guidance(view, progress)
    if view.reader.has("mart.guidance_history"):
        yield from revised(view)
    columns = (
        Column("entity", Words("Company", "公司")),
        Column("fiscal_period", Words("Fiscal quarter", "财季")),
        Column("period_end", Words("Ends", "截止日"), "day"),
        Column("value_usd", Words("Spent", "支出"), "usd"),
        Column("qoq_ratio", Words("On the quarter", "环比"), "change"),
        Column("yoy_ratio", Words("On the year", "同比"), "change"),
        Column("ttm_usd", Words("Last four quarters", "近四季"), "usd"),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    newest = {r["entity"]: r for r in reversed(rows)}
    latest = sorted(newest.values(), key=lambda r: -r["value_usd"])
    yield view.table(columns, latest, caption=view.say("Newest quarter of each company", "各公司最新季度"))
    yield view.table(columns, rows, caption=view.say("All quarters", "全部季度"), folded=True)


def headline(view: View, rows: list[Row]) -> str:
    """The newest quarter that every company has reported, and its change on the year."""
    totals: dict[str, dict[str, float]] = {}
    for row in rows:
        totals.setdefault(row["calendar_quarter"], {})[row["entity"]] = row["value_usd"]
    full = [q for q in full_quarters(rows) if len(totals[q]) == len({r["entity"] for r in rows})]
    if not full:
        return view.say("Capital expenditure by company", "各公司资本开支")
    newest = full[-1]
    total, count = sum(totals[newest].values()), len(totals[newest])
    earlier = totals.get(f"CY{int(newest[2:6]) - 1}{newest[6:]}", {})
    yearly = ""
    if earlier.keys() == totals[newest].keys():
        ratio = total / sum(earlier.values()) - 1
        yearly = view.say(f", {ratio * 100:+.0f} % on the year", f"，同比 {ratio * 100:+.0f} %")
    return view.say(
        f"{count} companies spent {text.usd(total, 'en')} in {newest}{yearly}",
        f"{newest} {count} 家公司资本开支合计 {text.usd(total, 'zh')}{yearly}",
    )


def full_quarters(rows: list[Row]) -> list[str]:
    """Calendar quarters in which nearly all companies are known; a bar of fewer would look like a fall."""
    parts: dict[str, set[str]] = {}
    for row in rows:
        parts.setdefault(row["calendar_quarter"], set()).add(row["entity"])
    needed = max(1, len({r["entity"] for r in rows}) - 1)
    return sorted(quarter for quarter, known in parts.items() if len(known) >= needed)


def quarters_chart(view: View, rows: list[Row]) -> alt.Chart:
    """Bars by calendar quarter, one colour for each company."""
    divisor, unit = text.money_unit(view.lang)
    order = [c for c in COMPANIES if any(r["entity"] == c for r in rows)]
    first = full_quarters(rows)[-16:]
    shown = [
        {
            "q": r["calendar_quarter"][2:],
            "c": r["entity"],
            "v": r["value_usd"] / divisor,
            "f": r["fiscal_period"],
            "i": order.index(r["entity"]),
        }
        for r in rows
        if r["calendar_quarter"] in first
    ]
    return (
        charts.base(shown, "q", "c", "v", "f", "i", height=320)
        .mark_bar()
        .encode(
            x=alt.X("q:N", title=None, axis=alt.Axis(labelAngle=-45)),
            y=alt.Y("v:Q", title=unit, stack="zero"),
            color=alt.Color("c:N", title=None, scale=charts.colours(order)),
            order=alt.Order("i:Q"),
            tooltip=[
                charts.tip("c:N", view.say("Company", "公司")),
                charts.tip("q:N", view.say("Calendar quarter", "日历季度")),
                charts.tip("f:N", view.say("Fiscal quarter", "财季")),
                charts.tip("v:Q", unit, ",.1f"),
            ],
        )
    )


def against_guidance(view: View, rows: list[Row]) -> Iterator[Html]:
    """Guided range of the year as a band, what is reported of it as a bar."""
    lang = view.lang
    divisor, unit = text.money_unit(lang)
    shown = []
    for row in rows:
        name = METRICS[row["metric"]].of(lang) if row["metric"] in METRICS else row["metric"]
        row["metric_name"] = name
        low = row["low_usd"] or row["mid_usd"]
        high = row["high_usd"] or low
        if low is None:
            continue
        pad = max(high - low, 0.006 * max(r["high_usd"] or r["low_usd"] or 0 for r in rows)) / 2
        middle = (high + low) / 2
        shown.append(
            {
                "who": f"{row['entity']} {row['guidance_period']}",
                "metric": name,
                "spent": row["spent_usd"] / divisor,
                "low": (middle - pad) / divisor,
                "high": (middle + pad) / divisor,
                "range": text.usd(low, lang) if high == low else f"{text.usd(low, lang)} – {text.usd(high, lang)}",
                "quarters": row["quarters"],
            }
        )
    keys = ("who", "metric", "spent", "low", "high", "range", "quarters")
    y = alt.Y("who:N", title=None, sort=[s["who"] for s in shown])
    tips = [
        charts.tip("who:N", view.say("Company and year", "公司与年度")),
        charts.tip("metric:N", view.say("Counted", "口径")),
        charts.tip("range:N", view.say("Guidance", "指引")),
        charts.tip("spent:Q", view.say("Reported so far, ", "已披露，") + unit, ",.1f"),
        charts.tip("quarters:Q", view.say("Quarters reported", "已披露季度数")),
    ]
    base = charts.base(shown, *keys, height=charts.rows_high(len(shown), 34))
    band = base.mark_bar(height=24, color=charts.ORANGE, opacity=0.55).encode(
        y=y, x=alt.X("low:Q", title=unit, scale=alt.Scale(zero=True)), x2="high:Q", tooltip=tips
    )
    spent = base.mark_bar(height=10, color=charts.BLUE).encode(y=y, x=alt.X("spent:Q", title=unit), tooltip=tips)
    words = base.mark_text(align="left", dx=6, baseline="middle").encode(
        y=y, x="spent:Q", text=alt.Text("quarters:Q", format="d"), tooltip=tips
    )
    words = words.transform_calculate(label="datum.quarters + '/4'").encode(text="label:N")
    title = view.say(
        "Guidance for the year (orange) and what has been reported of it (blue)", "全年指引（橙）与已披露金额（蓝）"
    )
    yield view.chart(
        alt.layer(spent, band, words).properties(width="container"),
        title=f"{title}, {unit}" if lang == "en" else f"{title}（{unit}）",
        alt=title,
        rows=rows,
    )
    yield view.note(
        view.say(
            "The number beside a bar says how many quarters it holds. Each company is compared by the definition its "
            "guidance uses; definitions differ and are not added up.",
            "柱旁数字为已披露的季度数。各公司按其指引口径比较；口径不同，不可相加。",
        )
    )
    columns = (
        Column("entity", Words("Company", "公司")),
        Column("guidance_period", Words("Year", "年度")),
        Column("metric_name", Words("Counted", "口径")),
        Column("low_usd", Words("Low", "低"), "usd"),
        Column("mid_usd", Words("Mid", "中"), "usd"),
        Column("high_usd", Words("High", "高"), "usd"),
        Column("spent_usd", Words("Reported so far", "已披露"), "usd"),
        Column("quarters", Words("Quarters", "季度数"), "int"),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    yield view.table(columns, rows, caption=view.say("Guidance in force", "现行指引"), folded=True)


def revised(view: View) -> Iterator[Html]:
    """How each company's guidance for a year moved from statement to statement."""
    rows = [r for r in view.reader.rows(REVISIONS) if r["entity"] in COMPANIES]
    if not rows:
        return
    title = view.say(
        "Revisions of guided capital expenditure, by day of the statement", "资本开支全年指引的修订（按发布日）"
    )
    unit = text.money_unit(view.lang)[1]
    yield view.chart(
        revisions(view, rows),
        title=f"{title}, {unit}" if view.lang == "en" else f"{title}，{unit}",
        alt=title,
        rows=rows,
    )
    yield view.note(
        view.say(
            "A thick stroke is a range, a point its middle or a single figure. A line joins statements of one definition; "
            "definitions differ between companies.",
            "粗线为区间，圆点为中值或单一数值。仅同一口径的表述以线相连；各公司口径不同。",
        )
    )


SECTION = Section(
    "capex",
    20,
    Words("Capital expenditure", "资本开支"),
    build,
    needs=("mart.capex_quarterly",),
    also=("mart.guidance_history",),
)
