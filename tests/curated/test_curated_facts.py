"""The curated tables against the reference facts they were carried over from, and against figures read by hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from sources.mlperf.systems import read_system, submitter_of

Facts = Callable[[str], list[dict[str, str]]]


def one(frame: pl.DataFrame, **where: object) -> dict[str, object]:
    found = frame.filter(*(pl.col(k) == v for k, v in where.items()))
    assert found.height == 1, (where, found.height)
    return found.row(0, named=True)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("ref.accelerators", "accelerators"),
        ("ref.systems", "systems"),
        ("market.clusters", "clusters"),
        ("market.model_disclosures", "mfu_disclosures"),
        ("market.interruptions", "interruptions"),
        ("market.policy_documents", "bis_rules"),
        ("market.supply_signals", "supply_signals"),
        ("market.mlperf_results", "mlperf_official"),
    ],
)
def test_no_row_is_lost_or_made_up(curated: dict[str, pl.DataFrame], facts: Facts, table: str, name: str) -> None:
    assert curated[table].height == len(facts(name))


def test_company_rows_add_up(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    points = facts("other_points")
    guided = [p for p in points if "guidance" in p["metric"]]
    figures = sum(len(facts(n)) for n in ("capex_actuals", "nvda_datacenter", "amd_datacenter", "tsmc_monthly_revenue"))
    assert curated["market.financials"].height == figures + len(points) - len(guided)
    statements = len(facts("nvda_guidance")) + len(facts("capex_guidance")) + len(guided)
    # One capex statement names no amount: it is an event, not a guided figure.
    assert curated["market.guidance"].height + curated["market.events"].height == statements
    assert curated["market.events"]["event_kind"].to_list() == ["guidance"]


def test_price_points_are_offers_or_published_levels(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    assert curated["market.gpu_offers"].height + curated["market.external_indices"].height == len(
        facts("gpu_price_points")
    )
    assert curated["market.gpu_offers"]["index_eligible"].any() is False


def test_accelerator_figures_are_those_of_the_facts(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    names = {
        "memory_gb": "memory_gb",
        "memory_bandwidth_gb_s": "memory_bandwidth_gb_s",
        "fp64_tflops": "fp64_tflops",
        "tf32_dense_tflops": "tf32_tflops",
        "bf16_dense_tflops": "bf16_tflops",
        "fp16_dense_tflops": "fp16_tflops",
        "fp8_dense_tflops": "fp8_tflops",
        "fp4_dense_tflops": "fp4_tflops",
        "int8_dense_tops": "int8_tops",
        "tdp_w": "tdp_w",
        "scaleup_bandwidth_gb_s": "scaleup_bandwidth_gb_s",
    }
    for fact in facts("accelerators"):
        row = one(curated["ref.accelerators"], vendor=fact["vendor"], model=fact["model"])
        for ours, theirs in names.items():
            assert row[ours] == (float(fact[theirs]) if fact[theirs] else None), (fact["model"], ours)
        assert (row["certainty"], row["checked"]) == (fact["certainty"], fact["checked"])


def test_money_is_that_of_the_facts(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    ours = sorted(curated["market.financials"].filter(pl.col("metric") != "monthly_net_revenue")["value"].to_list())
    theirs = [float(r["value_usd"]) for n in ("capex_actuals", "nvda_datacenter", "amd_datacenter") for r in facts(n)]
    theirs += [
        float(r["value"])
        for r in facts("other_points")
        if "guidance" not in r["metric"] and r["metric"] != "monthly_net_revenue"
    ]
    assert ours == sorted(theirs)
    months = curated["market.financials"].filter(pl.col("source_name").str.starts_with("TSMC investor relations"))
    assert sorted(months["value"].to_list()) == sorted(
        float(r["revenue_ntd_million"]) * 1e6 for r in facts("tsmc_monthly_revenue")
    )
    assert set(months["currency"]) == {"TWD"}
    assert months["value_usd"].null_count() == months.height


def test_known_days_are_those_of_the_facts(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    figures = curated["market.financials"]
    for fact in facts("nvda_datacenter"):
        metric = {"total_revenue": "revenue"}.get(fact["metric"], fact["metric"])
        day = dt.datetime.fromisoformat(fact["as_of_date"]).replace(tzinfo=dt.UTC)
        row = one(figures, entity="NVDA", metric=metric, fiscal_period=fact["fiscal_period"], known_at=day)
        assert row["value_usd"] == float(fact["value_usd"])
        assert row["period_end"] == dt.date.fromisoformat(fact["period_end"])


def test_alias_rows_of_the_facts_are_all_there(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    aliases = curated["ref.accelerator_aliases"]
    ours = set(aliases.select("namespace", "raw_name").iter_rows())
    assert {(r["source"], r["raw_name"]) for r in facts("gpu_aliases")} <= ours


def test_utilisation_is_that_of_the_facts(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    def pairs(values: list[tuple[float | None, float | None]]) -> list[str]:
        return sorted(f"{m if m is None else round(m, 6)} {h if h is None else round(h, 6)}" for m, h in values)

    ours = curated["market.model_disclosures"].select("mfu_ratio", "hfu_ratio").rows()
    theirs = [
        (float(r["mfu_pct"]) / 100 if r["mfu_pct"] else None, float(r["hfu_pct"]) / 100 if r["hfu_pct"] else None)
        for r in facts("mfu_disclosures")
    ]
    assert pairs(ours) == pairs(theirs)


def test_mlperf_minutes_are_the_official_ones(curated: dict[str, pl.DataFrame], facts: Facts) -> None:
    for fact in facts("mlperf_official"):
        row = one(
            curated["market.mlperf_results"],
            round=fact["round"],
            organization=fact["submitter"],
            system_desc_id=fact["system_desc_id"],
            benchmark=fact["benchmark"],
        )
        assert row["minutes"] == float(fact["official_minutes"])
        assert row["accelerator_count"] == int(fact["accelerator_count"])
        assert row["division"] == "closed"


def test_mlperf_rows_are_named_as_the_parser_names_them(curated: dict[str, pl.DataFrame], shared: Path) -> None:
    compared = 0
    for row in curated["market.mlperf_results"].iter_rows(named=True):
        folder = shared / "data" / "mlperf" / row["round"] / row["organization"] / "systems"
        path = folder / f"{row['system_desc_id']}.json"
        if path.is_file():
            system = read_system(path.read_bytes(), row["organization"])
            assert (row["submitter"], row["division"]) == (system.submitter, system.division), path
            assert row["accelerator_count"] == system.accelerator_count, path
            compared += 1
        assert row["submitter"] == submitter_of(row["organization"]), row["organization"]
    assert compared >= 20  # every directory whose logs are held, and more results of the same systems


def test_hopper_peaks_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """The H100 SXM5 datasheet prints 1,979 TFLOPS BF16 and 3,958 FP8 with sparsity: dense is half of each."""
    row = one(curated["ref.accelerators"], accelerator_id="nvidia-h100-sxm5-80gb")
    assert row["bf16_dense_tflops"] == pytest.approx(1978.9 / 2, abs=0.1)
    assert row["fp8_dense_tflops"] == pytest.approx(3957.8 / 2, abs=0.1)
    assert row["memory_bandwidth_gb_s"] == 3350
    assert one(curated["ref.accelerators"], accelerator_id="nvidia-h100-nvl-94gb")["bf16_dense_tflops"] == 835.5


@pytest.mark.parametrize(
    ("namespace", "raw_name", "accelerator_id", "gpus"),
    [
        ("nvml", "NVIDIA H100 80GB HBM3", "nvidia-h100-sxm5-80gb", 1),
        ("nvml", "NVIDIA H100 PCIe", "nvidia-h100-pcie-80gb", 1),
        ("nvml", "NVIDIA GB200", "nvidia-gb200-186gb", 1),
        ("nvml", "Tesla T4", "nvidia-t4-16gb", 1),
        ("mlperf", "NVIDIA H100-SXM5-80GB", "nvidia-h100-sxm5-80gb", 1),
        ("azure", "Standard_NC40ads_H100_v5", "nvidia-h100-nvl-94gb", 1),
        ("azure", "Standard_ND96isr_H100_v5", "nvidia-h100-sxm5-80gb", 8),
        ("aws", "p4d.24xlarge", "nvidia-a100-sxm4-40gb", 8),
        ("aws", "g6f.large", "nvidia-l4-24gb", 0.125),
        ("vast", "A100 SXM4", None, 1),
        ("skypilot", "A100-80GB", None, 1),
        ("aws", "p3.2xlarge", None, 1),
    ],
)
def test_names_resolve_only_where_one_part_is_meant(
    curated: dict[str, pl.DataFrame], namespace: str, raw_name: str, accelerator_id: str | None, gpus: float
) -> None:
    row = one(curated["ref.accelerator_aliases"], namespace=namespace, raw_name=raw_name)
    assert (row["accelerator_id"], row["gpu_count"]) == (accelerator_id, gpus)


def test_llama_3_interruptions_add_up_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """Eighteen causes add to 419 unexpected interruptions; 54 days * 24 h / 419 = 3.09 h between them."""
    study = curated["market.interruptions"].filter(pl.col("study") == "Llama 3 405B pre-training")
    causes = study.filter(pl.col("metric") == "unexpected interruptions")
    assert causes.height == 18
    assert causes["event_count"].sum() == 419
    between = one(study, metric="mean time between unexpected interruptions")
    assert between["value"] == pytest.approx(54 * 24 / 419, abs=0.005)
    ranged = one(curated["market.interruptions"], study="Field MTBI", condition="H100")
    assert (ranged["value"], ranged["value_low"], ranged["value_high"]) == (None, 2000, 5000)


def test_nvidia_split_of_the_data_centre_adds_up_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """FY27Q1: 37,869 hyperscale + 37,377 ACIE = 75,246 million, under the split's own definition version."""
    figures = curated["market.financials"].filter(pl.col("entity") == "NVDA", pl.col("fiscal_period") == "FY27Q1")
    parts = figures.filter(pl.col("definition_version") == "2")["value_usd"].sum()
    assert parts == one(figures, metric="data_center_revenue")["value_usd"] == 75_246_000_000


