-- mart.job_efficiency: what each job attempt asked, waited, held, achieved and used.
-- grain: one attempt of one job
-- key: cluster, job_id, attempt, is_synthetic
-- column cluster: name of the cluster
-- column job_id: job id
-- column attempt: 0 for the first run
-- column is_synthetic: true for generated demonstration data
-- column scheduler: what ran the job; none where only its log is known
-- column user_name: who submitted, as configured: hash, name or nothing
-- column account: account or namespace that is charged
-- column project: project
-- column queue: partition or queue
-- column state: state at last sight
-- column submitted_at: submitted, UTC
-- column started_at: started, UTC
-- column ended_at: ended, UTC; null while it runs
-- column wait_seconds: from the moment it could start (else from submission) to its start [s]
-- column gpus: GPUs allocated, else GPUs seen attributed to it, else GPUs its log states [GPU]
-- column gpu_hours: GPUs allocated x run time, for ended attempts [GPU h]
-- column attributed_gpu_hours: time of GPUs that are known to have served it, by share [GPU h]
-- column attributed_ratio: attributed over allocated GPU time; below 1: which GPUs served is not known for all of it [ratio]
-- column accelerator_id: accelerator of its GPUs; null where several or none is known
-- column framework: training framework
-- column precision: lowest precision of its matrix work, as stated
-- column recompute: activations computed again: none, selective (attention alone) or full, as log or submit line state
-- column tensor_parallel: tensor-parallel degree
-- column pipeline_parallel: pipeline-parallel degree
-- column data_parallel: data-parallel degree
-- column config_hash: equal where runs may be compared with each other
-- column model_config_id: model, in ref.model_configs
-- column reported_steps: lines of its log
-- column repeated_steps: of them steps that had been run before and were rolled back
-- column last_step: furthest step reported
-- column step_median_s: median time of a step, warm-up left out [s]
-- column tokens: tokens trained, each step once [token]
-- column tokens_per_s: tokens over step time, warm-up left out [token/s]
-- column flops_formula: how FLOPs of a token are counted
-- column model_flops_per_token: FLOP one token needs, without recompute [FLOP]
-- column achieved_tflops_per_gpu: model FLOP/s of one GPU [TFLOP/s]
-- column peak_dense_tflops: dense peak it is divided by [TFLOP/s]
-- column peak_precision: precision of that peak; bf16 is taken where the job states none
-- column is_precision_assumed: true where the precision is taken, not stated
-- column mfu_ratio: model FLOPs utilisation; recompute and padding do not count [ratio]
-- column mfu_causal_ratio: the same with attention counted by half, as some authors do [ratio]
-- column mfu_unknown_reason: why there is no MFU
-- column hfu_ratio: hardware FLOPs utilisation: what is computed again counts too [ratio]
-- column hfu_unknown_reason: why there is no HFU
-- column stated_tflops_per_gpu: TFLOP/s the log prints, warm-up left out [TFLOP/s]
-- column stated_tflops_kind: whether the printed figure counts recompute (hardware) or not (model)
-- column stated_mfu_ratio: printed model TFLOP/s over the same peak, whatever peak the log divided by [ratio]
-- column stated_hfu_ratio: printed hardware TFLOP/s, recompute counted, over the same peak [ratio]
-- column tensor_active_mean_ratio: share of cycles a tensor pipe was active, recompute and padding included [ratio]
-- column sm_clock_mean_mhz: mean SM clock of its GPUs [MHz]
-- column hfu_bound_ratio: tensor-active time x SM clock over the clock of the peak: an upper bound of HFU, no MFU [ratio]
-- column hfu_bound_unknown_reason: why there is no such bound
-- column contradicts_tensor_active: true where MFU exceeds that bound (without a known clock: the tensor-active share) by more than five points
-- column energy_kwh: energy of its GPUs over its time, by share [kWh]
-- column energy_known_ratio: share of its attributed GPU time whose energy is known [ratio]
-- column gpu_energy_per_token_j: GPU energy of one trained token; null where energy of less than 95 % is known [J]
with sightings as (
    select
        *,
        row_number() over (
            partition by cluster, job_id, attempt, is_synthetic
            order by (scheduler = 'none'), source_rank, known_at desc, source
        ) as place
    from telemetry.jobs
    where is_latest
),

