-- mart.mlperf_efficiency: best, median and spread of MFU and of time to train, and the speed-up over the last generation
-- grain: one benchmark, accelerator, round and division
-- key: benchmark_id, accelerator_id, round, division
-- depends: mart.mlperf_scaling
-- column benchmark_id: benchmark name that holds across rounds
-- column accelerator_id: id in ref.accelerators
-- column round: MLPerf Training round
-- column division: closed, open or not stated
-- column known_at: when the round became public
-- column result_count: results, those of one submission under several directories of a round counted once
-- column submitter_count: submitters behind them
-- column accelerator_count_min: smallest system
-- column accelerator_count_max: largest system
-- column best_minutes: shortest official time to train [min]
-- column best_minutes_accelerator_count: size of the system that reached it
-- column median_minutes: median official time, over systems of all sizes [min]
-- column minutes_spread: longest less shortest official time [min]
-- column best_accelerator_hours: fewest accelerator hours to the target [h]
-- column median_accelerator_hours: median accelerator hours to the target [h]
-- column accelerator_hours_spread: most less fewest accelerator hours [h]
-- column mfu_count: results with an MFU against the dense BF16 peak
-- column best_mfu_ratio: highest MFU against the dense BF16 peak, whatever precision ran [ratio]
-- column median_mfu_ratio: median MFU against the dense BF16 peak [ratio]
-- column mfu_spread_ratio: highest less lowest MFU against the dense BF16 peak [ratio]
-- column mfu_used_count: results with an MFU against the dense peak of the precision that ran
-- column best_mfu_used_ratio: highest MFU against the dense peak of the precision that ran, where known [ratio]
-- column median_mfu_used_ratio: median of them [ratio]
-- column mfu_is_upper_bound: true where padding is counted as work
-- column best_scaling_efficiency_ratio: highest throughput per accelerator of a larger system against the smallest [ratio]
-- column worst_scaling_efficiency_ratio: lowest of them [ratio]
-- column previous_generation: architecture before this one, of the same vendor, with results in this benchmark
-- column speedup_size_count: system sizes at which both generations have a result
-- column speedup_ratio: best time of the previous generation over best time of this one at equal size, geometric mean [ratio]
with results as (
    select
        s.*,
        coalesce(s.division, 'not stated') as in_division,
        row_number() over (
            partition by
                s.round,
                s.benchmark_id,
                coalesce(m.logs_sha256, s.organization || '/' || s.system_desc_id || '/' || s.benchmark)
            order by m.source_rank, s.organization, s.system_desc_id
        ) as copy_number,
        -- Where the logs are not held, the same submitter's time on as many accelerators tells them, to 6 ms.
        row_number() over (
            partition by
                s.round,
                s.benchmark_id,
                s.submitter,
                s.accelerator_id,
                s.accelerator_count,
                coalesce(
                    cast(round(s.unscaled_minutes, 4) as varchar),
                    s.organization || '/' || s.system_desc_id || '/' || s.benchmark
                )
            order by m.source_rank, s.organization, s.system_desc_id
        ) as time_number
    from mart.mlperf_scaling as s
    inner join market.mlperf_results as m
        on m.round = s.round
        and m.organization = s.organization
        and m.system_desc_id = s.system_desc_id
        and m.benchmark = s.benchmark
        and m.is_preferred
    where s.accelerator_id is not null
),

singles as (
    select * from results where copy_number = 1 and time_number = 1
),

-- A part with a CPU on the module belongs to the generation of its accelerator; TPUs name no architecture.
parts as (
    select
        accelerator_id,
        vendor,
        min(release_date) as release_date,
        any_value(
            case when architecture = 'TPU' then model else replace(architecture, 'Grace ', '') end
        ) as generation
    from ref.accelerators
    where architecture is not null and release_date is not null
    group by accelerator_id, vendor
),

-- A late part of a generation (H200, after B200) does not make the generation younger.
ages as (
    select vendor, generation, min(release_date) as first_release_date
    from parts
    group by vendor, generation
),

