"""Dagster events of an ingest that happens outside a Dagster run: what `almanac ingest --follow` tells `dagster dev`.

Belongs here: gathering rounds, the events. Does not belong here: when they are told (`pipelines/following.py`), what
a run inside Dagster yields (`telemetry.py`). A run of its own for every round would cost ten seconds and 0.8 MB of
event log; an event costs 10 ms and 4 KB.
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from assets.ingest import INGEST
from assets.ingest_report import IngestReport
from assets.landing import Landed
from assets.published import DATABASE
from assets.telemetry import ROLLED, key_of, results
from warehouse.lake import Counts
from warehouse.publish import Published
from warehouse.quality.batches import Outcome

Event = dg.AssetMaterialization | dg.AssetCheckEvaluation
MOST_DAMAGE = 20


@dataclass(slots=True)
class Rounds:
    """What rounds did since the last events, summed: it stays small however many they were."""

    report: IngestReport = field(default_factory=lambda: IngestReport(INGEST))
    rolled: Counter[str] = field(default_factory=Counter)
    published: Published | None = None
    count: int = 0
    slowest_s: float = 0.0

    def add(self, report: IngestReport, rolled: dict[str, int], published: Published, seconds: float) -> None:
        """One more round. seconds: from the sealing of its first segment until its rows could be queried."""
        known = {one.table: one for one in self.report.landed}
        for one in report.landed:
            known[one.table] = _sum(known[one.table], one) if one.table in known else _brief(one)
        self.report.landed = list(known.values())
        self.report.segments += report.segments
        self.report.unreadable = report.unreadable  # segments that only wait are told in every round
        self.report.damage = [*self.report.damage, *report.damage][:MOST_DAMAGE]
        self.rolled.update(rolled)
        self.published = published
        self.count += 1
        self.slowest_s = max(self.slowest_s, seconds)

    def events(self) -> Iterator[Event]:
        """Materialisations of segments, tables, roll-ups and the published file, and the checks of the tables."""
        for result in results(self.report):
            yield _runless(result)
        for table in ROLLED:
            if self.rolled[table]:
                yield dg.AssetMaterialization(key_of(table), metadata={"rows computed": self.rolled[table]})
        if self.published:
            yield dg.AssetMaterialization(
                DATABASE,
                metadata={
                    "build": self.published.build_id,
                    "rows": sum(self.published.rows.values()),
                    "rounds": self.count,
                    "seconds from sealed to queryable": round(self.slowest_s, 2),
                },
            )


def _brief(one: Landed) -> Landed:
    worst: dict[tuple[str, str], Outcome] = {}
    for outcomes in one.outcomes.values():
        for outcome in outcomes:
            key = (outcome.expectation, outcome.severity)
            if key not in worst or not outcome.passed:
                worst[key] = outcome
    return Landed(one.table, one.source, one.counts, one.status, one.reason, {"": list(worst.values())})


def _sum(a: Landed, b: Landed) -> Landed:
    names = ("read", "landed", "rejected", "duplicate")
    counts = Counts(*(getattr(a.counts, n) + getattr(b.counts, n) for n in names))
    bad = a if a.reason else b
    outcomes = {"a": a.outcomes.get("", []), **{f"b{k}": v for k, v in b.outcomes.items()}}
    return _brief(Landed(a.table, a.source, counts, bad.status, bad.reason, outcomes))


def _runless(result: dg.MaterializeResult[Any] | dg.AssetCheckResult) -> Event:
    metadata = dict(result.metadata or {})
    if isinstance(result, dg.MaterializeResult):
        assert result.asset_key is not None  # noqa: S101 - ours always name their asset
        return dg.AssetMaterialization(result.asset_key, metadata=metadata)
    assert result.asset_key is not None  # noqa: S101
    assert result.check_name is not None  # noqa: S101
    if result.passed:  # a long list of rules that held is in ops.quality_results, and would fill the event log
        metadata.pop("results", None)
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=metadata,
        severity=result.severity,
        description=result.description,
    )
