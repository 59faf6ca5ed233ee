-- mart.fleet_daily: what each cluster did on each day: coverage, utilisation, idle time, power, energy, events, link errors.
-- grain: one cluster on one UTC day as seen by one collector
-- key: cluster, date, source, is_synthetic
-- column cluster: name of the cluster
-- column date: UTC day
-- column source: collector that saw it; collectors that see the same GPUs are never added up
-- column is_synthetic: true for generated demonstration data
-- column gpus_seen: boards with at least one reading; 0 where inventory says there were boards and none was read
-- column gpus_in_inventory: boards in the inventory at some time of the day; null without an inventory
-- column mig_instances_seen: MIG instances with at least one reading; they are left out of the means below
-- column covered_gpu_hours: time of boards between readings close enough to each other [GPU h]
-- column capacity_gpu_hours: time of boards in the inventory, on the last day until the last hour read; null without one [GPU h]
-- column coverage_ratio: covered over capacity; above 1 where the inventory misses boards [ratio]
-- column gpu_util_mean_ratio: mean share of time a kernel ran, weighted by time; null where no time is covered [ratio]
-- column gpu_util_min_ratio: the day's mean of the least used board [ratio]
-- column gpu_util_max_ratio: the day's mean of the most used board [ratio]
-- column gpu_util_known_ratio: share of the covered time with a utilisation reading [ratio]
-- column idle_ratio: share of the time in which activity is known that a board did nothing [ratio]
-- column idle_gpu_hours: that time [GPU h]
-- column tensor_active_mean_ratio: mean share of cycles a tensor pipe was active, weighted by time [ratio]
-- column tensor_known_ratio: share of the covered time with a tensor reading [ratio]
-- column memory_used_mean_ratio: mean share of memory in use, weighted by time [ratio]
-- column power_mean_w: mean power of one board, weighted by time [W]
-- column power_max_w: highest power of one board [W]
-- column power_known_ratio: share of the covered time with a power reading [ratio]
-- column energy_kwh: energy of the boards over the time in which it is known [kWh]
-- column energy_known_ratio: share of the covered time whose energy is known [ratio]
-- column energy_counter_ratio: share of that energy read from energy counters [ratio]
-- column energy_trapezoid_ratio: share of it integrated from power readings; the rest mixes both within an hour [ratio]
-- column gap_energy_kwh: energy that counters gained over gaps; not in energy_kwh [kWh]
-- column temperature_max_c: highest GPU temperature [°C]
-- column throttle_power_gpu_hours: least time held back by the power cap or power brake, which may overlap [GPU h]
-- column throttle_thermal_gpu_hours: least time held back by software or hardware thermal slowdown, which may overlap [GPU h]
-- column ecc_corrected_count: corrected ECC errors
-- column ecc_uncorrected_count: uncorrected ECC errors
-- column counter_reset_count: driver reloads, GPU resets and reboots, as energy counters show them
-- column xid_count: XID events; null where the collector is not known to report events
-- column xid_error_count: of them with severity error or fatal
-- column lost_count: GPUs that were lost
-- column returned_count: GPUs that came back
-- column fatal_event_count: events of severity fatal
-- column link_error_count: growth of the error counters of all links; null where none was read twice
-- column link_replay_count: of it replays
-- column link_recovery_count: of it recoveries
-- column link_crc_count: of it CRC errors
-- column links_with_errors: links with any such growth
-- column link_unknown_count: error counters that stood at their maximum or could not be read
with hours as (
    select
        cluster, source, is_synthetic, "date", hour_at, node,
        coalesce(parent_gpu_uuid, gpu_uuid) as board,
        case when parent_gpu_uuid is not null then gpu_uuid end as instance,
        parent_gpu_uuid is null as is_board,
        *
        exclude (cluster, source, is_synthetic, "date", hour_at, node, gpu_uuid, parent_gpu_uuid)
    from telemetry.gpu_hours
),

-- A board split into MIG instances is covered while any of its rows is.
covered as (
    select cluster, source, is_synthetic, "date", sum(seconds) as seconds, count(distinct board) as gpus_seen
    from (
        select cluster, source, is_synthetic, "date", hour_at, board, max(seconds_covered) as seconds
        from hours
        group by all
    ) as per_board
    group by all
),

