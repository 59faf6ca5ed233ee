"""Pictures of the own clusters: MFU by job, power against MFU, interruptions in time, links, own cost against renting."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words
from warehouse.report.view import Column, View

MOST_DEVICES = 40
VERDICTS = ("ok", "unknown", "warn", "fail")
CLOCK = "%m-%d %H:%M"

JOBS = """
select cluster, is_synthetic, job_id || '/' || attempt as job, accelerator_id, gpus, mfu_ratio, hfu_ratio, hfu_bound_ratio,
    coalesce(gpu_hours, attributed_gpu_hours) as gpu_hours, coalesce(user_name, account) as who,
    case when energy_known_ratio >= 0.95 and attributed_gpu_hours > 0
        then energy_kwh / (energy_known_ratio * attributed_gpu_hours) * 1000 end as power_w,
    coalesce(ended_at, started_at) as day
from mart.job_efficiency
where mfu_ratio is not null
order by is_synthetic, gpu_hours desc nulls last, job
limit 2000
"""

INTERRUPTIONS = """
select * from (
    select cluster, is_synthetic, node, occurred_at as seen_at, case when kind = 'xid' then 'XID ' || code else kind end as what,
        coalesce(message, severity, '') as why, 'device' as kind
    from telemetry.gpu_events
    where kind not in ('returned', 'gap', 'throttle', 'xid_last') and coalesce(severity, 'error') in ('error', 'fatal')
    union all
    select cluster, is_synthetic, unnest(string_split(node_list, ',')), ended_at, state, 'job ' || job_id || '/' || attempt, 'job'
    from telemetry.jobs
    where is_preferred and state in ('node_fail', 'failed', 'out_of_memory') and ended_at is not null and node_list is not null
)
where seen_at > (select max(occurred_at) - interval 90 day from telemetry.gpu_events)
    or not exists (select 1 from telemetry.gpu_events)
order by is_synthetic, seen_at desc, node, what
limit 600
"""

LINKS = """
with devices as (
    select cluster, is_synthetic, node, device, link_kind, sum(error_count) as errors,
        max(case verdict when 'fail' then 3 when 'warn' then 2 when 'unknown' then 1 else 0 end) as gravity
    from mart.link_health
    where link_kind <> 'pcie'
    group by cluster, is_synthetic, node, device, link_kind
),
worst as (
    select *, row_number() over (
        partition by cluster, is_synthetic order by gravity desc, errors desc nulls last, node, device
    ) as place
    from devices
)
select l.cluster, l.is_synthetic, l.node || ' ' || right(l.device, 8) || ' ' || l.link_kind as device, l.link_index, l.verdict,
    l.rule, l.error_count, l.last_read_at
