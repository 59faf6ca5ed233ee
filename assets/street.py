"""The street for one source: payloads → archive → parse → derive → gate → land.

Belongs here: which archived documents still have to be landed, and in which order the stages run. Does not belong
here: a rule about rows (`landing.py`, `warehouse.quality`), fetching, Dagster, publishing.
"""

from __future__ import annotations

import csv
import datetime as dt
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from assets.derive import SEQUENTIAL, derive
from assets.dismissals import REFUSED, dismissed
from assets.landing import Landed, Part, land, mark, parser_mark
from assets.quarantine import Refusal, write_quarantine
from sources.base import FetchError, NotConfiguredError, OfflineError, Parsed, ParseError, Payload, Reject, Source, Web
from warehouse.archive import Archive, Document, Kept
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

PARSE_CHUNK = 400
MOST_NAMES = 3
MOST_WORDS = 120
# What a parser raises at bytes nobody foresaw. A full disk or lack of memory says nothing about a document.
UNFORESEEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, csv.Error, pl.exceptions.PolarsError)


@dataclass(slots=True)
class StreetReport:
    """What one source's run did.

    `problem` says why the source could not be fetched; `skipped` that this is no failure (no network, or nothing
    configured). `barren`: documents that could be read and hold nothing. `urls` names the documents by payload id and by SHA-256.
    """

    source: str
    received: int = 0
    landed: list[Landed] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    still_blocked: list[tuple[str, str]] = field(default_factory=list)
    dismissed: list[tuple[str, str]] = field(default_factory=list)
    barren: list[str] = field(default_factory=list)
    urls: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    skipped: bool = False

    @property
    def rows_landed(self) -> int:
        """Rows written in all tables."""
        return sum(one.counts.landed for one in self.landed)

    @property
    def rows_known(self) -> int:
        """Rows that were already there."""
        return sum(one.counts.duplicate for one in self.landed)

    @property
    def failed(self) -> bool:
        """Did anything go wrong that a person must look at?"""
        return bool(self.unreadable or self.still_blocked or (self.problem and not self.skipped)) or any(
            one.reason for one in self.landed
        )

    def complaints(self) -> Iterator[str]:
        """One line for each thing that went wrong."""
        if self.problem:
            yield f"{self.source}: {self.problem}"
        for url, reason in self.unreadable:
            yield f"{self.source}: {url}: {reason}"
        for one in self.landed:
            if one.reason:
                yield f"{one.table}: blocked, nothing of {self._held(one)} landed: {one.reason}"
        for url, reason in self.still_blocked:
            yield f"{self.source}: {url}: still blocked: {reason}"
        for url, reason in self.dismissed:
            yield f"{self.source}: {url}: was dismissed ({reason}); `almanac dismiss --undo` takes it up again"

    def where(self, refusal: Refusal) -> str:
        """The document that refused rows stand in, or the first of several."""
        first = self.urls.get(refusal.first_sha256 or "", "")
        if not first:
            return ""
        return f" in {first}" if refusal.documents == 1 else f" in {refusal.documents} documents, the first {first}"

    def _held(self, one: Landed) -> str:
        """The documents that a blocked load held back, as far as a line has room; `it` where they have no name."""
        return named([self.urls[p] for p in one.blocked_payloads if self.urls.get(p)]) or "it"


