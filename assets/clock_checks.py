"""Clocks of nodes: a segment whose readings lie in the future, or before GPUs of today, is held back for a person.

Belongs here: judging a segment's span, as its seal tells it, by our own clock. Does not belong here: one sample (a
clock that steps within a segment keeps every reading; the roll-up invents no energy from it), rows of documents
(`warehouse.quality.sample_times`).

One node with a wrong clock would make its cluster's newest reading, and by it "the last 24 hours" of every mart.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sources.telemetry.spool_format import SEAL, SEAL_MAGIC, Seal
from warehouse.quality.batches import Outcome
from warehouse.quality.sample_times import EARLIEST, MOST_AHEAD

TOLD_AHEAD: Final = dt.timedelta(seconds=30)
SECOND_US: Final = 1_000_000


def now_us() -> int:
    """Our own clock in µs."""
    return time.time_ns() // 1000


def clock_problem(path: Path) -> str:
    """Why the clock behind a sealed segment cannot be right: one line, or empty text."""
    seal = _seal(path)
    if seal is None or not seal.last_us:
        return ""
    first, last = _at(seal.first_us), _at(seal.last_us)
    ahead = dt.timedelta(microseconds=seal.last_us - now_us())
    if ahead > MOST_AHEAD:
        return f"the node's clock is ahead: readings up to {last:%Y-%m-%d %H:%M} UTC, {_said(ahead)} from now"
    if first < EARLIEST:
        return f"the node's clock had no time: readings from {first:%Y-%m-%d}"
    return ""


def on_time(spans: Iterable[tuple[dt.datetime, dt.datetime] | None]) -> Outcome:
    """A warning where readings that land lie after our own time: some node's clock runs ahead, or ours behind."""
    newest = max((span[1] for span in spans if span), default=None)
    ahead = dt.timedelta() if newest is None else newest - _at(now_us())
    is_past = ahead <= TOLD_AHEAD
    return Outcome(
        f"no reading lies more than {TOLD_AHEAD.total_seconds():.0f} s after its arrival",
        "warning",
        passed=is_past,
        unexpected_count=None,
        sample="" if is_past else f"the newest is {ahead.total_seconds():.0f} s ahead: compare the nodes' clocks",
    )


def _seal(path: Path) -> Seal | None:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < SEAL.size:
                return None
            file.seek(size - SEAL.size)
            magic, *rest = SEAL.unpack(file.read(SEAL.size))
    except FileNotFoundError:  # another process took it
        return None
    seal = Seal(*rest)
    return seal if magic == SEAL_MAGIC and seal.length == size - SEAL.size else None


def _at(us: int) -> dt.datetime:
    latest = (dt.datetime.max.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
        seconds=1
    )
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=min(us // SECOND_US, latest))


def _said(span: dt.timedelta) -> str:
    hours = span / dt.timedelta(hours=1)
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"  # noqa: PLR2004 - two days
