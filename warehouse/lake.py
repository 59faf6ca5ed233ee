"""The lake: Delta tables on Parquet, the truth.

Belongs here: creating tables from declarations, exactly-once commits, reading back. Does not belong here: what a
row means, whether it is good (the gate), what is published. Every commit carries the rows, the ids of what was
landed (app transactions) and the counts, so that ledger and data cannot disagree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Field as DeltaField
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from sqlmodel import SQLModel

from warehouse.errors import WarehouseError
from warehouse.schema.declare import lake_columns, lake_schema, qualified_name, table_of
from warehouse.transactions import committed, is_overgrown
from warehouse.watermarks import landed_among, marks_for, marks_of

ATTEMPTS = 20
# Commit metadata is the ledger until publish copies it; Delta would clean the log after 30 days.
# What tells of spool segments is forgotten a day after the archive forgets the segments themselves, counted from when
# it was last told: every checkpoint holds it (54 bytes a mark), and each round of ingest reads it.
ID_RETENTION = "interval 8 days"
CONFIGURATION = {
    "delta.logRetentionDuration": "interval 3650 days",
    "delta.setTransactionRetentionDuration": ID_RETENTION,
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the rows of one load in one table. read = landed + rejected + duplicate."""

    read: int = 0
    landed: int = 0
    rejected: int = 0
    duplicate: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """The header of one commit: who, what and how much."""

    load_id: str
    source: str
    counts: Counts
    status: str = "landed"
    reason: str = ""
    payloads: int = 0
    stats: Mapping[str, Any] = field(default_factory=dict)

    def metadata(self) -> dict[str, str]:
        """As commit metadata (text only)."""
        plain = {k: v for k, v in asdict(self).items() if k not in ("counts", "stats")}
        return {
            "almanac": json.dumps({**plain, **asdict(self.counts)}, sort_keys=True),
            "almanac_stats": json.dumps(self.stats, sort_keys=True),
        }


