"""Ingest: sealed spool segments → gated rows in the lake, exactly once, then retired.

Belongs here: the order of ingest. Does not belong here: decoding (`sources.telemetry`), cleaning
(`telemetry_clean.py`), roll-ups, Dagster. GPU samples go the fast way: Parquet files are written first, the gate
looks at those files, and one commit adds them with the ids of their segments.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from assets.landing import Landed, Part, hours_of, land, write_quarantine
from assets.street import StreetReport
from assets.telemetry_clean import clean_segments
from assets.telemetry_files import remove_files, write_files
from sources.telemetry.segment import Batch, read_segments, segment_id_of
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

SAMPLES = "telemetry.gpu_samples"
BATCH_BYTES = 400 << 20
KEEP_SEGMENTS = dt.timedelta(days=7)
INGEST = "spool"
VERSION = 1
ATTEMPTS = 10


@dataclass(slots=True)
class IngestReport(StreetReport):
    """A street report with what ingest adds: segments retired, and damage by file."""

    segments: int = 0
    damage: list[str] = field(default_factory=list)

    def complaints(self) -> Iterator[str]:
        """Blocked batches, then damaged segments (whose whole records did land)."""
        yield from StreetReport.complaints(self)
        yield from self.damage


@dataclass(frozen=True, slots=True)
class _Work:
    """What one batch is landed into and reported to."""

    home: Home
    lake: Lake
    report: IngestReport
    load_id: str
    stream: str


def ingest(home: Home, folders: Sequence[Path] | None = None, *, load_id: str = "") -> IngestReport:
    """Land every sealed segment of the folders (default: spool and inbox), oldest first."""
    report = IngestReport(INGEST)
    lake = Lake(home.lake)
    for paths in _batches(_sealed(folders or (home.spool, home.inbox))):
        work = _Work(home, lake, report, load_id or uuid.uuid4().hex, _cluster_of(paths[0]))
        _ingest_batch(work, paths)
        report.received += len(paths)
    _forget_old(home)
    return report


def _sealed(folders: Iterable[Path]) -> list[Path]:
    found = {p.resolve(): p for folder in folders if folder.is_dir() for p in folder.rglob("*.seg")}
    return sorted(found.values(), key=lambda p: (_cluster_of(p), p.name))


def _cluster_of(path: Path) -> str:
    return path.name.split("~", maxsplit=1)[0]


def _batches(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Segments of one cluster up to a bounded size, so that memory is flat in the number of segments."""
    batch: list[Path] = []
    size = 0
    for path in paths:
        length = path.stat().st_size
        if batch and (size + length > BATCH_BYTES or _cluster_of(path) != _cluster_of(batch[0])):
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


def _ingest_batch(work: _Work, paths: Sequence[Path]) -> None:
    for _ in range(ATTEMPTS):
        ids = {p: segment_id_of(p) for p in paths if p.exists()}
        marks = [m for i in ids.values() if i for m in (_mark(i), _mark(i, damaged=True))]
        done = work.lake.landed(GpuSample, marks)
        todo = [p for p, i in ids.items() if i is None or _mark(i) not in done]
        batch = read_segments((p.name, p) for p in todo)
        suspect = {name for name, _ in batch.damage}
        slow = [p for p in todo if p.name in suspect or (ids[p] and _mark(str(ids[p]), damaged=True) in done)]
        if slow:
            batch = read_segments((p.name, p) for p in todo if p not in slow)
        if not _land_whole(work, batch):
            continue
        for path in slow:
            _land_damaged(work, path)
        fault_point("ingest:before-retire")
        _retire(work, [p for p in paths if p.exists()])
        return
    raise WarehouseError("other processes kept ingesting the same segments; run `almanac ingest` again")


def _land_whole(work: _Work, batch: Batch) -> bool:
    """Land sound segments; False when another process landed one of them first."""
    if not batch.segment_ids:
        return True
    cleaned = clean_segments(batch)
    for name, frame in cleaned.frames.items():
        if name != SAMPLES:
            _land_records(work, name, frame, _digest(batch.segment_ids))
            fault_point("ingest:committed-one-table")
    return _land_samples(work, batch, cleaned.frames.get(SAMPLES))


def _land_records(work: _Work, name: str, frame: pl.DataFrame, batch_id: str) -> None:
    """Events, links, inventory: rows already there are recognised by key, whichever segments brought them."""
    for (source,), rows in frame.partition_by("source", as_dict=True, maintain_order=True).items():
        part = Part(f"{batch_id}:{source}", work.stream, None, rows)
        landed = land(work.lake, tables()[name], str(source), [part], load_id=work.load_id, version=VERSION)
        work.report.landed.append(landed)


