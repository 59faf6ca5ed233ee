"""Ingest: sealed spool segments → gated rows in the lake, exactly once, then retired.

Belongs here: the order of ingest. Does not belong here: finding segments (`waiting.py`), decoding
(`sources.telemetry`), cleaning (`telemetry_clean.py`), roll-ups, Dagster. GPU samples go the fast way: Parquet files
are written first, the gate looks at those files and at how far their columns reach, and one commit adds them with the
ids of their segments.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from assets.clock_checks import on_time
from assets.ingest_report import IngestReport, remedy, why_none
from assets.landing import MOST_NODES, Landed, Part, few_nodes, hours_of, land, record_quality
from assets.quarantine import write_quarantine
from assets.telemetry_clean import clean_segments
from assets.telemetry_files import remove_files, remove_unnamed
from assets.telemetry_groups import SAMPLES, Prepared, prepare
from assets.telemetry_known import Known
from assets.telemetry_parts import fill_in, too_late
from assets.telemetry_unknown import unknown_records
from assets.waiting import ARCHIVE, Waiting, batches, forget_old, groups, retire, waiting
from sources.telemetry.segment import read_segments, rows_of
from warehouse.errors import WarehouseError
from warehouse.faults import fault_point
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.quality.batches import Outcome, batch_rules, batch_stats
from warehouse.quality.rows import refuse
from warehouse.quality.suite import suite_of, uniqueness_of
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample

INGEST = "spool"
VERSION = 1
ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class _Work:
    """What one batch is landed into and reported to. `accept`: a jump against the last batch is no reason to block."""

    home: Home
    lake: Lake
    report: IngestReport
    load_id: str
    stream: str
    source: str
    accept: bool


def ingest(
    home: Home, folders: Sequence[Path] | None = None, *, load_id: str = "", accept: bool = False
) -> IngestReport:
    """Land every sealed segment of the folders (default: spool and inbox), oldest first.

    accept: land also what was blocked before, or would be, because it differs from the batch before it, or because
    the node's clock was wrong.
    Raises `OSError` when the disk is full: what was committed stays, the other segments wait where they are.
    """
    report = IngestReport(INGEST, remedy=remedy(home))
    lake = Lake(home.lake)
    load_id = load_id or uuid.uuid4().hex
    found = waiting(folders or (home.spool, home.inbox))
    report.unreadable += _held(found)
    for number, batch in enumerate(batches([w for w in found if not w.held])):
        first = batch[0]
        # One load is one batch: its outcomes and counts are told apart by its id.
        work = _Work(
            home, lake, report, f"{load_id}-{number}" if number else load_id, first.cluster, first.source, accept
        )
        _ingest_batch(work, batch)
        report.received += len(batch)
    forget_old(home)
    return report


def _held(found: Sequence[Waiting]) -> list[tuple[str, str]]:
    """Segments that only a newer version can read, told once for each reason; they are not touched."""
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.held:
            reasons.setdefault(one.held, []).append(one.path.name)
    return [(f"{len(names)} segments, the first {names[0]}", reason) for reason, names in reasons.items()]


def _ingest_batch(first: _Work, batch: Sequence[Waiting]) -> None:
    for attempt in range(ATTEMPTS):
        # Outcomes are recorded before the commit that may come too late: each attempt is a load of its own.
        work = replace(first, load_id=f"{first.load_id}-again{attempt}") if attempt else first
        here = [w for w in batch if w.path.exists()]
        done = work.lake.landed(GpuSample, [_mark(w, kind) for w in here for kind in _KINDS if w.segment_id])
        judged = [w for w in here if _mark(w, "blocked") in done and not work.accept]
        over = {*judged, *(w for w in here if _mark(w, "segment") in done)}
        wrong = [w for w in here if (w.problem or (w.doubt and not work.accept)) and w not in over]
        refused = {*over, *wrong}
        todo = [w for w in here if w not in refused]
        slow = [w for w in todo if w.segment_id is None or _mark(w, "damaged") in done]
        fast = [w for w in todo if w.segment_id is not None and _mark(w, "damaged") not in done]
        verdict = _land_whole(work, fast)
        if verdict is None:
            continue
        slow = [*slow, *verdict.hurt]
        _refuse(work, wrong)
        spoilt = [w for w in slow if _land_damaged(work, w)]
        fault_point("ingest:before-retire")
        held = fast if verdict.held else ()
        work.report.still_held(judged)
        if not work.accept:
            work.report.doubted += sum(not w.problem for w in (*judged, *wrong, *held))
        aside = {w.path for w in (*judged, *wrong, *spoilt, *held)}
        work.report.segments += retire((w.path for w in here if w.path in aside), work.home.quarantine)
        work.report.segments += retire((w.path for w in here if w.path not in aside), work.home.archive / ARCHIVE)
        return
    raise WarehouseError("other processes kept ingesting the same segments; run `almanac ingest` again")


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Segments found damaged (nothing of them has landed yet), and whether anything of the others was blocked."""

    hurt: Sequence[Waiting] = ()
    held: bool = False


