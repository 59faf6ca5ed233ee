"""What a log or a job script says about the run as a whole: parallel degrees, batch, shape.

Belongs here: reading printed arguments and command lines, and the hash by which runs are compared.
Does not belong here: steps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from sources.training_logs.reading import Scalar

RECOMPUTE = ("none", "selective", "full")

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel")
SHAPE = (
    "params",
    "active_params",
    "layers",
    "hidden",
    "heads",
    "head_dim",
    "kv_heads",
    "ffn_hidden",
    "vocab",
    "experts",
    "experts_per_token",
    "shared_experts",
    "is_gated_mlp",
    "is_tied_embedding",
    "is_causal",
    "seq_len",
)
_NAMES = {
    "world_size": "gpus",
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "data_parallel_size": "data_parallel",
    "context_parallel_size": "context_parallel",
    "expert_model_parallel_size": "expert_parallel",
    "global_batch_size": "global_batch",
    "seq_length": "seq_len",
    "num_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "kv_channels": "head_dim",
    "num_query_groups": "kv_heads",
    "ffn_hidden_size": "ffn_hidden",
    "padded_vocab_size": "vocab",
    "num_experts": "experts",
    "moe_router_topk": "experts_per_token",
    "swiglu": "is_gated_mlp",
}
_PRINTED = re.compile(r"^\s*(?:\[[^\]]*\]:? *)?([a-z][a-z0-9_]*) \.{3,} (\S+)\s*$", re.MULTILINE)
_FLAG = re.compile(r"--([a-z][a-z0-9-]+)(?:[ =]+([^\s\\-][^\s\\]*))?")


def _value(text: str | None) -> Scalar | None:
    if text is None or text in {"True", "true"}:
        return True
    if text in {"False", "false"}:
        return False
    return int(text) if text.isdecimal() else None


def _known(pairs: list[tuple[str, str | None]]) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {}
    for name, text in pairs:
        key, value = _NAMES.get(name), _value(text)
        if key is None or value is None or isinstance(value, bool) != (key == "is_gated_mlp"):
            continue
        facts[key] = value
    if "experts" not in facts:
        facts.pop("experts_per_token", None)
    return facts


def megatron_arguments(text: str) -> dict[str, Scalar]:
    """Facts of the argument table that Megatron-LM prints at start (`name ...... value`)."""
    pairs = [(m.group(1), m.group(2)) for m in _PRINTED.finditer(text)]
    return {**_known(pairs), **_precision(pairs), **_recompute(pairs)}


def command_line(text: str) -> dict[str, Scalar]:
    """Facts of a Megatron-style command line or job script (`--tensor-model-parallel-size 8`)."""
    pairs = [(m.group(1).replace("-", "_"), m.group(2)) for m in _FLAG.finditer(text)]
    return {**_known(pairs), **_precision(pairs), **_recompute(pairs)}


def _precision(pairs: Sequence[tuple[str, str | None]]) -> dict[str, Scalar]:
    """The lowest precision that is switched on; nothing where none is."""
    told = dict(pairs)
    on: set[str] = {name for name in ("bf16", "fp16") if name in told and _value(told[name]) is True}
    if told.get("fp8", told.get("fp8_format")) not in {"None", "False", "false"} and {"fp8", "fp8_format"} & set(told):
        on.add("fp8")
    return {"precision": next(p for p in ("fp8", "bf16", "fp16") if p in on)} if on else {}


def _recompute(pairs: Sequence[tuple[str, str | None]]) -> dict[str, Scalar]:
    """Which activations are computed again: none, selective (attention alone) or full; nothing where a part is.

    Megatron-LM prints `recompute_granularity`; with the method `block` only some layers take part, and other
    modules than `core_attn` are not attention: how much is computed again is then not known. Older logs print
    `checkpoint_activations` with the layers of one chunk. A job script that names nothing says nothing.
    """
    told = dict(pairs)
    if told.get("recompute_method") == "block":
        return {}
    modules = told.get("recompute_modules")
    if modules is not None and re.sub(r"[^a-z_,]", "", modules) not in {"core_attn", "", "None"}:
        return {}
    granularity = told.get("recompute_granularity")
    if granularity in {"full", "selective"}:
        return {"recompute": granularity}
    if "recompute_activations" in told and _value(told["recompute_activations"]) is True:
        return {"recompute": "selective"}
    if "checkpoint_activations" in told and isinstance(_value(told["checkpoint_activations"]), bool):
        return {"recompute": "full" if _value(told["checkpoint_activations"]) else "none"}
    return {"recompute": "none"} if granularity == "None" else {}


def config_hash(facts: Mapping[str, Scalar]) -> str | None:
    """SHA-256 over what shapes a run: degrees, batch, shape; None where nothing is stated.

    Runs with equal hashes may be compared with each other, week by week.
    """
    shaping = {k: facts[k] for k in (*DEGREES, *SHAPE, "global_batch", "gpus", "precision", "recompute") if k in facts}
    if not shaping:
        return None
    return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()
