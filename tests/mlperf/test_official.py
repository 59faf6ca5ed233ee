"""Minutes and MFU of the real directories against published and reference figures."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from mlperf.logs import tables

# The one published value that its own logs do not give (QUIRKS 23).
IRREPRODUCIBLE = ("smc-ac-power", "ssd")


@pytest.fixture(scope="module")
def results() -> pl.DataFrame:
    shared = Path(__file__).resolve().parents[3] / "shared"
    if not (shared / "README.md").exists():
        pytest.skip("../shared (real payloads and reference facts) is not beside this checkout")
    return tables(shared / "data" / "mlperf")["market.mlperf_results"]


def facts(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "facts" / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


def by_directory(results: pl.DataFrame) -> dict[tuple[str, ...], dict]:
    key = ("round", "organization", "system_desc_id", "benchmark")
    return {tuple(row[k] for k in key): row for row in results.to_dicts()}


def test_all_twenty_directories_have_an_official_time(results: pl.DataFrame) -> None:
    assert results.height == 20
    assert results["minutes"].null_count() == 0


def test_minutes_agree_with_every_official_row_to_its_printed_precision(results: pl.DataFrame, shared: Path) -> None:
    ours = by_directory(results)
    compared = 0
    for row in facts(shared, "mlperf_official.csv"):
        key = (row["round"], row["submitter"], row["system_desc_id"], row["benchmark"])
        if key not in ours or (key[1], key[3]) == IRREPRODUCIBLE:
            continue
        printed = row["official_minutes"]
        half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
        assert abs(ours[key]["minutes"] - float(printed)) <= half * (1 + 1e-9), (key, printed)
        assert ours[key]["accelerator_count"] == int(row["accelerator_count"])
        assert ours[key]["failed_run_count"] == int(row["n_not_converged"])
        assert ours[key]["runs_required"] == int(row["n_required"])
        assert ours[key]["global_batch_size"] == int(row["global_batch_size"])
        compared += 1
    assert compared == 19


def test_unscaled_minutes_and_factors_agree(results: pl.DataFrame, shared: Path) -> None:
    ours = by_directory(results)
    for row in facts(shared, "mlperf_official.csv"):
        key = (row["round"], row["submitter"], row["system_desc_id"], row["benchmark"])
        if key in ours:
            assert ours[key]["unscaled_minutes"] == pytest.approx(float(row["unscaled_olympic_minutes"]), abs=5e-7)
            assert ours[key]["scaling_factor"] == pytest.approx(float(row["scaling_factor"] or 1))


def test_quirk_23_a_published_value_that_its_logs_do_not_give(results: pl.DataFrame) -> None:
    ours = by_directory(results)["v4.0", "smc-ac-power", "1xSMC-H100-SXM-80GB", "ssd"]
    assert round(ours["minutes"], 3) == 36.178
    assert 37.183 - ours["minutes"] == pytest.approx(1.0053, abs=1e-4)


def test_mfu_agrees_with_the_reference_within_a_tenth_of_a_point(results: pl.DataFrame, shared: Path) -> None:
    ours = by_directory(results)
    compared = 0
    for row in facts(shared, "mlperf_mfu_reference.csv"):
        got = ours[row["round"], row["submitter"], row["system_desc_id"], row["benchmark"]]
        assert abs(got["mfu_ratio"] - float(row["mfu_vs_bf16"])) <= 0.001, row
        assert abs(got["mfu_eight_bit_ratio"] - float(row["mfu_vs_fp8"])) <= 0.001, row
        assert got["convergence_counter"] == pytest.approx(float(row["mean_counter"]))
        assert got["flops_per_unit"] == pytest.approx(float(row["flops_per_unit"]), rel=1e-6)
        assert got["model_tflops_per_accelerator"] == pytest.approx(float(row["model_tflops_per_accel"]), abs=0.05)
        assert got["bf16_dense_tflops"] == float(row["peak_bf16_dense"])
        compared += 1
    assert compared == 15


def test_results_without_citable_flops_say_so(results: pl.DataFrame, shared: Path) -> None:
    referenced = {(r["round"], r["submitter"], r["benchmark"]) for r in facts(shared, "mlperf_mfu_reference.csv")}
    others = [r for r in results.to_dicts() if (r["round"], r["organization"], r["benchmark"]) not in referenced]
    assert len(others) == 5
    assert all(r["mfu_ratio"] is None and r["mfu_reason"] for r in others)


def test_peaks_that_differ_from_the_reference_table_are_named(results: pl.DataFrame) -> None:
    amd = results.filter(pl.col("accelerator_id") == "amd-mi355x-288gb")
    assert amd["bf16_dense_tflops"].to_list() == [2500.0, 2500.0]
    assert all("ref.accelerators has 2516.6 and 5033.2" in note for note in amd["notes"])


def test_the_11616_gpu_run_worked_by_hand(results: pl.DataFrame) -> None:
    row = by_directory(results)["v4.0", "NVIDIA", "eos-dfw_n1452_ngc24.04_nemo", "gpt3"]
    tokens = 2904 * 2048 * 207
    assert tokens == 1_231_110_144
    flops = 6 * 175e9 + 12 * 96 * 96 * 128 * 2048
    seconds, accelerators = 206.655, 1452 * 8
    per_accelerator = tokens * flops / seconds / accelerators / 1e12
    assert row["accelerator_count"] == 11_616
    assert row["convergence_counter"] == tokens
    assert row["unscaled_minutes"] * 60 == pytest.approx(seconds)
    assert row["scaling_factor"] == 1
    assert row["model_flops"] == pytest.approx(1.32836e21, rel=1e-5)
    assert row["model_tflops_per_accelerator"] == pytest.approx(per_accelerator) == pytest.approx(553.4, abs=0.05)
    assert row["mfu_ratio"] == pytest.approx(per_accelerator / 989.4) == pytest.approx(0.559, abs=0.0005)
    assert row["used_precision"] == "fp8"
    assert row["mfu_used_ratio"] == pytest.approx(per_accelerator / 1978.9) == pytest.approx(0.280, abs=0.0005)


def test_the_worked_scaling_factor(results: pl.DataFrame) -> None:
    """RCP(1536) lies between RCP(1152) = 322560 and RCP(2304) = 380160; the submission needed 322560 sequences."""
    row = by_directory(results)["v5.0", "NVIDIA", "eos-dfw_n1024_ngc25.01_nemo", "llama31_405b"]
    reference = 322560 + (380160 - 322560) * (1536 - 1152) / (2304 - 1152)
    assert reference == 341760
    assert row["global_batch_size"] == 1536
    assert row["convergence_counter"] == 322560
    assert row["scaling_factor"] == pytest.approx(reference / 322560) == pytest.approx(1.05952, abs=1e-5)
    assert round(row["unscaled_minutes"], 3) == 19.638
    assert round(row["minutes"], 3) == 20.807


def test_every_result_leads_to_its_source(results: pl.DataFrame) -> None:
    links = results["source_url"]
    assert links.str.starts_with("https://github.com/mlcommons/training_results_v").all()
    assert "IBM%2BCoreWeave%2BNVIDIA/results/" in "".join(links)
