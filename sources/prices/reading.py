"""What every price source needs to read a document: exact numbers, a moment, local files, refusals in one line.

Belongs here: JSON with amounts as text, when a list was seen, the shared part of a source. Does not belong here:
the shape of any provider's document.
"""

from __future__ import annotations

import calendar
import datetime as dt
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from sources.base import (
    Authority,
    Cadence,
    Landing,
    NotConfiguredError,
    Parsed,
    ParseError,
    Payload,
    Reject,
    Response,
    Web,
)
from sources.http_errors import StatusError
from sources.local_files import local_files, payload_of
from sources.prices.offers import TABLE
from sources.texts import decoded

NOT_FOUND = 404
_DAY = re.compile(r"(?<!\d)(20\d\d)-(\d\d)-(\d\d)(?!\d)")
_MONTH = re.compile(r"(?<!\d)(20\d\d)-(\d\d)(?![\d-])")
_YEAR = re.compile(r"(?<![\d-])(20\d\d)(?![\d-])")
# What a document of another shape makes a reader stumble over.
BROKEN = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    zipfile.BadZipFile,
    pl.exceptions.PolarsError,
)
_MEDIA = {".json": "application/json", ".csv": "text/csv", ".html": "text/html", ".xml": "application/xml"}


@dataclass(frozen=True, slots=True)
class Moment:
    """When a list was seen. `flags` says `month_precision` when only the month or year is known (then its end)."""

    at: dt.datetime
    flags: str = ""