jobs as (
    select * exclude (place) from sightings where place = 1
),

-- What a log or a submit line says of the run stands beside what the scheduler says.
run_facts as (
    select
        cluster, job_id, attempt, is_synthetic,
        arg_min(framework, place) filter (framework is not null) as framework,
        arg_min("precision", place) filter ("precision" is not null) as "precision",
        arg_min(recompute, place) filter (recompute is not null) as recompute,
        arg_min(tensor_parallel, place) filter (tensor_parallel is not null) as tensor_parallel,
        arg_min(pipeline_parallel, place) filter (pipeline_parallel is not null) as pipeline_parallel,
        arg_min(data_parallel, place) filter (data_parallel is not null) as data_parallel,
        arg_max(config_hash, place) filter (config_hash is not null) as config_hash,
        arg_max(model_config_id, place) filter (model_config_id is not null) as model_config_id,
        arg_min(accelerator_id, place) filter (accelerator_id is not null) as accelerator_id,
        arg_min(gpus_allocated, place) filter (gpus_allocated > 0) as gpus_allocated
    from sightings
    group by all
),

step_rows as (
    select
        *,
        step_seconds * coalesce(steps_covered, 1) as line_seconds,
        tokens * coalesce(steps_covered, 1) as line_tokens,
        not coalesce(is_warm_up, false) as is_steady,
        row_number() over (
            partition by cluster, job_id, attempt, is_synthetic, step order by pass_number desc, source_rank, source
        ) = 1 as is_last_pass
    from telemetry.training_steps
    where is_preferred
),

steps as (
    select
        cluster, job_id, attempt, is_synthetic,
        count(*) as reported_steps,
        count(*) filter (pass_number > 1) as repeated_steps,
        max(step) as last_step,
        median(step_seconds) filter (is_steady) as step_median_s,
        sum(line_tokens) filter (is_last_pass) as tokens,
        sum(line_tokens) filter (is_steady and line_seconds > 0)
        / nullif(sum(line_seconds) filter (is_steady and line_tokens is not null), 0) as tokens_per_s,
        sum(tokens_per_s_per_gpu * line_seconds) filter (is_steady)
        / nullif(sum(line_seconds) filter (is_steady and tokens_per_s_per_gpu is not null), 0) as tokens_per_s_per_gpu,
        sum(stated_tflops_per_gpu * line_seconds) filter (is_steady)
        / nullif(sum(line_seconds) filter (is_steady and stated_tflops_per_gpu is not null), 0) as stated_tflops_per_gpu,
        min(stated_tflops_kind) as stated_tflops_kind,
        max(gpus) as gpus,
        max(framework) as framework,
        max(model_config_id) as model_config_id,
        max(seq_len) as seq_len
    from step_rows
    group by all
),

-- A job that only its log knows is a job all the same.
attempts as (
    select cluster, job_id, attempt, is_synthetic from jobs
    union
    select cluster, job_id, attempt, is_synthetic from steps
),

-- A stay that has not ended lasts until the last hour that was read.
read_until as (
    select cluster, is_synthetic, max(hour_at) + interval 1 hour as until_at from telemetry.gpu_hours group by all
),

stays as (
    select
        g.cluster, g.job_id, g.attempt, g.is_synthetic, g.gpu_uuid, g.from_at,
        coalesce(g.share_ratio, 1.0 / count(*) over (partition by g.cluster, g.gpu_uuid, g.from_at)) as share,
        coalesce(least(coalesce(g.to_at, j.ended_at), coalesce(j.ended_at, g.to_at)), r.until_at) as to_at
    from telemetry.job_gpus as g
    left join jobs as j using (cluster, job_id, attempt, is_synthetic)
    left join read_until as r using (cluster, is_synthetic)
    where g.is_preferred
),

