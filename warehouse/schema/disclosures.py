"""What organisations disclose about their machines: model runs, clusters, interruptions.

Belongs here: published claims about efficiency, size and reliability. Does not belong here: MLPerf results
(`mlperf.py`), measured telemetry, hardware specifications (`reference.py`).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import FactVersions, Provenance, col, table_info


class ModelDisclosure(FactVersions, Provenance, table=True):
    """A published training run or benchmark with its efficiency.

    Grain: model, configuration, source. Key: model, configuration, source, known_at. MFU counts model FLOPs
    only; HFU also counts recomputed activations: never compare one with the other. Both are divided by
    `peak_tflops` for each accelerator, whose precision is `peak_precision` (dense).
    """

    __tablename__ = "model_disclosures"
    __table_args__ = table_info(
        "market",
        "Published training runs and benchmarks with MFU or HFU. "
        "Grain: model, configuration, source. Key: model, configuration, source, known_at.",
        kind="fact",
        fact_key=("model", "configuration"),
        value=("mfu_ratio", "hfu_ratio", "tflops_per_accelerator", "accelerator_count"),
        checks=(
            ("mfu_not_above_hfu", "warning", "mfu_ratio > hfu_ratio"),
            ("mfu_plausible", "warning", "mfu_ratio > 0.8"),
        ),
    )
    model: str = col("model as the source names it", key=True)
    configuration: str = col("what tells runs of one model apart: hardware, count, precision, sequence", key=True)
    organisation: str | None = col("who trained or measured it")
    published_date: dt.date | None = col(
        "day of the model or of the disclosure, as the source dates it; when the figure became public is `known_at`"
    )
    disclosure_kind: str | None = col(
        "how the figure came about",
        one_of=("training_run", "benchmark", "derived", "company_claim", "estimate"),
    )
    parameters_billion: float | None = col("parameters", unit="1e9", ge=0, le=1e6)
    active_parameters_billion: float | None = col("parameters active for each token", unit="1e9", ge=0, le=1e6)
    tokens_billion: float | None = col("training tokens", unit="1e9", ge=0, le=1e9)
    accelerator: str | None = col("accelerator as the source names it")
    accelerator_id: str | None = col("`ref.accelerators.accelerator_id` where the name fits exactly one")
    accelerator_count: int | None = col("accelerators used", ge=1, le=100_000_000)
    precision: str | None = col("number format of the run")
    sequence_tokens: int | None = col("sequence length", unit="token", ge=1, le=1_000_000_000)
    training_days: float | None = col("wall-clock training time", unit="day", ge=0, le=10_000)
    training_flop: float | None = col("total training compute", unit="FLOP", ge=0, le=1e32)
    mfu_ratio: float | None = col("model FLOPs utilisation, 0 to 1", ge=0, le=1)
    hfu_ratio: float | None = col("hardware FLOPs utilisation with recompute, 0 to 1", ge=0, le=1)
    tflops_per_accelerator: float | None = col("achieved rate of one accelerator", unit="TFLOP/s", ge=0, le=1e6)
    peak_tflops: float | None = col("dense peak that the ratio was divided by", unit="TFLOP/s", ge=0, le=1e6)
    peak_precision: str | None = col("number format of that dense peak")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class Cluster(FactVersions, Provenance, table=True):
    """A named accelerator installation, or a plan for one.

    Grain: cluster, source. Key: cluster_id, source, known_at. Announced, offered, planned and operating are
    different facts: never add across `status`. Phases of one site may be cumulative.
    """

    __tablename__ = "clusters"
    __table_args__ = table_info(
        "market",
        "Accelerator clusters, existing or planned. Grain: cluster, source. Key: cluster_id, source, known_at.",
        kind="fact",
        fact_key=("cluster_id",),
        value=("accelerator_count", "power_mw", "status"),
    )
    cluster_id: str = col("canonical name, lower case; a hash is appended where a source repeats a name", key=True)
    cluster: str = col("name as the source gives it")
    operator: str | None = col("who operates or owns it")
    location: str | None = col("town, site or region")
    country: str | None = col("country as the source names it")
    accelerator: str | None = col("accelerators as the source names them")
    accelerator_id: str | None = col("`ref.accelerators.accelerator_id` where the name fits exactly one")
    accelerator_count: int | None = col("accelerators", ge=0, le=1_000_000_000)
    count_basis: str | None = col("what the count rests on")
    status: str = col(
        "state of the installation",
        one_of=(
            "operating",
            "ramping",
            "installing",
            "construction",
            "planned",
            "announced",
            "offered",
            "target",
            "historic",
            "decommissioned",
        ),
    )
    status_text: str | None = col("state in the words of the source")
    status_date: dt.date | None = col("day the state refers to: first operation, announcement or plan")
    power_mw: float | None = col("power of the installation", unit="MW", ge=0, le=1e6)
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class Interruption(FactVersions, Provenance, table=True):
    """One reliability figure of a published study.

    Grain: study, system, category, metric, condition. Key: those, source, known_at. `value` is null when the
    study gives only a range (`value_low`, `value_high`); `qualifier` holds words such as "more than".
    """

    __tablename__ = "interruptions"
    __table_args__ = table_info(
        "market",
        "Published failure counts, rates and goodput of large runs. Grain: study, system, category, metric, "
        "condition. Key: study, system, category, metric, condition, source, known_at.",
        kind="fact",
        fact_key=("study", "system", "category", "metric", "condition"),
        value=("value", "value_low", "value_high", "event_count"),
    )
    study: str = col("study or run", key=True)
    system: str = col("machine or fleet that was observed", key=True)
    category: str = col("cause of the interruption; `all` when not broken down", key=True)
    metric: str = col("what was measured", key=True)
    condition: str = col("scale or situation that tells figures apart; `all` when there is one", key=True)
    organisation: str | None = col("who ran it")
    component_class: str | None = col("GPU, Host, Network, Software, …")
    accelerator: str | None = col("accelerator as the study names it")
    accelerator_count: int | None = col("accelerators observed", ge=0, le=1_000_000_000)
    period: str | None = col("time that was observed")
    event_count: int | None = col("events counted", ge=0)
    published_share_ratio: float | None = col("share that the study itself prints, 0 to 1", ge=0, le=1)
    value: float | None = col("figure in `unit`", ge=0)
    value_low: float | None = col("lower end of a stated range, in `unit`", ge=0)
    value_high: float | None = col("upper end of a stated range, in `unit`", ge=0)
    unit: str = col("unit of the figure")
    qualifier: str | None = col("words that bound the figure, for example `more than`")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")
