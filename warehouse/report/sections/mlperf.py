"""MLPerf Training: time to train against size, utilisation by accelerator and round, results that open to runs."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from warehouse.report import charts, text
from warehouse.report.reader import Row
from warehouse.report.section import Section
from warehouse.report.text import Html, Words, escape
from warehouse.report.view import AS_OF, CERTAINTY, SOURCE, Column, View

RESULTS = """
select round, organization, system_desc_id, benchmark, benchmark_id, division, submitter, system,
    coalesce(a.part, accelerator, r.accelerator_id, 'not stated') as part, accelerator_count, minutes, mfu_ratio, mfu_is_upper_bound,
    accelerator_count * minutes / 60 as accelerator_hours, source, source_name, source_url, source_rank, certainty, known_at
from market.mlperf_results as r
left join (
    select accelerator_id, vendor || ' ' || min(regexp_replace(model, ' [(].*[)]$', '')) as part from ref.accelerators group by accelerator_id, vendor
) as a on r.accelerator_id = a.accelerator_id
where is_preferred and minutes is not null and accelerator_count > 0
order by
    try_cast(split_part(trim(round, 'v'), '.', 1) as integer) desc,
    try_cast(split_part(trim(round, 'v'), '.', 2) as integer) desc, benchmark_id, minutes
"""

RUNS = """
select round, organization, system_desc_id, benchmark, run_file, outcome, slot, minutes, outcome_reason
from market.mlperf_runs
where is_preferred
order by run_file
"""

MOST_RESULTS = 150
MOST_PARTS = 8
FEWEST_DOTS = 4


def build(view: View) -> Iterator[Html]:
    """Two charts and a table."""
    rows = view.reader.rows(RESULTS)
    if not rows:
        yield view.reason(view.say("Not shown: no result with a time and a size.", "未显示：没有含时间与规模的结果。"))
        return
    yield view.finding(headline(view, rows))
    yield from sizes(view, rows)
    yield from utilisation(view, rows)
    yield results_table(view, rows)
    if view.reader.has("mart.mlperf_efficiency"):
        yield generations(view)


def headline(view: View, rows: list[Row]) -> str:
    """Best time of the newest round on its largest benchmark."""
    newest = [r for r in rows if r["round"] == rows[0]["round"] and r["division"] != "open"] or rows
    name = next(
        (b for b in ("llama31_405b", "gpt3") if any(r["benchmark_id"] == b for r in newest)), newest[0]["benchmark_id"]
    )
    best = min((r for r in newest if r["benchmark_id"] == name), key=lambda r: r["minutes"])
    count = f"{best['accelerator_count']:,}"
    return view.say(
        f"{best['round']}: {name} trained in {text.short(best['minutes'])} minutes on {count} {best['part']} ({best['submitter']})",
        f"{best['round']}：{best['submitter']} 用 {count} 块 {best['part']} 在 {text.short(best['minutes'])} 分钟内完成 {name} 训练",
    )


def sizes(view: View, rows: list[Row]) -> Iterator[Html]:
    """Minutes against accelerators on log axes; along a grey line the accelerator hours are the same."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["benchmark_id"]] = counts.get(row["benchmark_id"], 0) + 1
    benchmarks = sorted(counts, key=lambda b: (-counts[b], b))
    first = next((b for b in ("llama31_405b",) if counts.get(b, 0) >= FEWEST_DOTS), benchmarks[0])
    parts = _common(rows)
    shown = [
        {"b": r["benchmark_id"], "n": r["accelerator_count"], "m": r["minutes"], "r": r["round"], "s": r["submitter"],
         "y": r["system"], "a": r["part"] if r["part"] in parts else view.say("other", "其他"), "h": r["accelerator_hours"]}
        for r in rows
    ]  # fmt: skip
    pick = alt.selection_point(
        fields=["b"],
        bind=alt.binding_select(options=benchmarks, name=view.say("Benchmark: ", "基准：")),
        value=first,
        name="pick",
    )
    lines = [
        {
            "b": b,
            "n": n,
            "m": hours * 60 / n,
            "h": f"{hours:,.4g} {view.say('accelerator hours', '加速卡小时')}",
            "i": hours,
            "e": n == low,
        }
        for b in benchmarks
        for low, high in [_span(rows, b)]
        for hours in _decades(rows, b)
        for n in (low, high)
    ]
    axis_n = alt.X(
        "n:Q",
        scale=alt.Scale(type="log", nice=False, padding=20),
        title=view.say("accelerators", "加速卡数量"),
        axis=alt.Axis(format="~s"),
    )
    axis_m = alt.Y(
        "m:Q",
        scale=alt.Scale(type="log", nice=False, padding=20),
        title=view.say("minutes to train", "训练分钟数"),
        axis=alt.Axis(format="~g"),
    )
    grey = alt.Chart(charts.data(lines, "b", "n", "m", "h", "i", "e")).transform_filter(pick)
    iso = grey.mark_line(strokeDash=[4, 4], color=charts.GREY, opacity=0.7, clip=True).encode(
        x=axis_n, y=axis_m, detail="i:N"
    )
    labels = (
        grey.transform_filter("datum.e")
        .mark_text(align="left", baseline="bottom", dx=4, fontSize=10, color=charts.GREY)
        .encode(x="n:Q", y="m:Q", text="h:N")
    )
    dots = (
        alt.Chart(charts.data(shown, "b", "n", "m", "r", "s", "y", "a", "h"))
        .transform_filter(pick)
        .mark_point(filled=True, size=90)
        .encode(
            x=axis_n,
            y=axis_m,
            color=alt.Color("a:N", title=None, scale=charts.colours([*parts, view.say("other", "其他")])),
            tooltip=[
                charts.tip("s:N", view.say("Submitter", "提交方")),
                charts.tip("y:N", view.say("System", "系统")),
                charts.tip("r:N", view.say("Round", "轮次")),
                charts.tip("n:Q", view.say("Accelerators", "加速卡数量"), ","),
                charts.tip("m:Q", view.say("Minutes", "分钟"), ",.2f"),
                charts.tip("h:Q", view.say("Accelerator hours", "加速卡小时"), ",.1f"),
            ],
        )
        .add_params(pick)
    )
    title = view.say("Time to train against system size, log axes", "训练时间与系统规模（对数坐标）")
    yield view.chart(
        alt.layer(iso, labels, dots).properties(width="container", height=360),
        title=title,
        alt=title,
        rows=[r for r in rows if r["benchmark_id"] == first],
    )
    yield view.note(
        view.say(
            "Along a dashed line the accelerator hours are equal: a system that scales without loss moves along it, one "
            "that scales worse moves above it.",
            "同一虚线上加速卡小时相同：无损扩展沿线移动，扩展有损则偏到线上方。",
        )
    )


