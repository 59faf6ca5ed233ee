-- mart.node_actions: what to do with which node, and why: drain, reset or watch, from links, XIDs, memory, lost GPUs and boards that slow their jobs.
-- grain: one reason on one device of one node
-- key: cluster, is_synthetic, node, device, reason
-- depends: mart.link_health, mart.stragglers
-- column cluster: name of the cluster
-- column is_synthetic: true for generated demonstration data
-- column node: host name of the node or switch
-- column node_action: the gravest action asked for on this node: drain before reset before watch
-- column device: GPU UUID, the network device, or the device as the event names it
-- column action: drain, reset or watch, for this reason alone
-- column reason: kind of reason: link, xid, lost, remap, ecc, pages, recovery, fabric, straggler
-- column why: what was seen, in words, with the rule and its threshold
-- column occurrences: how often, within the 24 hours up to the node's newest reading; an XID or SXID once a second, whoever told it
-- column first_seen_at: first time on record, UTC
-- column last_seen_at: last time, UTC
-- column sources: collectors that saw it
-- column pci_bus_id: PCI bus id of the GPU, where known
-- column gpu_serial: serial number of the board, where known
-- column node_read_at: newest reading of the node, UTC: a node that fell silent keeps the reasons of its last 24 hours
-- column node_state: state the scheduler last gave the node, where known
-- column other_nodes: other nodes in which the board with this serial number failed as well, at any time: it is the board, not the node
-- The hour says that a board was read in it, its last minute with a sample how late: an hour's end is no reading.
with last_hours as (
    select cluster, source, is_synthetic, node, gpu_uuid, max(hour_at) as hour_at, max("date") as last_day
    from telemetry.gpu_hours
    group by all
),

board_reads as (
    select h.cluster, h.source, h.is_synthetic, h.node, h.gpu_uuid, h.hour_at, max(m.minute_at) as minute_at
    from last_hours as h
    left join telemetry.gpu_minutes as m
        on m.cluster = h.cluster and m.source = h.source and m.is_synthetic = h.is_synthetic and m.node = h.node
        and m.gpu_uuid = h.gpu_uuid and m."date" = h.last_day and date_trunc('hour', m.minute_at) = h.hour_at
        and m.sample_count > 0
    group by all
),

-- Each node by its own clock: one that died must not lose the reason because others live on.
clocks as (
    select cluster, is_synthetic, node, max(seen_at) as to_at
    from (
        select cluster, is_synthetic, node, coalesce(minute_at, hour_at) as seen_at from board_reads
        union all
        select cluster, is_synthetic, node, occurred_at from telemetry.gpu_events
        union all
        select cluster, is_synthetic, node, last_read_at from mart.link_health
    )
    group by all
),

-- Kernel logs name a GPU by its bus: 0000:1b:00 there, 00000000:1B:00.0 in the inventory.
boards as (
    select
        cluster, node, gpu_uuid, gpu_serial, pci_bus_id,
        right(split_part(lower(pci_bus_id), ':', 1), 4) || ':' || split_part(lower(pci_bus_id), ':', 2) || ':'
            || left(split_part(lower(pci_bus_id), ':', 3), 2) as bus,
        valid_from, valid_to
    from telemetry.inventory
    where parent_gpu_uuid is null
),

seats as (
    select cluster, node, bus, gpu_uuid, min(valid_from) as valid_from, max(coalesce(valid_to, 'infinity'::timestamptz)) as valid_to
    from boards
    where pci_bus_id is not null
    group by all
),

named as (
    select
        e.cluster, e.is_synthetic, e.node, e.occurred_at, e.kind, e.code, e.link_index, e.severity, e.action, e.source, e.message,
        coalesce(
            e.gpu_uuid,
            (
                select max(s.gpu_uuid)
                from seats as s
                where
                    s.cluster = e.cluster and s.node = e.node
                    and s.bus = right(split_part(lower(coalesce(e.pci_bus_id, e.device)), ':', 1), 4) || ':'
                        || split_part(lower(coalesce(e.pci_bus_id, e.device)), ':', 2) || ':'
                        || left(split_part(lower(coalesce(e.pci_bus_id, e.device)), ':', 3), 2)
                    and e.occurred_at >= s.valid_from and e.occurred_at < s.valid_to
            ),
            -- a switch is its bus, which one log writes with the function's number and another without
            case when e.kind = 'sxid' then
                regexp_replace(lower(e.device), '^(0000)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(\.[0-9a-f])?$', '\2')
            end,
            e.device
        ) as device
    from telemetry.gpu_events as e
),