-- One collector for each GPU and hour, the one that covered most, so that nothing is added up twice.
hours as (
    select *
    from telemetry.gpu_hours
    qualify row_number() over (
        partition by cluster, gpu_uuid, hour_at, is_synthetic order by seconds_covered desc, source
    ) = 1
),

used as (
    select
        s.cluster, s.job_id, s.attempt, s.is_synthetic, s.share, s.gpu_uuid, s.from_at, s.to_at, h.hour_at, h.source,
        h.energy_j, h.energy_seconds, h.seconds_covered, h.tensor_active_mean_ratio, h.sm_clock_mean_mhz,
        h.accelerator_id,
        epoch(least(s.to_at, h.hour_at + interval 1 hour) - greatest(s.from_at, h.hour_at)) as inside_s
    from stays as s
    inner join hours as h
        on s.cluster = h.cluster and s.gpu_uuid = h.gpu_uuid and s.is_synthetic = h.is_synthetic
        and h.hour_at < s.to_at and h.hour_at + interval 1 hour > s.from_at
    where s.to_at > s.from_at
),

-- In the hour in which a stay begins or ends, minutes tell whose energy it was.
edges as (
    select
        u.cluster, u.job_id, u.attempt, u.is_synthetic, u.gpu_uuid, u.from_at, u.hour_at,
        sum(u.minute_j * u.part) as energy_j,
        sum(u.minute_s * u.part) as energy_seconds
    from (
        select
            u.*, m.energy_j as minute_j, m.energy_seconds as minute_s,
            epoch(least(u.to_at, m.minute_at + interval 1 minute) - greatest(u.from_at, m.minute_at)) / 60.0 as part
        from used as u
        inner join telemetry.gpu_minutes as m
            on u.cluster = m.cluster and u.gpu_uuid = m.gpu_uuid and u.source = m.source
            and u.is_synthetic = m.is_synthetic and m."date" = cast(u.hour_at as date)
            and m.minute_at >= u.hour_at and m.minute_at < u.hour_at + interval 1 hour
            and m.minute_at < u.to_at and m.minute_at + interval 1 minute > u.from_at
        where u.inside_s < 3600
    ) as u
    group by all
),

placed as (
    select
        u.* exclude (energy_j, energy_seconds),
        coalesce(e.energy_j, u.energy_j * u.inside_s / 3600.0) as energy_j,
        coalesce(e.energy_seconds, u.energy_seconds * u.inside_s / 3600.0) as energy_seconds
    from used as u
    left join edges as e using (cluster, job_id, attempt, is_synthetic, gpu_uuid, from_at, hour_at)
),

measured as (
    select
        cluster, job_id, attempt, is_synthetic,
        sum(energy_j * share) as energy_j,
        sum(energy_seconds * share) as energy_seconds,
        sum(tensor_active_mean_ratio * inside_s * share)
        / nullif(sum(inside_s * share) filter (tensor_active_mean_ratio is not null), 0) as tensor_active,
        sum(sm_clock_mean_mhz * inside_s * share)
        / nullif(sum(inside_s * share) filter (sm_clock_mean_mhz is not null), 0) as sm_clock,
        sum(tensor_active_mean_ratio * sm_clock_mean_mhz * inside_s * share) / nullif(sum(inside_s * share) filter (
            tensor_active_mean_ratio is not null and sm_clock_mean_mhz is not null
        ), 0) as active_mhz,
        case when count(distinct accelerator_id) = 1 then min(accelerator_id) end as accelerator_id
    from placed
    group by all
),

attributed as (
    select
        cluster, job_id, attempt, is_synthetic,
        count(distinct gpu_uuid) as gpus,
        sum(epoch(to_at - from_at) * share) as gpu_seconds
    from stays
    group by all
),

models as (
    select
        *,
        coalesce(active_params, params)
        - case when coalesce(is_tied_embedding, false) then 0 else coalesce(embedding_params, 0) end as matmul_params
    from ref.model_configs
    where is_preferred
),

