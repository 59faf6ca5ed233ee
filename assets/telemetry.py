"""Telemetry as Dagster assets: a demonstration or a short capture, ingest, roll-ups.

Belongs here: the steps and what Dagster shows of them. Does not belong here: ingest itself (`ingest.py`), roll-ups
(`rollup.py`), the agent.
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from assets.ingest import ingest
from assets.ingest_report import IngestReport
from assets.landing import Landed, merge_outcomes
from assets.observed import CHECKS, OWNERS, check_result, chosen, column_schema
from assets.rollup import roll_up
from assets.telemetry_clean import RECORD_TABLES
from assets.telemetry_groups import SAMPLES
from warehouse.home import Home
from warehouse.quality.batches import Outcome
from warehouse.schema import tables
from warehouse.schema.declare import qualified_name, table_of

GROUP = "telemetry_ingest"
SPOOL = dg.AssetKey(["spool", "segments"])
INGESTED = (SAMPLES, *(qualified_name(m) for m in RECORD_TABLES.values()))
ROLLED = ("telemetry.gpu_minutes", "telemetry.gpu_hours")


def key_of(table: str) -> dg.AssetKey:
    """Asset key of a telemetry table as ingest fills it."""
    return dg.AssetKey(["spool", *table.split(".")])


def _spec(table: str, deps: list[dg.AssetKey], *, skippable: bool) -> dg.AssetSpec:
    return dg.AssetSpec(
        key_of(table),
        deps=deps,
        skippable=skippable,
        description=table_of(tables()[table]).comment,
        group_name=GROUP,
        kinds={"polars", "deltalake"},
        owners=OWNERS,
        metadata={"dagster/column_schema": column_schema(table)},
    )


def telemetry_assets() -> list[dg.AssetsDefinition]:
    """Two steps: ingest of sealed segments, then the roll-ups of the hours they touched."""
    return [_ingest_asset(), _rollup_asset()]


def _ingest_asset() -> dg.AssetsDefinition:
    @dg.multi_asset(
        name="ingest",
        specs=[
            dg.AssetSpec(
                SPOOL,
                description="Sealed segments of spool and inbox, landed exactly once and retired.",
                group_name=GROUP,
                owners=OWNERS,
            ),
            *(_spec(t, [], skippable=True) for t in INGESTED),
        ],
        can_subset=True,
        check_specs=[
            dg.AssetCheckSpec(name, asset=key_of(t), description=f"{name} rules of {t}", blocking=False)
            for t in INGESTED
            for name in CHECKS
        ],
        pool="spool",
        required_resource_keys={"home", "telemetry"},
    )
    def step(context: dg.AssetExecutionContext) -> Iterator[Any]:
        home: Home = context.resources.home.home()
        context.resources.telemetry.provide(home)
        report = ingest(home, load_id=context.run_id)
        context.resources.telemetry.complete(home)
        for line in report.complaints():
            context.log.warning(line)
        context.resources.home.tell(report)
        yield from chosen(context, results(report))

    return step


def results(report: IngestReport) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
    """What Dagster shows of an ingest: the segments, and each table that anything was read for with its checks."""
    outcomes = merge_outcomes(report.landed)
    yield dg.MaterializeResult(asset_key=SPOOL, metadata={"segments": report.segments, "damaged": len(report.damage)})
    for table in INGESTED:
        mine = [one for one in report.landed if one.table == table]
        counts = {n: sum(getattr(one.counts, n) for one in mine) for n in ("read", "landed", "rejected", "duplicate")}
        found = [*outcomes.get(table, []), *_held(mine)]
        if table == SAMPLES and report.damage:
            found.append(Outcome("segments are whole", "warning", passed=False, sample=report.damage[0]))
        if counts["read"] or any(not one.passed for one in found):
            yield dg.MaterializeResult(asset_key=key_of(table), metadata=counts)
            for name in CHECKS:
                yield check_result(key_of(table), name, found, report)


def _held(landed: Sequence[Landed]) -> list[Outcome]:
    """A batch can be held back before any rule saw its rows: that is no passed check either."""
    judged = {rule.sample for one in landed for rules in one.outcomes.values() for rule in rules if not rule.passed}
    return [
        Outcome("the batch may land", "critical", passed=False, sample=one.reason)
        for one in landed
        if one.status == "blocked" and not any(sample and sample in one.reason for sample in judged)
    ]


def _rollup_asset() -> dg.AssetsDefinition:
    @dg.multi_asset(
        name="roll_up",
        specs=[_spec(t, [SPOOL], skippable=False) for t in ROLLED],
        pool="spool",
        required_resource_keys={"home"},
    )
    def step(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        home: Home = context.resources.home.home()
        rows = roll_up(home, load_id=context.run_id)
        for table in ROLLED:
            yield dg.MaterializeResult(asset_key=key_of(table), metadata={"rows computed": rows[table]})

    return step
