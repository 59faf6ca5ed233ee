"""Source `model-config`: shapes of models, the published ones of `model_shapes.toml` and a user's own.

Belongs here: reading such files. Does not belong here: FLOPs (`assets/flops.py`), shapes found in logs.

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

import datetime as dt
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.texts import decoded

TABLE = "ref.model_configs"
SHAPES = "model_shapes.toml"
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
TEXTS = ("id", "model", "org", "source_name", "source_url", "certainty", "checked", "notes")
DATES = ("known_at",)
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
        raise ParseError(f"{fault}; known keys: {', '.join((*TEXTS, *DATES, *NUMBERS, *FLAGS))}")
    return {k: v for k, v in models[0].items() if k not in {*TEXTS, *DATES}}


def read_models(body: bytes) -> list[dict[str, Any]]:
    """The `[[model]]` tables of a TOML file. Raises `ParseError` when it is not such a file."""
    try:
        document = tomllib.loads(decoded(body, "strict"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ParseError(f"not a TOML file of models: {error}; write [[model]] tables with an id") from None
    models = document.get("model")
    if not isinstance(models, list) or not all(isinstance(m, dict) for m in models):
        raise ParseError("the file holds no [[model]] table; write one for each model, with an id")
    return models


class ModelConfigFile:
    """Shapes of models: published ones that come with the product, and files that a user wrote."""

    name = "model-config"
    publisher = "GPU Almanac, and the cluster's owner"
    homepage = ""
    licence = "facts with their sources"
    terms = "facts only; each row leads to where it was read"
    cadence: Cadence = "static"
    tables = (TABLE,)
    authority: Authority = "curated"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """The file of this package; no request is made, and its newest `known_at` stands for the clock."""
        body = (resources.files("sources") / SHAPES).read_bytes()
        newest = max(_known_at(m) or _EPOCH for m in read_models(body))
        yield Payload(self.name, f"curated:{SHAPES}", newest, "application/toml", body, stream=SHAPES)

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
                    "known_at": _known_at(model) or payload.retrieved_at,
                    "source_name": model.get("source_name", payload.url.removeprefix("file:")),
                }
            )
        return Parsed({TABLE: pl.DataFrame(rows, infer_schema_length=None)} if rows else {}, rejects)


def _known_at(model: Mapping[str, Any]) -> dt.datetime | None:
    day = model.get("known_at")
    if isinstance(day, dt.datetime):
        return day if day.tzinfo else day.replace(tzinfo=dt.UTC)
    return dt.datetime.combine(day, dt.time(), dt.UTC) if isinstance(day, dt.date) else None


def _fault(model: Mapping[str, Any]) -> str | None:
    if not isinstance(model.get("id"), str) or not model["id"].strip():
        return "the model has no id"
    unknown = sorted(set(model) - {*NUMBERS, *FLAGS, *TEXTS, *DATES})
    if unknown:
        return f"unknown key {unknown[0]!r}"
    wrong = [k for k in NUMBERS if k in model and (isinstance(model[k], bool) or not isinstance(model[k], int | float))]
    wrong += [k for k in FLAGS if k in model and not isinstance(model[k], bool)]
    if "known_at" in model and _known_at(model) is None:
        return "known_at is not a date"
    return f"{wrong[0]} is not {'true or false' if wrong[0] in FLAGS else 'a number'}" if wrong else None


SOURCE = ModelConfigFile()