peaks as (
    select accelerator_id, matrix_clock_mhz, unnest([
        {'precision': 'tf32', 'tflops': tf32_dense_tflops}, {'precision': 'bf16', 'tflops': bf16_dense_tflops},
        {'precision': 'fp16', 'tflops': fp16_dense_tflops}, {'precision': 'fp8', 'tflops': fp8_dense_tflops},
        {'precision': 'fp4', 'tflops': fp4_dense_tflops}
    ], recursive := true)
    from (
        select *
        from ref.accelerators
        qualify row_number() over (partition by accelerator_id order by known_at desc, source) = 1
    ) as newest
),

joined as (
    select
        a.cluster, a.job_id, a.attempt, a.is_synthetic,
        coalesce(j.scheduler, 'none') as scheduler,
        j.user_name, j.account, j.project, j.queue, coalesce(j.state, 'unknown') as state,
        j.submitted_at, j.started_at, j.ended_at,
        epoch(j.started_at - coalesce(j.eligible_at, j.submitted_at)) as wait_seconds,
        coalesce(f.gpus_allocated, t.gpus, s.gpus) as gpus,
        f.gpus_allocated * coalesce(j.elapsed_seconds, epoch(j.ended_at - j.started_at)) as allocated_seconds,
        t.gpu_seconds,
        coalesce(m.accelerator_id, f.accelerator_id) as accelerator_id,
        coalesce(f.framework, s.framework) as framework,
        f."precision", coalesce(f."precision", 'bf16') as peak_precision, f."precision" is null as is_precision_assumed,
        f.recompute, f.tensor_parallel, f.pipeline_parallel, f.data_parallel, f.config_hash,
        coalesce(s.model_config_id, f.model_config_id) as model_config_id,
        s.reported_steps, s.repeated_steps, s.last_step, s.step_median_s, s.tokens,
        coalesce(s.tokens_per_s, s.tokens_per_s_per_gpu * coalesce(s.gpus, f.gpus_allocated, t.gpus)) as tokens_per_s,
        s.seq_len, s.stated_tflops_per_gpu, s.stated_tflops_kind,
        m.energy_j, m.energy_seconds, m.tensor_active, m.sm_clock, m.active_mhz
    from attempts as a
    left join jobs as j using (cluster, job_id, attempt, is_synthetic)
    left join run_facts as f using (cluster, job_id, attempt, is_synthetic)
    left join steps as s using (cluster, job_id, attempt, is_synthetic)
    left join attributed as t using (cluster, job_id, attempt, is_synthetic)
    left join measured as m using (cluster, job_id, attempt, is_synthetic)
),

counted as (
    select
        j.*,
        c.matmul_params,
        -- A frozen weight needs no gradient of its own: 4 FLOP a token, and 2 more for each that is trained.
        case
            when c.trainable_params < c.params then 4 * c.matmul_params + 2 * c.trainable_params
            else 6 * c.matmul_params
        end as parameter_flops,
        6 * c.layers * c.heads
        * (coalesce(c.head_dim, c.hidden / c.heads) + coalesce(c.value_head_dim, c.head_dim, c.hidden / c.heads))
        * least(coalesce(j.seq_len, c.seq_len), coalesce(c.attention_window, j.seq_len, c.seq_len)) as attention_flops,
        p.tflops as peak_dense_tflops,
        p.matrix_clock_mhz
    from joined as j
    left join models as c on j.model_config_id = c.model_config_id
    left join peaks as p on j.accelerator_id = p.accelerator_id and j.peak_precision = p."precision"
),

rated as (
    select
        *,
        parameter_flops + attention_flops as model_flops_per_token,
        -- What a recompute mode adds: attention's forward pass again, or the whole forward pass.
        case recompute
            when 'none' then 0
            when 'selective' then attention_flops / 3
            when 'full' then 2 * matmul_params + attention_flops / 3
        end as recompute_flops,
        active_mhz / matrix_clock_mhz as hfu_bound,
        tokens_per_s * (parameter_flops + attention_flops) / gpus / 1e12 as achieved_tflops_per_gpu,
        tokens_per_s * (parameter_flops + attention_flops / 2) / gpus / 1e12 as causal_tflops_per_gpu
    from counted
)

