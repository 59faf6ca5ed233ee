"""The marts: spread, duplicates, scaling efficiency and speed-up at equal size, by hand arithmetic."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import polars as pl
import pytest

from warehouse.bitemporal import with_versions
from warehouse.ddl import create_table, published_columns
from warehouse.marts import marts
from warehouse.quality.rows import conform
from warehouse.schema.declare import qualified_name
from warehouse.schema.mlperf import MlperfResult
from warehouse.schema.reference import Accelerator

NAMES = ("mlperf_scaling", "mlperf_efficiency")
DAYS = {"v4.0": dt.date(2024, 6, 12), "v5.0": dt.date(2025, 6, 4), "v5.1": dt.date(2025, 11, 12)}
PARTS = [
    ("nvidia-h100-sxm5-80gb", "NVIDIA", "H100 SXM5", "Hopper", dt.date(2022, 9, 20)),
    ("nvidia-h200-sxm5-141gb", "NVIDIA", "H200 SXM", "Hopper", dt.date(2024, 11, 18)),
    ("nvidia-b200-sxm6-180gb", "NVIDIA", "B200", "Blackwell", dt.date(2024, 11, 15)),
    ("nvidia-gb200-186gb", "NVIDIA", "GB200", "Grace Blackwell", dt.date(2025, 2, 15)),
    ("amd-mi355x-288gb", "AMD", "MI355X", "CDNA 4", dt.date(2025, 6, 12)),
]


def midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def row(system: str, minutes: float | None, **given: Any) -> dict[str, Any]:
    base = {
        "round": "v5.1",
        "organization": "Acme",
        "system_desc_id": system,
        "benchmark": "llama2_70b_lora",
        "benchmark_id": "llama2_70b_lora",
        "division": "closed",
        "accelerator_id": "nvidia-h100-sxm5-80gb",
        "accelerator_count": 8,
        "minutes": minutes,
        "unscaled_minutes": minutes,
        "run_count": 10,
        "failed_run_count": 0,
        "kept_run_count": 8,
        "logs_sha256": None,
        "units_per_s_per_accelerator": None,
        "mfu_ratio": None,
        "source": "mlperf-training",
    } | given
    base.setdefault("submitter", base["organization"])
    base["known_at"] = midnight(DAYS[base["round"]])
    return base


def build(*rows: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'; create schema market; create schema ref; create schema mart")
    parts = [
        {"accelerator_id": i, "vendor": v, "model": m, "architecture": a, "release_date": d, "source": "curated",
         "known_at": midnight(dt.date(2026, 1, 1))}
        for i, v, m, a, d in PARTS
    ]  # fmt: skip
    for model, given in ((MlperfResult, rows), (Accelerator, parts)):
        frame, _ = conform(pl.DataFrame(given, infer_schema_length=None), model)
        if model is MlperfResult:
            frame = with_versions(frame, model, {"mlperf-training": "primary", "curated": "curated"})
        con.execute(create_table(model))
        con.register("incoming", frame.select(published_columns(model)))
        con.execute(f"insert into {qualified_name(model)} select * from incoming")
    for mart in marts():
        if mart.name in NAMES:
            con.execute(f"create table mart.{mart.name} as {mart.sql}")
    return con


def one(con: duckdb.DuckDBPyConnection, where: str, mart: str = "mlperf_efficiency") -> dict[str, Any]:
    found = con.sql(f"select * from mart.{mart} where {where}").pl().to_dicts()
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", NAMES)
def test_headers_name_every_column_in_order_and_the_key_is_unique(name: str) -> None:
    mart = next(m for m in marts() if m.name == name)
    con = build(row("a", 10.0), row("b", 20.0, round="v5.0"), row("c", 5.0, organization="Beta"))
    frame = con.sql(f"select * from mart.{name}").pl()
    assert list(mart.columns) == frame.columns
    assert frame.select(mart.key).is_duplicated().sum() == 0


def test_best_median_and_spread() -> None:
    con = build(
        row("a", 10.0, mfu_ratio=0.40),
        row("b", 12.0, mfu_ratio=0.50),
        row("c", 3.0, accelerator_count=64, mfu_ratio=0.35, organization="Beta"),
        row("d", None, mfu_ratio=None),
    )
    found = one(con, "round = 'v5.1'")
    assert (found["result_count"], found["submitter_count"], found["mfu_count"]) == (3, 2, 3)
    assert (found["best_mfu_ratio"], found["median_mfu_ratio"]) == (0.50, 0.40)
    assert found["mfu_spread_ratio"] == pytest.approx(0.15)
    assert (found["best_minutes"], found["best_minutes_accelerator_count"], found["median_minutes"]) == (3.0, 64, 10.0)
    # 8 x 10 / 60, 8 x 12 / 60 and 64 x 3 / 60 accelerator hours.
    assert found["best_accelerator_hours"] == pytest.approx(80 / 60)
    assert found["median_accelerator_hours"] == pytest.approx(96 / 60)
    assert found["accelerator_hours_spread"] == pytest.approx((192 - 80) / 60)


def test_mfu_of_bf16_and_of_the_precision_that_ran_stand_side_by_side() -> None:
    # 400 TFLOP/s each on a part of 989.4 (BF16) and 1,978.9 (FP8) TFLOP/s dense: a ran in FP8, b in BF16 at 350.
    con = build(
        row("a", 10.0, mfu_ratio=400 / 989.4, mfu_used_ratio=400 / 1978.9),
        row("b", 12.0, mfu_ratio=350 / 989.4, mfu_used_ratio=350 / 989.4),
        row("c", 14.0, mfu_ratio=300 / 989.4, mfu_used_ratio=None),
    )
    found = one(con, "round = 'v5.1'")
    assert found["best_mfu_ratio"] == pytest.approx(0.40429, abs=5e-6)
    assert found["best_mfu_used_ratio"] == pytest.approx(0.35375, abs=5e-6)
    assert found["median_mfu_used_ratio"] == pytest.approx((0.35375 + 0.20213) / 2, abs=1e-5)
    assert (found["mfu_count"], found["mfu_used_count"]) == (3, 2)
    comments = next(m for m in marts() if m.name == "mlperf_efficiency").columns
    assert all("dense BF16 peak" in comments[c] for c in ("best_mfu_ratio", "median_mfu_ratio", "mfu_spread_ratio"))


def test_one_submission_under_several_directories_counts_once() -> None:
    con = build(
        row("a", 10.0, organization="smc", logs_sha256="x"),
        row("a", 10.0, organization="smc-ac-power", logs_sha256="x"),
        row("b", 14.0, organization="Beta", logs_sha256="y"),
    )
    found = one(con, "round = 'v5.1'")
    assert (found["result_count"], found["median_minutes"]) == (2, 12.0)
    copy = one(con, "organization = 'smc-ac-power'", "mlperf_scaling")
    assert copy["duplicate_of"] == "v5.1/smc/a"
    assert one(con, "organization = 'smc'", "mlperf_scaling")["duplicate_of"] is None


def test_one_submission_counts_once_where_its_logs_are_not_held() -> None:
    same = {"unscaled_minutes": 28.124233, "submitter": "Sustainable Metal Cloud"}
    con = build(
        row("1x", 29.1, organization="smc-ac-power", logs_sha256="aa", mfu_ratio=0.64, **same),
        row("1x", 29.1, organization="smc-dc-power", source="curated", **same | {"unscaled_minutes": 28.1242}),
        row("2x", 29.2, organization="smc-dc-power", source="curated", **same | {"unscaled_minutes": 28.2}),
        row("1x", 29.1, organization="Acme", source="curated", unscaled_minutes=28.1242),
    )
    found = one(con, "true")
    assert (found["result_count"], found["submitter_count"], found["mfu_count"]) == (3, 2, 1)


def test_a_resubmission_is_marked_and_counts_in_its_own_round() -> None:
    con = build(row("a", 244.594, round="v5.0", logs_sha256="x"), row("a", 237.606, logs_sha256="x"))
    assert one(con, "round = 'v5.1'", "mlperf_scaling")["duplicate_of"] == "v5.0/Acme/a"
    assert one(con, "round = 'v5.1'")["best_minutes"] == 237.606


def test_scaling_efficiency_is_against_the_smallest_system_of_the_submitter() -> None:
    con = build(
        row("n1", 100.0, units_per_s_per_accelerator=2.0),
        row("n8", 14.0, accelerator_count=64, units_per_s_per_accelerator=1.8),
        row("n64", 2.5, accelerator_count=512, units_per_s_per_accelerator=1.2),
        row("n8", 9.0, accelerator_count=64, units_per_s_per_accelerator=3.0, organization="Beta"),
    )
    assert one(con, "system_desc_id = 'n1'", "mlperf_scaling")["scaling_efficiency_ratio"] == 1.0
    largest = one(con, "system_desc_id = 'n64'", "mlperf_scaling")
    assert (largest["base_accelerator_count"], largest["scaling_efficiency_ratio"]) == (8, pytest.approx(0.6))
    found = one(con, "round = 'v5.1'")
    assert found["best_scaling_efficiency_ratio"] == pytest.approx(0.9)
    assert found["worst_scaling_efficiency_ratio"] == pytest.approx(0.6)


def test_speed_up_over_the_last_generation_at_equal_size() -> None:
    con = build(
        row("h8", 30.0, round="v4.0"),
        row("h8b", 28.0, round="v5.0", accelerator_id="nvidia-h200-sxm5-141gb"),
        row("h64", 5.0, round="v4.0", accelerator_count=64),
        row("g8", 7.0, accelerator_id="nvidia-gb200-186gb"),
        row("g64", 1.25, accelerator_id="nvidia-gb200-186gb", accelerator_count=64),
        row("g512", 0.4, accelerator_id="nvidia-gb200-186gb", accelerator_count=512),
        row("b8", 9.0, accelerator_id="nvidia-b200-sxm6-180gb"),
        row("m8", 10.0, accelerator_id="amd-mi355x-288gb"),
    )
    found = one(con, "accelerator_id = 'nvidia-gb200-186gb'")
    # 28 / 7 = 4 at 8 accelerators, 5 / 1.25 = 4 at 64; B200 is of the same generation.
    assert (found["previous_generation"], found["speedup_size_count"]) == ("Hopper", 2)
    assert found["speedup_ratio"] == pytest.approx(4.0)
    assert one(con, "accelerator_id = 'amd-mi355x-288gb'")["speedup_ratio"] is None
    assert one(con, "accelerator_id = 'nvidia-h100-sxm5-80gb'")["previous_generation"] is None


def test_a_late_part_of_the_old_generation_is_not_its_successor() -> None:
    # H200 came out three days after B200; alone in a benchmark it is still of the generation before.
    con = build(
        row("b8", 10.0, round="v5.0", accelerator_id="nvidia-b200-sxm6-180gb"),
        row("h8", 20.0, accelerator_id="nvidia-h200-sxm5-141gb"),
        row("h8b", 30.0, round="v4.0", accelerator_id="nvidia-h200-sxm5-141gb"),
    )
    older, newer = one(con, "accelerator_id like '%h200%' and round = 'v5.1'"), one(con, "accelerator_id like '%b200%'")
    assert (older["previous_generation"], older["speedup_ratio"]) == (None, None)
    assert (newer["previous_generation"], newer["speedup_ratio"]) == ("Hopper", pytest.approx(3.0))


def test_a_later_result_of_the_old_generation_does_not_count() -> None:
    con = build(row("b8", 10.0, round="v5.0", accelerator_id="nvidia-b200-sxm6-180gb"), row("h8", 20.0))
    assert one(con, "accelerator_id = 'nvidia-b200-sxm6-180gb'")["speedup_ratio"] is None


def test_the_logs_come_before_the_curated_figure() -> None:
    con = build(row("a", 36.178), row("a", 37.183, source="curated"))
    assert one(con, "true", "mlperf_scaling")["minutes"] == 36.178
