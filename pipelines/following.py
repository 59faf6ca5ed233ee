"""`almanac ingest --follow`: look for sealed segments, land them, publish, tell Dagster; until told to stop.

Belongs here: when a round happens, what a failure of it costs, how it ends. Does not belong here: ingest, roll-ups
and publish themselves (`assets`), the events' content (`assets/runless.py`). A segment that waits is never lost:
whatever fails is tried again, later and later up to five minutes.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assets.ingest import ingest
from assets.maintenance import maintain, tidy
from assets.publish import publish_home
from assets.rollup import roll_up
from assets.runless import Rounds
from sources.base import AlmanacError
from sources.telemetry.shipping import collect_from, place_of
from warehouse.errors import WarehouseError
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.publish import Published, published_versions
from warehouse.schema import tables

# Whose message says enough. SQLite's: Dagster keeps its events there, and a full disk fills that too.
FORESEEN = (OSError, WarehouseError, AlmanacError, sqlite3.Error)
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0
TELL_EVERY_S = 60.0  # events of many rounds are summed: at 35 KB a time, ten thousand rounds a day would be 350 MB
TIDY_EVERY = 64  # rounds; each leaves a small file in some tables


@dataclass(slots=True)
class Patience:
    """When something that failed is tried again: twice as late after each failure."""

    failures: int = 0
    not_before: float = 0.0

    @property
    def due(self) -> bool:
        """Is it time to try?"""
        return time.monotonic() >= self.not_before

    def failed(self) -> float:
        """Seconds until the next attempt."""
        wait = float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**self.failures))
        self.failures += 1
        self.not_before = time.monotonic() + wait
        return wait

    def worked(self) -> None:
        """Forget the failures."""
        self.failures, self.not_before = 0, 0.0


@dataclass(slots=True)
class Follower:
    """Rounds over `folders`, into which segments of `urls` are brought first. `say` and `complain` take one line."""

    home: Home
    folders: Sequence[Path]
    urls: Sequence[str]
    accept: bool
    say: Callable[[str], None]
    complain: Callable[[str], None]
    failed: bool = False
    _owed: bool = False
    _waiting: set[Path] = field(default_factory=set)
    _published: Published | None = None
    _said: set[str] = field(default_factory=set)
    _landed: int = 0
    _day: dt.date = field(default_factory=lambda: dt.datetime.now(dt.UTC).date())
    _untold: Rounds = field(default_factory=Rounds)
    _told_at: float = float("-inf")
    _patience: dict[str, Patience] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)
    _instance: Any = None

    def run(self, every_s: float, stop: threading.Event) -> int:
        """Follow until `stop` is set; a round that has begun is finished. Exit code: 1 if anything was refused."""
        _warm_up()
        places = [place_of(url) for url in self.urls]
        self._owed = not self.home.database.exists() or self._behind()
        self.say(f"following {', '.join(map(str, [*self.urls, *self.folders]))}; a look every {every_s:g} s")
        with self._open:
            while not stop.is_set():
                for url, place in zip(self.urls, places, strict=True):
                    self._try(url, lambda place=place: collect_from(place, self.home.inbox))  # type: ignore[misc]
                self._try("this round", self._round)
                self._try("telling Dagster", self._tell)
                self._try("maintenance", self._maintain)
                stop.wait(every_s)
            self._patience.pop("telling Dagster", None)
            self._told_at = float("-inf")
            self._try("telling Dagster", self._tell)
        unfinished = self._patience.get("this round", Patience()).failures > 0
        return 1 if self.failed or unfinished else 0

    def _try(self, what: str, act: Callable[[], object]) -> None:
        patience = self._patience.setdefault(what, Patience())
        if not patience.due:
            return
        try:
            act()
        except Exception as error:  # noqa: BLE001 - whatever it was, segments wait and the next attempt may work
            told = _telling(error)
            if not isinstance(told, FORESEEN):
                traceback.print_exc()
            self.complain(f"{what} failed: {_text(told)}; trying again in {patience.failed():.0f} s")
        else:
            if patience.failures:
                self.complain(f"{what} works again after {patience.failures} failed attempts")
            patience.worked()

    def _round(self) -> None:
        sealed = _sealed(self.folders)
        arrived = [at for path, at in sealed.items() if path not in self._waiting]
        if not arrived and not self._owed:
            return
        before, self._owed = self._owed, True
        report = ingest(self.home, self.folders, accept=self.accept)
        self._waiting = {path for path in sealed if path.exists()}
        lines = list(report.complaints())
        for line in lines:
            if line not in self._said:  # what waits for a newer version is told in every round
                self.complain(line)
        self._said = set(lines)
        self.failed |= report.failed or bool(report.damage)
        if not before and not report.segments:  # another process took them, and publishes them
            self._owed = False
            return
        rolled = roll_up(self.home)
        published = self._published = publish_home(self.home, self._published)
        self._owed = False
        if report.segments:
            seconds = max(0.0, time.time() - min(arrived)) if arrived else 0.0
            when = f", queryable {seconds:.1f} s after sealing" if report.rows_landed else ""
            self.say(f"{report.segments} segments, {report.rows_landed:,} new rows{when}")
            self._untold.add(report, rolled, published, seconds)
            self._landed += 1

    def _tell(self) -> None:
        """Events for Dagster, at most once in `TELL_EVERY_S`; without a round that landed something, none."""
        if not self._untold.count or time.monotonic() - self._told_at < TELL_EVERY_S:
            return
        if self._instance is None:
            self._instance = self._open.enter_context(_open_instance(self.home))
        for event in self._untold.events():
            self._instance.report_runless_asset_event(event)
        self._untold = Rounds()
        self._told_at = time.monotonic()

    def _maintain(self) -> None:
        """Small files are merged now and then; once a day, when it is over, what the nightly job would do."""
        today = dt.datetime.now(dt.UTC).date()
        if today != self._day:
            maintain(self.home)
            self._day = today
        elif self._landed >= TIDY_EVERY:
            tidy(self.home)
            self._landed = 0

    def _behind(self) -> bool:
        """Did a process die after it landed rows and before it published them?"""
        return published_versions(self.home) != Lake(self.home.lake).versions(tables().values())


def _sealed(folders: Sequence[Path]) -> dict[Path, float]:
    """Sealed segments and when each was written last."""
    found: dict[Path, float] = {}
    for path in (path for folder in folders for path in folder.rglob("*.seg")):
        with suppress(FileNotFoundError):  # another process may take it meanwhile
            found[path] = path.stat().st_mtime
    return found


def _warm_up() -> None:
    """The gate's imports and its first run take seconds: better now than when the first segment waits."""
    import tempfile

    import polars as pl

    from warehouse.quality.gx import validate_files
    from warehouse.quality.suite import suite_of
    from warehouse.schema.declare import lake_schema
    from warehouse.schema.telemetry import GpuSample

    with tempfile.TemporaryDirectory(prefix="almanac-gate-") as folder:
        path = Path(folder) / "none.parquet"
        pl.DataFrame(schema=lake_schema(GpuSample)).write_parquet(path)
        validate_files([path], suite_of(GpuSample))


def _open_instance(home: Home) -> Any:
    import dagster as dg

    from pipelines.main_job import instance_ref

    return dg.DagsterInstance.from_ref(instance_ref(home))


def _telling(error: BaseException) -> BaseException:
    """The error itself where its message says enough, else the one beneath it: libraries wrap what happened."""
    while not isinstance(error, FORESEEN) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _text(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}"
    return " ".join(f"{'' if isinstance(error, FORESEEN) else type(error).__name__ + ': '}{error}".split())[:400]
