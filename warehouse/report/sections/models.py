"""Utilisation that model makers disclose: MFU with MFU only, never beside HFU."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import altair as alt

from warehouse.report import charts, text
from warehouse.report.section import Section
from warehouse.report.text import Html, Words
from warehouse.report.view import CERTAINTY, SOURCE, Column, View

KINDS = {
    "training_run": Words("training run", "训练任务"),
    "benchmark": Words("benchmark", "基准测试"),
    "derived": Words("derived by others", "第三方推算"),
    "company_claim": Words("company claim", "企业自报"),
    "estimate": Words("estimate", "估计"),
}

ROWS = """
select model, configuration, organisation, published_date, disclosure_kind, parameters_billion,
    active_parameters_billion, coalesce(accelerator, accelerator_id) as part, accelerator_count, precision, mfu_ratio,
    hfu_ratio, tflops_per_accelerator, source, source_name, source_url, source_rank, certainty,
    coalesce(as_of_date, known_at::date) as known_at
from market.model_disclosures
where is_preferred
order by published_date desc nulls last, model
"""

LARGE = 4096


def build(view: View) -> Iterator[Html]:
    """MFU against size of the run, and the table."""
    rows = view.reader.rows(ROWS)
    drawn = [r for r in rows if r["mfu_ratio"] is not None and r["accelerator_count"] and r["published_date"]]
    runs = [r for r in drawn if r["disclosure_kind"] == "training_run"]
    if runs:
        middle = text.percent(median(r["mfu_ratio"] for r in runs), 0)
        large = [r for r in runs if r["accelerator_count"] >= LARGE]
        tail_en = (
            f"; {text.percent(median(r['mfu_ratio'] for r in large), 0)} on 4,096 accelerators and more"
            if large
            else ""
        )
        tail_zh = f"；4,096 卡及以上为 {text.percent(median(r['mfu_ratio'] for r in large), 0)}" if large else ""
        yield view.finding(
            view.say(
                f"{len(runs)} disclosed training runs: median MFU {middle}{tail_en}",
                f"{len(runs)} 个已披露训练任务，MFU 中位数 {middle}{tail_zh}",
            )
        )
    if drawn:
        order = [k.of(view.lang) for key, k in KINDS.items() if any(r["disclosure_kind"] == key for r in drawn)]
        shown = [
            {"n": r["accelerator_count"], "u": r["mfu_ratio"], "k": KINDS[r["disclosure_kind"]].of(view.lang), "m": r["model"],
             "o": r["organisation"], "a": r["part"], "p": r["precision"], "d": text.day(r["published_date"])}
            for r in drawn
            if r["disclosure_kind"] in KINDS
        ]  # fmt: skip
        chart = (
            charts.base(shown, "n", "u", "k", "m", "o", "a", "p", "d", height=320)
            .mark_point(filled=True, size=80, opacity=0.85)
            .encode(
                x=alt.X(
                    "n:Q",
                    title=view.say("accelerators, log axis", "加速卡数量（对数）"),
                    scale=alt.Scale(type="log", nice=False, padding=12),
                    axis=alt.Axis(format="~s"),
                ),
                y=alt.Y("u:Q", title="MFU", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True, nice=True)),
                color=alt.Color("k:N", title=None, scale=charts.colours(order)),
                shape=alt.Shape("k:N", title=None, scale=alt.Scale(domain=order)),
                tooltip=[
                    charts.tip("m:N", view.say("Model", "模型")),
                    charts.tip("o:N", view.say("By", "机构")),
                    charts.tip("a:N", view.say("Accelerator", "加速卡")),
                    charts.tip("n:Q", view.say("Count", "数量"), ","),
                    charts.tip("p:N", view.say("Precision", "精度")),
                    charts.tip("u:Q", "MFU", ".1%"),
                    charts.tip("d:N", view.say("Published", "发布日期")),
                ],
            )
        )
        title = view.say("Disclosed MFU against the size of the run", "披露的 MFU 与规模")
        yield view.chart(chart, title=title, alt=title, rows=drawn)
        yield view.note(
            view.say(
                "MFU counts the model's own operations and divides by the dense peak that the source used. Figures that are "
                "hardware utilisation (HFU, with recomputation) are in the table, not in the chart.",
                "MFU 只计模型自身运算量，除以来源所用的稠密峰值。含重计算的硬件利用率（HFU）只列在表中。",
            )
        )
    columns = (
        Column("published_date", Words("Published", "发布日期"), "day"),
        Column("model", Words("Model", "模型")),
        Column("organisation", Words("By", "机构")),
        Column("disclosure_kind", Words("Kind", "类型")),
        Column("configuration", Words("Configuration", "配置")),
        Column("accelerator_count", Words("Count", "数量"), "int"),
        Column("mfu_ratio", Words("MFU", "MFU"), "percent"),
        Column("hfu_ratio", Words("HFU", "HFU"), "percent"),
        Column("tflops_per_accelerator", Words("TFLOP/s each", "单卡 TFLOP/s"), "short"),
        Column("known_at", Words("As of", "截至"), "day"),
        SOURCE,
        CERTAINTY,
    )
    yield view.table(columns, rows, caption=view.say("All disclosures", "全部披露"), folded=True)


SECTION = Section(
    "models", 60, Words("Utilisation of model training", "大模型训练利用率"), build, needs=("market.model_disclosures",)
)
