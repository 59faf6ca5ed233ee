"""Own cost, allocation, energy and tokens against hand arithmetic."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from assets.cost import (
    CostModel,
    allocate,
    annuity_usd,
    break_even_utilisation,
    capacity_usd_per_hour,
    energy_usd_per_hour,
    month_bounds,
    monthly_costs,
    own_usd_per_used_hour,
    sensitivity,
    usd_per_million_tokens,
)
from assets.energy import energy_per_token_j, integrate_power, pue
from assets.inference import inference_minutes
from sources.base import ParseError, Payload
from sources.cost_model import SOURCE
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema

# 8 GPUs for 240,000 USD, 24,000 left after 48 months, 1,000 USD a month, 700 W at 0.10 USD/kWh and PUE 1.2
MODEL = CostModel(8, 240_000, 24_000, 48, 0.0, 1_000, 700, 0.10, 1.2)


def test_cost_of_a_gpu_hour():
    # (240,000 - 24,000) / 48 = 4,500 a month, and 1,000: 5,500 / (8 x 730.5 h) = 0.94114
    assert capacity_usd_per_hour(MODEL) == pytest.approx(5_500 / (8 * 730.5))
    assert energy_usd_per_hour(MODEL) == pytest.approx(0.7 * 1.2 * 0.10)
    assert own_usd_per_used_hour(MODEL, 0.5) == pytest.approx(2 * 5_500 / 5_844 + 0.084)
    with pytest.raises(ValueError, match="utilisation"):
        own_usd_per_used_hour(MODEL, 0)


def test_annuity_returns_the_purchase_at_its_rate():
    payment = annuity_usd(100_000, 10_000, 36, 0.12)
    rate = 1.12 ** (1 / 12) - 1
    worth = sum(payment / (1 + rate) ** n for n in range(1, 37)) + 10_000 / 1.12**3
    assert worth == pytest.approx(100_000, rel=1e-12)
    assert annuity_usd(100_000, 10_000, 36, 0.0) == 2_500
    with pytest.raises(ValueError, match="residual"):
        annuity_usd(1, 2, 36, 0.0)
    with pytest.raises(ValueError, match="life"):
        annuity_usd(1, 0, 0, 0.0)


def test_break_even_against_rent():
    assert break_even_utilisation(MODEL, 2.0) == pytest.approx(5_500 / 5_844 / (2.0 - 0.084))
    even = break_even_utilisation(MODEL, 2.0)
    assert own_usd_per_used_hour(MODEL, even) == pytest.approx(2.0)
    assert break_even_utilisation(MODEL, 0.9) > 1
    assert break_even_utilisation(MODEL, 0.05) is None


def test_sensitivity_moves_one_input_at_a_time():
    out = sensitivity(MODEL, 0.5)
    base = own_usd_per_used_hour(MODEL, 0.5)
    # purchase +10 %: 24,000 / 48 = 500 USD a month more, over 5,844 h at half use
    assert out["purchase_usd"][1] - base == pytest.approx(2 * 500 / 5_844)
    assert out["pue"][0] - base == pytest.approx(-0.0084)
    assert out["utilisation"][0] > base > out["utilisation"][1]
    assert out["discount_rate"] == (pytest.approx(base), pytest.approx(base))


def test_months_follow_the_calendar_of_the_zone():
    months = month_bounds(dt.date(2026, 3, 5), dt.date(2026, 4, 2), "Europe/Berlin")
    assert months["month"].to_list() == [dt.date(2026, 3, 1), dt.date(2026, 4, 1)]
    hours = ((months["to_us"] - months["from_us"]) / 3.6e9).to_list()
    assert hours == [31 * 24 - 1, 30 * 24]  # the clocks go forward in March
    assert months["from_us"][0] == int(dt.datetime(2026, 2, 28, 23, tzinfo=dt.UTC).timestamp() * 1e6)


POOLS = [
    {"pool": "servers", "method": "capital", "category": "compute", "valid_from_date": dt.date(2026, 1, 1), "valid_to_date": None,
     "purchase_usd": 48_000.0, "residual_usd": 0.0, "life_months": 2, "discount_rate_ratio": 0.0},
    {"pool": "staff", "method": "monthly", "category": "staff", "valid_from_date": dt.date(2026, 1, 16), "valid_to_date": None,
     "monthly_usd": 3_100.0},
    {"pool": "power", "method": "energy", "category": "power", "valid_from_date": dt.date(2026, 1, 1), "valid_to_date": None,
     "energy_usd_per_kwh": 0.2, "pue_ratio": 1.5, "non_gpu_power_ratio": 2.0},
]  # fmt: skip


def test_pools_become_months():
    months = month_bounds(dt.date(2026, 1, 1), dt.date(2026, 3, 1), "UTC")
    costs = monthly_costs(POOLS, months, {dt.date(2026, 1, 1): 3.6e8}, "UTC")
    found = {(r["month"].month, r["pool"]): r["cost_micro_usd"] / 1e6 for r in costs.to_dicts()}
    assert found[1, "servers"] == found[2, "servers"] == 24_000
    assert (3, "servers") not in found  # written off
    assert found[1, "staff"] == pytest.approx(3_100 * 16 / 31)
    assert found[3, "staff"] == 3_100
    assert found[1, "power"] == 100 * 1.5 * 2.0 * 0.2  # 3.6e8 J = 100 kWh
    assert found[2, "power"] == 0


def usage(rows: list[tuple]) -> pl.DataFrame:
    names = ["month", "account", "user_name", "project", "rung", "gpu_us", "energy_j"]
    kinds = [pl.Date, pl.String, pl.String, pl.String, pl.String, pl.Int64, pl.Float64]
    return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")


JANUARY = dt.date(2026, 1, 1)
USAGE = usage(
    [
        (JANUARY, "a", "mia", "p", "productive", 3, 300.0), (JANUARY, "a", "noa", "p", "allocated_idle", 3, 100.0),
        (JANUARY, None, None, None, "unallocated", 1, None),
    ]
)  # fmt: skip


def test_allocation_sums_exactly_to_the_total_with_idle_shown():
    months = month_bounds(JANUARY, JANUARY, "UTC")
    costs = monthly_costs(POOLS, months, {JANUARY: 3.6e8}, "UTC")
    out = allocate(costs, USAGE, ["account", "user_name", "project"])
    assert out["cost_micro_usd"].sum() == costs["cost_micro_usd"].sum()
    by_rung = {r["rung"]: r["cost_usd"] for r in out.to_dicts()}
    fixed = 24_000 + 1_600
    assert by_rung["productive"] == pytest.approx(fixed * 3 / 7 + 60 * 3 / 4, abs=2e-6)
    assert by_rung["allocated_idle"] == pytest.approx(fixed * 3 / 7 + 60 / 4, abs=2e-6)
    assert by_rung["unallocated"] == pytest.approx(fixed / 7, abs=2e-6)


def test_a_month_without_usage_is_not_lost():
    months = month_bounds(JANUARY, dt.date(2026, 2, 1), "UTC")
    costs = monthly_costs(POOLS, months, {JANUARY: 3.6e8}, "UTC")
    out = allocate(costs, USAGE, ["account", "user_name", "project"])
    assert out["cost_micro_usd"].sum() == costs["cost_micro_usd"].sum()
    february = out.filter(pl.col("month") == dt.date(2026, 2, 1))
    assert february["rung"].to_list() == ["unallocated"]


def test_cost_model_file(tmp_path: Path):
    file = tmp_path / "alpha.toml"
    file.write_text(
        'cluster = "alpha"\ntime_zone = "Europe/Berlin"\n'
        '[[pool]]\npool = "servers"\nmethod = "capital"\nvalid_from = 2026-01-01\npurchase_usd = 2_400_000\nlife_months = 48\n'
        '[[pool]]\npool = "x"\nmethod = "capital"\nvalid_from = 2026-01-01\npurchase_usd = 1\n'
        '[[pool]]\npool = "y"\nmethod = "monthly"\nvalid_from = "soon"\nmonthly_usd = 1\n'
        '[[pool]]\npool = "z"\nmethod = "barter"\n'
        '[[pool]]\npool = "w"\nmethod = "monthly"\nvalid_from = 2026-01-01\nmonthly_eur = 1\n'
    )
    (payload,) = SOURCE.read([file], {"observed_at": "2026-11-30T00:00:00Z"})
    out = SOURCE.parse(payload)
    frame = out.frames["ref.cost_pools"]
    assert frame.select("cluster", "pool", "purchase_usd", "time_zone").rows() == [
        ("alpha", "servers", 2_400_000, "Europe/Berlin")
    ]
    schema = lake_schema(tables()["ref.cost_pools"])
    frame.cast({c: schema[c] for c in frame.columns}, strict=True)
    assert [r.reason for r in out.rejects] == [
        "method capital needs life_months",
        "valid_from and valid_to are days, like 2026-01-01",
        "a pool needs a name and a method: capital, monthly or energy",
        "unknown key 'monthly_eur'",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x =", "not a TOML"),
        ('cluster = "a"', "needs cluster"),
        ('cluster = "a"\ntime_zone = "Mars/One"\npool = []', "unknown"),
    ],
)
def test_unreadable_cost_models(text, words):
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(ParseError, match=words):
        SOURCE.parse(Payload("cost-model", "file:a.toml", now, "application/toml", text.encode()))


def meter(rows: list[tuple[int, int, float | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"from_us": pl.Int64, "to_us": pl.Int64, "energy_j": pl.Float64}, orient="row")


def test_pue_divides_sums_over_what_both_meters_cover():
    facility = meter([(0, 1, 300.0), (1, 2, 100.0), (2, 3, 500.0)])
    it = meter([(0, 1, 200.0), (1, 2, 90.0), (3, 4, 1.0)])
    assert pue(facility, it) == pytest.approx(400 / 290)  # the mean of ratios would be 1.306
    assert pue(facility, meter([(0, 1, None)])) is None


def test_energy_and_cost_of_tokens():
    assert energy_per_token_j(1_000, 500, non_gpu_ratio=1.5, pue_ratio=1.2) == pytest.approx(3.6)
    assert usd_per_million_tokens(50, 25e6) == 2.0
    for call in (lambda: energy_per_token_j(1, 0), lambda: usd_per_million_tokens(1, 0)):
        with pytest.raises(ValueError, match="needs tokens"):
            call()


def test_integral_of_power_holds_the_last_value_over_gaps():
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        ("c", "G", start + dt.timedelta(seconds=s), p) for s, p in ((0, 100.0), (10, 200.0), (40, 600.0), (41, None))
    ]
    out = integrate_power(pl.DataFrame(rows, schema=["cluster", "gpu_uuid", "sampled_at", "power_w"], orient="row"))
    assert out.row(0) == ("c", "G", 1_500 + 30 * 200, 40)


def test_inference_counters_survive_restarts_and_gaps():
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def sample(metric: str, second: float, value: float, labels: str = "") -> tuple:
        return ("c", "s", "m", metric, labels, start + dt.timedelta(seconds=second), value)

    rows = [
        sample("vllm:prompt_tokens_total", 0, 1_000), sample("vllm:prompt_tokens_total", 30, 1_600),
        sample("vllm:prompt_tokens_total", 90, 400),  # restarted: 400 more, half of them in each minute
        sample("vllm:prompt_tokens_total", 900, 9_999),  # a gap: not known
        sample("vllm:request_success_total", 0, 5, "stop"), sample("vllm:request_success_total", 60, 8, "stop"),
        sample("vllm:request_success_total", 0, 0, "length"), sample("vllm:request_success_total", 60, 2, "length"),
        sample("vllm:gpu_cache_usage_perc", 0, 0.5),
    ]  # fmt: skip
    names = ["cluster", "server", "model", "metric", "labels", "at", "value"]
    out = inference_minutes(pl.DataFrame(rows, schema=names, orient="row"))
    minutes = {r["minute_at"].minute: r for r in out.to_dicts()}
    assert (minutes[0]["input_tokens"], minutes[1]["input_tokens"]) == (600 + 200, 200)
    assert minutes[0]["requests"] == 5
    assert (minutes[0]["output_tokens"], minutes[0]["engine"]) == (None, "vllm")