xids as (
    select
        *,
        case
            when action in ('RESTART_BM', 'RESTART_VM', 'CHECK_MECHANICALS') or action = 'WORKFLOW_XID_48'
                or severity = 'fatal' or (starts_with(action, 'WORKFLOW_NVLINK') and severity = 'error') then 'drain'
            -- the driver itself printed Nonfatal: the link recovered
            when starts_with(action, 'WORKFLOW_NVLINK') then 'watch'
            when action = 'RESET_GPU' then 'reset'
            -- an application's own fault, and what may be ignored, ask nothing of the node
            when severity = 'error' and coalesce(action, '') not in ('RESTART_APP', 'IGNORE') then 'watch'
        end as asked
    from named
    where kind in ('xid', 'sxid')
),

xid_reasons as (
    select
        x.cluster, x.is_synthetic, x.node, x.device, 'xid' as reason,
        case max(case x.asked when 'drain' then 3 when 'reset' then 2 else 1 end)
            when 3 then 'drain' when 2 then 'reset' else 'watch' end as action,
        array_to_string(
            list_sort(list(distinct upper(x.kind) || ' ' || x.code || coalesce(' (' || x.action || ')', ''))), ', '
        ) as why,
        -- two logs of one error, or two collectors, agree on no more than the second. The same switch's bus in another
        -- node's log is another switch: nodes of one model have the same buses
        count(distinct (x.kind, x.code, coalesce(x.link_index, -1), date_trunc('second', x.occurred_at))) as occurrences,
        min(x.occurred_at) as first_seen_at, max(x.occurred_at) as last_seen_at,
        array_to_string(list_sort(list(distinct x.source)), ', ') as sources
    from xids as x
    join clocks as c using (cluster, is_synthetic, node)
    where x.asked is not null and x.occurred_at > c.to_at - interval 24 hour
    group by all
),

-- XID 154 tells which recovery the driver asks for from then on, as a hexadecimal number: 0 none, 1 reset, …
asked_for as (
    select
        cluster, is_synthetic, node, device, source, occurred_at, message,
        ('0x' || regexp_extract(message, 'to 0x([0-9a-fA-F]+)', 1))::int as recovery_action
    from named
    where kind = 'xid' and code = 154 and regexp_matches(message, 'to 0x[0-9a-fA-F]+')
    qualify row_number() over (partition by cluster, is_synthetic, node, device, source order by occurred_at desc) = 1
),

recovery_reasons as (
    select
        a.cluster, a.is_synthetic, a.node, a.device, 'recovery' as reason,
        case when a.recovery_action in (1, 6) then 'reset' else 'drain' end as action,
        'XID 154: ' || regexp_extract(a.message, 'changed .*') as why,
        1 as occurrences, a.occurred_at as first_seen_at, a.occurred_at as last_seen_at, a.source as sources
    from asked_for as a
    join clocks as c using (cluster, is_synthetic, node)
    where a.recovery_action > 0 and a.occurred_at > c.to_at - interval 24 hour
    qualify row_number() over (partition by a.cluster, a.is_synthetic, a.node, a.device order by a.occurred_at desc, a.source) = 1
),

lost_reasons as (
    select
        cluster, is_synthetic, node, device, 'lost' as reason, 'drain' as action,
        'the GPU was lost and has not come back' as why,
        count(*) filter (kind = 'lost') as occurrences,
        min(occurred_at) filter (kind = 'lost') as first_seen_at,
        max(occurred_at) filter (kind = 'lost') as last_seen_at,
        array_to_string(list_sort(list(distinct source)), ', ') as sources
    from named
    where kind in ('lost', 'returned')
    group by all
    having coalesce(max(occurred_at) filter (kind = 'lost') > max(occurred_at) filter (kind = 'returned'), bool_or(kind = 'lost'))
),

