"""Rules, notices and guidance, newest first, and how many came each year."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from warehouse.report import charts, text
from warehouse.report.section import Section
from warehouse.report.text import Html, Words, link
from warehouse.report.view import AS_OF, CERTAINTY, SOURCE, Column, View

KINDS = {
    "rule": Words("rule", "规则"),
    "interim_final_rule": Words("interim final rule", "暂行最终规则"),
    "proposed_rule": Words("proposed rule", "拟议规则"),
    "correction": Words("correction", "更正"),
    "notice": Words("notice", "通知"),
    "guidance": Words("guidance", "指南"),
    "other": Words("other", "其他"),
}

ROWS = """
select document_id, jurisdiction, authority, document_kind, title, topic, citation, publication_date, effective_date,
    coalesce(publication_date, effective_date) as day, source, source_name, source_url, source_rank, certainty, known_at
from market.policy_documents
where is_preferred
order by day desc nulls last, document_id
"""


def build(view: View) -> Iterator[Html]:
    """Documents a year by kind, and the list."""
    rows = view.reader.rows(ROWS)
    dated = [r for r in rows if r["day"] is not None]
    if dated:
        newest = dated[0]
        yield view.finding(
            view.say(
                f"{len(rows)} documents on record; newest: {newest['title']} ({text.day(newest['day'])})",
                f"共 {len(rows)} 份文件；最新：{newest['title']}（{text.day(newest['day'])}）",
            )
        )
        present = [k for k in KINDS if any(r["document_kind"] == k for r in dated)]
        shown = [
            {"y": str(r["day"].year), "k": KINDS[r["document_kind"]].of(view.lang), "t": r["title"]} for r in dated
        ]
        years = [str(y) for y in range(min(r["day"].year for r in dated), max(r["day"].year for r in dated) + 1)]
        chart = (
            charts.base(shown, "y", "k", "t", height=220)
            .mark_bar()
            .encode(
                x=alt.X("y:O", title=None, axis=alt.Axis(labelAngle=0), scale=alt.Scale(domain=years)),
                y=alt.Y("count():Q", title=view.say("documents", "文件数"), axis=alt.Axis(tickMinStep=1)),
                color=alt.Color("k:N", title=None, scale=charts.colours([KINDS[k].of(view.lang) for k in present])),
                tooltip=["y:O", "k:N", "count():Q"],
            )
        )
        title = view.say("Documents by year and kind", "各年文件数与类型")
        yield view.chart(chart, title=title, alt=title, rows=dated)
    for row in rows:
        row["linked"] = link(row["title"], row["source_url"])
        row["topic"] = (row["topic"] or "").replace("_", " ")
        row["kind"] = (
            KINDS[row["document_kind"]].of(view.lang) if row["document_kind"] in KINDS else row["document_kind"]
        )
    columns = (
        Column("day", Words("Published", "发布日期"), "day"),
        Column("linked", Words("Document", "文件"), "html"),
        Column("authority", Words("Authority", "机构")),
        Column("kind", Words("Kind", "类型")),
        Column("topic", Words("Topic", "主题")),
        Column("effective_date", Words("In force", "生效日期"), "day"),
        Column("citation", Words("Citation", "引文")),
        AS_OF,
        SOURCE,
        CERTAINTY,
    )
    yield view.table(columns, rows, caption=view.say("Documents, newest first", "文件（最新在前）"))


SECTION = Section("policy", 80, Words("Policy", "政策"), build, needs=("market.policy_documents",))
