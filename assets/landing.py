"""Landing one source's rows in one table: row rules, gate, quarantine, one exactly-once commit.

Belongs here: the order in which gate, quarantine and commit happen, and the counts. Does not belong here: how rows
are made (`street.py`, sources), what the rules are (`warehouse.quality`), Dagster.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable
from sqlmodel import SQLModel

from assets.quarantine import Refusal, by_rule, refused_records, refused_rows, write_quarantine
from sources.base import Reject
from warehouse.faults import fault_point
from warehouse.lake import Counts, Lake, Load
from warehouse.quality.batches import Outcome, batch_rules, batch_stats, sizes_of
from warehouse.quality.rows import conform, identity, split
from warehouse.quality.sample_times import refuse_mistimed
from warehouse.quality.suite import suite_of
from warehouse.schema.declare import key_of, lake_schema, qualified_name, table_of
from warehouse.schema.ops import QualityResult

PAYLOAD = "__payload_id"
MOST_NODES = 64
HOUR_US = 3_600_000_000
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows one payload holds for one table, before any rule. `rejects` never became rows.

    judged_at: our clock, by which the time of each row is judged; None where that was done before (segments).
    """

    payload_id: str
    stream: str
    sha256: str | None
    frame: pl.DataFrame
    rejects: Sequence[Reject] = ()
    judged_at: dt.datetime | None = None


@dataclass(slots=True)
class Landed:
    """What became of one load in one table."""

    table: str
    source: str
    counts: Counts
    status: str
    reason: str = ""
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    blocked_payloads: dict[str, str] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()


@dataclass(slots=True)
class _Batch:
    """One stream's part of a load: good rows (with their payload id), refused rows, tallies, verdicts."""

    stream: str
    payload_ids: list[str] = field(default_factory=list)
    good: list[pl.DataFrame] = field(default_factory=list)
    refused: list[pl.DataFrame] = field(default_factory=list)
    read: int = 0
    rejected: int = 0
    drift: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    tally: dict[str, tuple[int, int]] = field(default_factory=dict)

    def rows(self, model: type[SQLModel]) -> pl.DataFrame:
        schema = {**lake_schema(model), PAYLOAD: pl.String()}
        return pl.concat(self.good) if self.good else pl.DataFrame(schema=schema)

    @property
    def failures(self) -> list[Outcome]:
        return [o for o in self.outcomes if not o.passed and o.severity == "critical"]


def land(
    lake: Lake,
    model: type[SQLModel],
    source: str,
    parts: Sequence[Part],
    *,
    load_id: str,
    version: int,
    replace: bool = False,
    marks: Mapping[str, int] | None = None,
) -> Landed:
    """Gate the parts and commit the good rows once. `replace` swaps the source's whole slice of the table.

    marks: further app-transaction ids to set in the same commit.

    A stream whose batch breaks a critical rule lands nothing and is recorded as blocked; the others go on.
    """
    table = qualified_name(model)
    batches = _assemble(model, parts)
    compare = {} if replace else _last_stats(lake, model, source)
    for batch in batches:
        _judge(batch, model, compare.get(batch.stream))
    sound = [b for b in batches if not b.failures]
    _gate(model, sound)
    sound, blocked = [b for b in sound if not b.failures], [b for b in batches if b.failures]
    fault_point("land:gate-passed")
    _quarantine(lake, source, table, batches)
    record_quality(lake, source, table, load_id, {b.stream: b.outcomes for b in batches})
    fault_point("land:quarantine-written")
    landed = _commit(lake, model, source, sound, load_id, version, replace=replace, marks=marks or {})
    held = _commit_blocked(lake, model, source, blocked, load_id, version)
    counts = Counts(*(a + b for a, b in zip(_tuple(landed), _tuple(held), strict=True)))
    status = "landed" if landed.landed else ("blocked" if blocked else "nothing new")
    reason = "; ".join(f"{b.stream or source}: {_why(b)}" for b in blocked)
    return Landed(
        table,
        source,
        counts,
        status,
        reason,
        {b.stream: b.outcomes for b in batches},
        {p: _why(b) for b in blocked for p in b.payload_ids},
        by_rule([f for b in batches for f in b.refused]),
    )