def test_guidance_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """91.0 billion plus or minus 2 % is 89.18 to 92.82; Micron's 33.5 plus or minus 0.75 is 32.75 to 34.25."""
    guidance = curated["market.guidance"]
    nvidia = one(guidance, entity="NVDA", target_period="FY27Q2")
    assert (nvidia["low_usd"], nvidia["mid_usd"], nvidia["high_usd"]) == (
        89_180_000_000,
        91_000_000_000,
        92_820_000_000,
    )
    assert nvidia["target_period_start"] == dt.date(2026, 4, 27)
    micron = one(guidance, entity="MU", target_period="FY26Q3")
    assert (micron["low_usd"], micron["high_usd"]) == (32_750_000_000, 34_250_000_000)
    floor = one(guidance, entity="MSFT", target_period="FY26Q1")
    assert (floor["guidance_kind"], floor["low_usd"], floor["high_usd"]) == ("at_least", 30_000_000_000, None)


def test_periods_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """Amazon's quarters are those of the calendar; Microsoft's second fiscal quarter ends in December."""
    figures = curated["market.financials"]
    amazon = one(figures, entity="AMZN", metric="capex_cash_ppe", fiscal_period="FY26Q1")
    assert (amazon["period_start"], amazon["period_end"]) == (dt.date(2026, 1, 1), dt.date(2026, 3, 31))
    assert amazon["value_usd"] == 44_203_000_000
    assert amazon["known_at"] == dt.datetime(2026, 4, 29, tzinfo=dt.UTC)
    microsoft = one(figures, entity="MSFT", metric="capex_cash_ppe", fiscal_period="FY26Q2")
    assert (microsoft["period_start"], microsoft["period_end"]) == (dt.date(2025, 10, 1), dt.date(2025, 12, 31))
    nvidia = one(figures, entity="NVDA", metric="data_center_revenue", fiscal_period="FY25Q4")
    assert (nvidia["period_end"] - nvidia["period_start"]).days == 13 * 7 - 1  # type: ignore[operator]


