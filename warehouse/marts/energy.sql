-- mart.energy: energy of each cluster and day: GPUs, IT, facility, PUE from meters, energy of a trained token.
-- grain: one cluster on one UTC day
-- key: cluster, date, is_synthetic
-- column cluster: name of the cluster
-- column date: UTC day
-- column is_synthetic: true for generated demonstration data
-- column gpu_energy_kwh: energy of the boards over the time in which it is known [kWh]
-- column gpu_energy_known_ratio: share of the covered GPU time whose energy is known [ratio]
-- column it_energy_kwh: energy of IT over the hours its meters cover in full [kWh]
-- column it_basis: it: meters of all IT; node: sum of the node meters
-- column it_hours: hours behind it [h]
-- column facility_energy_kwh: energy of the facility over the hours its meters cover in full [kWh]
-- column facility_hours: hours behind it [h]
-- column pue_ratio: facility over IT energy of the hours that both cover: sums divided, ratios never averaged [ratio]
-- column pue_hours: hours behind it [h]
-- column it_over_gpu_ratio: IT over GPU energy of the hours that the meters cover and whose GPU energy is known [ratio]
-- column job_energy_kwh: GPU energy of the time that jobs held, by share [kWh]
-- column job_energy_ratio: share of the GPU energy that jobs held; the rest is idle or not attributed [ratio]
-- column training_energy_kwh: of it jobs whose logs report steps on this day [kWh]
-- column tokens: tokens those jobs trained on this day, each step once [token]
-- column gpu_energy_per_token_j: GPU energy of one trained token [J]
-- column energy_per_token_j: the same with the rest of IT and the facility; null where meters do not give both [J]
with hours as (
    select *
    from telemetry.gpu_hours
    where parent_gpu_uuid is null
    qualify row_number() over (
        partition by cluster, is_synthetic, gpu_uuid, hour_at order by seconds_covered desc, source
    ) = 1
),

gpu_hourly as (
    select
        cluster, is_synthetic, hour_at,
        sum(energy_j) as gpu_j, sum(energy_seconds) as known_s, sum(seconds_covered) as covered_s
    from hours
    group by all
),

gpus as (
    select
        cluster, is_synthetic, cast(hour_at as date) as "date",
        sum(gpu_j) as gpu_j, sum(known_s) as known_s, sum(covered_s) as covered_s
    from gpu_hourly
    group by all
),

-- A meter counts from one reading to the next, when they are no more than a quarter of an hour apart.
readings as (
    select
        cluster, is_synthetic, scope, device, sampled_at, power_w, energy_j,
        lag(sampled_at) over w as since_at, lag(power_w) over w as power_before_w, lag(energy_j) over w as energy_before_j
    from telemetry.power_readings
    where scope in ('facility', 'it', 'node')
    window w as (partition by cluster, is_synthetic, scope, device, source order by sampled_at)
    qualify source = min(source) over (partition by cluster, is_synthetic, scope, device)
),

spans as (
    select
        cluster, is_synthetic, scope, device, since_at, sampled_at,
        epoch(sampled_at - since_at) as seconds,
        case
            when energy_j >= energy_before_j then energy_j - energy_before_j
            else (power_w + power_before_w) / 2 * epoch(sampled_at - since_at)
        end as energy_j
    from readings
    where sampled_at > since_at and sampled_at <= since_at + interval 15 minute
),

-- A span of a quarter of an hour touches at most two hours; each gets its part by time.
parts as (
    select
        *, date_trunc('hour', since_at) as hour_at,
        epoch(least(sampled_at, date_trunc('hour', since_at) + interval 1 hour) - since_at) as inside_s
    from spans
    union all
    select *, date_trunc('hour', sampled_at) as hour_at, epoch(sampled_at - date_trunc('hour', sampled_at)) as inside_s
    from spans
    where date_trunc('hour', sampled_at) > date_trunc('hour', since_at)
),

meters as (
    select
        cluster, is_synthetic, scope, device, hour_at,
        sum(energy_j * inside_s / seconds) as energy_j, sum(inside_s) filter (energy_j is not null) as seconds
    from parts
    group by all
),

devices as (
    select cluster, is_synthetic, scope, count(distinct device) as devices from meters group by all
),

metered as (
    select m.cluster, m.is_synthetic, m.scope, m.hour_at, sum(m.energy_j) as energy_j
    from meters as m
    inner join devices as d using (cluster, is_synthetic, scope)
    where m.seconds >= 3590
    group by m.cluster, m.is_synthetic, m.scope, m.hour_at
    having count(*) = max(d.devices)
),

metered_hours as (
    select
        k.cluster, k.is_synthetic, k.hour_at,
        f.energy_j as facility_j,
        coalesce(i.energy_j, n.energy_j) as it_j,
        case when i.energy_j is not null then 'it' when n.energy_j is not null then 'node' end as it_basis
    from (select distinct cluster, is_synthetic, hour_at from metered) as k
    left join metered as f
        on k.cluster = f.cluster and k.is_synthetic = f.is_synthetic and k.hour_at = f.hour_at and f.scope = 'facility'
    left join metered as i
        on k.cluster = i.cluster and k.is_synthetic = i.is_synthetic and k.hour_at = i.hour_at and i.scope = 'it'
    left join metered as n
        on k.cluster = n.cluster and k.is_synthetic = n.is_synthetic and k.hour_at = n.hour_at and n.scope = 'node'
),