per_gpu as (
    select
        cluster, source, is_synthetic, "date", board,
        sum(gpu_util_mean_ratio * seconds_covered)
        / nullif(sum(seconds_covered) filter (gpu_util_mean_ratio is not null), 0) as util
    from hours
    where is_board
    group by all
),

spread as (
    select cluster, source, is_synthetic, "date", min(util) as util_min, max(util) as util_max
    from per_gpu
    group by all
),

measured as (
    select
        cluster, source, is_synthetic, "date",
        count(distinct instance) as mig_instances_seen,
        sum(seconds_covered) filter (is_board) as board_seconds,
        sum(seconds_covered) filter (is_board and gpu_util_mean_ratio is not null) as util_seconds,
        sum(gpu_util_mean_ratio * seconds_covered) filter (is_board) as util_sum,
        sum(seconds_covered) filter (is_board and inactive_seconds is not null) as activity_seconds,
        sum(inactive_seconds) filter (is_board) as inactive_seconds,
        sum(seconds_covered) filter (is_board and tensor_active_mean_ratio is not null) as tensor_seconds,
        sum(tensor_active_mean_ratio * seconds_covered) filter (is_board) as tensor_sum,
        sum(memory_used_mean_bytes / nullif(memory_total_bytes, 0) * seconds_covered) filter (is_board) as memory_sum,
        sum(seconds_covered) filter (
            is_board and memory_used_mean_bytes is not null and memory_total_bytes > 0
        ) as memory_seconds,
        sum(seconds_covered) filter (is_board and power_mean_w is not null) as power_seconds,
        sum(power_mean_w * seconds_covered) filter (is_board) as power_sum,
        max(power_max_w) filter (is_board) as power_max_w,
        sum(energy_j) filter (is_board) as energy_j,
        sum(energy_seconds) filter (is_board and energy_j is not null) as energy_seconds,
        sum(energy_j) filter (is_board and energy_method = 'counter') as counter_j,
        sum(energy_j) filter (is_board and energy_method = 'trapezoid') as trapezoid_j,
        sum(gap_energy_j) filter (is_board) as gap_energy_j,
        max(temperature_max_c) as temperature_max_c,
        sum(throttle_power_cap_seconds) filter (is_board) as cap_seconds,
        sum(throttle_power_brake_seconds) filter (is_board) as brake_seconds,
        sum(throttle_sw_thermal_seconds) filter (is_board) as sw_thermal_seconds,
        sum(throttle_hw_thermal_seconds) filter (is_board) as hw_thermal_seconds,
        sum(ecc_corrected_delta_count) filter (is_board) as ecc_corrected_count,
        sum(ecc_uncorrected_delta_count) filter (is_board) as ecc_uncorrected_count,
        sum(counter_reset_count) filter (is_board) as counter_reset_count
    from hours
    group by all
),

spans as (
    select
        cluster, source, is_synthetic,
        min("date") as first_date,
        max("date") as last_date,
        max(hour_at) + interval 1 hour as read_until
    from telemetry.gpu_hours
    group by all
),

events as (
    select
        cluster, source, is_synthetic, cast(occurred_at as date) as "date",
        count(*) filter (kind = 'xid') as xid_count,
        count(*) filter (kind = 'xid' and severity in ('error', 'fatal')) as xid_error_count,
        count(*) filter (kind = 'lost') as lost_count,
        count(*) filter (kind = 'returned') as returned_count,
        count(*) filter (severity = 'fatal') as fatal_event_count
    from telemetry.gpu_events
    group by all
),

-- The node agent watches events all the time; another collector is believed once it has reported one.
reporters as (
    select distinct cluster, source, is_synthetic from telemetry.gpu_events
    union
    select distinct h.cluster, h.source, h.is_synthetic
    from telemetry.gpu_hours as h
    where
        h.source = 'nvml'
        and not exists (
            from telemetry.null_reasons as n
            where n.cluster = h.cluster and n.source = h.source and n.table_name = 'gpu_events'
        )
),