select
    cluster,
    job_id,
    attempt,
    is_synthetic,
    scheduler,
    user_name,
    account,
    project,
    queue,
    state,
    submitted_at,
    started_at,
    ended_at,
    wait_seconds,
    gpus,
    round(allocated_seconds / 3600.0, 6) as gpu_hours,
    round(gpu_seconds / 3600.0, 6) as attributed_gpu_hours,
    round(gpu_seconds / nullif(allocated_seconds, 0), 6) as attributed_ratio,
    accelerator_id,
    framework,
    "precision",
    recompute,
    tensor_parallel,
    pipeline_parallel,
    data_parallel,
    config_hash,
    model_config_id,
    reported_steps,
    repeated_steps,
    last_step,
    round(step_median_s, 6) as step_median_s,
    cast(tokens as bigint) as tokens,
    round(tokens_per_s, 3) as tokens_per_s,
    case when model_flops_per_token is not null then 'palm, full attention' end as flops_formula,
    model_flops_per_token,
    round(achieved_tflops_per_gpu, 6) as achieved_tflops_per_gpu,
    peak_dense_tflops,
    case when peak_dense_tflops is not null then peak_precision end as peak_precision,
    case when peak_dense_tflops is not null then is_precision_assumed end as is_precision_assumed,
    round(achieved_tflops_per_gpu / peak_dense_tflops, 6) as mfu_ratio,
    round(causal_tflops_per_gpu / peak_dense_tflops, 6) as mfu_causal_ratio,
    case
        when achieved_tflops_per_gpu / peak_dense_tflops is not null then null
        when reported_steps is null then 'no training log'
        when tokens_per_s is null then 'tokens a second not known: batch or sequence length is not stated'
        when model_config_id is null then 'model not known'
        when model_flops_per_token is null then 'the shape of the model is not complete'
        when gpus is null then 'number of GPUs not known'
        when accelerator_id is null then 'accelerator not known, or several'
        else 'no published dense ' || peak_precision || ' peak of ' || accelerator_id
    end as mfu_unknown_reason,
    round(achieved_tflops_per_gpu / peak_dense_tflops * (1 + recompute_flops / model_flops_per_token), 6) as hfu_ratio,
    case
        when achieved_tflops_per_gpu / peak_dense_tflops is null then 'no MFU'
        when recompute is null then 'what is computed again is not stated'
    end as hfu_unknown_reason,
    round(stated_tflops_per_gpu, 6) as stated_tflops_per_gpu,
    stated_tflops_kind,
    case when stated_tflops_kind = 'model' then round(stated_tflops_per_gpu / peak_dense_tflops, 6) end as stated_mfu_ratio,
    case when stated_tflops_kind = 'hardware' then round(stated_tflops_per_gpu / peak_dense_tflops, 6) end as stated_hfu_ratio,
    round(tensor_active, 6) as tensor_active_mean_ratio,
    round(sm_clock, 3) as sm_clock_mean_mhz,
    round(hfu_bound, 6) as hfu_bound_ratio,
    case
        when hfu_bound is not null then null
        when tensor_active is null then 'tensor activity was not read'
        when active_mhz is null then 'the SM clock was not read'
        when matrix_clock_mhz is null then 'the clock at which the peak is stated is not known'
    end as hfu_bound_unknown_reason,
    achieved_tflops_per_gpu / peak_dense_tflops > coalesce(hfu_bound, tensor_active) + 0.05 as contradicts_tensor_active,
    round(energy_j / 3.6e6, 6) as energy_kwh,
    round(energy_seconds / nullif(gpu_seconds, 0), 6) as energy_known_ratio,
    case when energy_seconds >= 0.95 * gpu_seconds then round(energy_j / nullif(tokens, 0), 9) end as gpu_energy_per_token_j
from rated
