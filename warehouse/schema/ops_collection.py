"""How telemetry arrives: one row for each node and collector, computed at publish.

Belongs here: lag and completeness of collection. Does not belong here: loads and quality (`ops.py`), single gaps
(`mart.collection_gaps`).
"""

from __future__ import annotations

import datetime as dt

from sqlmodel import SQLModel

from warehouse.schema.declare import UTC_TIME, col, table_info


class CollectionRecord(SQLModel, table=True):
    """What one collector last told of one node, when that landed, and what is missing."""

    __tablename__ = "collection"
    __table_args__ = table_info(
        "ops",
        "How telemetry arrives: lag and gaps. Grain: one node as seen by one collector. "
        "Key: cluster, node, source, is_synthetic.",
        kind="ledger",
    )

    cluster: str = col("name of the cluster", key=True)
    node: str = col("host name of the node", key=True)
    source: str = col("collector", key=True)
    is_synthetic: bool = col("true for generated demonstration data", key=True)
    first_hour_at: dt.datetime = col("first hour with a reading, UTC", sa_type=UTC_TIME)
    last_minute_at: dt.datetime = col("last minute with a reading, UTC", sa_type=UTC_TIME)
    landed_at: dt.datetime | None = col("when the load that brought it was committed, UTC", sa_type=UTC_TIME)
    lag_seconds: float | None = col("landed_at less the end of that minute: how late readings arrive", unit="s", ge=0)
    behind_seconds: float = col(
        "how far its last minute lies behind the newest of its cluster and collector", unit="s", ge=0
    )
    gpus: int = col("GPUs and MIG instances read in its last hour", ge=0)
    gpus_before: int = col("the same in the hour before; fewer now means that some are not heard of any more", ge=0)
    covered_ratio: float | None = col(
        "share of the time between first and last hour, both left out, that readings cover", unit="ratio", ge=0, le=1
    )