def _span(rows: list[Row], benchmark: str) -> tuple[int, int]:
    sizes = [r["accelerator_count"] for r in rows if r["benchmark_id"] == benchmark]
    return (min(sizes), max(sizes)) if min(sizes) < max(sizes) else (max(1, min(sizes) // 2), max(sizes) * 2)


def _decades(rows: list[Row], benchmark: str) -> list[float]:
    hours = [r["accelerator_hours"] for r in rows if r["benchmark_id"] == benchmark]
    steps = [base * 10.0**power for power in range(-3, 7) for base in (1, 3)]
    return [s for s in steps if min(hours) / 2 <= s <= max(hours) * 2]


def _common(rows: list[Row]) -> list[str]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["part"]] = counts.get(row["part"], 0) + 1
    return sorted(sorted(counts, key=lambda p: (-counts[p], p))[: MOST_PARTS - 1])


def utilisation(view: View, rows: list[Row]) -> Iterator[Html]:
    """MFU by accelerator and round, where the work of a result is known."""
    known = [r for r in rows if r["mfu_ratio"] is not None]
    if not known:
        yield view.reason(
            view.say(
                "MFU by accelerator is not shown: it needs the result logs (source mlperf-training), and only official "
                "minutes have been read so far.",
                "未显示按加速卡的 MFU：需要结果日志（来源 mlperf-training），目前只读入了官方分钟数。",
            )
        )
        return
    parts = sorted({r["part"] for r in known})
    kinds = [view.say("MFU", "MFU"), view.say("at most (padding counted as work)", "上限（填充计入运算）")]
    shown = [
        {
            "a": r["part"],
            "u": r["mfu_ratio"],
            "b": r["benchmark_id"],
            "r": r["round"],
            "n": r["accelerator_count"],
            "s": r["submitter"],
            "k": kinds[bool(r["mfu_is_upper_bound"])],
        }
        for r in known
    ]
    best = max(known, key=lambda r: (not r["mfu_is_upper_bound"], r["mfu_ratio"]))
    yield view.finding(
        view.say(
            f"MFU from the logs: up to {text.percent(best['mfu_ratio'], 0)} of the dense BF16 peak ({best['part']}, {best['benchmark_id']})",
            f"由日志得出的 MFU：最高为 BF16 稠密峰值的 {text.percent(best['mfu_ratio'], 0)}（{best['part']}，{best['benchmark_id']}）",
        )
    )
    chart = (
        charts.base(shown, "a", "u", "b", "r", "n", "s", "k", height=charts.rows_high(len(parts), 32))
        .mark_point(filled=True, size=80, opacity=0.85)
        .encode(
            y=alt.Y("a:N", title=None, sort=parts, axis=alt.Axis(grid=True)),
            x=alt.X(
                "u:Q",
                title=view.say("MFU, share of the dense BF16 peak", "MFU（占 BF16 稠密峰值）"),
                axis=alt.Axis(format=".0%"),
                scale=alt.Scale(zero=True),
            ),
            color=alt.Color("r:N", title=None),
            shape=alt.Shape(
                "k:N",
                title=None,
                legend=alt.Legend(orient="bottom"),
                scale=alt.Scale(domain=kinds, range=["circle", "triangle-left"]),
            ),
            tooltip=[
                "s:N",
                "a:N",
                "b:N",
                "r:N",
                alt.Tooltip("n:Q", format=","),
                alt.Tooltip("u:Q", format=".1%", title="MFU"),
            ],
        )
    )
    title = view.say("MFU by accelerator; colour is the round", "各加速卡 MFU；颜色表示轮次")
    yield view.chart(chart, title=title, alt=title, rows=known)
    yield view.note(
        view.say(
            "Above 100 % means that lower precision than BF16 did part of the work. MFU is our derivation, no official MLPerf figure.",
            "超过 100 % 表示部分计算使用了低于 BF16 的精度。MFU 为本库推算，并非 MLPerf 官方数字。",
        )
    )


def results_table(view: View, rows: list[Row]) -> Html:
    """Results, newest round first; each opens to its runs where those are held."""
    runs: dict[tuple[str, ...], list[Row]] = {}
    if view.reader.has("market.mlperf_runs"):
        for run in view.reader.rows(RUNS):
            runs.setdefault((run["round"], run["organization"], run["system_desc_id"], run["benchmark"]), []).append(
                run
            )
    for row in rows[:MOST_RESULTS]:
        key = (row["round"], row["organization"], row["system_desc_id"], row["benchmark"])
        row["runs"] = opened(view, runs.get(key, []))
    columns = (
        Column("round", Words("Round", "轮次")),
        Column("benchmark_id", Words("Benchmark", "基准")),
        Column("submitter", Words("Submitter", "提交方")),
        Column("system", Words("System", "系统")),
        Column("part", Words("Accelerator", "加速卡")),
        Column("accelerator_count", Words("Count", "数量"), "int"),
        Column("minutes", Words("Minutes", "分钟"), "number", 2),
        Column("accelerator_hours", Words("Accelerator hours", "加速卡小时"), "number", 1),
        Column("mfu_ratio", Words("MFU (BF16)", "MFU (BF16)"), "percent"),
        Column("runs", Words("Runs", "单次运行"), "html"),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    caption = view.say("Results, newest round first", "结果（最新轮次在前）")
    return view.table(columns, rows, caption=caption, folded=True, most=MOST_RESULTS)


def generations(view: View) -> Html:
    """Best and median of each accelerator, and the speed-up over the generation before at equal size."""
    columns = (
        Column("round", Words("Round", "轮次")),
        Column("benchmark_id", Words("Benchmark", "基准")),
        Column("accelerator_id", Words("Accelerator", "加速卡")),
        Column("result_count", Words("Results", "结果数"), "int"),
        Column("best_minutes", Words("Best, minutes", "最佳（分钟）"), "number", 2),
        Column("best_minutes_accelerator_count", Words("on", "数量"), "int"),
        Column("best_accelerator_hours", Words("Fewest accelerator hours", "最少加速卡小时"), "number", 1),
        Column("best_mfu_ratio", Words("Best MFU (BF16)", "最高 MFU (BF16)"), "percent"),
        Column("median_mfu_ratio", Words("Median MFU (BF16)", "中位 MFU (BF16)"), "percent"),
        Column("best_mfu_used_ratio", Words("Best MFU (precision used)", "最高 MFU（实际精度）"), "percent"),
        Column("speedup_ratio", Words("Faster than the generation before", "较上代加速"), "number", 2),
        Column("previous_generation", Words("Generation before", "上代")),
        AS_OF,
    )
    rows = view.reader.rows(
        "select * from mart.mlperf_efficiency order by known_at desc, round desc, benchmark_id, best_minutes"
    )
    caption = view.say(
        "By benchmark, accelerator and round, from the results above", "按基准、加速卡与轮次（由上表结果汇总）"
    )
    return view.table(columns, rows, caption=caption, folded=True)


def opened(view: View, runs: list[Row]) -> Html:
    """The runs of one result, folded."""
    if not runs:
        return text.UNKNOWN
    items = "".join(
        f"<li>{escape(r['run_file'])}: {text.number(r['minutes'], 2)} {escape(view.say('min', '分钟'))}, {escape(r['outcome'])}, "
        f"{escape(r['slot'].replace('_', ' '))}{escape(': ' + r['outcome_reason'] if r['outcome_reason'] else '')}</li>"
        for r in runs
    )
    return Html(f"<details><summary>{len(runs)}</summary><ul>{items}</ul></details>")


SECTION = Section(
    "mlperf",
    50,
    Words("MLPerf Training", "MLPerf 训练"),
    build,
    needs=("market.mlperf_results",),
    also=("mart.mlperf_scaling", "mart.mlperf_efficiency"),
)
