"""What `almanac doctor` looks at.

Belongs here: looking and advice. Does not belong here: repair.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import polars as pl

from pipelines.lines import short
from pipelines.reader import connect
from sources.registry import all_sources
from warehouse.errors import WarehouseError
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema import tables
from warehouse.schema.ops import QuarantineRecord
from warehouse.schema.telemetry import GpuSample

PACKAGES = ("dagster", "polars", "deltalake", "duckdb", "great-expectations", "httpx", "nvidia-ml-py")
LOW_DISK_BYTES = 2 << 30
REASON_SHOWN = 300
COMMITS_LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: ok, note or bad."""

    state: str
    what: str
    detail: str


def diagnose(home: Home) -> list[Finding]:
    """Everything a first question to support would ask."""
    return [*_packages(), *_home(home), *_lake(home), *_set_aside(home), *_published(home), *_network(), *_gpus()]


def _packages() -> Iterator[Finding]:
    yield Finding("ok", "python", platform.python_version())
    for name in PACKAGES:
        try:
            yield Finding("ok", name, version(name))
        except PackageNotFoundError:
            yield Finding("bad", name, "not installed; pip install '.[warehouse]' in the checkout")


def _home(home: Home) -> Iterator[Finding]:
    if home.root.is_dir():
        try:
            home.prepare()
        except WarehouseError as error:
            yield Finding("bad", "home", str(error))
            return
        yield Finding("ok", "home", str(home.root))
    else:
        yield Finding("note", "home", f"{home.root} does not exist; the first `almanac run` or `load` makes it")
    free = home.free_bytes()
    state = "ok" if free > LOW_DISK_BYTES else "bad"
    yield Finding(state, "disk", f"{free / 1e9:.0f} GB free" + ("" if state == "ok" else "; free some space"))


def _lake(home: Home) -> Iterator[Finding]:
    lake, read = Lake(home.lake), 0
    for model in tables().values():
        try:
            read += bool(lake.versions([model]))
        except WarehouseError as error:
            yield Finding("bad", "lake", str(error))
    yield Finding("ok", "lake", f"{read} tables can be read")


def _set_aside(home: Home) -> Iterator[Finding]:
    """Segments in quarantine/: nothing else speaks of them once the ingest that put them there is over."""
    from assets.ingest_report import accept_command
    from assets.waiting import waiting

    found = waiting([home.quarantine])
    if not found:
        return
    newest = max(found, key=lambda w: (_moved_at(w.path), w.path))
    count = f"{len(found)} segment{'' if len(found) == 1 else 's'}, the newest {newest.path.name}"
    reason = newest.problem or newest.doubt or newest.held or _damage(home, newest.path.name)
    reason = reason or _blocked(home) or "why is not on record any more"
    yield Finding(
        "note",
        "quarantine",
        f"{count}: {short(reason, 'ops.loads and ops.quarantine tell the rest', REASON_SHOWN)}; "
        f"{accept_command(home)} lands what a clock or a jump held "
        "back; delete what is damaged or not wanted",
    )


def _moved_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # landed or deleted meanwhile
        return 0.0


def _damage(home: Home, name: str) -> str:
    lake = Lake(home.lake)
    if not lake.exists(QuarantineRecord):
        return ""
    told = (
        lake.scan(QuarantineRecord)
        .filter(pl.col("rule") == "segment damage", pl.col("locator").str.starts_with(f"{name} at "))
        .select("reason")
        .head(1)
        .collect()
    )
    return f"damaged ({told.item()}); its whole records landed" if told.height else ""


def _blocked(home: Home) -> str:
    """Why the newest batch was held back."""
    history = Lake(home.lake).history(GpuSample, limit=COMMITS_LOOKED_AT)
    return next((str(one["reason"]) for one in reversed(history) if one["status"] == "blocked"), "")


def _published(home: Home) -> Iterator[Finding]:
    if not home.database.exists():
        yield Finding("note", "published file", "none yet; run `almanac run`")
        return
    try:
        with connect(home) as con:
            at, build = con.sql("select published_at, build_id from ops.about").fetchall()[0]
            yield Finding("ok", "published file", f"build {build} of {at:%Y-%m-%d %H:%M} UTC")
            stale = con.sql("select source from ops.sources where stale_after_at < now() order by 1").fetchall()
            for (source,) in stale:
                yield Finding("note", source, "its data is older than its cadence allows")
    except WarehouseError as error:
        yield Finding("bad", "published file", str(error))


def _network() -> Iterator[Finding]:
    contact = os.environ.get("ALMANAC_CONTACT", "")
    detail = "set" if contact else "ALMANAC_CONTACT is not set: EDGAR refuses robots that do not say whom to write to"
    yield Finding("ok" if contact else "note", "contact", detail)
    off = [s.name for s in all_sources().values() if s.off_reason]
    yield Finding(
        "ok", "sources", f"{len(all_sources())} known, {len(off)} off by default (`almanac sources` says why)"
    )


def _gpus() -> Iterator[Finding]:
    from sources.telemetry.agent import gpus_present

    yield Finding(
        "ok", "GPUs", "NVML finds GPUs here" if gpus_present() else "none here; runs show the demonstration cluster"
    )
