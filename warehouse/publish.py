"""Publish: assemble a new `warehouse.duckdb` beside the old one and swap it in.

Belongs here: copying lake tables, building marts, comments, the swap, the marker that tells a held connection it
is stale. Does not belong here: rules of precedence (`bitemporal.py`), SQL of figures (`marts/`), the lake.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
from sqlmodel import SQLModel

from warehouse.archive import Archive
from warehouse.bitemporal import with_versions
from warehouse.ddl import comments, create_table, duckdb_type, published_columns, quoted
from warehouse.errors import WarehouseError
from warehouse.faults import fault_point
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.ledger import copy_commits
from warehouse.marts import Mart, marts
from warehouse.schema import tables
from warehouse.schema.declare import key_of, qualified_name, table_of
from warehouse.schema.ops import PayloadRecord, SourceRecord
from warehouse.views import view_of_files

SCHEMAS = ("ref", "telemetry", "market", "mart", "ops")
# Read by DuckDB 1.4 and later; 2.0's own default is not.
STORAGE_VERSION = "v1.2.0"
MARKER = "published."
LEFTOVER_AFTER = dt.timedelta(hours=6)

Compute = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish made: its id and the number of rows in each table it copied or computed."""

    build_id: str
    rows: dict[str, int]


def publish(
    home: Home, sources: pl.DataFrame, compute: Mapping[str, Compute], since: Published | None = None
) -> Published:
    """Build and swap in a new published file.

    sources: one row for each source, columns of `ops.sources` without the freshness ones. compute: for tables with
    columns computed over the whole table, the function that adds them. Readers see the old file or the new one,
    never a part. since: what this process published before, with the same sources: tables of which the lake has
    nothing newer, and marts that read only such, are then copied from that file if it is still the published one.
    """
    lake = Lake(home.lake)
    copy_commits(lake)
    fault_point("publish:ledger-written")
    _sweep(home)
    # Before anything is copied: what is committed meanwhile may be in the file, but counts as not yet published.
    versions = lake.versions(tables().values())
    now = dt.datetime.now(dt.UTC)
    build_id = f"{now:%Y%m%dT%H%M%S}-{os.urandom(4).hex()}"
    part = home.root / f".publish-{build_id}.duckdb"
    authorities = dict(sources.select("source", "authority").iter_rows())
    rows: dict[str, int] = {}
    try:
        with duckdb.connect() as con:
            con.execute("set TimeZone = 'UTC'")
            same = _attach_same(con, home, versions, since) - compute.keys()
            con.execute(f"attach {quoted(str(part))} as warehouse (storage_version {quoted(STORAGE_VERSION)})")
            con.execute("use warehouse")
            for schema in SCHEMAS:
                con.execute(f"create schema {schema}")
            special = {
                qualified_name(SourceRecord): _with_freshness(lake, home, sources),
                qualified_name(PayloadRecord): Archive(home.archive).everything(),
            }
            con.execute("begin")  # a thousand comments: each would be a commit of its own
            for name, model in tables().items():
                if table_of(model).info["kind"] == "derived":
                    continue
                if name in same and table_of(model).info["publish_as"] == "table":
                    con.execute("; ".join((create_table(model), *comments(model))))
                    rows[name] = _copy(con, name)
                else:
                    rows[name] = _publish_table(con, home, lake, model, authorities, compute, special.get(name))
            for mart in marts():
                name = f"mart.{mart.name}"
                if same and mart.reads <= same:
                    same.add(name)
                rows[name] = _publish_mart(con, mart, is_same=name in same)
            _about(con, home, versions, build_id, now)
            con.execute("commit")
            con.execute("checkpoint warehouse")
            con.execute("use memory")
            con.execute("detach warehouse")
        _sync(part)
        fault_point("publish:built")
        part.replace(home.database)
        fault_point("publish:swapped")
        _mark(home, build_id)
    except duckdb.Error as error:
        raise WarehouseError(f"publish failed, the last published file stays: {_one_line(error)}") from error
    finally:
        part.unlink(missing_ok=True)
        part.with_suffix(".duckdb.wal").unlink(missing_ok=True)
    return Published(build_id, rows)


def _publish_table(
    con: duckdb.DuckDBPyConnection,
    home: Home,
    lake: Lake,
    model: type[SQLModel],
    authorities: Mapping[str, str],
    compute: Mapping[str, Compute],
    given: pl.DataFrame | None,
) -> int:
    name, info = qualified_name(model), table_of(model).info
    if info["publish_as"] == "view":
        stored = _stored(model)
        sql = view_of_files(lake, stored, home.root) if lake.exists(stored) else ""
        if sql:
            con.execute(f"create view {name} as {sql}")
            con.execute("; ".join(comments(model, "view")))
            return int(con.sql(f"select count(*) from {name}").fetchall()[0][0])
    con.execute(create_table(model))
    con.execute("; ".join(comments(model)))
    if info["kind"] == "telemetry" and name not in compute and given is None:  # as stored: nothing is held in memory
        sql = view_of_files(lake, model, home.root) if lake.exists(model) else ""
        return int(con.execute(f"insert into {name} {sql}").fetchall()[0][0]) if sql else 0
    frame = given if given is not None else lake.scan(model).collect()
    if info["kind"] in ("fact", "dimension") and "is_latest" in table_of(model).columns:
        frame = with_versions(frame, model, authorities)
    if name in compute:
        frame = compute[name](frame)
    if frame.is_empty():
        return 0
    columns = published_columns(model)
    frame = frame.select(columns).sort(key_of(model), nulls_last=True)
    con.register("incoming", frame)
    listed = ", ".join(f'"{c}"::{duckdb_type(model, c)}' for c in columns)
    con.execute(f"insert into {name} select {listed} from incoming")
    con.unregister("incoming")
    return frame.height


