"""Every file of the shared price payloads loads: row counts taken from the files, prices worked out by hand."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import polars as pl
import pytest

from .loading import OFFERS, load, offers, price

# Which source reads which part of the data folder. Files that state no time get one.
READERS = {
    "aws_karpenter": "aws",
    "aws_pricelist": "aws",
    "aws_spotjs": "aws",
    "aws_website_json": "aws",
    "azure_karpenter": "azure",
    "azure_retail": "azure",
    "becloudready_daily": "becloudready",
    "ccir_reference_rates": "ccir",
    "coreweave_html": "coreweave",
    "fsdl_cloud_gpus": "fsdl",
    "gcp_billing_skus": "gcp",
    "gcp_cyclenerd": "gcp",
    "lambda_api": "lambda",
    "runpod_graphql": "runpod",
    "skypilot": "skypilot",
    "gpuhunt_fixtures/digitalocean_v2_sizes.json": "digitalocean",
    "gpuhunt_fixtures/oci_cloudestimator_shapes.json": "oracle",
    "gpuhunt_fixtures/vultr_plans.json": "vultr",
    "gpuhunt_fixtures/vultr_plans_metal.json": "vultr",
    "vast_ccir/audit_cri-h100-2026-03-04.json": "ccir",
    "vast_ccir/bundles_2026-02-27.json": "vast",
    "vast_ccir/bundles_2026-03-01.json": "vast",
    "vast_ccir/filtered": "vast",
    "vast_ccir/published_cri-4090-index.csv": "ccir",
    "vast_ccir/published_cri-h100-index.csv": "ccir",
    "vast_ccir/published_cri-h200-index.csv": "ccir",
    "vast_ccir/published_cri-l40s-index.csv": "ccir",
}
SEEN = "2026-10-01"


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def data(shared: Path) -> Path:
    return shared / "data" / "prices"


def test_every_file_has_a_reader_and_loads_without_a_reject(data: Path) -> None:
    covered: set[Path] = set()
    for part, provider in READERS.items():
        path = data / part
        found = load(f"gpu-prices/{provider}", path, SEEN)
        assert found.rejects == [], part
        if part != "gpuhunt_fixtures/oci_cloudestimator_shapes.json":  # its two shapes have no GPU
            assert all(frame.height for frame in found.frames.values()), part
        covered |= {path} if path.is_file() else set(path.rglob("*"))
    descriptions = set(data.rglob("*.meta.json"))
    assert {p for p in data.rglob("*") if p.is_file()} - covered - descriptions == set()


def test_aws_history(data: Path) -> None:
    path = data / "aws_karpenter" / "aws_gpu_ondemand_us-east-1_history.csv"
    rows = offers("gpu-prices/aws", path)
    assert rows.height == len({(r["generated_at"], r["instance_type"]) for r in _lines(path)})
    first = rows.filter(pl.col("observed_at").dt.date() == pl.date(2022, 6, 23))
    by_hand = {
        "p4d.24xlarge": 32.7726 / 8,
        "p4de.24xlarge": 40.96575 / 8,
        "p3.2xlarge": 3.06,
        "p3dn.24xlarge": 31.212 / 8,
        "p2.8xlarge": 0.9,
        "g5.48xlarge": 16.288 / 8,
        "g5.12xlarge": 5.672 / 4,
        "g4dn.metal": 7.824 / 8,
        "g4ad.8xlarge": 1.734 / 2,
        "g3s.xlarge": 0.75,
        "dl1.24xlarge": 13.10904 / 8,
        "inf1.24xlarge": 4.721 / 16,
    }
    assert {sku: price(first, sku) for sku in by_hand} == pytest.approx(by_hand)
    last = rows.filter(pl.col("observed_at").dt.date() == pl.date(2025, 4, 28))
    by_hand = {"p5en.48xlarge": 10.6, "trn1.32xlarge": 21.5 / 16, "inf2.48xlarge": 12.98127 / 12, "g6.12xlarge": 1.1504}
    assert {sku: price(last, sku) for sku in by_hand} == pytest.approx(by_hand)


def test_aws_go_source_agrees_with_the_history(data: Path) -> None:
    go = offers("gpu-prices/aws", data / "aws_karpenter" / "raw_2022-06-23_cbdf40d0e.go")
    history = offers("gpu-prices/aws", data / "aws_karpenter" / "aws_gpu_ondemand_us-east-1_history.csv")
    same = history.filter(pl.col("observed_at").dt.date() == pl.date(2022, 6, 23))
    assert go["observed_at"].unique().dt.to_string("%Y-%m-%dT%H:%M").to_list() == ["2022-06-23T12:35"]  # 07:35 -0500
    assert dict(go.select("sku", "price_usd_per_gpu_hour").iter_rows()) == dict(
        same.select("sku", "price_usd_per_gpu_hour").iter_rows()
    )


def test_aws_website(data: Path) -> None:
    rows = offers("gpu-prices/aws", data / "aws_website_json", SEEN)
    by_hand = {
        "g6e.48xlarge": 30.13118 / 8,
        "g6e.12xlarge": 10.49264 / 4,
        "g6e.xlarge": 1.861,
        "p4d.24xlarge": 21.957642 / 8,
        "p4de.24xlarge": 27.44705 / 8,
        "p5.48xlarge": 6.88,
        "p5.4xlarge": 6.88,
        "p5en.48xlarge": 7.912,
        "p6-b200.48xlarge": 14.2416,
        "p6-b300.48xlarge": 17.802,
    }
    assert {sku: price(rows, sku) for sku in rows["sku"]} == pytest.approx(by_hand)


def test_aws_spot(data: Path) -> None:
    rows = offers("gpu-prices/aws", data / "aws_spotjs")
    body = json.loads((data / "aws_spotjs" / "spot_2021_test-data.json").read_text())
    cells = [
        column
        for region in body["config"]["regions"]
        for kind in region["instanceTypes"]
        for size in kind["sizes"]
        if re.match(r"p\d|g\d|inf\d", size["size"])
        for column in size["valueColumns"]
    ]
    assert rows.height == len(cells)
    assert rows["price_usd_per_gpu_hour"].null_count() == sum(c["prices"]["USD"] == "N/A*" for c in cells)
    here = rows.filter(region="us-east-1", operating_system="linux")
    by_hand = {
        "g2.8xlarge": 0.78 / 4,
        "g3.16xlarge": 1.368 / 4,
        "g4dn.12xlarge": 1.1736 / 4,
        "g4dn.metal": 2.3472 / 8,
        "g4ad.16xlarge": 1.0404 / 4,
        "p2.16xlarge": 4.32 / 16,
        "p3.2xlarge": 0.918,
        "p3.8xlarge": 0.918,
        "p3.16xlarge": 0.918,
        "p3dn.24xlarge": 9.6354 / 8,
        "p4d.24xlarge": 9.8318 / 8,
        "g4dn.xlarge": 0.1578,
    }
    assert {sku: price(here, sku) for sku in by_hand} == pytest.approx(by_hand)
    assert price(rows, "p4d.24xlarge", region="us-east-1", operating_system="windows") is None
    assert set(rows["region"]) == {"us-east-1", "us-east-2", "us-west-1", "eu-west-1", "ap-southeast-2"}


def test_aws_price_list_sample_is_dated_by_itself(data: Path) -> None:
    rows = offers("gpu-prices/aws", data / "aws_pricelist", SEEN)
    assert rows.height == 1  # one GPU product, and it is Windows with its own licence
    assert rows["observed_at"].dt.to_string("%Y-%m-%dT%H:%M:%S").to_list() == ["2023-03-22T14:56:51"]
    assert rows["operating_system"].to_list() == ["windows"]
    assert not rows["index_eligible"].any()
    assert price(rows, "p3.8xlarge") == pytest.approx(12.24 / 4)


def test_azure_history(data: Path) -> None:
    path = data / "azure_karpenter" / "azure_gpu_ondemand_history.csv"
    rows = offers("gpu-prices/azure", path)
    lines = _lines(path)
    assert rows.height == len({(r["generated_at"], r["region"], r["arm_sku"]) for r in lines})
    last = rows.filter(pl.col("observed_at").dt.date() == pl.date(2025, 6, 3))
    east = last.filter(region="eastus")
    by_hand = {
        "Standard_NC24ads_A100_v4": 3.673,
        "Standard_NC48ads_A100_v4": 7.346 / 2,
        "Standard_NC96ads_A100_v4": 14.692 / 4,
        "Standard_NC40ads_H100_v5": 6.98,
        "Standard_NC80adis_H100_v5": 13.96 / 2,
        "Standard_ND96asr_A100_v4": 27.197 / 8,
        "Standard_ND96amsr_A100_v4": 32.77 / 8,
        "Standard_ND96isr_H100_v5": 12.29,
        "Standard_ND96is_H100_v5": 88.488 / 8,
        "Standard_ND128isr_NDR_GB200_v6": 108.16 / 4,
    }
    assert {sku: price(east, sku) for sku in by_hand} == pytest.approx(by_hand)
    south = last.filter(region="uksouth")
    assert price(south, "Standard_ND96isr_H200_v5") == pytest.approx(13.25)
    assert price(south, "Standard_ND96isr_MI300X_v5") == pytest.approx(7.5)
    twins = rows.filter(pl.col("sku").str.contains("ND96is_"))
    assert twins["quality_flags"].str.contains("twin_without_infiniband").all()


def test_azure_retail(data: Path) -> None:
    path = data / "azure_retail" / "azure_gpu_rows_2026-09.json"
    rows = offers("gpu-prices/azure", path)
    items = json.loads(path.read_text())
    assert rows.height == len(items) == 62
    words = {"spot": "Spot", "low_priority": "Low Priority"}
    for kind, word in words.items():
        assert rows.filter(price_kind=kind).height == sum(word in i["meterName"] for i in items)
    assert rows.filter(operating_system="windows").height == sum("Windows" in i["productName"] for i in items)
    linux = rows.filter(operating_system="linux")
    by_hand = [
        ("Standard_NC48ads_A100_v4", "eastus2", "on_demand", 7.346 / 2),
        ("Standard_NC40ads_H100_v5", "uaenorth", "on_demand", 9.98),
        ("Standard_NC40ads_H100_v5", "uaenorth", "spot", 1.844304),
        ("Standard_NC80adis_H100_v5", "uksouth", "on_demand", 17.45 / 2),
        ("Standard_NC24ads_A100_v4", "westus3", "on_demand", 3.673),
        ("Standard_ND96isr_H100_v5", "eastus", "on_demand", 98.32 / 8),
        ("Standard_ND96isr_H100_v5", "spaincentral", "spot", 23.620397 / 8),
        ("Standard_ND96asr_v4", "eastus", "spot", 5.904469 / 8),
        ("Standard_ND96amsr_A100_v4", "westeurope", "on_demand", 40.962 / 8),
        ("Standard_ND96isr_MI300X_v5", "northeurope", "on_demand", 57.6 / 8),
        ("Standard_NC96ads_A100_v4", "southcentralus", "spot", 3.258024 / 4),
        ("Standard_ND96isr_H200_v5", "eastus2", "low_priority", 16.96 / 8),
    ]
    for sku, region, kind, dollars in by_hand:
        assert price(linux, sku, region=region, price_kind=kind) == pytest.approx(dollars), sku


def test_azure_spot_at_the_on_demand_rate_is_not_in_an_index(data: Path) -> None:
    rows = offers("gpu-prices/azure", data / "azure_retail")
    spot = rows.filter(sku="Standard_ND96isr_H200_v5", region="uksouth", price_kind="spot")
    assert spot["quoted_amount"].to_list() == ["106.0"]
    assert "spot_at_on_demand_level" in spot["quality_flags"][0]
    assert not spot["index_eligible"].any()


def test_gcp_history(data: Path) -> None:
    path = data / "gcp_cyclenerd" / "gcp_gpu_machine_prices_monthly.csv"
    rows = offers("gpu-prices/gcp", path)
    figures = ("hour_usd", "hour_spot_usd", "month_1y_cud_usd", "month_3y_cud_usd")
    assert rows.height == sum(bool(r[f]) for r in _lines(path) for f in figures)
    here = rows.filter(pl.col("region") == "us-central1")
    june = here.filter(pl.col("observed_at").dt.date() == pl.date(2024, 6, 13))
    for sku, kind, months, dollars in [
        ("a3-highgpu-8g", "on_demand", 0, 88.4899999025753 / 8),
        ("a3-highgpu-8g", "spot", 0, 62.4084208126027 / 8),
        ("a3-highgpu-8g", "reserved", 12, 44810.08066464 / 730 / 8),
        ("a3-highgpu-8g", "reserved", 36, 28370.99821392 / 730 / 8),
        ("a2-highgpu-1g", "on_demand", 0, 3.673385),
        ("a2-highgpu-8g", "spot", 0, 11.75484 / 8),
        ("a2-megagpu-16g", "on_demand", 0, 55.739504 / 16),
        ("a2-ultragpu-8g", "on_demand", 0, 40.5503831232877 / 8),
        ("g2-standard-4", "on_demand", 0, 0.706832255),
        ("g2-standard-24", "on_demand", 0, 2.000832574 / 2),
        ("g2-standard-48", "spot", 0, 1.274640284 / 4),
        ("g2-standard-96", "reserved", 36, 2629.0938028 / 730 / 8),
    ]:
        assert price(june, sku, price_kind=kind, term_months=months) == pytest.approx(dollars, abs=1e-8), sku


def test_gcp_commitment_that_costs_as_much_as_on_demand_is_none(data: Path) -> None:
    rows = offers("gpu-prices/gcp", data / "gcp_cyclenerd" / "gcp_gpu_machine_prices_monthly.csv")
    filled_in = rows.filter(
        pl.col("sku") == "a2-ultragpu-1g",
        pl.col("price_kind") == "reserved",
        pl.col("region") == "us-central1",
        pl.col("observed_at").dt.date() == pl.date(2023, 6, 1),
    )  # 3670.22246 a month is 730 x 5.027702: the on-demand price
    assert filled_in["quoted_amount"].to_list() == ["3670.22246", "3670.22246"]
    assert filled_in["price_usd_per_gpu_hour"].to_list() == [None, None]
    assert filled_in["quality_flags"].str.contains("reserved_not_below_on_demand").all()


def test_gcp_mirror(data: Path) -> None:
    path = data / "gcp_cyclenerd" / "pricing_2023-12-07_65a9434_gpu_only.yml"
    rows = offers("gpu-prices/gcp", path)
    text = path.read_text()
    assert rows.height == len(re.findall(r"^          (?:hour|hour_spot|month_1y|month_3y): ", text, re.MULTILINE))
    assert rows["observed_at"].unique().dt.to_string("%Y-%m-%dT%H:%M:%S").to_list() == ["2023-12-07T03:58:02"]
    assert price(rows, "a2-highgpu-1g", region="asia-east1", price_kind="on_demand") == pytest.approx(3.790142)
    assert price(rows, "g2-standard-96", region="asia-east1", price_kind="spot") == pytest.approx(2.4925216 / 8)
    assert price(rows, "g2-standard-8", region="us-west4", price_kind="reserved", term_months=36) == pytest.approx(
        315.83205888 / 730, abs=1e-8
    )


def test_gcp_machine_is_put_together_from_its_parts(data: Path) -> None:
    rows = offers("gpu-prices/gcp", data / "gcp_billing_skus", SEEN)
    # 2.933908 + 12 x 0.031611 + 85 x 0.004237
    assert price(rows, "a2-highgpu-1g", region="us-central1") == 3.673385
    assert price(rows, "a2-highgpu-8g", region="us-east1") == 3.673385
    assert price(rows, "a2-megagpu-16g", region="us-west1") == pytest.approx(
        (16 * 2.933908 + 96 * 0.031611 + 1360 * 0.004237) / 16
    )
    bare = rows.filter(pl.col("quoted_unit") == "component_hour")
    assert bare["price_usd_per_gpu_hour"].to_list() == [2.933908] * 3
    assert not bare["index_eligible"].any()


def test_vast_books(data: Path) -> None:
    for day, n in (("2026-02-27", 248), ("2026-03-01", 239)):
        rows = offers("gpu-prices/vast", data / "vast_ccir" / f"bundles_{day}.json")
        assert rows.filter(price_kind="marketplace_ask").height == n
        assert rows.filter(price_kind="bid_floor").height == n
        assert rows["observed_at"].dt.date().unique().to_list() == [pl.Series([day]).str.to_date()[0]]
        cut = rows.filter(pl.col("quality_flags").str.contains("truncated_book"))
        full = {"2026-02-27": {"RTX 4090"}, "2026-03-01": {"RTX 4090", "Tesla V100"}}
        assert set(cut["sku"]) == full[day]  # exactly the models with 64 offers
        assert not cut["index_eligible"].any()


def test_vast_asks(data: Path) -> None:
    rows = offers("gpu-prices/vast", data / "vast_ccir" / "bundles_2026-02-27.json").filter(
        price_kind="marketplace_ask"
    )
    by_hand = {
        "26679142": 1.468888888888889,
        "30018971": 2.4537634408602145,
        "31183512": 2.1691851851851855,
        "28604181": 0.5010370370370371,
        "31500057": 0.09335555555555557,
        "30918570": 0.08222222222222222 / 4,
        "29503192": 0.148,
    }
    for ask, dollars in by_hand.items():
        row = rows.filter(offer_id=ask)
        assert row["price_usd_per_gpu_hour"][0] == pytest.approx(dollars, abs=1e-9), ask
    sxm = rows.filter(accelerator_id="nvidia-h100-sxm5-80gb")
    assert (sxm.height, sxm["machine_id"].n_unique(), sxm["host_id"].n_unique()) == (31, 19, 11)
    assert sxm["price_usd_per_gpu_hour"].median() == pytest.approx(1.562, abs=5e-4)
    assert sxm.filter("is_verified")["price_usd_per_gpu_hour"].median() == pytest.approx(1.867, abs=5e-4)
    assert set(rows.filter(sku="A100 PCIE")["accelerator_id"]) == {"nvidia-a100-pcie-40gb", "nvidia-a100-pcie-80gb"}
    assert rows.filter(sku="Tesla V100")["accelerator_id"].null_count() == 61  # SXM or PCIe is not said
    absurd = rows.filter(pl.col("price_usd_per_gpu_hour") > 40)
    assert absurd["sku"].to_list() == ["A100 PCIE"]


def test_vast_modified_cards_are_not_the_product(data: Path) -> None:
    rows = offers("gpu-prices/vast", data / "vast_ccir" / "bundles_2026-03-01.json")
    modified = rows.filter(pl.col("sku") == "RTX 4090", pl.col("memory_gb") > 40)
    assert modified.height
    assert modified["accelerator_id"].null_count() == modified.height


def test_vast_filtered_samples_stay_out_of_an_index(data: Path) -> None:
    rows = offers("gpu-prices/vast", data / "vast_ccir" / "filtered")
    expected = sum(len(_lines(p)) for p in (data / "vast_ccir" / "filtered").glob("*.csv"))
    assert rows.height == expected
    assert not rows["index_eligible"].any()
    first = rows.filter(pl.col("offer_id") == "31971204")
    assert first["price_usd_per_gpu_hour"].max() == pytest.approx(3.124444444444444 / 2, abs=1e-9)


def test_runpod(data: Path) -> None:
    path = data / "runpod_graphql" / "gpuTypes_2026-09.json"
    rows = offers("gpu-prices/runpod", path)
    types = [t for t in json.loads(path.read_text())["data"]["gpuTypes"] if t["id"] != "unknown"]
    assert rows.height == 2 * len(types)
    halves = sum(t[f] == 0.5 for t in types for f in ("securePrice", "communityPrice"))
    assert halves == 12
    held = rows.filter(pl.col("quality_flags").str.contains("placeholder"))
    assert held.height == halves
    assert held["price_usd_per_gpu_hour"].null_count() == halves
    by_hand = [
        ("NVIDIA H100 80GB HBM3", "secure", 3.49),
        ("NVIDIA H100 80GB HBM3", "community", 2.69),
        ("NVIDIA H100 PCIe", "secure", 2.89),
        ("NVIDIA H100 NVL", "secure", 3.19),
        ("NVIDIA H200", "secure", 4.59),
        ("NVIDIA H200 NVL", "secure", 3.79),
        ("NVIDIA H200 NVL", "community", None),
        ("NVIDIA B200", "secure", 6.79),
        ("NVIDIA B300 SXM6 AC", "secure", 7.89),
        ("AMD Instinct MI300X OAM", "secure", 2.39),
        ("AMD Instinct MI300X OAM", "community", None),
        ("NVIDIA A100-SXM4-40GB", "secure", None),
        ("NVIDIA A100-SXM4-40GB", "community", 1.0),
        ("NVIDIA L40S", "secure", 1.09),
    ]
    for sku, cloud, dollars in by_hand:
        assert price(rows, sku, offer_id=cloud) == dollars, sku
    mig = rows.filter(pl.col("sku").str.contains("MIG"))
    assert mig["price_usd_per_gpu_hour"].null_count() == mig.height
    assert sorted(mig["gpu_count"]) == [0.25, 0.25, 0.5, 0.5]


def test_coreweave(data: Path) -> None:
    rows = offers("gpu-prices/coreweave", data / "coreweave_html")
    assert rows.height == 14  # seven GPU rows, on-demand and spot; the CPU table shares the layout
    by_hand = [
        ("nvidia-l40", "on_demand", 1.25),
        ("nvidia-l40", "spot", 6.27 / 8),
        ("hgx-h200", "on_demand", 50.44 / 8),
        ("hgx-h200", "spot", 20.93 / 8),
        ("nvidia-l40s", "on_demand", 2.25),
        ("nvidia-l40s", "spot", 7.88 / 8),
        ("nvidia-a100", "on_demand", 2.7),
        ("nvidia-a100", "spot", 9.65 / 8),
        ("nvidia-gb200-nvl72", "on_demand", 42 / 4),
        ("nvidia-gb200-nvl72", "spot", None),
        ("nvidia-b300", "on_demand", None),
        ("nvidia-b300", "spot", 36.7 / 8),
        ("nvidia-gb300-nvl72", "on_demand", None),
    ]
    for sku, kind, dollars in by_hand:
        assert price(rows, sku, price_kind=kind) == pytest.approx(dollars), sku
    assert rows.filter(sku="nvidia-gb200-nvl72")["gpu_count"].to_list() == [4.0, 4.0]  # the cell says 4^1
    assert set(rows.filter(sku="nvidia-b300")["region"]) == {"europe"}


def test_small_samples(data: Path) -> None:
    rows = offers("gpu-prices/lambda", data / "lambda_api", SEEN)
    assert price(rows, "gpu_1x_h100_pcie") == 2.49  # 249 cents
    rows = offers("gpu-prices/digitalocean", data / "gpuhunt_fixtures" / "digitalocean_v2_sizes.json", SEEN)
    assert price(rows, "gpu-h100x8-640gb") == pytest.approx(23.92 / 8)
    assert price(rows, "gpu-mi300x8-1536gb") == pytest.approx(15.92 / 8)
    rows = offers("gpu-prices/vultr", data / "gpuhunt_fixtures" / "vultr_plans_metal.json", SEEN)
    assert price(rows, "vbm-112c-2048gb-8-h100-gpu", price_kind="on_demand") == pytest.approx(2.99)
    assert price(rows, "vbm-256c-2048gb-8-mi300x-gpu", price_kind="spot") == pytest.approx(1.84)
    rows = offers("gpu-prices/vultr", data / "gpuhunt_fixtures" / "vultr_plans.json", SEEN)
    assert price(rows, "vcg-a100-1c-6g-4vram") is None  # a twentieth of a board is never scaled up
    assert price(rows, "vcg-a100-12c-120g-80vram") == pytest.approx(2.397)


def test_skypilot(data: Path) -> None:
    vast = offers("gpu-prices/skypilot", data / "skypilot" / "v8_vast_vms.csv", SEEN)
    assert vast.height == len(_lines(data / "skypilot" / "v8_vast_vms.csv"))
    by_instance = dict(vast.select("sku", "accelerator_id").iter_rows())
    assert by_instance["1x-H100_NVL-32-65536"] == "nvidia-h100-nvl-94gb"  # its own name column says H100
    assert by_instance["8x-H100_SXM-32-65536"] == "nvidia-h100-sxm5-80gb"
    assert by_instance["1x-A100_SXM4-32-65536"] == "nvidia-a100-sxm4-40gb"
    assert by_instance["1x-A100_PCIE-32-65536"] == "nvidia-a100-pcie-80gb"
    assert by_instance["2x-RTX_4070S_Ti-32-65536"] == "nvidia-rtx-4070-ti-super-16gb"
    assert vast.filter(sku="8x-H100_SXM-32-65536")["price_usd_per_gpu_hour"].to_list() == [2.0]
    assert not vast["index_eligible"].any()  # a bucket median copied to each region
    verda = offers("gpu-prices/skypilot", data / "skypilot" / "v8_verda_vms.csv", SEEN)
    for sku, kind, dollars in [
        ("1B300.30V", "on_demand", 6.99),
        ("2B300.60V", "on_demand", None),
        ("2B300.60V", "spot", 4.893 / 2),
        ("4B300.120V", "on_demand", 27.96 / 4),
        ("8B200.240V", "spot", 13.69 / 8),
        ("1H100.80S.32V", "on_demand", 2.29),
        ("1H100.80S.32V", "spot", 0.8015),
        ("4A100.88V", "on_demand", 5.16 / 4),
    ]:
        assert price(verda, sku, price_kind=kind) == pytest.approx(dollars), sku
    lam = offers("gpu-prices/skypilot", data / "skypilot" / "v8_lambda_vms_head.csv", SEEN)
    assert dict(lam.select("sku", "region").iter_rows()) == dict.fromkeys(lam["sku"], "global")
    assert lam.height == 5  # one price a type, printed once for each of many regions
    assert price(lam, "gpu_4x_a6000") == pytest.approx(1.09)


def test_fsdl(data: Path) -> None:
    for name in ("2022-08-05_7a2b7ff", "2023-05-12_9b08a38", "2024-02-27_75149f4"):
        path = data / "fsdl_cloud_gpus" / f"cloud-gpus_{name}.csv"
        rows = offers("gpu-prices/fsdl", path)
        lines = _lines(path)
        assert rows.height == sum(bool(r["On-demand"]) + bool(r["Spot"]) for r in lines)
        assert not rows["index_eligible"].any()
        for row in lines:  # the table prints its own division, rounded to a cent
            per_gpu = float(row["Per-GPU"].strip("$"))
            if row["Cloud"] not in ("Cudo Compute", "Oblivus Cloud"):  # their printed division is not one
                amount = row["On-demand"].strip("$")
                found = rows.filter(quoted_amount=amount, gpu_name=row["GPU Type"], price_kind="on_demand")
                assert any(abs(v - per_gpu) < 0.0101 for v in found["price_usd_per_gpu_hour"].drop_nulls()), row


def test_becloudready_has_neither_unit_nor_count_so_no_price(data: Path) -> None:
    rows = offers("gpu-prices/becloudready", data / "becloudready_daily" / "history_grouped.csv")
    assert rows.height == 25145
    assert rows["price_usd_per_gpu_hour"].null_count() == rows.height
    assert rows["quality_flags"].str.contains("unit_unknown").all()
    for path in sorted((data / "becloudready_daily").glob("*.json")):
        items = {tuple(sorted(i.items())) for i in json.loads(path.read_text())}
        assert offers("gpu-prices/becloudready", path).height == len(items)


def test_ccir_indices(data: Path) -> None:
    table = "market.external_indices"
    folder = data / "vast_ccir"
    published = {
        name: load("gpu-prices/ccir", folder / f"published_cri-{name}-index.csv").frames[table]
        for name in ("h100", "h200", "l40s", "4090")
    }
    assert published["h100"]["level_usd_per_gpu_hour"].to_list() == [1.6021, 1.735]
    assert published["h100"]["low_confidence"].to_list() == [True, False]
    assert published["h200"]["level_usd_per_gpu_hour"].to_list() == [2.3237]
    assert published["l40s"]["level_usd_per_gpu_hour"].to_list() == [0.937]
    assert published["4090"]["level_usd_per_gpu_hour"].to_list() == [0.4007]
    audit = load("gpu-prices/ccir", folder / "audit_cri-h100-2026-03-04.json").frames[table]
    again = audit.filter(index_id="ccir/cri-h100").drop("source_url")
    assert again.equals(published["h100"].tail(1).drop("source_url"))
    medians = audit.filter(index_id="ccir/cri-h100-daily-median")["level_usd_per_gpu_hour"].to_list()
    assert medians == [1.6008, 1.7347, 1.9341, 1.6021, None, None, None]


def test_ccir_reference_rates_read_the_sku_not_the_label(data: Path) -> None:
    table = "market.external_indices"
    folder = data / "ccir_reference_rates"
    rows = load("gpu-prices/ccir", folder / "2026-03-03.csv").frames[table]
    assert rows.height == len(_lines(folder / "2026-03-03.csv")) == 18
    same = load("gpu-prices/ccir", folder / "2026-03-03.json").frames[table]
    assert rows.drop("source_url").sort("index_id").equals(same.drop("source_url").sort("index_id"))
    by_id = {r["index_id"].removeprefix("ccir-reference/"): r for r in rows.iter_rows(named=True)}
    assert by_id["azure-h100-eastus"]["accelerator_id"] == "nvidia-h100-nvl-94gb"
    assert by_id["azure-a100-eastus"]["accelerator_id"] == "nvidia-a100-pcie-80gb"
    assert by_id["gcp-h100-us-central1"]["price_kind"] == "component"
    assert by_id["gcp-h100-us-central1"]["level_usd_per_gpu_hour"] == 9.796551
    assert by_id["runpod-a100-sxm-secure"]["accelerator_id"] == "nvidia-a100-sxm4-80gb"
    assert OFFERS not in load("gpu-prices/ccir", folder).frames
