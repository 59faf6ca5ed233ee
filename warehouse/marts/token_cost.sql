-- mart.token_cost: what a million trained and a million served tokens cost on one's own GPUs, and rented.
-- grain: one training attempt, or one model on one server and UTC day
-- key: cluster, is_synthetic, work, subject, date
-- depends: job_efficiency, own_cost_daily, cost_vs_market
-- column cluster: name of the cluster
-- column is_synthetic: true for generated demonstration data
-- column work: training or inference
-- column subject: job and attempt, or model and server
-- column date: UTC day the attempt started, or of the minutes served
-- column job_id: job, where known
-- column model: served model name, or model_config_id
-- column account: account that is charged
-- column user_name: who submitted, as configured
-- column project: project
-- column accelerator_id: accelerator of its GPUs
-- column gpu_hours: GPU time it held, start-up and losses included [GPU h]
-- column gpu_hours_basis: allocated: GPUs x run time; attributed: stays on GPUs; stated: GPUs of the server x minutes; job: GPUs of its job, shared by its servers
-- column tokens: trained, each step once; or prompt and generated tokens together [token]
-- column output_tokens: tokens generated, inference only [token]
-- column fixed_usd: its GPU time at the fixed cost of a GPU-hour [USD]
-- column energy_usd: its electricity, with the rest of the node and the building [USD]
-- column energy_basis: job: power of its own GPUs; fleet: mean power of the accelerator in the cluster on those days
-- column cost_usd: both; idle time of the cluster is not in it, see mart.cost_monthly [USD]
-- column usd_per_million_tokens: cost of a million of those tokens [USD]
-- column usd_per_million_output_tokens: all of the cost over the generated tokens alone [USD]
-- column market_usd_per_gpu_hour: median on-demand price of the accelerator, as in mart.cost_vs_market [USD/GPU/h]
-- column market_usd_per_million_tokens: the same GPU time rented [USD]
-- column unknown_reason: why there is no own cost of a token
with read_until as (
    select cluster, is_synthetic, max(hour_at) + interval 1 hour as until_at from telemetry.gpu_hours group by all
),

training as (
    select
        e.cluster, e.is_synthetic, e.job_id, e.attempt, e.job_id || '/' || e.attempt as subject,
        e.model_config_id as model, e.account, e.user_name, e.project, e.accelerator_id, e.tokens,
        coalesce(e.gpu_hours, e.attributed_gpu_hours) as gpu_hours,
        case when e.gpu_hours is not null then 'allocated' when e.attributed_gpu_hours is not null then 'attributed' end as gpu_hours_basis,
        e.started_at, coalesce(e.ended_at, r.until_at) as ended_at,
        case when e.energy_known_ratio >= 0.95
            then e.energy_kwh / nullif(e.energy_known_ratio * e.attributed_gpu_hours, 0) end as kw
    from mart.job_efficiency as e
    left join read_until as r using (cluster, is_synthetic)
    where e.reported_steps is not null
),

-- Prices of the days it ran on, weighted by the time it ran on each.
training_days as (
    select
        t.cluster, t.is_synthetic, t.job_id, t.attempt,
        sum(o.own_fixed_usd_per_gpu_hour * d.seconds) / sum(d.seconds) as fixed_rate,
        sum(o.own_usd_per_gpu_kwh * d.seconds) / sum(d.seconds) as kwh_rate,
        sum(o.power_w * d.seconds) / sum(d.seconds) / 1000 as fleet_kw,
        bool_and(o.own_fixed_usd_per_gpu_hour is not null) as has_fixed,
        bool_and(o.own_usd_per_gpu_kwh is not null) as has_kwh,
        min(o.unknown_reason) as own_reason
    from training as t
    cross join lateral (
        select
            cast(s.day_at as date) as "date",
            epoch(least(t.ended_at, s.day_at + interval 1 day) - greatest(t.started_at, s.day_at)) as seconds
        from (
            select unnest(generate_series(
                date_trunc('day', t.started_at), t.ended_at - interval 1 microsecond, interval 1 day
            )) as day_at
        ) as s
    ) as d
    left join mart.own_cost_daily as o
        on t.cluster = o.cluster and t.is_synthetic = o.is_synthetic and t.accelerator_id = o.accelerator_id
        and d."date" = o."date"
    where t.ended_at > t.started_at
    group by all
),

served as (
    select
        cluster, is_synthetic, model, server, cast(minute_at as date) as "date",
        max(job_id) as job_id,
        count(*) as minutes,
        sum(input_tokens) + sum(output_tokens) as tokens,
        sum(output_tokens) as output_tokens,
        case when count(gpus) = count(*) then sum(gpus) / 60.0 end as stated_gpu_hours
    from telemetry.inference_minutes
    where is_preferred
    group by all
),

sharing as (
    select cluster, is_synthetic, job_id, "date", count(*) as servers
    from served
    where job_id is not null
    group by all
),

