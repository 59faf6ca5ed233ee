"""How GPU prices move and what a unit of work costs: parts of the price section.

Belongs here: index and level with the panel beneath, own cost beside them, price per PFLOP-hour across generations.
Does not belong here: quotes of providers and indices of others (`prices.py`, which puts these on the page).
"""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.text import Html, Words
from warehouse.report.view import SOURCE, Column, View

# Every day of the last 400, before that the last day of each month: the page stays small.
LEVELS = """
with fixings as (
    select *, max("date") over () as newest
    from market.gpu_price_index
    where is_preferred and accelerator_id in (select unnest($parts)) and coalesce(term_months, 0) = 0
        and price_kind in ('on_demand', 'spot', 'marketplace_ask')
    qualify method_version = max(method_version) over ()
)
select "date" as day, accelerator_id, segment, price_kind, series, level_usd_per_gpu_hour as level_usd, index_value,
    coalesce(level_usd_per_gpu_hour, median_usd_per_gpu_hour) as price_usd, provider_count, contributors,
    p25_usd_per_gpu_hour as low_usd, p75_usd_per_gpu_hour as high_usd, no_level_reason,
    source, source_name, source_url, source_rank, certainty, known_at
from fixings
where coalesce(level_usd_per_gpu_hour, median_usd_per_gpu_hour) is not null
qualify row_number() over (
    partition by series, case when "date" > newest - 400 then "date" else date_trunc('month', "date") end
    order by "date" desc
) = 1
order by day desc, series
"""

OWN_COST = """
select distinct cluster, accelerator_id, own_usd_per_gpu_hour as own_usd, is_synthetic, as_of_date
from mart.cost_vs_market
where own_usd_per_gpu_hour is not null and accelerator_id in (select unnest($parts))
order by cluster, accelerator_id
"""

TREND = """
select t.*, a.released, a.name, a.architecture
from mart.gpu_price_trend as t
left join (
    select accelerator_id, min(release_date) as released,
        any_value(vendor || ' ' || regexp_replace(model, ' [(].*[)]$', '')) as name, any_value(architecture) as architecture
    from ref.accelerators group by accelerator_id
) as a on a.accelerator_id = t.accelerator_id
order by a.released desc nulls last, t.accelerator_id, t.segment, t.price_kind, t.term_months
"""

# Bands of the one plot, in pixels from the top: price, index where there is one, panel.
HEIGHT, GAP, PANEL = 420, 34, 70
LONGEST_GAP_DAYS = 100
SERIES = {
    ("headline", "on_demand"): Words("headline", "综合"),
    ("neocloud", "on_demand"): Words("neocloud", "新兴云"),
    ("hyperscaler", "on_demand"): Words("hyperscaler", "超大规模云"),
    ("marketplace", "on_demand"): Words("marketplace list", "市场目录价"),
    ("marketplace", "marketplace_ask"): Words("marketplace asks", "市场报价"),
    ("neocloud", "spot"): Words("neocloud spot", "新兴云抢占式"),
    ("hyperscaler", "spot"): Words("hyperscaler spot", "超大规模云抢占式"),
}


def movement(view: View, parts: Mapping[str, str]) -> Iterator[Html]:
    """Level and index of one chip at a time, the size of the panel beneath, own cost as a line."""
    found = view.reader.rows(LEVELS, parts=list(parts)) if view.reader.has("market.gpu_price_index") else []
    rows = _runs([r for r in found if (r["segment"], r["price_kind"]) in SERIES])
    if not rows:
        yield view.reason(
            view.say(
                "Our own index is not shown: market.gpu_price_index holds no day yet; it needs daily prices of providers.",
                "自有指数未显示：market.gpu_price_index 尚无数据，需要各厂商每日价格。",
            )
        )
        return
    own = view.reader.rows(OWN_COST, parts=list(parts)) if view.reader.has("mart.cost_vs_market") else []
    yield view.finding(_headline(view, rows, parts))
    if any(r["is_synthetic"] for r in own):
        yield view.banner(
            view.say("Synthetic data: own cost of a generated demonstration cluster.", "合成数据：演示集群的自有成本。")
        )
    title = view.say(
        "Price of a GPU-hour by market, index (100 at its start) and size of the panel",
        "各市场 GPU 小时价格、指数（起点 100）与样本厂商数",
    )
    yield view.chart(_bands(view, rows, own, parts), title=title, alt=title, rows=rows)
    few = view.say(
        "Filled: a level of five providers or more. Hollow: the median of a smaller panel, which is no level and has no "
        "index. Levels move when providers come and go; read changes off the index.",
        "实心：至少五家厂商的水平值；空心：样本不足时的中位数，没有指数。水平值会随厂商增减变动，变化请看指数。",
    )
    yield view.note(few)
    if not own:
        yield view.note(
            view.say(
                "No own cost is drawn: no cost model covers these accelerators (almanac load cost-model).",
                "未画自有成本：没有覆盖这些加速卡的成本模型（almanac load cost-model）。",
            )
        )
    columns = (
        Column("day", Words("Day", "日期"), "day"),
        Column("series", Words("Series", "序列")),
        Column("level_usd", Words("Level", "水平"), "price"),
        Column("index_value", Words("Index", "指数"), "number"),
        Column("price_usd", Words("Level or median", "水平或中位数"), "price"),
        Column("low_usd", Words("Lower quartile", "下四分位"), "price"),
        Column("high_usd", Words("Upper quartile", "上四分位"), "price"),
        Column("provider_count", Words("Providers", "厂商数"), "int"),
        Column("contributors", Words("Who", "厂商")),
        Column("no_level_reason", Words("Why no level", "无水平值原因")),
        SOURCE,
    )
    yield view.table(columns, rows, caption=view.say("Levels and panels", "水平与样本"), folded=True, most=200)


