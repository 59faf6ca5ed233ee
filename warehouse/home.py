"""ALMANAC_HOME: where everything a run keeps lies on disk.

Belongs here: paths and whether they can be written. Does not belong here: what is in them.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from warehouse.errors import WarehouseError

_ODD = re.compile(r"[^A-Za-z0-9/\-_.~!$&'()*+,;=:@]")  # what an address writes as %20 and the like
FOLDERS = ("spool", "inbox", "archive", "lake", "quarantine", "report", "dagster")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder layout of one installation. Readers never create anything; `prepare` does."""

    root: Path

    @classmethod
    def at(cls, path: str | Path | None) -> Home:
        """The home at `path`, else `$ALMANAC_HOME`, else `./almanac-home`; always absolute."""
        return cls(Path(path or os.environ.get("ALMANAC_HOME") or "almanac-home").absolute())

    def prepare(self) -> Home:
        """Make the folders. Raises `WarehouseError` when the place cannot be written, or its name not be read back."""
        self._refuse_odd_names()
        try:
            for name in FOLDERS:
                (self.root / name).mkdir(parents=True, exist_ok=True)
            probe = self.root / f".write-probe-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise WarehouseError(
                f"cannot write in {self.root}: {error.strerror or error}; choose another place with --home"
            ) from error
        return self

    def _refuse_odd_names(self) -> None:
        """The lake tells its files as addresses, and what reads them takes `a%20b` for the name of a folder."""
        if odd := sorted(set(_ODD.findall(str(self.root)))):
            raise WarehouseError(
                f"the path {self.root} cannot hold a lake: its files would not be found again for {' '.join(map(repr, odd))} "
                "in it; choose a place named with plain letters, digits, - _ and . with --home"
            )

    @property
    def spool(self) -> Path:
        """Segments written by an agent on this machine."""
        return self.root / "spool"

    @property
    def inbox(self) -> Path:
        """Segments and files shipped from elsewhere."""
        return self.root / "inbox"

    @property
    def archive(self) -> Path:
        """Raw bytes of every public source."""
        return self.root / "archive"

    @property
    def lake(self) -> Path:
        """Delta tables: the truth."""
        return self.root / "lake"

    @property
    def quarantine(self) -> Path:
        """Documents that could not be read at all."""
        return self.root / "quarantine"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.root / "report"

    @property
    def dagster(self) -> Path:
        """Run history of the scheduler."""
        return self.root / "dagster"

    @property
    def database(self) -> Path:
        """The published file that analysts open."""
        return self.root / "warehouse.duckdb"

    def published(self) -> Path:
        """The published file. Raises `WarehouseError` where nothing has been published yet."""
        if not self.database.exists():
            raise WarehouseError(f"{self.database} does not exist yet; run `almanac run` first (or give --home)")
        return self.database

    def free_bytes(self) -> int:
        """Free space on the disk that holds the home, or that it would be made on."""
        place = next(p for p in (self.root, *self.root.parents) if p.exists())
        return shutil.disk_usage(place).free
