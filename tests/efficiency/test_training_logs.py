"""Training logs: hand-checked values from real logs, and written ones for each dialect."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from sources.base import ParseError, Payload
from sources.training_logs.arguments import command_line, config_hash, megatron_arguments
from sources.training_logs.source import SOURCE

FIXTURES = Path(__file__).parents[1] / "fixtures" / "training-log"
STEPS = "telemetry.training_steps"


def parsed(path: Path, **options: str):
    (payload,) = SOURCE.read([path], {"observed_at": "2026-11-30T00:00:00Z", **options})
    return SOURCE.parse(payload)


def steps(path: Path, **options: str) -> pl.DataFrame:
    return parsed(path, **options).frames[STEPS]


@pytest.fixture
def logs(shared: Path) -> Path:
    return shared / "data" / "telemetry" / "training_logs"


# Real logs ----------------------------------------------------------------------------------------------------------


def test_bloom_seconds_tokens_and_wrapped_lines(logs):
    out = steps(logs / "bigscience_bloom176b_chronicles_lines.log")
    # 22 records in the file; 42783, 42784 and 45000 stand there twice with the same figures. Steps with gaps stay.
    assert out["step"].to_list() == [
        12695, *range(31214, 31223), 31250, 31251, *range(42780, 42785), 45000,
    ]  # fmt: skip
    assert out["segment"].unique().to_list() == [0]
    assert out["step_seconds"].to_list()[:2] == [105.22, 106.46]
    # 97,834,074,112 - 97,829,879,808 consumed tokens = 4,194,304 = 2048 sequences of 2048
    assert out["tokens"].unique().to_list() == [4_194_304]
    assert out["samples"].unique().to_list() == [2048]
    wrapped = out.filter(pl.col("step") == 42780).row(0, named=True)
    assert (wrapped["step_seconds"], wrapped["loss"], wrapped["stated_tflops_per_gpu"]) == (105.16, None, 149.10)
    assert out["stated_tflops_kind"].unique().to_list() == ["hardware"]
    assert out["completed_at"].null_count() == out.height


def test_v100_log_prints_milliseconds_and_skips_steps(logs):
    out = steps(logs / "bigscience_meg_gpt2_perf_n16_V100.log")
    assert out["step_seconds"].to_list() == pytest.approx([150.8917, 123.8963, 124.3622, 122.2240])
    assert out["skipped_steps"].to_list() == [1, 1, 1, 1]
    assert out["tokens"].null_count() == 4  # the log states no sequence length
    assert (
        steps(logs / "bigscience_meg_gpt2_perf_n16_V100.log", seq_len="1024")["tokens"].to_list() == [1024 * 1024] * 4
    )


def test_megatron_log_with_two_ranks_on_one_line(logs):
    out = steps(logs / "megatron_lm_r0.10_llama2_3.5b_8x4090.log", time_zone="Asia/Shanghai")
    assert out["step"].to_list() == [1, 2, 3, 4, 5]
    assert out["step_seconds"].to_list() == pytest.approx([19.1388, 12.9361, 12.9781, 13.0141, 13.0760])
    assert out["stated_tflops_per_gpu"].to_list() == [80.2, 118.7, 118.3, 118.0, 117.5]
    assert out["stated_tflops_kind"].unique().to_list() == ["model"]
    assert out["completed_at"][0] == dt.datetime(2025, 7, 31, 23, 19, 37, tzinfo=dt.UTC)
    assert out["is_warm_up"].to_list() == [True, False, False, False, False]


def test_torchtitan_thousands_and_log_gaps(logs):
    out = steps(logs / "torchtitan_qwen3vl30b_8xh200.log", gpus="8")
    assert out["step"].to_list() == [1, 2, 3, 4, 13, 18]
    assert out["tokens_per_s_per_gpu"].to_list() == [945, 5970, 6585, 6580, 6420, 6255]
    assert out["stated_mfu_ratio"].to_list() == pytest.approx([0.0482, 0.3047, 0.3360, 0.3358, 0.3277, 0.3192])
    # 01:18:49.878 to 01:19:57.656 is 67.778 s for nine steps
    assert out["step_seconds"].to_list()[1:5] == pytest.approx([8.234, 7.465, 7.471, 67.778 / 9])
    assert out["step_seconds_basis"].to_list() == [None, *["timestamps"] * 5]
    assert out["tokens_per_s"][1] == 8 * 5970
    assert out["steps_covered"].unique().to_list() == [1]


def test_mlperf_log_steps_and_evaluations(logs):
    out = parsed(logs / "mlperf_v51_llama31_405b_512gpu_mllog.txt", seq_len="8192")
    rows = out.frames[STEPS]
    assert rows["step"].to_list() == list(range(272, 288))
    assert rows["samples"].unique().to_list() == [1152]  # 315,648 - 314,496
    assert rows["tokens"].unique().to_list() == [1152 * 8192]
    assert rows["step_seconds"][1] == pytest.approx(13.12763786)
    assert rows["loss"][0] == pytest.approx(5.60163975)
    phases = out.frames["telemetry.job_phases"]
    # the log itself states validation_time 22.1516 s and 22.1465 s
    took = (phases["to_at"] - phases["from_at"]).dt.total_milliseconds().to_list()
    assert took == [22_150, 22_146]


def test_every_real_log_is_read_or_refused(logs):
    for file in sorted(logs.iterdir()):
        assert steps(file).height > 0, file.name


# Written logs -------------------------------------------------------------------------------------------------------


def test_megatron_rollback_arguments_and_duplicates():
    out = parsed(FIXTURES / "megatron_rollback.out", cluster="c1")
    rows = out.frames[STEPS]
    assert rows.select("step", "pass_number", "segment").rows() == [
        (10, 1, 0), (20, 1, 0), (30, 1, 0), (30, 2, 1), (40, 1, 1),
    ]  # fmt: skip
    assert rows["step_seconds"].to_list() == pytest.approx([9.0, 2.0, 2.01, 2.4, 2.0])
    assert rows["steps_covered"].unique().to_list() == [10]
    assert rows["tokens"].unique().to_list() == [64 * 4096]
    assert rows["loss"].is_nan().to_list() == [False, False, True, False, False]
    job = out.frames["telemetry.jobs"].row(0, named=True)
    degrees = [job[f"{k}_parallel"] for k in ("tensor", "pipeline", "data", "context")]
    assert degrees == [4, 2, 2, 1]
    assert (job["gpus_allocated"], job["cluster"], len(job["config_hash"])) == (16.0, "c1", 64)
    assert job["precision"] == "bf16"
    model = out.frames["ref.model_configs"].row(0, named=True)
    assert (model["layers"], model["hidden"], model["kv_heads"], model["is_gated_mlp"]) == (24, 2048, 8, True)
    assert "experts" not in model
    assert model["model_config_id"] == rows["model_config_id"][0]


@pytest.mark.parametrize(
    ("file", "framework", "step", "seconds"),
    [
        ("gpt_neox.log", "megatron-lm", [34, 35], [4.0, 4.0]),
        ("nemo2.log", "nemo", [0, 1, 2], [7.5, 1.25, 1.2]),
        ("nemo1.log", "nemo", [793, 794], [41.35, 41.36]),
        ("deepspeed.log", "deepspeed", [40, 50], [128 / 64.0, 128 / 51.2]),
        ("deepspeed_pipeline.log", "deepspeed", [10, 20], [2.5, 2.0]),
        ("trainer_state.json", "hf-trainer", [10, 20], [None, None]),
        ("hf_stdout.log", "hf-trainer", [10, 20], [None, None]),
        ("trainer_log.jsonl", "hf-trainer", [10, 20], [None, 11.6]),
        ("torchtitan_two_ranks.log", "torchtitan", [1, 2], [None, 2.0]),
        ("own.jsonl", "jsonl", [1, 2], [10.0, 2.0]),
    ],
)
def test_dialects(file, framework, step, seconds):
    out = steps(FIXTURES / file)
    assert out["framework"].unique().to_list() == [framework]
    assert out["step"].to_list() == step
    assert out["step_seconds"].to_list() == seconds
    assert out["pass_number"].unique().to_list() == [1]


def test_deepspeed_prints_the_running_total_of_skipped_steps():
    assert steps(FIXTURES / "deepspeed.log")["skipped_steps"].to_list() == [2, 1]


def test_trainer_tokens_come_from_the_growth_of_tokens_seen():
    out = steps(FIXTURES / "trainer_state.json")
    assert out["tokens"].to_list() == [None, 8192]  # (163,840 - 81,920) / 10 steps
    assert out["tokens_basis"].to_list() == [None, "consumed_difference"]


def test_rounded_counts_are_no_counts():
    assert steps(FIXTURES / "nemo1.log")["samples"].null_count() == 2  # 1.63e+6


def test_own_format_refuses_with_reasons():
    out = parsed(FIXTURES / "own.jsonl")
    assert [r.reason.split(" ")[:3] for r in out.rejects] == [
        ["not", "a", "JSON"], ["a", "step", "needs"], ["a", "phase", "needs"],
    ]  # fmt: skip
    assert out.frames[STEPS]["tokens"].to_list() == [2_097_152, 512 * 4096]
    assert out.frames[STEPS]["completed_at"][1] == dt.datetime(2026, 11, 1, 0, 2, 12, tzinfo=dt.UTC)
    assert out.frames["telemetry.job_phases"]["phase"].to_list() == ["start_up"]
    assert "ref.model_configs" not in out.frames


def test_a_log_of_one_line_is_read():
    body = b'{"event": "step", "step": 7, "at": "2026-11-01T00:00:10Z", "step_seconds": 9.8, "tokens": 1024}\n'
    at = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    out = SOURCE.parse(Payload("training-log", "file:one.jsonl", at, "application/jsonl", body))
    assert out.frames[STEPS].select("step", "steps_covered", "step_seconds").rows() == [(7, None, 9.8)]


def test_a_report_without_a_step_is_refused():
    (reject,) = parsed(FIXTURES / "hf_stdout.log").rejects
    assert "names no step" in reject.reason


@pytest.mark.parametrize(("body", "words"), [(b"", "empty"), (b"<html>502</html>", "no training step found")])
def test_what_is_no_log_is_refused(body, words):
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    payload = Payload("training-log", "file:x.log", now, "text/plain", body)
    with pytest.raises(ParseError, match=words):
        SOURCE.parse(payload)


def test_job_id_comes_from_the_slurm_file_name(tmp_path):
    file = tmp_path / "slurm-4711_3.out"
    file.write_bytes((FIXTURES / "gpt_neox.log").read_bytes())
    assert steps(file)["job_id"].unique().to_list() == ["4711_3"]


def test_log_and_job_script_of_one_run_agree():
    script = "srun python pretrain.py --tensor-model-parallel-size 4 --num-layers=24 --swiglu --lr 1e-4 --fp8-format hybrid --bf16"
    facts = command_line(script)
    assert facts == {"tensor_parallel": 4, "layers": 24, "is_gated_mlp": True, "precision": "fp8"}
    assert config_hash(facts) == config_hash(dict(reversed(facts.items())))
    assert config_hash(facts) != config_hash({**facts, "layers": 25})
    assert config_hash({}) is None


@pytest.mark.parametrize(
    ("text", "recompute"),
    [
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "full"),
        ("--recompute-granularity selective", "selective"),
        ("--recompute-activations --use-flash-attn", "selective"),
        ("--recompute-granularity selective --recompute-modules core_attn", "selective"),
        # some layers only, or other modules than attention: how much is not known
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 4", None),
        ("--recompute-granularity selective --recompute-modules mlp", None),
        ("--num-layers 32", None),
    ],
)
def test_recompute_of_a_job_script(text, recompute):
    assert command_line(text).get("recompute") == recompute


@pytest.mark.parametrize(
    ("printed", "recompute"),
    [
        ("recompute_granularity ........................... full", "full"),
        ("recompute_granularity ........................... None", "none"),
        ("checkpoint_activations .......................... True", "full"),
        ("checkpoint_activations .......................... False", "none"),
    ],
)
def test_recompute_as_megatron_prints_it(printed, recompute):
    assert (
        megatron_arguments(f"  num_layers ...................................... 24\n  {printed}\n")["recompute"]
        == recompute
    )
