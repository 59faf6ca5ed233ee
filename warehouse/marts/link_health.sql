-- mart.link_health: every link read in the last 24 hours of its collector: errors, bit errors, flaps, speed, and a verdict.
-- grain: one link of one device in one node as seen by one collector
-- key: cluster, source, is_synthetic, node, device, link_kind, link_index
-- column cluster: name of the cluster
-- column source: collector that read the link
-- column is_synthetic: true for generated demonstration data
-- column node: host name of the node or switch
-- column device: GPU UUID, or the name of the network device
-- column link_kind: nvlink, infiniband, roce, pcie, …
-- column link_index: link or port number on the device
-- column accelerator_id: model of the GPU, where the device is one in the inventory
-- column gpu_serial: serial number of its board
-- column rack: rack of the node, where the inventory names one
-- column window_from_at: start of the 24 hours up to the collector's newest reading in the cluster, UTC
-- column last_read_at: newest reading of the link, UTC
-- column error_count: growth of all its error counters in the window; null where none could be compared
-- column replay_count: of it replays
-- column recovery_count: of it recoveries, failed ones included; successful recoveries of NVLink 5 too
-- column crc_count: of it CRC errors
-- column symbol_error_count: of it symbol errors
-- column other_error_count: of it everything else
-- column crc_max_per_s: highest rate of CRC errors between two readings [1/s]
-- column flap_count: times the link went down, by its counter or by events, whichever saw more
-- column error_periods: minutes of the window in which an error counter grew; for PCIe hours, since it is read by the hour
-- column bad_minutes: minutes of the 30 before the newest reading in which an error counter grew [min]
-- column bit_error_ratio: highest effective bit-error rate the device states; for network ports symbol errors over bits received [ratio]
-- column traffic_bytes: data over the link in the window, where it is counted [bytes]
-- column speed_mbit_per_s: last speed read [Mbit/s]
-- column expected_speed_mbit_per_s: the model's nominal speed, or the highest of like links in the cluster [Mbit/s]
-- column width_lanes: fewest PCIe lanes in the window
-- column expected_width_lanes: most lanes of a board of that model in the cluster
-- column unknown_counters: error counters that stand at their maximum or could not be read
-- column verdict: fail, warn, ok, or unknown where no error counter could be compared
-- column rule: the rule that decided, with its threshold
-- column first_error_at: first growth of an error counter of this link on record, UTC
-- column last_error_at: last such growth, UTC
-- column neighbour_count: links of the same node whose errors grew in the same minutes
-- column neighbours: up to five of them, as device#link
-- column other_nodes: other nodes in which the same device or board had link errors, before or after a swap
with names as (
    select distinct link_kind, counter as raw_counter, lower(counter) as counter from telemetry.link_counters
),

counters as (
    select
        *,
        -- states, speeds and rates are readings, and traffic is no fault
        not (
            regexp_matches(counter, '(^|_)(state|phys_state|physical_state|is_active|is_up)(_|$)')
            or regexp_matches(counter, '(data|bytes|packets|pkts|octets|frames|wait|pause|cnp.*|ecn.*|pfc.*)$')
            or counter in ('speed_mb_per_s', 'rate_mbit_per_s', 'width_lanes', 'lifespan')
            or ends_with(counter, '_ber_raw')
        )
        -- a network card counts hundreds of things; these are what goes wrong on the wire
        and (
            link_kind not in ('roce', 'ethernet')
            or regexp_matches(counter, 'symbol|crc|link_down|link_error|phy|discard|corrupt|fcs|align')
        ) as is_error
    from names
),

typed as (
    select
        t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_kind, t.link_index, t.sampled_at, t.delta,
        t.delta_status, t."value", c.counter, c.is_error
    from telemetry.link_counters as t
    join counters as c on c.link_kind = t.link_kind and c.raw_counter = t.counter
),

windows as (
    select cluster, source, is_synthetic, max(sampled_at) as to_at, max(sampled_at) - interval 24 hour as from_at
    from typed
    group by all
),

