"""Tables of GPU rental prices: offers, published indices, our daily prices and index, exchange rates.

Belongs here: what a price row means, its bounds and its row checks. Does not belong here: reading a provider
(`sources/prices/`), converting or averaging (`assets/prices.py`), the marts.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, FactVersions, Provenance, col, table_info

SEGMENTS = ("hyperscaler", "neocloud", "marketplace", "aggregator", "own")
PRICE_KINDS = (
    "on_demand",
    "spot",
    "low_priority",
    "reserved",
    "savings_plan",
    "capacity_block",
    "dws",
    "marketplace_ask",
    "bid_floor",
    "contract",
    "dev_test",
    "unknown",
)
OPERATING_SYSTEMS = ("linux", "windows", "unknown")
RESOLUTIONS = ("resolved", "partial", "unresolved", "not_a_gpu")
GEOGRAPHIES = ("north_america", "south_america", "europe", "asia_pacific", "middle_east", "africa", "global", "unknown")
QUOTED_UNITS = (
    "instance_hour",
    "gpu_hour",
    "component_hour",
    "offer_hour",
    "instance_month",
    "instance_term",
    "gpu_term",
    "gpu_minute",
)
# A price outside this band is a unit error: the cheapest real GPU and the dearest real one lie well within it.
PRICE_BAND_USD = (0.05, 100.0)
# The last instant a document can speak of: clocks differ, and a date may already be tomorrow's elsewhere.
LATEST = "retrieved_at + interval 1 day"


class GpuOffer(FactVersions, Provenance, table=True):
    """One price one provider quoted for one product at one moment, per GPU-hour, with the evidence.

    Grain: offer (provider, sku, offer_id, region, zone, operating system, kind, term) at the moment it was seen.
    `known_at` equals `observed_at`. A price that is not one (placeholder, sold out, spot at the on-demand cap, GPU
    count unknown) is null and `quality_flags` says why; `quoted_amount` keeps what was printed.
    """

    __tablename__ = "gpu_offers"
    __table_args__ = table_info(
        "market",
        "GPU rental offers as quoted, per GPU-hour. Grain: one offer at one observation. Key: observed_at, provider, "
        "sku, offer_id, region, zone, operating_system, price_kind, term_months, source, known_at.",
        kind="fact",
        collapse=0.5,  # docs/gpu-prices.md: half a list gone is an outage, not a price cut
        fact_key=(
            "observed_at",
            "provider",
            "sku",
            "offer_id",
            "region",
            "zone",
            "operating_system",
            "price_kind",
            "term_months",
        ),
        value=("price_per_gpu_hour", "currency", "price_usd_per_gpu_hour", "upfront_usd", "available", "gpu_count"),
        checks=(
            ("known_at_is_observed_at", "critical", "known_at <> observed_at"),
            ("observed_in_the_future", "critical", f"observed_at > {LATEST}"),
            ("eligible_needs_a_resolved_gpu", "critical", "index_eligible and accelerator_id is null"),
            ("eligible_needs_a_price", "critical", "index_eligible and price_usd_per_gpu_hour is null"),
            ("eligible_is_a_whole_gpu", "critical", "index_eligible and (gpu_count is null or gpu_count < 1)"),
            ("usd_needs_a_rate", "critical", "price_usd_per_gpu_hour is not null and fx_rate is null"),
            ("missing_price_has_a_reason", "critical", "price_usd_per_gpu_hour is null and quality_flags is null"),
            ("price_outside_band", "warning", "price_usd_per_gpu_hour not between 0.05 and 100"),
            (
                "term_total_as_hourly",
                "critical",
                "price_kind = 'reserved' and quoted_unit like '%_hour' and price_usd_per_gpu_hour > 100",
            ),
            ("term_without_months", "warning", "price_kind = 'reserved' and term_months = 0"),
            ("unresolved_gpu", "warning", "resolution in ('partial', 'unresolved')"),
        ),
    )

    observed_at: dt.datetime = col(
        "when the price was seen, or the stamp the list itself carries", key=True, sa_type=UTC_TIME
    )
    provider: str = col("who sells: aws, azure, gcp, oracle, vast, runpod, …", key=True)
    sku: str = col("the provider's own product code or instance type", key=True)
    offer_id: str = col("tells apart offers of one sku: ask id, rate code, cloud tier; empty where none", key=True)
    region: str = col("region as the provider writes it; `global` where the price has none", key=True)
    zone: str = col("zone or data centre inside the region; empty where none", key=True)
    operating_system: str = col("licence included in the price", key=True, one_of=OPERATING_SYSTEMS)
    price_kind: str = col("what kind of promise the price is", key=True, one_of=PRICE_KINDS)
    term_months: int = col("commitment; 0 where there is none", unit="months", key=True, ge=0, le=120)
    segment: str = col("kind of market", one_of=SEGMENTS)
    gpu_name: str | None = col("the GPU as the provider writes it")
    accelerator_id: str | None = col("ref.accelerators; null when form factor or memory is not certain")
    form_factor: str | None = col("SXM5, PCIe, NVL, … where known, also when the id is not")
    memory_gb: float | None = col("memory of one GPU (of the slice for a fraction)", unit="GB", ge=0, le=2048)
    gpu_count: float | None = col("GPUs in the offer; below 1 for a slice; null when unknown", ge=0, le=100000)
    resolution: str = col("how far the raw name was resolved", one_of=RESOLUTIONS)
    resolution_rule: str | None = col("rule that resolved the name (sources/prices/*.csv)")
    candidates: str | None = col("accelerator ids that remain possible, separated by blanks")
    quoted_amount: str | None = col("the amount as printed, no digit lost")
    quoted_unit: str | None = col("what the amount is for", one_of=QUOTED_UNITS)
    currency: str | None = col("ISO code of the quoted amount; null when the source does not say")
    price_per_gpu_hour: float | None = col(
        "price per GPU-hour in `currency`, payment in advance spread over the term", unit="currency/GPU/h", ge=0
    )
    price_usd_per_gpu_hour: float | None = col("price per GPU-hour", unit="USD/GPU/h", ge=0, le=1000)
    fx_rate: float | None = col("USD for one unit of `currency`; 1 for USD", unit="USD", ge=0)
    fx_date: dt.date | None = col("day of the exchange rate")
    fx_source: str | None = col("source of the exchange rate; null for USD")
    upfront_amount: str | None = col("payment in advance as printed, in `currency`, whole offer")
    upfront_usd: float | None = col("payment due at the start of the term, whole offer", unit="USD", ge=0)
    geography: str | None = col("continent-sized region", one_of=GEOGRAPHIES)
    available: bool | None = col("could be rented at that moment; null when the list does not say")
    host_id: str | None = col("operator behind a marketplace ask")
    machine_id: str | None = col("machine behind a marketplace ask: one machine may be many asks")
    is_verified: bool | None = col("marketplace verified the machine")
    reliability_ratio: float | None = col("marketplace's reliability score", unit="0-1", ge=0, le=1)
    effective_at: dt.datetime | None = col("since when the provider says the price holds", sa_type=UTC_TIME)
    quality_flags: str | None = col("screens and reasons, separated by blanks (docs: prices method page)")
    index_eligible: bool = col("may enter the index: whole resolved GPU, Linux, own price list, no blocking flag")


class ExternalIndex(FactVersions, Provenance, table=True):
    """One dated level of an index or reference rate that somebody else publishes, beside what it measures."""

    __tablename__ = "external_indices"
    __table_args__ = table_info(
        "market",
        "Published GPU price indices and reference rates. Grain: index and period. Key: index_id, period_start, "
        "period, source, known_at.",
        kind="fact",
        fact_key=("index_id", "period_start", "period"),
        value=("level_usd_per_gpu_hour",),
        checks=(
            ("known_in_the_future", "critical", f"known_at > {LATEST}"),
            ("level_outside_band", "warning", "level_usd_per_gpu_hour not between 0.05 and 100"),
        ),
    )

    index_id: str = col("publisher and series, e.g. ccir/cri-h100", key=True)
    period_start: dt.date = col("first day the level is for", key=True)
    period: str = col("length of the period", key=True, one_of=("day", "week", "month", "quarter", "half", "year"))
    publisher: str = col("who publishes it")
    gpu_name: str | None = col("the GPU as the publisher writes it")
    accelerator_id: str | None = col("ref.accelerators; null when the index mixes or hides the form factor")
    candidates: str | None = col("accelerator ids that remain possible, separated by blanks")
    region: str | None = col("region the index covers, as published")
    price_kind: str = col(
        "what it prices", one_of=(*PRICE_KINDS, "index", "market_estimate", "reference_rate", "component")
    )
    term_months: int = col("commitment; 0 where there is none", unit="months", ge=0, le=120)
    measures: str = col("what the number is, in words: quotes, trades, contracts; mean, median; who is in it")
    level_usd_per_gpu_hour: float | None = col("level", unit="USD/GPU/h", ge=0, le=1000)
    observation_count: int | None = col("observations behind the level", ge=0)
    low_confidence: bool | None = col("publisher's own mark")
    methodology_version: str | None = col("publisher's method version")


class GpuPriceDaily(FactVersions, Provenance, table=True):
    """The one price a provider stands for on a day in a series: median over its eligible offers, or its book.

    A published row is never revised: a row is added only for a (date, series, provider) that has none yet, and
    another method writes its own rows under its own `method_version` (docs/price-index.md).
    """

    __tablename__ = "gpu_price_daily"
    __table_args__ = table_info(
        "market",
        "Provider price per day and series. Grain: day, series, provider, method. Key: date, series, provider, "
        "method_version, source, known_at.",
        kind="fact",
        fact_key=("date", "series", "provider", "method_version"),
        value=("price_usd_per_gpu_hour", "observed_usd_per_gpu_hour", "passes"),
        checks=(
            ("passing_needs_a_price", "critical", "passes and price_usd_per_gpu_hour is null"),
            ("carried_or_held_not_both", "critical", "is_carried and is_held"),
            ("no_price_older_than_3_days", "critical", "passes and last_real_date < date - 3"),
            ("refused_needs_a_screen", "critical", "not passes and screens is null"),
        ),
    )

    date: dt.date = col("day, UTC, data until 23:59", key=True)
    series: str = col("accelerator_id/segment/price_kind, with /12m for a term: never mixed", key=True)
    provider: str = col("who sells", key=True)
    method_version: str = col("version of the method page", key=True)
    accelerator_id: str = col("ref.accelerators")
    segment: str = col("kind of market", one_of=SEGMENTS)
    price_kind: str = col("kind of promise", one_of=PRICE_KINDS)
    term_months: int = col("commitment; 0 where there is none", unit="months", ge=0, le=120)
    price_usd_per_gpu_hour: float | None = col(
        "provider price as it stands in the level: seen, held or carried", unit="USD/GPU/h", ge=0, le=1000
    )
    observed_usd_per_gpu_hour: float | None = col(
        "provider price really seen that day; null when there was none", unit="USD/GPU/h", ge=0, le=1000
    )
    offer_count: int | None = col("eligible offers behind it", ge=0)
    sku_count: int | None = col("distinct SKUs behind it", ge=0)
    region_count: int | None = col("distinct regions behind it", ge=0)
    host_count: int | None = col("distinct hosts behind it, for order books", ge=0)
    gpu_count: float | None = col("GPUs on offer, for order books", ge=0)
    is_carried: bool = col("nothing seen: the last real price stands, at most 3 days")
    is_held: bool = col("a screen doubts the price seen: the last real price stands, at most 3 days")
    last_real_date: dt.date | None = col("day of the price that stands")
    screens: str | None = col("screens that flagged it, separated by blanks")
    passes: bool = col("stands in the level")
    method: str | None = col("list_median or book_median", one_of=("list_median", "book_median"))


class GpuPriceIndex(FactVersions, Provenance, table=True):
    """Level and chained change of one series on one day, with its panel, spread and composition effect.

    A published row is never revised; see `gpu_price_daily`.
    """

    __tablename__ = "gpu_price_index"
    __table_args__ = table_info(
        "market",
        "GPU price index. Grain: day, series, method. Key: date, series, method_version, source, known_at.",
        kind="fact",
        fact_key=("date", "series", "method_version"),
        value=("level_usd_per_gpu_hour", "index_value", "provider_count"),
        checks=(
            ("level_needs_a_panel", "critical", "level_usd_per_gpu_hour is not null and provider_count < 5"),
            ("index_needs_a_level", "critical", "(index_value is null) <> (level_usd_per_gpu_hour is null)"),
            ("no_level_without_a_reason", "critical", "level_usd_per_gpu_hour is null and no_level_reason is null"),
            ("quartiles_in_order", "critical", "p25_usd_per_gpu_hour > p75_usd_per_gpu_hour"),
            (
                "level_within_its_panel",
                "critical",
                "level_usd_per_gpu_hour not between low_usd_per_gpu_hour - 1e-9 and high_usd_per_gpu_hour + 1e-9",
            ),
            ("link_needs_a_match", "critical", "(link_log is not null) <> (matched_count > 0)"),
        ),
    )

    date: dt.date = col("day, UTC", key=True)
    series: str = col(
        "accelerator_id/segment/price_kind, with /12m for a term, or accelerator_id/headline/on_demand", key=True
    )
    method_version: str = col("version of the method page", key=True)
    accelerator_id: str | None = col("ref.accelerators")
    segment: str | None = col("kind of market, or `headline`")
    price_kind: str | None = col("kind of promise", one_of=PRICE_KINDS)
    term_months: int | None = col("commitment; 0 where there is none", unit="months", ge=0, le=120)
    level_usd_per_gpu_hour: float | None = col("central-third mean of provider prices", unit="USD/GPU/h", ge=0, le=1000)
    index_value: float | None = col("winsorised matched-model Jevons chain, 100 on base_date", ge=0)
    link_log: float | None = col("log change of the day on matched providers")
    link_status: str = col(
        "base: the chain starts; linked; deferred: under half of the panel was seen, its changes wait; "
        "unmatched: nobody to compare",
        one_of=("base", "linked", "deferred", "unmatched"),
    )
    matched_count: int = col("providers in the link: really seen on both days", ge=0)
    provider_count: int = col("providers in the level", ge=0)
    carried_count: int = col("of them carried over an outage", ge=0)
    held_count: int = col("of them held by a screen", ge=0)
    p25_usd_per_gpu_hour: float | None = col("lower quartile of provider prices", unit="USD/GPU/h", ge=0)
    median_usd_per_gpu_hour: float | None = col("median of provider prices", unit="USD/GPU/h", ge=0)
    p75_usd_per_gpu_hour: float | None = col("upper quartile of provider prices", unit="USD/GPU/h", ge=0)
    low_usd_per_gpu_hour: float | None = col("lowest provider price", unit="USD/GPU/h", ge=0)
    high_usd_per_gpu_hour: float | None = col("highest provider price", unit="USD/GPU/h", ge=0)
    composition_effect_ratio: float | None = col(
        "chain over its value on reference_date minus level over its value there: what the panel's change did",
        unit="ratio",
    )
    reference_date: dt.date | None = col("first day with a level in the month: chain and level agree there")
    base_date: dt.date | None = col("day on which index_value was 100 for this chain")
    contributors: str | None = col("providers in the level, separated by blanks")
    excluded: str | None = col("provider:reason of those left out, separated by blanks")
    parameters: str | None = col("parameters of the method as JSON text")
    no_level_reason: str | None = col("why there is no level")


class FxRate(Provenance, table=True):
    """What one unit of a currency was worth in USD on a day, with who published it."""

    __tablename__ = "fx_rates"
    __table_args__ = table_info(
        "ref",
        "Daily exchange rates to USD. Grain: day, currency, publisher. Key: rate_date, currency, source, known_at.",
        kind="dimension",
        checks=(("usd_is_one", "critical", "currency = 'USD' and usd_per_unit <> 1"),),
    )

    rate_date: dt.date = col("day the rate is for", key=True)
    currency: str = col("ISO 4217 code", key=True, min_length=3, max_length=3)
    usd_per_unit: float = col("USD for one unit of the currency", unit="USD", ge=1e-9, le=1e6)
    units_per_eur: float | None = col("the published figure: units of the currency for one euro", ge=1e-9, le=1e9)
    publisher: str | None = col("central bank or user who states the rate")
