"""The own clusters: coverage, utilisation, power, energy, events and link errors; synthetic ones under a banner."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words, escape
from warehouse.report.view import Column, View

MOST_CLUSTERS = 6
CLOCK = "%m-%d %H:%M"

CLUSTERS = """
select cluster, source, is_synthetic, max("date") as last_date, min("date") as first_date,
    sum(covered_gpu_hours) as covered, sum(capacity_gpu_hours) as capacity, sum(energy_kwh) as energy_kwh,
    sum(gpu_util_mean_ratio * covered_gpu_hours) / nullif(sum(covered_gpu_hours) filter (gpu_util_mean_ratio is not null), 0) as util,
    sum(idle_gpu_hours) as idle_hours, sum(xid_error_count) as xid_errors, sum(lost_count) as lost,
    sum(link_error_count) as link_errors, max(gpus_seen) as gpus,
    sum(tensor_active_mean_ratio * covered_gpu_hours)
    / nullif(sum(covered_gpu_hours) filter (tensor_active_mean_ratio is not null), 0) as tensor
from mart.fleet_daily
group by cluster, source, is_synthetic
order by is_synthetic, covered desc nulls last, cluster, source
"""

HOURS = """
select hour_at, sum(power_mean_w) / 1000 as power_kw, count(power_mean_w) as metered, count(*) as gpus,
    avg(gpu_util_mean_ratio) as util, min(gpu_util_mean_ratio) as util_min, max(gpu_util_mean_ratio) as util_max,
    avg(tensor_active_mean_ratio) as tensor
from telemetry.gpu_hours
where cluster = $cluster and source = $source and is_synthetic = $synthetic and parent_gpu_uuid is null
    and seconds_covered > 0 and "date" > (
        select max("date") - 7 from telemetry.gpu_hours where cluster = $cluster and source = $source
    )
group by hour_at
order by hour_at
"""

LINKS = """
select date_trunc('hour', sampled_at) as hour_at, node || ' ' || left(device, 12) || ' ' || link_kind || ' ' || link_index as link,
    counter, sum(delta) as errors
from telemetry.link_counters
where cluster = $cluster and source = $source and is_synthetic = $synthetic and delta > 0
    and regexp_matches(
        lower(counter), 'err|crc|replay|recover|down|discard|drop|overrun|integrity|out_of_seq|retr|nak|nack|timeout'
    )
    and "date" > $last - 7