recent as (
    select
        t.*, w.from_at, w.to_at,
        epoch(t.sampled_at - lag(t.sampled_at) over (
            partition by t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_kind, t.link_index, t.counter
            order by t.sampled_at
        )) as seconds,
        -- mantissa in bits 8 to 11, exponent in bits 0 to 7: m * 10^-e; 255 and Blackwell's floor of 238 are zero
        case
            when t.counter = 'effective_ber_raw' and ("value" & 255) not in (255, 238)
                then ("value" >> 8 & 15) * power(10.0::double, -("value" & 255))
            when t.counter = 'effective_ber_raw' then 0.0
        end as ber
    from typed as t
    join windows as w using (cluster, source, is_synthetic)
),

links as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        any_value(from_at) as window_from_at,
        max(sampled_at) as last_read_at,
        sum(delta) filter (is_error and sampled_at >= from_at) as error_count,
        sum(delta) filter (is_error and sampled_at >= from_at and counter like '%replay%') as replay_count,
        sum(delta) filter (is_error and sampled_at >= from_at and counter like '%recover%') as recovery_count,
        sum(delta) filter (is_error and sampled_at >= from_at and counter like '%crc%') as crc_count,
        sum(delta) filter (is_error and sampled_at >= from_at and counter like '%symbol%') as symbol_error_count,
        sum(delta) filter (
            is_error and sampled_at >= from_at
            and not regexp_matches(counter, 'replay|recover|crc|symbol|link_?down')
        ) as other_error_count,
        max(delta / nullif(seconds, 0)) filter (is_error and sampled_at >= from_at and counter like '%crc%')
            as crc_max_per_s,
        sum(delta) filter (is_error and sampled_at >= from_at and regexp_matches(counter, 'link_?down')) as downs,
        count(distinct date_trunc('minute', sampled_at)) filter (is_error and delta > 0 and sampled_at >= from_at)
            as error_periods,
        count(distinct date_trunc('minute', sampled_at)) filter (
            is_error and delta > 0 and sampled_at > to_at - interval 30 minute
        ) as bad_minutes,
        max(ber) filter (sampled_at >= from_at) as stated_ber,
        sum(delta) filter (sampled_at >= from_at and regexp_matches(counter, '^(port_)?r(cv|x)_(bytes|octets)$'))
            as received_bytes,
        sum(delta) filter (
            sampled_at >= from_at and regexp_matches(counter, '^(port_)?(rcv|rx|xmit|tx)_(bytes|octets)$')
        ) as traffic_bytes,
        arg_max(
            case counter when 'speed_mb_per_s' then "value" * 8 when 'rate_mbit_per_s' then "value" end, sampled_at
        ) filter (counter in ('speed_mb_per_s', 'rate_mbit_per_s') and "value" is not null) as speed_mbit_per_s,
        max(case counter when 'speed_mb_per_s' then "value" * 8 when 'rate_mbit_per_s' then "value" end)
            filter (counter in ('speed_mb_per_s', 'rate_mbit_per_s')) as best_speed_mbit_per_s,
        count(delta) filter (is_error and sampled_at >= from_at) as compared,
        count(distinct counter) filter (
            is_error and sampled_at >= from_at and delta_status in ('saturated', 'unreadable')
        ) as unknown_counters,
        min(sampled_at) filter (is_error and delta > 0) as first_error_at,
        max(sampled_at) filter (is_error and delta > 0) as last_error_at
    from recent
    group by all
    having max(sampled_at) >= any_value(from_at)
),

-- PCIe is read with the samples: replays and lanes come from the hours.
boards as (
    select
        cluster, source, is_synthetic, node, gpu_uuid, hour_at, accelerator_id,
        pcie_replay_delta_count, pcie_link_width_min,
        max(hour_at) over (partition by cluster, source, is_synthetic) + interval 1 hour as to_at
    from telemetry.gpu_hours
    where parent_gpu_uuid is null and (pcie_replay_delta_count is not null or pcie_link_width_min is not null)
),

pcie as (
    select
        cluster, source, is_synthetic, node, gpu_uuid as device, 'pcie' as link_kind, 0 as link_index,
        any_value(accelerator_id) as accelerator_id,
        any_value(to_at) - interval 24 hour as window_from_at,
        max(hour_at) + interval 1 hour as last_read_at,
        sum(pcie_replay_delta_count) filter (hour_at >= to_at - interval 24 hour) as replay_count,
        count(*) filter (pcie_replay_delta_count > 0 and hour_at >= to_at - interval 24 hour) as error_periods,
        min(pcie_link_width_min) filter (hour_at >= to_at - interval 24 hour) as width_lanes,
        max(pcie_link_width_min) as best_width,
        min(hour_at) filter (pcie_replay_delta_count > 0) as first_error_at,
        max(hour_at) filter (pcie_replay_delta_count > 0) as last_error_at
    from boards
    group by all
    having max(hour_at) >= any_value(to_at) - interval 24 hour
),

