"""Back-fill from a Prometheus server: a range of time asked in bounded chunks.

Belongs here: the queries and their cutting. Does not belong here: reading answers (`prometheus.py`), landing.
"""

from __future__ import annotations

import datetime as dt
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sources.base import FetchError, Payload, Web

# Prometheus refuses more than 11,000 points of one series in one answer.
MOST_POINTS = 10_000
MAX_ANSWER = 64 << 20  # a larger answer is asked for in two halves: a fleet's hour must not fill the memory
TOO_MUCH = (400, 413, 422)  # "would load too many samples", "exceeded maximum resolution"
# One query for all: a sample is one row of many metrics, so they must come in one answer.
METRICS = "DCGM_FI_(DEV|PROF)_.+|nvidia_(smi|gpu)_.+|ceems_(ipmi_dcmi|cray_pm)_.+"
PATH = "/api/v1/query_range"


class Span(NamedTuple):
    """First and last point of a query."""

    first: dt.datetime
    last: dt.datetime


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom to ask for what. `token`: sent as bearer token. `meta`: what series do not say themselves (cluster, node).

    `is_known`: whether an answer to these parameters is in the archive; such chunks are not asked for again.
    """

    base: str
    step_s: int
    metrics: str = METRICS
    token: str = ""
    meta: Mapping[str, str] | None = None
    is_known: Callable[[Mapping[str, str]], bool] = lambda _parameters: False


def back_fill(
    web: Web, asking: Asking, start: dt.datetime, end: dt.datetime, *, chunk_s: int = 3600
) -> Iterator[Payload]:
    """Payloads of `query_range`, each with all metrics of its span, none spanning more than `chunk_s` or `MOST_POINTS`.

    `end` is exclusive. Each chunk begins with the last point of the one before, so that a change of the XID gauge
    between two chunks is seen; the rows of that point come twice and land once. What the server or our own limit
    finds too large is asked for in halves. Raises `FetchError`.
    """
    for span in chunks(start, end, min(chunk_s, MOST_POINTS * asking.step_s), asking.step_s):
        yield from _answers(web, asking, span)


def chunks(start: dt.datetime, end: dt.datetime, seconds: int, step_s: int) -> Iterator[Span]:
    """Spans that cover [start, end) with steps of `step_s`, none longer than `seconds`; each begins where one ended.

    Raises `FetchError` for a step that is none or does not fit.
    """
    if step_s <= 0 or seconds < step_s:
        raise FetchError("the step must be positive and fit into the chunk")
    step = dt.timedelta(seconds=step_s)
    span = dt.timedelta(seconds=seconds // step_s * step_s)
    points = -((start - end) // step)
    if points <= 0:
        return
    last_point = start + (points - 1) * step
    first = start
    while True:
        last = min(first + span, last_point)
        yield Span(first, last)
        if last == last_point:
            return
        first = last


def parameters(asking: Asking, span: Span) -> dict[str, str]:
    """Query parameters of a span."""
    return {
        "query": f'{{__name__=~"{asking.metrics}"}}',
        "start": span.first.isoformat(),
        "end": span.last.isoformat(),
        "step": str(asking.step_s),
    }


def asked(url: str) -> dict[str, str]:
    """The parameters in the URL of an earlier answer."""
    return {name: values[-1] for name, values in urllib.parse.parse_qs(urllib.parse.urlsplit(url).query).items()}


def _answers(web: Web, asking: Asking, span: Span) -> Iterator[Payload]:
    query = parameters(asking, span)
    if asking.is_known(query):
        return
    headers = {"Authorization": f"Bearer {asking.token}"} if asking.token else None
    url = asking.base.rstrip("/") + PATH
    try:
        answer = web.get(url, params=query, headers=headers, conditional=False, max_bytes=MAX_ANSWER)
    except FetchError as error:
        step = dt.timedelta(seconds=asking.step_s)
        steps = (span.last - span.first) // step
        if steps < 2 or not _is_too_much(error):  # noqa: PLR2004 - two points are the least a chunk has
            raise
        middle = span.first + steps // 2 * step
        yield from _answers(web, asking, Span(span.first, middle))
        yield from _answers(web, asking, Span(middle, span.last))
        return
    if answer is None:
        raise FetchError("Prometheus answered 304 to a query")
    stream = urllib.parse.urlsplit(asking.base).netloc.rpartition("@")[2]
    meta = dict(asking.meta or {})
    yield Payload("prometheus", answer.url, answer.retrieved_at, answer.media_type, answer.body, stream, meta=meta)


def _is_too_much(error: FetchError) -> bool:
    return getattr(error, "status", 0) in TOO_MUCH or "the limit of" in str(error)