buildings as (
    select
        m.cluster, m.is_synthetic, cast(m.hour_at as date) as "date",
        sum(m.it_j) as it_j, count(m.it_j) as it_hours,
        sum(m.facility_j) as facility_j, count(m.facility_j) as facility_hours,
        sum(m.facility_j) filter (m.it_j is not null) as both_facility_j,
        sum(m.it_j) filter (m.facility_j is not null) as both_it_j,
        count(*) filter (m.it_j is not null and m.facility_j is not null) as both_hours,
        sum(m.it_j) filter (g.known_s >= 0.99 * g.covered_s) as beside_it_j,
        sum(g.gpu_j) filter (m.it_j is not null and g.known_s >= 0.99 * g.covered_s) as beside_gpu_j,
        case when count(distinct m.it_basis) > 1 then 'it, node' else min(m.it_basis) end as it_basis
    from metered_hours as m
    left join gpu_hourly as g using (cluster, is_synthetic, hour_at)
    group by all
),

jobs as (
    select cluster, is_synthetic, job_id, attempt, max(ended_at) as ended_at
    from telemetry.jobs
    where is_latest
    group by all
),

read_until as (
    select cluster, is_synthetic, max(hour_at) + interval 1 hour as until_at from hours group by all
),

stays as (
    select
        g.cluster, g.is_synthetic, g.job_id, g.attempt, g.gpu_uuid, g.from_at, coalesce(g.share_ratio, 1) as share,
        coalesce(least(coalesce(g.to_at, j.ended_at), coalesce(j.ended_at, g.to_at)), r.until_at) as to_at
    from telemetry.job_gpus as g
    left join jobs as j using (cluster, is_synthetic, job_id, attempt)
    left join read_until as r using (cluster, is_synthetic)
    where g.is_preferred
),

job_days as (
    select
        s.cluster, s.is_synthetic, s.job_id, s.attempt, cast(h.hour_at as date) as "date",
        sum(h.energy_j * s.share * epoch(
            least(s.to_at, h.hour_at + interval 1 hour) - greatest(s.from_at, h.hour_at)
        ) / 3600.0) as energy_j
    from stays as s
    inner join hours as h
        on s.cluster = h.cluster and s.is_synthetic = h.is_synthetic and s.gpu_uuid = h.gpu_uuid
        and h.hour_at < s.to_at and h.hour_at + interval 1 hour > s.from_at
    group by all
),

step_days as (
    select
        cluster, is_synthetic, job_id, attempt, cast(completed_at as date) as "date",
        sum(tokens * coalesce(steps_covered, 1)) as tokens
    from (
        select *
        from telemetry.training_steps
        where is_preferred and completed_at is not null
        qualify row_number() over (
            partition by cluster, is_synthetic, job_id, step order by attempt desc, pass_number desc, source_rank, source
        ) = 1
    ) as last_pass
    group by all
),

work as (
    select
        j.cluster, j.is_synthetic, j."date",
        sum(j.energy_j) as job_j,
        sum(j.energy_j) filter (s.tokens is not null) as training_j,
        sum(s.tokens) as tokens
    from job_days as j
    left join step_days as s using (cluster, is_synthetic, job_id, attempt, "date")
    group by all
),

days as (
    select cluster, is_synthetic, "date" from gpus
    union
    select cluster, is_synthetic, "date" from buildings
)

select
    d.cluster,
    d."date",
    d.is_synthetic,
    round(g.gpu_j / 3.6e6, 6) as gpu_energy_kwh,
    round(g.known_s / nullif(g.covered_s, 0), 6) as gpu_energy_known_ratio,
    round(b.it_j / 3.6e6, 6) as it_energy_kwh,
    b.it_basis,
    b.it_hours,
    round(b.facility_j / 3.6e6, 6) as facility_energy_kwh,
    b.facility_hours,
    round(b.both_facility_j / nullif(b.both_it_j, 0), 6) as pue_ratio,
    b.both_hours as pue_hours,
    round(b.beside_it_j / nullif(b.beside_gpu_j, 0), 6) as it_over_gpu_ratio,
    round(w.job_j / 3.6e6, 6) as job_energy_kwh,
    round(w.job_j / nullif(g.gpu_j, 0), 6) as job_energy_ratio,
    round(w.training_j / 3.6e6, 6) as training_energy_kwh,
    cast(w.tokens as bigint) as tokens,
    round(w.training_j / nullif(w.tokens, 0), 9) as gpu_energy_per_token_j,
    round(
        w.training_j / nullif(w.tokens, 0) * b.beside_it_j / nullif(b.beside_gpu_j, 0)
        * b.both_facility_j / nullif(b.both_it_j, 0), 9
    ) as energy_per_token_j
from days as d
left join gpus as g using (cluster, is_synthetic, "date")
left join buildings as b using (cluster, is_synthetic, "date")
left join work as w using (cluster, is_synthetic, "date")