def _land_whole(work: _Work, fast: Sequence[Waiting]) -> _Verdict | None:
    """Land sound segments; None when another process committed first."""
    if not fast:
        return _Verdict()
    known = Known(work.lake)
    try:
        ready = prepare(work.lake, groups(fast), known)
    except FileNotFoundError:
        if all(w.path.exists() for w in fast):
            raise
        return None  # another process took a segment meanwhile
    hurt = [w for one in ready for w in one.hurt]
    ids = [i for one in ready for i in one.segment_ids]
    if not ids:
        return _Verdict(hurt)
    late = [one.late for one in ready if one.late.height]
    if late and _fill_in(work, pl.concat(late)):
        _take_back(ready)  # made for a table that is another now
        return None
    held = False
    batch_id = _digest(ids)
    work.report.name(batch_id, fast)
    for name in sorted({name for one in ready for name in one.records}):
        frames = [one.records[name] for one in ready if name in one.records]
        held |= _land_records(work, name, pl.concat(frames, how="vertical_relaxed"), batch_id)
        fault_point("ingest:committed-one-table")
    try:
        landed = _land_samples(work, ready, known.version)
    except BaseException:
        remove_unnamed(work.lake, GpuSample, [one.written for one in ready])
        raise
    if landed is None:
        _take_back(ready)
        return None
    if landed.reason:
        landed.blocked_payloads[batch_id] = landed.reason
    work.report.landed.append(landed)
    return _Verdict(hurt, held=held or landed.status == "blocked")


def _land_records(work: _Work, name: str, frame: pl.DataFrame, batch_id: str) -> bool:
    """Was anything blocked? Events, links, inventory: rows already there are recognised by key, whichever segments brought them."""
    held = False
    for (source,), rows in frame.partition_by("source", as_dict=True, maintain_order=True).items():
        if (late := too_late(work.lake, tables()[name], rows)).height:
            write_quarantine(work.lake, str(source), name, late)
        part = Part(f"{batch_id}:{source}", work.stream, None, rows)
        work.report.urls[part.payload_id] = work.report.urls.get(batch_id, "")
        landed = land(work.lake, tables()[name], str(source), [part], load_id=work.load_id, version=VERSION)
        work.report.landed.append(landed)
        held |= landed.status == "blocked"
    return held