from mart.link_health as l
inner join worst as w using (cluster, is_synthetic, node, device, link_kind)
where w.place <= $most
order by l.is_synthetic, l.cluster, w.place, l.link_index
"""

SUSPECTS = """
select * from mart.suspects where is_suspect order by is_synthetic, chance_ratio, cluster, place limit 40
"""

COSTS = """
select * from mart.cost_vs_market
where own_usd_per_gpu_hour is not null and coalesce(market_usd_per_gpu_hour, compare_usd_per_gpu_hour) is not null
order by is_synthetic, cluster, accelerator_id, price_kind
"""


def build(view: View) -> Iterator[Html]:
    """One picture for each question; what has no data says what it needs."""
    yield from jobs(view)
    yield from interruptions(view)
    yield from links(view)
    yield from suspects(view)
    yield from costs(view)


def has(view: View, *tables: str) -> bool:
    """Are all of these tables there?"""
    return all(table in view.reader.tables for table in tables)


def banner(view: View, rows: list[Row]) -> Iterator[Html]:
    """The warning above figures of the demonstration cluster."""
    if any(r["is_synthetic"] for r in rows):
        yield view.banner(view.say("Synthetic data: a generated demonstration cluster.", "合成数据：演示集群。"))


def jobs(view: View) -> Iterator[Html]:
    """How MFU spreads over jobs, and what power goes with it."""
    rows = view.reader.rows(JOBS) if has(view, "mart.job_efficiency") else []
    if not rows:
        yield view.reason(
            view.say(
                "MFU by job is not shown: no job has one (it needs a training log, its model and its accelerator).",
                "未显示各作业 MFU：没有作业具备该值（需要训练日志、模型与加速卡）。",
            )
        )
        return
    known = sorted(r["mfu_ratio"] for r in rows)
    yield view.finding(
        view.say(
            f"Jobs reach an MFU of {text.percent(median(known))} at the median, from {text.percent(known[0])} to {text.percent(known[-1])}",
            f"作业 MFU 中位数 {text.percent(median(known))}，区间 {text.percent(known[0])} 至 {text.percent(known[-1])}",
        )
    )
    yield from banner(view, rows)
    synthetic = any(r["is_synthetic"] for r in rows)
    origin = view.own_origin(
        max((r["day"] for r in rows if r["day"] is not None), default=None), "mart.job_efficiency", synthetic=synthetic
    )
    title = view.say("Jobs by MFU, weighted by GPU-hours", "按 MFU 分布的作业（以 GPU 小时计）")
    yield view.chart(distribution(view, rows), title=title, alt=title, source=origin)
    powered = [r for r in rows if r["power_w"] is not None]
    if powered:
        title = view.say(
            "Mean power of a GPU against MFU, one dot a job, as large as its GPU-hours",
            "GPU 平均功率与 MFU（每点一个作业，大小为 GPU 小时）",
        )
        yield view.chart(power(view, powered), title=title, alt=title, source=origin)


def distribution(view: View, rows: list[Row]) -> alt.LayerChart:
    """GPU-hours in steps of MFU, and a tick for each job below."""
    names = ("cluster", "job", "mfu_ratio", "gpu_hours", "who", "gpus")
    x = alt.X(
        "mfu_ratio:Q",
        title="MFU",
        axis=alt.Axis(format=".0%", values=[n / 10 for n in range(8)]),
        scale=alt.Scale(domain=[0, 0.7], clamp=True),
    )
    bars = (
        charts.base(rows, *names, height=220)
        .mark_bar(color=charts.BLUE, opacity=0.55)
        .encode(
            x=x.bin(step=0.025),
            y=alt.Y("sum(gpu_hours):Q", title=view.say("GPU-hours", "GPU 小时")),
            tooltip=[
                alt.Tooltip("count()", title=view.say("jobs", "作业数")),
                alt.Tooltip("sum(gpu_hours):Q", format=",.1f"),
            ],
        )
    )
    ticks = (
        charts.base(rows, *names, height=220)
        .mark_tick(color=charts.RED, thickness=2, size=14, yOffset=-7)
        .encode(
            x=x,
            y=alt.datum(0),
            tooltip=["cluster:N", "job:N", "who:N", "gpus:Q", alt.Tooltip("mfu_ratio:Q", format=".1%", title="MFU")],
        )
    )
    return alt.layer(bars, ticks).properties(width="container")


def power(view: View, rows: list[Row]) -> alt.Chart:
    """A job that draws much and computes little stands at the upper left."""
    return (
        charts.base(rows, "cluster", "job", "accelerator_id", "mfu_ratio", "power_w", "gpu_hours", "who", height=260)
        .mark_circle(opacity=0.75)
        .encode(
            x=alt.X("mfu_ratio:Q", title="MFU", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True)),
            y=alt.Y("power_w:Q", title=view.say("W per GPU", "瓦/GPU"), scale=alt.Scale(zero=True)),
            size=alt.Size("gpu_hours:Q", title=view.say("GPU-hours", "GPU 小时"), scale=alt.Scale(range=[40, 500])),
            color=alt.Color("accelerator_id:N", title=None),
            tooltip=[
                "cluster:N",
                "job:N",
                "who:N",
                alt.Tooltip("mfu_ratio:Q", format=".1%", title="MFU"),
                alt.Tooltip("power_w:Q", format=",.0f", title="W"),
                alt.Tooltip("gpu_hours:Q", format=",.1f"),
            ],
        )
    )


def interruptions(view: View) -> Iterator[Html]:
    """Errors of devices and lost jobs in time, a line for each node."""
    rows = view.reader.rows(INTERRUPTIONS) if has(view, "telemetry.gpu_events", "telemetry.jobs") else []
    if not rows:
        yield view.reason(
            view.say("The timeline of interruptions is not shown: none was seen.", "未显示中断时间线：未见中断。")
        )
        return
    nodes = len({r["node"] for r in rows})
    yield view.finding(
        view.say(
            f"{len(rows)} errors of devices and lost jobs on {nodes} node{'s' * (nodes != 1)}",
            f"{nodes} 个节点上共 {len(rows)} 次设备错误与作业丢失",
        )
    )
    yield from banner(view, rows)
    chart = (
        charts.base(rows, "node", "seen_at", "what", "why", "kind", height=charts.rows_high(nodes, 26))
        .mark_point(filled=True, size=110, opacity=0.8)
        .encode(
            x=alt.X("seen_at:T", title="UTC", axis=alt.Axis(format=CLOCK, tickCount=8), scale=alt.Scale(padding=12)),
            y=alt.Y("node:N", title=None),
            color=alt.Color("what:N", title=None),
            shape=alt.Shape(
                "kind:N", title=None, scale=alt.Scale(domain=["device", "job"], range=["circle", "diamond"])
            ),
            tooltip=[alt.Tooltip("seen_at:T", format="%Y-%m-%d %H:%M:%S", title="UTC"), "node:N", "what:N", "why:N"],
        )
    )
    title = view.say("Interruptions by node, the last 90 days", "各节点中断（近 90 天）")
    origin = view.own_origin(
        max(r["seen_at"] for r in rows),
        "telemetry.gpu_events, telemetry.jobs",
        synthetic=any(r["is_synthetic"] for r in rows),
    )
    yield view.chart(chart, title=title, alt=title, source=origin)


def links(view: View) -> Iterator[Html]:
    """A cell for each link: what the thresholds say of it."""
    rows = view.reader.rows(LINKS, most=MOST_DEVICES) if has(view, "mart.link_health") else []
    if not rows:
        yield view.reason(view.say("The map of links is not shown: no link was read.", "未显示链路图：未读取链路。"))
        return
    bad = [r for r in rows if r["verdict"] in ("warn", "fail")]
    yield view.finding(
        view.say(
            f"{len(bad)} of {len(rows)} links shown break a threshold",
            f"所示 {len(rows)} 条链路中 {len(bad)} 条超过阈值",
        )
    )
    yield from banner(view, rows)
    devices = list(dict.fromkeys(r["device"] for r in rows))
    colours = [charts.GREEN, charts.GREY, charts.ORANGE, charts.RED]
    chart = (
        charts.base(
            rows, "device", "link_index", "verdict", "rule", "error_count", height=charts.rows_high(len(devices), 18)
        )
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("link_index:O", title=view.say("link", "链路"), axis=alt.Axis(labelAngle=0)),
            y=alt.Y("device:N", title=None, sort=devices),
            color=alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(VERDICTS), range=colours)),
            tooltip=["device:N", "link_index:O", "verdict:N", "rule:N", alt.Tooltip("error_count:Q", format=",")],
        )
    )
    title = view.say(
        f"Links of the last 24 hours, the {MOST_DEVICES} worst devices first",
        f"近 24 小时链路（最差的 {MOST_DEVICES} 个设备在前）",
    )
    origin = view.own_origin(
        max(r["last_read_at"] for r in rows), "mart.link_health", synthetic=any(r["is_synthetic"] for r in rows)
    )
    yield view.chart(chart, title=title, alt=title, source=origin)


def suspects(view: View) -> Iterator[Html]:
    """Nodes and links that chance does not explain."""
    rows = view.reader.rows(SUSPECTS) if has(view, "mart.suspects") else []
    if not rows:
        yield view.note(
            view.say(
                "No node and no link had more trouble than chance explains among its like.",
                "没有节点或链路的故障多于同类中随机可解释的程度。",
            )
        )
        return
    columns = (
        Column("kind", Words("Kind", "类别")),
        Column("cluster", Words("Cluster", "集群")),
        Column("node", Words("Node", "节点"), "name"),
        Column("device", Words("Device", "设备")),
        Column("link_index", Words("Link", "链路"), "int"),
        Column("incidents", Words("Incidents", "次数"), "int"),
        Column("expected", Words("Expected", "预期"), "number", 2),
        Column("chance_ratio", Words("By chance, at most", "随机概率上限"), "short"),
        Column("what", Words("What", "内容")),
    )
    yield view.table(columns, rows, caption=view.say("Suspects, by evidence", "可疑对象（按证据）"))
    origin = view.own_origin(
        max((r["last_at"] for r in rows if r["last_at"]), default=None),
        "mart.suspects",
        synthetic=any(r["is_synthetic"] for r in rows),
    )
    yield origin


def costs(view: View) -> Iterator[Html]:
    """What one's own GPU-hour costs beside the range of what renting one costs."""
    rows = view.reader.rows(COSTS) if has(view, "mart.cost_vs_market") else []
    if not rows:
        yield view.reason(
            view.say(
                "Own cost against renting is not shown: it needs a cost model (almanac load cost-model FILE.toml) and prices.",
                "未显示自有成本与租赁对比：需要成本模型（almanac load cost-model 文件.toml）与价格。",
            )
        )
        return
    for row in rows:
        row["place"] = f"{row['accelerator_id']} {row['price_kind']}"
        row["own"] = row["own_usd_per_used_gpu_hour"] or row["own_usd_per_gpu_hour"]
    cheaper = sum(r["own"] < (r["compare_usd_per_gpu_hour"] or 0) for r in rows)
    yield view.finding(
        view.say(
            f"Owning is cheaper than {cheaper} of {len(rows)} kinds of renting at today's use",
            f"按当前使用率，自有成本低于 {len(rows)} 种租赁中的 {cheaper} 种",
        )
    )
    yield from banner(view, rows)
    yield view.chart(
        cost_chart(view, rows),
        title=view.say(
            "USD per used GPU-hour: own (diamond), providers' newest prices (bar from lowest to highest, tick at the median)",
            "每使用 GPU 小时美元：自有（菱形）、厂商最新价（最低至最高，竖线为中位数）",
        ),
        alt=view.say("Own cost against renting", "自有成本与租赁"),
        source=view.own_origin(
            max(r["as_of_date"] for r in rows), "mart.cost_vs_market", synthetic=any(r["is_synthetic"] for r in rows)
        ),
    )