def _attach_same(
    con: duckdb.DuckDBPyConnection, home: Home, versions: Mapping[str, int], since: Published | None
) -> set[str]:
    """Attach the published file as `last`, and name its tables that the lake has nothing newer for."""
    if since is None or not home.database.exists():
        return set()
    con.execute(f"attach {quoted(str(home.database))} as last (read_only)")
    build_id, told = con.sql("select build_id, lake_versions from last.ops.build").fetchall()[0]
    if build_id != since.build_id:  # another process published meanwhile, perhaps another version
        return set()
    then = json.loads(told)
    unchanged = {name for name in tables() if then.get(name) == versions.get(name)}
    return {
        name
        for name, model in tables().items()
        if qualified_name(_stored(model)) in unchanged and table_of(model).schema != "ops"
    }


def _stored(model: type[SQLModel]) -> type[SQLModel]:
    """The table of the lake that holds the rows as they are published."""
    return tables().get(table_of(model).info["published_from"], model)


def _copy(con: duckdb.DuckDBPyConnection, name: str) -> int:
    ((count,),) = con.execute(f"insert into {name} select * from last.{name}").fetchall()
    return int(count)


def _publish_mart(con: duckdb.DuckDBPyConnection, mart: Mart, *, is_same: bool) -> int:
    name = f"mart.{mart.name}"
    try:
        con.execute(f"create table {name} as {f'from last.{name}' if is_same else mart.sql}")
    except duckdb.Error as error:
        raise WarehouseError(f"{mart.name}.sql cannot be built: {_one_line(error)}") from error
    text = f"{mart.meaning} Grain: {mart.grain}. Key: {', '.join(mart.key)}."
    said = [f"comment on table {name} is {quoted(text)}"]
    said += [f'comment on column {name}."{column}" is {quoted(meaning)}' for column, meaning in mart.columns.items()]
    con.execute("; ".join(said))
    return int(con.sql(f"select count(*) from {name}").fetchall()[0][0])


def _with_freshness(lake: Lake, home: Home, sources: pl.DataFrame) -> pl.DataFrame:
    """Add when each source last landed rows, when it was last read, and when its data counts as stale."""
    from warehouse.schema.ops import LoadRecord

    landed = (
        lake.scan(LoadRecord)
        .filter(pl.col("rows_landed") > 0)
        .group_by("source")
        .agg(pl.col("committed_at").max().alias("last_landed_at"))
        .collect()
    )
    read = (
        Archive(home.archive).everything().group_by("source").agg(pl.col("retrieved_at").max().alias("last_payload_at"))
    )
    due = pl.col("cadence").replace_strict(STALE_AFTER, default=None, return_dtype=pl.Duration("us"))
    return (
        sources.join(landed, on="source", how="left")
        .join(read, on="source", how="left")
        .with_columns((pl.col("last_landed_at") + due).alias("stale_after_at"))
    )


STALE_AFTER: dict[str, dt.timedelta | None] = {
    "hourly": dt.timedelta(hours=6),
    "daily": dt.timedelta(days=3),
    "weekly": dt.timedelta(days=14),
    "monthly": dt.timedelta(days=45),
    "quarterly": dt.timedelta(days=120),
    "static": None,
}


def _about(
    con: duckdb.DuckDBPyConnection, home: Home, versions: Mapping[str, int], build_id: str, now: dt.datetime
) -> None:
    """`ops.about`: one row on this build; a held connection sees there that a newer one exists."""
    from warehouse.version import version

    facts = {
        "build_id": build_id,
        "published_at": now,
        "almanac_version": version(),
        "schema_version": schema_version(),
        "lake_versions": json.dumps(versions, sort_keys=True),
    }
    con.register("incoming", pl.DataFrame([facts]))
    con.execute("create table ops.build as select * from incoming")
    con.unregister("incoming")
    newer = (
        f"(select max(file) from glob(coalesce(getvariable('home'), {quoted(str(home.root) + '/')}) || '{MARKER}*'))"
    )
    con.execute(
        "create view ops.about as select *, "
        f"{newer} is not null and not ends_with({newer}, build_id) as is_stale from ops.build"
    )
    con.execute("comment on view ops.about is 'This build. One row. is_stale: a newer file has been published since.'")


def schema_version() -> str:
    """A short hash of declarations and marts: two files with the same one answer the same questions."""
    digest = hashlib.sha256()
    for model in tables().values():
        digest.update(create_table(model).encode())
    for mart in marts():
        digest.update(mart.sql.encode())
    return digest.hexdigest()[:12]


def _mark(home: Home, build_id: str) -> None:
    (home.root / f"{MARKER}{build_id}").write_text("")
    for old in home.root.glob(f"{MARKER}*"):
        if not old.name.endswith(build_id):
            old.unlink(missing_ok=True)


def _sweep(home: Home) -> None:
    """Remove what a killed publish left; younger files may belong to one that is running."""
    edge = dt.datetime.now(dt.UTC).timestamp() - LEFTOVER_AFTER.total_seconds()
    for old in home.root.glob(".publish-*"):
        if old.stat().st_mtime < edge:
            old.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:400]


def published_versions(home: Home) -> dict[str, int]:
    """Delta version of each table that the published file was made from; empty when there is no file."""
    if not home.database.exists():
        return {}
    with duckdb.connect(str(home.database), read_only=True) as con:
        found: Iterable[tuple[str]] = con.sql("select lake_versions from ops.build").fetchall()
    return {k: int(v) for row in found for k, v in json.loads(row[0]).items()}
