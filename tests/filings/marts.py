"""A small published database for tests of marts: market tables with versions, and the marts on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import duckdb
import polars as pl

from warehouse.bitemporal import with_versions
from warehouse.ddl import create_table, published_columns
from warehouse.marts import marts
from warehouse.quality.rows import conform
from warehouse.schema.declare import qualified_name
from warehouse.schema.financials import Financial, Guidance

AUTHORITIES = {"sec-companyfacts": "primary", "sec-release": "primary", "curated": "curated"}


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def published(*, financials: pl.DataFrame, guidance: pl.DataFrame, names: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """A connection with `market.*` filled and the named marts built."""
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    con.execute("create schema market")
    con.execute("create schema mart")
    for model, rows in ((Financial, financials), (Guidance, guidance)):
        frame, _ = conform(rows, model)
        frame = with_versions(frame, model, AUTHORITIES).select(published_columns(model))
        con.execute(create_table(model))
        con.register("incoming", frame)
        con.execute(f"insert into {qualified_name(model)} select * from incoming")
        con.unregister("incoming")
    for mart in marts():
        if mart.name in names:
            con.execute(f"create table mart.{mart.name} as {mart.sql}")
    return con


def financial(**given) -> dict:
    """One row of `market.financials`; a USD figure in millions unless said otherwise."""
    millions = given.pop("millions")
    row = {
        "metric": "capex_cash_ppe",
        "definition_version": "1",
        "period_basis": "quarter",
        "period_start": None,
        "value_usd": millions * 1e6,
        "value": millions * 1e6,
        "currency": "USD",
        "unit": "USD",
        "source": "sec-companyfacts",
        "source_url": "https://www.sec.gov/",
    }
    row |= given
    row["known_at"] = day(row["known_at"])
    row["period_end"] = dt.date.fromisoformat(row["period_end"])
    return row


def guidance(**given) -> dict:
    """One row of `market.guidance`; amounts in billions."""
    row = {
        "channel": "release",
        "source": "sec-release",
        "source_url": "https://www.sec.gov/",
        "metric": "capex_cash_ppe",
    }
    row |= {k: v for k, v in given.items() if k not in ("low", "mid", "high")}
    for end in ("low", "mid", "high"):
        row[f"{end}_usd"] = given[end] * 1e9 if given.get(end) is not None else None
    row["known_at"] = day(row["known_at"])
    return row


def frame(rows: list[dict]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


EMPTY_GUIDANCE = pl.DataFrame(schema={"entity": pl.String})


def as_known(con: duckdb.DuckDBPyConnection, mart: str, when: str) -> list[Mapping]:
    """The mart's rows as they stood on a day."""
    sql = f"select * from mart.{mart} where known_at <= $d and (superseded_at is null or superseded_at > $d)"
    found = con.execute(sql, {"d": day(when)})
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