def test_supply_bands_and_ranges(curated: dict[str, pl.DataFrame]) -> None:
    signals = curated["market.supply_signals"]
    cowos = one(signals, metric="cowos_supply_wafers", period="2024Q1")
    assert (cowos["value"], cowos["value_low"], cowos["value_high"]) == (58_500, 51_000, 66_000)
    moneydj = one(signals, metric="cowos_capacity", period="2024")
    assert (moneydj["value"], moneydj["value_low"], moneydj["value_high"]) == (None, 35_000, 40_000)
    optics = one(signals, metric="ai_cluster_optics_sales", period="2024")
    assert (optics["value"], optics["unit"], optics["qualifier"]) == (4e9, "USD", "more than")


def test_spot_at_the_on_demand_price_is_no_price(curated: dict[str, pl.DataFrame]) -> None:
    row = one(curated["market.gpu_offers"], provider="aws", price_kind="spot")
    assert (row["price_usd_per_gpu_hour"], row["quoted_amount"]) == (None, "4.0966")
    assert "spot_not_below_on_demand" in str(row["quality_flags"])


def test_filer_numbers(curated: dict[str, pl.DataFrame]) -> None:
    """Numbers that stand in payloads of the filings: NVIDIA 1045810, Microsoft 789019, Amazon 1018724, Alphabet 1652044."""
    entities = curated["ref.entities"]
    expected = {"NVDA": "0001045810", "MSFT": "0000789019", "AMZN": "0001018724", "GOOGL": "0001652044"}
    assert {e: one(entities, entity=e)["cik"] for e in expected} == expected
    assert one(entities, entity="SKHYNIX")["cik"] is None