-- Where one model of accelerator was read in the cluster, a server without a job can only have run on that.
sole as (
    select cluster, is_synthetic, "date", min(accelerator_id) as accelerator_id
    from mart.own_cost_daily
    group by all
    having count(distinct accelerator_id) = 1
),

last_attempts as (
    select *
    from mart.job_efficiency
    qualify row_number() over (partition by cluster, is_synthetic, job_id order by attempt desc) = 1
),

inference as (
    select
        s.cluster, s.is_synthetic, s.job_id, s.model || '@' || s.server as subject, s."date", s.model,
        j.account, j.user_name, j.project,
        coalesce(j.accelerator_id, l.accelerator_id) as accelerator_id, s.tokens, s.output_tokens,
        coalesce(s.stated_gpu_hours, j.gpus / n.servers * s.minutes / 60.0) as gpu_hours,
        case when s.stated_gpu_hours is not null then 'stated' when j.gpus is not null then 'job' end as gpu_hours_basis,
        case when j.energy_known_ratio >= 0.95
            then j.energy_kwh / nullif(j.energy_known_ratio * j.attributed_gpu_hours, 0) end as kw
    from served as s
    left join sharing as n using (cluster, is_synthetic, job_id, "date")
    left join last_attempts as j using (cluster, is_synthetic, job_id)
    left join sole as l using (cluster, is_synthetic, "date")
),

both_kinds as (
    select
        t.cluster, t.is_synthetic, 'training' as "work", t.subject, cast(t.started_at as date) as "date", t.job_id, t.model,
        t.account, t.user_name, t.project, t.accelerator_id, t.gpu_hours, t.gpu_hours_basis,
        cast(t.tokens as double) as tokens, cast(null as double) as output_tokens, t.kw, d.fleet_kw,
        case when d.has_fixed then d.fixed_rate end as fixed_rate,
        case when d.has_kwh then d.kwh_rate end as kwh_rate,
        coalesce(d.own_reason, case
            when t.started_at is null then 'when it ran is not known: no scheduler record'
            when d.job_id is null then 'it has not run'
            when not d.has_fixed then 'the days it ran on were not all read'
        end) as own_reason
    from training as t
    left join training_days as d using (cluster, is_synthetic, job_id, attempt)
    union all
    select
        i.cluster, i.is_synthetic, 'inference', i.subject, i."date", i.job_id, i.model,
        i.account, i.user_name, i.project, i.accelerator_id, i.gpu_hours, i.gpu_hours_basis,
        i.tokens, i.output_tokens, i.kw, o.power_w / 1000, o.own_fixed_usd_per_gpu_hour, o.own_usd_per_gpu_kwh,
        coalesce(o.unknown_reason, case when o.cluster is null then 'the GPUs were not read on that day' end)
    from inference as i
    left join mart.own_cost_daily as o
        on i.cluster = o.cluster and i.is_synthetic = o.is_synthetic and i.accelerator_id = o.accelerator_id
        and i."date" = o."date"
),

rented as (
    select accelerator_id, max(market_usd_per_gpu_hour) as market_usd
    from mart.cost_vs_market
    where price_kind = 'on_demand'
    group by all
),

priced as (
    select
        b.*, r.market_usd,
        b.gpu_hours * b.fixed_rate as fixed_usd,
        b.gpu_hours * coalesce(b.kw, b.fleet_kw) * b.kwh_rate as energy_usd
    from both_kinds as b
    left join rented as r using (accelerator_id)
)

select
    cluster,
    is_synthetic,
    "work",
    subject,
    "date",
    job_id,
    model,
    account,
    user_name,
    project,
    accelerator_id,
    round(gpu_hours, 6) as gpu_hours,
    gpu_hours_basis,
    tokens,
    output_tokens,
    round(fixed_usd, 6) as fixed_usd,
    round(energy_usd, 6) as energy_usd,
    case when energy_usd is null then null when kw is not null then 'job' else 'fleet' end as energy_basis,
    round(fixed_usd + energy_usd, 6) as cost_usd,
    round((fixed_usd + energy_usd) / nullif(tokens, 0) * 1e6, 9) as usd_per_million_tokens,
    round((fixed_usd + energy_usd) / nullif(output_tokens, 0) * 1e6, 9) as usd_per_million_output_tokens,
    market_usd as market_usd_per_gpu_hour,
    round(gpu_hours * market_usd / nullif(tokens, 0) * 1e6, 9) as market_usd_per_million_tokens,
    case
        when (fixed_usd + energy_usd) / nullif(tokens, 0) is not null then null
        when coalesce(tokens, 0) = 0 then 'no tokens are known'
        when gpu_hours is null then 'the GPUs that did it are not known'
        when accelerator_id is null then 'accelerator not known, or several'
        else coalesce(own_reason, 'power was not measured')
    end as unknown_reason
from priced
