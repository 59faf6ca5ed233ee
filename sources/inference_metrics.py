"""Source `inference-metrics`: token counters of serving engines, as answers of Prometheus' range query.

Belongs here: reading that JSON. Does not belong here: which counter means what and how it grows
(`assets/inference.py`), GPU metrics (`prometheus`).

Ask Prometheus for a bounded window:
`/api/v1/query_range?query={__name__=~"(vllm|sglang|trtllm).*_total"}&start=…&end=…&step=30`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of

RAW = "raw.inference_counters"
TABLE = "telemetry.inference_minutes"
OPTIONS = ("cluster", "is_synthetic")
_MODEL = ("model_name", "model", "served_model_name")
_SERVER = ("instance", "pod", "exported_instance")
_SCHEMA = {
    "cluster": pl.String,
    "server": pl.String,
    "model": pl.String,
    "metric": pl.String,
    "labels": pl.String,
    "at_s": pl.Float64,
    "value": pl.Float64,
    "job_id": pl.String,
    "is_synthetic": pl.Boolean,
}


class InferenceMetrics:
    """Counters of vLLM, SGLang and TensorRT-LLM, from local files. Options of `read`: cluster."""

    name = "inference-metrics"
    publisher = "the cluster's own serving engines"
    homepage = "https://prometheus.io/docs/prometheus/latest/querying/api/"
    licence = "own data"
    terms = "local files; nothing is fetched"
    cadence: Cadence = "hourly"
    tables = (TABLE,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = "local files only: almanac load inference-metrics FILE.json"
    options = OPTIONS
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: the files are local."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each JSON file."""
        meta = {k: options[k] for k in OPTIONS if options.get(k)}
        for file, name in local_files(paths, (".json",)):
            stream = meta.get("cluster", "local")
            yield payload_of(self.name, file, name, options, media_type="application/json", meta=meta, stream=stream)

    def parse(self, payload: Payload) -> Parsed:
        """Samples of counters. Raises `ParseError` when the document is no successful range answer."""
        try:
            document = json.loads(payload.read())
            if document["status"] != "success" or document["data"]["resultType"] != "matrix":
                raise ParseError("not a successful range answer; ask /api/v1/query_range")
            series: list[Any] = document["data"]["result"]
        except (ValueError, KeyError, TypeError):
            raise ParseError("not an answer of Prometheus; ask /api/v1/query_range and keep its JSON") from None
        frames, rejects = [], []
        for number, one in enumerate(series):
            labels = dict(one.get("metric") or {})
            identity = _identity(labels, payload)
            if isinstance(identity, str):
                rejects.append(
                    Reject(TABLE, "series_is_named", identity, json.dumps(labels)[:2000], f"series {number}")
                )
                continue
            frames.append(_samples(one.get("values") or [], identity))
        samples = pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA)
        return Parsed({RAW: samples} if samples.height else {}, rejects)


def _identity(labels: Mapping[str, str], payload: Payload) -> dict[str, Any] | str:
    model = next((labels[k] for k in _MODEL if labels.get(k)), None)
    server = next((labels[k] for k in _SERVER if labels.get(k)), None)
    if not labels.get("__name__"):
        return "the series has no name"
    if model is None or server is None:
        return f"the series names no {'model' if model is None else 'server'}"
    apart = {k: v for k, v in labels.items() if k not in {"__name__", *_MODEL, *_SERVER}}
    pod = f"{labels['namespace']}/{labels['pod']}" if labels.get("namespace") and labels.get("pod") else None
    return {
        "cluster": payload.meta.get("cluster", labels.get("cluster", "local")),
        "server": server,
        "model": model,
        "metric": labels["__name__"],
        "labels": json.dumps(apart, sort_keys=True),
        "job_id": pod,
        "is_synthetic": payload.meta.get("is_synthetic") == "true",
    }


def _samples(values: list[Any], identity: Mapping[str, Any]) -> pl.DataFrame:
    times = pl.Series("at_s", [v[0] for v in values], pl.Float64)
    read = pl.Series("value", [str(v[1]) for v in values], pl.String).cast(pl.Float64, strict=False)
    frame = pl.DataFrame([times, read]).filter(pl.col("value").is_finite())
    return frame.with_columns(pl.lit(v, _SCHEMA[k]).alias(k) for k, v in identity.items()).select(list(_SCHEMA))


SOURCE = InferenceMetrics()
