"""What a workload's own records say, and the shape of the model behind it.

Belongs here: `telemetry.training_steps`, `telemetry.inference_minutes`, `ref.model_configs`,
`market.training_benchmarks`. Does not belong here: scheduler records (`jobs.py`), MLPerf results.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, FactVersions, Provenance, col, table_info

PHASES = (
    "start_up",
    "data_stall",
    "exposed_communication",
    "checkpoint_save",
    "checkpoint_restore",
    "evaluation",
)


class TrainingStep(FactVersions, Provenance, table=True):
    """One optimizer step that a training log reports. Grain: step x pass (a rolled-back step runs again)."""

    __tablename__ = "training_steps"
    __table_args__ = table_info(
        "telemetry",
        "Steps that training logs report. Grain: one reported step of one attempt, each pass of a repeated step. "
        "Key: cluster, job_id, attempt, step, pass_number, source, known_at.",
        kind="fact",
        fact_key=("cluster", "job_id", "attempt", "step", "pass_number"),
        value=("completed_at", "step_seconds", "tokens", "loss"),
        checks=(
            ("loss_is_finite", "warning", "isnan(loss) or isinf(loss)"),
            ("skipped_step", "warning", "skipped_steps > 0"),
        ),
    )

    cluster: str = col("cluster name", key=True)
    job_id: str = col("job id as in telemetry.jobs, or the log's own name", key=True)
    attempt: int = col("attempt as in telemetry.jobs", key=True, ge=0)
    step: int = col("step number the log prints", key=True, ge=0)
    pass_number: int = col("1, or one more each time the attempt runs the step again after a rollback", key=True, ge=1)
    segment: int | None = col("stretch of uninterrupted progress in the log, from 0; a restart opens the next", ge=0)
    completed_at: dt.datetime | None = col("when the step was reported, UTC; null where unstated", sa_type=UTC_TIME)
    step_seconds: float | None = col("mean time of a step over the steps the line covers", unit="s", ge=0)
    step_seconds_basis: str | None = col(
        "how `step_seconds` is known", one_of=("stated", "timestamps", "samples_per_s")
    )
    steps_covered: int | None = col("steps since the previous line, over which times are means", unit="step", ge=1)
    tokens: int | None = col("tokens of one step: stated, or batch x sequence length", unit="token", ge=0)
    tokens_basis: str | None = col(
        "how `tokens` is known", one_of=("stated", "batch_x_seq_len", "consumed_difference", "tokens_per_s_x_time")
    )
    samples: int | None = col("sequences (global batch) of one step", unit="sequence", ge=0)
    seq_len: int | None = col("sequence length", unit="token", ge=1)
    tokens_per_s: float | None = col("throughput of the whole job", unit="token/s", ge=0)
    tokens_per_s_per_gpu: float | None = col("throughput of one GPU as the log prints it", unit="token/s", ge=0)
    loss: float | None = col("training loss")
    learning_rate: float | None = col("learning rate", ge=0)
    grad_norm: float | None = col("gradient norm", ge=0)
    skipped_steps: int | None = col("steps skipped (overflow) as the log prints it", unit="step", ge=0)
    stated_tflops_per_gpu: float | None = col("TFLOP/s for one GPU as the log prints it", unit="TFLOP/s", ge=0)
    stated_tflops_kind: str | None = col(
        "whether the printed figure counts recompute", one_of=("model", "hardware", "unknown")
    )
    stated_mfu_ratio: float | None = col("MFU as the log prints it, against the log's own peak", ge=0)
    gpus: int | None = col("GPUs of the job as the log states it", unit="GPU", ge=1)
    model_config_id: str | None = col("model in ref.model_configs")
    is_warm_up: bool | None = col("first steps of a segment: compilation and cold caches; left out of rates")
    framework: str | None = col("dialect of the log")
    is_synthetic: bool = col("made by the simulator, not measured")


class JobPhase(FactVersions, Provenance, table=True):
    """A stretch of a job's time that was not a training step, as its log states it."""

    __tablename__ = "job_phases"
    __table_args__ = table_info(
        "telemetry",
        "Stretches of job time that are not training steps, from training logs. Grain: one stretch. "
        "Key: cluster, job_id, attempt, phase, from_at, source, known_at.",
        kind="fact",
        fact_key=("cluster", "job_id", "attempt", "phase", "from_at"),
        value=("to_at",),
        checks=(("ends_after_start", "critical", "to_at < from_at"),),
    )

    cluster: str = col("cluster name", key=True)
    job_id: str = col("job id as in telemetry.jobs", key=True)
    attempt: int = col("attempt as in telemetry.jobs", key=True, ge=0)
    phase: str = col("what the time went to", key=True, one_of=PHASES)
    from_at: dt.datetime = col("start, UTC", key=True, sa_type=UTC_TIME)
    to_at: dt.datetime | None = col("end, UTC; null where the log does not state it", sa_type=UTC_TIME)
    step: int | None = col("step at which it happened", ge=0)
    is_synthetic: bool = col("made by the simulator, not measured")


