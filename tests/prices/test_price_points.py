"""The reference price points: every one whose provider, SKU and date the payloads hold comes out as it says."""

from __future__ import annotations

import csv
import datetime as dt
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from .loading import load, offers

# who in the fact table → (source, file, SKU, further conditions). `date` of the point is the date of observation.
HELD = {
    "AWS p4d.24xlarge": ("aws", "aws_karpenter/aws_gpu_ondemand_us-east-1_history.csv", "p4d.24xlarge"),
    "AWS p4de.24xlarge": ("aws", "aws_karpenter/aws_gpu_ondemand_us-east-1_history.csv", "p4de.24xlarge"),
    "AWS p5.48xlarge": ("aws", "aws_karpenter/aws_gpu_ondemand_us-east-1_history.csv", "p5.48xlarge"),
    "AWS p5en.48xlarge": ("aws", "aws_karpenter/aws_gpu_ondemand_us-east-1_history.csv", "p5en.48xlarge"),
    "Azure NC24ads_A100_v4": ("azure", "azure_karpenter/azure_gpu_ondemand_history.csv", "Standard_NC24ads_A100_v4"),
    "Azure ND96isr_H100_v5": ("azure", "azure_karpenter/azure_gpu_ondemand_history.csv", "Standard_ND96isr_H100_v5"),
    "Azure NC40ads_H100_v5": ("azure", "azure_karpenter/azure_gpu_ondemand_history.csv", "Standard_NC40ads_H100_v5"),
    "GCP a2-highgpu-1g": ("gcp", "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv", "a2-highgpu-1g"),
    "GCP a2-ultragpu-8g": ("gcp", "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv", "a2-ultragpu-8g"),
    "GCP a3-highgpu-8g": ("gcp", "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv", "a3-highgpu-8g"),
    "GCP a3-highgpu-8g 3y CUD": ("gcp", "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv", "a3-highgpu-8g"),
    "CoreWeave HGX H200": ("coreweave", "coreweave_html", "hgx-h200"),
    "CoreWeave A100": ("coreweave", "coreweave_html", "nvidia-a100"),
}
KINDS = {"on_demand": ("on_demand", 0), "spot": ("spot", 0), "reserved_3y": ("reserved", 36)}
FORMS = {"SXM": "SXM", "PCIe": "PCIe", "NVL": "NVL"}