def _runs(rows: list[Row]) -> list[Row]:
    """Rows with `run`, the unbroken stretch of its series each day belongs to: no line is drawn over a gap."""
    last: dict[str, tuple[dt.date, int]] = {}
    for row in sorted(rows, key=lambda r: r["day"]):
        before, run = last.get(row["series"], (row["day"], 0))
        run += (row["day"] - before).days > LONGEST_GAP_DAYS
        last[row["series"]] = (row["day"], run)
        row["run"] = run
    return rows


def _headline(view: View, rows: list[Row], parts: Mapping[str, str]) -> str:
    """What the newest day with a level says, else that there is none."""
    valued = [r for r in rows if r["level_usd"] is not None and r["index_value"] is not None]
    if not valued:
        most = max(r["provider_count"] for r in rows)
        return view.say(
            f"No index yet: the largest panel has {most} of the 5 providers that a level needs",
            f"尚无指数：最大样本只有 {most} 家厂商，水平值至少需要 5 家",
        )
    best = next((r for r in valued if r["segment"] == "headline"), valued[0])
    name = parts[best["accelerator_id"]]
    return view.say(
        f"{name}: {text.price(best['level_usd'])} an hour on {text.day(best['day'])}, index {best['index_value']:.1f} "
        f"({best['segment']}, {best['provider_count']} providers)",
        f"{name}：{text.day(best['day'])} 每小时 {text.price(best['level_usd'])}，指数 {best['index_value']:.1f}"
        f"（{SERIES[best['segment'], best['price_kind']].zh}，{best['provider_count']} 家厂商）",
    )


