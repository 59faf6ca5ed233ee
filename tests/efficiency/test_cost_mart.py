"""mart.cost_vs_market on hand-made tables, and against the arithmetic of the planning functions."""

from __future__ import annotations

import datetime as dt

import pytest
from marts.tables import database, mart

from assets.cost import CostModel, break_even_utilisation, capacity_usd_per_hour, own_usd_per_used_hour

H100 = "nvidia-h100-sxm5-80gb"
START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
SERVERS = {"pool": "servers", "method": "capital", "valid_from_date": dt.date(2026, 1, 1), "purchase_usd": 240_000.0,
           "residual_usd": 24_000.0, "life_months": 48.0, "discount_rate_ratio": 0.08, "gpus": 8.0, "source": "cost-model"}  # fmt: skip
STAFF = {"pool": "staff", "method": "monthly", "valid_from_date": dt.date(2026, 1, 1), "monthly_usd": 1_000.0, "gpus": 8.0,
         "source": "cost-model"}  # fmt: skip
POWER = {"pool": "power", "method": "energy", "valid_from_date": dt.date(2026, 1, 1), "energy_usd_per_kwh": 0.10,
         "pue_ratio": 1.2, "source": "cost-model"}  # fmt: skip
OLD = {**STAFF, "pool": "old", "valid_to_date": dt.date(2026, 2, 1), "monthly_usd": 1e6}
WRITTEN_OFF = {**SERVERS, "pool": "before", "valid_from_date": dt.date(2020, 1, 1)}
MODEL = CostModel(8, 240_000, 24_000, 48, 0.08, 1_000, 700, 0.10, 1.2)


def hour(gpu: str, number: int, power: float = 700.0) -> dict:
    at = START + dt.timedelta(hours=number)
    return {"hour_at": at, "date": at.date(), "gpu_uuid": gpu, "accelerator_id": H100, "sample_count": 60, "power_count": 60,
            "seconds_covered": 3600.0, "power_mean_w": power}  # fmt: skip


def offer(provider: str, price: float | None, day: int, kind: str = "on_demand", **more) -> dict:
    seen = dt.datetime(2026, 3, day, tzinfo=dt.UTC)
    return {"observed_at": seen, "known_at": seen, "provider": provider, "price_kind": kind, "accelerator_id": H100,
            "price_usd_per_gpu_hour": price, "gpu_count": 8.0, "source": "curated", **more}  # fmt: skip


FULL = {
    "ref__cost_pools": [SERVERS, STAFF, POWER, OLD, WRITTEN_OFF],
    "ref__accelerators": [{"accelerator_id": H100, "vendor": "NVIDIA", "model": "H100", "tdp_w": 700.0}],
    "telemetry__gpu_hours": [hour(g, n) for g in ("G0", "G1") for n in range(10)],
    # one of two GPUs for the whole time: half of the capacity that was read
    "telemetry__job_gpus": [{"job_id": "j", "gpu_uuid": "G0", "from_at": START - dt.timedelta(hours=5), "source": "slurm"}],
    "market__gpu_offers": [
        offer("a", 4.0, 1), offer("a", 2.0, 20), offer("a", 2.4, 20, sku="other"), offer("b", 3.0, 10),
        offer("c", 5.0, 1, observed_at=dt.datetime(2025, 1, 1, tzinfo=dt.UTC)), offer("d", None, 20),
        offer("b", 1.5, 20, "spot"),
    ],
}  # fmt: skip


def rows(**changes) -> dict:
    return {r["price_kind"]: r for r in mart(database(**{**FULL, **changes}), "cost_vs_market")}


def test_own_cost_agrees_with_the_planning_arithmetic():
    out = rows()["on_demand"]
    assert out["own_fixed_usd_per_gpu_hour"] == pytest.approx(capacity_usd_per_hour(MODEL), abs=1e-6)
    assert out["own_energy_usd_per_gpu_hour"] == pytest.approx(0.084)
    assert (out["power_basis"], out["utilisation_ratio"]) == ("measured", 0.5)
    assert out["own_usd_per_used_gpu_hour"] == pytest.approx(own_usd_per_used_hour(MODEL, 0.5), abs=1e-6)
    assert out["as_of_date"] == dt.date(2026, 3, 1)