def _land_samples(work: _Work, ready: Sequence[Prepared], version: int) -> Landed | None:
    """Gate the files, then commit them; None when another process was first."""
    ids = [i for one in ready for i in one.segment_ids]
    read, kept = sum(one.read for one in ready), sum(one.kept for one in ready)
    refused = pl.concat([one.refused for one in ready])
    last = None if work.accept else _last_stats(work)
    stats = batch_stats([one.sizes for one in ready if one.sizes], read, GpuSample)
    outcomes = batch_rules(stats, kept, refused.height, last, GpuSample)
    outcomes.append(on_time(one.span for one in ready))
    outcomes.append(_declared({name for one in ready for name in one.undeclared}))
    fault_point("land:candidate-written")
    outcomes += _gate(ready)
    fault_point("land:gate-passed")
    _quarantine(work, refused)
    _keep_unknown(work, pl.concat([one.unknown for one in ready]))
    record_quality(work.lake, work.source, SAMPLES, work.load_id, {work.stream: outcomes})
    failures = [o for o in outcomes if not o.passed and o.severity == "critical"]
    if failures:
        reason = f"{work.stream}: " + "; ".join(f"{o.expectation}: {o.sample}" for o in failures)
        counts = Counts(read, 0, read, 0)
        load = Load(work.load_id, work.source, counts, "blocked", reason, len(ids))
        committed = work.lake.commit_files(GpuSample, [f"blocked:{i}" for i in ids], [], load, version=version)
        _take_back(ready)
    else:
        counts = Counts(read, kept, refused.height, read - kept - refused.height)
        status = "landed" if kept else "nothing new"
        load = Load(work.load_id, work.source, counts, status, "", len(ids), _notes(work, ready, stats if kept else {}))
        adds = [add for one in ready for add in one.written.adds]
        committed = work.lake.commit_files(GpuSample, [f"segment:{i}" for i in ids], adds, load, version=version)
    if not committed:
        return None
    fault_point("land:committed")
    return Landed(SAMPLES, work.source, counts, load.status, load.reason, {work.stream: outcomes})


def _fill_in(work: _Work, late: pl.DataFrame) -> int:
    """Parts of rows that landed before, in a commit of their own: it counts no rows, for it makes none."""

    def load(rows: pl.DataFrame) -> Load:
        note = {"hours": hours_of(rows), **few_nodes(rows)}
        return Load(f"{work.load_id}-late", work.source, Counts(), stats={"": note})

    filled = fill_in(work.lake, late, load)
    if filled:
        fault_point("ingest:late-parts-filled")
        told = Outcome(_IN_TIME, "warning", passed=False, unexpected_count=filled, sample=f"{filled} rows filled later")
        record_quality(work.lake, work.source, SAMPLES, f"{work.load_id}-late", {work.stream: [told]})
    return filled


