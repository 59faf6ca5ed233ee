"""Tables of MLPerf: every training result with its official score and efficiency, its runs, and inference.

Belongs here: the declarations. Does not belong here: how a log is read (`sources/mlperf/`), scored or turned
into MFU (`assets/mlperf.py`), or how results are compared (`warehouse/marts/mlperf_efficiency.sql`).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, FactVersions, Provenance, col, table_info

OUTCOMES = ("success", "aborted", "no_stop", "no_start", "corrupt", "unreadable")
SLOTS = ("kept", "dropped_fastest", "dropped_slowest", "failed", "not_scored")
PRECISIONS = ("bf16", "fp8", "int8", "fp4")
LOG = "mllog lines of the result file"
SYSTEM = "systems/<system_desc_id>.json"


class MlperfResult(FactVersions, Provenance, table=True):
    """One benchmark result: the runs of one results directory scored together by the official rule.

    Key: round, organization, system_desc_id, benchmark. The organization and the system are the directory names,
    since neither the logs nor `submitter` identify them; identical submissions under several directories or
    rounds are several rows with one `logs_sha256`.
    """

    __tablename__ = "mlperf_results"
    __table_args__ = table_info(
        "market",
        "MLPerf Training results, scored as MLCommons scores them, with the model FLOPs utilisation. "
        "Grain: one benchmark of one system in one round. Key: round, organization, system_desc_id, benchmark.",
        kind="fact",
        fact_key=("round", "organization", "system_desc_id", "benchmark"),
        value=("minutes", "unscaled_minutes", "scaling_factor", "mfu_ratio"),
        checks=(
            ("mfu_of_used_precision_above_one", "warning", "mfu_used_ratio > 1"),
            ("runs_missing", "warning", "run_count < runs_required"),
            ("scaling_factor_below_one", "warning", "scaling_factor < 1"),
            ("scored_without_accelerators", "warning", "minutes is not null and accelerator_count is null"),
        ),
    )
    round: str = col("MLPerf Training round, for example v5.1", key=True)
    organization: str = col("organisation directory in the results repository, as spelled there", key=True)
    system_desc_id: str = col("system directory, which is also the name of the system file", key=True)
    benchmark: str = col("benchmark directory, for example llama31_405b", key=True)
    benchmark_id: str = col("benchmark name that holds across rounds: ssd is retinanet, gnn is rgat")
    division: str | None = col("closed or open", source=SYSTEM, one_of=("closed", "open"))
    submitter: str = col("submitter, one spelling across rounds", source=SYSTEM)
    system: str | None = col("display name of the system; not unique", source=SYSTEM)
    availability: str | None = col(
        "availability of the system at submission",
        source=SYSTEM,
        one_of=("onprem", "cloud", "preview", "research"),
    )
    framework: str | None = col("software framework as stated", source=SYSTEM)
    accelerator: str | None = col("accelerator name as stated; null when the system has none", source=SYSTEM)
    accelerator_id: str | None = col("id in ref.accelerators, resolved through ref.accelerator_aliases")
    accelerator_count: int | None = col("nodes times accelerators per node; 0 for a CPU system", source=SYSTEM, ge=0)
    node_count: int | None = col("nodes; a GB200 node has 4 GPUs", source=SYSTEM, ge=1)
    accelerators_per_node: int | None = col("accelerators per node", source=SYSTEM, ge=0)
    accelerator_memory_gb: float | None = col("memory of one accelerator as stated", unit="GB", source=SYSTEM, ge=0)
    host_processor: str | None = col("host processor as stated", source=SYSTEM)
    minutes: float | None = col("official time to train, scaling factor included", unit="min", ge=0)
    unscaled_minutes: float | None = col("olympic mean of the run times, before scaling", unit="min", ge=0)
    scaling_factor: float | None = col("fairness factor of scaling.json; 1 when there is none", ge=0.1, le=10)
    minutes_reason: str | None = col("why there is no official time")
    runs_required: int | None = col("result files the rules require", ge=1)
    run_count: int = col("result files found", ge=0)
    failed_run_count: int = col("runs that failed, were rejected or lack a stop", ge=0)
    dropped_each_side: int | None = col("runs dropped at either end of the order: 4 for unet3d, else 1", ge=0)
    kept_run_count: int = col("runs in the mean", ge=0)
    fastest_minutes: float | None = col("fastest successful run", unit="min", ge=0)
    slowest_minutes: float | None = col("slowest successful run", unit="min", ge=0)
    global_batch_size: int | None = col("samples a step", unit="samples", source=LOG, ge=1)
    sequence_length: int | None = col("tokens a sequence, where the logs state it", unit="tokens", source=LOG, ge=1)
    convergence_counter: float | None = col("work done until the stop, mean of the runs kept", source=LOG, ge=0)
    counter_unit: str | None = col("what the counter counts: tokens, sequences, images, epochs, epoch_fraction")
    counter_key: str | None = col("log key the counter was read from")
    units_per_s: float | None = col("counter units a second over the runs kept, unscaled", unit="unit/s", ge=0)
    units_per_s_per_accelerator: float | None = col("throughput of one accelerator", unit="unit/s", ge=0)
    flops_per_unit: float | None = col("model FLOPs of one counter unit, no recompute", unit="FLOP", ge=0)
    flops_formula: str | None = col("formula and shape behind flops_per_unit")
    flops_citation: str | None = col("where formula and shape are published")
    model_flops: float | None = col("model FLOPs of one run, mean of the runs kept", unit="FLOP", ge=0)
    model_tflops_per_accelerator: float | None = col("achieved model TFLOP/s an accelerator", unit="TFLOP/s", ge=0)
    bf16_dense_tflops: float | None = col("dense BF16 peak used as denominator", unit="TFLOP/s", ge=0)
    eight_bit_dense_tflops: float | None = col("dense FP8 (INT8 on TPU) peak used", unit="TFLOP/s", ge=0)
    mfu_ratio: float | None = col(
        "model FLOPs utilisation of the dense BF16 peak, evaluation on the clock; above 1 where lower precision "
        "was used",
        unit="ratio",
        ge=0,
        le=10,
    )
    mfu_eight_bit_ratio: float | None = col("the same against the dense 8-bit peak", unit="ratio", ge=0, le=10)
    used_precision: str | None = col("precision of the linear layers where known", one_of=PRECISIONS)
    used_precision_basis: str | None = col("how that precision is known")
    used_dense_tflops: float | None = col("dense peak of the precision used", unit="TFLOP/s", ge=0)
    mfu_used_ratio: float | None = col("utilisation of the peak of the precision used", unit="ratio", ge=0, le=10)
    mfu_reason: str | None = col("why mfu_ratio is null, or how it is limited (an upper bound)")
    mfu_is_upper_bound: bool | None = col("true when padding is counted as work")
    energy_j: float | None = col("measured energy of one run, mean of the runs kept", unit="J", ge=0)
    official_energy_j: float | None = col("the same times the scaling factor, as MLCommons states it", unit="J", ge=0)
    logs_sha256: str | None = col("digest over the sorted digests of the result files; equal for identical logs")


class MlperfRun(FactVersions, Provenance, table=True):
    """One run: one result file, with its outcome and what happened to it in the score."""

    __tablename__ = "mlperf_runs"
    __table_args__ = table_info(
        "market",
        "Every MLPerf Training run with its outcome and why. Grain: one result file. "
        "Key: round, organization, system_desc_id, benchmark, run_file.",
        kind="fact",
        fact_key=("round", "organization", "system_desc_id", "benchmark", "run_file"),
        value=("outcome", "slot", "minutes", "convergence_counter", "energy_j"),
        checks=(
            ("stop_before_start", "critical", "minutes < 0"),
            ("longer_than_two_weeks", "warning", "minutes > 20160"),
        ),
    )
    round: str = col("MLPerf Training round", key=True)
    organization: str = col("organisation directory", key=True)
    system_desc_id: str = col("system directory", key=True)
    benchmark: str = col("benchmark directory", key=True)
    run_file: str = col("name of the result file", key=True)
    benchmark_id: str = col("benchmark name that holds across rounds")
    submitter: str = col("submitter, one spelling across rounds")
    outcome: str = col("how the run ended", one_of=OUTCOMES)
    outcome_reason: str | None = col("why, in one sentence, when not a success")
    slot: str = col("what the score did with it", one_of=SLOTS)
    started_at: dt.datetime | None = col("first run_start, UTC", source=LOG, sa_type=UTC_TIME)
    stopped_at: dt.datetime | None = col("first run_stop, UTC", source=LOG, sa_type=UTC_TIME)
    minutes: float | None = col("run_stop minus run_start, evaluation included", unit="min", source=LOG, ge=0)
    stop_status: str | None = col("status that run_stop carries", source=LOG)
    global_batch_size: int | None = col("samples a step", unit="samples", source=LOG, ge=1)
    sequence_length: int | None = col("tokens a sequence, where stated", unit="tokens", source=LOG, ge=1)
    convergence_counter: float | None = col("work done until the stop", source=LOG, ge=0)
    counter_unit: str | None = col("what the counter counts")
    counter_key: str | None = col("log key the counter was read from")
    eval_accuracy: float | None = col("last logged evaluation value, in file order", source=LOG)
    eval_metric: str | None = col("metric of that evaluation where named", source=LOG)
    linear_precision: str | None = col("lowest_numerical_precision_linear, logged from v6.0", source=LOG)
    energy_j: float | None = col("energy of the run from its power logs", unit="J", ge=0)
    energy_reason: str | None = col("why there is no energy, when power logs exist")
    power_log_count: int = col("power logs that belong to the run", ge=0)
    mllog_line_count: int | None = col("log lines read", ge=0)
    corrupt_line_count: int | None = col("log lines that did not parse; one rejects the run", ge=0)
    log_bytes: int | None = col("size of the result file", unit="B", ge=0)
    log_sha256: str | None = col("SHA-256 of the result file: equal for resubmitted runs")


class MlperfInference(FactVersions, Provenance, table=True):
    """One inference result as published in the summary of its round, checked against its own log where held."""

    __tablename__ = "mlperf_inference"
    __table_args__ = table_info(
        "market",
        "MLPerf Inference results as published, cross-checked with the logs where those are held. "
        "Grain: one system, model and scenario in one round. "
        "Key: round, division, suite, organization, platform, model, scenario, performance_unit, location.",
        kind="fact",
        fact_key=(
            "round",
            "division",
            "suite",
            "organization",
            "platform",
            "model",
            "scenario",
            "performance_unit",
            "location",
        ),
        value=("performance", "power_value"),
        checks=(
            ("log_disagrees", "warning", "log_agrees = false"),
            ("performance_not_positive", "critical", "performance <= 0"),
        ),
    )
    round: str = col("MLPerf Inference round, for example v5.1", key=True)
    division: str = col("closed or open", key=True, one_of=("closed", "open"))
    suite: str = col("datacenter or edge", key=True)
    organization: str = col("organisation directory, or the submitter where no location is given", key=True)
    platform: str = col("system directory", key=True)
    model: str = col("model directory, accuracy variant included", key=True)
    scenario: str = col("Offline, Server, Interactive, SingleStream or MultiStream", key=True)
    performance_unit: str = col("unit as published", key=True)
    location: str = col("path of the result in the repository; empty when not stated", key=True)
    result_id: str | None = col("public id of the system in the round, shared by its results")
    submitter: str = col("submitter, one spelling across rounds")
    availability: str | None = col("availability as published", one_of=("available", "preview", "research"))
    system: str | None = col("display name of the system")
    used_model: str | None = col("model really used; differs in the open division")
    node_count: int | None = col("nodes", ge=1)
    accelerator: str | None = col("accelerator name as published")
    accelerator_id: str | None = col("id in ref.accelerators")
    accelerators_per_node: int | None = col("accelerators per node; null where not stated", ge=0)
    accelerator_count: int | None = col("nodes times accelerators per node", ge=0)
    processors_per_node: int | None = col("host processors per node", ge=0)
    performance: float | None = col("published performance, in performance_unit", ge=0)
    performance_per_accelerator: float | None = col("throughput of one accelerator; null for latencies", ge=0)
    is_latency: bool = col("true when performance is a latency: lower is better")
    power_value: float | None = col("published power result", ge=0)
    power_unit: str | None = col("unit of the power result")
    log_performance: float | None = col("the same figure read from the log of the run, in the log's precision")
    log_performance_key: str | None = col("line of the log that figure was read from")
    log_validity: str | None = col("VALID or INVALID, as the log says")
    log_agrees: bool | None = col("log and publication agree to the log's printed precision; null without a log")
    log_reason: str | None = col("why there is no log figure, or how the two differ")
