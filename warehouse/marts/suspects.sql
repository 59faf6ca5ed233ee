-- mart.suspects: nodes and links ranked by how far what went wrong on them exceeds what their like explains.
-- grain: one node, over all that was read; or one link as one collector saw it, over its last 24 hours
-- key: cluster, is_synthetic, kind, node, device, link_kind, link_index, source
-- depends: link_health
-- column cluster: name of the cluster
-- column is_synthetic: true for generated demonstration data
-- column kind: node or link
-- column node: host name
-- column device: GPU UUID or network device of the link; empty for a node
-- column link_kind: nvlink, infiniband, roce, pcie, …; empty for a node
-- column link_index: link or port number; -1 for a node
-- column source: collector that read the link; events for a node
-- column place: rank by evidence among the cluster's nodes, or its links of that kind, from 1
-- column incidents: nodes: interruptions, storms of events within ten minutes counted once, and jobs the scheduler lost with the node; links: minutes in which errors grew (PCIe: hours)
-- column hours: time observed [h]
-- column expected: incidents that the rate of all its like gives for that time, its own included
-- column excess_ratio: incidents over expected [ratio]
-- column evidence: k ln(k/m) - (k - m) for k incidents above m expected, else 0
-- column chance_ratio: upper bound (Chernoff, times the number of its like) of the probability that chance shows one as bad anywhere among them [ratio]
-- column is_suspect: true where that is at most 0.05
-- column others: how many like it were compared
-- column last_at: last incident, UTC
-- column what: component classes seen on a node; verdict and rule of a link
with device_events as (
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

lost_jobs as (
    select cluster, is_synthetic, unnest(string_split(node_list, ',')) as node, ended_at, node_list
    from telemetry.jobs
    where is_preferred and state = 'node_fail' and ended_at is not null and node_list is not null
),

-- A job on many nodes does not say which of them failed; alone on one node it does.
node_events as (
    select * from device_events
    union all
    select cluster, is_synthetic, node, ended_at, 'host'
    from lost_jobs
    where not contains(node_list, ',')
),

opened as (
    select
        *,
        coalesce(occurred_at > lag(occurred_at) over (
            partition by cluster, is_synthetic, node order by occurred_at
        ) + interval 10 minute, true) as opens
    from node_events
),

observed as (
    select cluster, is_synthetic, node, cast(count(distinct hour_at) as double) as hours
    from telemetry.gpu_hours
    group by all
),

nodes as (
    select
        o.cluster, o.is_synthetic, 'node' as kind, o.node, '' as device, '' as link_kind, cast(-1 as bigint) as link_index,
        'events' as "source", o.hours,
        count(*) filter (e.opens) as incidents,
        max(e.occurred_at) as last_at,
        string_agg(distinct e.component_class, ', ' order by e.component_class) as what
    from observed as o
    left join opened as e on o.cluster = e.cluster and o.is_synthetic = e.is_synthetic and o.node = e.node
    group by all
),

links as (
    select
        cluster, is_synthetic, 'link' as kind, node, device, link_kind, link_index, "source",
        epoch(last_read_at - window_from_at) / 3600.0 as hours,
        error_periods as incidents, last_error_at as last_at, verdict || ': ' || "rule" as what
    from mart.link_health
    where error_count is not null
),

everything as (
    select * from nodes
    union all by name
    select * from links
),

compared as (
    select
        *,
        sum(incidents) over w / nullif(sum(hours) over w, 0) * hours as expected,
        count(*) over w as others
    from everything
    window w as (partition by cluster, is_synthetic, kind, link_kind, "source")
),

weighed as (
    select
        *,
        case
            when incidents > expected and expected > 0 then incidents * ln(incidents / expected) - (incidents - expected)
            else 0
        end as evidence
    from compared
)

select
    cluster,
    is_synthetic,
    kind,
    node,
    device,
    link_kind,
    link_index,
    "source",
    row_number() over (
        partition by cluster, is_synthetic, kind, link_kind, "source" order by evidence desc, incidents desc, node, device, link_index
    ) as place,
    cast(incidents as bigint) as incidents,
    round(hours, 6) as hours,
    round(expected, 6) as expected,
    round(incidents / nullif(expected, 0), 6) as excess_ratio,
    round(evidence, 6) as evidence,
    round(least(1.0, others * exp(-evidence)), 12) as chance_ratio,
    others * exp(-evidence) <= 0.05 as is_suspect,
    others,
    last_at,
    what
from weighed
