"""FLOPs a model needs for one token: shapes, formulas and the arithmetic they print.

Belongs here: counting parameters and FLOPs, standard library only, so that the calculator starts at once.
Does not belong here: peaks (`peaks.py`), throughput from logs or marts (`efficiency.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Formula = Literal["palm", "palm_no_attention", "narayanan", "korthikanti"]
Recompute = Literal["none", "selective", "full"]
FORMULAS: tuple[Formula, ...] = ("palm", "palm_no_attention", "narayanan", "korthikanti")

FORMULA_TEXT: dict[Formula, str] = {
    "palm": "6*N + 12*L*H*Q*T (PaLM, arXiv:2204.02311, appendix B)",
    "palm_no_attention": "6*N (PaLM, arXiv:2204.02311, without the attention term)",
    "narayanan": "72*L*h^2*(1 + T/(6h) + V/(16*L*h)) (Narayanan et al., arXiv:2104.04473, eq. 3)",
    "korthikanti": "72*L*h^2*(1 + T/(6h) + V/(12*L*h)) (Korthikanti et al., arXiv:2205.05198, eq. 7)",
}


class ShapeError(ValueError):
    """The shape lacks what the chosen formula needs; the text names fields of `Shape` in backticks."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What FLOPs depend on. Counts are plain numbers; `None` is not known.

    `params` and `active_params` include the input embedding; `embedding_params` is taken off, since a look-up
    does no matmul work. Leave it None where the formula's authors count it, or where input and output
    embedding are one matrix. `trainable_params` below `params` means the rest is frozen.
    """

    params: float | None = None
    active_params: float | None = None
    embedding_params: float | None = None
    trainable_params: float | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    head_dim: float | None = None
    value_head_dim: float | None = None
    kv_heads: int | None = None
    ffn_hidden: int | None = None
    is_gated_mlp: bool = False
    vocab: int | None = None
    is_tied_embedding: bool = False
    experts: int | None = None
    experts_per_token: int | None = None
    shared_experts: int = 0
    seq_len: int | None = None
    is_causal: bool = False
    attention_window: int | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """One summand: what it is, the arithmetic as text, and its value in FLOP per token."""

    name: str
    arithmetic: str
    flops: float


@dataclass(frozen=True, slots=True)
class FlopCount:
    """FLOPs of one token: the model's own, and those executed with recompute."""

    formula: Formula
    recompute: Recompute
    model_terms: tuple[Term, ...]
    recompute_terms: tuple[Term, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def model_flops_per_token(self) -> float:
        """FLOP per token that the model needs (for MFU)."""
        return sum(t.flops for t in self.model_terms)

    @property
    def hardware_flops_per_token(self) -> float:
        """FLOP per token that are executed, recomputed ones included (for HFU)."""
        return self.model_flops_per_token + sum(t.flops for t in self.recompute_terms)


def _need(shape: Shape, *names: str) -> None:
    missing = [n for n in names if getattr(shape, n) is None]
    if missing:
        raise ShapeError(f"the formula needs {', '.join(f'`{n}`' for n in missing)}")


def head_dim_of(shape: Shape) -> float:
    """Width of a query-key head: as stated, else hidden / heads. Raises `ShapeError`."""
    if shape.head_dim is not None:
        return shape.head_dim
    _need(shape, "hidden", "heads")
    return float(shape.hidden or 0) / float(shape.heads or 1)


def count_params(shape: Shape) -> Shape:
    """Fill `params`, `active_params` and `embedding_params` from the dimensions, where `params` is not stated.

    Attention h*(H*Q) + 2*h*(KV*Q) + (H*Qv)*h, MLP 2 or 3 matrices of h x ffn for each expert, router h x E,
    embeddings V x h once or twice. Norm weights and biases are left out (below 0.1 % in models of 1 B and more).
    Raises `ShapeError` when a dimension is missing.
    """
    if shape.params is not None:
        return shape
    _need(shape, "layers", "hidden", "heads", "ffn_hidden", "vocab")
    hidden, heads, layers = float(shape.hidden or 0), float(shape.heads or 0), float(shape.layers or 0)
    width = head_dim_of(shape)
    value_width = shape.value_head_dim or width
    kv_heads = float(shape.kv_heads or heads)
    attention = hidden * (heads * width + kv_heads * (width + value_width) + heads * value_width)
    expert = (3 if shape.is_gated_mlp else 2) * hidden * float(shape.ffn_hidden or 0)
    router = hidden * float(shape.experts or 0)
    total_experts = (shape.experts or 1) + shape.shared_experts
    used_experts = (shape.experts_per_token or 1) + shape.shared_experts
    if shape.experts and not shape.experts_per_token:
        raise ShapeError("a model with experts needs `experts_per_token`: FLOPs follow the active parameters")
    embedding = float(shape.vocab or 0) * hidden
    tables = embedding * (1 if shape.is_tied_embedding else 2)
    return replace(
        shape,
        params=layers * (attention + router + total_experts * expert) + tables,
        active_params=layers * (attention + router + used_experts * expert) + tables,
        embedding_params=0.0 if shape.is_tied_embedding else embedding,
    )


def count_flops(shape: Shape, formula: Formula = "palm", recompute: Recompute = "none") -> FlopCount:
    """FLOP per trained token by one of the published formulas. Raises `ShapeError`."""
    if formula in {"narayanan", "korthikanti"}:
        return _gpt(shape, formula, recompute)
    return _palm(count_params(shape), formula, recompute)


def _palm(shape: Shape, formula: Formula, recompute: Recompute) -> FlopCount:
    if shape.experts and shape.active_params is None:
        raise ShapeError("a model with experts needs `active_params`: FLOPs follow the active parameters")
    stated = shape.active_params if shape.active_params is not None else shape.params
    if stated is None:
        raise ShapeError(
            "the formula needs `params` (or `layers`, `hidden`, `heads`, `ffn_hidden` and `vocab` to count them)"
        )
    matmul = stated - (0.0 if shape.is_tied_embedding else shape.embedding_params or 0.0)
    if matmul <= 0:
        raise ShapeError("`embedding_params` are not below `params`")
    terms = list(_parameter_terms(shape, matmul))
    extra = [Term("forward once more", f"2 x {_n(matmul)}", 2 * matmul)] if recompute == "full" else []
    if formula == "palm":
        attention = _attention(shape)
        terms.append(attention)
        if recompute in {"selective", "full"}:
            extra.append(Term("attention forward once more", f"{_n(attention.flops)} / 3", attention.flops / 3))
    elif recompute == "selective":
        raise ShapeError("selective recompute repeats the attention, which this formula leaves out; use `formula` palm")
    return FlopCount(formula, recompute, tuple(terms), tuple(extra))


def _parameter_terms(shape: Shape, matmul: float) -> tuple[Term, ...]:
    whole = shape.params if shape.params is not None else matmul
    if shape.trainable_params is None or shape.trainable_params >= whole:
        return (Term("parameters", f"6 x {_n(matmul)}", 6 * matmul),)
    # A frozen weight needs the forward pass and the gradient of its input, not the gradient of itself.
    trained = shape.trainable_params
    return (
        Term("parameters, frozen: forward and gradient of activations", f"4 x {_n(matmul)}", 4 * matmul),
        Term("gradient of trainable parameters", f"2 x {_n(trained)}", 2 * trained),
    )


def _attention(shape: Shape) -> Term:
    _need(shape, "layers", "heads", "seq_len")
    layers, heads, length = float(shape.layers or 0), float(shape.heads or 0), float(shape.seq_len or 0)
    width = head_dim_of(shape)
    value_width = shape.value_head_dim or width
    seen = min(length, float(shape.attention_window)) if shape.attention_window else length
    flops = 6 * layers * heads * (width + value_width) * seen
    text = f"6 x {_n(layers)} x {_n(heads)} x ({_n(width)} + {_n(value_width)}) x {_n(seen)}"
    if width == value_width:
        text = f"12 x {_n(layers)} x {_n(heads)} x {_n(width)} x {_n(seen)}"
    if shape.is_causal and not shape.attention_window:
        return Term("attention, causal (half)", f"{text} / 2", flops / 2)
    return Term("attention", text, flops)


def _gpt(shape: Shape, formula: Formula, recompute: Recompute) -> FlopCount:
    _need(shape, "layers", "hidden", "vocab", "seq_len")
    if shape.experts or (shape.active_params or shape.params) != shape.params:
        raise ShapeError(f"{formula} counts a dense GPT; a model with experts needs `formula` palm")
    if shape.trainable_params is not None and shape.trainable_params < (shape.params or 0):
        raise ShapeError(f"{formula} counts a model trained in full; frozen parameters need formula=palm")
    layers, hidden, vocab = float(shape.layers or 0), float(shape.hidden or 0), float(shape.vocab or 0)
    length = float(shape.seq_len or 0) / (2 if shape.is_causal else 1)
    block = 72 * layers * hidden**2
    attention = 12 * layers * hidden * length
    logits = (4.5 if formula == "narayanan" else 6.0) * hidden * vocab
    half = " / 2" if shape.is_causal else ""
    terms = (
        Term("matrices", f"72 x {_n(layers)} x {_n(hidden)}^2", block),
        Term("attention", f"12 x {_n(layers)} x {_n(hidden)} x {_n(shape.seq_len or 0)}{half}", attention),
        Term("logits", f"{_n(logits / hidden / vocab)} x {_n(hidden)} x {_n(vocab)}", logits),
    )
    extra: tuple[Term, ...] = ()
    if recompute == "full":
        again = block + attention + (logits if formula == "narayanan" else 0.0)
        extra = (Term("forward once more", f"{_n(again)} / 3", again / 3),)
    elif recompute == "selective":
        # The paper's own count doubles the attention term (T/(3h) instead of T/(6h)).
        extra = (Term("attention once more", f"{_n(attention)}", attention),)
    notes = []
    if (shape.kv_heads is not None and shape.kv_heads != shape.heads) or shape.is_gated_mlp:
        notes.append(f"{formula} assumes multi-head attention and an MLP of 4h; this model has another shape")
    return FlopCount(formula, recompute, terms, extra, tuple(notes))


def _n(value: float) -> str:
    """A number as a person writes it: thousands separated, no trailing zeros."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
