"""`mart.gpu_price_trend` against tables small enough to work out by hand."""

from __future__ import annotations

import math

import pytest
from marts.tables import at, database, mart, on

H100 = "nvidia-h100-sxm5-80gb"


def fixing(date: str, segment: str = "neocloud", kind: str = "on_demand", **given) -> dict:
    row = {
        "date": on(date),
        "series": f"{H100}/{segment}/{kind}",
        "accelerator_id": H100,
        "segment": segment,
        "price_kind": kind,
        "term_months": 0,
        "method_version": "2026-11",
        "median_usd_per_gpu_hour": 3.0,
        "provider_count": 6,
        "link_status": "linked",
        "link_log": 0.0,
        "known_at": at(f"{date}T00:00"),
    }
    return row | given


def price(date: str, provider: str, usd: float, kind: str = "on_demand", **given) -> dict:
    row = {
        "date": on(date),
        "series": f"{H100}/hyperscaler/{kind}",
        "provider": provider,
        "accelerator_id": H100,
        "segment": "hyperscaler",
        "price_kind": kind,
        "method_version": "2026-11",
        "price_usd_per_gpu_hour": usd,
        "passes": True,
    }
    return row | given


def shape(provider: str, region: str, gpus: int, usd: float, **given) -> dict:
    row = {
        "observed_at": at("2026-03-31T12:00"),
        "known_at": at("2026-03-31T12:00"),
        "provider": provider,
        "sku": f"h100-{gpus}",
        "region": region,
        "operating_system": "linux",
        "price_kind": "on_demand",
        "segment": "neocloud",
        "accelerator_id": H100,
        "gpu_count": gpus,
        "price_usd_per_gpu_hour": usd,
        "index_eligible": True,
    }
    return row | given


def trend(**tables) -> dict[tuple[str, str], dict]:
    given = {f"market__{name}": rows for name, rows in tables.items() if name != "accelerators"}
    if "accelerators" in tables:
        given["ref__accelerators"] = tables["accelerators"]
    return {(r["segment"], r["price_kind"]): r for r in mart(database(**given), "gpu_price_trend")}


def test_changes_are_sums_of_links_after_the_day_they_start_from():
    rows = [
        fixing("2025-03-28", link_log=math.log(2)),
        fixing("2026-03-01", link_log=math.log(1.1)),
        fixing("2026-03-24", link_log=math.log(1.2)),
        fixing("2026-03-31", link_log=math.log(1.3), level_usd_per_gpu_hour=3.2, index_value=120.0),
    ]
    found = trend(gpu_price_index=rows)["neocloud", "on_demand"]
    assert found["date"] == on("2026-03-31")
    assert found["change_7d_ratio"] == pytest.approx(0.3)
    assert found["change_7d_from_date"] == on("2026-03-24")
    assert found["change_30d_ratio"] == pytest.approx(1.2 * 1.3 - 1)
    assert found["change_365d_ratio"] == pytest.approx(1.1 * 1.2 * 1.3 - 1)
    assert found["change_365d_from_date"] == on("2025-03-28")
    assert (found["price_usd_per_gpu_hour"], found["price_basis"]) == (3.2, "level")


def test_a_change_over_a_broken_chain_or_too_long_ago_is_not_known():
    rows = [fixing("2026-03-20"), fixing("2026-03-26", link_status="base", link_log=None), fixing("2026-03-30")]
    found = trend(gpu_price_index=rows)["neocloud", "on_demand"]
    assert found["change_7d_from_date"] == on("2026-03-20")
    assert found["change_7d_ratio"] is None
    assert found["change_30d_from_date"] is None
    assert found["change_30d_ratio"] is None


def test_a_small_panel_shows_its_median_and_says_so():
    few = fixing("2026-03-31", "hyperscaler", provider_count=3, no_level_reason="3 of the 5", median_usd_per_gpu_hour=9)
    found = trend(gpu_price_index=[few, fixing("2026-03-30", level_usd_per_gpu_hour=3.6)])
    hyper = found["hyperscaler", "on_demand"]
    assert (hyper["level_usd_per_gpu_hour"], hyper["price_usd_per_gpu_hour"]) == (None, 9)
    assert (hyper["price_basis"], hyper["no_level_reason"]) == ("median_of_small_panel", "3 of the 5")
    assert hyper["premium_over_neocloud_ratio"] == pytest.approx(9 / 3.6 - 1)
    assert found["neocloud", "on_demand"]["premium_over_neocloud_ratio"] is None


