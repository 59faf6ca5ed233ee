-- mart.reliability: how often things broke, in each cluster and in published studies, with the interval of the count.
-- grain: one cluster or study at one level: everything, a component class, or a published category
-- key: scope, name, is_synthetic, level, component_class, category
-- column scope: cluster (measured here) or study (published)
-- column name: cluster, or study and system
-- column is_synthetic: true for generated demonstration data
-- column level: all, class or category
-- column component_class: class of component; all for the sum of the hardware
-- column category: cause as the study names it; all where not broken down
-- column incidents: interruptions: storms of events on a node count once
-- column share_ratio: share of all interruptions, from counts [ratio]
-- column published_share_ratio: share the study itself prints, kept beside [ratio]
-- column gpus: GPUs observed [GPU]
-- column hours: hours observed [h]
-- column gpu_hours: GPU-hours observed [GPU h]
-- column mtbf_hours: hours between interruptions of the whole system; null without any [h]
-- column mtbf_low_hours: lower end of the 90 % interval; a lower bound where nothing broke [h]
-- column mtbf_high_hours: upper end of it; null where nothing broke [h]
-- column gpu_hours_per_incident: GPU-hours for each interruption [GPU h]
-- column mtbf_1024_hours: MTBF at 1,024 GPUs, if interruptions are independent and as many for each GPU [h]
-- column mtbf_16384_hours: the same at 16,384 GPUs [h]
-- column mtbf_100000_hours: the same at 100,000 GPUs [h]
-- column repair_mean_hours: mean time from an interrupted job's end to its next start [h]
-- column repairs: restarts behind that mean
-- column availability_ratio: MTBF over MTBF and repair time [ratio]
-- column checkpoint_mean_s: mean time a checkpoint held training up [s]
-- column checkpoint_interval_s: time between checkpoints that loses least (Daly), for that cost and MTBF [s]
with boards as (
    select cluster, is_synthetic, hour_at, gpu_uuid, max(seconds_covered) as seconds
    from telemetry.gpu_hours
    where parent_gpu_uuid is null
    group by all
),

observed as (
    select
        cluster, is_synthetic,
        count(distinct gpu_uuid) as gpus,
        sum(seconds) / 3600.0 as gpu_hours,
        count(distinct hour_at) as hours
    from boards
    group by all
),

events as (
    select
        cluster, is_synthetic, node, occurred_at,
        case
            when kind = 'xid' and code in (48, 63, 64, 92, 94, 95) or kind in ('ecc', 'remap') then 'gpu_memory'
            when kind = 'xid' and code in (74, 145, 146, 147, 148, 149, 150, 155) or kind in ('sxid', 'link_down') then 'link'
            when kind = 'xid' and code in (61, 62, 119, 120) then 'gpu_processor'
            when kind = 'xid' and code = 79 or kind = 'lost' then 'gpu_bus'
            else 'other'
        end as component_class
    from telemetry.gpu_events
    where
        -- xid_last: a code that stood in a gauge before the first reading, of an unknown time
        kind not in ('returned', 'gap', 'throttle', 'xid_last')
        -- an application's own fault leaves the GPU well
        and not (kind = 'xid' and code in (13, 31, 43, 45, 68, 69))
        and coalesce(severity, 'error') in ('error', 'fatal')
),

ranked as (
    select
        *,
        case component_class when 'gpu_bus' then 0 when 'gpu_memory' then 1 when 'gpu_processor' then 2 when 'link' then 3 else 4 end as gravity,
        coalesce(occurred_at > lag(occurred_at) over w + interval 10 minute, true) as opens
    from events
    window w as (partition by cluster, is_synthetic, node order by occurred_at)
),

numbered as (
    select *, sum(cast(opens as integer)) over (partition by cluster, is_synthetic, node order by occurred_at) as incident
    from ranked
),

device_incidents as (
    select
        cluster, is_synthetic, node, incident,
        min(occurred_at) as started_at,
        arg_min(component_class, (gravity, occurred_at)) as component_class
    from numbered
    group by all
),

jobs as (
    select *
    from telemetry.jobs
    where is_latest
    qualify row_number() over (
        partition by cluster, job_id, attempt, is_synthetic order by (scheduler = 'none'), source_rank, known_at desc
    ) = 1
),

broken as (
    select * from jobs where state in ('node_fail', 'failed', 'out_of_memory') and ended_at is not null
),

explained as (
    select distinct b.cluster, b.is_synthetic, b.job_id, b.attempt
    from broken as b
    inner join device_incidents as d
        on b.cluster = d.cluster and b.is_synthetic = d.is_synthetic
        and list_contains(string_split(b.node_list, ','), d.node)
        and abs(epoch(b.ended_at - d.started_at)) <= 600
),