class InferenceMinute(FactVersions, Provenance, table=True):
    """What one served model took in and gave out in one minute."""

    __tablename__ = "inference_minutes"
    __table_args__ = table_info(
        "telemetry",
        "Tokens served, by minute. Grain: one server of one model, one minute. "
        "Key: cluster, model, server, minute_at, source, known_at.",
        kind="fact",
        fact_key=("cluster", "model", "server", "minute_at"),
        value=("input_tokens", "output_tokens", "cached_tokens", "requests"),
    )

    cluster: str = col("cluster name", key=True)
    model: str = col("served model name", key=True)
    server: str = col("serving instance", key=True)
    minute_at: dt.datetime = col("start of the minute, UTC", key=True, sa_type=UTC_TIME)
    engine: str | None = col("serving engine", one_of=("vllm", "tensorrt-llm", "sglang", "triton", "other"))
    job_id: str | None = col("job or pod that served, as in telemetry.jobs")
    input_tokens: float | None = col("prompt tokens processed, cached ones included", unit="token", ge=0)
    output_tokens: float | None = col("tokens generated", unit="token", ge=0)
    cached_tokens: float | None = col("prompt tokens answered from the prefix cache", unit="token", ge=0)
    requests: float | None = col("requests finished", unit="request", ge=0)
    gpus: float | None = col("GPUs that served", unit="GPU", ge=0)
    is_synthetic: bool = col("made by the simulator, not measured")


class ModelConfig(FactVersions, Provenance, table=True):
    """The shape of a model, as far as FLOPs depend on it."""

    __tablename__ = "model_configs"
    __table_args__ = table_info(
        "ref",
        "Shapes of models, as far as FLOPs depend on them. Grain: one configuration, one version per source. "
        "Key: model_config_id, source, known_at.",
        kind="dimension",
        fact_key=("model_config_id",),
        value=("params", "active_params", "layers", "hidden", "heads", "head_dim", "vocab", "ffn_hidden", "experts"),
    )

    model_config_id: str = col("id like llama-3.1-405b", key=True)
    model: str = col("model name")
    org: str | None = col("who made it")
    params: float | None = col("all parameters", unit="parameter", ge=0)
    active_params: float | None = col("parameters one token uses; equals `params` in a dense model", ge=0)
    embedding_params: float | None = col("input embedding, a look-up without matmul work", unit="parameter", ge=0)
    trainable_params: float | None = col("parameters that get gradients; fewer for LoRA or frozen parts", ge=0)
    layers: int | None = col("transformer layers", ge=1)
    hidden: int | None = col("model width", ge=1)
    heads: int | None = col("query heads", ge=1)
    head_dim: float | None = col("width of one query-key head", ge=1)
    value_head_dim: float | None = col("width of one value head where it differs", ge=1)
    kv_heads: int | None = col("key-value heads (grouped-query attention)", ge=1)
    ffn_hidden: int | None = col("MLP inner width of one expert", ge=1)
    is_gated_mlp: bool | None = col("MLP has three matrices (SwiGLU), not two")
    vocab: int | None = col("vocabulary, padded as trained", ge=1)
    is_tied_embedding: bool | None = col("input and output embedding are one matrix")
    experts: int | None = col("routed experts in a layer", ge=1)
    experts_per_token: int | None = col("routed experts a token uses", ge=1)
    shared_experts: int | None = col("experts every token uses", ge=0)
    seq_len: int | None = col("training sequence length", unit="token", ge=1)
    is_causal: bool | None = col("attention is causal")
    attention_window: int | None = col("sliding-window width", unit="token", ge=1)


class TrainingBenchmark(FactVersions, Provenance, table=True):
    """A published training throughput with its inputs, as printed."""

    __tablename__ = "training_benchmarks"
    __table_args__ = table_info(
        "market",
        "Published training throughput, as printed, with the inputs that make it checkable. "
        "Grain: one run of one table. Key: benchmark, run, source, known_at.",
        kind="fact",
        fact_key=("benchmark", "run"),
        value=("mfu_ratio", "hfu_ratio", "tflops_per_gpu", "tokens_per_s", "step_seconds"),
    )

    benchmark: str = col("table it was published in, like llm-foundry or maxtext-v5e", key=True)
    run: str = col("run in that table: model, devices, precision, length, and what else tells runs apart", key=True)
    model: str | None = col("model name as printed")
    accelerator: str | None = col("accelerator as printed")
    accelerator_id: str | None = col("canonical accelerator")
    accelerators: int | None = col("devices of the run", unit="device", ge=1)
    precision: str | None = col("precision as printed, lower case")
    params: float | None = col("parameters", unit="parameter", ge=0)
    layers: int | None = col("transformer layers", ge=1)
    hidden: int | None = col("model width", ge=1)
    seq_len: int | None = col("sequence length", unit="token", ge=1)
    global_batch: int | None = col("sequences of one step", unit="sequence", ge=1)
    micro_batch: int | None = col("sequences of one micro batch on a device", unit="sequence", ge=1)
    grad_accumulation: int | None = col("micro batches of one step", ge=1)
    recompute: str | None = col("activation recompute as printed")
    tokens_per_s: float | None = col("throughput of the whole run", unit="token/s", ge=0)
    tokens_per_s_per_gpu: float | None = col("throughput of one device", unit="token/s", ge=0)
    step_seconds: float | None = col("time of a step", unit="s", ge=0)
    tflops_per_gpu: float | None = col("TFLOP/s of one device as printed", unit="TFLOP/s", ge=0)
    mfu_ratio: float | None = col("MFU as printed", ge=0)
    hfu_ratio: float | None = col("HFU as printed", ge=0)