def cost_chart(view: View, rows: list[Row]) -> alt.LayerChart:
    """A bar for the market, a tick for its median, a diamond for oneself."""
    names = ("cluster", "place", "own", "market_low_usd_per_gpu_hour", "market_high_usd_per_gpu_hour",
             "market_usd_per_gpu_hour", "break_even_utilisation_ratio", "utilisation_ratio")  # fmt: skip
    base = charts.base(rows, *names, height=charts.rows_high(len(rows), 34))
    y = alt.Y("place:N", title=None, sort=[r["place"] for r in rows])
    axis = alt.Axis(format="$,.2f")
    bar = base.mark_bar(color=charts.SKY, opacity=0.5, height=10).encode(
        y=y,
        x=alt.X("market_low_usd_per_gpu_hour:Q", title=view.say("USD per GPU-hour", "美元/GPU 小时"), axis=axis),
        x2="market_high_usd_per_gpu_hour:Q",
    )
    tick = base.mark_tick(color=charts.BLUE, thickness=3, size=18).encode(y=y, x="market_usd_per_gpu_hour:Q")
    own = base.mark_point(shape="diamond", filled=True, size=160, color=charts.RED, opacity=1).encode(
        y=y,
        x="own:Q",
        tooltip=[
            "cluster:N",
            "place:N",
            alt.Tooltip("own:Q", format="$,.2f", title=view.say("own", "自有")),
            alt.Tooltip("market_usd_per_gpu_hour:Q", format="$,.2f", title=view.say("market", "市场")),
            alt.Tooltip("utilisation_ratio:Q", format=".0%", title=view.say("use", "使用率")),
            alt.Tooltip(
                "break_even_utilisation_ratio:Q", format=".0%", title=view.say("owning pays from", "自有划算起点")
            ),
        ],
    )
    return alt.layer(bar, tick, own).properties(width="container")


SECTION = Section(
    "efficiency",
    93,
    Words("Efficiency, reliability and cost", "效率、可靠性与成本"),
    build,
    needs=("ops.build",),
    also=("mart.job_efficiency", "mart.link_health", "mart.suspects", "mart.cost_vs_market"),
)