def named(names: Sequence[str]) -> str:
    """Names as far as a line has room for them."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def fetch_into_archive(home: Home, source: Source, web: Web) -> StreetReport:
    """Ask the source for what is new and keep it; a failure is reported, not raised."""
    report = StreetReport(source.name)
    archive = Archive(home.archive)
    try:
        for payload in source.fetch(web):
            keep(archive, payload)
            report.received += 1
    except OfflineError as error:
        report.problem, report.skipped = str(error), True
    except NotConfiguredError as error:
        report.problem, report.skipped = str(error), True
    except FetchError as error:
        report.problem = str(error)
    unchanged: Mapping[str, dt.datetime] = getattr(web, "not_modified", {})
    for url, at in unchanged.items():
        archive.checked(url, at)
    return report


def keep(archive: Archive, payload: Payload) -> Kept:
    """Put one payload into the archive."""
    return archive.put(
        Document(
            source=payload.source,
            stream=payload.stream,
            url=payload.url,
            media_type=payload.media_type,
            retrieved_at=payload.retrieved_at,
            body=payload.open(),
            status=payload.status,
            etag=payload.etag,
            last_modified=payload.last_modified,
            meta=payload.meta,
        )
    )


def land_pending(
    home: Home,
    source: Source,
    report: StreetReport | None = None,
    *,
    load_id: str = "",
    given: Collection[str] | None = None,
) -> StreetReport:
    """Land every archived document of the source that has not been landed under its parser's version.

    given: ids of the documents whose earlier refusal is told again; None: of the newest document of every stream.
    """
    report = report or StreetReport(source.name)
    archive, lake = Archive(home.archive), Lake(home.lake)
    load_id = load_id or uuid.uuid4().hex
    kept = _counting(archive, lake, source)
    if source.landing == "snapshot":
        _land_snapshot(archive, lake, source, kept, report, load_id)
    else:
        _land_append(archive, lake, source, kept, report, load_id)
    counting = _counting(archive, lake, source)
    about = _seen_last(counting).values() if given is None else [k for k in counting if k.payload_id in given]
    _still_blocked(about, report)
    return report


def _counting(archive: Archive, lake: Lake, source: Source) -> list[Kept]:
    """Archived documents of the source, oldest first, without those that a person dismissed."""
    aside = dismissed(lake)
    return [k for k in archive.of_source(source.name) if k.payload_id not in aside]


def _land_append(
    archive: Archive, lake: Lake, source: Source, kept: Sequence[Kept], report: StreetReport, load_id: str
) -> None:
    outdated = any(
        (made := lake.transaction_version(tables()[t], parser_mark(source.name))) is not None and made < source.version
        for t in source.tables
    )
    pending = kept if outdated else _pending(lake, source, kept)
    step = 1 if source.name in SEQUENTIAL else PARSE_CHUNK
    for start in range(0, len(pending), step):
        chunk = pending[start : start + step]
        # The first chunk of a newer parser replaces what the older one made; the others add to it.
        _land_documents(archive, lake, source, chunk, report, load_id, whole=outdated and start == 0)


def _land_snapshot(
    archive: Archive, lake: Lake, source: Source, kept: Sequence[Kept], report: StreetReport, load_id: str
) -> None:
    """Only the document seen last in each stream counts; it replaces what its source said before."""
    newest = _seen_last(kept)
    wanted = [k for k in newest.values() if not _is_current(lake, source, k) and not _judged(k, source)]
    if wanted:
        _land_documents(archive, lake, source, wanted, report, load_id, whole=True)


def _seen_last(kept: Sequence[Kept]) -> dict[str, Kept]:
    """The document of each stream that the source was last seen to hold."""
    return {one.stream: one for one in sorted(kept, key=lambda k: (k.checked_at, k.retrieved_at))}


def _is_current(lake: Lake, source: Source, kept: Kept) -> bool:
    model = tables().get(kept.stream)
    for name in [kept.stream] if model else source.tables:
        last: list[str] = []
        version = None
        for commit in lake.history(tables()[name]):
            if commit["source"] == source.name and commit["status"] != "blocked":
                last = commit["stats"].get("", {}).get("payload_ids", [])
        version = lake.transaction_version(tables()[name], parser_mark(source.name))
        if kept.payload_id not in last or version != source.version:
            return False
    return True


def _judged(kept: Kept, source: Source) -> bool:
    return kept.outcome in REFUSED and kept.version == source.version


def _pending(lake: Lake, source: Source, kept: Sequence[Kept]) -> list[Kept]:
    open_ones = [k for k in kept if not _judged(k, source)]
    marks = {mark(k.payload_id, source.version): k for k in open_ones}
    missing: set[str] = set()
    for name in source.tables:
        missing |= set(marks) - lake.landed(tables()[name], marks)
    return [k for m, k in marks.items() if m in missing]


def _land_documents(
    archive: Archive,
    lake: Lake,
    source: Source,
    documents: Sequence[Kept],
    report: StreetReport,
    load_id: str,
    *,
    whole: bool,
) -> None:
    read: list[tuple[Kept, Parsed]] = []
    report.urls |= {one: kept.url for kept in documents for one in (kept.payload_id, kept.payload_sha256)}
    for kept in documents:
        try:
            parsed = _parsed(source, _payload(archive, kept))
            frames = derive(source.name, parsed.frames, lake)
        except ParseError as error:
            _unreadable(archive, lake, source, kept, _without_name(kept.url, str(error)), report)
            continue
        read.append((kept, Parsed(frames, parsed.rejects)))
        if not parsed.rejects and not any(frame.height for frame in frames.values()):
            report.barren.append(kept.url)
    for name in _tables_to_land(source, read):
        parts = [_part(kept, parsed, name, source) for kept, parsed in read]
        if whole and source.landing == "snapshot":
            parts = [p for p, (_, parsed) in zip(parts, read, strict=True) if _speaks_of(parsed, name)]
        if not parts:
            continue
        landed = land(lake, tables()[name], source.name, parts, load_id=load_id, version=source.version, replace=whole)
        report.landed.append(landed)
        for payload_id, why in landed.blocked_payloads.items():
            archive.settle(payload_id, "blocked", source.version, why)
    blocked = {p for one in report.landed for p in one.blocked_payloads}
    for kept, _ in read:
        if kept.payload_id not in blocked:
            archive.settle(kept.payload_id, "landed", source.version)


def _parsed(source: Source, payload: Payload) -> Parsed:
    """What the document says. Raises `ParseError` also for damage that its parser did not foresee."""
    try:
        return source.parse(payload)
    except RecursionError:
        raise ParseError("it is nested deeper than any real one; fetch it again") from None
    except UNFORESEEN as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:MOST_WORDS]}"
        raise ParseError(f"its parser did not foresee this ({what}); damaged? keep the file and report it") from error


def _tables_to_land(source: Source, read: Sequence[tuple[Kept, Parsed]]) -> list[str]:
    found = {t for _, parsed in read for t in parsed.frames} | {r.table for _, parsed in read for r in parsed.rejects}
    strange = found - set(source.tables)
    if strange:
        raise ParseError(f"{source.name} gave rows for {', '.join(sorted(strange))}, which it does not declare")
    return [t for t in source.tables if read]


def _speaks_of(parsed: Parsed, name: str) -> bool:
    return name in parsed.frames or any(r.table == name for r in parsed.rejects)


def _part(kept: Kept, parsed: Parsed, name: str, source: Source) -> Part:
    model = tables()[name]
    frame = parsed.frames.get(name)
    if frame is None:
        frame = pl.DataFrame(schema=lake_schema(model))
    else:
        schema = lake_schema(model)
        stamps: Mapping[str, object] = {
            "source": source.name,
            "payload_sha256": kept.payload_sha256,
            "retrieved_at": kept.retrieved_at,
        }
        frame = frame.with_columns(pl.lit(v).cast(schema[k]).alias(k) for k, v in stamps.items() if k in schema)
        frame = _dated(_completed(frame, schema), schema)
    rejects: list[Reject] = [r for r in parsed.rejects if r.table == name]
    return Part(kept.payload_id, kept.stream, kept.payload_sha256, frame, rejects, judged_at=dt.datetime.now(dt.UTC))


def _completed(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Columns that follow from others: the partition day, and that a parsed file is not synthetic."""
    if "is_synthetic" in schema and "is_synthetic" not in frame.columns:
        frame = frame.with_columns(pl.lit(value=False).alias("is_synthetic"))
    if "date" in schema and "date" not in frame.columns:
        moment = next(c for c in ("sampled_at", "occurred_at", "minute_at", "hour_at", "completed_at") if c in schema)
        frame = frame.with_columns(pl.col(moment).dt.date().alias("date"))
    return frame


