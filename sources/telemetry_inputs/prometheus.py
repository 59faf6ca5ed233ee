"""Prometheus: answers of its HTTP API (instant and range queries), from files or from the server itself.

Belongs here: the JSON and the source. Does not belong here: asking for a range of time (`prometheus_range.py`), what
a metric means (`metrics.py`).
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload, Reject, Web
from sources.telemetry_inputs.bundles import TAR, pack, unpack
from sources.telemetry_inputs.context import PLACE, UTC_US, LocalInput, Where, text_of
from sources.telemetry_inputs.dcgm_exporter import EXPORTER_TABLES
from sources.telemetry_inputs.exposition import FIELDS, aliases, read_exposition
from sources.telemetry_inputs.metrics import to_frames
from sources.telemetry_inputs.prometheus_range import Asking, back_fill

URL_VARIABLE = "ALMANAC_PROMETHEUS_URL"
TOKEN_VARIABLE = "ALMANAC_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
MAX_ANSWER = 512 << 20


class Prometheus(LocalInput):
    """A Prometheus server that already scrapes GPU exporters."""

    name = "prometheus"
    publisher = "the operator's Prometheus"
    homepage = "https://prometheus.io/docs/prometheus/latest/querying/api/"
    tables = EXPORTER_TABLES
    media_type = "application/json"
    options = (*PLACE, "metric")

    @property
    def off_reason(self) -> str:  # type: ignore[override]
        """Off until the server is named."""
        return "" if os.environ.get(URL_VARIABLE) else f"set {URL_VARIABLE} to the server, or load saved answers"

    def fetch(self, web: Web) -> Iterator[Payload]:
        """The known metrics of the last hour at one value a minute. Raises `FetchError`."""
        base = os.environ.get(URL_VARIABLE)
        if not base:
            return
        asking = Asking(base, step_s=60, token=os.environ.get(TOKEN_VARIABLE, ""))
        now = dt.datetime.now(dt.UTC).replace(second=0, microsecond=0)
        # One point more than an hour, so that a change of the XID gauge between two runs is seen.
        yield from back_fill(web, asking, now - dt.timedelta(minutes=61), now)

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for all answers of the call: a sample is one row of many metrics, often saved one by one."""
        answers = list(super().read(paths, options))
        if len(answers) < 2:  # noqa: PLR2004
            yield from answers
            return
        first = answers[0]
        body = pack((answer.url.removeprefix("file:"), answer.read()) for answer in answers)
        meta = {key: value for key, value in first.meta.items() if key != "file"}
        yield replace(first, url=f"file:{len(answers)} answers", media_type=TAR, body=body, meta=meta)

    def parse(self, payload: Payload) -> Parsed:
        """Rows from vectors and matrices. Raises `ParseError` if there is none in it."""
        where = Where.of(payload)
        metric = where.options.get("metric")
        if payload.media_type != TAR:
            text = text_of(payload, "the answer")
            if not text.lstrip().startswith(("{", "[")):  # a saved /metrics page
                series, wrong = read_exposition(text)
                return to_frames(series, where, "the exposition", wrong)
            series = read_answer(text, metric)
            if series.is_empty() and where.observed_at is None:
                raise ParseError("the answer holds no series: the server has none of these metrics in that time")
            return to_frames(series, where, "the answer", [])
        found: list[pl.DataFrame] = []
        rejects: list[Reject] = []
        for name, body in unpack(payload.read(), MAX_ANSWER).items():
            try:
                found.append(read_answer(body.decode("utf-8", "replace"), metric))
            except ParseError as error:
                head = body[:500].decode("utf-8", "replace")
                rejects.append(Reject("telemetry.gpu_samples", "the answer can be read", str(error), head, name))
        if not found:
            raise ParseError(f"none of the {len(rejects)} answers can be read (the first: {rejects[0].reason})")
        series = pl.concat(found).with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).alias("line"))
        return to_frames(series, where, "the answers", rejects)


def read_answer(text: str, metric: str | None = None) -> pl.DataFrame:
    """Series of an API answer as `exposition.read_exposition` gives them; `metric` names series without a name.

    Raises `ParseError` for anything else the API answers.
    """
    data = _data(text)
    kind = data.get("resultType")
    if "activeTargets" in data:
        raise ParseError("the answer lists scrape targets and holds no sample: save /api/v1/query or query_range")
    if kind not in ("vector", "matrix"):
        raise ParseError(f"the answer is a {kind or 'document without resultType'}: a vector or matrix was due")
    results = data.get("result") or []
    labels = [{k.lower(): v for k, v in r.get("metric", {}).items()} for r in results]
    values = [[r["value"]] if "value" in r else r.get("values", []) for r in results]
    heads = pl.DataFrame(
        {
            "line": pl.Series(range(1, len(results) + 1), dtype=pl.UInt32),
            "metric": pl.Series([entry.get("__name__", metric) for entry in labels], dtype=pl.String),
            **{f: pl.Series([_first(entry, aliases(f)) for entry in labels], dtype=pl.String) for f in FIELDS},
        }
    )
    if heads["metric"].null_count():
        raise ParseError("the series carry no metric name (the query computed them): name it with the option metric=")
    points = pl.DataFrame(
        {
            "line": pl.Series([n for n, points in enumerate(values, 1) for _ in points], dtype=pl.UInt32),
            "t": pl.Series([float(t) for points in values for t, _ in points], dtype=pl.Float64),
            "value_text": pl.Series([str(v) for points in values for _, v in points], dtype=pl.String),
        }
    )
    frame = points.join(heads, on="line", how="inner", maintain_order="left")
    at = pl.from_epoch((pl.col("t") * 1e6).round().cast(pl.Int64), time_unit="us").dt.replace_time_zone("UTC")
    return frame.with_columns(at.cast(UTC_US).alias("at"), pl.lit(0, dtype=pl.Int64).alias("scrape")).select(
        "line", "metric", "value_text", "at", "scrape", *FIELDS
    )


def _data(text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"the answer is no JSON (line {error.lineno}): save the body of /api/v1/query") from None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        said = answer.get("error", "no status") if isinstance(answer, dict) else "no object"
        raise ParseError(f"the query failed: {said}")
    data = answer.get("data")
    if not isinstance(data, dict):
        raise ParseError("the answer holds names only: save /api/v1/query or query_range")
    if "result" in data and not data["result"] and answer.get("warnings"):  # a store behind it was not there
        raise ParseError(
            f"the answer is empty, and the server warns: {answer['warnings'][0]}; ask again when it is well"
        )
    return data


def _first(labels: dict[str, str], spellings: Sequence[str]) -> str | None:
    return next((labels[s] for s in spellings if labels.get(s)), None)


SOURCE = Prometheus()