def _bands(view: View, rows: list[Row], own: list[Row], parts: Mapping[str, str]) -> alt.LayerChart:
    """One plot in bands that share the time axis and the choice of the chip."""
    kinds = [view.say("level", "水平值"), view.say("median of a small panel", "小样本中位数")]
    shown = [
        {
            "a": parts[r["accelerator_id"]],
            "d": r["day"],
            "s": SERIES[r["segment"], r["price_kind"]].of(view.lang),
            "v": r["price_usd"],
            "i": r["index_value"],
            "n": r["provider_count"],
            "k": kinds[r["level_usd"] is None],
            "w": r["contributors"],
            "r": r["run"],
        }
        for r in rows
    ]
    names = [n for n in parts.values() if any(s["a"] == n for s in shown)]
    pick = alt.selection_point(
        fields=["a"], bind=alt.binding_select(options=names, name="GPU: "), value=names[0], name="gpu"
    )
    order = [w.of(view.lang) for w in SERIES.values() if any(s["s"] == w.of(view.lang) for s in shown)]
    time = alt.X("d:T", title=None, axis=alt.Axis(format="%Y-%m", tickCount=8))
    colour = alt.Color("s:N", title=None, scale=charts.colours(order))
    has_index = any(s["i"] is not None for s in shown)
    panel_top = HEIGHT - PANEL
    price_end = 210 if has_index else panel_top - GAP
    told = [
        charts.tip("d:T", view.say("Day", "日期")),
        charts.tip("s:N", view.say("Market", "市场")),
        charts.tip("v:Q", view.say("USD per GPU-hour", "美元/GPU 小时"), "$,.2f"),
        charts.tip("k:N", view.say("Figure", "口径")),
        charts.tip("i:Q", view.say("Index", "指数"), ".1f"),
        charts.tip("n:Q", view.say("Providers", "厂商数")),
        charts.tip("w:N", view.say("Who", "厂商")),
    ]
    source = charts.data(shown, "a", "d", "s", "v", "i", "n", "k", "w", "r")
    base = alt.Chart(source).transform_filter(pick)
    price = alt.Y(
        "v:Q",
        title=view.say("USD per GPU-hour", "美元/GPU 小时"),
        axis=alt.Axis(format="$,.0f", tickCount=6, orient="left"),
        scale=alt.Scale(zero=True, range=[price_end, 0]),
    )
    drawn: list[alt.Chart] = [
        base.mark_line(opacity=0.6).encode(x=time, y=price, color=colour, detail="r:N"),
        base.mark_point(filled=False, size=30).encode(x=time, y=price, color=colour, tooltip=told).add_params(pick),
        base.mark_point(filled=True, size=30)
        .transform_filter(alt.datum.k == kinds[0])
        .encode(x=time, y=price, color=colour, tooltip=told),
    ]
    if own:
        drawn += _own_cost(view, own, parts, pick, price)
    bands: list[alt.Chart | alt.LayerChart] = [alt.layer(*drawn)]
    if has_index:
        level = alt.Y(
            "i:Q",
            title=view.say("index", "指数"),
            axis=alt.Axis(tickCount=3, orient="left"),
            scale=alt.Scale(zero=False, range=[panel_top - GAP, price_end + GAP]),
        )
        bands.append(
            base.transform_filter("datum.i != null")
            .mark_line(point=True)
            .encode(x=time, y=level, color=colour, detail="r:N", tooltip=told)
        )
    size = alt.Y(
        "n:Q",
        title=view.say("providers", "厂商数"),
        axis=alt.Axis(tickMinStep=1, tickCount=3, orient="left"),
        scale=alt.Scale(zero=True, range=[HEIGHT, panel_top]),
    )
    bands.append(
        base.mark_line(interpolate="step-after", point=alt.OverlayMarkDef(size=14)).encode(
            x=time, y=size, color=colour, detail="r:N", tooltip=told
        )
    )
    return alt.layer(*bands).resolve_scale(y="independent").properties(width="container", height=HEIGHT)


def _own_cost(
    view: View, own: list[Row], parts: Mapping[str, str], pick: alt.Parameter, price: alt.Y
) -> list[alt.Chart]:
    """A line at the own cost of each cluster that has the chip, with its name."""
    lines = [
        {
            "a": parts[r["accelerator_id"]],
            "v": r["own_usd"],
            "c": view.say(f"own cost, {r['cluster']}", f"自有成本，{r['cluster']}")
            + (view.say(" (synthetic)", "（合成）") if r["is_synthetic"] else ""),
        }
        for r in own
    ]
    at = alt.Chart(charts.data(lines, "a", "v", "c")).transform_filter(pick)
    rule = at.mark_rule(strokeDash=[6, 3], size=2).encode(
        y=price, tooltip=[charts.tip("c:N", view.say("Own cost", "自有成本")), charts.tip("v:Q", "USD", "$,.2f")]
    )
    label = at.mark_text(align="left", baseline="bottom", dx=4, dy=-2).encode(x=alt.value(0), y=price, text="c:N")
    return [rule, label]


def work_price(view: View) -> Iterator[Html]:
    """Price of a dense PFLOP-hour by accelerator in order of release, and the table of trends behind it."""
    rows = view.reader.rows(TREND) if view.reader.has("mart.gpu_price_trend") else []
    kept = [
        r
        for r in rows
        if r["usd_per_dense_pflop_hour"] is not None
        and r["released"] is not None
        and r["term_months"] == 0
        and (r["segment"], r["price_kind"]) in SERIES
        and r["segment"] != "headline"
    ]
    if not kept:
        yield view.reason(
            view.say(
                "Price per PFLOP-hour is not shown: mart.gpu_price_trend holds no price of an accelerator with a known peak.",
                "未显示每 PFLOP 小时价格：mart.gpu_price_trend 没有峰值已知的加速卡价格。",
            )
        )
    else:
        yield from _generations(view, kept)
    if rows:
        yield _trend_table(view, rows)