current_boards as (
    select
        cluster, node, gpu_uuid,
        arg_max(accelerator_id, valid_from) filter (accelerator_id is not null) as accelerator_id,
        arg_max(gpu_serial, valid_from) filter (gpu_serial is not null) as gpu_serial,
        arg_max(rack, valid_from) filter (rack is not null) as rack
    from telemetry.inventory
    group by all
),

models as (
    select accelerator_id, max(architecture) as architecture from ref.accelerators group by accelerator_id
),

racks as (
    select cluster, node, max(rack) as rack from current_boards group by all
),

events as (
    select e.cluster, e.is_synthetic, e.node, coalesce(e.gpu_uuid, e.device) as device, e.link_index, count(*) as downs
    from telemetry.gpu_events as e
    join (select cluster, is_synthetic, max(to_at) as to_at, min(from_at) as from_at from windows group by all) as w
        on w.cluster = e.cluster and w.is_synthetic = e.is_synthetic and e.occurred_at between w.from_at and w.to_at
    where e.kind = 'link_down' and e.link_index is not null
    group by all
),

-- Minutes in which errors of a link grew, to find those that suffer together.
bad as (
    select distinct
        cluster, source, is_synthetic, node, device, link_kind, link_index, date_trunc('minute', sampled_at) as minute_at
    from recent
    where is_error and delta > 0 and sampled_at >= from_at
),

pairs as (
    select
        a.cluster, a.source, a.is_synthetic, a.node, a.device, a.link_kind, a.link_index,
        b.device || '#' || b.link_index as neighbour, count(*) as minutes
    from bad as a
    join bad as b using (cluster, source, is_synthetic, node, minute_at)
    where (a.device, a.link_kind, a.link_index) <> (b.device, b.link_kind, b.link_index)
    group by all
),

neighbours as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        count(*) as neighbour_count,
        array_to_string((list(neighbour order by minutes desc, neighbour))[1:5], ', ') as neighbours
    from pairs
    group by all
),

-- A board keeps its history through swaps: by its serial number, else by its UUID.
sufferers as (
    select distinct r.cluster, r.is_synthetic, r.node, coalesce(i.gpu_serial, r.device) as board
    from typed as r
    left join current_boards as i on i.cluster = r.cluster and i.node = r.node and i.gpu_uuid = r.device
    where r.is_error and r.delta > 0 and r.link_kind in ('nvlink', 'xgmi', 'hccs', 'c2c')
),

every_link as (
    select
        l.* exclude (downs, stated_ber, received_bytes, best_speed_mbit_per_s),
        b.accelerator_id, b.gpu_serial, coalesce(b.rack, r.rack) as rack,
        case when l.downs is not null or e.downs is not null
            then greatest(coalesce(l.downs, 0), coalesce(e.downs, 0)) end as flap_count,
        coalesce(
            l.stated_ber,
            case when l.link_kind in ('infiniband', 'roce')
                then l.symbol_error_count / nullif(l.received_bytes * 8.0, 0) end
        ) as bit_error_ratio,
        case when l.best_speed_mbit_per_s > 0 then greatest(
            max(l.best_speed_mbit_per_s) over (
                partition by l.cluster, l.is_synthetic, l.link_kind, b.accelerator_id,
                case when l.link_kind = 'nvlink' then '' else l.device end
            ),
            case when l.link_kind = 'nvlink' then
                case a.architecture when 'Hopper' then 212500 when 'Blackwell' then 425000 when 'Grace Blackwell' then 425000 end
            end
        ) end as expected_speed_mbit_per_s,
        cast(null as bigint) as width_lanes,
        cast(null as bigint) as expected_width_lanes
    from links as l
    left join current_boards as b on b.cluster = l.cluster and b.node = l.node and b.gpu_uuid = l.device
    left join racks as r on r.cluster = l.cluster and r.node = l.node
    left join models as a on a.accelerator_id = b.accelerator_id
    left join events as e
        on e.cluster = l.cluster and e.is_synthetic = l.is_synthetic and e.node = l.node and e.device = l.device
        and e.link_index = l.link_index
    union all by name
    select
        p.* exclude (accelerator_id, best_width),
        coalesce(p.accelerator_id, b.accelerator_id) as accelerator_id, b.gpu_serial, b.rack,
        p.replay_count as error_count,
        case when p.replay_count is null then 0 else 1 end as compared,
        max(p.best_width) over (partition by p.cluster, p.is_synthetic, coalesce(p.accelerator_id, b.accelerator_id))
            as expected_width_lanes
    from pcie as p
    left join current_boards as b on b.cluster = p.cluster and b.node = p.node and b.gpu_uuid = p.device
),

