"""Forgetting what Dagster keeps for ever: runs, and the events of a follower, which belong to no run.

Belongs here: deleting old history. Does not belong here: when (`schedules.py`), writing history.
"""

from __future__ import annotations

import datetime as dt

import dagster as dg


def forget_runs(instance: dg.DagsterInstance, before: dt.datetime) -> int:
    """Delete runs created before; returns how many. An asset's last materialisation stays known."""
    old = instance.get_run_records(filters=dg.RunsFilter(created_before=before))
    for record in old:
        instance.delete_run(record.dagster_run.run_id)
    return len(old)


def forget_follower_events(instance: dg.DagsterInstance, before: dt.datetime) -> int:
    """Delete events of spool and published file that belong to no run; returns how many.

    Each asset's last materialisation and each check's last result stay known. Dagster has no call for this:
    `delete_run` does not see them, and deleting all of the empty run would take the freshness events with them.
    """
    import sqlalchemy as sa
    from dagster._core.instance.utils import RUNLESS_RUN_ID
    from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
    from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return 0
    edge = before.astimezone(dt.UTC).replace(tzinfo=None)  # as Dagster stores it

    events, checks = SqlEventLogStorageTable, AssetCheckExecutionsTable
    key = events.c.asset_key
    # Check results carry no asset key there; only a follower reports any outside a run.
    kinds = events.c.dagster_event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
    mine = sa.or_(key.like('["spool", %'), key == dg.AssetKey(["warehouse", "duckdb"]).to_string(), kinds)
    old = sa.and_(events.c.run_id == RUNLESS_RUN_ID, mine, events.c.timestamp < edge)
    newest = sa.select(sa.func.max(checks.c.id)).group_by(checks.c.asset_key, checks.c.check_name)
    past = sa.and_(checks.c.run_id == RUNLESS_RUN_ID, checks.c.evaluation_event_timestamp < edge)
    with storage.run_connection(RUNLESS_RUN_ID) as log:
        log.execute(events.delete().where(old))
    with storage.index_connection() as index:
        gone = index.execute(events.delete().where(old)).rowcount
        index.execute(checks.delete().where(past, checks.c.id.not_in(newest)))
    return int(gone)
