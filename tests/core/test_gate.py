"""The gate over files: rules asked in one pass, and one by one where a row breaks any."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from warehouse.quality import gx
from warehouse.quality.batches import Outcome
from warehouse.quality.gx import validate_files, validate_table
from warehouse.quality.suite import suite_of
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample

AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def gate(folder: Path, *rows: dict[str, Any], without: str = "") -> list[Outcome]:
    """The outcomes of samples one second apart, each with what the test wants of it."""
    whole = [
        {
            "cluster": "c", "node": "n", "source": "nvml", "is_synthetic": False, "gpu_uuid": "GPU-1",
            "sampled_at": AT + dt.timedelta(seconds=second), "date": AT.date(),
        } | row
        for second, row in enumerate(rows)
    ]  # fmt: skip
    frame = pl.DataFrame(whole, schema=lake_schema(GpuSample))
    path = folder / "candidate.parquet"
    (frame.drop(without) if without else frame).write_parquet(path)
    return validate_files([path], suite_of(GpuSample))


def failed(outcomes: list[Outcome]) -> dict[str, int | None]:
    return {o.expectation: o.unexpected_count for o in outcomes if not o.passed}


def test_sound_rows_pass_every_rule_in_the_order_of_the_suite(tmp_path: Path) -> None:
    outcomes = gate(tmp_path, {"power_w": 300.0, "gpu_util_ratio": 1.0}, {"power_w": 0.0, "gpu_util_ratio": 0.0})
    assert failed(outcomes) == {}
    assert [o.expectation for o in outcomes] == [e.name for e in suite_of(GpuSample)]


def test_each_broken_rule_is_named_with_its_rows(tmp_path: Path) -> None:
    outcomes = gate(
        tmp_path,
        {"power_w": -1.0, "gpu_util_ratio": 1.5},
        {"power_w": -2.0, "node": None},
        {"energy_j": -0.5, "power_w": 250_000.0},
    )
    assert failed(outcomes) == {
        "power_w is between 0 and 100000": 3,
        "gpu_util_ratio is between 0 and 1": 1,
        "energy_j is between 0 and anything": 1,
        "node is given": 1,
    }


def test_an_unusual_row_warns_and_leaves_the_blocking_rules_passed(tmp_path: Path) -> None:
    outcomes = gate(tmp_path, {"power_w": 900.0, "power_limit_w": 400.0}, {"power_w": 600.0, "power_limit_w": 400.0})
    told = [o for o in outcomes if not o.passed]
    assert [(o.severity, o.unexpected_count) for o in told] == [("warning", 1)]


def test_not_a_number_is_outside_bounds(tmp_path: Path) -> None:
    assert failed(gate(tmp_path, {"power_w": float("nan")})) == {"power_w is between 0 and 100000": 1}


def test_a_column_that_is_missing_is_told_and_the_other_rules_are_still_asked(tmp_path: Path) -> None:
    told = failed(gate(tmp_path, {"gpu_util_ratio": 2.0}, without="power_w"))
    assert "the columns are the declared ones" in told
    assert told["gpu_util_ratio is between 0 and 1"] == 1
    assert "power_w is between 0 and 100000" in told


@pytest.mark.parametrize("bad", ["GPU-1", None])
def test_a_repeated_key_is_found_beside_rules_about_rows(tmp_path: Path, bad: str | None) -> None:
    outcomes = gate(tmp_path, {}, {"sampled_at": AT, "gpu_uuid": bad})
    assert any("is unique" in name for name in failed(outcomes)) is (bad is not None)
    assert ("gpu_uuid is given" in failed(outcomes)) is (bad is None)


def test_gates_side_by_side_do_not_see_each_other(tmp_path: Path) -> None:
    def broken(number: int) -> dict[str, int | None]:
        folder = tmp_path / str(number)
        folder.mkdir()
        return failed(gate(folder, *[{"power_w": -1.0}] * number))

    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(broken, range(6)))
    assert told == [{}] + [{"power_w is between 0 and 100000": rows} for rows in range(1, 6)]


def test_a_table_of_a_database_is_judged_where_it_lies(tmp_path: Path) -> None:
    database = tmp_path / "published.duckdb"
    with duckdb.connect(str(database)) as con:
        con.execute("create schema ops; create table ops.loads as select null::varchar as node, 7 as power_w")
    suite = [e for e in suite_of(GpuSample) if e.arguments.get("column") in ("node", "power_w")]
    for _ in range(2):
        assert failed(validate_table(database, "loads", suite, "ops")) == {"node is given": 1}
    with duckdb.connect(str(database)) as con:  # nothing holds it open
        con.execute("drop table ops.loads")


def test_memory_does_not_grow_with_the_number_of_gates(tmp_path: Path) -> None:
    def held_bytes() -> int:
        for power_w in (-1.0, 300.0, 300.0, 300.0, 300.0):
            gate(tmp_path, {"power_w": power_w})
        told = gx._gate().con.execute("select sum(memory_usage_bytes) from duckdb_memory()").fetchall()
        return int(told[0][0])

    held_bytes()
    assert held_bytes() == held_bytes()
