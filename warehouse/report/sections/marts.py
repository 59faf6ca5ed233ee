"""Every other mart of the warehouse as a plain table, so that a new one is on the page the day it is built."""
# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Iterator

from warehouse.report.section import Section, covered
from warehouse.report.text import Html, Words
from warehouse.report.view import PROVENANCE, Column, View

MOST_ROWS = 40
MOST_COLUMNS = 14
KINDS = (("_usd", "usd"), ("_ratio", "percent"), ("_at", "moment"), ("_date", "day"), ("_count", "int"))
# Written by the columns on origin, or of no use to a reader.
BEHIND = frozenset(
    {"source", "source_name", "source_url", "certainty", "known_at", "source_rank", "is_latest", "superseded_at"}
)


def build(view: View) -> Iterator[Html]:
    """One folded table for each mart that no other section shows."""
    told = {
        r["name"]: r["comment"]
        for r in view.reader.rows("select schema_name || '.' || table_name as name, comment from duckdb_tables()")
    }
    shown = False
    for table in sorted(t for t in view.reader.tables if t.startswith("mart.") and t not in covered()):
        if not view.reader.has(table):
            yield view.reason(view.say(f"{table} is empty.", f"{table} 为空。"))
            continue
        shown = True
        yield from panel(view, table, str(told.get(table) or ""))
    if not shown:
        yield view.reason(view.say("No further mart holds rows.", "没有其他有数据的模型表。"))


def panel(view: View, table: str, meaning: str) -> Iterator[Html]:
    """The first rows of a mart; the banner stands above synthetic ones."""
    columns = view.reader.rows(
        "select column_name as name, data_type as kind from duckdb_columns() where schema_name || '.' || table_name = $t order by column_index",
        t=table,
    )
    names = [c["name"] for c in columns]
    rows = view.reader.rows(f"select * from {table} limit {MOST_ROWS}")
    yield view.finding(table.removeprefix("mart.").replace("_", " "))
    if meaning:
        yield view.note(meaning)
    if "is_synthetic" in names and view.reader.rows(f"select 1 from {table} where is_synthetic limit 1"):
        yield view.banner(
            view.say(
                "Synthetic data among these rows: a generated demonstration cluster.", "以下包含合成数据：演示集群。"
            )
        )
    listed = [
        Column(c["name"], Words(c["name"], c["name"]), kind(c["name"], c["kind"]))
        for c in columns
        if c["name"] not in BEHIND
    ]
    origin = [c for c in PROVENANCE if c.key in names or (c.key == "source_name" and "source" in names)]
    count = view.reader.one(f"select count(*) as n from {table}")["n"]
    caption = view.say(
        f"{table}: {min(count, MOST_ROWS):,} of {count:,} rows",
        f"{table}：{count:,} 行中的 {min(count, MOST_ROWS):,} 行",
    )
    yield view.table([*listed[:MOST_COLUMNS], *origin], rows, caption=caption, folded=True)


def kind(name: str, sql_type: str) -> str:
    """How a column is written, by its name's unit, else by its type."""
    numeric = sql_type.split("(", maxsplit=1)[0] in ("DOUBLE", "FLOAT", "DECIMAL", "BIGINT", "INTEGER", "HUGEINT")
    for ending, written in KINDS:
        if name.endswith(ending) and (numeric or written in ("moment", "day")):
            return written
    return "short" if numeric else "text"


SECTION = Section("marts", 100, Words("Further marts", "其他模型表"), build, needs=("ops.build",))
