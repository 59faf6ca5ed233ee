"""What every telemetry input shares: where and when a capture was taken, and the base class of the sources.

Belongs here: options, stamps, masks for personal data. Does not belong here: any tool's format.
"""

from __future__ import annotations

import datetime as dt
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Web
from sources.local_files import local_files, payload_of
from sources.texts import decoded

UTC_US = pl.Datetime("us", "UTC")
UNKNOWN = "unknown"
PLACE = ("cluster", "node")

IPV4 = r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b"
EMAIL = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
HOME = r"(/home/|/Users/|\\Users\\)[^/\\\s]+"


@dataclass(frozen=True, slots=True)
class Where:
    """Where and when a capture was taken. `observed_at` is None when nobody said."""

    cluster: str
    node: str
    observed_at: dt.datetime | None
    options: Mapping[str, str]

    @classmethod
    def of(cls, payload: Payload) -> Where:
        """Read from the payload's meta. Raises `ParseError` for a time that is none."""
        meta = payload.meta
        return cls(
            meta.get("cluster") or UNKNOWN,
            meta.get("node") or UNKNOWN,
            instant(meta["observed_at"], "observed-at") if meta.get("observed_at") else None,
            meta,
        )

    def moment(self, what: str) -> dt.datetime:
        """When the capture was taken. Raises `ParseError` if nobody said."""
        if self.observed_at is None:
            raise ParseError(f"{what} carries no time of its own: say when it was taken with --observed-at")
        return self.observed_at

    def instant_of_boot(self) -> dt.datetime | None:
        """When the node started, if it was said: turns seconds since boot into times."""
        text = self.options.get("boot_at")
        return instant(text, "boot_at") if text else None

    def clock_ahead(self) -> dt.timedelta:
        """How far the node's local time is ahead of UTC, by the option utc_offset (+02:00); else local counts as UTC.

        Raises `ParseError` for an offset that is none.
        """
        text = self.options.get("utc_offset")
        if not text:
            return dt.timedelta()
        found = re.fullmatch(r"([+-])(\d{2}):?(\d{2})", text)
        if not found:
            raise ParseError(f"-o utc_offset={text} is no offset: write it as +02:00")
        return (1 if found[1] == "+" else -1) * dt.timedelta(hours=int(found[2]), minutes=int(found[3]))


def instant(text: str, name: str) -> dt.datetime:
    """An ISO 8601 time; without an offset it is UTC. Raises `ParseError`."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ParseError(f"{name} {text!r} is not a time: write 2026-11-30T12:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)


def text_of(payload: Payload, what: str) -> str:
    """The payload as text. Raises `ParseError` if it is empty or a web page."""
    text = decoded(payload.read()).replace("\r\n", "\n")
    head = text.lstrip()[:200].lower()
    if not head:
        raise ParseError(f"{what}: the file is empty; take the capture again")
    if head.startswith(("<!doctype html", "<html")):
        raise ParseError(f"{what}: a web page stands where the capture was due; take it again")
    return text


def stamped(frame: pl.DataFrame, where: Where, *, time_column: str | None = "sampled_at") -> pl.DataFrame:
    """Add `cluster` and `node` where the frame has none, `is_synthetic`, and the partition `date`."""
    names = set(frame.columns)
    columns: list[pl.Expr] = [pl.lit(value=False).alias("is_synthetic")]
    for name, value in (("cluster", where.cluster), ("node", where.node)):
        given = pl.col(name) if name in names else pl.lit(None, dtype=pl.String)
        columns.append(given.fill_null(value).alias(name))
    if time_column:
        columns.append(pl.col(time_column).dt.date().alias("date"))
    return frame.with_columns(columns)


def metered(frame: pl.DataFrame, where: Where) -> pl.DataFrame:
    """Power readings with `cluster`, `node` (null where not known: a meter may cover many) and `is_synthetic`."""
    return stamped(frame, where, time_column=None).with_columns(pl.col("node").replace(UNKNOWN, None))


def stripped(column: str) -> pl.Expr:
    """The text without host addresses, e-mail addresses and the names of home folders."""
    return (
        pl.col(column)
        .str.replace_all(EMAIL, "<email>")
        .str.replace_all(IPV4, "<ip>")
        .str.replace_all(HOME, "${1}<user>")
    )


def is_address(text: str) -> bool:
    """Whether a host is given as an IP address."""
    return bool(re.fullmatch(IPV4, text)) or text.count(":") > 1


@cache
def table(name: str) -> pl.DataFrame:
    """A map of this package (CSV), all text; empty cells are null. Lines that begin with `#` are remarks."""
    raw = resources.files(__package__).joinpath(name).read_bytes()
    return pl.read_csv(raw, comment_prefix="#", infer_schema=False)


@cache
def accelerator_ids() -> Mapping[str, str]:
    """Accelerator by the name that a driver gives it, from the curated aliases (namespaces of device names)."""
    raw = resources.files("sources").joinpath("curated", "ref.accelerator_aliases.csv").read_bytes()
    frame = pl.read_csv(raw, infer_schema=False).filter(
        pl.col("namespace").is_in(["nvml", "rocm-smi", "npu-smi"]) & pl.col("accelerator_id").is_not_null()
    )
    return dict(zip(frame["raw_name"], frame["accelerator_id"], strict=True))


def with_accelerator(frame: pl.DataFrame, name_column: str = "gpu_name") -> pl.DataFrame:
    """Add `accelerator_id` by the device name; null where the aliases do not know it."""
    known = accelerator_ids()
    return frame.with_columns(
        pl.col(name_column).replace_strict(known, default=None, return_dtype=pl.String).alias("accelerator_id")
    )


class LocalInput(ABC):
    """Base of the sources that read captures from disk: nothing to fetch, one payload for each file."""

    name: ClassVar[str]
    publisher: ClassVar[str]
    homepage: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    media_type: ClassVar[str] = "text/plain"
    suffixes: ClassVar[tuple[str, ...]] = ()
    licence = "the operator's own data"
    terms = "read from files on this machine"
    cadence: Cadence = "hourly"
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = "reads captures from disk: almanac load SOURCE PATH… --observed-at T"
    options: ClassVar[tuple[str, ...]] = PLACE
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: captures come from disk."""
        del web
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each file; the stream is the node it came from."""
        meta = self.stated(options)
        for file, name in local_files(paths, self.suffixes):
            yield payload_of(
                self.name,
                file,
                name,
                options,
                media_type=self.media_type,
                meta={**meta, "file": name},
                stream=f"{meta.get('cluster', UNKNOWN)}/{meta.get('node', name)}",
            )

    def stated(self, options: Mapping[str, str]) -> dict[str, str]:
        """Options that travel with the payload: they are part of what the capture says."""
        return {key: options[key] for key in ("observed_at", *self.options) if options.get(key)}

    @abstractmethod
    def parse(self, payload: Payload) -> Parsed:
        """See `Source.parse`."""


def rows(records: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """A frame of a bounded number of records (the devices of one node), with declared types."""
    return pl.DataFrame(list(records), schema=dict(schema), orient="row", strict=False)
