"""The load ledger: `ops.loads`, copied from the commits themselves.

Belongs here: copying. Does not belong here: counting (the commit carries its counts).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl

from warehouse.lake import Counts, Lake, Load
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema, table_of
from warehouse.schema.ops import LoadRecord


def copy_commits(lake: Lake) -> int:
    """Append one ledger row for each commit that has none yet; returns how many. Safe to repeat."""
    have = (
        lake.scan(LoadRecord).group_by("table_name").agg(pl.col("delta_version").max()).collect().iter_rows()
        if lake.exists(LoadRecord)
        else iter(())
    )
    seen = {str(name): int(version) for name, version in have}
    rows: list[dict[str, Any]] = []
    for name, model in tables().items():
        if table_of(model).info["kind"] in ("ledger", "derived"):
            continue
        rows.extend(_row(name, commit) for commit in lake.history(model, since=seen.get(name, -1)))
    if not rows:
        return 0
    frame = pl.DataFrame(rows, schema=lake_schema(LoadRecord))

    def prepare(_handle: object, _todo: list[str]) -> tuple[pl.DataFrame, Load] | None:
        there = lake.scan(LoadRecord).select("table_name", "delta_version").collect()
        fresh = frame.join(there, on=["table_name", "delta_version"], how="anti")
        return (fresh, Load("", "ledger", Counts(fresh.height, fresh.height))) if fresh.height else None

    lake.commit(LoadRecord, [], prepare)
    return frame.height


def _row(table: str, commit: dict[str, Any]) -> dict[str, Any]:
    return {
        "table_name": table,
        "delta_version": commit["version"],
        "load_id": commit["load_id"],
        "source": commit["source"],
        "status": commit["status"],
        "committed_at": dt.datetime.fromtimestamp(commit["at_ms"] / 1000, dt.UTC),
        "rows_read": commit["read"],
        "rows_landed": commit["landed"],
        "rows_rejected": commit["rejected"],
        "rows_duplicate": commit["duplicate"],
        "payloads": commit["payloads"],
        "reason": commit["reason"],
        "held_payload_ids": _held(commit),
        "observed_from_at": _instant(commit, "from_at"),
        "observed_to_at": _instant(commit, "to_at"),
        "observed_nodes": ",".join(commit["stats"].get("", {}).get("nodes", [])) or None,
        "observed_places": ",".join(commit["stats"].get("", {}).get("places", [])) or None,
    }


def _held(commit: dict[str, Any]) -> str | None:
    ids = commit["stats"].get("", {}).get("payload_ids", [])
    return ",".join(ids) if ids and commit["status"] == "blocked" else None


def _instant(commit: dict[str, Any], name: str) -> dt.datetime | None:
    text = commit["stats"].get("", {}).get(name)
    return dt.datetime.fromisoformat(text) if text else None
