"""Source `model-config`: a small TOML file in which a user states the shapes of models.

Belongs here: reading that file. Does not belong here: FLOPs (`assets/flops.py`), shapes found in logs.

    [[model]]
    id = "my-moe-8x7b"
    params = 46.7e9
    active_params = 12.9e9
    layers = 32
    hidden = 4096
    heads = 32
    seq_len = 4096
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of

TABLE = "ref.model_configs"
TEXTS = ("id", "model", "org", "notes")
FLAGS = ("is_gated_mlp", "is_tied_embedding", "is_causal")
NUMBERS = (
    "params",
    "active_params",
    "embedding_params",
    "trainable_params",
    "layers",
    "hidden",
    "heads",
    "head_dim",
    "value_head_dim",
    "kv_heads",
    "ffn_hidden",
    "vocab",
    "experts",
    "experts_per_token",
    "shared_experts",
    "seq_len",
    "attention_window",
)


def read_shape(body: bytes) -> dict[str, Any]:
    """The one model of a TOML file, as keyword arguments of a shape.

    Raises `ParseError` when the file holds no model, several, or a key or value that no shape has.
    """
    models = read_models(body)
    if len(models) != 1:
        raise ParseError(f"the file states {len(models)} models; the calculator takes one: keep one [[model]]")
    fault = _fault(models[0])
    if fault:
        raise ParseError(f"{fault}; known keys: {', '.join((*TEXTS, *NUMBERS, *FLAGS))}")
    return {k: v for k, v in models[0].items() if k not in TEXTS}


def read_models(body: bytes) -> list[dict[str, Any]]:
    """The `[[model]]` tables of a TOML file. Raises `ParseError` when it is not such a file."""
    try:
        document = tomllib.loads(body.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ParseError(f"not a TOML file of models: {error}; write [[model]] tables with an id") from None
    models = document.get("model")
    if not isinstance(models, list) or not all(isinstance(m, dict) for m in models):
        raise ParseError("the file holds no [[model]] table; write one for each model, with an id")
    return models


class ModelConfigFile:
    """Shapes of models that a user wrote down. Local only."""

    name = "model-config"
    publisher = "the cluster's owner"
    homepage = ""
    licence = "own data"
    terms = "local files; nothing is fetched"
    cadence: Cadence = "static"
    tables = (TABLE,)
    authority: Authority = "curated"
    landing: Landing = "append"
    version = 1
    off_reason = "local files only: almanac load model-config FILE.toml"
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: there is no public document."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each TOML file."""
        for file, name in local_files(paths, (".toml",)):
            yield payload_of(self.name, file, name, options, media_type="application/toml", meta={}, stream=name)

    def parse(self, payload: Payload) -> Parsed:
        """Rows of ref.model_configs; a model without an id or with an unknown key is refused."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for number, model in enumerate(read_models(payload.read())):
            fault = _fault(model)
            if fault:
                rejects.append(Reject(TABLE, "model_is_complete", fault, repr(model), f"model {number}"))
                continue
            row = {k: v for k, v in model.items() if k != "id"}
            rows.append(
                {
                    **row,
                    "model_config_id": model["id"],
                    "model": model.get("model", model["id"]),
                    "known_at": payload.retrieved_at,
                    "source_name": payload.url.removeprefix("file:"),
                }
            )
        return Parsed({TABLE: pl.DataFrame(rows, infer_schema_length=None)} if rows else {}, rejects)


def _fault(model: Mapping[str, Any]) -> str | None:
    if not isinstance(model.get("id"), str) or not model["id"].strip():
        return "the model has no id"
    unknown = sorted(set(model) - {*NUMBERS, *FLAGS, *TEXTS})
    if unknown:
        return f"unknown key {unknown[0]!r}"
    wrong = [k for k in NUMBERS if k in model and (isinstance(model[k], bool) or not isinstance(model[k], int | float))]
    wrong += [k for k in FLAGS if k in model and not isinstance(model[k], bool)]
    return f"{wrong[0]} is not {'true or false' if wrong[0] in FLAGS else 'a number'}" if wrong else None


SOURCE = ModelConfigFile()