-- Rows are many and counters few: what a counter's name says is asked of the sums, and links are told apart where it matters.
counter_sums as (
    select
        cluster, source, is_synthetic, "date", lower(counter) as counter,
        sum(delta) as delta, count(delta) as deltas
    from telemetry.link_counters
    group by all
    having regexp_matches(
        lower(counter), 'err|crc|replay|recover|down|discard|drop|overrun|integrity|out_of_seq|retr|nak|nack|timeout'
    )
),

error_sums as (
    select
        cluster, source, is_synthetic, "date",
        sum(delta) as link_error_count,
        sum(delta) filter (counter like '%replay%') as link_replay_count,
        sum(delta) filter (counter like '%recover%') as link_recovery_count,
        sum(delta) filter (counter like '%crc%') as link_crc_count,
        sum(deltas) as deltas
    from counter_sums
    group by all
),

error_links as (
    select
        cluster, source, is_synthetic, "date",
        count(distinct (node, device, link_kind, link_index)) filter (delta > 0) as links_with_errors,
        count(distinct (node, device, link_kind, link_index, lower(counter))) filter (
            delta_status in ('saturated', 'unreadable')
        ) as link_unknown_count
    from telemetry.link_counters
    where
        (delta > 0 or delta_status in ('saturated', 'unreadable'))
        and regexp_matches(
            lower(counter), 'err|crc|replay|recover|down|discard|drop|overrun|integrity|out_of_seq|retr|nak|nack|timeout'
        )
    group by all
),

links as (
    select
        s.*, coalesce(l.links_with_errors, 0) as links_with_errors, coalesce(l.link_unknown_count, 0) as link_unknown_count
    from error_sums as s
    left join error_links as l using (cluster, source, is_synthetic, "date")
),

days as (
    select cluster, source, is_synthetic, cast(unnest(generate_series(first_date, last_date, interval 1 day)) as date) as "date"
    from spans
    union
    select cluster, source, is_synthetic, "date" from events
    union
    select cluster, source, is_synthetic, "date" from links
),

stays as (
    select
        i.cluster, i.source, i.is_synthetic, i.gpu_uuid,
        i.valid_from,
        least(
            coalesce(i.valid_to, s.read_until),
            coalesce(lead(i.valid_from) over (
                partition by i.cluster, i.source, i.is_synthetic, i.gpu_uuid order by i.valid_from
            ), s.read_until),
            s.read_until
        ) as valid_to
    from telemetry.inventory as i
    inner join spans as s on i.cluster = s.cluster and i.source = s.source and i.is_synthetic = s.is_synthetic
    where i.parent_gpu_uuid is null
),

capacity as (
    select
        d.cluster, d.source, d.is_synthetic, d."date",
        count(distinct s.gpu_uuid) as gpus_in_inventory,
        sum(epoch(least(s.valid_to, d.ends_at) - greatest(s.valid_from, d.begins_at))) as seconds
    from (
        select *, cast("date" as timestamptz) as begins_at, cast("date" + 1 as timestamptz) as ends_at from days
    ) as d
    inner join stays as s
        on d.cluster = s.cluster and d.source = s.source and d.is_synthetic = s.is_synthetic
        and s.valid_from < d.ends_at and s.valid_to > d.begins_at
    group by all
)

