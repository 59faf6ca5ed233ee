"""Exactly once, by several processes at once."""

from __future__ import annotations

import multiprocessing as mp
from pathlib import Path

import polars as pl
import pytest

from warehouse.errors import WarehouseError
from warehouse.lake import CONFIGURATION, Counts, Lake, Load
from warehouse.schema.declare import lake_schema
from warehouse.schema.ops import LoadRecord, QuarantineRecord

SCHEMA = lake_schema(QuarantineRecord)


def rows(ids: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"quarantine_id": ids})
    rest = [pl.lit(None, dtype=t).alias(n) for n, t in SCHEMA.items() if n != "quarantine_id"]
    return frame.with_columns(rest).select(SCHEMA.names())


def land(root: str, first: int) -> None:
    lake = Lake(Path(root))
    for start in range(first, first + 12, 2):
        ids = [f"s{i % 12}" for i in range(start, start + 4)]
        lake.commit(
            QuarantineRecord,
            ids,
            lambda _h, todo: (rows(todo), Load("l", "s", Counts(len(todo), len(todo)))),
        )


def test_four_processes_with_overlapping_batches_lose_and_double_nothing(tmp_path: Path) -> None:
    Lake(tmp_path).open(QuarantineRecord)
    with mp.get_context("spawn").Pool(4) as pool:
        pool.starmap(land, [(str(tmp_path), k * 3) for k in range(4)])
    got = Lake(tmp_path).scan(QuarantineRecord).collect()["quarantine_id"].to_list()
    assert sorted(got) == sorted(f"s{i}" for i in range(12))


def test_counts_in_the_commits_agree_with_the_rows(tmp_path: Path) -> None:
    land(str(tmp_path), 0)
    lake = Lake(tmp_path)
    assert sum(c["landed"] for c in lake.history(QuarantineRecord)) == lake.scan(QuarantineRecord).collect().height


def test_a_column_declared_later_is_added_and_null_in_old_rows(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    path = tmp_path / "ops" / "quarantine"
    write_deltalake(str(path), rows(["old"]).drop("locator"), configuration=CONFIGURATION)
    lake = Lake(tmp_path)
    assert "locator" in {f.name for f in lake.open(QuarantineRecord).schema().fields}
    assert lake.scan(QuarantineRecord).collect()["locator"].to_list() == [None]
    assert DeltaTable(str(path)).version() == 1


def test_a_corrupt_log_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.open(LoadRecord)
    log = tmp_path / "ops" / "loads" / "_delta_log" / "00000000000000000000.json"
    log.write_text("{not json")
    with pytest.raises(WarehouseError, match="move that folder away") as caught:
        lake.open(LoadRecord)
    assert "\n" not in str(caught.value)


def test_a_table_cut_off_before_its_first_commit_is_made_anew(tmp_path: Path) -> None:
    log = tmp_path / "ops" / "loads" / "_delta_log"
    (log / "_commits").mkdir(parents=True)
    assert not Lake(tmp_path).exists(LoadRecord)
    assert Lake(tmp_path).open(LoadRecord).version() == 0


def test_data_without_a_log_is_never_taken_for_an_empty_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    land(str(tmp_path), 0)
    for commit in (tmp_path / "ops" / "quarantine" / "_delta_log").glob("*.json"):
        commit.unlink()
    with pytest.raises(WarehouseError, match="move that folder away"):
        lake.open(QuarantineRecord)


def test_field_metadata_carries_meaning_and_unit(tmp_path: Path) -> None:
    from warehouse.schema.telemetry import GpuSample

    fields = {f.name: f.metadata for f in Lake(tmp_path).open(GpuSample).schema().fields}
    assert fields["power_w"]["unit"] == "W"
    assert fields["power_w"]["comment"]