def _points(shared: Path) -> list[dict[str, str]]:
    with (shared / "facts" / "gpu_price_points.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def _offers(provider: str, path: Path) -> pl.DataFrame:
    return offers(f"gpu-prices/{provider}", path)


def test_points_of_the_hyperscaler_histories_and_pages(shared: Path) -> None:
    matched, wrong = [], []
    for point in _points(shared):
        if point["who"] not in HELD or point["date_precision"] != "day" or point["price_kind"] not in KINDS:
            continue
        provider, file, sku = HELD[point["who"]]
        kind, months = KINDS[point["price_kind"]]
        region = point["region"]
        rows = _offers(provider, shared / "data" / "prices" / file).filter(
            pl.col("sku") == sku,
            pl.col("observed_at").dt.date() == dt.date.fromisoformat(point["date"]),
            pl.col("price_kind") == kind,
            pl.col("term_months") == months,
            pl.col("region") == region,
        )
        if rows.is_empty():
            continue  # a point whose day the payloads do not hold
        matched.append(point)
        found = set(rows["price_usd_per_gpu_hour"])
        form = set(rows["form_factor"])
        memory = {"A100-40GB": 40, "A100-80GB": 80, "H100": 80, "H200": 141, "H100-NVL": 94}[point["gpu"]]
        if any(v is None or abs(v - float(point["usd_per_gpu_hour"])) > 6e-5 for v in found):
            wrong.append((point, found))
        assert all(f.startswith(FORMS[point["form_factor"]]) for f in form), point
        assert set(rows["memory_gb"]) == {memory}, point
    assert wrong == []
    assert len(matched) >= 17, [p["who"] + p["date"] for p in matched]


def test_points_of_the_hand_kept_table(shared: Path) -> None:
    held = {
        ("2022-08-05", "Lambda"): ("A100 (40 GB)", "lambda", 1),
        ("2023-05-12", "Lambda 8x"): ("A100 (80 GB)", "lambda", 8),
        ("2023-05-12", "Lambda 1x H100 PCIe"): ("H100 (80 GB)", "lambda", 1),
        ("2024-02-27", "RunPod 8x"): ("A100 (80 GB)", "runpod", 8),
        ("2024-02-27", "NovoNimbus HGX"): ("H100 HGX (80GB)", "novonimbus", 1),
    }
    rows = offers("gpu-prices/fsdl", shared / "data" / "prices" / "fsdl_cloud_gpus")
    matched = 0
    for point in _points(shared):
        if (point["date"], point["who"]) in held:
            name, provider, count = held[point["date"], point["who"]]
            row = rows.filter(
                pl.col("observed_at").dt.date() == dt.date.fromisoformat(point["date"]),
                pl.col("gpu_name") == name,
                pl.col("provider") == provider,
                pl.col("gpu_count") == count,
                pl.col("price_kind") == "on_demand",
            )
            assert row["price_usd_per_gpu_hour"].to_list() == [float(point["usd_per_gpu_hour"])], point
            matched += 1
    assert matched == len(held)


def test_points_of_runpod_and_azure_in_september_2026(shared: Path) -> None:
    runpod = offers("gpu-prices/runpod", shared / "data" / "prices" / "runpod_graphql")
    secure = dict(runpod.filter(offer_id="secure").select("accelerator_id", "price_usd_per_gpu_hour").iter_rows())
    points = {p["gpu"]: float(p["usd_per_gpu_hour"]) for p in _points(shared)
              if p["date"] == "2026-09" and p["who"] == "RunPod secure"}  # fmt: skip
    ids = {"B200": "nvidia-b200-sxm6-180gb", "H100": "nvidia-h100-sxm5-80gb", "H200": "nvidia-h200-sxm5-141gb"}
    assert {gpu: secure[ids[gpu]] for gpu in points} == points == {"B200": 6.79, "H100": 3.49, "H200": 4.59}
    azure = offers("gpu-prices/azure", shared / "data" / "prices" / "azure_retail")
    gov = azure.filter(sku="Standard_ND96isr_H200_v5", region="usgovvirginia", price_kind="on_demand")
    assert gov["price_usd_per_gpu_hour"].to_list() == [13.25]
    assert not gov["index_eligible"].any()


def test_points_of_published_indices_and_reference_rates(shared: Path) -> None:
    table = "market.external_indices"
    data = shared / "data" / "prices"
    rates = load("gpu-prices/ccir", data / "ccir_reference_rates" / "2026-03-03.csv").frames[table]
    level = dict(rates.select("index_id", "level_usd_per_gpu_hour").iter_rows())
    held = {
        ("A100-80GB", "RunPod secure"): "runpod-a100-sxm-secure",
        ("H100", "GCP GPU SKU D4E2-451A-15B9 only"): "gcp-h100-us-central1",
        ("H100", "RunPod secure"): "runpod-h100-sxm-secure",
        ("H100-NVL", "Azure NC40ads_H100_v5"): "azure-h100-spot-eastus",
        ("H200", "RunPod secure"): "runpod-h200-sxm-secure",
    }
    points = [p for p in _points(shared) if p["date"] == "2026-03-03"]
    assert {(p["gpu"], p["who"]) for p in points} == set(held)
    for point in points:
        found = level[f"ccir-reference/{held[point['gpu'], point['who']]}"]
        assert found == pytest.approx(float(point["usd_per_gpu_hour"]), abs=6e-5), point
    published = pl.concat(
        load("gpu-prices/ccir", data / "vast_ccir" / f"published_cri-{n}-index.csv").frames[table]
        for n in ("h100", "h200")
    )
    by_day = {
        (r["index_id"], str(r["period_start"])): r["level_usd_per_gpu_hour"] for r in published.iter_rows(named=True)
    }
    assert by_day["ccir/cri-h100", "2026-03-06"] == 1.735
    assert by_day["ccir/cri-h200", "2026-03-06"] == 2.3237


def test_vast_medians_of_the_fact_table(shared: Path) -> None:
    book = offers("gpu-prices/vast", shared / "data" / "prices" / "vast_ccir" / "bundles_2026-02-27.json")
    asks = book.filter(pl.col("price_kind") == "marketplace_ask", pl.col("sku") == "H100 SXM")
    points = {p["who"]: float(p["usd_per_gpu_hour"]) for p in _points(shared) if p["date"] == "2026-02-27"}
    assert asks["price_usd_per_gpu_hour"].median() == pytest.approx(points["Vast.ai median all offers (31)"], abs=5e-4)
    verified = asks.filter("is_verified")
    assert verified.height == 21
    assert verified["price_usd_per_gpu_hour"].median() == pytest.approx(
        points["Vast.ai median VERIFIED offers (21)"], abs=5e-4
    )


def test_series_have_a_price_in_every_month_the_histories_hold(shared: Path) -> None:
    data = shared / "data" / "prices"
    month = pl.col("observed_at").dt.strftime("%Y-%m")
    for provider, name, first in (
        ("aws", "aws_karpenter/aws_gpu_ondemand_us-east-1_history.csv", "2022-06"),
        ("azure", "azure_karpenter/azure_gpu_ondemand_history.csv", "2023-10"),
        ("gcp", "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv", "2022-02"),
    ):
        with (data / name).open(encoding="utf-8") as file:
            held = {line[:7] for line in file if line[:2] == "20"}
        rows = _offers(provider, data / name).filter(price_kind="on_demand", index_eligible=True)
        assert set(rows.select(month).to_series()) == held, provider
        assert min(held) == first
    gcp = _offers("gcp", data / "gcp_cyclenerd/gcp_gpu_machine_prices_monthly.csv")
    spot = gcp.filter(sku="a2-highgpu-1g", region="us-central1", price_kind="spot", index_eligible=True)
    assert set(spot.select(month).to_series()) >= {f"2024-{m:02}" for m in range(1, 13)}
