-- mart.pcie_links: the PCIe link of every board as its samples tell it: replays, lanes and generation of the last 24 hours.
-- grain: one board in one node as seen by one collector
-- key: cluster, source, is_synthetic, node, device, link_kind, link_index
-- column cluster: name of the cluster
-- column source: collector that read the board
-- column is_synthetic: true for generated demonstration data
-- column node: host name of the node
-- column device: GPU UUID
-- column link_kind: pcie
-- column link_index: 0: a board has one
-- column accelerator_id: model of the GPU, where the samples name it
-- column window_from_at: start of the 24 hours up to the end of the collector's newest hour in the cluster, UTC
-- column last_read_at: last minute with a reading, UTC; its hour where minutes are not kept
-- column replay_count: replays in the window; null where the counter was not read twice
-- column error_hours: hours of the window with a replay [h]
-- column width_lanes: fewest lanes in the window
-- column best_width_lanes: most lanes on record
-- column generation: highest generation in hours of the window in which the GPU worked; idle links fall back to 1
-- column best_generation: highest such generation on record
-- column first_error_at: start of the first hour on record with a replay, UTC
-- column last_error_at: start of the last such hour, UTC
with hours as (
    select
        cluster, source, is_synthetic, node, gpu_uuid as device, hour_at, "date", accelerator_id, pcie_link_width_min,
        -- a counter read once in two hours has grown by nothing that anyone could see: its 0 is no evidence
        case when
            sample_count >= 2
            or lag(hour_at) over (
                partition by cluster, source, is_synthetic, node, gpu_uuid, pcie_replay_delta_count is null order by hour_at
            ) = hour_at - interval 1 hour
            then pcie_replay_delta_count end as replays,
        case when inactive_seconds < 0.5 * seconds_covered then pcie_link_generation_max end as working_generation,
        max(hour_at) over (partition by cluster, source, is_synthetic) - interval 23 hour as from_at
    from telemetry.gpu_hours
    where parent_gpu_uuid is null and (pcie_replay_delta_count is not null or pcie_link_width_min is not null)
),

boards as (
    select
        cluster, source, is_synthetic, node, device,
        any_value(accelerator_id) as accelerator_id,
        any_value(from_at) as window_from_at,
        max(hour_at) as last_hour_at,
        max("date") as last_day,
        cast(sum(replays) filter (hour_at >= from_at) as bigint) as replay_count,
        count(*) filter (replays > 0 and hour_at >= from_at) as error_hours,
        min(pcie_link_width_min) filter (hour_at >= from_at) as width_lanes,
        max(pcie_link_width_min) as best_width_lanes,
        max(working_generation) filter (hour_at >= from_at) as generation,
        max(working_generation) as best_generation,
        min(hour_at) filter (replays > 0) as first_error_at,
        max(hour_at) filter (replays > 0) as last_error_at
    from hours
    group by all
    having max(hour_at) >= any_value(from_at)
),

-- An hour says that a GPU was read in it; its last minute with a sample says how late.
minutes as (
    select b.cluster, b.source, b.is_synthetic, b.node, b.device, max(m.minute_at) as last_minute_at
    from boards as b
    join telemetry.gpu_minutes as m
        on m.cluster = b.cluster and m.source = b.source and m.is_synthetic = b.is_synthetic and m.node = b.node
        and m.gpu_uuid = b.device and m."date" = b.last_day and date_trunc('hour', m.minute_at) = b.last_hour_at
    where m.sample_count > 0 and (m.pcie_replay_delta_count is not null or m.pcie_link_width_min is not null)
    group by all
)

select
    b.cluster, b.source, b.is_synthetic, b.node, b.device,
    'pcie' as link_kind, cast(0 as bigint) as link_index,
    b.accelerator_id, b.window_from_at,
    coalesce(m.last_minute_at, b.last_hour_at) as last_read_at,
    b.replay_count, b.error_hours, b.width_lanes, b.best_width_lanes, b.generation, b.best_generation,
    b.first_error_at, b.last_error_at
from boards as b
left join minutes as m using (cluster, source, is_synthetic, node, device)
