"""What studies of large runs say about failures, and how the own fleet did where that is known."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from warehouse.report import charts
from warehouse.report.section import Section
from warehouse.report.text import Html, Words
from warehouse.report.view import CERTAINTY, SOURCE, Column, View

CAUSES = """
select study, system, category, coalesce(component_class, 'Other') as component, event_count, accelerator,
    accelerator_count, period, source, source_name, source_url, source_rank, certainty,
    coalesce(as_of_date, known_at::date) as known_at
from market.interruptions
where is_preferred and metric = 'unexpected interruptions' and category <> 'all' and event_count is not null
    and study = (
        select study from market.interruptions
        where is_preferred and metric = 'unexpected interruptions' and category <> 'all'
        group by study
        order by count(*) desc, study
        limit 1
    )
order by event_count desc, category
"""

BETWEEN = """
select mtbf_hours, mtbf_low_hours, mtbf_high_hours, mtbf_100000_hours
from mart.reliability
where scope = 'study' and level = 'all' and starts_with(name, $study) and mtbf_hours is not null
order by name
"""

ALL = """
select study, organisation, system, category, metric, condition, accelerator, accelerator_count, period,
    coalesce("value", event_count) as figure, value_low, value_high, unit, qualifier, source, source_name, source_url,
    source_rank, certainty, coalesce(as_of_date, known_at::date) as known_at
from market.interruptions
where is_preferred
order by study, metric, category
"""

# Shares of time in which a fleet or run made progress, as the studies name them.
GOODPUT = """
select study || case when condition <> 'all' then ' (' || condition || ')' else '' end as run, metric,
    "value" / 100 as ratio, coalesce(qualifier, '') as qualifier, accelerator, accelerator_count, source, source_name,
    source_url, certainty, coalesce(as_of_date, known_at::date) as known_at
from market.interruptions
where is_preferred and unit = 'percent' and "value" is not null
    and regexp_matches(lower(metric), 'goodput|ettr|effective training')
order by ratio desc
"""


def build(view: View) -> Iterator[Html]:
    """Causes of one large run, goodput of several, every figure in a table."""
    causes = view.reader.rows(CAUSES)
    if causes:
        total = sum(r["event_count"] for r in causes)
        gpu = sum(r["event_count"] for r in causes if r["component"] == "GPU")
        first = causes[0]
        where = (
            f"{first['accelerator_count']:,} {first['accelerator']}, {first['period']}"
            if first["accelerator_count"]
            else first["study"]
        )
        yield view.finding(
            view.say(
                f"{first['study']}: {gpu} of {total} unexpected interruptions were the GPU or its memory [{where}]",
                f"{first['study']}：{total} 次意外中断中 {gpu} 次由 GPU 或显存引起 [{where}]",
            )
        )
        components = sorted(
            {r["component"] for r in causes},
            key=lambda c: -sum(r["event_count"] for r in causes if r["component"] == c),
        )
        chart = (
            charts.base(causes, "category", "event_count", "component", height=charts.rows_high(len(causes), 22))
            .mark_bar()
            .encode(
                y=alt.Y("category:N", title=None, sort=[r["category"] for r in causes]),
                x=alt.X("event_count:Q", title=view.say("interruptions", "中断次数"), axis=alt.Axis(tickCount=8)),
                color=alt.Color("component:N", title=None, scale=charts.colours(components)),
                tooltip=[
                    charts.tip("category:N", view.say("Cause", "原因")),
                    charts.tip("component:N", view.say("Component", "部件")),
                    charts.tip("event_count:Q", view.say("Interruptions", "次数")),
                ],
            )
        )
        title = view.say("Unexpected interruptions by cause", "意外中断原因")
        yield view.chart(chart, title=title, alt=title, rows=causes)
        yield from between(view, first["study"])
    shares = view.reader.rows(GOODPUT)
    if shares:
        low, high = shares[-1]["ratio"] * 100, shares[0]["ratio"] * 100
        yield view.finding(
            view.say(
                f"Disclosed shares of productive time run from {low:.0f} % to {high:.0f} %",
                f"披露的有效训练时间占比从 {low:.0f} % 到 {high:.0f} %",
            )
        )
        bars = (
            charts.base(
                [r | {"label": f"{r['run']}: {r['metric']}"} for r in shares],
                *("label", "ratio", "metric", "qualifier", "accelerator_count"),
                height=charts.rows_high(len(shares), 24),
            )
            .mark_point(filled=True, size=90, color=charts.BLUE)
            .encode(
                y=alt.Y(
                    "label:N",
                    title=None,
                    sort=[f"{r['run']}: {r['metric']}" for r in shares],
                    axis=alt.Axis(grid=True),
                ),
                x=alt.X(
                    "ratio:Q",
                    title=None,
                    axis=alt.Axis(format=".0%", tickMinStep=0.01, tickCount=8),
                    scale=alt.Scale(zero=False, nice=True, padding=10),
                ),
                tooltip=[
                    "label:N",
                    "qualifier:N",
                    alt.Tooltip("ratio:Q", format=".1%"),
                    alt.Tooltip("accelerator_count:Q", format=","),
                ],
            )
        )
        title = view.say(
            "Goodput, effective training time and ETTR as each study defines them", "有效训练时间占比（各研究口径）"
        )
        yield view.chart(bars, title=title, alt=title, rows=shares)
    columns = (
        Column("study", Words("Study", "研究")),
        Column("system", Words("System", "系统")),
        Column("category", Words("Category", "类别")),
        Column("metric", Words("Measured", "指标")),
        Column("condition", Words("Condition", "条件")),
        Column("accelerator_count", Words("Accelerators", "加速卡数量"), "int"),
        Column("qualifier", Words("Bound", "限定")),
        Column("figure", Words("Figure", "数值"), "short"),
        Column("value_low", Words("Low", "低"), "short"),
        Column("value_high", Words("High", "高"), "short"),
        Column("unit", Words("Unit", "单位")),
        Column("known_at", Words("As of", "截至"), "day"),
        SOURCE,
        CERTAINTY,
    )
    yield view.table(
        columns, view.reader.rows(ALL), caption=view.say("All disclosed figures", "全部披露数据"), folded=True
    )


def between(view: View, study: str) -> Iterator[Html]:
    """Time between interruptions of that run with its interval, and what it would be at another size."""
    row = view.reader.one(BETWEEN, study=study) if view.reader.has("mart.reliability") else {}
    if not row:
        return
    mean, low, high = (f"{row[k]:.2f}" for k in ("mtbf_hours", "mtbf_low_hours", "mtbf_high_hours"))
    larger = row["mtbf_100000_hours"]
    yield view.note(
        view.say(
            f"That is one every {mean} hours (90 % interval of the count: {low} to {high}); at 100,000 GPUs it would be one "
            f"every {larger * 60:.0f} minutes, if interruptions are independent.",
            f"即平均每 {mean} 小时一次（计数的 90 % 区间：{low} 至 {high}）；若相互独立，10 万卡规模约每 {larger * 60:.0f} 分钟一次。",
        )
    )


SECTION = Section(
    "reliability", 70, Words("Reliability disclosures", "可靠性披露"), build, needs=("market.interruptions",)
)