def test_market_is_the_median_of_each_providers_newest_price():
    out = rows()["on_demand"]
    # a: median of 2.0 and 2.4; b: 3.0; c is more than 180 days older; d has no price
    assert (out["market_providers"], out["market_usd_per_gpu_hour"]) == (2, pytest.approx((2.2 + 3.0) / 2))
    assert (out["market_low_usd_per_gpu_hour"], out["market_high_usd_per_gpu_hour"]) == (2.2, 3.0)
    assert out["market_as_of_date"] == dt.date(2026, 3, 20)
    assert out["break_even_utilisation_ratio"] == pytest.approx(break_even_utilisation(MODEL, 2.6), abs=1e-6)


def index(series: str, segment: str, kind: str, level: float | None, **more) -> dict:
    return {"date": dt.date(2026, 3, 20), "series": series, "method_version": "1", "accelerator_id": H100, "segment": segment,
            "price_kind": kind, "term_months": 0, "level_usd_per_gpu_hour": level, "link_status": "linked", "source": "price-index", **more}  # fmt: skip


def test_the_index_is_compared_with_where_it_has_a_level():
    series = [
        index("h/headline/on_demand", "headline", "on_demand", 2.5),
        index("h/neocloud/on_demand", "neocloud", "on_demand", 2.4),
        index("h/neocloud/reserved/12m", "neocloud", "reserved", None, median_usd_per_gpu_hour=1.9, term_months=12),
    ]
    out = rows(market__gpu_price_index=series)
    assert (out["on_demand"]["index_usd_per_gpu_hour"], out["on_demand"]["compare_basis"]) == (2.5, "index")
    assert out["on_demand"]["break_even_utilisation_ratio"] == pytest.approx(
        break_even_utilisation(MODEL, 2.5), abs=1e-6
    )
    # no price of that kind, and a panel too small for a level: its median is better than nothing, and says so
    assert out["reserved"]["compare_usd_per_gpu_hour"] == 1.9
    assert out["reserved"]["index_basis"].startswith("median_of_small_panel")
    assert (out["spot"]["index_usd_per_gpu_hour"], out["spot"]["compare_basis"]) == (None, "newest_prices")


def test_every_kind_has_a_row_and_a_reason():
    out = rows()
    assert set(out) == {"on_demand", "reserved", "spot"}
    assert out["spot"]["market_usd_per_gpu_hour"] == 1.5
    assert out["reserved"]["unknown_reason"].startswith("no rental price")
    assert out["on_demand"]["unknown_reason"] is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ref__cost_pools": [SERVERS, STAFF]}, "no pool states the price of electricity"),
        ({"ref__cost_pools": [OLD, POWER]}, "no cost pool is in force"),
        ({"telemetry__job_gpus": []}, "no job is known"),
    ],
)
def test_what_is_missing_is_named(changes, reason):
    assert rows(**changes)["on_demand"]["unknown_reason"].startswith(reason)


def test_without_telemetry_the_rated_power_is_used_and_said():
    pools = [{**SERVERS, "accelerator_id": H100}, STAFF, POWER]
    out = rows(telemetry__gpu_hours=[], telemetry__job_gpus=[], ref__cost_pools=pools)["on_demand"]
    assert (out["power_basis"], out["power_w"], out["as_of_date"]) == ("rated", 700.0, dt.date(2026, 1, 1))
    assert out["own_usd_per_gpu_hour"] == pytest.approx(capacity_usd_per_hour(MODEL) + 0.084, abs=1e-6)
    assert out["own_usd_per_used_gpu_hour"] is None


def test_without_pools_there_is_nothing_to_compare():
    assert rows(ref__cost_pools=[]) == {}
