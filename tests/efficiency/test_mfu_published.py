"""Every published run of the reference facts, recomputed from its raw inputs by the command itself."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.commands.mfu import command

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts" / "mfu_inputs.csv"
ROWS = list(csv.DictReader(FACTS.read_text(encoding="utf-8").splitlines())) if FACTS.exists() else []
RECOMPUTING = [r for r in ROWS if r["within_1pp"] == "yes"]


def run_json(*flags: object) -> dict[str, float]:
    result = CliRunner().invoke(command, [*map(str, flags), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def throughput(row: dict[str, str]) -> list[object]:
    """Tokens and seconds as published: batch x length over a step time, else the stated tokens a second."""
    if row["tokens_per_s_basis"] == "batch*seq/step":
        return ["--tokens", int(row["global_batch_seq"]) * int(row["seq_len"]), "--seconds", row["step_time_s"]]
    return ["--tokens", row["tokens_per_s"], "--seconds", 1]


def shape(row: dict[str, str]) -> list[object]:
    flags: list[object] = ["--params", f"{row['params_b']}B", "--seq-len", row["seq_len"]]
    for column, flag in (("layers", "--layers"), ("hidden", "--hidden"), ("vocab", "--vocab")):
        flags += [flag, row[column]] if row[column] else []
    return flags


def counting(row: dict[str, str]) -> list[object]:
    """The flags that the row's own formula text asks for."""
    text = row["flops_formula"]
    if text.startswith("stated"):
        return ["--flops-per-token", f"{row['stated_tflops_per_gpu']}T"]
    if text.startswith("4.10 TFLOP/token"):
        return ["--flops-per-token", "4.10e12"]
    if text.startswith("6.31e8 PFLOP total"):
        return ["--flops-per-token", 6.31e23 / 300e9]
    if text.startswith("8N"):
        return [*shape(row), "--formula", "palm_no_attention", "--recompute", "full"]
    if text == "6N":
        return [*shape(row), "--formula", "palm_no_attention"]
    if "qk192" in text:
        flags = ["--params", "671B", "--active-params", "37B", "--experts", 256, "--layers", 61, "--heads", 128]
        flags += ["--head-dim", 192, "--value-head-dim", 128, "--seq-len", row["seq_len"]]
        return [*flags, "--causal" if "/2" in text else "--full"]
    if text.startswith("6N + 12*L*H*Q*T"):
        return [*shape(row), "--heads", 48, "--head-dim", 256]
    if "non-embedding" in text:
        return [*shape(row), "--embedding-params", "1.6B"]
    if "input embedding" in text:
        return [*shape(row), "--embedding-params", int(row["vocab"]) * int(row["hidden"])]
    if text.startswith("96*"):
        return [*shape(row), "--formula", "narayanan", "--recompute", "full"]
    if "s/(3h)" in text:
        return [*shape(row), "--formula", "korthikanti", "--recompute", "selective"]
    if text.startswith("72*"):
        return [*shape(row), "--formula", "korthikanti"]
    assert "6N + 12*L*h*s" in text, text
    return shape(row)


@pytest.mark.parametrize("row", RECOMPUTING, ids=lambda r: f"{r['model']} {r['config']} {r['metric']}")
def test_published_figure_follows_from_raw_inputs(row):
    ratio_only = row["recompute_kind"] == "ratio_only"
    rate = ["--tokens", 1, "--seconds", 1, "--accelerators", 1] if ratio_only else throughput(row)
    devices = [] if ratio_only else ["--accelerators", row["gpus"]]
    out = run_json(*counting(row), *rate, *devices, "--peak-tflops", row["peak_tflops_used"])
    ratio = out["hfu_ratio"] if row["metric"] == "hfu" and out["hfu_ratio"] is not None else out["mfu_ratio"]
    assert 100 * ratio == pytest.approx(float(row["published_pct"]), abs=1.0)
    assert 100 * ratio == pytest.approx(float(row["recomputed_pct"]), abs=0.02)


def test_the_facts_are_all_here():
    if not ROWS:
        pytest.skip("the reference facts are not beside this checkout")
    assert (len(ROWS), len(RECOMPUTING)) == (51, 49)


def explained(*flags: object) -> str:
    result = CliRunner().invoke(command, [str(f) for f in flags])
    assert result.exit_code == 0, result.output
    return result.output


def test_gpt3_on_v100_is_explained():
    # 24.6 TFLOP/s without attention on a 125 TFLOP/s V100: 24.6 / 125 = 19.68 %, printed as 21.3 %.
    text = explained(
        "--flops-per-token", "24.6T", "--tokens", 1, "--seconds", 1, "--accelerators", 1,
        "--peak-tflops", 125, "--published", 21.3,
    )  # fmt: skip
    assert "MFU          24.6 / 125 = 19.68 %" in text
    assert "does not follow from these inputs, -1.62 points apart" in text
    assert "a peak of 115.5 TFLOP/s" in text  # 24.6 / 0.213


def test_gpt_neox_is_explained():
    # 150,000 steps of 1538 x 2048 tokens in 1,830 h on 96 A100.
    text = explained(
        "--params", "20.556B", "--layers", 44, "--hidden", 6144, "--heads", 64, "--vocab", 50432, "--seq-len", 2048,
        "--formula", "narayanan", "--recompute", "full", "--tokens", 1538 * 2048 * 150_000,
        "--seconds", 1830 * 3600, "--accelerators", 96, "--peak-tflops", 312, "--published", 37.5,
    )  # fmt: skip
    assert "HFU          127.1 / 312 = 40.75 %" in text
    assert "does not follow from these inputs, +3.25 points apart" in text
    assert "92.0 % of the throughput given" in text  # 37.5 / 40.75
    assert "no other way of counting reaches it" in text