hours as (
    select
        h.*, row_number() over (
            partition by h.cluster, h.is_synthetic, h.source, h.node, h.gpu_uuid order by h.hour_at desc
        ) as nth
    from telemetry.gpu_hours as h
    join clocks as c using (cluster, is_synthetic, node)
    -- what an hour holds may have happened at its end
    where h.parent_gpu_uuid is null and h.hour_at > c.to_at - interval 25 hour
),

memory as (
    select cluster, is_synthetic, node, gpu_uuid as device, source, hour_at, unnest([
        case when remap_failed = 1
            then {'reason': 'remap', 'action': 'drain', 'why': 'a row remapping failed'}
        when remapped_uncorrected_rows >= 512
            then {'reason': 'remap', 'action': 'drain', 'why': 'rows remapped after uncorrected errors >= 512'}
        when remap_pending = 1
            then {'reason': 'remap', 'action': 'reset', 'why': 'a row remapping waits for a reset'} end,
        case when retired_pages >= 63
            then {'reason': 'pages', 'action': 'drain', 'why': 'retired pages >= 63'} end,
        case
            when recovery_action in (1, 6)
                then {'reason': 'recovery', 'action': 'reset', 'why': 'the driver asks for a reset of the GPU or its bus'}
            when recovery_action in (2, 3, 4, 5, 7)
                then {'reason': 'recovery', 'action': 'drain', 'why': 'the driver asks for draining or a reboot (recovery action '
                    || recovery_action || ')'}
        end
    ]) as said
    from hours
    where nth = 1
),

memory_reasons as (
    select
        cluster, is_synthetic, node, device, said.reason as reason,
        case max(case said.action when 'drain' then 3 when 'reset' then 2 else 1 end)
            when 3 then 'drain' when 2 then 'reset' else 'watch' end as action,
        string_agg(distinct said.why, '; ' order by said.why) as why,
        count(*) as occurrences, min(hour_at) as first_seen_at, max(hour_at) as last_seen_at,
        array_to_string(list_sort(list(distinct source)), ', ') as sources
    from memory
    where said is not null
    group by all
),

ecc_reasons as (
    select
        cluster, is_synthetic, node, gpu_uuid as device, 'ecc' as reason, 'reset' as action,
        'uncorrected ECC errors > 0' as why,
        max(errors) as occurrences, min(first_at) as first_seen_at, max(last_at) as last_seen_at,
        array_to_string(list_sort(list(distinct source)), ', ') as sources
    from (
        select
            cluster, is_synthetic, node, gpu_uuid, source, sum(ecc_uncorrected_delta_count) as errors,
            min(hour_at) as first_at, max(hour_at) as last_at
        from hours
        where ecc_uncorrected_delta_count > 0
        group by all
    )
    group by all
),

link_reasons as (
    select
        cluster, is_synthetic, node, device, 'link' as reason,
        case when bool_or(verdict = 'fail') then 'drain' else 'watch' end as action,
        string_agg(
            distinct link_kind || ' ' || link_index || ': ' || rule, '; ' order by link_kind || ' ' || link_index || ': ' || rule
        ) as why,
        count(*) as occurrences,
        min(coalesce(first_error_at, window_from_at)) as first_seen_at,
        max(coalesce(last_error_at, last_read_at)) as last_seen_at,
        array_to_string(list_sort(list(distinct source)), ', ') as sources
    from mart.link_health
    where verdict in ('fail', 'warn')
    group by all
),

straggler_reasons as (
    select
        s.cluster, s.is_synthetic, s.node, s.gpu_uuid as device, 'straggler' as reason, 'watch' as action,
        string_agg(distinct 'job ' || s.job_id || ': ' || s.what, '; ' order by 'job ' || s.job_id || ': ' || s.what) as why,
        count(distinct (s.job_id, s.attempt)) as occurrences,
        min(s.first_slow_at) as first_seen_at, max(s.last_slow_at) as last_seen_at,
        array_to_string(list_sort(list(distinct s.source)), ', ') as sources
    from mart.stragglers as s
    group by all
),

