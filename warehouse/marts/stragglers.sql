-- mart.stragglers: boards that slowed their jobs in the 24 hours up to the collector's newest reading: at work, but at far lower clocks than the job's fastest.
-- grain: one board in one attempt of one job as seen by one collector; only boards that were slow
-- key: cluster, source, is_synthetic, job_id, attempt, node, gpu_uuid
-- column cluster: name of the cluster
-- column source: collector that read the boards
-- column is_synthetic: true for generated demonstration data
-- column job_id: job as in `telemetry.jobs`
-- column attempt: attempt as in `telemetry.jobs`
-- column node: host name
-- column gpu_uuid: the slow board
-- column accelerator_id: its model; only boards of one model are compared
-- column boards: boards of the job and model that worked in its slow windows; the fewest of them
-- column windows: windows of five minutes in which it worked beside others
-- column slow_windows: of them those in which it was slow
-- column slow_minutes: their time [min]
-- column first_slow_at: start of the first of them, UTC
-- column last_slow_at: end of the last of them, UTC
-- column worst_score_ratio: its lowest SM clock in a window over that of the job's fastest board in it [ratio]
-- column sm_clock_mhz: its mean SM clock in the slow windows [MHz]
-- column best_sm_clock_mhz: mean of the fastest board's in the same windows [MHz]
-- column throttle_power_seconds: time in the slow windows that power cap or power brake held it back [s]
-- column throttle_thermal_seconds: time in the slow windows that software or hardware thermal slowdown held it back [s]
-- column what: the rule, and what the board's own counters say of the cause
-- The rule is that of NVIDIA's resiliency extension: a rank is a straggler where its relative performance score, the
-- fastest rank's time over its own, is below 0.75 (identify_stragglers, gpu_rel_threshold), looked at every 300 s. It
-- times kernels; telemetry has clocks, and a kernel that computes takes as many cycles at any clock. A board that its
-- host feeds late keeps its clock, and a score by the step needs the job's own timing: such a one is not named here.
with days as (
    select cluster, source, is_synthetic, max("date") as last_day from telemetry.gpu_hours group by all
),

newest as (
    select m.cluster, m.source, m.is_synthetic, max(m.minute_at) + interval 1 minute as to_at
    from telemetry.gpu_minutes as m
    join days as d
        on d.cluster = m.cluster and d.source = m.source and d.is_synthetic = m.is_synthetic and m."date" = d.last_day
    where m.sample_count > 0
    group by all
),

jobs as (
    select cluster, is_synthetic, job_id, attempt, ended_at
    from telemetry.jobs
    where is_latest
    qualify row_number() over (
        partition by cluster, job_id, attempt, is_synthetic order by (scheduler = 'none'), source_rank, known_at desc
    ) = 1
),

-- A stay ends with its job, whether or not the scheduler said so of every board.
stays as (
    select * exclude (read_at)
    from (
        select distinct
            g.cluster, g.is_synthetic, g.job_id, g.attempt, g.gpu_uuid, g.from_at, n.read_at,
            coalesce(least(g.to_at, j.ended_at), 'infinity'::timestamptz) as to_at
        from telemetry.job_gpus as g
        join (select cluster, is_synthetic, max(to_at) as read_at from newest group by all) as n using (cluster, is_synthetic)
        left join jobs as j using (cluster, is_synthetic, job_id, attempt)
        where g.is_preferred
    )
    where to_at > read_at - interval 24 hour
),

held as (
    select distinct cluster, is_synthetic, gpu_uuid from stays
),

-- A window counts if the board worked all the time it was read: one that idles clocks down on purpose.
windows as (
    select
        m.cluster, m.source, m.is_synthetic, m.node, m.gpu_uuid, any_value(m.accelerator_id) as accelerator_id,
        to_timestamp(floor(epoch(m.minute_at) / 300) * 300) as window_at,
        avg(m.sm_clock_mean_mhz) as clock_mhz,
        sum(greatest(m.throttle_power_cap_seconds, m.throttle_power_brake_seconds)) as power_s,
        sum(greatest(m.throttle_sw_thermal_seconds, m.throttle_hw_thermal_seconds)) as thermal_s
    from telemetry.gpu_minutes as m
    join newest as n
        on n.cluster = m.cluster and n.source = m.source and n.is_synthetic = m.is_synthetic
        and m."date" >= cast(n.to_at - interval 24 hour as date)
        and to_timestamp(floor(epoch(m.minute_at) / 300) * 300) >= n.to_at - interval 24 hour
    semi join held as h on h.cluster = m.cluster and h.is_synthetic = m.is_synthetic and h.gpu_uuid = m.gpu_uuid
    where m.parent_gpu_uuid is null and m.sample_count > 0
    group by m.cluster, m.source, m.is_synthetic, m.node, m.gpu_uuid, window_at
    having max(coalesce(m.inactive_seconds, 60)) = 0 and count(m.sm_clock_mean_mhz) > 0
),

compared as (
    select
        w.*, s.job_id, s.attempt,
        count(*) over peers as boards,
        max(w.clock_mhz) over peers as best_mhz
    from windows as w
    join stays as s
        on s.cluster = w.cluster and s.is_synthetic = w.is_synthetic and s.gpu_uuid = w.gpu_uuid
        and w.window_at >= s.from_at and w.window_at + interval 5 minute <= s.to_at
    window peers as (partition by w.cluster, w.source, w.is_synthetic, s.job_id, s.attempt, w.accelerator_id, w.window_at)
),

scored as (
    select *, clock_mhz / nullif(best_mhz, 0) as score, clock_mhz / nullif(best_mhz, 0) < 0.75 as is_slow
    from compared
    where boards >= 2 and accelerator_id is not null
),

found as (
    select
        cluster, source, is_synthetic, job_id, attempt, node, gpu_uuid,
        any_value(accelerator_id) as accelerator_id,
        min(boards) filter (is_slow) as boards,
        count(*) as windows,
        count(*) filter (is_slow) as slow_windows,
        min(window_at) filter (is_slow) as first_slow_at,
        max(window_at) filter (is_slow) + interval 5 minute as last_slow_at,
        min(score) as worst_score,
        avg(clock_mhz) filter (is_slow) as clock_mhz,
        avg(best_mhz) filter (is_slow) as best_mhz,
        sum(power_s) filter (is_slow) as power_s,
        sum(thermal_s) filter (is_slow) as thermal_s
    from scored
    group by all
    having bool_or(is_slow)
)

select
    cluster, source, is_synthetic, job_id, attempt, node, gpu_uuid, accelerator_id,
    boards, windows, slow_windows, slow_windows * 5 as slow_minutes, first_slow_at, last_slow_at,
    round(worst_score, 6) as worst_score_ratio,
    round(clock_mhz, 3) as sm_clock_mhz,
    round(best_mhz, 3) as best_sm_clock_mhz,
    round(power_s, 3) as throttle_power_seconds,
    round(thermal_s, 3) as throttle_thermal_seconds,
    'SM clock below 0.75 of the fastest board of the job; '
    || case
        when power_s > 0 and thermal_s > 0 then 'held back by power and by heat'
        when thermal_s > 0 then 'held back by heat'
        when power_s > 0 then 'held back by power'
        when power_s is null and thermal_s is null then 'what held it back was not read'
        else 'no counter of the board tells why'
    end as what
from found
