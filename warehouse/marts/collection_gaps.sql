-- mart.collection_gaps: time between a GPU's first and last reading of which nothing was recorded, and GPUs that are not heard of any more.
-- grain: one gap of one GPU or MIG instance as seen by one collector: whole hours, the rest of an hour, or up to now
-- key: cluster, source, is_synthetic, node, gpu_uuid, from_at
-- column cluster: name of the cluster
-- column source: collector that should have read it
-- column is_synthetic: true for generated demonstration data
-- column node: host name of the node
-- column gpu_uuid: UUID of the GPU or MIG instance
-- column from_at: start of the first hour without a reading, or of the hour in which some are missing, UTC
-- column to_at: start of the next hour with one, or end of that hour, UTC; null where the GPU has not come back while its collector goes on
-- column missing_hours: whole hours between them without a reading [h]
-- column missing_seconds: time of it that no reading covers [s]
-- column reason: lost, disk_full, spool_dropped, …, as the collector told it for the GPU or the whole node; null where it told none
with hours as (
    select
        cluster, source, is_synthetic, node, gpu_uuid, hour_at, seconds_covered,
        lag(hour_at) over gpu as before_at,
        lead(hour_at) over gpu as next_at,
        max(hour_at) over (partition by cluster, source, is_synthetic) as newest_at
    from telemetry.gpu_hours
    where sample_count > 0
    window gpu as (partition by cluster, source, is_synthetic, node, gpu_uuid order by hour_at)
),

-- A board that went to another node, or was taken out, is not missing where it was.
present as (
    select distinct cluster, source, node, gpu_uuid from telemetry.inventory where valid_to is null
),

gaps as (
    select
        cluster, source, is_synthetic, node, gpu_uuid,
        hour_at + interval 1 hour as from_at,
        next_at as to_at,
        date_diff('hour', hour_at, next_at) - 1 as missing_hours,
        (date_diff('hour', hour_at, next_at) - 1) * 3600.0 as missing_seconds
    from hours
    where next_at > hour_at + interval 1 hour
    union all
    -- the first and the last hour of a record begin and end where they do; readings minutes apart cover nothing
    select
        cluster, source, is_synthetic, node, gpu_uuid, hour_at, hour_at + interval 1 hour, 0, 3600.0 - seconds_covered
    from hours
    where before_at is not null and next_at is not null and seconds_covered > 0 and seconds_covered <= 3540
    union all
    select
        h.cluster, h.source, h.is_synthetic, h.node, h.gpu_uuid, h.hour_at + interval 1 hour, null,
        date_diff('hour', h.hour_at, h.newest_at), date_diff('hour', h.hour_at, h.newest_at) * 3600.0
    from hours as h
    join present as p using (cluster, source, node, gpu_uuid)
    where h.next_at is null and h.newest_at > h.hour_at and h.newest_at <= h.hour_at + interval 7 day
)

select
    g.*,
    (
        select string_agg(distinct r.reason, ', ' order by r.reason)
        from telemetry.null_reasons as r
        where
            r.cluster = g.cluster and r.source = g.source and r.node = g.node and r.column_name = '*'
            and r.table_name = 'gpu_samples' and r.device in ('*', g.gpu_uuid)
            and (g.to_at is null or r.from_at < g.to_at)
            and (r.to_at is null or r.to_at >= g.from_at)
    ) as reason
from gaps as g
