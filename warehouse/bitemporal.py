"""Versions of facts: which row is current, when it was superseded, which source is preferred.

Belongs here: the written rule of precedence. Does not belong here: storing rows (the lake keeps every version once).
The result does not depend on the order of arrival: it is computed from the stored set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from sqlmodel import SQLModel

from warehouse.schema.declare import key_of, table_of

RANKS = {"primary": 1, "curated": 2, "secondary": 3}


def with_versions(rows: pl.DataFrame, model: type[SQLModel], authorities: Mapping[str, str]) -> pl.DataFrame:
    """Add `is_latest`, `superseded_at`, `source_rank`, `is_preferred` to every version of every fact.

    Runs of equal values collapse to their first statement: repeating a figure is not a new version. Within a
    source the newest `known_at` is current. Between sources primary comes before curated before secondary, then
    the newer `known_at`, then the source name, so that exactly one row of a fact is preferred.
    """
    info = table_of(model).info
    fact, value = list(info["fact_key"]) or [k for k in key_of(model) if k not in ("source", "known_at")], info["value"]
    group = [*fact, "source"]
    rest = [k for k in key_of(model) if k not in group and k != "known_at"]
    ordered = rows.sort([*group, "known_at", *rest, *value], nulls_last=True)
    # Rows are sorted, so a fact's versions are neighbours: comparing with the neighbour is faster than a window.
    if value:
        same = _as_before(group) & _as_before(value)
        ordered = ordered.filter(~same)
    is_last = ~_as_before(group).shift(-1, fill_value=False)
    rank = pl.col("source").replace_strict(
        {s: RANKS[a] for s, a in authorities.items()}, default=RANKS["secondary"], return_dtype=pl.Int64
    )
    versions = ordered.with_columns(
        pl.when(~is_last).then(pl.col("known_at").shift(-1)).alias("superseded_at"),
        is_last.alias("is_latest"),
        rank.alias("source_rank"),
    )
    if versions["source"].n_unique() <= 1:  # the usual case of large tables
        return versions.with_columns(pl.col("is_latest").alias("is_preferred"))
    best = (
        versions.filter(pl.col("is_latest"))
        .sort(["source_rank", "known_at", "source"], descending=[False, True, False])
        .unique(fact, keep="first", maintain_order=True)
        .select(*fact, pl.col("source").alias("__best"))
    )
    return (
        versions.join(best, on=fact, how="left", nulls_equal=True, maintain_order="left")
        .with_columns((pl.col("is_latest") & (pl.col("source") == pl.col("__best"))).alias("is_preferred"))
        .drop("__best")
    )


def _as_before(columns: Sequence[str]) -> pl.Expr:
    """Does a row say the same in these columns as the row before it? The first row says it to nobody."""
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in columns)
    return same & (pl.int_range(pl.len()) > 0)