-- What the driver says of the fabric now, by the newest state of each board.
fabric_reasons as (
    select
        cluster, is_synthetic, node, gpu_uuid as device, 'fabric' as reason, 'watch' as action,
        'NVLink fabric: ' || case when fabric_state = 'failed' then 'registration failed' else replace(fabric_health, ',', ', ') end
            as why,
        count(*) as occurrences, min(valid_from) as first_seen_at, max(valid_from) as last_seen_at,
        array_to_string(list_sort(list(distinct source)), ', ') as sources
    from telemetry.inventory
    where valid_to is null and (fabric_state = 'failed' or fabric_health <> 'healthy')
    group by all
),

reasons as (
    select * from xid_reasons
    union all by name
    -- where the agent read the recovery action itself since, that counts
    select r.* from recovery_reasons as r
    where not exists (
        select 1
        from hours as h
        join board_reads as b using (cluster, source, is_synthetic, node, gpu_uuid, hour_at)
        where
            h.nth = 1 and h.cluster = r.cluster and h.is_synthetic = r.is_synthetic and h.node = r.node
            and h.gpu_uuid = r.device and h.recovery_action is not null
            and coalesce(b.minute_at, h.hour_at + interval 1 hour) > r.last_seen_at
    )
    union all by name select * from lost_reasons
    union all by name select * from memory_reasons
    union all by name select * from ecc_reasons
    union all by name select * from link_reasons
    union all by name select * from fabric_reasons
    union all by name select * from straggler_reasons
),

-- Boards by serial number that failed in a node, whenever that was: by events, and by links.
failures as (
    select distinct e.cluster, e.is_synthetic, e.node, b.gpu_serial
    from (
        select cluster, is_synthetic, node, device from xids where asked is not null
        union all
        select cluster, is_synthetic, node, device from named where kind = 'lost'
    ) as e
    join boards as b on b.cluster = e.cluster and b.node = e.node and b.gpu_uuid = e.device and b.gpu_serial is not null
),

elsewhere as (
    select r.cluster, r.is_synthetic, r.node, r.device, f.node as other_node
    from reasons as r
    join boards as b on b.cluster = r.cluster and b.node = r.node and b.gpu_uuid = r.device
    join failures as f
        on f.cluster = r.cluster and f.is_synthetic = r.is_synthetic and f.gpu_serial = b.gpu_serial and f.node <> r.node
    union
    select cluster, is_synthetic, node, device, unnest(string_split(other_nodes, ', '))
    from mart.link_health
    where other_nodes is not null
),

others as (
    select cluster, is_synthetic, node, device, string_agg(distinct other_node, ', ' order by other_node) as other_nodes
    from elsewhere
    group by all
),

identity as (
    select
        cluster, node, gpu_uuid,
        arg_max(pci_bus_id, valid_from) filter (pci_bus_id is not null) as pci_bus_id,
        arg_max(gpu_serial, valid_from) filter (gpu_serial is not null) as gpu_serial
    from boards
    group by all
),

states as (
    select cluster, is_synthetic, node, arg_max(state, valid_from) as node_state from telemetry.node_states group by all
)

select
    r.cluster, r.is_synthetic, r.node,
    case max(case r.action when 'drain' then 3 when 'reset' then 2 else 1 end) over (
        partition by r.cluster, r.is_synthetic, r.node
    ) when 3 then 'drain' when 2 then 'reset' else 'watch' end as node_action,
    r.device, r.action, r.reason, r.why,
    cast(r.occurrences as bigint) as occurrences,
    r.first_seen_at, r.last_seen_at, r.sources,
    i.pci_bus_id, i.gpu_serial, c.to_at as node_read_at, s.node_state, o.other_nodes
from reasons as r
left join identity as i on i.cluster = r.cluster and i.node = r.node and i.gpu_uuid = r.device
left join clocks as c on c.cluster = r.cluster and c.is_synthetic = r.is_synthetic and c.node = r.node
left join states as s on s.cluster = r.cluster and s.is_synthetic = r.is_synthetic and s.node = r.node
left join others as o on o.cluster = r.cluster and o.is_synthetic = r.is_synthetic and o.node = r.node and o.device = r.device