def _dated(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """A row that became known when its document was retrieved says so: its publication may lie before."""
    if "known_at_precision" not in schema or frame.schema.get("known_at") != schema["known_at"]:
        return frame
    given = frame["known_at_precision"] if "known_at_precision" in frame.columns else pl.lit(None, pl.String)
    only_retrieved = pl.when(pl.col("known_at") == pl.col("retrieved_at")).then(pl.lit("retrieved"))
    return frame.with_columns(pl.coalesce(given, only_retrieved).alias("known_at_precision"))


def _payload(archive: Archive, kept: Kept) -> Payload:
    return Payload(
        source=kept.source,
        url=kept.url,
        retrieved_at=kept.retrieved_at,
        media_type=kept.media_type,
        body=lambda: archive.open(kept),
        stream=kept.stream,
        status=kept.status,
        etag=kept.etag,
        last_modified=kept.last_modified,
        meta=kept.meta,
    )


def _without_name(url: str, why: str) -> str:
    """A complaint less the document's name at its start: whoever shows it names the document already."""
    path = url.removeprefix("file:")
    for name in (url, path, path.rsplit("/", 1)[-1]):
        if name and why.startswith(name):
            return why.removeprefix(name).lstrip(": ") or why
    return why


def _unreadable(archive: Archive, lake: Lake, source: Source, kept: Kept, why: str, report: StreetReport) -> None:
    with archive.open(kept) as stream:
        head = stream.read(500).decode("utf-8", "replace")
    row = {"rule": "the document can be read", "reason": why, "locator": kept.url, "raw": head}
    frame = pl.DataFrame([{**row, "payload_sha256": kept.payload_sha256}])
    write_quarantine(lake, source.name, "", frame)
    archive.settle(kept.payload_id, "unreadable", source.version, why)
    report.unreadable.append((kept.url, why))


def _still_blocked(about: Iterable[Kept], report: StreetReport) -> None:
    """A document that was refused earlier stays a failure: of a stream until a good one arrives there."""
    fresh = {p for one in report.landed for p in one.blocked_payloads}
    said = {url for url, _ in report.unreadable}
    for kept in about:
        if kept.outcome in REFUSED and kept.payload_id not in fresh and kept.url not in said:
            report.still_blocked.append((kept.url, kept.reason))


def receive(home: Home, source: Source, payloads: Iterable[Payload]) -> StreetReport:
    """Local payloads through the same street: keep them all, then land what is pending.

    Of earlier refusals only those of these payloads are told: what else is held back, a run and `check` tell.
    """
    report = StreetReport(source.name)
    given: set[str] = set()
    archive = Archive(home.archive)
    aside = dismissed(Lake(home.lake))
    for payload in payloads:
        kept = keep(archive, replace(payload, source=source.name))
        report.received += 1
        given.add(kept.payload_id)
        if kept.payload_id in aside:
            report.dismissed.append((kept.url, aside[kept.payload_id]))
    return land_pending(home, source, report, given=given)