interruptions as (
    select cluster, is_synthetic, component_class from device_incidents
    union all
    select b.cluster, b.is_synthetic, 'host' as component_class
    from broken as b
    anti join explained as e using (cluster, is_synthetic, job_id, attempt)
    where b.state = 'node_fail'
),

repairs as (
    select
        b.cluster, b.is_synthetic,
        avg(epoch(n.started_at - b.ended_at)) / 3600.0 as repair_mean_hours,
        count(*) as repairs
    from broken as b
    inner join jobs as n
        on b.cluster = n.cluster and b.is_synthetic = n.is_synthetic and b.job_id = n.job_id
        and n.attempt = b.attempt + 1 and n.started_at >= b.ended_at
    where b.state = 'node_fail' or (b.cluster, b.is_synthetic, b.job_id, b.attempt) in (from explained)
    group by all
),

checkpoints as (
    select cluster, is_synthetic, avg(epoch(to_at - from_at)) as checkpoint_mean_s
    from telemetry.job_phases
    where is_preferred and phase = 'checkpoint_save' and to_at > from_at
    group by all
),

measured as (
    select
        'cluster' as scope, o.cluster as "name", o.is_synthetic, 'all' as "level", 'all' as component_class, 'all' as category,
        count(i.cluster) as incidents, cast(null as double) as published_share_ratio, o.gpus, o.hours, o.gpu_hours
    from observed as o
    left join interruptions as i on o.cluster = i.cluster and o.is_synthetic = i.is_synthetic
    group by all
    union all
    select
        'cluster', o.cluster, o.is_synthetic, 'class', i.component_class, 'all',
        count(*), null, o.gpus, o.hours, o.gpu_hours
    from observed as o
    inner join interruptions as i on o.cluster = i.cluster and o.is_synthetic = i.is_synthetic
    group by all
),

published as (
    select
        study || ' (' || system || ')' as "name", component_class, category, event_count, published_share_ratio,
        accelerator_count as gpus, cast(regexp_extract(period, '(\d+) days', 1) as double) * 24 as hours
    from market.interruptions
    where
        is_preferred
        and metric = 'unexpected interruptions'
        and event_count is not null
        and category <> 'all'
        and regexp_matches(period, '^\d+ days')
),

studies as (
    select
        'study' as scope, "name", false as is_synthetic,
        case when grouping(component_class) = 1 then 'all' when grouping(category) = 1 then 'class' else 'category' end as "level",
        coalesce(component_class, 'all') as component_class,
        coalesce(category, 'all') as category,
        cast(sum(event_count) as bigint) as incidents,
        case when grouping(category) = 0 then any_value(published_share_ratio) end as published_share_ratio,
        any_value(gpus) as gpus, any_value(hours) as hours, any_value(gpus * hours) as gpu_hours
    from published
    group by grouping sets (("name"), ("name", component_class), ("name", component_class, category))
),

counted as (
    select * from measured
    union all
    select * from studies
),

-- Half the chi-square quantiles of the exact Poisson interval for 0 to 100 incidents: 0.95 at 2k + 2 degrees of
-- freedom and 0.05 at 2k. Beyond, the Wilson-Hilferty cube, which is then good to five digits.
quantiles as (
    select
        [
        2.995732, 4.743865, 6.295794, 7.753657, 9.153519, 10.513035, 11.842396, 13.148114, 14.43465, 15.705216,
        16.962219, 18.207514, 19.442569, 20.668569, 21.886486, 23.09713, 24.301184, 25.49923, 26.69177, 27.87924,
        29.062019, 30.240443, 31.41481, 32.585384, 33.752403, 34.91608, 36.076608, 37.234162, 38.388902, 39.540972,
        40.690508, 41.83763, 42.982454, 44.125082, 45.265613, 46.404135, 47.540733, 48.675485, 49.808464, 50.939737,
        52.069369, 53.19742, 54.323946, 55.449001, 56.572635, 57.694895, 58.815826, 59.93547, 61.053867, 62.171057,
        63.287074, 64.401954, 65.515729, 66.628431, 67.740089, 68.850732, 69.960387, 71.06908, 72.176836, 73.283679,
        74.389631, 75.494715, 76.598951, 77.70236, 78.804962, 79.906773, 81.007814, 82.1081, 83.207649, 84.306477,
        85.404599, 86.50203, 87.598784, 88.694875, 89.790317, 90.885123, 91.979305, 93.072875, 94.165846, 95.258228,
        96.350033, 97.441271, 98.531953, 99.622088, 100.711687, 101.800759, 102.889313, 103.977359, 105.064903,
        106.151956, 107.238526, 108.324619, 109.410245, 110.495411, 111.580123, 112.66439, 113.748218, 114.831613,
        115.914583, 116.997134, 118.079273
        ]::double[] as upper_half,
        [
        null, 0.051293, 0.355362, 0.817691, 1.366318, 1.97015, 2.613015, 3.285316, 3.980823, 4.695228, 5.425406,
        6.169007, 6.924213, 7.689578, 8.463938, 9.24633, 10.035957, 10.83214, 11.634305, 12.441952, 13.254652,
        14.072025, 14.893739, 15.719498, 16.549039, 17.382126, 18.218547, 19.058109, 19.900639, 20.745977, 21.593979,
        22.444512, 23.297453, 24.152689, 25.010117, 25.869639, 26.731166, 27.594616, 28.459908, 29.326972, 30.195739,
        31.066145, 31.938131, 32.811639, 33.686617, 34.563015, 35.440786, 36.319884, 37.200268, 38.081896, 38.964733,
        39.84874, 40.733883, 41.620131, 42.507451, 43.395814, 44.285191, 45.175556, 46.066881, 46.959144, 47.852319,
        48.746383, 49.641316, 50.537095, 51.433702, 52.331116, 53.229318, 54.128292, 55.028019, 55.928483, 56.829668,
        57.731559, 58.634141, 59.537398, 60.441319, 61.345888, 62.251093, 63.156921, 64.063361, 64.970401, 65.878028,
        66.786233, 67.695004, 68.604332, 69.514205, 70.424615, 71.335551, 72.247006, 73.158969, 74.071432, 74.984386,
        75.897825, 76.811738, 77.72612, 78.640961, 79.556256, 80.471996, 81.388175, 82.304786, 83.221822, 84.139277
        ]::double[] as lower_half
),

