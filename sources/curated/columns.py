"""What the curated files hold: the tables, the columns a file must have, and the type behind each column name.

Belongs here: names and types as written in the files. Does not belong here: the declarations of the tables
(`warehouse/schema`), which the street checks the rows against; a test keeps both in step.
"""

from __future__ import annotations

# The columns that identify a row; a file without one of them, or without provenance, is not of this kind.
KEYS: dict[str, tuple[str, ...]] = {
    "market.clusters": ("cluster_id",),
    "market.events": ("event_id",),
    "market.external_indices": ("index_id", "period_start", "period"),
    "market.financials": ("entity", "metric", "definition_version", "fiscal_period"),
    "market.gpu_offers": (
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
    "market.guidance": ("entity", "metric", "target_period", "channel"),
    "market.interruptions": ("study", "system", "category", "metric", "condition"),
    "market.mlperf_results": ("round", "organization", "system_desc_id", "benchmark"),
    "market.model_disclosures": ("model", "configuration"),
    "market.policy_documents": ("document_id",),
    "market.software_releases": ("project", "tag"),
    "market.supply_signals": ("signal", "metric", "subject", "period", "basis", "stated_by"),
    "ref.accelerator_aliases": ("namespace", "raw_name"),
    "ref.accelerators": ("accelerator_id",),
    "ref.entities": ("entity",),
    "ref.indicators": ("indicator_id",),
    "ref.systems": ("system_id",),
}
# `known_at_precision` may be left out: a file of the user need not say how exactly it dates its facts.
PROVENANCE = ("source_name", "source_url", "known_at", "certainty", "checked", "notes")
TABLES = tuple(KEYS)

# Parts of a key that are empty rather than unknown.
EMPTY_WHERE_NONE = frozenset({"offer_id", "zone"})

# One name means one quantity in every table, so a type belongs to a name.
DATES = frozenset(
    {
        "as_of_date",
        "effective_date",
        "event_date",
        "fx_date",
        "period_end",
        "period_start",
        "publication_date",
        "published_date",
        "release_date",
        "status_date",
        "target_period_end",
        "target_period_start",
    }
)
TIMES = frozenset({"effective_at", "known_at", "observed_at", "published_at", "stated_at", "tagged_at"})
FLAGS = frozenset({"available", "index_eligible", "is_prerelease", "low_confidence"})
INTEGERS = frozenset(
    {
        "accelerator_count",
        "accelerators_per_node",
        "cpu_count",
        "dropped_each_side",
        "event_count",
        "failed_run_count",
        "fiscal_year_end_month",
        "global_batch_size",
        "kept_run_count",
        "node_count",
        "observation_count",
        "rack_count",
        "run_count",
        "runs_required",
        "scaleup_domain_accelerators",
        "sequence_tokens",
        "term_months",
    }
)
NUMBERS = frozenset(
    {
        "active_parameters_billion",
        "amount",
        "amount_usd",
        "bf16_dense_pflops",
        "bf16_dense_tflops",
        "fp16_dense_tflops",
        "fp32_tflops",
        "fp4_dense_pflops",
        "fp4_dense_tflops",
        "fp64_matrix_tflops",
        "fp64_tflops",
        "fp8_dense_pflops",
        "fp8_dense_tflops",
        "fx_rate",
        "gpu_count",
        "hfu_ratio",
        "high_usd",
        "int8_dense_tops",
        "level_usd_per_gpu_hour",
        "low_usd",
        "matrix_clock_mhz",
        "memory_bandwidth_gb_s",
        "memory_bandwidth_total_tb_s",
        "memory_gb",
        "memory_total_tb",
        "mfu_ratio",
        "mid_usd",
        "minutes",
        "parameters_billion",
        "peak_tflops",
        "plus_minus_ratio",
        "power_kw",
        "power_mw",
        "precision_usd",
        "price_per_gpu_hour",
        "price_usd_per_gpu_hour",
        "prior_high_usd",
        "prior_low_usd",
        "process_nm",
        "published_share_ratio",
        "quantity",
        "scaleout_gb_s",
        "scaleout_per_accelerator_gbit_s",
        "scaleup_bandwidth_gb_s",
        "scaleup_bandwidth_per_accelerator_gb_s",
        "scaleup_total_tb_s",
        "scaling_factor",
        "tdp_w",
        "tf32_dense_tflops",
        "tflops_per_accelerator",
        "tokens_billion",
        "training_days",
        "training_flop",
        "unscaled_minutes",
        "upfront_usd",
        "value",
        "value_high",
        "value_low",
        "value_usd",
    }
)
