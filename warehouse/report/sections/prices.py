"""What a GPU-hour costs: prices as quoted, and the indices that exist.

Belongs here: quotes by provider, indices of others. Does not belong here: our own levels (`price_levels.py`).
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.sections.price_levels import movement, work_price
from warehouse.report.text import Html, Words
from warehouse.report.view import AS_OF, CERTAINTY, SOURCE, Column, View

SHOWN = {
    "nvidia-h100-sxm5-80gb": "H100 SXM",
    "nvidia-h200-sxm5-141gb": "H200 SXM",
    "nvidia-b200-sxm6-180gb": "B200",
    "nvidia-a100-sxm4-80gb": "A100 80GB SXM",
}

# The median of a provider's newest day stands for it; a price a year older than the page is no longer a quote.
QUOTES = """
with offers as (
    select *
    from market.gpu_offers
    where is_preferred and price_usd_per_gpu_hour is not null and price_kind = 'on_demand' and term_months = 0
        and operating_system <> 'windows' and coalesce(gpu_count, 1) >= 1
        and accelerator_id in (select unnest($parts))
)
select provider, accelerator_id, segment, observed_at::date as day, median(price_usd_per_gpu_hour) as price_usd,
    count(*) as offers, max(known_at) as known_at, any_value(source) as source,
    arg_min(source_name, sku) as source_name, arg_min(source_url, sku) as source_url, any_value(certainty) as certainty,
    any_value(source_rank) as source_rank
from offers
where observed_at > $published - interval 365 day and observed_at <= $published + interval 1 day
group by provider, accelerator_id, segment, observed_at::date
qualify row_number() over (partition by provider, accelerator_id order by day desc) = 1
order by accelerator_id, price_usd
"""

INDICES = """
select index_id, gpu_name, period_start, period, price_kind, measures, level_usd_per_gpu_hour as level_usd, publisher,
    source, source_name, source_url, source_rank, certainty, known_at
