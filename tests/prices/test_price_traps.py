"""The traps of each provider's list, on small files of our own in the provider's shape."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from pathlib import Path

import polars as pl
import pytest

from .loading import fixture, load, offers, price


def _flags(frame: pl.DataFrame, sku: str, **where: object) -> set[str]:
    row = frame.filter(pl.col("sku") == sku, *(pl.col(c) == v for c, v in where.items()))
    assert row.height == 1, row
    return set((row["quality_flags"][0] or "").split())


def test_aws_page_feed() -> None:
    rows = offers("gpu-prices/aws", fixture("gpu-prices/aws", "website_2026-10-02.json"))
    assert price(rows, "p5.48xlarge") == pytest.approx(55.04 / 8)
    assert "m5.large" not in set(rows["sku"])
    assert price(rows, "g6f.large") is None  # an eighth of an L4 is not scaled up
    assert _flags(rows, "g6f.large") == {"slice"}
    assert price(rows, "p9.48xlarge") is None  # unknown family: no count, no guess
    assert _flags(rows, "p9.48xlarge") == {"gpu_count_unknown"}
    gov = rows.filter(pl.col("region").str.contains("GovCloud"))
    assert gov["quality_flags"].to_list() == ["government_region"]
    assert not gov["index_eligible"].any()


def test_aws_spot_callback_and_advisor() -> None:
    rows = offers("gpu-prices/aws", fixture("gpu-prices/aws", "spot_2026-10-02.js"))
    assert price(rows, "p4d.24xlarge", operating_system="linux") == pytest.approx(9.8318 / 8)
    assert price(rows, "p4d.24xlarge", operating_system="windows") is None
    told = offers("gpu-prices/aws", fixture("gpu-prices/aws", "advisor_2026-10-02.json"))
    assert told["sku"].to_list() == ["p5.48xlarge"]
    assert told["price_usd_per_gpu_hour"].to_list() == [None]  # a percentage is no price
    assert told["notes"][0] == "savings over on-demand 62 %, interrupted 15-20% a month"


def test_aws_price_list_capacity_blocks_are_not_on_demand() -> None:
    rows = offers("gpu-prices/aws", fixture("gpu-prices/aws", "pricelist.json"))
    assert sorted(rows["offer_id"]) == ["CB1.JRTC", "OD1.AU", "OD1.JRTC", "OD1.NU", "WIN.JRTC"]
    assert price(rows, "p4d.24xlarge", price_kind="on_demand") == pytest.approx(32.7726 / 8)
    block = rows.filter(price_kind="capacity_block")
    assert block["quoted_amount"].to_list() == ["0.0000000000"]
    assert block["price_usd_per_gpu_hour"].to_list() == [None]
    assert not block["index_eligible"].any()
    # 167,900 USD for a year in advance: over 8,760 hours and 8 GPUs
    assert price(rows, "p4d.24xlarge", offer_id="OD1.AU") == pytest.approx(167900 / 8760 / 8)
    assert rows.filter(offer_id="OD1.AU")["upfront_usd"].to_list() == [167900.0]
    assert price(rows, "p4d.24xlarge", offer_id="OD1.NU") == pytest.approx(11.5726 / 8)
    assert dict(rows.select("offer_id", "term_months").iter_rows())["OD1.NU"] == 36
    assert rows.filter(offer_id="WIN.JRTC")["operating_system"].to_list() == ["windows"]


def test_aws_price_list_csv() -> None:
    rows = offers("gpu-prices/aws", fixture("gpu-prices/aws", "pricelist.csv"))
    assert dict(rows.select("offer_id", "price_kind").iter_rows()) == {"A.J.6": "on_demand", "B.J.6": "capacity_block"}
    assert price(rows, "p5.48xlarge", price_kind="on_demand") == pytest.approx(12.29)
    assert rows["observed_at"].unique().to_list() == [dt.datetime(2024, 2, 5, 18, 42, 27, tzinfo=dt.UTC)]


def test_karpenter_shapes() -> None:
    rows = offers("gpu-prices/aws", fixture("gpu-prices/aws", "karpenter.csv"))
    assert rows.height == 3  # two commits of one generation are one price
    assert rows["price_usd_per_gpu_hour"].to_list() == pytest.approx([32.7726 / 8, 32.7726 / 8, 21.957642 / 8])
    go = offers("gpu-prices/aws", fixture("gpu-prices/aws", "karpenter.go"))
    assert dict(go.select("sku", "price_usd_per_gpu_hour").iter_rows()) == pytest.approx(
        {"p5.48xlarge": 12.29, "p4de.24xlarge": 40.96575 / 8}
    )
    assert go["observed_at"].unique().to_list() == [dt.datetime(2023, 8, 8, 13, 58, 38, tzinfo=dt.UTC)]


def test_azure_reservation_total_is_never_hourly() -> None:
    rows = offers("gpu-prices/azure", fixture("gpu-prices/azure", "retail_2026-07-27.json"))
    sku = "Standard_ND96isr_H100_v5"
    # 551,221 USD is the year: 8,760 hours, 8 GPUs. The reference point says 7.8656.
    year = rows.filter(sku=sku, price_kind="reserved", term_months=12)
    assert year["quoted_unit"].to_list() == ["instance_term"]
    assert year["price_usd_per_gpu_hour"][0] == pytest.approx(7.8656, abs=1e-4)
    assert price(rows, sku, price_kind="reserved", term_months=36) == pytest.approx(1_100_000 / 26_280 / 8)
    assert rows["price_usd_per_gpu_hour"].max() < 100


def test_azure_rows_told_apart_by_their_names() -> None:
    found = load("gpu-prices/azure", fixture("gpu-prices/azure", "retail_2026-07-27.json"))
    rows = found.frames["market.gpu_offers"]
    sku = "Standard_ND96isr_H100_v5"
    east = rows.filter(region="eastus", operating_system="linux")
    assert price(east, sku, price_kind="on_demand") == pytest.approx(12.29)
    assert price(east, sku, price_kind="spot") is None  # printed at the on-demand rate: no capacity
    assert "spot_not_below_on_demand" in _flags(east, sku, price_kind="spot")
    assert price(rows, sku, price_kind="spot", region="westus3") == pytest.approx(24.5 / 8)
    assert price(east, sku, price_kind="low_priority") == pytest.approx(19.664 / 8)
    assert price(east, sku, price_kind="dev_test") == pytest.approx(49.16 / 8)
    assert price(rows, sku, operating_system="windows") == pytest.approx(12.29)
    for kind in ("low_priority", "dev_test"):
        assert not rows.filter(price_kind=kind)["index_eligible"].any()
    assert not rows.filter(operating_system="windows")["index_eligible"].any()
    assert "twin_without_infiniband" in _flags(rows, "Standard_ND96is_H100_v5")
    assert "government_region" in _flags(rows, "Standard_NC40ads_H100_v5", region="usgovvirginia")
    assert "not_yet_effective" in _flags(rows, "Standard_NC24ads_A100_v4")
    assert rows.filter(sku="Standard_NC40ads_H100_v5")["accelerator_id"].unique().to_list() == ["nvidia-h100-nvl-94gb"]
    assert price(rows, "NDasrA100v4_Type1") is None  # a dedicated host
    assert sorted(r.rule for r in found.rejects) == ["reservation_term", "unit"]


def test_gcp_catalogue() -> None:
    found = load("gpu-prices/gcp", fixture("gpu-prices/gcp", "catalogue_2023-04-01.json"))
    rows = found.frames["market.gpu_offers"]
    assert price(rows, "a2-highgpu-1g", price_kind="on_demand") == 3.673385
    # 0.880172 + 12 x 0.009483 + 85 x 0.001271
    assert price(rows, "a2-highgpu-1g", price_kind="spot") == pytest.approx(1.102003)
    rupiah = rows.filter(currency="IDR")
    assert rupiah["price_per_gpu_hour"].to_list() == [146934.0]
    assert rupiah["price_usd_per_gpu_hour"].to_list() == [None]
    assert rupiah["quality_flags"].to_list() == ["component_only fx_missing"]
    assert [(r.rule, r.locator) for r in found.rejects] == [("unit", "CCCC-0000-0001")]


def test_gcp_mirror() -> None:
    rows = offers("gpu-prices/gcp", fixture("gpu-prices/gcp", "pricing.yml"))
    assert set(rows["sku"]) == {"a3-highgpu-8g", "a2-ultragpu-1g"}
    assert price(rows, "a3-highgpu-8g", price_kind="reserved", term_months=36) == pytest.approx(4.858, abs=5e-4)
    assert price(rows, "a2-ultragpu-1g", price_kind="reserved") is None


def test_oracle_look_alikes() -> None:
    rows = offers("gpu-prices/oracle", fixture("gpu-prices/oracle", "products_2026-10-01.json"))
    assert dict(rows.select("sku", "accelerator_id").iter_rows()) == {
        "B98415": "nvidia-h100-sxm5-80gb",
        "B110519": "nvidia-h200-sxm5-141gb",
        "B110978": "nvidia-b200-sxm6-180gb",
        "B110979": "nvidia-gb200-186gb",
        "B95907": "nvidia-a100-sxm4-80gb",
        "B109480": None,  # H100T is another product
    }
    # The reference points of 2026-10-01
    dollars = {"B98415": 10.0, "B110519": 10.0, "B110978": 14.0, "B95907": 4.0}
    assert {sku: price(rows, sku) for sku in dollars} == dollars
    assert not rows.filter(sku="B109480")["index_eligible"].any()
    shapes = offers("gpu-prices/oracle", fixture("gpu-prices/oracle", "shapes_2026-10-01.json"))
    assert shapes.select("sku", "gpu_count", "price_usd_per_gpu_hour").rows() == [("BM.GPU.H100.8", 8.0, None)]


def test_vast_book() -> None:
    rows = offers("gpu-prices/vast", fixture("gpu-prices/vast", "book_2026-11-01.json"))
    asks = {r["offer_id"]: r for r in rows.filter(price_kind="marketplace_ask").iter_rows(named=True)}
    assert asks["1"]["price_usd_per_gpu_hour"] == asks["2"]["price_usd_per_gpu_hour"] == 1.87
    assert asks["1"]["machine_id"] == asks["2"]["machine_id"]  # one machine, two asks
    assert [asks[i]["accelerator_id"] for i in "34"] == ["nvidia-a100-sxm4-40gb", "nvidia-a100-sxm4-80gb"]
    assert asks["5"]["accelerator_id"] is None  # 48 GB on an RTX 4090
    assert asks["6"]["quality_flags"] == "unverified_host"
    assert (asks["6"]["region"], asks["6"]["geography"]) == ("unknown", "unknown")
    assert asks["8"]["candidates"] == "nvidia-v100-sxm2-32gb nvidia-v100-pcie-32gb"
    floor = rows.filter(price_kind="bid_floor")
    assert floor.select("offer_id", "price_usd_per_gpu_hour", "index_eligible").rows() == [("1", 1.0, False)]


def test_vast_64_offers_mean_a_cut_book() -> None:
    rows = offers("gpu-prices/vast", fixture("gpu-prices/vast", "book_cut_2026-11-01.json"))
    assert rows.height == 64
    assert rows["quality_flags"].unique().to_list() == ["truncated_book"]
    assert not rows["index_eligible"].any()


def test_runpod_placeholder_zero_and_slices() -> None:
    rows = offers("gpu-prices/runpod", fixture("gpu-prices/runpod", "gpuTypes_2026-11-01.json"))
    assert "unknown" not in set(rows["sku"])
    h100 = rows.filter(sku="NVIDIA H100 80GB HBM3")
    assert h100.select("offer_id", "price_kind", "term_months", "price_usd_per_gpu_hour").rows() == [
        ("secure", "on_demand", 0, 3.49),
        ("community", "on_demand", 0, 2.69),
        ("secure", "spot", 0, 1.75),
        ("secure", "reserved", 1, 2.95),
    ]
    assert dict(h100.select("offer_id", "segment").iter_rows()) == {"secure": "neocloud", "community": "marketplace"}
    assert price(rows, "AMD Instinct MI300X OAM", offer_id="community") is None
    assert _flags(rows, "NVIDIA H200 NVL", offer_id="community") == {"placeholder"}
    assert _flags(rows, "NVIDIA A100-SXM4-40GB", offer_id="secure") == {"not_offered"}
    mig = rows.filter(pl.col("sku").str.contains("MIG"))
    assert mig["gpu_count"].to_list() == [0.25, 0.25]
    assert mig["price_usd_per_gpu_hour"].to_list() == [None, None]
    assert mig["quoted_amount"].to_list() == ["0.59", "0.5"]


def test_lambda_cents_and_sold_out() -> None:
    rows = offers("gpu-prices/lambda", fixture("gpu-prices/lambda", "instance_types_2026-11-01.json"))
    assert price(rows, "gpu_8x_h100_sxm5") == pytest.approx(2.99)  # 2392 cents for eight
    assert rows.filter(sku="gpu_8x_h100_sxm5").select("available", "quality_flags", "index_eligible").rows() == [
        (False, "sold_out", True)
    ]
    assert price(rows, "gpu_1x_gh200") == 1.49
    assert rows.height == 2


def test_coreweave_page() -> None:
    found = load("gpu-prices/coreweave", fixture("gpu-prices/coreweave", "pricing_2026-11-02.html"))
    rows = found.frames["market.gpu_offers"]
    assert rows.filter(sku="nvidia-gb200-nvl72")["gpu_count"].to_list() == [4.0, 4.0]
    assert price(rows, "nvidia-gb200-nvl72", price_kind="on_demand") == 10.5
    assert price(rows, "hgx-h100", price_kind="spot") == pytest.approx(19.71 / 8)
    assert price(rows, "nvidia-b300", price_kind="on_demand") is None
    assert [(r.rule, r.locator) for r in found.rejects] == [("gpu_count", "hgx-h200")]
    assert "amd-cpu" not in set(rows["sku"])


def test_verda_strings_total_memory_and_currency() -> None:
    rows = offers("gpu-prices/verda", fixture("gpu-prices/verda", "instance_types_2026-11-01.json"))
    assert price(rows, "1H100.80S.30V", price_kind="on_demand") == 2.29
    assert price(rows, "8A100.176V", price_kind="spot") == pytest.approx(3.612 / 8)
    assert rows.filter(sku="8A100.176V")["memory_gb"].to_list() == [80.0, 80.0]
    euro = rows.filter(sku="1B200.30V", price_kind="on_demand")
    assert euro.select("currency", "price_per_gpu_hour", "price_usd_per_gpu_hour").rows() == [("EUR", 4.1, None)]


def test_vultr_slices_free_plans_and_metal() -> None:
    rows = offers("gpu-prices/vultr", fixture("gpu-prices/vultr", "plans_2026-11-01.json"))
    assert set(rows["sku"]) == {"vcg-a100-1c-6g-4vram", "vcg-a100-12c-120g-80vram"}
    assert price(rows, "vcg-a100-1c-6g-4vram") is None
    assert rows.filter(sku="vcg-a100-12c-120g-80vram")["available"].to_list() == [False]
    metal = offers("gpu-prices/vultr", fixture("gpu-prices/vultr", "plans_metal_2026-11-01.json"))
    assert price(metal, "vbm-112c-2048gb-8-h100-gpu", price_kind="spot") == pytest.approx(2.3)
    assert metal.height == 2


def test_digitalocean_total_memory() -> None:
    rows = offers("gpu-prices/digitalocean", fixture("gpu-prices/digitalocean", "sizes_2026-11-01.json"))
    assert rows.select("sku", "accelerator_id", "price_usd_per_gpu_hour", "available").rows() == [
        ("gpu-h100x8-640gb", "nvidia-h100-sxm5-80gb", 2.99, True),
        ("gpu-mi300x1-192gb", "amd-mi300x-192gb", 1.99, False),
    ]


def test_scaleway_is_in_euro_and_unverified() -> None:
    rows = offers("gpu-prices/scaleway", fixture("gpu-prices/scaleway", "fr-par-2_2026-11-03.json"))
    assert rows.select(
        "sku", "region", "currency", "price_per_gpu_hour", "price_usd_per_gpu_hour", "certainty"
    ).rows() == [
        ("H100-1-80G", "fr-par-2", "EUR", 2.73, None, "unverified"),
        ("L4-1-24G", "fr-par-2", "EUR", 0.75, None, "unverified"),
    ]
    assert rows["accelerator_id"].to_list() == ["nvidia-h100-pcie-80gb", "nvidia-l4-24gb"]


def test_nebius_announced_prices_are_not_in_force() -> None:
    rows = offers("gpu-prices/nebius", fixture("gpu-prices/nebius", "prices_2026-11-01.csv"))
    assert rows["price_usd_per_gpu_hour"].to_list() == [2.95, 5.5, 3.8]
    assert rows["gpu_count"].to_list() == [8.0, 8.0, 1.0]
    assert rows["quality_flags"].to_list() == [None, None, "not_yet_effective"]
    assert rows["certainty"].unique().to_list() == ["unverified"]


def test_skypilot_runpod_writes_gigabytes_and_repeats_regions() -> None:
    rows = offers("gpu-prices/skypilot", fixture("gpu-prices/skypilot", "v8_runpod_vms_2026-11-01.csv"))
    ask = rows.filter(price_kind="on_demand")
    assert ask["accelerator_id"].unique().to_list() == ["nvidia-h100-sxm5-80gb"]
    assert set(ask["price_usd_per_gpu_hour"]) == {2.69}
    assert set(ask["region"]) == {"global"}
    spot = rows.filter(price_kind="spot")
    assert spot["price_usd_per_gpu_hour"].null_count() == spot.height  # its spot column repeats the price


def test_skypilot_sold_out_and_unknown_form_factor() -> None:
    rows = offers("gpu-prices/skypilot", fixture("gpu-prices/skypilot", "v8_verda_vms_2026-11-01.csv"))
    assert price(rows, "2B300.60V", price_kind="on_demand") is None
    assert price(rows, "2B300.60V", price_kind="spot") == pytest.approx(4.893 / 2)
    assert rows.filter(sku="1V100.6V")["accelerator_id"].to_list() == [None]
    assert "CPU.4V.16G" not in set(rows["sku"])


def test_own_quotes() -> None:
    found = load("gpu-prices/quotes", fixture("gpu-prices/quotes", "quotes.csv"))
    rows = found.frames["market.gpu_offers"]
    by_id = {r["offer_id"]: r for r in rows.iter_rows(named=True)}
    assert by_id["Q-17"]["price_usd_per_gpu_hour"] == 2.35
    assert by_id["Q-17"]["provider"] == "coreweave"
    assert by_id["Q-18"]["price_per_gpu_hour"] == pytest.approx(16000 / 730 / 8)
    assert by_id["Q-18"]["price_usd_per_gpu_hour"] is None  # euro, no rate yet
    # 10 USD an hour for eight, and 70,080 USD in advance for 8,760 hours
    assert by_id["Q-19"]["price_usd_per_gpu_hour"] == pytest.approx(10 / 8 + 70080 / 8760 / 8)
    assert not rows["index_eligible"].any()
    assert [r.locator for r in found.rejects] == ["line 5", "line 6", "line 7"]


def test_gpuhunt_is_a_cross_check(tmp_path: Path) -> None:
    table = """instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size
p5.48xlarge,us-east-1,55.04,192,2048,8,H100,80,False,
p5.48xlarge,us-east-1,19.5,192,2048,8,H100,80,True,
c5.large,us-east-1,0.085,2,4,0,,,False,
"""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("aws.csv", table)
    path = tmp_path / "20261101-5_catalog.zip"
    path.write_bytes(body.getvalue())
    rows = offers("gpu-prices/gpuhunt", path)
    assert rows["observed_at"].unique().to_list() == [dt.datetime(2026, 11, 1, tzinfo=dt.UTC)]
    assert price(rows, "p5.48xlarge", price_kind="on_demand") == pytest.approx(6.88)
    assert price(rows, "p5.48xlarge", price_kind="spot") == pytest.approx(19.5 / 8)
    assert not rows["index_eligible"].any()