-- Rounded, since sums of floats depend on the order of threads and a build must be the same every time.
select
    d.cluster,
    d."date",
    d.source,
    d.is_synthetic,
    coalesce(c.gpus_seen, case when k.gpus_in_inventory > 0 then 0 end) as gpus_seen,
    k.gpus_in_inventory,
    m.mig_instances_seen,
    round(coalesce(c.seconds, case when k.gpus_in_inventory > 0 then 0 end) / 3600.0, 6) as covered_gpu_hours,
    round(k.seconds / 3600.0, 6) as capacity_gpu_hours,
    round(coalesce(c.seconds, 0) / nullif(k.seconds, 0), 6) as coverage_ratio,
    round(m.util_sum / nullif(m.util_seconds, 0), 6) as gpu_util_mean_ratio,
    round(s.util_min, 6) as gpu_util_min_ratio,
    round(s.util_max, 6) as gpu_util_max_ratio,
    round(coalesce(m.util_seconds, 0) / nullif(m.board_seconds, 0), 6) as gpu_util_known_ratio,
    round(m.inactive_seconds / nullif(m.activity_seconds, 0), 6) as idle_ratio,
    round(m.inactive_seconds / 3600.0, 6) as idle_gpu_hours,
    round(m.tensor_sum / nullif(m.tensor_seconds, 0), 6) as tensor_active_mean_ratio,
    round(coalesce(m.tensor_seconds, 0) / nullif(m.board_seconds, 0), 6) as tensor_known_ratio,
    round(m.memory_sum / nullif(m.memory_seconds, 0), 6) as memory_used_mean_ratio,
    round(m.power_sum / nullif(m.power_seconds, 0), 3) as power_mean_w,
    round(m.power_max_w, 3) as power_max_w,
    round(coalesce(m.power_seconds, 0) / nullif(m.board_seconds, 0), 6) as power_known_ratio,
    round(m.energy_j / 3.6e6, 6) as energy_kwh,
    round(coalesce(m.energy_seconds, 0) / nullif(m.board_seconds, 0), 6) as energy_known_ratio,
    round(coalesce(m.counter_j, 0) / nullif(m.energy_j, 0), 6) as energy_counter_ratio,
    round(coalesce(m.trapezoid_j, 0) / nullif(m.energy_j, 0), 6) as energy_trapezoid_ratio,
    round(m.gap_energy_j / 3.6e6, 6) as gap_energy_kwh,
    m.temperature_max_c,
    -- Times of one kind may overlap, so the longer of two is the least that was held back.
    round(greatest(m.cap_seconds, m.brake_seconds) / 3600.0, 6) as throttle_power_gpu_hours,
    round(greatest(m.sw_thermal_seconds, m.hw_thermal_seconds) / 3600.0, 6) as throttle_thermal_gpu_hours,
    cast(m.ecc_corrected_count as bigint) as ecc_corrected_count,
    cast(m.ecc_uncorrected_count as bigint) as ecc_uncorrected_count,
    cast(m.counter_reset_count as bigint) as counter_reset_count,
    coalesce(e.xid_count, case when r.cluster is not null then 0 end) as xid_count,
    coalesce(e.xid_error_count, case when r.cluster is not null then 0 end) as xid_error_count,
    coalesce(e.lost_count, case when r.cluster is not null then 0 end) as lost_count,
    coalesce(e.returned_count, case when r.cluster is not null then 0 end) as returned_count,
    coalesce(e.fatal_event_count, case when r.cluster is not null then 0 end) as fatal_event_count,
    cast(l.link_error_count as bigint) as link_error_count,
    cast(l.link_replay_count as bigint) as link_replay_count,
    cast(l.link_recovery_count as bigint) as link_recovery_count,
    cast(l.link_crc_count as bigint) as link_crc_count,
    case when l.deltas > 0 then l.links_with_errors end as links_with_errors,
    l.link_unknown_count
from days as d
left join covered as c
    on d.cluster = c.cluster and d.source = c.source and d.is_synthetic = c.is_synthetic and d."date" = c."date"
left join measured as m
    on d.cluster = m.cluster and d.source = m.source and d.is_synthetic = m.is_synthetic and d."date" = m."date"
left join spread as s
    on d.cluster = s.cluster and d.source = s.source and d.is_synthetic = s.is_synthetic and d."date" = s."date"
left join capacity as k
    on d.cluster = k.cluster and d.source = k.source and d.is_synthetic = k.is_synthetic and d."date" = k."date"
left join events as e
    on d.cluster = e.cluster and d.source = e.source and d.is_synthetic = e.is_synthetic and d."date" = e."date"
left join links as l
    on d.cluster = l.cluster and d.source = l.source and d.is_synthetic = l.is_synthetic and d."date" = l."date"
left join reporters as r
    on d.cluster = r.cluster and d.source = r.source and d.is_synthetic = r.is_synthetic
