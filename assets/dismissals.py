"""Dismissals: a person sets a refused document or batch aside, so that it no longer counts as a failure.

Belongs here: what may be dismissed, the append-only record of it, and what is dismissed now. Does not belong here:
refusing (`landing.py`, `street.py`), output. The raw bytes stay in the archive whatever is decided.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from warehouse.archive import Archive, Kept
from warehouse.errors import WarehouseError
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.ledger import copy_commits
from warehouse.schema.declare import lake_schema
from warehouse.schema.ops import DismissalRecord, LoadRecord

REFUSED = ("blocked", "unreadable")
SHORTEST = 8  # digits of a hash; fewer would name more than one document sooner or later


@dataclass(frozen=True, slots=True)
class Subject:
    """One refused thing: a document (by payload id) or a load (by its id), and why it was refused."""

    kind: str
    subject_id: str
    source: str
    stream: str
    url: str
    payload_sha256: str | None
    refusal: str

    @property
    def name(self) -> str:
        """As a person knows it."""
        return self.url if self.kind == "document" else f"load {self.subject_id}"


def dismissed(lake: Lake) -> dict[str, str]:
    """Documents (payload ids) and loads that are set aside now, each with the reason a person gave."""
    if not lake.exists(DismissalRecord):
        return {}
    newest = lake.scan(DismissalRecord).sort("decided_at").group_by("subject_id").agg(pl.all().last())
    rows = newest.filter(pl.col("decision") == "dismissed").select("subject_id", "reason").collect()
    return dict(rows.iter_rows())


def refused_documents(home: Home, digits: str) -> list[Subject]:
    """Refused documents whose SHA-256 begins with `digits`. Raises `WarehouseError` when that names none, or several."""
    digits = digits.lower()
    if len(digits) < SHORTEST or set(digits) - set("0123456789abcdef"):
        raise WarehouseError(f"{digits!r} is no SHA-256; give at least {SHORTEST} of its hex digits")
    named = [k for k in Archive(home.archive).starting_with(digits) if k.payload_sha256.startswith(digits)]
    if not named:
        raise WarehouseError(f"no document of the archive has a SHA-256 that begins with {digits}; see ops.payloads")
    if len({k.payload_sha256 for k in named}) > 1:
        raise WarehouseError(f"{digits} begins the SHA-256 of several documents; give more digits")
    refused = [k for k in named if k.outcome in REFUSED]
    if not refused:
        raise WarehouseError(
            f"{named[0].url} of {named[0].source} is {named[0].outcome}; only a refused document can be dismissed"
        )
    return [_document(k) for k in refused]


def _document(kept: Kept) -> Subject:
    return Subject("document", kept.payload_id, kept.source, kept.stream, kept.url, kept.payload_sha256, kept.reason)


def refused_load(home: Home, load_id: str) -> list[Subject]:
    """The blocked load of this id. Raises `WarehouseError` when there is none."""
    lake = Lake(home.lake)
    copy_commits(lake)
    blocked = lake.scan(LoadRecord).filter(pl.col("load_id") == load_id, pl.col("status") == "blocked").collect()
    if blocked.is_empty():
        raise WarehouseError(f"no blocked load has the id {load_id!r}; `almanac check` names it, and so does ops.loads")
    return [Subject("load", load_id, blocked["source"][0], "", "", None, "; ".join(blocked["reason"].unique()))]


def decide(home: Home, subjects: Sequence[Subject], decision: str, reason: str) -> list[Subject]:
    """Record `dismissed` or `restored` for each subject that is not so already; returns those that changed."""
    lake = Lake(home.lake)
    changed: list[Subject] = []

    def prepare(_handle: object, _todo: list[str]) -> tuple[pl.DataFrame, Load] | None:
        now = dismissed(lake)
        changed[:] = [s for s in subjects if (s.subject_id in now) != (decision == "dismissed")]
        if not changed:
            return None
        return _rows(changed, decision, reason), Load("", "dismissal", Counts(len(changed), len(changed)))

    lake.commit(DismissalRecord, [], prepare)
    return changed


def _rows(subjects: Sequence[Subject], decision: str, reason: str) -> pl.DataFrame:
    at = dt.datetime.now(dt.UTC)
    schema = lake_schema(DismissalRecord)
    rows = [
        {
            "subject_id": s.subject_id,
            "decided_at": at,
            "kind": s.kind,
            "decision": decision,
            "reason": reason,
            "source": s.source,
            "stream": s.stream,
            "url": s.url,
            "payload_sha256": s.payload_sha256,
            "refusal": s.refusal,
        }
        for s in subjects
    ]
    return pl.DataFrame(rows, schema=schema)