generations as (
    select distinct
        r.benchmark_id, r.in_division, p.vendor, p.generation, a.first_release_date
    from singles as r
    inner join parts as p on p.accelerator_id = r.accelerator_id
    inner join ages as a on a.vendor = p.vendor and a.generation = p.generation
),

predecessors as (
    select
        g.benchmark_id, g.in_division, g.vendor, g.generation,
        max_by(e.generation, e.first_release_date) as previous_generation
    from generations as g
    inner join generations as e
        on e.benchmark_id = g.benchmark_id
        and e.in_division = g.in_division
        and e.vendor = g.vendor
        and e.first_release_date < g.first_release_date
    group by all
),

fastest as (
    select
        r.benchmark_id, r.in_division, r.accelerator_id, r.round, r.accelerator_count,
        p.vendor, p.generation,
        min(r.known_at) as known_at,
        min(r.minutes) as minutes
    from singles as r
    inner join parts as p on p.accelerator_id = r.accelerator_id
    group by all
),

pairs as (
    select
        n.benchmark_id, n.in_division, n.accelerator_id, n.round, n.accelerator_count,
        any_value(d.previous_generation) as previous_generation,
        min(o.minutes) / any_value(n.minutes) as speedup_ratio
    from fastest as n
    inner join predecessors as d
        on d.benchmark_id = n.benchmark_id
        and d.in_division = n.in_division
        and d.vendor = n.vendor
        and d.generation = n.generation
    inner join fastest as o
        on o.benchmark_id = n.benchmark_id
        and o.in_division = n.in_division
        and o.vendor = n.vendor
        and o.generation = d.previous_generation
        and o.accelerator_count = n.accelerator_count
        and o.known_at <= n.known_at
    group by n.benchmark_id, n.in_division, n.accelerator_id, n.round, n.accelerator_count
),

speedups as (
    select
        benchmark_id, in_division, accelerator_id, round,
        any_value(previous_generation) as previous_generation,
        count(*) as speedup_size_count,
        exp(avg(ln(speedup_ratio))) as speedup_ratio
    from pairs
    group by benchmark_id, in_division, accelerator_id, round
)

select
    r.benchmark_id,
    r.accelerator_id,
    r.round,
    r.in_division as division,
    min(r.known_at) as known_at,
    count(*) as result_count,
    count(distinct r.submitter) as submitter_count,
    min(r.accelerator_count) as accelerator_count_min,
    max(r.accelerator_count) as accelerator_count_max,
    min(r.minutes) as best_minutes,
    min_by(r.accelerator_count, r.minutes) as best_minutes_accelerator_count,
    median(r.minutes) as median_minutes,
    max(r.minutes) - min(r.minutes) as minutes_spread,
    min(r.accelerator_hours) as best_accelerator_hours,
    median(r.accelerator_hours) as median_accelerator_hours,
    max(r.accelerator_hours) - min(r.accelerator_hours) as accelerator_hours_spread,
    count(r.mfu_ratio) as mfu_count,
    max(r.mfu_ratio) as best_mfu_ratio,
    median(r.mfu_ratio) as median_mfu_ratio,
    max(r.mfu_ratio) - min(r.mfu_ratio) as mfu_spread_ratio,
    count(r.mfu_used_ratio) as mfu_used_count,
    max(r.mfu_used_ratio) as best_mfu_used_ratio,
    median(r.mfu_used_ratio) as median_mfu_used_ratio,
    bool_or(r.mfu_is_upper_bound) as mfu_is_upper_bound,
    max(case when r.accelerator_count > r.base_accelerator_count then r.scaling_efficiency_ratio end)
        as best_scaling_efficiency_ratio,
    min(case when r.accelerator_count > r.base_accelerator_count then r.scaling_efficiency_ratio end)
        as worst_scaling_efficiency_ratio,
    any_value(s.previous_generation) as previous_generation,
    any_value(s.speedup_size_count) as speedup_size_count,
    any_value(s.speedup_ratio) as speedup_ratio
from singles as r
left join speedups as s
    on s.benchmark_id = r.benchmark_id
    and s.in_division = r.in_division
    and s.accelerator_id = r.accelerator_id
    and s.round = r.round
group by r.benchmark_id, r.accelerator_id, r.round, r.in_division