def test_asks_are_compared_with_on_demand_and_spot_with_spot():
    rows = [
        fixing("2026-03-31", level_usd_per_gpu_hour=4.0),
        fixing("2026-03-31", "marketplace", "marketplace_ask", median_usd_per_gpu_hour=2.0),
        fixing("2026-03-31", "hyperscaler", "spot", median_usd_per_gpu_hour=1.0),
        fixing("2026-03-20", "neocloud", "spot", median_usd_per_gpu_hour=1.0),
    ]
    found = trend(gpu_price_index=rows)
    assert found["marketplace", "marketplace_ask"]["premium_over_neocloud_ratio"] == pytest.approx(-0.5)
    assert found["hyperscaler", "spot"]["premium_over_neocloud_ratio"] is None  # the other is eleven days old


def test_the_spot_discount_compares_each_provider_with_itself():
    daily = [
        price("2026-03-31", "aws", 10.0),
        price("2026-03-30", "aws", 4.0, "spot"),  # 60 %
        price("2026-03-29", "gcp", 8.0),
        price("2026-03-31", "gcp", 6.4, "spot"),  # 20 %
        price("2026-03-31", "azure", 99.0),  # no spot price
        price("2026-03-31", "oracle", 1.0, "spot"),  # no on-demand price
        price("2026-03-31", "ibm", 5.0),
        price("2026-03-31", "ibm", 1.0, "spot", is_carried=True),  # not really seen
    ]
    found = trend(gpu_price_index=[fixing("2026-03-31", "hyperscaler")], gpu_price_daily=daily)
    hyper = found["hyperscaler", "on_demand"]
    assert hyper["spot_discount_ratio"] == pytest.approx(0.4)
    assert hyper["spot_provider_count"] == 2


def test_one_gpu_is_compared_with_eight_of_the_same_provider_and_region():
    offers = [
        shape("a", "us", 1, 3.3),
        shape("a", "us", 8, 3.0),  # 10 %
        shape("b", "us", 1, 2.4),
        shape("b", "us", 8, 2.0),  # 20 %
        shape("b", "eu", 1, 2.8),
        shape("b", "eu", 8, 2.0),  # 40 %: b stands at 30 %
        shape("c", "us", 1, 9.0),
        shape("c", "eu", 8, 1.0),  # another region
        shape("d", "us", 1, 9.0, index_eligible=False),
        shape("d", "us", 8, 1.0),
    ]
    found = trend(gpu_price_index=[fixing("2026-03-31")], gpu_offers=offers)["neocloud", "on_demand"]
    assert found["one_gpu_premium_ratio"] == pytest.approx(0.2)
    assert found["one_gpu_provider_count"] == 2


def test_price_of_compute_and_memory():
    part = {"accelerator_id": H100, "vendor": "NVIDIA", "model": "H100", "memory_gb": 80, "bf16_dense_tflops": 989}
    found = trend(gpu_price_index=[fixing("2026-03-31", level_usd_per_gpu_hour=4.0)], accelerators=[part])
    row = found["neocloud", "on_demand"]
    assert row["usd_per_dense_pflop_hour"] == pytest.approx(4.0 / 0.989)
    assert row["dense_peak_precision"] == "bf16"
    assert row["usd_per_gb_hour"] == pytest.approx(0.05)


def test_the_newest_method_speaks():
    rows = [
        fixing("2026-03-31", method_version="2026-11", level_usd_per_gpu_hour=4.0),
        fixing("2026-03-31", method_version="2027-01", level_usd_per_gpu_hour=5.0),
    ]
    found = trend(gpu_price_index=rows)["neocloud", "on_demand"]
    assert (found["method_version"], found["level_usd_per_gpu_hour"]) == ("2027-01", 5.0)