def _assemble(model: type[SQLModel], parts: Sequence[Part]) -> list[_Batch]:
    batches: dict[str, _Batch] = {}
    for part in parts:
        batch = batches.setdefault(part.stream, _Batch(part.stream))
        batch.payload_ids.append(part.payload_id)
        read = part.frame.height + len(part.rejects)
        refused = [refused_records(part.rejects, part.sha256)]
        rejected, mistimed = len(part.rejects), 0
        try:
            frame, cast_reasons = conform(part.frame, model)
        except ValueError as drift:
            batch.drift = str(drift)
            rejected = read
        else:
            divided = split(frame, cast_reasons, model)
            good = divided.good
            if part.judged_at is not None:
                good, wrong = refuse_mistimed(good, model, part.judged_at)
                refused.append(refused_rows(wrong, part.sha256))
                mistimed = wrong.height
            batch.good.append(good.with_columns(pl.lit(part.payload_id).alias(PAYLOAD)))
            refused.append(refused_rows(divided.refused, part.sha256))
            rejected += divided.refused.height
        batch.refused.extend(refused)
        batch.read += read
        batch.rejected += rejected  # one node with a wrong clock says nothing against the rows of the others
        batch.tally[part.payload_id] = (read, rejected + mistimed)
    return list(batches.values())


def _judge(batch: _Batch, model: type[SQLModel], last: dict[str, Any] | None) -> None:
    if batch.drift:
        batch.outcomes.append(
            Outcome("the columns are the declared ones", "critical", passed=False, sample=batch.drift)
        )
    else:
        rows = batch.rows(model)
        now = batch_stats([sizes_of(rows, model)], batch.read, model)
        batch.outcomes.extend(batch_rules(now, rows.height, batch.rejected, last, model))


def _gate(model: type[SQLModel], batches: Sequence[_Batch]) -> None:
    """One validation for all streams together; only when it fails, one for each to find whose fault it is."""
    filled = [b for b in batches if b.rows(model).height]
    if not filled:
        return
    together = _validate(model, [b.rows(model) for b in filled])
    if all(o.passed for o in together) or len(filled) == 1:
        for batch in filled:
            batch.outcomes.extend(together)
        return
    for batch in filled:
        batch.outcomes.extend(_validate(model, [batch.rows(model)]))


def _validate(model: type[SQLModel], frames: Sequence[pl.DataFrame]) -> list[Outcome]:
    from warehouse.quality.gx import validate_files

    rows = pl.concat(frames).drop(PAYLOAD)
    rows = rows.unique(subset=_sameness(model), keep="first")
    with tempfile.TemporaryDirectory(prefix="almanac-candidate-") as folder:
        path = Path(folder) / "candidate.parquet"
        rows.write_parquet(path)
        fault_point("land:candidate-written")
        return validate_files([path], suite_of(model))


def _sameness(model: type[SQLModel]) -> list[str]:
    """Columns by which a row is already there: telemetry by key, facts and dimensions by key and value."""
    if table_of(model).info["kind"] == "telemetry":
        return key_of(model)
    return list(dict.fromkeys([*key_of(model), *identity(model)]))


