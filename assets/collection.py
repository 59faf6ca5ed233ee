"""`ops.collection`: how late telemetry of each node arrives, and how much of it is missing.

Belongs here: the computation from hours, minutes and loads. Does not belong here: single gaps and their reasons
(`mart.collection_gaps`).
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import polars as pl

from assets.telemetry_clean import conform
from warehouse.lake import Lake
from warehouse.schema.declare import lake_schema
from warehouse.schema.ops import LoadRecord
from warehouse.schema.ops_collection import CollectionRecord
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute

WHERE: Final = ("cluster", "node", "source", "is_synthetic")
FEED: Final = ("cluster", "source", "is_synthetic")
HOUR: Final = dt.timedelta(hours=1)
SAMPLES: Final = "telemetry.gpu_samples"


def collection(lake: Lake) -> pl.DataFrame:
    """One row for each node and collector, as `ops.collection` declares it."""
    hours = (
        lake.scan(GpuHour)
        .filter(pl.col("sample_count") > 0)
        .select(*WHERE, "gpu_uuid", "hour_at", "seconds_covered")
        .collect()
    )
    if hours.is_empty():
        return pl.DataFrame(schema=lake_schema(CollectionRecord))
    first, last = pl.col("hour_at").min().over(WHERE), pl.col("hour_at").max().over(WHERE)
    inner = (pl.col("hour_at") > first) & (pl.col("hour_at") < last)
    span_s = (pl.col("last_hour_at") - pl.col("first_hour_at") - HOUR).dt.total_seconds()
    nodes = (
        hours.with_columns(inner.alias("@inner"), last.alias("@last"))
        .group_by(WHERE)
        .agg(
            pl.col("hour_at").min().alias("first_hour_at"),
            pl.col("hour_at").max().alias("last_hour_at"),
            pl.col("gpu_uuid").filter(pl.col("hour_at") == pl.col("@last")).n_unique().alias("gpus"),
            pl.col("gpu_uuid").filter(pl.col("hour_at") == pl.col("@last") - HOUR).n_unique().alias("gpus_before"),
            pl.col("seconds_covered").filter("@inner").sum().alias("@covered"),
            pl.col("gpu_uuid").n_unique().alias("@gpus"),
        )
        .with_columns(pl.when(span_s > 0).then(pl.col("@covered") / (span_s * pl.col("@gpus"))).alias("covered_ratio"))
    )
    told = nodes.join(_last_minutes(lake, nodes), on=WHERE, how="left")
    told = told.with_columns(pl.coalesce("last_minute_at", "last_hour_at").alias("last_minute_at"))
    newest = pl.col("last_minute_at").max().over(FEED)
    told = told.with_columns(
        (newest - pl.col("last_minute_at")).dt.total_seconds().cast(pl.Float64).alias("behind_seconds")
    )
    landed = told.join(_landed(lake, told), on=WHERE, how="left")
    minute_end = pl.col("last_minute_at") + dt.timedelta(minutes=1)
    lag = ((pl.col("landed_at") - minute_end).dt.total_milliseconds() / 1000).clip(lower_bound=0)
    return conform(landed.with_columns(lag.alias("lag_seconds")), CollectionRecord)


def _last_minutes(lake: Lake, nodes: pl.DataFrame) -> pl.DataFrame:
    """The last minute of each node, looked for in the days of their last hours."""
    days = nodes["last_hour_at"].dt.date().unique().to_list()
    return (
        lake.scan(GpuMinute)
        .filter(pl.col("date").is_in(days), pl.col("sample_count") > 0)
        .group_by(WHERE)
        .agg(pl.col("minute_at").max().alias("last_minute_at"))
        .collect()
    )


def _landed(lake: Lake, told: pl.DataFrame) -> pl.DataFrame:
    """When each node's last minute landed: with the first load of its collector of the node whose readings reach into it."""
    loads = (
        lake.scan(LoadRecord)
        .filter(pl.col("table_name") == SAMPLES, pl.col("rows_landed") > 0, pl.col("observed_to_at").is_not_null())
        .select("source", "committed_at", "observed_from_at", "observed_to_at", "observed_nodes", "observed_places")
        .collect()
    )
    minute = pl.col("last_minute_at")
    # A load of another node that reaches into the minute brought nothing of this one.
    # Two clusters may use one name; loads made before they told clusters tell the name alone.
    place = pl.concat_str("cluster", "node", separator="/")
    named = pl.coalesce(
        pl.col("observed_places").str.split(",").list.contains(place),
        pl.col("observed_nodes").str.split(",").list.contains(pl.col("node")),
    )
    return (
        told.select(*WHERE, "last_minute_at")
        .join(loads, on="source")
        .filter(pl.col("observed_to_at") >= minute, pl.col("observed_from_at") < minute + dt.timedelta(minutes=1))
        .filter(pl.col("observed_nodes").is_null() | named)
        .group_by(WHERE)
        .agg(pl.col("committed_at").min().alias("landed_at"))
    )
