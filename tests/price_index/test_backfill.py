"""Histories in the shared folder become monthly series that agree with the reference price points."""

from __future__ import annotations

import csv
import datetime as dt
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from assets.price_daily import daily_prices
from assets.price_index import price_index
from sources.registry import source_named

HISTORIES = {
    "aws": "aws_karpenter/aws_gpu_ondemand_us-east-1_history.csv",
    "azure": "azure_karpenter/azure_gpu_ondemand_history.csv",
    "gcp": "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv",
}
KINDS = {"on_demand": ("on_demand", 0), "spot": ("spot", 0), "reserved_3y": ("reserved", 36)}


@cache
def history(data: Path, provider: str) -> pl.DataFrame:
    source = source_named(f"gpu-prices/{provider}")
    parsed = [source.parse(one).frames["market.gpu_offers"] for one in source.read([data / HISTORIES[provider]], {})]
    return pl.concat(parsed).with_columns(source=pl.lit(source.name))


@cache
def everything(data: Path) -> pl.DataFrame:
    return pl.concat([history(data, name) for name in HISTORIES])


def points(shared: Path) -> list[dict[str, str]]:
    with (shared / "facts" / "gpu_price_points.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["date_precision"] == "day" and row["price_kind"] in KINDS]
    return [row for row in rows if row["who"].split()[0].lower() in HISTORIES]


def test_the_provider_price_of_one_product_in_one_region_is_the_point(shared: Path):
    """The same reduction to the SKU and region a point names, through the whole of `daily_prices`."""
    data, matched, wrong = shared / "data" / "prices", [], []
    for point in points(shared):
        provider, sku = point["who"].split()[0].lower(), point["who"].split()[1]
        kind, months = KINDS[point["price_kind"]]
        offers = history(data, provider).filter(
            pl.col("sku").is_in([sku, f"Standard_{sku}"]), region=point["region"], price_kind=kind, term_months=months
        )
        rows = daily_prices(offers).filter(pl.col("date") == dt.date.fromisoformat(point["date"]))
        if rows.is_empty():
            continue
        matched.append((provider, point["date"], sku, point["price_kind"]))
        (seen,) = rows["observed_usd_per_gpu_hour"].to_list()
        if seen is None or abs(seen - float(point["usd_per_gpu_hour"])) > 6e-5:
            wrong.append((point, seen))
    assert wrong == []
    assert {provider for provider, *_ in matched} == set(HISTORIES)
    assert {kind for *_, kind in matched} >= {"on_demand", "spot"}
    assert len(matched) == 15, matched  # every point whose day these three files hold


def test_aws_holds_one_region_and_its_series_is_the_point_as_it_stands(shared: Path):
    daily = daily_prices(everything(shared / "data" / "prices")).filter(provider="aws", segment="hyperscaler")
    ids = {"p4d.24xlarge": "nvidia-a100-sxm4-40gb", "p4de.24xlarge": "nvidia-a100-sxm4-80gb"}
    found = 0
    for point in points(shared):
        if point["who"] not in [f"AWS {sku}" for sku in ids] or point["price_kind"] != "on_demand":
            continue
        rows = daily.filter(
            accelerator_id=ids[point["who"].split()[1]],
            date=dt.date.fromisoformat(point["date"]),
            price_kind="on_demand",
        )
        for seen in rows["observed_usd_per_gpu_hour"]:
            assert seen == pytest.approx(float(point["usd_per_gpu_hour"]), abs=6e-5)
            found += 1
    assert found >= 2


def test_a_provider_price_is_the_median_of_its_distinct_regional_prices(shared: Path):
    daily = daily_prices(everything(shared / "data" / "prices"))
    with (shared / "data" / "prices" / HISTORIES["gcp"]).open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["snapshot_date"] == "2022-02-09" and r["gpu"] == "a100"]
    pairs = {(r["machine_type"], round(float(r["hour_usd"]) / int(r["gpu_count"]), 9)) for r in rows}
    prices = sorted(price for _, price in pairs)
    middle = (prices[(len(prices) - 1) // 2] + prices[len(prices) // 2]) / 2
    seen = daily.filter(provider="gcp", date=dt.date(2022, 2, 9), price_kind="on_demand")
    assert seen["series"].to_list() == ["nvidia-a100-sxm4-40gb/hyperscaler/on_demand"]
    assert seen["observed_usd_per_gpu_hour"][0] == pytest.approx(middle, abs=1e-8)


def test_monthly_series_run_from_2022_on(shared: Path):
    data = shared / "data" / "prices"
    daily = daily_prices(everything(data)).filter("passes", ~pl.col("is_carried"))
    month = daily.with_columns(month=pl.col("date").dt.strftime("%Y-%m"))
    months = month.group_by("provider", "price_kind").agg(pl.col("month").unique().sort())
    held = {(r["provider"], r["price_kind"]): r["month"] for r in months.iter_rows(named=True)}
    # Every month the files hold has a price: AWS 2022-06 to 2025-04, Azure from 2023-10, GCP monthly from 2022-02.
    gcp = [f"{2022 + n // 12}-{n % 12 + 1:02}" for n in range(1, 36)]
    assert held["gcp", "on_demand"] == gcp
    assert held["gcp", "spot"] == [m for m in gcp if m >= "2023-06"]
    assert (held["aws", "on_demand"][0], held["aws", "on_demand"][-1]) == ("2022-06", "2025-04")
    assert held["azure", "on_demand"] == ["2023-10", "2023-12", "2024-04", "2024-12", "2025-05", "2025-06"]


def test_three_hyperscalers_are_too_few_for_a_level(shared: Path):
    index = price_index(daily_prices(everything(shared / "data" / "prices")))
    assert index["level_usd_per_gpu_hour"].is_null().all()
    assert index["no_level_reason"].str.ends_with("of the 5 providers that a level needs").all()
    assert index["median_usd_per_gpu_hour"].is_not_null().all()


def test_the_real_book_of_one_day(shared: Path):
    source = source_named("gpu-prices/vast")
    (payload,) = source.read([shared / "data" / "prices" / "vast_ccir" / "bundles_2026-02-27.json"], {})
    offers = source.parse(payload).frames["market.gpu_offers"].with_columns(source=pl.lit(source.name))
    daily = daily_prices(offers)
    book = daily.filter(accelerator_id="nvidia-h100-sxm5-80gb").row(0, named=True)
    # The fact table's median of the 21 verified offers is 1.867; machines weighed by GPUs give the same within a cent.
    assert book["price_usd_per_gpu_hour"] == pytest.approx(1.867, abs=0.01)
    assert book["offer_count"] == 21
    thin = daily.filter(accelerator_id="nvidia-a100-pcie-80gb").row(0, named=True)
    assert (thin["price_usd_per_gpu_hour"], thin["screens"], thin["host_count"]) == (None, "thin_book", 2)
