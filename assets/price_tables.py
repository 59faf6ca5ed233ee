"""The price tables brought up to date: derive, keep what is published, land what is new.

Belongs here: which derived rows are new, and their landing through the gate. Does not belong here: how a price or a
level is made, Dagster. A day is derived once it is over (UTC); what has been published for it is never changed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Mapping, Sequence

import polars as pl
from sqlmodel import SQLModel

from assets.landing import Landed, Part, land
from assets.price_chain import FIXING
from assets.price_daily import KEY, daily_prices
from assets.price_daily import TABLE as DAILY
from assets.price_index import TABLE as INDEX
from assets.price_index import finished, unpublished
from assets.price_method import DAILY_SOURCE, INDEX_SOURCE, METHOD_VERSION
from assets.price_standing import with_standing
from warehouse.archive import Archive
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema import tables
from warehouse.schema.declare import key_of, lake_schema, qualified_name
from warehouse.schema.prices import GpuOffer, GpuPriceDaily, GpuPriceIndex

VERSION = 1
LATE = "came in after the index of its day was published, and is not in it"
# What a row without a level says: it is said anew when a provider that came in late changes any of it.
PANEL = (
    "level_usd_per_gpu_hour",
    "median_usd_per_gpu_hour",
    "provider_count",
    "contributors",
    "matched_count",
    "link_log",
)
KEPT_DAYS = dt.timedelta(days=7)
SOURCES: Mapping[str, str] = {DAILY: DAILY_SOURCE, INDEX: INDEX_SOURCE}


def build_price_tables(
    offers: pl.DataFrame,
    existing_index: pl.DataFrame,
    existing_daily: pl.DataFrame | None = None,
    *,
    now: dt.datetime,
) -> dict[str, pl.DataFrame]:
    """New rows of `market.gpu_price_daily` and `market.gpu_price_index`, by table name.

    offers: rows of `market.gpu_offers`. existing_index, existing_daily: what has been published, any method version.
    now: the moment of the run; days that are not over yet are left for a later one. What was published stays, also
    when offers of its day arrive later. Only a day that had no level for want of providers is said anew when its panel
    changes, with a level where there are enough by then; that row is known since `now`.
    """
    index = _of_method(existing_index)
    daily = _of_method(pl.DataFrame(schema=lake_schema(GpuPriceDaily)) if existing_daily is None else existing_daily)
    seen = offers.filter(pl.col("observed_at").dt.date() < now.astimezone(dt.UTC).date())
    valued = index.filter(pl.col("level_usd_per_gpu_hour").is_not_null()).select(FIXING)
    derived = daily_prices(seen, daily).join(daily, on=KEY, how="anti")
    fresh = (
        derived.join(valued.with_columns(is_late=pl.lit(value=True)), on=FIXING, how="left")
        .with_columns(notes=pl.when("is_late").then(pl.lit(LATE)).otherwise("notes"))
        .select(derived.columns)
        .sort(KEY)
    )
    whole = pl.concat([daily.select(derived.columns), fresh])
    if whole.is_empty():
        return {DAILY: fresh, INDEX: pl.DataFrame(schema=lake_schema(GpuPriceIndex))}
    known = unpublished(whole)
    said = index.sort("known_at").unique(FIXING, keep="last").join(valued, on=FIXING, how="anti")
    without = said.select(*FIXING, waited=pl.lit(value=True))
    new = known.join(valued, on=FIXING, how="anti")
    rows = finished(_other_than(new, said), known, index)
    since = pl.when("waited").then(pl.lit(now).cast(pl.Datetime("us", "UTC"))).otherwise("known_at")
    known_since = rows.join(without, on=FIXING, how="left").with_columns(known_at=since).select(rows.columns)
    return {DAILY: fresh, INDEX: known_since.sort("date", "series")}


def _other_than(new: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """Fixings of which nothing has been said, or of which what was said without a level no longer holds."""
    same = pl.lit(value=True)
    for name in PANEL:
        before, now = pl.col(f"{name}_said"), pl.col(name)
        if new.schema[name].is_float():
            before, now = before.round(9), now.round(9)
        same &= now.eq_missing(before)
    earlier = said.select(*FIXING, *(pl.col(name).alias(f"{name}_said") for name in PANEL), was_said=pl.lit(value=True))
    beside = new.join(earlier, on=FIXING, how="left")
    return beside.filter(pl.col("was_said").is_null() | ~same).select(new.columns)


def _of_method(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("method_version") == METHOD_VERSION)


def land_price_tables(home: Home, *, load_id: str = "", now: dt.datetime | None = None) -> list[Landed]:
    """Derive what is new from the lake's offers and land it; nothing is read twice and nothing lands twice.

    now: the moment that decides which days are over. Daily prices land first, so that a run that stops in between
    leaves the index to be derived from them.
    """
    lake = Lake(home.lake)
    moment = now or dt.datetime.now(dt.UTC)
    offers = lake.scan(GpuOffer).select(OFFER_COLUMNS).collect()
    if offers.is_empty():
        return []
    daily = lake.scan(GpuPriceDaily).collect()
    seen = with_standing(offers, Archive(home.archive).everything(), _from_day(daily))
    built = build_price_tables(seen, lake.scan(GpuPriceIndex).collect(), daily, now=moment)
    landed = []
    for name in (DAILY, INDEX):
        if built[name].height:
            landed.append(_land(lake, tables()[name], built[name], load_id or uuid.uuid4().hex))
            if landed[-1].reason:
                break
    return landed


def _from_day(daily: pl.DataFrame) -> dt.date | None:
    """First day on which standing lists still matter: what is published needs only what it may be carried from."""
    newest = _of_method(daily)["date"].max()
    return newest - KEPT_DAYS if isinstance(newest, dt.date) else None


def refresh_prices(home: Home, *, now: dt.datetime | None = None) -> dict[str, int]:
    """Bring both price tables up to date: rows landed by table. Nothing new lands nothing."""
    counts = dict.fromkeys(SOURCES, 0)
    for one in land_price_tables(home, now=now):
        counts[one.table] += one.counts.landed
    return counts


OFFER_COLUMNS: Sequence[str] = (
    "observed_at", "provider", "segment", "sku", "offer_id", "region", "zone", "operating_system", "price_kind",
    "term_months", "accelerator_id", "gpu_count", "price_usd_per_gpu_hour", "available", "host_id", "machine_id",
    "is_verified", "reliability_ratio", "index_eligible", "source", "source_name", "payload_sha256", "retrieved_at",
)  # fmt: skip


def _land(lake: Lake, model: type[SQLModel], rows: pl.DataFrame, load_id: str) -> Landed:
    """One batch, known by the keys of its rows. It is a stream of its own: a first load and a day differ in size."""
    digest = hashlib.sha256(rows.select(key_of(model)).write_csv().encode()).hexdigest()[:16]
    first, last = rows.select(pl.col("date").min().cast(pl.String), last=pl.col("date").max().cast(pl.String)).row(0)
    source = SOURCES[qualified_name(model)]
    batch = f"{source}/{METHOD_VERSION}/{first}/{last}/{rows.height}-{digest}"
    part = Part(batch, batch, None, rows.select(lake_schema(model).names()))
    return land(lake, model, source, [part], load_id=load_id, version=VERSION)