def _commit(
    lake: Lake,
    model: type[SQLModel],
    source: str,
    batches: Sequence[_Batch],
    load_id: str,
    version: int,
    *,
    replace: bool,
    marks: Mapping[str, int],
) -> Counts:
    if not batches:
        return Counts()
    rows = pl.concat([b.rows(model) for b in batches])
    tally = {p: t for b in batches for p, t in b.tally.items()}
    stats = {b.stream: batch_stats([sizes_of(b.rows(model), model)], b.read, model) for b in batches}
    done: list[Counts] = []

    def prepare(handle: DeltaTable, todo: list[str]) -> tuple[pl.DataFrame, Load]:
        wanted = list(tally) if replace else todo
        mine = rows.filter(pl.col(PAYLOAD).is_in(wanted))
        if "retrieved_at" in mine.columns:
            mine = mine.sort("retrieved_at", maintain_order=True)
        fresh = mine.unique(subset=_sameness(model), keep="first", maintain_order=True)
        if not replace and fresh.height:
            fresh = fresh.join(
                _there(handle, fresh, model), on=_sameness(model), how="anti", nulls_equal=True, maintain_order="left"
            )
        read = sum(tally[p][0] for p in wanted)
        rejected = sum(tally[p][1] for p in wanted)
        counts = Counts(read, fresh.height, rejected, read - rejected - fresh.height)
        done[:] = [counts]
        status = "landed" if fresh.height else "nothing new"
        notes: dict[str, Any] = {"payload_ids": wanted}
        if "sampled_at" in fresh.columns:
            notes |= {"hours": hours_of(fresh), **few_nodes(fresh), **_span_of(fresh)}
        return fresh.drop(PAYLOAD), Load(load_id, source, counts, status, "", len(wanted), {**stats, "": notes})

    ids = [mark(p, version) for p in tally]
    by_mark = dict(zip(ids, tally, strict=True))
    lake.commit(
        model,
        [] if replace else ids,
        lambda handle, todo: prepare(handle, [by_mark[i] for i in todo]),
        replace=f"source = '{source}'" if replace else None,
        versions={parser_mark(source): version, **marks, **(dict.fromkeys(ids, 1) if replace else {})},
    )
    fault_point("land:committed")
    return done[0] if done else Counts()


def _there(handle: DeltaTable, fresh: pl.DataFrame, model: type[SQLModel]) -> pl.DataFrame:
    """What the table holds of the rows' identity, only in the partitions and between the times they fall into."""
    scan = pl.scan_delta(handle)
    for partition in table_of(model).info["partition_by"]:
        scan = scan.filter(pl.col(partition).is_in(fresh[partition].unique().to_list()))
    for name in _sameness(model):
        if isinstance(fresh.schema[name], pl.Date | pl.Datetime) and not fresh[name].null_count():
            # A file knows its first and last time, so most are not opened; it knows them to the millisecond.
            first, last = fresh.select(pl.min(name).alias("a"), pl.max(name).alias("b")).row(0)
            scan = scan.filter(pl.col(name).is_between(first - _MILLISECOND, last + _MILLISECOND))
    return scan.select(_typed(model)).collect()


def _typed(model: type[SQLModel]) -> list[pl.Expr]:
    schema = lake_schema(model)
    return [pl.col(name).cast(schema[name]) for name in _sameness(model)]


def _commit_blocked(
    lake: Lake, model: type[SQLModel], source: str, batches: Sequence[_Batch], load_id: str, version: int
) -> Counts:
    """A blocked batch leaves a commit without rows: its counts, and the mark that it has been judged."""
    if not batches:
        return Counts()
    read = sum(b.read for b in batches)
    counts = Counts(read, 0, read, 0)
    reason = "; ".join(f"{b.stream or source}: {_why(b)}" for b in batches)
    ids = [mark(p, version, blocked=True) for b in batches for p in b.payload_ids]
    notes = {"": {"payload_ids": [p for b in batches for p in b.payload_ids]}}
    load = Load(load_id, source, counts, "blocked", reason, len(ids), notes)
    empty = pl.DataFrame(schema=lake_schema(model))
    lake.commit(model, ids, lambda _handle, _todo: (empty, load))
    return counts


