"""Accelerators, peaks, precision and the conditions under which there is no MFU."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from assets.mlperf_accelerators import resolve, with_peaks
from assets.mlperf_work import WORK, with_precision
from mlperf.logs import curated, line, result, run, write_directory

TOKENS = 1_258_291_200
GPT3_FLOPS = 6 * 175e9 + 12 * 96 * 96 * 128 * 2048


def gpt3(folder: Path, minutes: float = 60.0, **described: object) -> Path:
    write_directory(folder, [run(minutes, samples=TOKENS)] * 3, benchmark="gpt3", described=described)
    return folder


def test_mfu_by_hand(tmp_path: Path) -> None:
    row = result(gpt3(tmp_path, 60.0, number_of_nodes="128"))
    achieved = TOKENS * GPT3_FLOPS / 3_600 / 1_024 / 1e12
    assert row["model_flops"] == pytest.approx(TOKENS * GPT3_FLOPS)
    assert row["units_per_s_per_accelerator"] == pytest.approx(TOKENS / 3_600 / 1_024)
    assert row["model_tflops_per_accelerator"] == pytest.approx(achieved)
    assert row["mfu_ratio"] == pytest.approx(achieved / 989.4)
    assert row["mfu_eight_bit_ratio"] == pytest.approx(achieved / 1978.9)
    assert (row["used_precision"], row["mfu_used_ratio"], row["mfu_reason"]) == (None, None, None)


def test_flops_per_unit_are_those_of_the_guide() -> None:
    per_unit = {name: work.flops_per_unit for name, work in WORK.items() if work.flops_per_unit}
    assert per_unit["gpt3"] == pytest.approx(1.07899e12, rel=1e-5)
    assert per_unit["llama31_405b"] == pytest.approx(2.15690e16, rel=1e-5)
    assert per_unit["llama31_8b"] == pytest.approx(5.00244e14, rel=1e-5)
    # A frozen base: 4N, not 6N.
    assert per_unit["llama2_70b_lora"] == pytest.approx((4 * 69e9 + 12 * 80 * 8192 * 8192) * 8192)
    assert per_unit["bert"] == pytest.approx(1.106e12, rel=1e-3)
    assert set(per_unit) == {"gpt3", "llama31_405b", "llama31_8b", "llama2_70b_lora", "bert"}


def test_every_figure_of_flops_is_cited() -> None:
    assert all(w.citation and w.formula for w in WORK.values() if w.flops_per_unit)
    assert all(w.reason for w in WORK.values() if not w.flops_per_unit)


@pytest.mark.parametrize("benchmark", ["stable_diffusion", "flux1", "resnet", "dlrm_dcnv2"])
def test_no_mfu_where_no_flops_are_citable(tmp_path: Path, benchmark: str) -> None:
    write_directory(tmp_path, [run(float(m)) for m in range(1, 11)], benchmark=benchmark)
    row = result(tmp_path)
    assert (row["mfu_ratio"], row["flops_per_unit"], row["model_flops"]) == (None, None, None)
    assert "published" in row["mfu_reason"] or "no official time" in row["mfu_reason"]


def test_bert_is_an_upper_bound(tmp_path: Path) -> None:
    write_directory(tmp_path, [line("train_samples", 2_549_468) + run(5.4688)] * 10, benchmark="bert")
    row = result(tmp_path)
    assert row["mfu_ratio"] == pytest.approx(1.0861, abs=1e-3)
    assert row["mfu_is_upper_bound"] is True
    assert "upper bound" in row["mfu_reason"]


def test_another_sequence_length_has_other_flops(tmp_path: Path) -> None:
    logs = [line("max_sequence_length", 4096) + run(samples=322_560)] * 3
    write_directory(tmp_path, logs, benchmark="llama31_405b")
    row = result(tmp_path)
    assert (row["mfu_ratio"], row["flops_per_unit"]) == (None, None)
    assert "sequence length" in row["mfu_reason"]


def test_a_token_counter_that_counts_something_else_is_not_used(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(samples=601_127)] * 3, benchmark="gpt3")  # sequences, not tokens
    assert result(tmp_path)["mfu_ratio"] is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NVIDIA GeForce RTX 4090", "accelerator NVIDIA GeForce RTX 4090: no reference row"),
        ("Acme Warp 9", "accelerator Acme Warp 9 is not in ref.accelerator_aliases"),
    ],
)
def test_an_unresolved_accelerator_has_a_reason(tmp_path: Path, name: str, reason: str) -> None:
    row = result(gpt3(tmp_path, accelerator_model_name=name))
    assert (row["accelerator"], row["accelerator_id"], row["mfu_ratio"]) == (name, None, None)
    assert row["mfu_reason"] == reason
    assert row["minutes"] == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("name", "accelerator_id"),
    [
        ("NVIDIA H100-SXM5-80GB", "nvidia-h100-sxm5-80gb"),
        ("NVIDIA H100-SXM-80GB", "nvidia-h100-sxm5-80gb"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm5-80gb"),
        ("NVIDIA Blackwell GPU (GB200)", "nvidia-gb200-186gb"),
        ("NVIDIA Blackwell GPU (B200-SXM-180GB)", "nvidia-b200-sxm6-180gb"),
        ("AMD Instinct MI325X 256GB HBM3E DLC", "amd-mi325x-256gb"),
        ("Habana Gaudi2", "intel-gaudi-2-96gb"),
        ("Intel(R) Gaudi(R) 2 AI Accelerator", "intel-gaudi-2-96gb"),
        ("tpu-v5p", "google-tpu-v5p-95gb"),
        ("TPU-trillium", "google-tpu-v6e-32gb"),
    ],
)
def test_spellings_of_one_product_mean_one_accelerator(name: str, accelerator_id: str) -> None:
    frame = resolve(pl.DataFrame({"accelerator": [name]}), curated("ref.accelerator_aliases"))
    assert frame["accelerator_id"].to_list() == [accelerator_id]


def aliases(*rows: tuple[str, str, str | None, str | None, str]) -> pl.DataFrame:
    names = ("namespace", "raw_name", "accelerator_id", "unresolved_reason", "known_at")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def test_a_name_that_others_use_for_two_parts_is_not_guessed() -> None:
    known = aliases(
        ("aws", "X1", "a", None, "2025"), ("gcp", "x1", "b", None, "2025"), ("gcp", "X2", "c", None, "2025")
    )
    frame = resolve(pl.DataFrame({"accelerator": ["X1", "x2 (x8)", None]}), known)
    assert frame["accelerator_id"].to_list() == [None, "c", None]


def test_the_newest_statement_about_a_name_counts() -> None:
    known = aliases(("mlperf", "X1", None, "not yet known", "2025-01-01"), ("mlperf", "X1", "a", None, "2025-06-01"))
    assert resolve(pl.DataFrame({"accelerator": ["X1"]}), known)["accelerator_id"].to_list() == ["a"]


def test_the_eight_bit_peak_is_the_higher_of_fp8_and_int8() -> None:
    frame = pl.DataFrame(
        {"accelerator_id": ["google-tpu-v5p-95gb", "nvidia-b300-sxm6-270gb"], "used_precision": ["int8", "fp4"]}
    )
    peaks = with_peaks(frame, curated("ref.accelerators"))
    assert peaks["eight_bit_dense_tflops"].to_list() == [918.0, 4500.0]
    assert peaks["used_dense_tflops"].to_list() == [918.0, 13500.0]


@pytest.mark.parametrize(
    ("given", "precision"),
    [
        ({"linear_precision": "mxfp4"}, "fp4"),
        ({"linear_precision": "NVFP4"}, "fp4"),
        ({"linear_precision": "mxfp8"}, "fp8"),
        ({"linear_precision": "bf16", "software_notes": "FP8 Training"}, "bf16"),
        ({"software_notes": "FP8 Training"}, "fp8"),
        ({"organization": "NVIDIA"}, "fp8"),
        ({"organization": "NVIDIA", "benchmark_id": "llama2_70b_lora"}, None),
        ({"organization": "NVIDIA", "accelerator_id": "nvidia-gb200-186gb", "round": "v5.1", "benchmark_id": "llama31_8b"}, "fp4"),
        ({"organization": "NVIDIA", "accelerator_id": "nvidia-gb200-186gb", "round": "v5.0"}, None),
        ({"organization": "Google", "accelerator_id": "google-tpu-v5e-16gb"}, "int8"),
        ({}, None),
    ],
)  # fmt: skip
def test_the_precision_used_where_somebody_said_so(given: dict[str, str], precision: str | None) -> None:
    row = {
        "benchmark_id": "gpt3",
        "round": "v4.0",
        "organization": "Dell",
        "accelerator_id": "nvidia-h100-sxm5-80gb",
        "software_notes": None,
        "linear_precision": None,
    }
    schema = dict.fromkeys(row, pl.String)
    found = with_precision(pl.DataFrame([row | given], schema=schema)).row(0, named=True)
    assert found["used_precision"] == precision
    assert (found["used_precision_basis"] is None) == (precision is None)


def test_results_fit_their_tables_and_say_when_they_became_known(tmp_path: Path) -> None:
    row = result(gpt3(tmp_path))
    assert row["known_at"] == dt.datetime(2025, 11, 12, tzinfo=dt.UTC)
    assert row["flops_formula"] == "6*N + 12*L*H*Q*T: 6 x 175,000,000,000 + 12 x 96 x 96 x 128 x 2,048"
    assert row["flops_citation"].startswith("PaLM, arXiv:2204.02311, appendix B; shape: mlcommons/training")
