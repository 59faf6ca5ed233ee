"""Dagster assets of each registered source: one for the source, one for each of its tables.

Belongs here: the factory that turns the registry into assets, checks, metadata and freshness. Does not belong here:
the street itself (`street.py`), schedules, resources. A blocked batch never fails the step, because a failed step
would stop publish for every other source: it shows as a failed check instead. A table's asset is materialised
only when something was read for it: an event costs 20 ms, and a run with nothing new must stay short.
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from assets.landing import Landed, merge_outcomes
from assets.street import StreetReport, fetch_into_archive, land_pending
from sources.base import Source
from sources.registry import all_sources
from warehouse.home import Home
from warehouse.publish import STALE_AFTER
from warehouse.quality.batches import Outcome
from warehouse.schema import tables
from warehouse.schema.declare import lake_columns, lake_schema, table_of

OWNERS = ["team:almanac"]
FETCH_RETRIES = 2
CHECKS = ("critical", "warning")
PREVIEW_ROWS = 5


def slug(name: str) -> str:
    """A source's name as Dagster accepts it."""
    return name.replace("-", "_").replace("/", "__")


def asset_key(source: Source, table: str) -> dg.AssetKey:
    """Key of one source's part of one table."""
    return dg.AssetKey([slug(source.name), *table.split(".")])


def source_key(source: Source) -> dg.AssetKey:
    """Key of the source itself: materialised in every run, and what publish waits for."""
    return dg.AssetKey(["source", slug(source.name)])


def column_schema(table: str) -> dg.TableSchema:
    """Dagster's view of the declaration."""
    model = tables()[table]
    key = {c.name for c in table_of(model).primary_key.columns}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                c.name,
                str(lake_schema(model)[c.name]),
                c.comment,
                dg.TableColumnConstraints(nullable=bool(c.nullable) and c.name not in key),
            )
            for c in lake_columns(model)
        ]
    )


def _spec(source: Source, table: str) -> dg.AssetSpec:
    schema, _ = table.split(".")
    return dg.AssetSpec(
        asset_key(source, table),
        deps=_reference(source),
        skippable=True,
        description=f"{table_of(tables()[table]).comment} From {source.publisher} ({source.homepage}).",
        group_name=schema,
        kinds={"polars", "deltalake"},
        owners=OWNERS,
        tags={"source": slug(source.name), "cadence": source.cadence, "authority": source.authority},
        metadata={
            "dagster/column_schema": column_schema(table),
            "licence": source.licence,
            "terms": source.terms,
            "homepage": dg.MetadataValue.url(source.homepage),
        },
    )


def _reference(source: Source) -> list[dg.AssetKey]:
    """Every source but the curated one waits for the reference tables its rows are resolved against."""
    return [] if source.name == "curated" else [source_key(all_sources()["curated"])]


def _source_spec(source: Source) -> dg.AssetSpec:
    return dg.AssetSpec(
        source_key(source),
        deps=_reference(source),
        description=f"{source.publisher}: asked {source.cadence}. {source.terms}",
        group_name="sources",
        kinds={"httpx"},
        owners=OWNERS,
        tags={"cadence": source.cadence, "authority": source.authority},
        metadata={"homepage": dg.MetadataValue.url(source.homepage), "licence": source.licence},
    )


def source_asset(source: Source) -> dg.AssetsDefinition:
    """The asset of one source: one step, one output and two checks for each of its tables."""
    checks = [
        dg.AssetCheckSpec(name, asset=asset_key(source, t), description=f"{name} rules of {t}", blocking=False)
        for t in source.tables
        for name in CHECKS
    ]

    @dg.multi_asset(
        name=slug(source.name),
        specs=[_source_spec(source), *(_spec(source, t) for t in source.tables)],
        check_specs=checks,
        can_subset=True,
        pool=slug(source.name.split("/", maxsplit=1)[0]),
        required_resource_keys={"home", "web"},
    )
    def step(context: dg.AssetExecutionContext) -> Iterator[Any]:
        home: Home = context.resources.home.home()
        report = StreetReport(source.name)
        if not source.off_reason:
            report = fetch_into_archive(home, source, context.resources.web.client(home))
        if report.problem and not report.skipped and context.retry_number < FETCH_RETRIES:
            raise dg.RetryRequested(max_retries=FETCH_RETRIES, seconds_to_wait=2 * (context.retry_number + 1))
        land_pending(home, source, report, load_id=context.run_id)
        for line in report.complaints():
            context.log.warning(line)
        context.resources.home.tell(report)
        yield from chosen(context, results(source, report))
        _note_freshness(context.instance, source, report)

    return step