def _notes(work: _Work, ready: Sequence[Prepared], stats: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the next batch is compared with, and under the empty name what roll-up and ledger want to know."""
    spans = [one.span for one in ready if one.span]
    notes: dict[str, Any] = {"hours": sorted({hour for one in ready for hour in one.hours})}
    nodes = {node for one in ready for node in one.nodes or ()}
    if len(nodes) <= MOST_NODES and all(one.nodes is not None for one in ready):
        notes["nodes"] = sorted(nodes)
        notes["places"] = [f"{work.stream}/{node}" for node in sorted(nodes)]
    if spans:
        notes |= {"from_at": min(a for a, _ in spans).isoformat(), "to_at": max(b for _, b in spans).isoformat()}
    return {work.stream: stats, "": notes} if stats else {"": notes}


def _take_back(ready: Sequence[Prepared]) -> None:
    for one in ready:
        remove_files(one.written)


def _declared(undeclared: set[str]) -> Outcome:
    return Outcome(
        "every column that the collector wrote is declared",
        "warning",
        passed=not undeclared,
        unexpected_count=len(undeclared),
        sample=f"left out: {', '.join(sorted(undeclared))}" if undeclared else "",
    )


def _gate(ready: Sequence[Prepared]) -> list[Outcome]:
    """The suite on the candidate files; uniqueness is already given by the sort that removed repeats."""
    from warehouse.quality.gx import validate_files

    paths = [path for one in ready for path in one.written.paths]
    if not paths:
        return []
    unique = uniqueness_of(GpuSample).name
    suite = [e for e in suite_of(GpuSample) if e.name != unique]
    edges = pl.concat([one.edges for one in ready if one.kept])
    return validate_files(paths, suite, {"date": "DATE"}, edges)


def _refuse(work: _Work, wrong: Sequence[Waiting]) -> None:
    """Segments with units nobody taught the house, or from a clock that is wrong: recorded as blocked, one load for all."""
    if not wrong:
        return
    read = sum(_rows_of(w.path) for w in wrong)
    reason = f"{work.stream}: {why_none(wrong)}"
    counts = Counts(read, 0, read, 0)
    load = Load(work.load_id, work.source, counts, "blocked", reason, len(wrong))
    if work.lake.commit_files(GpuSample, [_mark(w, "blocked") for w in wrong], [], load):
        work.report.name(load.load_id, wrong)
        held = {load.load_id: reason}
        work.report.landed.append(Landed(SAMPLES, work.source, counts, "blocked", reason, blocked_payloads=held))


def _rows_of(path: Path) -> int:
    try:
        return rows_of(path)
    except FileNotFoundError:  # another process took it, and has recorded it: this load will come too late
        return 0


def _land_damaged(work: _Work, one: Waiting) -> bool:
    """Whole records of a damaged segment land by key, and every damage goes to quarantine. Was there any?"""
    try:
        body = one.path.read_bytes()
    except FileNotFoundError:  # another process took it meanwhile, and tells of it
        return False
    batch = read_segments([(one.path.name, body)])
    digest = hashlib.sha256(body).hexdigest()
    work.report.name(digest, [one])
    work = replace(work, load_id=f"{work.load_id}-{digest[:8]}")
    if batch.damage:
        rows = [
            ("segment damage", damage.reason, f"{one.path.name} at byte {damage.offset}", "", digest)
            for _, damage in batch.damage
        ]
        names = ("rule", "reason", "locator", "raw", "payload_sha256")
        write_quarantine(work.lake, INGEST, SAMPLES, pl.DataFrame(rows, schema=names, orient="row"))
        first = batch.damage[0][1]
        work.report.damage.append(
            f"{one.path.name}: {len(batch.damage)} damaged places, the first at byte {first.offset} ({first.reason}); "
            "its whole records landed, the segment is in quarantine/"
        )
    if not batch.segment_ids:
        return True
    cleaned = clean_segments(batch)
    _keep_unknown(work, unknown_records(batch.records))
    for name, frame in cleaned.frames.items():
        if name != SAMPLES:
            _land_records(work, name, frame, digest)
    samples = cleaned.frames.get(SAMPLES, pl.DataFrame(schema=lake_schema(GpuSample)))
    source = str(samples["source"][0]) if samples.height else INGEST
    _fill_in(work, refuse(samples, GpuSample)[0])
    kind = "damaged" if batch.damage else "segment"
    landed = land(
        work.lake,
        GpuSample,
        source,
        [Part(digest, work.stream, digest, samples)],
        load_id=work.load_id,
        version=VERSION,
        marks={f"{kind}:{batch.segment_ids[0]}": 1},
    )
    work.report.landed.append(landed)
    return bool(batch.damage)


def _last_stats(work: _Work) -> dict[str, Any] | None:
    for commit in reversed(work.lake.history(GpuSample, limit=50)):
        if commit["source"] == work.source and work.stream in commit["stats"]:
            stats: dict[str, Any] = commit["stats"][work.stream]
            return stats
    return None


def _quarantine(work: _Work, refused: pl.DataFrame) -> None:
    if refused.height:
        write_quarantine(work.lake, work.source, SAMPLES, refused)


def _keep_unknown(work: _Work, rows: pl.DataFrame) -> None:
    if rows.height:
        write_quarantine(work.lake, work.source, "telemetry", rows)


_IN_TIME = "no part of a row comes after the row has landed"
_KINDS = ("segment", "damaged", "blocked")


def _mark(one: Waiting, kind: str) -> str:
    """The app-transaction id that says what became of a segment."""
    return f"{kind}:{one.segment_id}"


def _digest(ids: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(sorted(ids)).encode()).hexdigest()[:32]