class Lake:
    """All Delta tables under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, model: type[SQLModel]) -> Path:
        """Folder of a table."""
        table = table_of(model)
        return self.root / str(table.schema) / table.name

    def exists(self, model: type[SQLModel]) -> bool:
        """Has anything ever been committed to the table?"""
        path = self.path(model)
        log = path / "_delta_log"
        # A full disk can end the making of a table before its first commit: a log and data both empty are no table.
        return log.is_dir() and any(f.is_file() for at in (log, path) for f in at.rglob("*.*"))

    def open(self, model: type[SQLModel]) -> DeltaTable:
        """A fresh handle; the table is made on first use, and gains columns declared since."""
        path = self.path(model)
        try:
            if not self.exists(model):
                path.mkdir(parents=True, exist_ok=True)
                self._create(model, path)
            table = DeltaTable(str(path))
            stored = {f.name for f in table.schema().fields}
            missing = [f for f in delta_schema(model).fields if f.name not in stored]
            if missing:
                table.alter.add_columns(missing)
                table = DeltaTable(str(path))
            table = _configured(table)
        except (DeltaError, TableNotFoundError, OSError) as error:
            raise WarehouseError(
                f"the table {qualified_name(model)} in {path} cannot be read ({_first_line(error)}); "
                "move that folder away and run again: its rows come back from the archive"
            ) from error
        return table

    def _create(self, model: type[SQLModel], path: Path) -> None:
        info = table_of(model).info
        try:
            DeltaTable.create(
                str(path),
                delta_schema(model),
                mode="error",
                partition_by=list(info["partition_by"]) or None,
                name=qualified_name(model),
                description=table_of(model).comment,
                configuration=CONFIGURATION,
            )
        except (CommitFailedError, DeltaError) as error:
            if not self.exists(model):
                raise
            if "already exists" not in str(error).lower() and not isinstance(error, CommitFailedError):
                raise

    def scan(self, model: type[SQLModel]) -> pl.LazyFrame:
        """The whole table, lazily; empty with the declared schema when it does not exist yet."""
        if not self.exists(model):
            return pl.LazyFrame(schema=lake_schema(model))
        wanted = lake_schema(model)
        frame = pl.scan_delta(self.open(model))
        return frame.select(pl.col(name).cast(kind) for name, kind in wanted.items())

    def landed(self, model: type[SQLModel], ids: Iterable[str]) -> set[str]:
        """Which of these app-transaction ids have been committed."""
        if not self.exists(model):
            return set()
        names = list(ids)
        told = committed(self.path(model), self.open(model).version(), marks_of(names))
        return landed_among(names, told)

    def transaction_version(self, model: type[SQLModel], name: str) -> int | None:
        """The number last committed under an app-transaction id."""
        return self.open(model).transaction_version(name) if self.exists(model) else None

    def commit(
        self,
        model: type[SQLModel],
        ids: Sequence[str],
        prepare: Callable[[DeltaTable, list[str]], tuple[pl.DataFrame, Load] | None],
        *,
        replace: str | None = None,
        versions: Mapping[str, int] | None = None,
    ) -> Load | None:
        """Land exactly once: ask `prepare` for the rows of the ids not yet committed, then commit both together.

        `prepare(handle, open_ids)` gives the rows and the header, or None when nothing is to be written. It runs
        again when another process commits first. `replace` is an SQL predicate whose rows the new ones replace.
        Check and commit go through the same fresh handle: a racing duplicate is then refused by Delta.
        """
        for attempt in range(ATTEMPTS):
            table = self.open(model)
            known = committed(self.path(model), table.version(), ids)
            todo = [i for i in ids if i not in known]
            if ids and not todo:
                return None
            prepared = prepare(table, todo)
            if prepared is None:
                return None
            frame, load = prepared
            marks = [Transaction(i, 1) for i in todo] + [Transaction(k, v) for k, v in (versions or {}).items()]
            properties = CommitProperties(
                custom_metadata=load.metadata(), max_commit_retries=0, app_transactions=marks or None
            )
            try:
                if frame.is_empty() and replace is None:
                    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
                else:
                    write_deltalake(
                        table,
                        frame.select(lake_schema(model).names()),
                        mode="append" if replace is None else "overwrite",
                        predicate=replace,
                        commit_properties=properties,
                    )
            except CommitFailedError:
                time.sleep(min(0.02 * 2**attempt, 1.0))
                continue
            return load
        raise WarehouseError(
            f"{qualified_name(model)}: other processes kept committing first ({ATTEMPTS} attempts); run again"
        )

    def commit_files(
        self,
        model: type[SQLModel],
        ids: Sequence[str],
        adds: Sequence[AddAction],
        load: Load,
        *,
        version: int | None = None,
    ) -> bool:
        """Commit Parquet files already written into the table's folder; False when another process was first.

        version: the table's version that the files were made for, where they depend on it. Numbered ids are told as
        runs (`watermarks.py`); two processes cannot both lengthen one, for Delta refuses whoever read the table before
        the other committed. What was told may be forgotten after `ID_RETENTION`: what comes again so late has to be
        recognised by its rows.
        """
        table = self.open(model)
        if version is not None and table.version() != version:
            return False
        told = committed(self.path(model), table.version(), marks_of(ids))
        if landed_among(ids, told):
            return False
        now_ms = int(time.time() * 1000)
        properties = CommitProperties(
            custom_metadata=load.metadata(),
            max_commit_retries=0,
            app_transactions=[Transaction(mark, number, now_ms) for mark, number in marks_for(ids, told).items()],
        )
        partition_by = list(table_of(model).info["partition_by"]) or None
        try:
            table.create_write_transaction(
                list(adds), "append", table.schema(), partition_by, commit_properties=properties
            )
        except CommitFailedError:
            return False
        self._spare_readers(model, table.version())
        return True

    def _spare_readers(self, model: type[SQLModel], version: int) -> None:
        """A checkpoint where the log has grown long; what was committed stays committed without it."""
        with suppress(DeltaError, OSError):
            if is_overgrown(self.path(model), version):
                DeltaTable(str(self.path(model))).create_checkpoint()

    def history(self, model: type[SQLModel], since: int = -1, limit: int | None = None) -> list[dict[str, Any]]:
        """Commits newer than version `since` that carry our header, oldest first."""
        if not self.exists(model):
            return []
        table = self.open(model)
        newest = table.version()
        if newest <= since:
            return []
        want = min(newest - since, limit or newest - since)
        out = []
        for entry in table.history(want):
            if entry.get("almanac") and int(entry["version"]) > since:
                header = json.loads(entry["almanac"])
                stats = json.loads(entry.get("almanac_stats") or "{}")
                out.append({**header, "stats": stats, "version": int(entry["version"]), "at_ms": entry["timestamp"]})
        return sorted(out, key=lambda e: e["version"])

    def versions(self, models: Iterable[type[SQLModel]]) -> dict[str, int]:
        """Newest version of each table that exists."""
        return {qualified_name(m): self.open(m).version() for m in models if self.exists(m)}


def _configured(table: DeltaTable) -> DeltaTable:
    """The table with the settings of today; one made before they were is given them."""
    have = table.metadata().configuration
    if all(have.get(name) == value for name, value in CONFIGURATION.items()):
        return table
    try:
        table.alter.set_table_properties(dict(CONFIGURATION))
    except CommitFailedError:  # another process did, or committed first: the next one to open it will
        return DeltaTable(table.table_uri)
    return DeltaTable(table.table_uri)


@cache
def delta_schema(model: type[SQLModel]) -> DeltaSchema:
    """The Delta schema of a declaration, with meaning and unit as field metadata."""
    arrow = DeltaSchema.from_arrow(pl.DataFrame(schema=lake_schema(model)).to_arrow().schema)
    columns = {c.name: c for c in lake_columns(model)}
    fields = []
    for one in arrow.fields:
        info = columns[one.name].info
        metadata = {"comment": str(info["meaning"]), **({"unit": info["unit"]} if info["unit"] else {})}
        fields.append(DeltaField(one.name, one.type, nullable=True, metadata=metadata))
    return DeltaSchema(fields)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