def hours_of(rows: pl.DataFrame) -> list[int]:
    """Hours since the epoch that samples touch: what the roll-up has to compute again."""
    return rows.select((pl.col("sampled_at").dt.epoch("us") // HOUR_US).unique().sort()).to_series().to_list()


def _span_of(rows: pl.DataFrame) -> dict[str, str]:
    """First and last reading as a note for the ledger; nothing where no row is left."""
    first, last = rows.select(pl.min("sampled_at").alias("a"), pl.max("sampled_at").alias("b")).row(0)
    return {"from_at": first.isoformat(), "to_at": last.isoformat()} if rows.height else {}


def few_nodes(rows: pl.DataFrame) -> dict[str, list[str]]:
    """The nodes of samples as a note for the roll-up, and with their clusters; nothing where they are many or not told."""
    nodes = nodes_of(rows)
    if nodes is None:
        return {}
    return {"nodes": nodes, "places": places_of(rows)} if "cluster" in rows.columns else {"nodes": nodes}


def nodes_of(rows: pl.DataFrame) -> list[str] | None:
    """The nodes of samples in order; None where they are many or not told."""
    if "node" not in rows.columns or rows["node"].null_count():
        return None
    nodes = rows["node"].unique().cast(pl.String).sort().to_list()
    return nodes if len(nodes) <= MOST_NODES else None


def places_of(rows: pl.DataFrame) -> list[str]:
    """`cluster/node` of each pair, in order."""
    told = rows.select("cluster", "node")
    # Rows lie node by node: few need to be compared with all others.
    changes = pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))
    heads = told.filter((pl.int_range(pl.len()) == 0) | changes)
    pairs = heads.unique().select(pl.concat_str("cluster", "node", separator="/"))
    return pairs.to_series().sort().to_list()


def mark(payload_id: str, version: int, *, blocked: bool = False) -> str:
    """The app-transaction id that says a payload was landed (or judged bad) under this parser version."""
    return f"{'blocked' if blocked else 'payload'}:{payload_id}:v{version}"


def parser_mark(source: str) -> str:
    """The app-transaction id whose number is the parser version that made the source's rows of a table."""
    return f"parser:{source}"


def _last_stats(lake: Lake, model: type[SQLModel], source: str) -> dict[str, dict[str, Any]]:
    """Newest landed stats for each stream of this source in this table."""
    found: dict[str, dict[str, Any]] = {}
    for commit in lake.history(model, limit=500):
        if commit["source"] == source and commit["status"] != "blocked":
            found.update(commit["stats"])
    return found


def _quarantine(lake: Lake, source: str, table: str, batches: Sequence[_Batch]) -> None:
    frames = [f for b in batches for f in b.refused if f.height]
    if frames:
        write_quarantine(lake, source, table, pl.concat(frames))


def record_quality(
    lake: Lake, source: str, table: str, load_id: str, outcomes: Mapping[str, Sequence[Outcome]]
) -> None:
    """Put the outcomes of a load, by stream, into `ops.quality_results`."""
    worst: dict[tuple[str, str], Outcome] = {}
    for stream, some in outcomes.items():
        for outcome in some:
            worst.setdefault((stream, outcome.expectation), outcome)
    if not worst:
        return
    now = dt.datetime.now(dt.UTC)
    rows = [
        (load_id, table, stream, o.expectation, source, now, o.severity, o.passed, o.unexpected_count, o.sample)
        for (stream, _), o in worst.items()
    ]
    names = (
        "load_id", "table_name", "stream", "expectation", "source", "validated_at", "severity", "passed",
        "unexpected_count", "sample",
    )  # fmt: skip
    schema = lake_schema(QualityResult)
    frame = pl.DataFrame(rows, schema={n: schema[n] for n in names}, orient="row").select(schema.names())
    lake.commit(QualityResult, [], lambda _h, _t: (frame, Load(load_id, source, Counts(frame.height, frame.height))))


def _why(batch: _Batch) -> str:
    first = batch.failures[0]
    return f"{first.expectation}: {first.sample}" if first.sample else first.expectation


def _tuple(counts: Counts) -> tuple[int, int, int, int]:
    return counts.read, counts.landed, counts.rejected, counts.duplicate


def merge_outcomes(landed: Sequence[Landed]) -> dict[str, list[Outcome]]:
    """Outcomes by table, for the two checks of each table."""
    merged: dict[str, list[Outcome]] = defaultdict(list)
    for one in landed:
        for outcomes in one.outcomes.values():
            merged[one.table].extend(outcomes)
    return dict(merged)