def test_sixteen_indicators_in_two_languages(curated: dict[str, pl.DataFrame]) -> None:
    indicators = curated["ref.indicators"]
    ids = [f"{g}{n}" for g, count in (("S", 5), ("D", 4), ("T", 4), ("P", 3)) for n in range(1, count + 1)]
    assert sorted(indicators["indicator_id"]) == sorted(ids)
    assert indicators["name_zh"].str.contains(r"\p{Han}").all()
    assert not indicators["name_en"].str.contains(r"\p{Han}").any()


def test_a_feed_names_tables_that_exist(curated: dict[str, pl.DataFrame]) -> None:
    from warehouse.schema import tables

    for feed in curated["ref.indicators"]["feed"].drop_nulls():
        for entry in feed.split(";"):
            assert entry.split(":")[0] in tables(), entry


def test_releases_of_the_collective_libraries_by_hand(curated: dict[str, pl.DataFrame]) -> None:
    """ROCm 6.1.5 was tagged at 16:04:46 -04:00 on 2025-03-13, after 6.3.3 of February: time orders, not the version."""
    releases = curated["market.software_releases"]
    assert set(releases["component"]) >= {"nccl", "rccl", "oneccl"}
    late = one(releases, project="ROCm/ROCm", tag="rocm-6.1.5")
    assert (late["version"], late["tagged_at"]) == ("6.1.5", dt.datetime(2025, 3, 13, 20, 4, 46, tzinfo=dt.UTC))
    assert late["tagged_at"] > one(releases, project="ROCm/ROCm", tag="rocm-6.3.3")["tagged_at"]  # type: ignore[operator]
