"""Source `cost-model`: a TOML file in which an owner states what a cluster costs.

Belongs here: reading that file. Does not belong here: the arithmetic (`assets/cost.py`), market prices.

    cluster = "alpha"
    time_zone = "Europe/Berlin"
    [[pool]]
    pool = "servers"
    method = "capital"          # capital | monthly | energy
    category = "compute"
    valid_from = 2026-01-01
    purchase_usd = 2_400_000
    residual_usd = 240_000
    life_months = 48
    discount_rate_ratio = 0.08
    gpus = 64
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.texts import decoded

TABLE = "ref.cost_pools"
_NEEDS = {
    "capital": ("purchase_usd", "life_months"),
    "monthly": ("monthly_usd",),
    "energy": ("energy_usd_per_kwh",),
}
_NUMBERS = (
    "purchase_usd",
    "residual_usd",
    "life_months",
    "discount_rate_ratio",
    "monthly_usd",
    "energy_usd_per_kwh",
    "pue_ratio",
    "non_gpu_power_ratio",
    "gpus",
)
_TEXTS = ("pool", "method", "category", "accelerator_id", "notes")
_DAYS = ("valid_from", "valid_to")


class CostModelFile:
    """Cost pools of a cluster, from a file its owner keeps. Prices are in US dollars."""

    name = "cost-model"
    publisher = "the cluster's owner"
    homepage = ""
    licence = "own data"
    terms = "local files; nothing is fetched"
    cadence: Cadence = "static"
    tables = (TABLE,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = "local files only: almanac load cost-model FILE.toml"
    options: tuple[str, ...] = ()
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: the file is local."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each TOML file."""
        for file, name in local_files(paths, (".toml",)):
            yield payload_of(self.name, file, name, options, media_type="application/toml", meta={}, stream=name)

    def parse(self, payload: Payload) -> Parsed:
        """Rows of ref.cost_pools. Raises `ParseError` when the file is no such TOML or names no cluster or zone."""
        try:
            document = tomllib.loads(decoded(payload.read(), "strict"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ParseError(f"not a TOML file: {error}") from None
        cluster, zone, pools = document.get("cluster"), document.get("time_zone", "UTC"), document.get("pool")
        if not isinstance(cluster, str) or not isinstance(pools, list):
            raise ParseError(f'{payload.url}: a cost model needs cluster = "…" and [[pool]] tables')
        try:
            ZoneInfo(str(zone))
        except (KeyError, ValueError, OSError):
            raise ParseError(f"time_zone {zone!r} is unknown; write one like Europe/Berlin") from None
        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for number, pool in enumerate(pools):
            fault = _fault(pool)
            if fault:
                rejects.append(Reject(TABLE, "pool_is_complete", fault, repr(pool), f"pool {number}"))
                continue
            rows.append(
                {
                    **{k: v for k, v in pool.items() if k not in _DAYS},
                    "cluster": cluster,
                    "time_zone": str(zone),
                    "valid_from_date": pool["valid_from"],
                    "valid_to_date": pool.get("valid_to"),
                    "known_at": payload.retrieved_at,
                    "source_name": payload.url.removeprefix("file:"),
                }
            )
        return Parsed({TABLE: pl.DataFrame(rows, infer_schema_length=None)} if rows else {}, rejects)


def _fault(pool: Mapping[str, Any]) -> str | None:
    unknown = sorted(set(pool) - {*_NUMBERS, *_TEXTS, *_DAYS})
    if unknown:
        return f"unknown key {unknown[0]!r}"
    if not pool.get("pool") or pool.get("method") not in _NEEDS:
        return "a pool needs a name and a method: capital, monthly or energy"
    wrong = [n for n in _NUMBERS if n in pool and (isinstance(pool[n], bool) or not isinstance(pool[n], int | float))]
    if wrong:
        return f"{wrong[0]} is not a number"
    missing = [n for n in _NEEDS[str(pool["method"])] if n not in pool]
    if missing:
        return f"method {pool['method']} needs {missing[0]}"
    days = [n for n in _DAYS if n in pool and type(pool[n]) is not dt.date]
    if days or "valid_from" not in pool:
        return "valid_from and valid_to are days, like 2026-01-01"
    return None


SOURCE = CostModelFile()