judged as (
    select
        *,
        case
            when link_kind = 'nvlink' and replay_count >= 1 then 'fail: NVLink replays >= 1'
            when link_kind = 'nvlink' and recovery_count >= 1 then 'fail: NVLink recoveries >= 1'
            when link_kind = 'nvlink' and crc_max_per_s >= 100 then 'fail: NVLink CRC errors >= 100/s'
            when link_kind = 'nvlink' and bit_error_ratio > 1e-12 then 'fail: effective bit-error rate > 1e-12'
            when link_kind in ('infiniband', 'roce') and bit_error_ratio > 1e-12
                then 'fail: symbol errors over bits > 1e-12'
            when flap_count >= 5 then 'fail: link went down >= 5 times'
            when bad_minutes > 15 then 'fail: errors in more than 15 of the last 30 minutes'
            -- speeds are printed rounded: one per cent is no fault
            when speed_mbit_per_s < 0.99 * expected_speed_mbit_per_s then 'fail: speed below expected'
            when width_lanes < expected_width_lanes then 'fail: PCIe width below that of like boards'
            when link_kind = 'nvlink' and crc_count >= 1 then 'warn: NVLink CRC errors >= 1'
            when flap_count >= 1 then 'warn: link went down'
            when coalesce(other_error_count, 0) + coalesce(symbol_error_count, 0) > 10 then 'warn: other errors > 10'
            when link_kind = 'pcie' and replay_count >= 1 then 'warn: PCIe replays >= 1'
            when compared = 0 and coalesce(width_lanes, 0) = 0 then 'unknown: no error counter read twice'
            when unknown_counters > 0 then 'unknown: a counter stands at its maximum or could not be read'
            else 'ok: no rule broken'
        end as decided
    from every_link
)

select
    j.cluster, j.source, j.is_synthetic, j.node, j.device, j.link_kind, j.link_index,
    j.accelerator_id, j.gpu_serial, j.rack, j.window_from_at, j.last_read_at,
    cast(j.error_count as bigint) as error_count,
    cast(j.replay_count as bigint) as replay_count,
    cast(j.recovery_count as bigint) as recovery_count,
    cast(j.crc_count as bigint) as crc_count,
    cast(j.symbol_error_count as bigint) as symbol_error_count,
    cast(j.other_error_count as bigint) as other_error_count,
    j.crc_max_per_s,
    cast(j.flap_count as bigint) as flap_count,
    j.error_periods, j.bad_minutes, j.bit_error_ratio,
    cast(j.traffic_bytes as bigint) as traffic_bytes,
    j.speed_mbit_per_s, j.expected_speed_mbit_per_s, j.width_lanes, j.expected_width_lanes,
    coalesce(j.unknown_counters, 0) as unknown_counters,
    split_part(j.decided, ': ', 1) as verdict,
    split_part(j.decided, ': ', 2) as rule,
    j.first_error_at, j.last_error_at,
    coalesce(n.neighbour_count, 0) as neighbour_count,
    n.neighbours,
    (
        select string_agg(s.node, ', ' order by s.node)
        from sufferers as s
        where
            s.cluster = j.cluster and s.is_synthetic = j.is_synthetic and s.node <> j.node
            and s.board = coalesce(j.gpu_serial, j.device)
    ) as other_nodes
from judged as j
left join neighbours as n using (cluster, source, is_synthetic, node, device, link_kind, link_index)
