-- mart.ladder: the ladder of each cluster and day: where capacity went, rung by rung, adding up to all of it.
-- grain: one rung of one cluster on one UTC day
-- key: cluster, date, is_synthetic, rung
-- depends: job_efficiency
-- column cluster: name of the cluster
-- column date: UTC day
-- column is_synthetic: true for generated demonstration data
-- column rung_order: place on the ladder, from capacity down to productive time
-- column rung: what the time went to; unlogged: running without a log, so productivity is not known
-- column gpu_hours: time of GPUs on this rung [GPU h]
-- column share_ratio: share of the day's capacity; the rungs of a day sum to 1 [ratio]
-- column up_to_here_ratio: share of this rung and all before it [ratio]
-- column jobs: job attempts behind it
-- column mfu_ratio: on the productive rung: MFU of its jobs, weighted by time, where known [ratio]
-- column mfu_known_ratio: share of the productive time whose MFU is known [ratio]
with rungs as (
    select unnest([
        'down', 'unallocated', 'allocated_idle', 'start_up', 'checkpoint', 'evaluation', 'data_stall',
        'exposed_communication', 'rollback', 'throttled', 'straggler', 'other', 'unlogged', 'productive'
    ]) as rung, generate_subscripts([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], 1) as rung_order
),

days as (
    select
        l.cluster, l."date", l.is_synthetic, l.rung,
        cast(sum(l.gpu_us) as hugeint) as gpu_us,
        count(*) filter (l.job_id <> '') as jobs,
        sum(l.gpu_us * e.mfu_ratio) filter (l.rung = 'productive') as mfu_us,
        sum(l.gpu_us) filter (l.rung = 'productive' and e.mfu_ratio is not null) as mfu_known_us
    from telemetry.ladder_daily as l
    left join mart.job_efficiency as e
        on l.cluster = e.cluster and l.is_synthetic = e.is_synthetic and l.job_id = e.job_id and l.attempt = e.attempt
    group by all
)

select
    d.cluster,
    d."date",
    d.is_synthetic,
    r.rung_order,
    d.rung,
    round(d.gpu_us / 3.6e9, 9) as gpu_hours,
    d.gpu_us / sum(d.gpu_us) over w as share_ratio,
    sum(d.gpu_us) over (partition by d.cluster, d."date", d.is_synthetic order by r.rung_order) / sum(d.gpu_us) over w as up_to_here_ratio,
    d.jobs,
    round(d.mfu_us / nullif(d.mfu_known_us, 0), 6) as mfu_ratio,
    case when d.rung = 'productive' then round(coalesce(d.mfu_known_us, 0) / nullif(d.gpu_us, 0), 6) end as mfu_known_ratio
from days as d
inner join rungs as r using (rung)
window w as (partition by d.cluster, d."date", d.is_synthetic)