group by all
order by hour_at, link, counter
"""

EVENTS = """
select occurred_at, node, device, kind, code, severity, action, message
from telemetry.gpu_events
where cluster = $cluster and source = $source and is_synthetic = $synthetic
order by occurred_at desc
limit 200
"""


def build(view: View) -> Iterator[Html]:
    """One block for each cluster, real ones first."""
    clusters = view.reader.rows(CLUSTERS)
    for cluster in clusters[:MOST_CLUSTERS]:
        yield from block(view, cluster)
    if len(clusters) > MOST_CLUSTERS:
        rest = len(clusters) - MOST_CLUSTERS
        yield view.note(
            view.say(f"{rest} more clusters are in mart.fleet_daily.", f"另有 {rest} 个集群见 mart.fleet_daily。")
        )
    yield daily_table(view)


def block(view: View, row: Row) -> Iterator[Html]:
    """Figures, charts and events of one cluster as one collector saw it."""
    where = {"cluster": row["cluster"], "source": row["source"], "synthetic": row["is_synthetic"]}
    yield view.finding(headline(view, row))
    if row["is_synthetic"]:
        yield view.banner(
            view.say(
                f"Synthetic data. The cluster {row['cluster']} does not exist: its readings are generated from a fixed seed to "
                "show what a real cluster looks like.",
                f"合成数据。集群 {row['cluster']} 并不存在：读数由固定种子生成，仅用于演示。",
            )
        )
    yield cards(view, row)
    hours = view.reader.rows(HOURS, **where)
    origin = view.own_origin(row["last_date"], f"{row['source']} (telemetry.gpu_hours)", synthetic=row["is_synthetic"])
    if hours:
        yield view.chart(
            usage(view, hours),
            title=view.say(
                "Utilisation by hour: mean of the GPUs, and from the least to the most used",
                "每小时利用率：GPU 均值及最低至最高区间",
            ),
            alt=view.say("Utilisation by hour", "每小时利用率"),
            source=origin,
        )
        yield view.chart(
            power(view, hours),
            title=view.say("Power of the GPUs by hour, kW", "GPU 每小时功率（千瓦）"),
            alt=view.say("Power by hour", "每小时功率"),
            source=origin,
        )
    errors = view.reader.rows(LINKS, **where, last=row["last_date"])
    if errors:
        yield from link_errors(view, errors, origin)
    events = view.reader.rows(EVENTS, **where)
    if events:
        columns = (
            Column("occurred_at", Words("When", "时间"), "moment"),
            Column("node", Words("Node", "节点"), "name"),
            Column("device", Words("Device", "设备")),
            Column("kind", Words("Kind", "类型")),
            Column("code", Words("Code", "代码"), "int"),
            Column("severity", Words("Severity", "严重度")),
            Column("action", Words("Action", "建议操作")),
            Column("message", Words("Message", "信息")),
        )
        yield view.table(
            columns,
            events,
            caption=view.say(f"Events of {row['cluster']}, newest first", f"{row['cluster']} 事件（最新在前）"),
        )


def headline(view: View, row: Row) -> str:
    """Utilisation and idle time in one sentence."""
    name = f"{row['cluster']} ({row['source']})"
    if row["util"] is None:
        return view.say(f"{name}: utilisation is not known", f"{name}：利用率未知")
    used = text.percent(row["util"], 0)
    idle_en = (
        f", idle for {row['idle_hours']:,.0f} of {row['covered']:,.0f} GPU-hours"
        if row["idle_hours"] is not None
        else ""
    )
    idle_zh = (
        f"，{row['covered']:,.0f} GPU 小时中 {row['idle_hours']:,.0f} 小时空闲" if row["idle_hours"] is not None else ""
    )
    return view.say(f"{name}: {used} utilised{idle_en}", f"{name}：利用率 {used}{idle_zh}")


def cards(view: View, row: Row) -> Html:
    """The figures a person asks for first."""
    covered = row["covered"] / row["capacity"] if row["capacity"] else None
    facts = (
        (view.say("GPUs", "GPU 数"), text.number(row["gpus"])),
        (view.say("Time covered by readings", "读数覆盖率"), text.percent(covered)),
        (view.say("Utilisation", "利用率"), text.percent(row["util"])),
        (view.say("Tensor pipes active", "张量单元活跃"), text.percent(row["tensor"])),
        (view.say("Energy, kWh", "能耗（千瓦时）"), text.number(row["energy_kwh"], 1)),
        (view.say("XID errors", "XID 错误"), text.number(row["xid_errors"])),
        (view.say("GPUs lost", "掉卡次数"), text.number(row["lost"])),
        (view.say("Link errors", "链路错误"), text.number(row["link_errors"])),
    )
    period = f"{text.day(row['first_date'])} – {text.day(row['last_date'])}"
    inner = "".join(
        f'<div class="card"><p>{escape(name)}</p><p class="value">{escape(value)}</p></div>' for name, value in facts
    )
    return Html(
        f'<div class="cards small" role="group" aria-label="{escape(period)}">{inner}</div><p class="origin">{escape(period)}</p>'
    )


def usage(view: View, hours: list[Row]) -> alt.LayerChart:
    """A line for the mean in a band from lowest to highest GPU, and one for the tensor pipes."""
    names = [view.say("kernel running", "有核函数运行"), view.say("tensor pipes active", "张量单元活跃")]
    x = alt.X("hour_at:T", title="UTC", axis=alt.Axis(format=CLOCK, tickCount=8))
    y = alt.Y("v:Q", title=None, axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    when = alt.Tooltip("hour_at:T", format="%Y-%m-%d %H:%M", title="UTC")
    band = (
        charts.base(hours, "hour_at", "util_min", "util_max", "gpus")
        .mark_area(opacity=0.2, color=charts.BLUE)
        .encode(
            x=x,
            y=alt.Y("util_min:Q", title=None),
            y2="util_max:Q",
            tooltip=[
                when,
                charts.tip("util_min:Q", view.say("least used GPU", "最低"), ".1%"),
                charts.tip("util_max:Q", view.say("most used GPU", "最高"), ".1%"),
                charts.tip("gpus:Q", "GPU"),
            ],
        )
    )
    means = [
        {"hour_at": r["hour_at"], "s": name, "v": r[key]}
        for r in hours
        for key, name in zip(("util", "tensor"), names, strict=True)
        if r[key] is not None
    ]
    colour = alt.Color("s:N", title=None, scale=alt.Scale(domain=names, range=[charts.BLUE, charts.ORANGE]))
    lines = (
        charts.base(means, "hour_at", "s", "v")
        .mark_line(strokeWidth=2.5)
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=alt.StrokeDash("s:N", legend=None),
            tooltip=[when, "s:N", alt.Tooltip("v:Q", format=".1%")],
        )
    )
    return alt.layer(band, lines).properties(width="container")


def power(view: View, hours: list[Row]) -> alt.Chart:
    """Sum of the mean powers of the GPUs that were read."""
    return (
        charts.base(hours, "hour_at", "power_kw", "metered", height=200)
        .mark_area(line={"color": charts.GREEN}, color=charts.GREEN, opacity=0.35)
        .encode(
            x=alt.X("hour_at:T", title="UTC", axis=alt.Axis(format=CLOCK, tickCount=8)),
            y=alt.Y("power_kw:Q", title="kW"),
            tooltip=[
                alt.Tooltip("hour_at:T", format="%Y-%m-%d %H:%M", title="UTC"),
                charts.tip("power_kw:Q", "kW", ",.2f"),
                charts.tip("metered:Q", view.say("GPUs read", "已读 GPU")),
            ],
        )
    )


def link_errors(view: View, rows: list[Row], origin: Html) -> Iterator[Html]:
    """Growth of error counters by hour, for links that had any."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["link"]] = totals.get(row["link"], 0) + row["errors"]
    worst = sorted(totals, key=lambda name: (-totals[name], name))
    share = totals[worst[0]] / sum(totals.values())
    yield view.finding(
        view.say(
            f"{len(totals)} link{'s' if len(totals) > 1 else ''} with errors; {worst[0]} has {share * 100:.0f} % of them",
            f"{len(totals)} 条链路出现错误；{worst[0]} 占 {share * 100:.0f} %",
        )
    )
    drawn = [r for r in rows if r["link"] in worst[:3]]
    chart = (
        charts.base(drawn, "hour_at", "link", "counter", "errors", height=200)
        .mark_bar(width=8)
        .encode(
            x=alt.X("hour_at:T", title="UTC", axis=alt.Axis(format=CLOCK, tickCount=8)),
            y=alt.Y("errors:Q", title=view.say("errors an hour", "每小时错误数")),
            color=alt.Color("counter:N", title=None),
            tooltip=[
                alt.Tooltip("hour_at:T", format="%Y-%m-%d %H:%M", title="UTC"),
                "link:N",
                "counter:N",
                alt.Tooltip("errors:Q", format=","),
            ],
        )
    )
    title = view.say("Link errors by hour and counter, the worst three links", "每小时链路错误（最差三条，按计数器）")
    yield view.chart(chart, title=title, alt=title, source=origin)


