-- mart.collection_gaps: hours between a GPU's first and last reading of which nothing was recorded, and the reason where one was told.
-- grain: one gap of one GPU or MIG instance as seen by one collector
-- key: cluster, source, is_synthetic, node, gpu_uuid, from_at
-- column cluster: name of the cluster
-- column source: collector that should have read it
-- column is_synthetic: true for generated demonstration data
-- column node: host name of the node
-- column gpu_uuid: UUID of the GPU or MIG instance
-- column from_at: start of the first hour without a reading, UTC
-- column to_at: start of the next hour with one, UTC
-- column missing_hours: hours between them [h]
-- column reason: lost, disk_full, spool_dropped, …, as the collector told it for the GPU or the whole node; null where it told none
with hours as (
    select
        cluster, source, is_synthetic, node, gpu_uuid, hour_at,
        lead(hour_at) over (partition by cluster, source, is_synthetic, node, gpu_uuid order by hour_at) as next_at
    from telemetry.gpu_hours
    where sample_count > 0
),

gaps as (
    select
        cluster, source, is_synthetic, node, gpu_uuid,
        hour_at + interval 1 hour as from_at,
        next_at as to_at,
        date_diff('hour', hour_at, next_at) - 1 as missing_hours
    from hours
    where next_at > hour_at + interval 1 hour
)

select
    g.*,
    (
        select string_agg(distinct r.reason, ', ' order by r.reason)
        from telemetry.null_reasons as r
        where
            r.cluster = g.cluster and r.source = g.source and r.node = g.node and r.column_name = '*'
            and r.device in ('*', g.gpu_uuid)
            and r.from_at < g.to_at and coalesce(r.to_at, g.to_at) >= g.from_at
    ) as reason
from gaps as g