@dataclass(frozen=True)
class PriceSource:
    """The words every price source shares; a provider adds `fetch` and `shape`."""

    name: str
    publisher: str
    homepage: str
    licence: str = "price list of the provider; facts only"
    terms: str = "public price list"
    cadence: Cadence = "daily"
    tables: tuple[str, ...] = (TABLE,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version: int = 1
    off_reason: str = ""
    options: tuple[str, ...] = ()
    may_republish: bool = False

    @property
    def provider(self) -> str:
        """The part of the name after `gpu-prices/`."""
        return self.name.partition("/")[2]

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local files and folders, one payload a file; a `.meta.json` beside a file describes it and is skipped."""
        meta = {"observed_at": options["observed_at"]} if options.get("observed_at") else {}
        for file, name in local_files(paths):
            if name.endswith(".meta.json") and len(list(file.parent.glob(f"{file.name[:-10]}.*"))) > 1:
                continue
            stream = re.sub(r"[_-]*\d{4}-\d\d(?:-\d\d)?.*", "", file.stem) or file.stem
            media = _MEDIA.get(file.suffix, "text/plain")
            yield payload_of(self.name, file, name, options, media_type=media, meta=meta, stream=f"file/{stream}")

    def payload(self, answer: Response, stream: str, body: bytes | None = None) -> Payload:
        """A fetched answer as a payload of this source."""
        return Payload(
            source=self.name,
            url=answer.url,
            retrieved_at=answer.retrieved_at,
            media_type=answer.media_type,
            body=answer.body if body is None else body,
            stream=stream,
            status=answer.status,
            etag=answer.etag,
            last_modified=answer.last_modified,
        )

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Overridden by sources that can be fetched; a source read from files only has nothing new."""
        yield from ()

    def parse(self, payload: Payload) -> Parsed:
        """What the document says. Raises `ParseError`, also when a field is gone or holds another kind of value."""
        try:
            return self.shape(payload)
        except BROKEN as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ParseError(f"{payload.url}: the format changed ({reason})") from error

    def shape(self, payload: Payload) -> Parsed:
        """The provider's own reader."""
        raise ParseError(f"{payload.url}: {self.name} has no reader for it")


def get_if_there(web: Web, url: str) -> Response | None:
    """A document that may be missing (404): None then, as when it is unchanged. Raises `FetchError` for the rest."""
    try:
        return web.get(url)
    except StatusError as error:
        if error.status == NOT_FOUND:
            return None
        raise


def key_from(variable: str) -> str:
    """A key from the environment. Raises `NotConfiguredError` when there is none."""
    if key := os.environ.get(variable):
        return key
    raise NotConfiguredError(f"needs a key: set {variable}")


def exact_json(payload: Payload) -> Any:
    """The document with every number that has a fraction as text. Raises `ParseError`."""
    body = text_of(payload)
    try:
        return json.loads(body, parse_float=str)
    except json.JSONDecodeError as error:
        raise ParseError(f"{payload.url}: no JSON, or cut off ({error}): fetch it again") from None


def text_of(payload: Payload, *, html: bool = False) -> str:
    """The document as text. Raises `ParseError` when it is empty, not UTF-8, or HTML where data was due."""
    try:
        text = decoded(payload.read(), "strict")
    except UnicodeDecodeError as error:
        raise ParseError(
            f"{payload.url}: neither UTF-8 nor UTF-16 text ({error.reason} at byte {error.start})"
        ) from None
    start = text[:600].lstrip().lower()
    if not start:
        raise ParseError(f"{payload.url}: empty; fetch it again")
    if not html and start.startswith(("<!doctype html", "<html")):
        raise ParseError(f"{payload.url}: an HTML page where data was due (login, challenge or error page)")
    return text


def head_of(payload: Payload, size: int = 4096) -> str:
    """The first characters of the document, by which its shape is told; leading blanks and byte order mark removed."""
    with payload.open() as stream:
        return decoded(stream.read(size)).lstrip("\ufeff \r\n\t")


def each_record(
    items: Iterable[Any], build: Callable[[Any], Iterable[dict[str, Any] | Reject]], where: str
) -> tuple[list[dict[str, Any]], list[Reject]]:
    """Quotations of each record, and rejects for records of another shape, so that one does not cost the others.

    Raises `ParseError` when no record can be read: then the format has changed.
    """
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for number, item in enumerate(items):
        try:
            found = list(build(item))
        except BROKEN as error:
            reason = f"a field is missing or of another kind ({type(error).__name__}: {error})"
            found = [Reject(TABLE, "record", reason, str(item), f"record {number}")]
        rows += [row for row in found if not isinstance(row, Reject)]
        rejects += [row for row in found if isinstance(row, Reject)]
    if not rows and any(reject.rule == "record" for reject in rejects):
        raise ParseError(f"{where}: the format changed: {rejects[0].reason}")
    return rows, rejects


def csv_frame(payload: Payload, columns: Sequence[str]) -> pl.DataFrame:
    """A CSV with every cell as text. Raises `ParseError` when a column is missing or the file is cut off."""
    try:
        frame = pl.read_csv(io.StringIO(text_of(payload)), infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise ParseError(f"{payload.url}: not a CSV that can be read ({str(error).splitlines()[0]})") from None
    if missing := [name for name in columns if name not in frame.columns]:
        raise ParseError(f"{payload.url}: columns {', '.join(missing)} are missing: the format changed")
    return frame


def seen_at(payload: Payload, stated: str | None = None) -> Moment:
    """When the list was seen: as the document states, as the caller says, by its file name, or when it was fetched.

    Raises `ParseError` for a local file that says nothing about its time.
    """
    if said := stated or payload.meta.get("observed_at"):
        return Moment(instant(said, payload.url))
    if not payload.url.startswith("file:"):
        return Moment(payload.retrieved_at)
    name = PurePosixPath(payload.url[5:]).name
    if day := _DAY.search(name):
        return Moment(instant("-".join(day.groups()), payload.url))
    if month := _MONTH.search(name):
        year, number = map(int, month.groups())
        last = calendar.monthrange(year, number)[1]
        return Moment(dt.datetime(year, number, last, tzinfo=dt.UTC), "month_precision")
    if only := _YEAR.search(name):
        return Moment(dt.datetime(int(only.group(1)), 12, 31, tzinfo=dt.UTC), "month_precision")
    raise ParseError(f"{payload.url}: the file does not say when it was seen: give --observed-at")


def instant(text: str, where: str) -> dt.datetime:
    """An ISO time or day as UTC. Raises `ParseError`."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ParseError(f"{where}: {text!r} is not a time") from None
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