bounded as (
    select
        c.*,
        sum(incidents) filter ("level" = 'all') over (partition by scope, "name", is_synthetic) as all_incidents,
        case
            when incidents <= 100 then q.upper_half[incidents + 1]
            else (incidents + 1) * pow(1 - 1 / (9.0 * (incidents + 1)) + 1.6448536269514722 / (3 * sqrt(incidents + 1)), 3)
        end as upper_count,
        case
            when incidents <= 100 then q.lower_half[incidents + 1]
            else incidents * pow(1 - 1 / (9.0 * incidents) - 1.6448536269514722 / (3 * sqrt(incidents)), 3)
        end as lower_count
    from counted as c
    cross join quantiles as q
)

select
    b.scope,
    b."name",
    b.is_synthetic,
    b."level",
    b.component_class,
    b.category,
    cast(b.incidents as bigint) as incidents,
    round(b.incidents / nullif(b.all_incidents, 0), 6) as share_ratio,
    b.published_share_ratio,
    cast(b.gpus as bigint) as gpus,
    cast(b.hours as double) as hours,
    round(b.gpu_hours, 6) as gpu_hours,
    round(b.hours / nullif(b.incidents, 0), 6) as mtbf_hours,
    round(b.hours / b.upper_count, 6) as mtbf_low_hours,
    round(b.hours / b.lower_count, 6) as mtbf_high_hours,
    round(b.gpu_hours / nullif(b.incidents, 0), 6) as gpu_hours_per_incident,
    round(b.gpu_hours / nullif(b.incidents, 0) / 1024, 6) as mtbf_1024_hours,
    round(b.gpu_hours / nullif(b.incidents, 0) / 16384, 6) as mtbf_16384_hours,
    round(b.gpu_hours / nullif(b.incidents, 0) / 100000, 6) as mtbf_100000_hours,
    round(r.repair_mean_hours, 6) as repair_mean_hours,
    r.repairs,
    round(b.hours / nullif(b.incidents, 0) / (b.hours / nullif(b.incidents, 0) + r.repair_mean_hours), 6) as availability_ratio,
    round(k.checkpoint_mean_s, 3) as checkpoint_mean_s,
    round(case
        when k.checkpoint_mean_s >= 2 * b.hours * 3600 / nullif(b.incidents, 0) then b.hours * 3600 / nullif(b.incidents, 0)
        else
            sqrt(2 * k.checkpoint_mean_s * b.hours * 3600 / nullif(b.incidents, 0)) * (
                1 + sqrt(k.checkpoint_mean_s / (2 * b.hours * 3600 / nullif(b.incidents, 0))) / 3
                + k.checkpoint_mean_s / (2 * b.hours * 3600 / nullif(b.incidents, 0)) / 9
            ) - k.checkpoint_mean_s
    end, 3) as checkpoint_interval_s
from bounded as b
left join repairs as r
    on b.scope = 'cluster' and b."level" = 'all' and b."name" = r.cluster and b.is_synthetic = r.is_synthetic
left join checkpoints as k
    on b.scope = 'cluster' and b."level" = 'all' and b."name" = k.cluster and b.is_synthetic = k.is_synthetic
