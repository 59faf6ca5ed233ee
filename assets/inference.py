"""Tokens served by minute, from the counters of vLLM, SGLang and TensorRT-LLM.

Belongs here: which counter means what, and growth that survives restarts. Does not belong here: reading
Prometheus text, cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

# Counter name to (engine, column). Cached tokens are part of the prompt tokens.
COUNTERS: Final[dict[str, tuple[str, str]]] = {
    "vllm:prompt_tokens_total": ("vllm", "input_tokens"),
    "vllm:generation_tokens_total": ("vllm", "output_tokens"),
    "vllm:prefix_cache_hits_total": ("vllm", "cached_tokens"),
    "vllm:request_success_total": ("vllm", "requests"),
    "sglang:prompt_tokens_total": ("sglang", "input_tokens"),
    "sglang:generation_tokens_total": ("sglang", "output_tokens"),
    "sglang:cached_tokens_total": ("sglang", "cached_tokens"),
    "sglang:num_requests_total": ("sglang", "requests"),
    # TensorRT-LLM counts tokens since its pull request 12545 (2026); before, they stay unknown. Two spellings of the
    # prefix are in use.
    **{
        f"trtllm{mark}{counter}": ("tensorrt-llm", column)
        for mark in ("_", ":")
        for counter, column in (
            ("prompt_tokens_total", "input_tokens"),
            ("generation_tokens_total", "output_tokens"),
            ("request_success_total", "requests"),
        )
    },
}
RAW, MINUTES = "raw.inference_counters", "telemetry.inference_minutes"
VALUES: Final = ("input_tokens", "output_tokens", "cached_tokens", "requests")
LONGEST_GAP_S: Final = 300


def derive(frames: Mapping[str, pl.DataFrame], _reference: Callable[[str], pl.LazyFrame]) -> dict[str, pl.DataFrame]:
    """Rows of telemetry.inference_minutes from the counters of one answer; other frames pass through."""
    out = {name: frame for name, frame in frames.items() if name != RAW}
    if RAW not in frames:
        return out
    raw = frames[RAW].with_columns(
        pl.from_epoch((pl.col("at_s") * 1e6).round().cast(pl.Int64), "us").dt.replace_time_zone("UTC").alias("at")
    )
    who = raw.group_by("cluster", "server", "model").agg(
        pl.col("job_id").drop_nulls().first(), pl.col("is_synthetic").first()
    )
    minutes = inference_minutes(raw).join(who, on=["cluster", "server", "model"], how="left")
    # The first and the last minute of a window are seen in part: they belong to the windows that hold them whole.
    edge = raw.group_by("cluster", "server", "model").agg(
        pl.col("at").min().alias("first"), pl.col("at").max().alias("last")
    )
    inside = (pl.col("minute_at") >= pl.col("first")) & (pl.col("minute_at") + pl.duration(minutes=1) <= pl.col("last"))
    whole = minutes.join(edge, on=["cluster", "server", "model"]).filter(inside).drop("first", "last")
    if whole.height:
        out[MINUTES] = whole.with_columns((pl.col("minute_at") + pl.duration(minutes=1)).alias("known_at"))
    return out


def inference_minutes(samples: pl.DataFrame) -> pl.DataFrame:
    """Rows of telemetry.inference_minutes (without source and known_at).

    samples: cluster, server, model, metric, labels (what tells series of one metric apart), at, value. A counter
    that fell was restarted and grew by what it shows. Growth counts in the minute in which it was read, shared over
    the minutes it covers; over gaps above 300 s it is not known and left out.
    """
    known = samples.filter(pl.col("metric").is_in(list(COUNTERS))).with_columns(
        pl.col("metric").replace_strict({k: v[0] for k, v in COUNTERS.items()}).alias("engine"),
        pl.col("metric").replace_strict({k: v[1] for k, v in COUNTERS.items()}).alias("column"),
    )
    series = ["cluster", "server", "model", "metric", "labels"]
    ordered = known.sort(*series, "at")
    before = pl.col("value").shift(1).over(series)
    grown = pl.when(pl.col("value") >= before).then(pl.col("value") - before).otherwise(pl.col("value"))
    ordered = ordered.with_columns(grown.alias("grown"), pl.col("at").shift(1).over(series).alias("since")).drop_nulls(
        "since"
    )
    seconds = (pl.col("at") - pl.col("since")).dt.total_microseconds() / 1e6
    ordered = ordered.with_columns(seconds.alias("seconds")).filter(
        (pl.col("seconds") > 0) & (pl.col("seconds") <= LONGEST_GAP_S)
    )
    minute = pl.datetime_ranges(pl.col("since").dt.truncate("1m"), pl.col("at").dt.truncate("1m"), "1m")
    spread = ordered.with_columns(minute.alias("minute_at")).explode("minute_at")
    upper = pl.min_horizontal("at", pl.col("minute_at") + pl.duration(minutes=1))
    inside = (upper - pl.max_horizontal("since", "minute_at")).dt.total_microseconds() / 1e6
    spread = spread.with_columns((pl.col("grown") * inside / pl.col("seconds")).alias("part"))
    key = ["cluster", "model", "server", "minute_at", "engine"]
    return (
        spread.group_by(*key, "column")
        .agg(pl.col("part").sum())
        .pivot("column", index=key, values="part", on_columns=list(VALUES))
        .sort(key)
    )
