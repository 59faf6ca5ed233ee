"""Serving counters from a range answer to minutes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from assets.inference import derive, inference_minutes
from sources.base import ParseError, Payload
from sources.inference_metrics import SOURCE
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

FIXTURE = Path(__file__).parents[1] / "fixtures" / "inference-metrics" / "range.json"
NOW = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)


def test_minutes_of_a_window():
    (payload,) = SOURCE.read([FIXTURE], {"observed_at": NOW.isoformat(), "cluster": "c"})
    out = SOURCE.parse(payload)
    assert [r.reason for r in out.rejects] == ["the series names no model"]
    frame = derive(out.frames, lambda _: pytest.fail("no landed table is needed"))["telemetry.inference_minutes"]
    # samples from 23:59:30 to 00:02:00 every 30 s: the minutes 00:00 and 00:01 are seen whole
    first, second = frame.sort("minute_at").to_dicts()
    assert (first["minute_at"], second["minute_at"]) == (
        dt.datetime(2026, 3, 1, 0, 0, tzinfo=dt.UTC),
        dt.datetime(2026, 3, 1, 0, 1, tzinfo=dt.UTC),
    )
    assert (first["input_tokens"], second["input_tokens"]) == (300, 300)  # the second after a restart: 100 and 200 more
    assert (first["output_tokens"], first["requests"], first["cached_tokens"]) == (20, 2, None)
    assert (first["engine"], first["job_id"], first["cluster"]) == ("vllm", "serve/vllm-0", "c")
    schema = lake_schema(tables()["telemetry.inference_minutes"])
    assert set(frame.columns) <= set(schema)
    frame.cast({c: schema[c] for c in frame.columns}, strict=True)


@pytest.mark.parametrize(
    "body",
    [b"<html>", b'{"status": "error"}', b'{"status": "success", "data": {"resultType": "vector", "result": []}}'],
)
def test_other_documents_are_refused(body):
    with pytest.raises(ParseError, match="query_range"):
        SOURCE.parse(Payload(SOURCE.name, "file:x.json", NOW, "application/json", body))


@pytest.mark.parametrize("mark", ["_", ":"])
def test_tensorrt_llm_counts_tokens_where_it_exports_them(mark):
    grown = {"prompt_tokens_total": 600.0, "generation_tokens_total": 60.0, "request_success_total": 6.0}
    samples = pl.DataFrame(
        [
            {"cluster": "c", "server": "s", "model": "m", "metric": f"trtllm{mark}{name}", "labels": "{}",
             "at": NOW + dt.timedelta(minutes=n), "value": value * n}
            for name, value in grown.items() for n in (0, 1)
        ]
    )  # fmt: skip
    (row,) = inference_minutes(samples).filter(pl.col("minute_at") == NOW).to_dicts()
    assert (row["engine"], row["input_tokens"], row["output_tokens"], row["requests"]) == ("tensorrt-llm", 600, 60, 6)
    assert row["cached_tokens"] is None