def daily_table(view: View) -> Html:
    """The mart by day."""
    columns = (
        Column("date", Words("Day", "日期"), "day"),
        Column("cluster", Words("Cluster", "集群")),
        Column("source", Words("Collector", "采集器")),
        Column("synthetic", Words("Data", "数据")),
        Column("gpus_seen", Words("GPUs", "GPU 数"), "int"),
        Column("coverage_ratio", Words("Covered", "覆盖率"), "percent"),
        Column("gpu_util_mean_ratio", Words("Utilised", "利用率"), "percent"),
        Column("idle_ratio", Words("Idle", "空闲"), "percent"),
        Column("tensor_active_mean_ratio", Words("Tensor active", "张量活跃"), "percent"),
        Column("power_mean_w", Words("W per GPU", "瓦/GPU"), "int"),
        Column("energy_kwh", Words("kWh", "千瓦时"), "number", 1),
        Column("energy_counter_ratio", Words("Energy from counters", "计数器能耗占比"), "percent", 0),
        Column("xid_error_count", Words("XID errors", "XID 错误"), "int"),
        Column("lost_count", Words("Lost", "掉卡"), "int"),
        Column("link_error_count", Words("Link errors", "链路错误"), "int"),
    )
    rows = view.reader.rows(
        'select * from mart.fleet_daily order by "date" desc, is_synthetic, cluster, source limit 400'
    )
    for row in rows:
        row["synthetic"] = view.say("synthetic", "合成") if row["is_synthetic"] else view.say("measured", "实测")
    return view.table(columns, rows, caption=view.say("By day", "按日"), folded=True)


SECTION = Section(
    "fleet",
    90,
    Words("Fleet", "机群"),
    build,
    needs=("mart.fleet_daily",),
    empty=Words(
        "no telemetry has been read: run `almanac collect` on a node, or load files of an exporter",
        "尚未读入遥测：请在节点上运行 almanac collect，或载入采集器文件",
    ),
)
