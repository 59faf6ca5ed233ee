"""How the price tests read a file: through the source's own `read` and `parse`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sources.base import Parsed
from sources.registry import source_named

FIXTURES = Path(__file__).parents[1] / "fixtures"
OFFERS = "market.gpu_offers"


def load(source: str, path: Path, observed_at: str | None = None) -> Parsed:
    """Everything one path gives, payloads put together."""
    options = {"observed_at": observed_at} if observed_at else {}
    found = [source_named(source).parse(payload) for payload in source_named(source).read([path], options)]
    names = {name for parsed in found for name in parsed.frames}
    frames = {n: pl.concat([p.frames[n] for p in found if n in p.frames]) for n in sorted(names)}
    return Parsed(frames, [r for parsed in found for r in parsed.rejects])


def offers(source: str, path: Path, observed_at: str | None = None) -> pl.DataFrame:
    return load(source, path, observed_at).frames[OFFERS]


def fixture(source: str, name: str) -> Path:
    return FIXTURES / source.replace("/", "-") / name


def price(frame: pl.DataFrame, sku: str, **where: object) -> float | None:
    """USD per GPU-hour of the one offer of a SKU that fits; fails when there is none or more than one."""
    tests = [pl.col("sku") == sku, *(pl.col(column) == value for column, value in where.items())]
    rows = frame.filter(tests)
    assert rows.height == 1, (sku, where, rows)
    value: float | None = rows["price_usd_per_gpu_hour"][0]
    return value