def _generations(view: View, rows: list[Row]) -> Iterator[Html]:
    low = min(rows, key=lambda r: r["usd_per_dense_pflop_hour"])
    said = f"${low['usd_per_dense_pflop_hour']:.2f}"
    yield view.finding(
        view.say(
            f"A dense PFLOP-hour costs least on {low['name']}: {said} ({SERIES[low['segment'], low['price_kind']].en})",
            f"每稠密 PFLOP 小时最便宜的是 {low['name']}：{said}（{SERIES[low['segment'], low['price_kind']].zh}）",
        )
    )
    names = list(dict.fromkeys(r["name"] for r in sorted(rows, key=lambda r: (r["released"], r["name"]))))
    order = [w.of(view.lang) for k, w in SERIES.items() if any((r["segment"], r["price_kind"]) == k for r in rows)]
    shown = [
        {
            "a": r["name"],
            "v": r["usd_per_dense_pflop_hour"],
            "s": SERIES[r["segment"], r["price_kind"]].of(view.lang),
            "g": r["architecture"],
            "d": text.day(r["date"]),
            "p": r["price_usd_per_gpu_hour"],
            "n": r["provider_count"],
            "b": r["dense_peak_precision"],
        }
        for r in rows
    ]
    chart = (
        charts.base(shown, "a", "v", "s", "g", "d", "p", "n", "b", height=charts.rows_high(len(names)))
        .mark_point(filled=True, size=90, opacity=0.9)
        .encode(
            y=alt.Y("a:N", title=None, sort=names, axis=alt.Axis(grid=True)),
            x=alt.X(
                "v:Q",
                title=view.say("USD per dense PFLOP-hour, log axis", "美元/稠密 PFLOP 小时（对数轴）"),
                axis=alt.Axis(format="$,.2~f"),
                scale=alt.Scale(type="log", nice=False, padding=16),
            ),
            color=alt.Color("s:N", title=None, scale=charts.colours(order)),
            shape=alt.Shape("s:N", title=None, scale=alt.Scale(domain=order)),
            tooltip=[
                charts.tip("a:N", "GPU"),
                charts.tip("g:N", view.say("Generation", "架构")),
                charts.tip("s:N", view.say("Market", "市场")),
                charts.tip("v:Q", view.say("USD per PFLOP-hour", "美元/PFLOP 小时"), "$,.2f"),
                charts.tip("p:Q", view.say("USD per GPU-hour", "美元/GPU 小时"), "$,.2f"),
                charts.tip("b:N", view.say("Peak", "峰值口径")),
                charts.tip("n:Q", view.say("Providers", "厂商数")),
                charts.tip("d:N", view.say("Seen on", "日期")),
            ],
        )
    )
    title = view.say(
        "Price of a dense PFLOP-hour by accelerator, oldest release first",
        "各加速卡每稠密 PFLOP 小时价格（按发布先后）",
    )
    origin = [r | {"source_name": "mart.gpu_price_trend", "source_url": None} for r in rows]
    yield view.chart(chart, title=title, alt=title, rows=origin)
    yield view.note(
        view.say(
            "Newest price of each series over the dense BF16 peak (FP16 where there is no BF16): what can be rented, not "
            "what a job gets out of it. Days differ, see the table.",
            "各序列最新价格除以 BF16 稠密峰值（无 BF16 时用 FP16）：是可租用的峰值，不是作业实际所得。日期不一，见表。",
        )
    )


def _trend_table(view: View, rows: list[Row]) -> Html:
    columns = (
        Column("accelerator_id", Words("Accelerator", "加速卡")),
        Column("segment", Words("Market", "市场")),
        Column("price_kind", Words("Kind", "类别")),
        Column("term_months", Words("Months", "月数"), "int"),
        Column("date", Words("Day", "日期"), "day"),
        Column("price_usd_per_gpu_hour", Words("USD per GPU-hour", "美元/GPU 小时"), "price"),
        Column("price_basis", Words("Basis", "口径")),
        Column("provider_count", Words("Providers", "厂商数"), "int"),
        Column("change_7d_ratio", Words("7 days", "7 天"), "change"),
        Column("change_30d_ratio", Words("30 days", "30 天"), "change"),
        Column("change_365d_ratio", Words("365 days", "365 天"), "change"),
        Column("premium_over_neocloud_ratio", Words("Over neocloud", "相对新兴云"), "change"),
        Column("spot_discount_ratio", Words("Spot discount", "抢占式折扣"), "percent"),
        Column("one_gpu_premium_ratio", Words("One GPU over eight", "单卡溢价"), "change"),
        Column("usd_per_dense_pflop_hour", Words("USD per PFLOP-hour", "美元/PFLOP 小时"), "price"),
        Column("usd_per_gb_hour", Words("USD per GB-hour", "美元/GB 小时"), "number", 4),
    )
    return view.table(
        columns, rows, caption=view.say("Price trends by series", "各序列价格走势"), folded=True, most=200
    )