from market.external_indices
where is_preferred
order by period_start desc, index_id
"""


def build(view: View) -> Iterator[Html]:
    """Quotes by provider, how prices move and what a PFLOP-hour costs, indices of others."""
    rows = view.reader.rows(QUOTES, parts=list(SHOWN), published=view.published_at)
    if rows:
        yield from quotes(view, rows)
    else:
        yield view.reason(
            view.say(
                "Not shown: no on-demand price of the last 365 days has been read.",
                "未显示：尚未读入近 365 天的按需价格。",
            )
        )
    yield from movement(view, SHOWN)
    yield from work_price(view)
    if view.reader.has("market.external_indices"):
        yield from published(view, view.reader.rows(INDICES))


def quotes(view: View, rows: list[Row]) -> Iterator[Html]:
    """One dot for each provider and part."""
    h100 = sorted((r for r in rows if r["accelerator_id"] == "nvidia-h100-sxm5-80gb"), key=lambda r: r["price_usd"])
    if len(h100) > 1:
        low, high = h100[0], h100[-1]
        yield view.finding(
            view.say(
                f"An H100 on demand is quoted from {text.price(low['price_usd'])} ({low['provider']}) to "
                f"{text.price(high['price_usd'])} ({high['provider']}) an hour",
                f"H100 按需报价每小时 {text.price(low['price_usd'])}（{low['provider']}）至 "
                f"{text.price(high['price_usd'])}（{high['provider']}）",
            )
        )
    shown = [
        {
            "a": SHOWN[r["accelerator_id"]],
            "p": r["provider"],
            "v": r["price_usd"],
            "d": text.day(r["day"]),
            "n": r["offers"],
        }
        for r in rows
    ]
    cheapest = {p: min(s["v"] for s in shown if s["p"] == p) for p in {s["p"] for s in shown}}
    order = sorted(cheapest, key=lambda p: (cheapest[p], p))
    chart = (
        charts.base(shown, "a", "p", "v", "d", "n", height=charts.rows_high(len(order)))
        .mark_point(size=110, filled=True, opacity=0.9)
        .encode(
            y=alt.Y("p:N", title=None, sort=order, axis=alt.Axis(grid=True)),
            x=alt.X(
                "v:Q",
                title=view.say("USD per GPU-hour", "美元/GPU 小时"),
                axis=alt.Axis(format="$,.0f", tickMinStep=1, tickCount=8),
                scale=alt.Scale(zero=True),
            ),
            color=alt.Color("a:N", title=None, scale=charts.colours(list(SHOWN.values()))),
            shape=alt.Shape(
                "a:N",
                title=None,
                scale=alt.Scale(domain=list(SHOWN.values()), range=["circle", "square", "triangle-up", "diamond"]),
            ),
            tooltip=[
                charts.tip("p:N", view.say("Provider", "厂商")),
                charts.tip("a:N", "GPU"),
                charts.tip("v:Q", view.say("USD per GPU-hour", "美元/GPU 小时"), "$,.2f"),
                charts.tip("d:N", view.say("Seen on", "日期")),
                charts.tip("n:Q", view.say("Offers", "报价数")),
            ],
        )
    )
    title = view.say("On-demand price of a GPU-hour by provider, newest quote", "各厂商 GPU 小时按需价格（最新报价）")
    yield view.chart(chart, title=title, alt=title, rows=rows)
    yield view.note(
        view.say(
            "List prices without commitment, whole GPUs; terms, networks and support differ between providers. Dates are "
            "in the table.",
            "整卡、无承诺的目录价；各家条款、网络与支持不同。日期见表格。",
        )
    )
    columns = (
        Column("accelerator_id", Words("Accelerator", "加速卡")),
        Column("provider", Words("Provider", "厂商")),
        Column("segment", Words("Segment", "类别")),
        Column("price_usd", Words("USD per GPU-hour", "美元/GPU 小时"), "price"),
        Column("offers", Words("Offers", "报价数"), "int"),
        Column("day", Words("Seen on", "日期"), "day"),
        SOURCE,
        CERTAINTY,
    )
    yield view.table(columns, rows, caption=view.say("Newest on-demand quotes", "最新按需报价"), folded=True)


def published(view: View, rows: list[Row]) -> Iterator[Html]:
    """H100 levels that others publish, as dots: each measures something else, so no line joins them."""
    kinds = {
        "index": Words("index", "指数"),
        "market_estimate": Words("estimate", "估计"),
        "contract": Words("contract", "合约"),
        "on_demand": Words("list price", "目录价"),
        "marketplace_ask": Words("marketplace ask", "市场报价"),
    }
    h100 = [
        r
        for r in rows
        if (r["gpu_name"] or "").startswith("H100") and r["price_kind"] in kinds and r["level_usd"] is not None
    ]
    if h100:
        order = [k.of(view.lang) for k in kinds.values()]
        shown = [
            {
                "d": r["period_start"],
                "v": r["level_usd"],
                "k": kinds[r["price_kind"]].of(view.lang),
                "i": r["index_id"],
                "m": r["measures"],
            }
            for r in h100
        ]
        year = max(r["period_start"].year for r in h100)
        levels = [r["level_usd"] for r in h100 if r["period_start"].year == year]
        low, high = text.price(min(levels)), text.price(max(levels))
        yield view.finding(
            view.say(
                f"What others publish for an H100-hour in {year} runs from {low} to {high}, by what they measure",
                f"{year} 年第三方公布的 H100 小时价格从 {low} 到 {high} 不等，取决于口径",
            )
        )
        chart = (
            charts.base(shown, "d", "v", "k", "i", "m", height=260)
            .mark_point(size=90, filled=True)
            .encode(
                x=alt.X("d:T", title=None, axis=alt.Axis(format="%Y-%m", tickCount=8)),
                y=alt.Y(
                    "v:Q",
                    title=view.say("USD per GPU-hour", "美元/GPU 小时"),
                    axis=alt.Axis(format="$,.0f"),
                    scale=alt.Scale(zero=True),
                ),
                color=alt.Color("k:N", title=None, scale=charts.colours(order)),
                shape=alt.Shape("k:N", title=None, scale=alt.Scale(domain=order)),
                tooltip=["d:T", "i:N", "m:N", alt.Tooltip("v:Q", format="$,.2f", title="USD")],
            )
        )
        title = view.say("H100: published indices, estimates and list prices", "H100：公开指数、估计与目录价")
        yield view.chart(chart, title=title, alt=title, rows=h100)
        yield view.note(
            view.say(
                "Each dot measures something else (see the table); they are not one series.",
                "各点口径不同（见表），并非同一序列。",
            )
        )
    columns = (
        Column("index_id", Words("Index", "指数")),
        Column("gpu_name", Words("GPU", "GPU")),
        Column("period_start", Words("From", "起始日"), "day"),
        Column("period", Words("Period", "周期")),
        Column("level_usd", Words("USD per GPU-hour", "美元/GPU 小时"), "price"),
        Column("measures", Words("Measures", "口径")),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    yield view.table(
        columns, rows, caption=view.say("Indices and reference prices of others", "第三方指数与参考价"), folded=True
    )


SECTION = Section(
    "prices",
    40,
    Words("GPU prices", "GPU 价格"),
    build,
    needs=("market.gpu_offers",),
    also=("market.gpu_price_index", "mart.gpu_price_trend"),
)
