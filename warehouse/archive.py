"""The archive: raw bytes of every public document, kept for ever, found again by content, url or stream.

Belongs here: keeping bytes, noticing odd ones, remembering what became of them. Does not belong here: fetching,
parsing, rows. Blobs are zstd files named by SHA-256; a side file beside each holds what the index knows, so that
the index (SQLite) can be rebuilt.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl
import zstandard

from warehouse.errors import WarehouseError
from warehouse.faults import fault_point

CHUNK = 1 << 20
SIZE_JUMP = 0.5
_COLUMNS = (
    "payload_id, source, stream, url, payload_sha256, size_bytes, media_type, retrieved_at, checked_at, "
    "http_status, etag, last_modified, meta, flags, outcome, reason, version"
)


@dataclass(frozen=True, slots=True)
class Document:
    """What the archive is asked to keep: bytes with where and when they were received."""

    source: str
    stream: str
    url: str
    media_type: str
    retrieved_at: dt.datetime
    body: BinaryIO
    status: int = 200
    etag: str | None = None
    last_modified: str | None = None
    meta: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """One archived document. `outcome` is pending, landed, blocked or unreadable, for parser `version`."""

    payload_id: str
    source: str
    stream: str
    url: str
    payload_sha256: str
    size_bytes: int
    media_type: str
    retrieved_at: dt.datetime
    checked_at: dt.datetime
    status: int
    etag: str | None
    last_modified: str | None
    meta: dict[str, str]
    flags: str
    outcome: str
    reason: str
    version: int


class Archive:
    """Content-addressed store under one folder; safe for several processes at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, document: Document) -> Kept:
        """Keep a document; the same bytes again only move `checked_at`. Blob first, index second."""
        blob, digest, size = self._write_blob(document)
        fault_point("archive:blob-written")
        meta = dict(document.meta or {})
        now = _text(dt.datetime.now(dt.UTC))
        payload_id = _payload_id(document.source, document.url, digest, meta)
        with self._index() as db:
            known = db.execute("select 1 from payloads where payload_id = ?", (payload_id,)).fetchone()
            if known:
                db.execute(
                    "update payloads set checked_at = max(checked_at, ?), etag = coalesce(?, etag), "
                    "last_modified = coalesce(?, last_modified) where payload_id = ?",
                    (now, document.etag, document.last_modified, payload_id),
                )
            else:
                flags = ",".join(self._flags(db, document, blob, size))
                row = (
                    payload_id, document.source, document.stream, document.url, digest, size, document.media_type,
                    _text(document.retrieved_at), now, document.status, document.etag,
                    document.last_modified, json.dumps(meta, sort_keys=True), flags, "pending", "", 0,
                )  # fmt: skip
                _write_atomic(blob.with_name(f"{payload_id}.json"), json.dumps(dict(zip(_names(), row, strict=True))))
                db.execute(f"insert into payloads ({_COLUMNS}) values ({','.join('?' * len(row))})", row)
        return self.get(payload_id)

    def get(self, payload_id: str) -> Kept:
        """One archived document by id. Raises `KeyError`."""
        for kept in self._select("payload_id = ?", (payload_id,)):
            return kept
        raise KeyError(payload_id)

    def of_source(self, source: str) -> list[Kept]:
        """All documents of a source, oldest first."""
        return list(self._select("source = ?", (source,)))

    def starting_with(self, digits: str) -> list[Kept]:
        """All documents whose SHA-256 begins with these hex digits, oldest first."""
        return list(self._select("substr(payload_sha256, 1, ?) = ?", (len(digits), digits)))

    def everything(self) -> pl.DataFrame:
        """The index as a frame, for `ops.payloads`."""
        names = _names()
        with self._index() as db:
            rows = db.execute(f"select {_COLUMNS} from payloads order by payload_id").fetchall()
        frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row", strict=False)
        when = [pl.col(c).str.to_datetime(time_unit="us", time_zone="UTC") for c in ("retrieved_at", "checked_at")]
        return frame.with_columns(*when, pl.col("size_bytes").cast(pl.Int64), pl.col("outcome").alias("status"))

    def settle(self, payload_id: str, outcome: str, version: int, reason: str = "") -> None:
        """Remember what became of a document under this version of its parser."""
        with self._index() as db:
            db.execute(
                "update payloads set outcome = ?, reason = ?, version = ? where payload_id = ?",
                (outcome, reason, version, payload_id),
            )

    def checked(self, url: str, at: dt.datetime) -> None:
        """The source answered 304 for this url: what we hold is still current."""
        with self._index() as db:
            db.execute(
                "update payloads set checked_at = max(checked_at, ?) where payload_id = "
                "(select payload_id from payloads where url = ? order by retrieved_at desc limit 1)",
                (_text(at), url),
            )

    def validators(self, url: str) -> tuple[str | None, str | None] | None:
        """(etag, last_modified) of the newest document kept from this url, for a conditional request."""
        newest = max(self._select("url = ?", (url,)), key=lambda k: k.retrieved_at, default=None)
        return (newest.etag, newest.last_modified) if newest else None

    def open(self, kept: Kept) -> BinaryIO:
        """The raw bytes as a stream. Raises `WarehouseError` when the blob is gone."""
        path = self._blob(kept.source, kept.payload_sha256)
        try:
            return zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True)
        except FileNotFoundError:
            raise WarehouseError(
                f"the archive has lost {kept.payload_sha256[:12]}… of {kept.source}; fetch or load it again"
            ) from None

    def _read_side_files(self, db: sqlite3.Connection) -> None:
        """Fill an index that was lost. What a file says of its document stands beside it."""
        sides = [json.loads(side.read_text()) for side in self.root.rglob("*.json")]
        marks = ",".join("?" * len(_names()))
        rows = [[side[name] for name in _names()] for side in sides]
        db.executemany(f"insert or ignore into payloads ({_COLUMNS}) values ({marks})", rows)

    def _blob(self, source: str, digest: str) -> Path:
        return self.root / source / digest[:2] / f"{digest}.zst"

    def _write_blob(self, document: Document) -> tuple[Path, str, int]:
        folder = self.root / document.source
        folder.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        part = folder / f".part-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with part.open("wb") as raw, zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as out:
                while chunk := document.body.read(CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            blob = self._blob(document.source, digest.hexdigest())
            blob.parent.mkdir(parents=True, exist_ok=True)
            part.replace(blob)
        finally:
            part.unlink(missing_ok=True)
        return blob, digest.hexdigest(), size

    def _flags(self, db: sqlite3.Connection, document: Document, blob: Path, size: int) -> Iterator[str]:
        """Signs that the document is not what it should be; it is kept all the same, and the parser decides."""
        if size == 0:
            yield "empty"
            return
        with zstandard.ZstdDecompressor().stream_reader(blob.open("rb"), closefd=True) as stream:
            head = stream.read(512).lstrip().lower()
        if head.startswith((b"<!doctype html", b"<html")) and "html" not in document.media_type:
            yield "html where data was due"
        last = db.execute(
            "select size_bytes from payloads where source = ? and stream = ? order by retrieved_at desc limit 1",
            (document.source, document.stream),
        ).fetchone()
        if last and last[0] and abs(size / last[0] - 1) > SIZE_JUMP:
            yield f"size changed from {last[0]} to {size} bytes"

    def _select(self, where: str, values: tuple[object, ...]) -> Iterator[Kept]:
        with self._index() as db:
            rows = db.execute(
                f"select {_COLUMNS} from payloads where {where} order by retrieved_at, payload_id", values
            ).fetchall()
        for row in rows:
            record = dict(zip(_names(), row, strict=True))
            record["status"] = record.pop("http_status")
            record["meta"] = json.loads(record["meta"])
            for name in ("retrieved_at", "checked_at"):
                record[name] = dt.datetime.fromisoformat(record[name])
            yield Kept(**record)

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / "index.sqlite"
        is_new = not path.exists()
        db = sqlite3.connect(path, timeout=60)
        try:
            try:
                db.execute("pragma journal_mode = wal")
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                raise WarehouseError(
                    f"{path} is damaged ({error}); move it away and run again: it is made anew from the archive"
                ) from error
            db.execute(
                f"create table if not exists payloads ({_COLUMNS.replace('payload_id', 'payload_id primary key', 1)})"
            )
            with db:
                if is_new:
                    self._read_side_files(db)
                yield db
        finally:
            db.close()


def _names() -> list[str]:
    return _COLUMNS.split(", ")


def _payload_id(source: str, url: str, digest: str, meta: Mapping[str, str]) -> str:
    text = "\0".join((source, url, digest, json.dumps(dict(meta), sort_keys=True)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _text(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat(timespec="microseconds")


def _write_atomic(path: Path, text: str) -> None:
    part = path.with_suffix(f".part{os.getpid()}")
    part.write_text(text)
    part.replace(path)
