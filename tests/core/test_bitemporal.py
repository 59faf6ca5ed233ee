from __future__ import annotations

import datetime as dt
import random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.bitemporal import with_versions
from warehouse.schema.declare import lake_schema
from warehouse.schema.financials import Financial

AUTHORITIES = {"sec": "primary", "curated": "curated", "blog": "secondary"}


def day(n: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=n)


def facts(*rows: tuple[str, int, float]) -> pl.DataFrame:
    """(source, day it became known, value) of one fact."""
    schema = lake_schema(Financial)
    frame = pl.DataFrame(
        {
            "entity": ["AAA"] * len(rows),
            "metric": ["revenue"] * len(rows),
            "definition_version": ["1"] * len(rows),
            "fiscal_period": ["FY26Q1"] * len(rows),
            "source": [r[0] for r in rows],
            "known_at": [day(r[1]) for r in rows],
            "value": [float(r[2]) for r in rows],
            "value_usd": [float(r[2]) for r in rows],
        }
    )
    missing = [pl.lit(None, dtype=t).alias(n) for n, t in schema.items() if n not in frame.columns]
    return frame.with_columns(missing).select(pl.col(n).cast(t) for n, t in schema.items())


def versions(*rows: tuple[str, int, float]) -> list[dict[str, object]]:
    out = with_versions(facts(*rows), Financial, AUTHORITIES)
    return out.select("source", "known_at", "value", "is_latest", "superseded_at", "is_preferred").to_dicts()


def test_a_changed_value_supersedes_the_older_one() -> None:
    old, new = versions(("sec", 1, 9915), ("sec", 9, 9950))
    assert (old["is_latest"], old["superseded_at"]) == (False, day(9))
    assert (new["is_latest"], new["superseded_at"], new["is_preferred"]) == (True, None, True)


def test_a_repeated_value_is_no_new_version() -> None:
    (only,) = versions(("sec", 1, 5), ("sec", 4, 5), ("sec", 9, 5))
    assert only["known_at"] == day(1)


def test_a_value_that_returns_is_a_version_again() -> None:
    assert [v["value"] for v in versions(("sec", 1, 5), ("sec", 2, 6), ("sec", 3, 5))] == [5, 6, 5]


def test_primary_is_preferred_before_a_newer_curated_row() -> None:
    found = {v["source"]: v["is_preferred"] for v in versions(("sec", 1, 5), ("curated", 9, 6))}
    assert found == {"sec": True, "curated": False}


def test_as_known_on_a_day_gives_one_row_per_source() -> None:
    rows = with_versions(facts(("sec", 1, 1), ("sec", 5, 2), ("sec", 9, 3)), Financial, AUTHORITIES)
    at = day(6)
    known = rows.filter(
        (pl.col("known_at") <= at) & (pl.col("superseded_at").is_null() | (pl.col("superseded_at") > at))
    )
    assert known["value"].to_list() == [2]


VERSIONS = st.lists(
    st.tuples(st.sampled_from(sorted(AUTHORITIES)), st.integers(0, 6), st.integers(1, 3)), min_size=1, max_size=15
)


@given(VERSIONS, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_order_of_arrival_does_not_matter(rows: list[tuple[str, int, int]], rng: random.Random) -> None:
    unique = list(dict.fromkeys(rows))
    shuffled = unique[:]
    rng.shuffle(shuffled)
    assert with_versions(facts(*unique), Financial, AUTHORITIES).equals(
        with_versions(facts(*shuffled), Financial, AUTHORITIES)
    )


@given(VERSIONS)
@settings(max_examples=80, deadline=None)
def test_exactly_one_row_is_preferred_and_one_latest_per_source(rows: list[tuple[str, int, int]]) -> None:
    out = with_versions(facts(*dict.fromkeys(rows)), Financial, AUTHORITIES)
    assert out["is_preferred"].sum() == 1
    assert (
        out.group_by("source").agg(pl.col("is_latest").sum())["is_latest"].to_list() == [1] * out["source"].n_unique()
    )