def chosen(context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
    """Only the events of assets and checks that this run selected."""
    selected = {(key.asset_key, key.name) for key in context.selected_asset_check_keys}
    for event in events:
        if isinstance(event, dg.AssetCheckResult):
            if (event.asset_key, event.check_name) in selected:
                yield event
        elif event.asset_key in context.selected_asset_keys:
            yield event


def results(source: Source, report: StreetReport) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
    """The source, then a materialisation and two check results for each table that anything was read for."""
    outcomes = merge_outcomes(report.landed)
    yield dg.MaterializeResult(asset_key=source_key(source), metadata=_metadata(report.landed, report))
    for table in source.tables:
        mine = [one for one in report.landed if one.table == table]
        refused = bool(report.unreadable or report.still_blocked)
        if not refused and not any(one.counts.read for one in mine):
            continue
        key = asset_key(source, table)
        yield dg.MaterializeResult(asset_key=key, metadata=_metadata(mine, report))
        for name in CHECKS:
            yield check_result(key, name, outcomes.get(table, []), report)


def check_result(
    key: dg.AssetKey, severity: str, outcomes: Sequence[Outcome], report: StreetReport
) -> dg.AssetCheckResult:
    """One of the two checks of a table, with every expectation's outcome in its metadata."""
    mine = [o for o in outcomes if o.severity == severity]
    failed = [o for o in mine if not o.passed]
    refused = severity == "critical" and bool(report.unreadable or report.still_blocked)
    metadata: dict[str, Any] = {"expectations": len(mine), "failed": len(failed)}
    if mine:
        metadata["results"] = dg.MetadataValue.json(
            [{"rule": o.expectation, "passed": o.passed, "sample": o.sample[:500]} for o in mine]
        )
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=severity,
        passed=not failed and not refused,
        severity=dg.AssetCheckSeverity.ERROR if severity == "critical" else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        description="; ".join(f"{o.expectation}: {o.sample}"[:200] for o in failed) or None,
    )


def _metadata(landed: Sequence[Landed], report: StreetReport) -> Mapping[str, Any]:
    total = {
        name: sum(getattr(one.counts, name) for one in landed) for name in ("read", "landed", "rejected", "duplicate")
    }
    return {
        **total,
        "dagster/partition_row_count": total["landed"],
        "documents received": report.received,
        **({"problem": report.problem} if report.problem else {}),
    }


def landed_key(source: Source) -> dg.AssetKey:
    """An external asset that is materialised only when rows of the source really landed."""
    return dg.AssetKey(["landed", slug(source.name)])


def freshness_assets() -> list[dg.AssetSpec]:
    """External assets carrying the freshness policies: a run that landed nothing must not look fresh."""
    specs = []
    for source in all_sources().values():
        due = STALE_AFTER[source.cadence]
        if due is None or source.off_reason:
            continue
        policy = dg.FreshnessPolicy.time_window(fail_window=due, warn_window=due * 0.7)
        specs.append(
            dg.AssetSpec(
                landed_key(source),
                description=f"Materialised whenever rows of {source.name} land; its age is the source's freshness.",
                group_name="freshness",
                owners=OWNERS,
                freshness_policy=policy,
            )
        )
    return specs


def _note_freshness(instance: dg.DagsterInstance, source: Source, report: StreetReport) -> None:
    if report.rows_landed and STALE_AFTER[source.cadence] is not None and not source.off_reason:
        event = dg.AssetMaterialization(
            landed_key(source),
            metadata={"rows": report.rows_landed, "at": dg.MetadataValue.timestamp(dt.datetime.now(dt.UTC))},
        )
        instance.report_runless_asset_event(event)


def source_assets() -> list[dg.AssetsDefinition]:
    """Assets of every registered source."""
    return [source_asset(s) for s in all_sources().values()]
