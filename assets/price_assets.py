"""Daily prices and the price index as one Dagster step after every price source.

Belongs here: what Dagster shows of it. Does not belong here: the derivation and its landing (`price_tables.py`).
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.landing import merge_outcomes
from assets.observed import CHECKS, OWNERS, check_result, chosen, column_schema, source_key
from assets.price_daily import TABLE as DAILY
from assets.price_index import TABLE as INDEX
from assets.price_method import INDEX_SOURCE
from assets.price_tables import land_price_tables, refresh_prices
from assets.street import StreetReport
from sources.registry import all_sources
from warehouse.home import Home
from warehouse.schema import tables
from warehouse.schema.declare import table_of

__all__ = ["PRICE_TABLES", "price_asset", "refresh_prices", "table_key"]

OFFERS = "market.gpu_offers"
PRICE_TABLES = (DAILY, INDEX)


def table_key(table: str) -> dg.AssetKey:
    """Asset key of a derived price table."""
    return dg.AssetKey(["price_index", *table.split(".")])


def price_asset() -> dg.AssetsDefinition:
    """One step: provider prices of the days that are over, then the index from them."""
    offers = [source_key(s) for s in all_sources().values() if OFFERS in s.tables]
    specs = [
        dg.AssetSpec(
            table_key(name),
            deps=offers if name == DAILY else [*offers, table_key(DAILY)],
            description=table_of(tables()[name]).comment,
            group_name="market",
            kinds={"polars", "deltalake"},
            owners=OWNERS,
            metadata={"dagster/column_schema": column_schema(name)},
        )
        for name in PRICE_TABLES
    ]
    checks = [
        dg.AssetCheckSpec(word, asset=table_key(name), description=f"{word} rules of {name}", blocking=False)
        for name in PRICE_TABLES
        for word in CHECKS
    ]

    @dg.multi_asset(
        name="price_index", specs=specs, check_specs=checks, can_subset=True, pool="gpu_prices",
        required_resource_keys={"home"},
    )  # fmt: skip
    def step(context: dg.AssetExecutionContext) -> Iterator[Any]:
        home: Home = context.resources.home.home()
        report = StreetReport(INDEX_SOURCE, landed=land_price_tables(home, load_id=context.run_id))
        for line in report.complaints():
            context.log.warning(line)
        context.resources.home.tell(report)
        yield from chosen(context, _results(report))

    return step


def _results(report: StreetReport) -> Iterator[Any]:
    outcomes = merge_outcomes(report.landed)
    for table in PRICE_TABLES:
        mine = [one.counts for one in report.landed if one.table == table]
        counts = {n: sum(getattr(c, n) for c in mine) for n in ("read", "landed", "rejected", "duplicate")}
        yield dg.MaterializeResult(asset_key=table_key(table), metadata=counts)
        for word in CHECKS:
            yield check_result(table_key(table), word, outcomes.get(table, []), report)
