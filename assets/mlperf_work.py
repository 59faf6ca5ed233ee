"""What a unit of MLPerf work costs in FLOPs, with its citation, and which precision a submission used.

Belongs here: published shapes and statements. Does not belong here: the formulas (`flops.py`), peaks
(`ref.accelerators`), the score.

FLOPs follow PaLM, appendix B, with full attention and no recompute. Training under a frozen base counts the
forward pass and the gradient of activations, 4N; 6N would overstate it by about 40 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from assets.flops import FORMULA_TEXT, Shape, count_flops

PALM = "PaLM, arXiv:2204.02311, appendix B"


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs of one counter unit of a benchmark; `flops_per_unit` is None with a `reason` where none is citable."""

    unit: str
    flops_per_unit: float | None = None
    formula: str | None = None
    citation: str | None = None
    sequence_length: int | None = None
    is_upper_bound: bool = False
    reason: str | None = None


def _of(shape: Shape, unit: str, citation: str, *, upper_bound: str | None = None) -> Work:
    """Work of a transformer; a sequence counts all its tokens."""
    per_token = count_flops(shape)
    tokens = 1 if unit == "tokens" else int(shape.seq_len or 0)
    parts = " + ".join(term.arithmetic for term in per_token.model_terms if term.flops)
    each = parts if tokens == 1 else f"({parts}) x {tokens}"
    return Work(
        unit,
        per_token.model_flops_per_token * tokens,
        f"{FORMULA_TEXT['palm'].partition(' (')[0]}: {each}",
        f"{PALM}; shape: {citation}",
        shape.seq_len,
        upper_bound is not None,
        upper_bound,
    )


_NONE = "no published FLOPs per unit are known for this benchmark"

WORK: dict[str, Work] = {
    "gpt3": _of(
        Shape(params=175e9, layers=96, hidden=12288, heads=96, seq_len=2048),
        "tokens",
        "mlcommons/training retired_benchmarks/gpt3/megatron-lm/README.md",
    ),
    "llama31_405b": _of(
        Shape(params=405e9, layers=126, hidden=16384, heads=128, seq_len=8192),
        "sequences",
        "mlcommons/training large_language_model_pretraining/nemo/README.md",
    ),
    "llama31_8b": _of(
        Shape(params=8.03e9, layers=32, hidden=4096, heads=32, seq_len=8192),
        "sequences",
        "mlcommons/training small_llm_pretraining/nemo/README.md",
    ),
    # Adapters are below 0.1 % of the parameters and left out.
    "llama2_70b_lora": _of(
        Shape(params=69e9, trainable_params=0, layers=80, hidden=8192, heads=64, seq_len=8192),
        "sequences",
        "mlcommons/training llama2_70b_lora/README.md (packed to 8192 tokens, base frozen)",
    ),
    "bert": _of(
        Shape(params=335e6, layers=24, hidden=1024, heads=16, seq_len=512),
        "sequences",
        "BERT-large, arXiv:1810.04805",
        upper_bound="an upper bound: sequences count as padded to 512 tokens, and submitters leave padding out",
    ),
    "flux1": Work("images", reason="FLOPs of an image have been derived, but no published figure confirms them"),
    "stable_diffusion": Work("images", reason=_NONE),
}


def work_table() -> pl.DataFrame:
    """`WORK` as a frame, one row a benchmark_id; a benchmark without a row has no published FLOPs."""
    rows = [
        {
            "benchmark_id": name,
            "work_unit": work.unit,
            "flops_per_unit": work.flops_per_unit,
            "flops_formula": work.formula,
            "flops_citation": work.citation,
            "work_sequence_length": work.sequence_length,
            "is_bound": work.is_upper_bound,
            "work_reason": work.reason,
        }
        for name, work in WORK.items()
    ]
    return pl.DataFrame(rows, schema_overrides={"work_sequence_length": pl.Int64})


def no_work_reason() -> pl.Expr:
    """Why a benchmark has no FLOPs, for those that `work_table` does not list as well."""
    return pl.coalesce("work_reason", pl.lit(_NONE))


def with_precision(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `used_precision` and `used_precision_basis`; both null where nobody said which precision was used.

    Needs benchmark_id, round, organization, accelerator_id, software_notes, linear_precision.
    """
    logged = pl.col("linear_precision").str.to_lowercase()
    notes = pl.col("software_notes")
    accelerator = pl.col("accelerator_id")
    nvidia = pl.col("organization") == "NVIDIA"
    hopper = (
        nvidia & accelerator.str.contains("^nvidia-h[12]00-") & pl.col("benchmark_id").is_in(["gpt3", "llama31_405b"])
    )
    blackwell = (
        nvidia
        & (pl.col("round") == "v5.1")
        & accelerator.str.contains("^nvidia-g?b[23]00-")
        & pl.col("benchmark_id").str.starts_with("llama")
    )
    v5e = (
        (pl.col("organization") == "Google")
        & accelerator.str.starts_with("google-tpu-v5e")
        & (pl.col("benchmark_id") == "gpt3")
    )
    word = (
        pl.when(logged.str.contains("fp4"))
        .then(pl.lit("fp4"))
        .when(logged.str.contains("fp8"))
        .then(pl.lit("fp8"))
        .when(logged.str.contains("int8"))
        .then(pl.lit("int8"))
        .when(logged.str.contains("bf16|bfloat16"))
        .then(pl.lit("bf16"))
        .when(notes.str.contains(r"(?i)\b(?:mx|nv)?fp4\b"))
        .then(pl.lit("fp4"))
        .when(notes.str.contains(r"(?i)\b(?:mx)?fp8\b"))
        .then(pl.lit("fp8"))
        .when(hopper)
        .then(pl.lit("fp8"))
        .when(blackwell)
        .then(pl.lit("fp4"))
        .when(v5e)
        .then(pl.lit("int8"))
    )
    basis = (
        pl.when(logged.is_not_null())
        .then(pl.format("log key lowest_numerical_precision_linear: {}", "linear_precision"))
        .when(notes.str.contains(r"(?i)\b(?:mx|nv)?fp[48]\b"))
        .then(pl.format("sw_notes of the system file: {}", notes))
        .when(hopper)
        .then(pl.lit("NVIDIA states FP8 for its Hopper submissions of this benchmark"))
        .when(blackwell)
        .then(pl.lit("NVIDIA states NVFP4 for its Blackwell language-model submissions of v5.1"))
        .when(v5e)
        .then(pl.lit("Google states INT8 (AQT) for its v5e submission, blog of 2023-11-08"))
    )
    return frame.with_columns(word.alias("used_precision")).with_columns(
        pl.when(pl.col("used_precision").is_not_null()).then(basis).alias("used_precision_basis")
    )
