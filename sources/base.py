"""What every source is made of: `Payload`, `Parsed`, `Reject`, the `Source` contract and its errors.

Belongs here: the words that all sources and the street share. Does not belong here: HTTP, parsing, Dagster,
the warehouse. Nothing here imports Polars at run time, because the node agent imports this package.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    import polars as pl

Cadence = Literal["hourly", "daily", "weekly", "monthly", "quarterly", "static"]
Authority = Literal["primary", "curated", "secondary"]
Landing = Literal["append", "snapshot"]


class AlmanacError(Exception):
    """An error a user can act on: one line that says what, where and what to do."""


class ParseError(AlmanacError):
    """The payload as a whole cannot be read; nothing of it lands and its bytes go to quarantine."""


class FetchError(AlmanacError):
    """A source could not be fetched; the archive and the last good data stay in use."""


class OfflineError(FetchError):
    """There is no network: raised at once for every later request of the run."""


class NotConfiguredError(FetchError):
    """The source needs something only the operator has (a contact, a key): it is skipped, which is no failure."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Raw bytes of one document as it was received, with where and when.

    `stream` names the series the document belongs to (a CIK, a provider, a round and directory): batches are
    compared only with the last batch of the same source and stream. `body` is the bytes, or a function that
    opens them when they are too large to hold.
    """

    source: str
    url: str
    retrieved_at: dt.datetime
    media_type: str
    body: bytes | Callable[[], BinaryIO]
    stream: str = ""
    status: int = 200
    etag: str | None = None
    last_modified: str | None = None
    meta: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> BinaryIO:
        """A fresh binary stream over the body."""
        return io.BytesIO(self.body) if isinstance(self.body, bytes) else self.body()

    def read(self) -> bytes:
        """The whole body in memory."""
        if isinstance(self.body, bytes):
            return self.body
        with self.body() as stream:
            return stream.read()

    def sha256(self) -> str:
        """Hex SHA-256 of the body: the name under which the archive keeps it."""
        digest = hashlib.sha256()
        with self.open() as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Reject:
    """One record that could not become a row: kept in quarantine with its reason and its raw form."""

    table: str
    rule: str
    reason: str
    raw: str
    locator: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a payload says: one Polars frame for each table name, and the records that were refused.

    Frames carry the columns of the table except those the street adds itself (`source`, `payload_sha256`,
    `retrieved_at`); a missing nullable column means null, an unknown column is schema drift and blocks.
    """

    frames: Mapping[str, pl.DataFrame]
    rejects: Sequence[Reject] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer to a request, bounded in size."""

    url: str
    status: int
    body: bytes
    media_type: str
    retrieved_at: dt.datetime
    etag: str | None = None
    last_modified: str | None = None


class Web(Protocol):
    """The one way to the network. `None` means 304: what the archive holds is still current."""

    def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        conditional: bool = True,
        max_bytes: int | None = None,
    ) -> Response | None: ...

    def post(
        self, url: str, *, json: object, headers: Mapping[str, str] | None = None, max_bytes: int | None = None
    ) -> Response: ...


class Source(Protocol):
    """One public or local source. Instances are stateless; everything else in the house follows from these.

    `version` is the parser's: raise it when the same bytes give other rows, and the street reads the archive
    again. `landing`: `append` keeps every vintage; `snapshot` means each payload states the whole of what the
    source knows for a table, so the newest replaces the slice. `off_reason` is empty when the source may be
    fetched; otherwise it says why it is off by default (terms, unverified format, a missing key). `options` names what `read` takes beside `observed_at`
    (`sources/options.py` says how each is written).
    """

    @property
    def name(self) -> str: ...
    @property
    def publisher(self) -> str: ...
    @property
    def homepage(self) -> str: ...
    @property
    def licence(self) -> str: ...
    @property
    def terms(self) -> str: ...
    @property
    def cadence(self) -> Cadence: ...
    @property
    def tables(self) -> tuple[str, ...]: ...
    @property
    def authority(self) -> Authority: ...
    @property
    def landing(self) -> Landing: ...
    @property
    def version(self) -> int: ...
    @property
    def off_reason(self) -> str: ...
    @property
    def options(self) -> tuple[str, ...]: ...
    @property
    def may_republish(self) -> bool: ...

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Yield what is new at the source. Raises `FetchError`."""
        ...

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Yield payloads from local files or folders. `options` holds those that the source names, as text."""
        ...

    def parse(self, payload: Payload) -> Parsed:
        """Pure: bytes to frames. Raises `ParseError` when the document as a whole is unreadable."""
        ...
