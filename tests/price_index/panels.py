"""Constructed offers: a table of provider prices by day becomes rows of `market.gpu_offers`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import polars as pl

from assets.price_daily import daily_prices
from assets.price_index import price_index
from warehouse.schema.declare import lake_schema
from warehouse.schema.prices import GpuOffer

H100 = "nvidia-h100-sxm5-80gb"
PCIE = "nvidia-h100-pcie-80gb"
SERIES = f"{H100}/neocloud/on_demand"
START = dt.date(2026, 3, 2)


def day(number: int) -> dt.date:
    """The day with this number, 0 is the first."""
    return START + dt.timedelta(days=number)


def offer(number: int, provider: str, price: float, **given: object) -> dict[str, object]:
    """One eligible on-demand offer of an H100 at noon of a day, unless said otherwise."""
    at = dt.datetime.combine(day(number), dt.time(12), tzinfo=dt.UTC)
    return {
        "observed_at": at,
        "known_at": at,
        "provider": provider,
        "sku": "h100-8",
        "offer_id": "",
        "region": "global",
        "zone": "",
        "operating_system": "linux",
        "price_kind": "on_demand",
        "term_months": 0,
        "segment": "neocloud",
        "accelerator_id": H100,
        "gpu_count": 8.0,
        "price_usd_per_gpu_hour": price,
        "currency": "USD",
        "fx_rate": 1.0,
        "index_eligible": True,
        "resolution": "resolved",
        "source": f"gpu-prices/{provider}",
        "source_name": f"{provider} list",
    } | given


def ask(number: int, machine: str, price: float, host: str, gpus: int = 8, **given: object) -> dict[str, object]:
    """One verified, reliable ask of an order book."""
    more = {
        "segment": "marketplace",
        "price_kind": "marketplace_ask",
        "sku": "H100 SXM",
        "offer_id": f"{machine}-{gpus}",
        "gpu_count": float(gpus),
        "host_id": host,
        "machine_id": machine,
        "is_verified": True,
        "reliability_ratio": 0.99,
        "available": True,
    }
    return offer(number, "vast", price, **(more | given))


def frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Rows as `market.gpu_offers`; what a row does not give is null."""
    schema = lake_schema(GpuOffer)
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def offers(prices: Mapping[str, Sequence[float | None]], **given: object) -> pl.DataFrame:
    """One offer for each provider and day with a price."""
    return frame(
        [
            offer(number, provider, price, **given)
            for provider, days in prices.items()
            for number, price in enumerate(days)
            if price is not None
        ]
    )


def daily(prices: Mapping[str, Sequence[float | None]]) -> pl.DataFrame:
    """Provider prices of a constructed panel."""
    return daily_prices(offers(prices))


def index(prices: Mapping[str, Sequence[float | None]], series: str = SERIES) -> pl.DataFrame:
    """The index of one series of a constructed panel, by date."""
    return price_index(daily(prices)).filter(pl.col("series") == series).sort("date")


def cell(rows: pl.DataFrame, number: int, provider: str, series: str = SERIES) -> dict[str, object]:
    """The daily row of a provider on a day."""
    found = rows.filter(date=day(number), series=series, provider=provider)
    assert found.height == 1, found
    return found.row(0, named=True)
