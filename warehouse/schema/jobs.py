"""Jobs and the GPUs that served them.

Belongs here: `telemetry.jobs`, `telemetry.job_gpus`. Does not belong here: what a job's own log says
(`training.py`), what it cost (`economics.py`), samples of GPUs.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, FactVersions, Provenance, col, table_info

STATES = (
    "pending",
    "running",
    "suspended",
    "completed",
    "failed",
    "cancelled",
    "timeout",
    "node_fail",
    "out_of_memory",
    "preempted",
    "requeued",
    "deadline",
    "unknown",
)


class Job(FactVersions, Provenance, table=True):
    """One attempt of one job as the scheduler states it. Grain: job attempt x when it was stated."""

    __tablename__ = "jobs"
    __table_args__ = table_info(
        "telemetry",
        "Jobs as the scheduler states them. Grain: one attempt of one job, one version per change. "
        "Key: cluster, scheduler, job_id, attempt, source, known_at.",
        kind="fact",
        fact_key=("cluster", "scheduler", "job_id", "attempt"),
        value=("state", "started_at", "ended_at", "gpus_requested", "gpus_allocated", "exit_code", "exit_signal"),
        checks=(
            ("ends_after_start", "critical", "ended_at < started_at"),
            ("starts_after_submit", "warning", "started_at < submitted_at"),
            ("gpu_job_without_gpus", "warning", "state = 'completed' and gpus_requested > 0 and gpus_allocated = 0"),
        ),
    )

    cluster: str = col("cluster name as configured or as the scheduler states it", key=True)
    scheduler: str = col("what ran the job", key=True, one_of=("slurm", "kubernetes", "none"))
    job_id: str = col("id that users see: 123, 123_7 (array task), 123+1 (heterogeneous part), namespace/pod", key=True)
    attempt: int = col("0 for the first run, one more for each requeue or restart", key=True, ge=0)
    raw_job_id: str | None = col("the scheduler's internal id, unique for each array task")
    array_job_id: str | None = col("id of the array the task belongs to")
    array_task_id: str | None = col("index of the task in its array, or the list of a pending array")
    job_name: str | None = col("name given by the user")
    user_name: str | None = col("who submitted: the keyed hash, the plain name, or null, by configuration")
    user_name_kind: str | None = col("what `user_name` holds", one_of=("hash", "plain"))
    account: str | None = col("account or namespace that is charged")
    project: str | None = col("project: Slurm's wckey, or a Kubernetes label")
    queue: str | None = col("partition or queue")
    qos: str | None = col("quality of service or priority class")
    submitted_at: dt.datetime | None = col("submitted, UTC", sa_type=UTC_TIME)
    eligible_at: dt.datetime | None = col("first moment the scheduler could have started it, UTC", sa_type=UTC_TIME)
    started_at: dt.datetime | None = col("started, UTC; null while it waits", sa_type=UTC_TIME)
    ended_at: dt.datetime | None = col("ended, UTC; null while it runs", sa_type=UTC_TIME)
    state: str = col("state, in the house's words", one_of=STATES)
    state_reason: str | None = col("the scheduler's reason or raw state where it says more")
    exit_code: int | None = col("exit code of the job")
    exit_signal: int | None = col("signal that ended the job", ge=0)
    gpus_requested: float | None = col("GPUs asked for; a fraction for shared or MIG devices", unit="GPU", ge=0)
    gpus_allocated: float | None = col("GPUs given", unit="GPU", ge=0)
    gpu_type: str | None = col("GPU type in the scheduler's own words")
    accelerator_id: str | None = col("canonical accelerator, where the type tells it")
    nodes_allocated: int | None = col("nodes given", unit="node", ge=0)
    cpus_allocated: int | None = col("CPUs given", unit="CPU", ge=0)
    node_list: str | None = col("nodes that served the job, expanded, separated by commas")
    time_limit_seconds: float | None = col("wall-clock limit; null for none", unit="s", ge=0)
    elapsed_seconds: float | None = col("run time the scheduler counts; suspension excluded", unit="s", ge=0)
    suspended_seconds: float | None = col("time suspended", unit="s", ge=0)
    energy_j: float | None = col("energy the scheduler measured for the job's nodes", unit="J", ge=0)
    framework: str | None = col("training framework, from the log or the job script")
    tensor_parallel: int | None = col("tensor-parallel degree", ge=1)
    pipeline_parallel: int | None = col("pipeline-parallel degree", ge=1)
    data_parallel: int | None = col("data-parallel degree", ge=1)
    context_parallel: int | None = col("context-parallel degree", ge=1)
    expert_parallel: int | None = col("expert-parallel degree", ge=1)
    precision: str | None = col("lowest precision of the matrix work", one_of=("tf32", "bf16", "fp16", "fp8", "fp4"))
    recompute: str | None = col(
        "activations computed again in the backward pass: none, selective (attention alone) or full",
        one_of=("none", "selective", "full"),
    )
    model_config_id: str | None = col("model trained or served, in ref.model_configs")
    config_hash: str | None = col("hash of what shapes the run; equal hashes may be compared week by week")
    time_zone: str | None = col("zone in which the scheduler's local times were read")
    is_synthetic: bool = col("made by the simulator, not measured")


class JobGpu(FactVersions, Provenance, table=True):
    """Which GPU served which job attempt, from when to when, and what share of it."""

    __tablename__ = "job_gpus"
    __table_args__ = table_info(
        "telemetry",
        "Which GPU served which job attempt when. Grain: one GPU of one attempt, one stay. "
        "Key: cluster, job_id, attempt, gpu_uuid, from_at, source, known_at.",
        kind="fact",
        fact_key=("cluster", "job_id", "attempt", "gpu_uuid", "from_at"),
        value=("to_at", "share_ratio"),
        checks=(("ends_after_start", "critical", "to_at < from_at"),),
    )

    cluster: str = col("cluster name", key=True)
    job_id: str = col("job id as in telemetry.jobs", key=True)
    attempt: int = col("attempt as in telemetry.jobs", key=True, ge=0)
    gpu_uuid: str = col("GPU or MIG instance; `node/index` where only the index is known", key=True)
    from_at: dt.datetime = col("first moment of the stay, UTC", key=True, sa_type=UTC_TIME)
    to_at: dt.datetime | None = col("end of the stay, UTC; null while it lasts", sa_type=UTC_TIME)
    share_ratio: float | None = col("share of the device the job holds; null where nothing states it", ge=0, le=1)
    node: str | None = col("node of the device")
    gpu_index: int | None = col("the scheduler's device index: a hint, never an identity", ge=0)
    parent_gpu_uuid: str | None = col("board of a MIG instance")
    mig_profile: str | None = col("MIG profile, like 1g.5gb")
    scheduler: str | None = col("what stated the attribution")
    evidence: str | None = col(
        "how it is known", one_of=("scheduler", "pod_resources", "mapping_directory", "whole_node", "simulator")
    )
    is_synthetic: bool = col("made by the simulator, not measured")
