-- mart.mlperf_scaling: every MLPerf Training result with an official time, and how throughput holds up as systems grow
-- grain: one benchmark result of one system directory in one round
-- key: round, organization, system_desc_id, benchmark
-- column round: MLPerf Training round
-- column organization: organisation directory in the results repository
-- column system_desc_id: system directory
-- column benchmark: benchmark directory; join market.mlperf_runs on these four for the runs
-- column benchmark_id: benchmark name that holds across rounds
-- column division: closed or open; null where the source does not say
-- column submitter: submitter
-- column system: display name of the system
-- column availability: onprem, cloud, preview or research
-- column accelerator_id: id in ref.accelerators; null where the name is not known there
-- column accelerator: accelerator as the submitter names it
-- column accelerator_count: accelerators
-- column node_count: nodes
-- column minutes: official time to train [min]
-- column unscaled_minutes: time before the fairness factor [min]
-- column accelerator_hours: accelerators times official time [h]
-- column mfu_ratio: model FLOPs utilisation of the dense BF16 peak [ratio]
-- column mfu_is_upper_bound: true where padding is counted as work
-- column used_precision: precision of the linear layers where known
-- column mfu_used_ratio: utilisation of the dense peak of that precision [ratio]
-- column mfu_reason: why there is no mfu_ratio, or how it is limited
-- column units_per_s_per_accelerator: work units a second of one accelerator [unit/s]
-- column counter_unit: what a work unit is
-- column base_accelerator_count: smallest system of this submitter, benchmark, round, division and accelerator
-- column scaling_efficiency_ratio: throughput of one accelerator against that smallest system [ratio]
-- column duplicate_of: first directory with byte-identical logs, as round/organization/system; null where this is it
-- column source: source the row was taken from
-- column source_url: link to the results directory
-- column known_at: when the result became public
with results as (
    select *
    from market.mlperf_results
    where is_preferred and minutes is not null
),

same_logs as (
    select
        round, organization, system_desc_id, benchmark,
        first_value(round || '/' || organization || '/' || system_desc_id) over (
            partition by benchmark_id, logs_sha256 order by known_at, organization, system_desc_id
        ) as first_directory
    from results
    where logs_sha256 is not null
),

smallest as (
    select
        benchmark_id, round, submitter, accelerator_id, coalesce(division, '') as division,
        min(accelerator_count) as base_accelerator_count
    from results
    where units_per_s_per_accelerator is not null and accelerator_id is not null
    group by all
),

base as (
    select
        s.*,
        max(r.units_per_s_per_accelerator) as base_units_per_s
    from smallest as s
    inner join results as r
        on r.benchmark_id = s.benchmark_id
        and r.round = s.round
        and r.submitter = s.submitter
        and r.accelerator_id = s.accelerator_id
        and coalesce(r.division, '') = s.division
        and r.accelerator_count = s.base_accelerator_count
    group by all
)

select
    r.round,
    r.organization,
    r.system_desc_id,
    r.benchmark,
    r.benchmark_id,
    r.division,
    r.submitter,
    r.system,
    r.availability,
    r.accelerator_id,
    r.accelerator,
    r.accelerator_count,
    r.node_count,
    r.minutes,
    r.unscaled_minutes,
    r.minutes * r.accelerator_count / 60 as accelerator_hours,
    r.mfu_ratio,
    r.mfu_is_upper_bound,
    r.used_precision,
    r.mfu_used_ratio,
    r.mfu_reason,
    r.units_per_s_per_accelerator,
    r.counter_unit,
    b.base_accelerator_count,
    r.units_per_s_per_accelerator / b.base_units_per_s as scaling_efficiency_ratio,
    case
        when l.first_directory != r.round || '/' || r.organization || '/' || r.system_desc_id then l.first_directory
    end as duplicate_of,
    r.source,
    r.source_url,
    r.known_at
from results as r
left join same_logs as l
    on l.round = r.round
    and l.organization = r.organization
    and l.system_desc_id = r.system_desc_id
    and l.benchmark = r.benchmark
left join base as b
    on b.benchmark_id = r.benchmark_id
    and b.round = r.round
    and b.submitter = r.submitter
    and b.accelerator_id = r.accelerator_id
    and b.division = coalesce(r.division, '')
