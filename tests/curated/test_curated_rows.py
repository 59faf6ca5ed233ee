"""What must hold for every curated row: a source, a known day, certainty, unique keys, sound links, no persons."""

from __future__ import annotations

import datetime as dt
import re
from importlib import resources

import polars as pl
import pytest

from sources.curated.columns import KEYS
from warehouse.quality.rows import conform, split
from warehouse.schema import tables

LINK = r"^https?://[A-Za-z0-9.-]+\.[a-z]{2,}(/[^\s]*)?$"
TODAY = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
# What belongs to how the facts were gathered, not to the facts.
FOREIGN = re.compile(r"find_string|read_file|SOURCE_MAP|\bseeds?\b|this pass|FLAG:|TRAP|payload held", re.IGNORECASE)


def test_every_row_names_a_source_or_a_link(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        assert frame.filter(pl.col("source_name").is_null() & pl.col("source_url").is_null()).is_empty(), table


def test_every_row_says_how_sure_it_is(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        assert frame["certainty"].null_count() == 0, table


def test_every_row_was_known_by_the_day_of_the_collection(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        assert frame["known_at"].null_count() == 0, table
        assert frame["known_at"].max() <= TODAY, table  # type: ignore[operator]


def test_keys_are_unique_and_complete(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        key = [*KEYS[table], "known_at"]
        assert frame.select(key).null_count().sum_horizontal().item() == 0, table
        assert frame.select(key).is_duplicated().sum() == 0, table


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("ref.accelerators", "accelerator_id"),
        ("ref.systems", "system_id"),
        ("ref.entities", "entity"),
        ("ref.indicators", "indicator_id"),
        ("market.clusters", "cluster_id"),
        ("market.policy_documents", "document_id"),
    ],
)
def test_identifiers_are_unique(curated: dict[str, pl.DataFrame], table: str, column: str) -> None:
    assert curated[table][column].is_unique().all()


def test_identifiers_follow_the_written_rule(curated: dict[str, pl.DataFrame]) -> None:
    shape = r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$"
    for table, column in (
        ("ref.accelerators", "accelerator_id"),
        ("ref.systems", "system_id"),
        ("market.clusters", "cluster_id"),
    ):
        assert curated[table][column].str.contains(shape).all(), table
    # Where the memory is a whole number of gigabytes, the identifier ends in it.
    whole = curated["ref.accelerators"].filter(pl.col("memory_gb") >= 1)
    ends = pl.concat_str(pl.lit("-"), pl.col("memory_gb").cast(pl.Int64), pl.lit("gb"))
    assert whole.select(pl.col("accelerator_id").str.ends_with(ends)).to_series().all()


def test_links_are_links(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        bad = frame.filter(pl.col("source_url").is_not_null() & ~pl.col("source_url").str.contains(LINK))
        assert bad.is_empty(), (table, bad["source_url"].to_list())


def test_no_text_holds_an_address_of_a_person_or_the_words_of_the_collection() -> None:
    for entry in resources.files("sources.curated").iterdir():
        if entry.name.endswith(".csv"):
            text = entry.read_text(encoding="utf-8")
            assert not re.search(r"[\w.+-]+@[\w-]+\.[a-z]{2,}", text), entry.name
            assert not FOREIGN.search(text), (entry.name, FOREIGN.findall(text))


def test_every_row_passes_the_declared_rules(curated: dict[str, pl.DataFrame]) -> None:
    for table, frame in curated.items():
        stamped = frame.with_columns(pl.lit("curated").alias("source"))
        rows, reasons = conform(stamped, tables()[table])
        assert split(rows, reasons, tables()[table]).refused.is_empty(), table


def test_names_of_accelerators_lead_to_reference_rows(curated: dict[str, pl.DataFrame]) -> None:
    known = set(curated["ref.accelerators"]["accelerator_id"])
    for table, frame in curated.items():
        if "accelerator_id" in frame.columns:
            assert set(frame["accelerator_id"].drop_nulls()) <= known, table


def test_an_alias_is_resolved_or_says_why_not(curated: dict[str, pl.DataFrame]) -> None:
    aliases = curated["ref.accelerator_aliases"]
    assert (aliases["accelerator_id"].is_null() == aliases["unresolved_reason"].is_not_null()).all()


def test_entities_named_by_market_rows_exist(curated: dict[str, pl.DataFrame]) -> None:
    known = set(curated["ref.entities"]["entity"])
    for table in ("market.financials", "market.guidance", "market.supply_signals", "market.events"):
        assert set(curated[table]["entity"].drop_nulls()) <= known, table


def test_unverified_rows_carry_their_mark(curated: dict[str, pl.DataFrame]) -> None:
    memory = {"Instinct MI308X", "DCU Z100 (Shensuan-1)"}
    marked = curated["ref.accelerators"].filter(pl.col("checked") == "memory")
    assert set(marked["model"]) == memory
    unlinked = curated["market.financials"].filter(pl.col("source_url").is_null())
    assert set(unlinked["certainty"]) == {"medium"}
    assert set(unlinked["checked"]) == {"read through a quotation"}


def test_quotations_come_from_filed_exhibits_only(curated: dict[str, pl.DataFrame]) -> None:
    quoted = curated["market.guidance"].filter(pl.col("evidence").is_not_null())
    assert set(quoted["channel"]) == {"release"}
    assert quoted["evidence"].str.len_chars().max() < 320  # type: ignore[operator]
    assert (
        quoted.filter(~pl.col("evidence").str.strip_chars_end(".").str.contains(r"\.\s+[A-Z]")).height == quoted.height
    )
