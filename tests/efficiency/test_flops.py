"""FLOPs and parameter counts against published sizes and hand arithmetic."""

from __future__ import annotations

import pytest

from assets.flops import Shape, ShapeError, count_flops, count_params

GPT3 = Shape(params=175e9, layers=96, hidden=12288, heads=96, head_dim=128, vocab=51200, seq_len=2048)


def test_palm_gpt3_token():
    # 6 x 175e9 + 12 x 96 x 96 x 128 x 2048 = 1.05e12 + 28,991,029,248
    assert count_flops(GPT3).model_flops_per_token == 1.05e12 + 28_991_029_248


@pytest.mark.parametrize(
    ("shape", "flops"),
    [
        (Shape(params=405e9, layers=126, heads=128, head_dim=128, seq_len=8192), 2.15690e16),
        (Shape(params=8.03e9, layers=32, heads=32, head_dim=128, seq_len=8192), 5.00244e14),
        (Shape(params=69e9, trainable_params=0, layers=80, heads=64, head_dim=128, seq_len=8192), 2.78876e15),
    ],
    ids=["llama31_405b", "llama31_8b", "llama2_70b_lora"],
)
def test_mlperf_flops_per_sequence(shape, flops):
    assert count_flops(shape).model_flops_per_token * 8192 == pytest.approx(flops, rel=1e-5)


def test_causal_attention_is_half():
    from dataclasses import replace

    assert count_flops(replace(GPT3, is_causal=True)).model_flops_per_token == 1.05e12 + 28_991_029_248 / 2


def test_narayanan_without_recompute():
    # 72 x 96 x 12288^2 x (1 + 2048/(6 x 12288) + 51200/(16 x 96 x 12288))
    block = 72 * 96 * 12288**2
    expected = block * (1 + 2048 / (6 * 12288) + 51200 / (16 * 96 * 12288))
    assert count_flops(GPT3, "narayanan").model_flops_per_token == pytest.approx(expected, rel=1e-12)


def test_full_recompute_is_four_thirds():
    for formula in ("palm", "palm_no_attention", "narayanan"):
        count = count_flops(GPT3, formula, "full")
        assert count.hardware_flops_per_token == pytest.approx(4 / 3 * count.model_flops_per_token)


@pytest.mark.parametrize(
    ("name", "shape", "billions", "active"),
    [
        ("Llama 3.1 8B", {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn_hidden": 14336}, 8.03, 8.03),
        (
            "Llama 3.1 70B",
            {"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn_hidden": 28672},
            70.55,
            70.55,
        ),
        ("405B", {"layers": 126, "hidden": 16384, "heads": 128, "kv_heads": 8, "ffn_hidden": 53248}, 405.85, 405.85),
    ],
)
def test_counted_parameters_of_public_models(name, shape, billions, active):
    counted = count_params(Shape(**shape, vocab=128256, is_gated_mlp=True))
    assert counted.params / 1e9 == pytest.approx(billions, abs=0.01), name
    assert counted.active_params / 1e9 == pytest.approx(active, abs=0.01)


def test_mixture_of_experts_counts_what_a_token_uses():
    # Mixtral 8x7B publishes 46.7 B parameters and 12.9 B used by a token.
    counted = count_params(
        Shape(
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=8,
            ffn_hidden=14336,
            vocab=32000,
            is_gated_mlp=True,
            experts=8,
            experts_per_token=2,
        )
    )
    assert counted.params / 1e9 == pytest.approx(46.7, abs=0.05)
    assert counted.active_params / 1e9 == pytest.approx(12.9, abs=0.05)


def test_input_embedding_does_no_matmul_unless_tied():
    untied = count_params(Shape(layers=2, hidden=8, heads=2, ffn_hidden=32, vocab=100))
    tied = count_params(Shape(layers=2, hidden=8, heads=2, ffn_hidden=32, vocab=100, is_tied_embedding=True))
    # two layers of 4 x 8 x 8 + 2 x 8 x 32 = 768, and the output head of 100 x 8: matmul work either way
    for shape in (untied, tied):
        assert count_flops(shape, "palm_no_attention").model_flops_per_token == 6 * (2 * 768 + 800)
    assert (untied.params, tied.params) == (2 * 768 + 1600, 2 * 768 + 800)


def test_sliding_window_bounds_the_attention():
    shape = Shape(params=1e9, layers=10, heads=8, head_dim=64, seq_len=4096, attention_window=1024)
    attention = count_flops(shape).model_terms[-1]
    assert attention.flops == 12 * 10 * 8 * 64 * 1024


def test_partly_frozen_model():
    # 4 x 100 for every weight, 2 x 10 more for the ten that are trained
    shape = Shape(params=100, trainable_params=10)
    assert count_flops(shape, "palm_no_attention").model_flops_per_token == 420


@pytest.mark.parametrize(
    ("shape", "formula", "words"),
    [
        (Shape(params=1e9), "palm", "`layers`, `heads`, `seq_len`"),
        (Shape(layers=2), "palm", "heads"),
        (Shape(params=1e9, experts=8), "palm_no_attention", "active_params"),
        (Shape(params=4e9, active_params=1e9, layers=2, hidden=8, vocab=9, seq_len=4), "narayanan", "`formula` palm"),
        (Shape(layers=2, hidden=8, heads=2, ffn_hidden=9, vocab=9, experts=4), "palm", "experts_per_token"),
        (Shape(params=5, embedding_params=5), "palm_no_attention", "not below `params`"),
    ],
)
def test_what_is_missing_is_named(shape, formula, words):
    with pytest.raises(ShapeError, match=words):
        count_flops(shape, formula)