def _land_samples(work: _Work, batch: Batch, frame: pl.DataFrame | None) -> bool:
    """Files, gate, commit."""
    ids = [_mark(i) for i in batch.segment_ids]
    read = batch.sample_count
    if frame is None or frame.is_empty():
        nothing = Load(work.load_id, INGEST, Counts(read, 0, 0, read), "nothing new", "", len(ids))
        return work.lake.commit_files(GpuSample, ids, [], nothing)
    source = str(frame["source"][0])
    good, refused = refuse(frame, GpuSample)
    outcomes = batch_rules(good, read, refused.height, _last_stats(work, source), GpuSample)
    written = write_files(work.lake, GpuSample, good)
    fault_point("land:candidate-written")
    outcomes += _gate(written.paths)
    fault_point("land:gate-passed")
    _quarantine(work, source, refused)
    failures = [o for o in outcomes if not o.passed and o.severity == "critical"]
    if failures:
        remove_files(written)
        reason = "; ".join(f"{o.expectation}: {o.sample}" for o in failures)
        counts = Counts(read, 0, read, 0)
        load = Load(work.load_id, source, counts, "blocked", f"{work.stream}: {reason}", len(ids))
        committed = work.lake.commit_files(GpuSample, [f"blocked:{i}" for i in ids] + ids, [], load)
        if committed:
            _set_aside(work, batch)
    else:
        counts = Counts(read, good.height, refused.height, read - good.height - refused.height)
        stats = {work.stream: batch_stats(good, read, GpuSample), "": {"hours": hours_of(good)}}
        load = Load(work.load_id, source, counts, "landed", "", len(ids), stats)
        committed = work.lake.commit_files(GpuSample, ids, written.adds, load)
        if not committed:
            remove_files(written)
    if committed:
        fault_point("land:committed")
        landed = Landed(SAMPLES, source, counts, load.status, load.reason, {work.stream: outcomes})
        work.report.landed.append(landed)
    return committed


def _gate(paths: Sequence[Path]) -> list[Outcome]:
    """The suite on the candidate files; uniqueness is already given by the sort that removed repeats."""
    from warehouse.quality.gx import validate_files

    if not paths:
        return []
    unique = uniqueness_of(GpuSample).name
    return validate_files(paths, [e for e in suite_of(GpuSample) if e.name != unique], {"date": "DATE"})


def _land_damaged(work: _Work, path: Path) -> None:
    """Whole records of a damaged segment land by key; a copy of its bytes and every damage go to quarantine."""
    body = path.read_bytes()
    batch = read_segments([(path.name, body)])
    digest = hashlib.sha256(body).hexdigest()
    if batch.damage:
        shutil.copy2(path, work.home.quarantine / path.name)
        rows = [
            ("segment damage", damage.reason, f"{path.name} at byte {damage.offset}", "", digest)
            for _, damage in batch.damage
        ]
        names = ("rule", "reason", "locator", "raw", "payload_sha256")
        write_quarantine(work.lake, INGEST, SAMPLES, pl.DataFrame(rows, schema=names, orient="row"))
        first = batch.damage[0][1]
        work.report.damage.append(
            f"{path.name}: {len(batch.damage)} damaged places, the first at byte {first.offset} ({first.reason}); "
            "its whole records landed, a copy is in quarantine/"
        )
    if not batch.segment_ids:
        return
    cleaned = clean_segments(batch)
    for name, frame in cleaned.frames.items():
        if name != SAMPLES:
            _land_records(work, name, frame, digest)
    samples = cleaned.frames.get(SAMPLES, pl.DataFrame(schema=lake_schema(GpuSample)))
    source = str(samples["source"][0]) if samples.height else INGEST
    mark = _mark(batch.segment_ids[0], damaged=bool(batch.damage))
    landed = land(
        work.lake,
        GpuSample,
        source,
        [Part(digest, work.stream, digest, samples)],
        load_id=work.load_id,
        version=VERSION,
        marks={mark: 1},
    )
    work.report.landed.append(landed)


def _last_stats(work: _Work, source: str) -> dict[str, Any] | None:
    for commit in reversed(work.lake.history(GpuSample, limit=50)):
        if commit["source"] == source and work.stream in commit["stats"]:
            stats: dict[str, Any] = commit["stats"][work.stream]
            return stats
    return None


def _quarantine(work: _Work, source: str, refused: pl.DataFrame) -> None:
    if refused.height:
        rows = refused.with_columns(
            pl.lit("").alias("locator"), pl.lit(None, dtype=pl.String).alias("payload_sha256")
        ).select("rule", "reason", "locator", "raw", "payload_sha256")
        write_quarantine(work.lake, source, SAMPLES, rows)


def _set_aside(work: _Work, batch: Batch) -> None:
    """Segments of a blocked batch are kept whole for a person to look at."""
    wanted = set(batch.segment_ids)
    for path in _sealed((work.home.spool, work.home.inbox)):
        if segment_id_of(path) in wanted:
            shutil.copy2(path, work.home.quarantine / path.name)


def _retire(work: _Work, paths: Sequence[Path]) -> None:
    """Landed segments are kept for seven days, then forgotten: for telemetry the lake is the truth."""
    folder = work.home.archive / INGEST
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        shutil.move(path, folder / path.name)
        work.report.segments += 1


def _forget_old(home: Home) -> None:
    edge = dt.datetime.now(dt.UTC).timestamp() - KEEP_SEGMENTS.total_seconds()
    for path in (home.archive / INGEST).glob("*.seg"):
        if path.stat().st_mtime < edge:
            path.unlink(missing_ok=True)


def _mark(segment_id: str, *, damaged: bool = False) -> str:
    return f"{'damaged' if damaged else 'segment'}:{segment_id}"


def _digest(ids: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(sorted(ids)).encode()).hexdigest()[:32]
