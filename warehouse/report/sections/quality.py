"""How far the data can be trusted: freshness of sources, refused rows, blocked loads, sources that disagree."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

from warehouse.report.section import Section
from warehouse.report.text import Html, Words, link
from warehouse.report.view import Column, View

SOURCES = """
select s.source, s.publisher, s.homepage, s.licence, s.cadence, s.authority, s.may_republish, s.off_reason,
    s.last_landed_at, s.stale_after_at, coalesce(l.landed, 0) as landed, coalesce(l.refused, 0) as refused
from ops.sources as s
left join (
    select source, sum(rows_landed) as landed, sum(rows_rejected) as refused from ops.loads group by source
) as l on s.source = l.source
order by s.last_landed_at desc nulls last, s.source
"""

REFUSED = """
select source, table_name, rule, count(*) as refused, max(quarantined_at) as newest_at, arg_max(reason, quarantined_at) as reason
from ops.quarantine
group by source, table_name, rule
order by refused desc, source, table_name, rule
"""

BLOCKED = """
select source, table_name, committed_at, rows_read, reason
from ops.loads
where status = 'blocked'
order by committed_at desc
"""

FAILED = """
select source, table_name, expectation, severity, sum(unexpected_count) as unexpected, max(validated_at) as validated_at
from ops.quality_results
where not passed
group by source, table_name, expectation, severity
order by severity, source, table_name, expectation
"""

# Sources that differ on one fact, each in its newest version.
CONFLICTS = """
with facts as (
    select 'market.financials' as table_name, entity || ' ' || metric || ' ' || definition_version || ' ' || fiscal_period as fact,
        source, "value" as figure, is_preferred, known_at
    from market.financials
    where is_latest
    union all
    select 'market.guidance', entity || ' ' || metric || ' ' || target_period, source, mid_usd, is_preferred, known_at
    from market.guidance
    where is_latest
    union all
    select 'market.mlperf_results', round || ' ' || organization || ' ' || system_desc_id || ' ' || benchmark, source,
        round(minutes, 3), is_preferred, known_at
    from market.mlperf_results
    where is_latest
)
select table_name, fact, count(distinct source) as sources,
    string_agg(source || ': ' || figure, '; ' order by source, figure) as figures,
    string_agg(source, ', ') filter (is_preferred) as preferred,
    max(abs(figure)) / nullif(min(abs(figure)), 0) - 1 as spread_ratio
from facts
where figure is not null
group by table_name, fact
having count(distinct source) > 1 and max(abs(figure)) > min(abs(figure)) * 1.0001
order by spread_ratio desc nulls last, table_name, fact
"""


def build(view: View) -> Iterator[Html]:
    """Sources, refused rows, blocked loads, failed rules, conflicts."""
    sources = view.reader.rows(SOURCES)
    for row in sources:
        row["linked"] = link(row["publisher"], row["homepage"])
        row["state"] = state(view, row)
    landed = [r for r in sources if r["last_landed_at"] is not None]
    stale = [r for r in landed if r["stale_after_at"] is not None and r["stale_after_at"] < view.published_at]
    refused = view.reader.rows(REFUSED)
    count = sum(r["refused"] for r in refused)
    blocked = view.reader.rows(BLOCKED)
    yield view.finding(
        view.say(
            f"{len(landed)} of {len(sources)} sources have delivered rows, {len(stale)} of them stale; {count:,} rows refused, "
            f"{len(blocked)} loads blocked",
            f"{len(sources)} 个来源中 {len(landed)} 个已有数据，其中 {len(stale)} 个过期；拒收 {count:,} 行，阻断 {len(blocked)} 次载入",
        )
    )
    columns = (
        Column("source", Words("Source", "来源"), "name"),
        Column("linked", Words("Publisher", "发布方"), "html"),
        Column("state", Words("State", "状态")),
        Column("landed", Words("Rows", "行数"), "int"),
        Column("refused", Words("Refused", "拒收"), "int"),
        Column("last_landed_at", Words("Last rows", "最近入库"), "moment"),
        Column("stale_after_at", Words("Stale after", "过期时间"), "moment"),
        Column("cadence", Words("Cadence", "频率")),
        Column("authority", Words("Authority", "权威性")),
        Column("licence", Words("Licence", "许可"), "long"),
    )
    yield view.table(columns, sources, caption=view.say("Sources and their freshness", "来源与时效"))
    yield from parts(view, refused, blocked)
    conflicts = view.reader.rows(CONFLICTS)
    if conflicts:
        yield view.finding(
            view.say(f"Sources disagree on {len(conflicts):,} facts", f"来源之间有 {len(conflicts):,} 处不一致")
        )
        listed = (
            Column("table_name", Words("Table", "表")),
            Column("fact", Words("Fact", "事实")),
            Column("figures", Words("Figures", "数值")),
            Column("spread_ratio", Words("Apart", "差距"), "percent", 2),
            Column("preferred", Words("Shown", "采用")),
        )
        yield view.table(
            listed,
            conflicts,
            caption=view.say("Conflicts, largest first", "冲突（差距大者在前）"),
            folded=True,
            most=200,
        )
    else:
        yield view.note(view.say("No two sources disagree on a fact.", "来源之间没有不一致。"))


def state(view: View, row: dict[str, object]) -> str:
    """One word on the source, else why it is off."""
    if row["last_landed_at"] is None:
        return str(row["off_reason"] or "") or view.say("nothing yet", "尚无数据")
    due = row["stale_after_at"]
    if due is not None and due < view.published_at:  # type: ignore[operator]
        return view.say("stale", "已过期")
    return view.say("fresh", "有效")


def parts(view: View, refused: list[dict[str, object]], blocked: list[dict[str, object]]) -> Iterator[Html]:
    """What the gate held back or warned of."""
    table = Column("table_name", Words("Table", "表"))
    source = Column("source", Words("Source", "来源"))
    reason = Column("reason", Words("Reason", "原因"))
    if refused:
        yield view.table(
            (source, table, Column("rule", Words("Rule", "规则")), Column("refused", Words("Rows", "行数"), "int"),
             Column("newest_at", Words("Newest", "最近"), "moment"), reason),
            refused,
            caption=view.say("Refused rows by rule", "按规则拒收的行"),
        )  # fmt: skip
    else:
        yield view.note(view.say("No row has been refused.", "没有行被拒收。"))
    if blocked:
        yield view.table(
            (
                source,
                table,
                Column("committed_at", Words("When", "时间"), "moment"),
                Column("rows_read", Words("Rows", "行数"), "int"),
                reason,
            ),
            blocked,
            caption=view.say("Blocked loads: nothing of them landed", "被阻断的载入"),
        )
    failed = view.reader.rows(FAILED)
    if failed:
        yield view.table(
            (Column("severity", Words("Severity", "级别")), source, table, Column("expectation", Words("Rule", "规则")),
             Column("unexpected", Words("Rows", "行数"), "int"), Column("validated_at", Words("Newest", "最近"), "moment")),
            failed,
            caption=view.say("Rules that a batch did not satisfy", "未满足的规则"),
            folded=True,
        )  # fmt: skip


SECTION = Section("quality", 110, Words("Data quality", "数据质量"), build, needs=("ops.sources",))
