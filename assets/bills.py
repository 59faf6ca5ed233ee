"""`telemetry.bill_monthly`: the bills of every cluster that has a cost model, from the lake.

Belongs here: reading what a month's bill needs. Does not belong here: the bill (`cost_monthly.py`), its arithmetic
(`cost.py`). A month runs in the zone of the cost model, from its first moment or the last one read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

import polars as pl

from assets.cost import month_bounds
from assets.cost_monthly import CONSUMERS, HOUR_US, energy_by_job, month_shares, month_usage
from assets.ladder_daily import DAY_US, clip, month_pieces, stays_on_boards
from assets.ladder_inputs import INVENTORY, JOBS, POOLS, STAYS, billing_zones
from assets.ladder_jobs import KEY
from assets.telemetry_intervals import close_inventory
from warehouse.bitemporal import with_versions
from warehouse.lake import Lake
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema
from warehouse.schema.economics import BillMonth
from warehouse.schema.ladder import LadderDay
from warehouse.schema.telemetry_rollups import GpuHour

SOURCE: Final = "bill"
_HOUR: Final = ("cluster", "gpu_uuid", "hour_at", "energy_j", "seconds_covered", "source")


def bills(lake: Lake, authorities: Mapping[str, str]) -> pl.DataFrame:
    """Rows of telemetry.bill_monthly for every month of every cluster with a cost model and a ladder."""
    schema = lake_schema(BillMonth)
    pools = _newest(lake, POOLS, authorities)
    if pools.is_empty():
        return pl.DataFrame(schema=schema)
    zones = billing_zones(lake)
    clusters = pools.get_column("cluster").unique().to_list()
    days = lake.scan(LadderDay).filter(pl.col("cluster").is_in(clusters)).collect()
    facts = {name: _newest(lake, name, authorities) for name in (JOBS, STAYS)}
    # The scheduler knows who is charged; the row of a job's own log does not.
    facts[JOBS] = facts[JOBS].sort(pl.col("scheduler") == "none", maintain_order=True)
    facts[INVENTORY] = close_inventory(lake.scan(tables()[INVENTORY]).collect())
    found = [pl.DataFrame(schema=schema)]
    for (cluster, is_synthetic), own in days.group_by("cluster", "is_synthetic", maintain_order=True):
        of_cluster = (pl.col("cluster") == cluster) & (pl.col("is_synthetic") == is_synthetic)
        same = {name: frame.filter(of_cluster) for name, frame in facts.items()}
        paid = pools.filter(pl.col("cluster") == cluster).to_dicts()
        zone = zones.get(str(cluster), "UTC")
        last_day, first_month, last_month = own.select(
            pl.col("date").max(), pl.col("billing_month_date").min().alias("first"), pl.col("billing_month_date").max()
        ).row(0)
        read_until = _end_of(last_day)
        for month in months_between(first_month, last_month):
            bill = _bill(lake, same, own.filter(pl.col("billing_month_date") == month), paid, (month, zone, read_until))
            named = bill.select(
                pl.lit(cluster).alias("cluster"),
                pl.lit(SOURCE).alias("source"),
                pl.lit(is_synthetic).alias("is_synthetic"),
                pl.col("month").alias("month_date"),
                pl.lit(zone).alias("time_zone"),
                pl.all().exclude("month"),
            )
            found.append(named.with_columns(pl.col(*CONSUMERS).fill_null("")).select(list(schema)).cast(schema))
    return pl.concat(found)


def months_between(first: dt.date, last: dt.date) -> list[dt.date]:
    """Every month from the first to the last, each by its first day."""
    return pl.date_range(first, last, "1mo", eager=True).to_list()


def _bill(
    lake: Lake,
    facts: Mapping[str, pl.DataFrame],
    ladder: pl.DataFrame,
    pools: list[dict[str, object]],
    when: tuple[dt.date, str, int],
) -> pl.DataFrame:
    month, zone, read_until = when
    (begin, end) = month_bounds(month, month, zone).select("from_us", "to_us").row(0)
    until = min(end, read_until)
    rungs = ladder.group_by("cluster", "job_id", "attempt", "rung").agg(pl.col("gpu_us").sum())
    nobody = pl.col("job_id") == ""
    rungs = rungs.with_columns(
        pl.when(~nobody).then("attempt").alias("attempt"), pl.when(~nobody).then("job_id").alias("job_id")
    ).sort(*KEY, "rung", nulls_last=True)
    stays = clip(stays_on_boards(facts[STAYS], facts[JOBS], facts[INVENTORY], until), begin, until)
    energy = energy_by_job(_hours(lake, facts[INVENTORY], begin, until), stays, begin, until)
    usage = month_usage(rungs, facts[JOBS], energy, month)
    pieces = [p for day in ladder["date"].unique().sort() for p in month_pieces(day, zone) if p[2] == month]
    window = {"until_us": until, "read_us": sum(last - first for first, last, _ in pieces)}
    return month_shares(pools, usage, month, zone, window)


def _hours(lake: Lake, inventory: pl.DataFrame, begin: int, until: int) -> pl.DataFrame:
    """Hours of the cluster's boards that touch the window, one collector a GPU and hour."""
    boards = inventory.filter(pl.col("parent_gpu_uuid").is_null()).select("cluster", "gpu_uuid").unique()
    first, last = (dt.datetime.fromtimestamp(us / 1e6, dt.UTC) for us in (begin - HOUR_US, until))
    hours = lake.scan(GpuHour).filter(
        pl.col("date").is_between(first.date(), last.date()),
        pl.col("hour_at") > first,
        pl.col("hour_at") < last,
        pl.col("parent_gpu_uuid").is_null(),
    )
    frame = hours.select(_HOUR).collect().join(boards, on=["cluster", "gpu_uuid"], how="semi")
    if frame.get_column("source").n_unique() < 2:  # noqa: PLR2004 - a single collector has nothing to choose from
        return frame
    ordered = frame.sort("seconds_covered", "source", descending=[True, False])
    return ordered.unique(["cluster", "gpu_uuid", "hour_at"], keep="first", maintain_order=True)


def _newest(lake: Lake, name: str, authorities: Mapping[str, str]) -> pl.DataFrame:
    model = tables()[name]
    preferred = "is_latest" if name == POOLS else "is_preferred"
    return with_versions(lake.scan(model).collect(), model, authorities).filter(pl.col(preferred))


def _end_of(day: dt.date) -> int:
    return int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp() * 1e6) + DAY_US
