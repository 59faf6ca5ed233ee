"""Quarantine: refused rows and documents, kept with their reason and raw form.

Belongs here: the shape of a refused row, counting by rule, writing each once. Does not belong here: who refuses
(`warehouse.quality`, sources).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from deltalake import DeltaTable

from sources.base import Reject
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.ops import QuarantineRecord

COLUMNS = ("rule", "reason", "locator", "raw", "payload_sha256")


@dataclass(frozen=True, slots=True)
class Refusal:
    """How many rows of a load broke one rule, in how many documents, and what was wrong with the first of them."""

    rule: str
    count: int
    first: str
    first_sha256: str | None = None
    documents: int = 1


def refused_records(rejects: Sequence[Reject], sha256: str | None) -> pl.DataFrame:
    """Records that never became rows."""
    rows = [(r.rule, r.reason, r.locator, r.raw, sha256) for r in rejects]
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String()), orient="row")


def refused_rows(refused: pl.DataFrame, sha256: str | None) -> pl.DataFrame:
    """Rows that broke a row rule."""
    stamps = pl.lit("").alias("locator"), pl.lit(sha256, dtype=pl.String).alias("payload_sha256")
    return refused.with_columns(*stamps).select(COLUMNS)


def by_rule(refused: Sequence[pl.DataFrame]) -> tuple[Refusal, ...]:
    """Refusals by rule, the most frequent first."""
    frames = [f.select("rule", "reason", "payload_sha256") for f in refused if f.height]
    if not frames:
        return ()
    counted = (
        pl.concat(frames)
        .group_by("rule", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("reason").first().alias("first"),
            pl.col("payload_sha256").first().alias("first_sha256"),
            pl.col("payload_sha256").n_unique().alias("documents"),
        )
        .sort("count", descending=True, maintain_order=True)
    )
    return tuple(Refusal(**row) for row in counted.to_dicts())


def write_quarantine(lake: Lake, source: str, table: str, refused: pl.DataFrame) -> None:
    """Keep refused rows (the columns of `COLUMNS`) once each."""
    now = dt.datetime.now(dt.UTC)
    rows = refused.with_columns(
        pl.lit(now).cast(pl.Datetime("us", "UTC")).alias("quarantined_at"),
        pl.lit(source).alias("source"),
        pl.lit(table).alias("table_name"),
        pl.concat_str(
            [pl.lit(source), pl.lit(table), *(pl.col(c).fill_null("") for c in COLUMNS)],
            separator="\0",
        )
        .map_elements(lambda t: hashlib.sha256(t.encode()).hexdigest()[:32], return_dtype=pl.String)
        .alias("quarantine_id"),
    ).unique("quarantine_id", keep="first", maintain_order=True)

    def prepare(handle: DeltaTable, _todo: list[str]) -> tuple[pl.DataFrame, Load] | None:
        there = pl.scan_delta(handle).select("quarantine_id").collect()
        fresh = rows.join(there, on="quarantine_id", how="anti")
        if fresh.is_empty():
            return None
        return fresh, Load("", source, Counts(fresh.height, fresh.height))

    lake.commit(QuarantineRecord, [], prepare)
