"""What the own clusters' marts answer: where capacity went, jobs, failures, energy, cost against renting."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words
from warehouse.report.view import Column, View

SHORT = 8
JOBS = "mart.job_efficiency"
CLUSTER = Column("cluster", Words("Cluster", "集群"))
DATE = Column("date", Words("Day", "日期"), "day")
GPU_HOURS = Column("gpu_hours", Words("GPU-hours", "GPU 小时"), "number")


@dataclass(frozen=True, slots=True)
class Panel:
    """One mart: how its rows are read and shown, and what to load where it is empty."""

    table: str
    title: Words
    empty: Words
    sql: str
    columns: tuple[Column, ...]
    day: str = "date"


TRAINING = Words(
    "it needs jobs: almanac load slurm FILE, or kubernetes FILE",
    "需要作业数据：almanac load slurm 文件，或 kubernetes 文件",
)

PANELS = (
    Panel(
        "mart.ladder",
        Words("Where capacity went", "算力去向"),
        TRAINING,
        "select cluster, is_synthetic, rung, min(rung_order) as rung_order, sum(gpu_hours) as gpu_hours, "
        "sum(gpu_hours) / sum(sum(gpu_hours)) over (partition by cluster, is_synthetic) as share_ratio, "
        'max("date") as "date", sum(mfu_ratio * gpu_hours) / nullif(sum(gpu_hours) filter (mfu_ratio is not null), 0) as mfu_ratio '
        "from mart.ladder group by cluster, is_synthetic, rung order by is_synthetic, cluster, rung_order",
        (
            CLUSTER,
            Column("rung", Words("Time went to", "去向")),
            GPU_HOURS,
            Column("share_ratio", Words("Share", "占比"), "percent"),
            Column("mfu_ratio", Words("MFU", "MFU"), "percent"),
        ),
    ),
    Panel(
        JOBS,
        Words("Jobs", "作业"),
        TRAINING,
        "select * from mart.job_efficiency order by is_synthetic, coalesce(gpu_hours, attributed_gpu_hours) desc nulls last, job_id limit 100",
        (
            CLUSTER,
            Column("job_id", Words("Job", "作业")),
            Column("state", Words("State", "状态")),
            Column("gpus", Words("GPUs", "GPU 数"), "int"),
            GPU_HOURS,
            Column("wait_seconds", Words("Wait, s", "等待（秒）"), "int"),
            Column("mfu_ratio", Words("MFU", "MFU"), "percent"),
            Column("peak_precision", Words("of peak in", "峰值精度")),
            Column("mfu_unknown_reason", Words("Why no MFU", "无 MFU 的原因")),
            Column("tensor_active_mean_ratio", Words("Tensor active", "张量活跃"), "percent"),
            Column("tokens_per_s", Words("Tokens/s", "词元/秒"), "int"),
            Column("energy_kwh", Words("kWh", "千瓦时"), "number"),
            Column("gpu_energy_per_token_j", Words("J per token", "焦/词元"), "short"),
            Column("ended_at", Words("Ended", "结束"), "moment"),
        ),
        day="ended_at",
    ),
    Panel(
        "mart.reliability",
        Words("Time between interruptions", "中断间隔"),
        Words("it needs telemetry of a cluster", "需要集群遥测"),
        'select *, (select max("date") from telemetry.gpu_hours) as "date" from mart.reliability '
        "where scope = 'cluster' order by is_synthetic, name, level, incidents desc, component_class",
        (
            Column("name", Words("Cluster", "集群")),
            Column("component_class", Words("Component", "部件")),
            Column("incidents", Words("Incidents", "次数"), "int"),
            Column("gpu_hours", Words("GPU-hours", "GPU 小时"), "number"),
            Column("mtbf_hours", Words("MTBF, h", "MTBF（小时）"), "number"),
            Column("mtbf_low_hours", Words("90 % low", "90 % 下限"), "number"),
            Column("mtbf_high_hours", Words("90 % high", "90 % 上限"), "number"),
            Column("repair_mean_hours", Words("Repair, h", "修复（小时）"), "number"),
            Column("availability_ratio", Words("Availability", "可用率"), "percent"),
            Column("checkpoint_interval_s", Words("Best checkpoint interval, s", "最佳检查点间隔（秒）"), "int"),
        ),
    ),
    Panel(
        "mart.energy",
        Words("Energy", "能耗"),
        Words("it needs telemetry of a cluster", "需要集群遥测"),
        'select * from mart.energy order by "date" desc, is_synthetic, cluster limit 60',
        (
            DATE,
            CLUSTER,
            Column("gpu_energy_kwh", Words("GPUs, kWh", "GPU（千瓦时）"), "number"),
            Column("it_energy_kwh", Words("IT, kWh", "IT（千瓦时）"), "number"),
            Column("facility_energy_kwh", Words("Facility, kWh", "设施（千瓦时）"), "number"),
            Column("pue_ratio", Words("PUE", "PUE"), "number", 2),
            Column("job_energy_ratio", Words("Held by jobs", "作业占比"), "percent"),
            Column("gpu_energy_per_token_j", Words("J per token, GPUs", "焦/词元（GPU）"), "short"),
            Column("energy_per_token_j", Words("J per token, all", "焦/词元（全部）"), "short"),
        ),
    ),
    Panel(
        "mart.token_cost",
        Words("Cost of a million tokens", "每百万词元成本"),
        Words("it needs jobs with logs, or counters of a serving engine", "需要带日志的作业或推理计数"),
        "select * from mart.token_cost order by is_synthetic, cost_usd desc nulls last, cluster, subject limit 60",
        (
            CLUSTER,
            Column("work", Words("Work", "类型")),
            Column("subject", Words("Job or server", "作业或服务")),
            DATE,
            GPU_HOURS,
            Column("tokens", Words("Tokens", "词元"), "int"),
            Column("cost_usd", Words("Cost", "成本"), "price"),
            Column("usd_per_million_tokens", Words("Per million", "每百万"), "price"),
            Column("market_usd_per_million_tokens", Words("Rented", "租赁"), "price"),
            Column("unknown_reason", Words("What is missing", "缺失")),
        ),
    ),
    Panel(
        "mart.cost_monthly",
        Words("Bill by month", "月度账单"),
        Words("it needs cost pools (ref.cost_pools) and the ladder", "需要成本数据（ref.cost_pools）与算力去向"),
        "select * from mart.cost_monthly order by month_date desc, is_synthetic, cluster, cost_usd desc, account, user_name, rung limit 60",
        (
            CLUSTER,
            Column("month_date", Words("Month", "月份"), "day"),
            Column("account", Words("Account", "账户")),
            Column("user_name", Words("User", "用户")),
            Column("project", Words("Project", "项目")),
            Column("rung", Words("Time went to", "去向")),
            GPU_HOURS,
            Column("energy_kwh", Words("kWh", "千瓦时"), "number"),
            Column("cost_usd", Words("Cost", "成本"), "price"),
            Column("share_ratio", Words("Share", "占比"), "percent"),
        ),
        day="month_date",
    ),
    Panel(
        "mart.cost_vs_market",
        Words("Own cost against renting", "自有成本与租赁"),
        Words("it needs cost pools (ref.cost_pools)", "需要成本数据（ref.cost_pools）"),
        "select * from mart.cost_vs_market order by is_synthetic, cluster, accelerator_id, price_kind",
        (
            CLUSTER,
            Column("accelerator_id", Words("Accelerator", "加速卡")),
            Column("price_kind", Words("Rental", "租赁类型")),
            Column("own_usd_per_gpu_hour", Words("Own, per hour", "自有/小时"), "price"),
            Column("own_usd_per_used_gpu_hour", Words("Own, per used hour", "自有/使用小时"), "price"),
            Column("market_usd_per_gpu_hour", Words("Market", "市场"), "price"),
            Column("index_usd_per_gpu_hour", Words("Index", "指数"), "price"),
            Column("market_low_usd_per_gpu_hour", Words("Low", "低"), "price"),
            Column("market_high_usd_per_gpu_hour", Words("High", "高"), "price"),
            Column("market_providers", Words("Providers", "厂商数"), "int"),
            Column("utilisation_ratio", Words("Use", "使用率"), "percent"),
            Column("break_even_utilisation_ratio", Words("Owning pays from", "自有划算起点"), "percent"),
            Column("unknown_reason", Words("What is missing", "缺失")),
        ),
        day="as_of_date",
    ),
)


def build(view: View) -> Iterator[Html]:
    """One panel after the other; an empty one says what it needs."""
    for panel in PANELS:
        name = panel.title.of(view.lang)
        rows = view.reader.rows(panel.sql) if panel.table in view.reader.tables else []
        if not rows:
            why = panel.empty.of(view.lang)
            yield view.reason(view.say(f"{name} is not shown: {why}.", f"未显示“{name}”：{why}。"))
            continue
        synthetic = any(r["is_synthetic"] for r in rows)
        yield view.finding(jobs_headline(view, rows) if panel.table == JOBS else name)
        columns = panel.columns
        if synthetic:
            yield view.banner(view.say("Synthetic data: a generated demonstration cluster.", "合成数据：演示集群。"))
            for row in rows:
                row["kind"] = view.say("synthetic", "合成") if row["is_synthetic"] else view.say("measured", "实测")
            columns = (*columns, Column("kind", Words("Data", "数据")))
        newest = max((r[panel.day] for r in rows if r.get(panel.day) is not None), default=None)
        origin = view.own_origin(newest, panel.table, synthetic=synthetic)
        if panel.table == "mart.ladder":
            yield from ladder(view, rows, origin)
        yield view.table(columns, rows, caption=name, folded=len(rows) > SHORT)
        yield origin


def jobs_headline(view: View, rows: list[Row]) -> str:
    """How many attempts, and the MFU of those that have one."""
    known = [r["mfu_ratio"] for r in rows if r["mfu_ratio"] is not None]
    said = view.say(f"{len(rows)} job attempts", f"{len(rows)} 次作业")
    if not known:
        return said + view.say("; MFU is not known for any (the table says why)", "；均无 MFU（原因见表）")
    middle = text.percent(median(known))
    return said + view.say(
        f"; MFU known for {len(known)}, {middle} at the median", f"；其中 {len(known)} 次有 MFU，中位数 {middle}"
    )


def ladder(view: View, rows: list[Row], origin: Html) -> Iterator[Html]:
    """GPU-hours on each rung, one chart for each cluster."""
    for cluster in dict.fromkeys(r["cluster"] for r in rows):
        own = [r for r in rows if r["cluster"] == cluster]
        chart = (
            charts.base(own, "rung", "gpu_hours", "share_ratio", height=charts.rows_high(len(own), 24))
            .mark_bar()
            .encode(
                y=alt.Y("rung:N", title=None, sort=[r["rung"] for r in own]),
                x=alt.X("gpu_hours:Q", title=view.say("GPU-hours", "GPU 小时")),
                color=alt.condition("datum.rung == 'productive'", alt.value(charts.BLUE), alt.value(charts.GREY)),
                tooltip=[
                    "rung:N",
                    alt.Tooltip("gpu_hours:Q", format=",.1f"),
                    alt.Tooltip("share_ratio:Q", format=".1%"),
                ],
            )
        )
        title = view.say(f"{cluster}: capacity by what it went to", f"{cluster}：算力去向")
        yield view.chart(chart, title=title, alt=title, source=origin)


SECTION = Section(
    "operations",
    95,
    Words("Operations", "运营"),
    build,
    needs=("ops.build",),
    also=tuple(p.table for p in PANELS),
)
