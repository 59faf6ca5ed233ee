-- mart.mfu_hourly: MFU of each job in each hour of its log, with the sums from which any grouping follows.
-- grain: one attempt of one job in one UTC hour of reported steps
-- key: cluster, job_id, attempt, is_synthetic, hour_at
-- depends: job_efficiency
-- column cluster: name of the cluster
-- column job_id: job id
-- column attempt: 0 for the first run
-- column is_synthetic: true for generated demonstration data
-- column hour_at: start of the hour in which the steps were reported, UTC
-- column user_name: who submitted, as configured
-- column account: account or namespace that is charged
-- column project: project
-- column accelerator_id: accelerator
-- column config_hash: equal where runs may be compared with each other
-- column gpus: GPUs of the job [GPU]
-- column steps: steps of the hour, warm-up left out, repeated ones included
-- column step_seconds: time of those steps [s]
-- column tokens: tokens of those steps [token]
-- column model_flops: model FLOP of those tokens [FLOP]
-- column peak_flops: what the GPUs could have done in that time at their dense peak [FLOP]
-- column mfu_ratio: model over peak FLOP; for any group divide the sums, never average ratios [ratio]
-- column step_slowdown_ratio: step time of the hour over the job's median; above 1: slower than usual [ratio]
with hourly as (
    select
        cluster, job_id, attempt, is_synthetic,
        date_trunc('hour', completed_at) as hour_at,
        sum(coalesce(steps_covered, 1)) as steps,
        sum(step_seconds * coalesce(steps_covered, 1)) as step_seconds,
        sum(tokens * coalesce(steps_covered, 1)) as tokens,
        count(*) filter (tokens is null) as without_tokens,
        sum(tokens_per_s_per_gpu * step_seconds * coalesce(steps_covered, 1)) as tokens_per_gpu
    from telemetry.training_steps
    where is_preferred and completed_at is not null and step_seconds > 0 and not coalesce(is_warm_up, false)
    group by all
),

joined as (
    select
        h.*, e.user_name, e.account, e.project, e.accelerator_id, e.config_hash, e.gpus, e.model_flops_per_token,
        e.peak_dense_tflops, e.step_median_s,
        case when h.without_tokens = 0 then h.tokens else h.tokens_per_gpu * e.gpus end as counted_tokens
    from hourly as h
    inner join mart.job_efficiency as e using (cluster, job_id, attempt, is_synthetic)
)

select
    cluster,
    job_id,
    attempt,
    is_synthetic,
    hour_at,
    user_name,
    account,
    project,
    accelerator_id,
    config_hash,
    gpus,
    cast(steps as bigint) as steps,
    round(step_seconds, 6) as step_seconds,
    cast(round(counted_tokens) as bigint) as tokens,
    round(counted_tokens) * model_flops_per_token as model_flops,
    round(gpus * step_seconds, 6) * peak_dense_tflops * 1e12 as peak_flops,
    round(counted_tokens * model_flops_per_token / (gpus * step_seconds * peak_dense_tflops * 1e12), 6) as mfu_ratio,
    round(step_seconds / steps / nullif(step_median_s, 0), 6) as step_slowdown_ratio
from joined
