"""A source for tests of the street: JSON lines of capex figures, one document a string."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from sources.base import Authority, Cadence, FetchError, Landing, Parsed, ParseError, Payload, Reject, Web

TABLE = "market.financials"
AT = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
# Where a load and a publish may be killed, in the order they are reached.
POINTS = (
    "archive:blob-written",
    "land:candidate-written",
    "land:gate-passed",
    "land:quarantine-written",
    "land:committed",
    "publish:ledger-written",
    "publish:built",
    "publish:swapped",
)


class Figures:
    """Each row: entity, fiscal_period, period_end, value, known_at."""

    name = "test-figures"
    publisher = "a test"
    homepage = "https://example.org"
    licence = "none"
    terms = "none"
    cadence: Cadence = "daily"
    tables = (TABLE,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def __init__(self, *bodies: bytes, problem: str = "") -> None:
        self.bodies = bodies
        self.problem = problem

    def fetch(self, web: Web) -> Iterator[Payload]:
        if self.problem:
            raise FetchError(self.problem)
        yield from self.payloads()

    def payloads(self, *, stream: str = "s") -> Iterator[Payload]:
        for i, body in enumerate(self.bodies):
            yield Payload(
                self.name, f"file:{i}.json", AT + dt.timedelta(seconds=i), "application/json", body, stream=stream
            )

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        yield from self.payloads()

    def parse(self, payload: Payload) -> Parsed:
        try:
            rows = json.loads(payload.read())
        except ValueError as error:
            raise ParseError(f"{payload.url} is not JSON ({error}); fetch it again") from None
        bad = [r for r in rows if "value" not in r]
        good = [r for r in rows if "value" in r]
        rejects = [Reject(TABLE, "value is given", "the record holds no value", json.dumps(r)) for r in bad]
        frame = pl.DataFrame(good, infer_schema_length=None) if good else pl.DataFrame()
        defaults = {
            "metric": "capex_cash_ppe",
            "definition_version": "1",
            "period_basis": "quarter",
            "currency": "USD",
            "unit": "USD",
        }
        if good:
            frame = frame.with_columns(
                *((pl.col(k).fill_null(v) if k in frame.columns else pl.lit(v)).alias(k) for k, v in defaults.items()),
                pl.col("value").alias("value_usd"),
                pl.col("period_end").str.to_date(),
                pl.col("known_at").str.to_datetime(time_zone="UTC"),
            )
        return Parsed({TABLE: frame} if good else {}, rejects)


def row(entity: str, period: str, value: object, known: str = "2026-05-01", **more: object) -> dict[str, object]:
    """One figure; the quarter's end follows from nothing: tests only need it before `known_at`."""
    return {
        "entity": entity,
        "fiscal_period": period,
        "period_end": "2026-03-31",
        "value": value,
        "known_at": f"{known}T00:00:00Z",
        **more,
    }


def body(*rows: dict[str, object]) -> bytes:
    """One document."""
    return json.dumps(rows).encode()


def many(count: int, factor: float = 1.0, known: str = "2026-05-01") -> list[dict[str, object]]:
    """Figures of `count` periods around 1e8 USD."""
    return [row("AAA", f"FY{i:02d}Q1", (1e8 + i * 1e5) * factor, known) for i in range(count)]
