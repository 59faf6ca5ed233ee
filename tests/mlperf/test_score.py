"""The olympic score: how many runs are needed, which are dropped, and when there is no result."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlperf.logs import line, result, run, runs, write_directory
from sources.mlperf.benchmarks import BENCHMARKS


def test_three_runs_give_their_median(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(12.0), run(10.0), run(50.0)], benchmark="gpt3")
    assert result(tmp_path)["minutes"] == pytest.approx(12.0)


def test_five_runs_drop_one_at_each_end(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(m) for m in (1.0, 2.0, 3.0, 4.0, 100.0)], benchmark="resnet")
    assert result(tmp_path)["minutes"] == pytest.approx(3.0)


def test_unet3d_drops_four_at_each_end(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(float(m)) for m in range(1, 41)], benchmark="unet3d")
    row = result(tmp_path)
    assert (row["kept_run_count"], row["dropped_each_side"]) == (32, 4)
    assert row["minutes"] == pytest.approx(sum(range(5, 37)) / 32)


def test_unet3d_takes_four_failures_in_its_slow_slots(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(float(m)) for m in range(1, 37)] + [run(None)] * 4, benchmark="unet3d")
    row = result(tmp_path)
    assert (row["failed_run_count"], row["kept_run_count"]) == (4, 32)
    assert row["minutes"] == pytest.approx(sum(range(5, 37)) / 32)


@pytest.mark.parametrize(("benchmark", "required", "allowed"), [("unet3d", 40, 4), ("bert", 10, 1), ("gpt3", 3, 1)])
def test_one_failure_too_many_and_there_is_no_result(
    tmp_path: Path, benchmark: str, required: int, allowed: int
) -> None:
    failed = allowed + 1
    write_directory(tmp_path, [run(None)] * failed + [run()] * (required - failed), benchmark=benchmark)
    row = result(tmp_path)
    assert (row["minutes"], row["unscaled_minutes"], row["kept_run_count"]) == (None, None, 0)
    assert row["minutes_reason"] == f"{failed} runs failed, the rules allow {allowed}"
    assert {r["slot"] for r in runs(tmp_path)} == {"failed", "not_scored"}


def test_one_file_too_many_and_there_is_no_result(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 4, benchmark="gpt3")
    assert result(tmp_path)["minutes_reason"] == "4 result files found, the rules require 3"


def test_the_factor_scales_the_time_and_not_the_throughput(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(20.0, samples=322_560)] * 3, benchmark="llama31_405b", factor=1.0595)
    row = result(tmp_path)
    assert row["minutes"] == pytest.approx(20 * 1.0595)
    assert row["unscaled_minutes"] == pytest.approx(20)
    assert row["units_per_s"] == pytest.approx(322_560 / 1_200)


def test_a_factor_that_cannot_be_read_gives_no_official_time(tmp_path: Path) -> None:
    folder = write_directory(tmp_path, [run()] * 3, benchmark="gpt3")
    (folder / "scaling.json").write_text('{"scaling_factor": "about 1"}')
    row = result(tmp_path)
    assert (row["minutes"], row["scaling_factor"]) == (None, None)
    assert row["minutes_reason"] == "scaling.json holds no usable scaling_factor"


def test_ties_are_ordered_by_file_name(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(5.0)] * 3, benchmark="gpt3")
    assert [r["slot"] for r in runs(tmp_path)] == ["dropped_fastest", "kept", "dropped_slowest"]


def test_work_is_averaged_over_the_runs_kept(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(m, samples=s) for m, s in ((1.0, 9), (2.0, 8), (3.0, 7), (4.0, 6), (9.0, 1))],
                    benchmark="retinanet")  # fmt: skip
    assert result(tmp_path)["convergence_counter"] == pytest.approx((8 + 7 + 6) / 3)


def test_one_kept_run_without_a_counter_and_the_mean_is_unknown(tmp_path: Path) -> None:
    bare = run(2.0).replace(', "samples_count": 3072', "")
    write_directory(tmp_path, [run(1.0), bare, run(3.0)], benchmark="llama31_405b")
    row = result(tmp_path)
    assert row["minutes"] == pytest.approx(2.0)
    assert row["convergence_counter"] is None
    assert row["mfu_reason"] == "the work done until the stop is not logged in all runs kept"


def test_a_stop_before_the_start_is_no_time(tmp_path: Path) -> None:
    write_directory(tmp_path, [run(-5.0), run(1.0), run(2.0)], benchmark="gpt3")
    first = runs(tmp_path)[0]
    assert (first["outcome"], first["minutes"], first["slot"]) == ("corrupt", None, "failed")


def test_run_counts_of_the_rule_book() -> None:
    needed = {name: b.runs_required for name, b in BENCHMARKS.items()}
    assert {n for n, c in needed.items() if c == 3} == {"gpt3", "llama31_405b", "deepseekv3_671b"}
    assert needed["unet3d"] == 40
    assert {needed[n] for n in ("resnet", "ssd", "retinanet", "maskrcnn")} == {5}
    tens = ("bert", "llama2_70b_lora", "llama31_8b", "flux1", "stable_diffusion", "dlrm_dcnv2", "gnn", "rgat", "rnnt")
    assert {needed[n] for n in tens} == {10}
    assert [n for n, b in BENCHMARKS.items() if b.dropped_each_side != 1] == ["unet3d"]


def test_renamed_benchmarks_share_an_id(tmp_path: Path) -> None:
    write_directory(tmp_path, [run()] * 5, benchmark="ssd")
    row = result(tmp_path)
    assert (row["benchmark"], row["benchmark_id"]) == ("ssd", "retinanet")


def test_settings_that_differ_between_runs_are_not_stated(tmp_path: Path) -> None:
    logs = [line("max_sequence_length", n) + run() for n in (8192, 8192, 4096)]
    write_directory(tmp_path, logs, benchmark="llama31_405b")
    row = result(tmp_path)
    assert (row["sequence_length"], row["global_batch_size"]) == (None, 8)
