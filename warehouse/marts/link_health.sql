-- mart.link_health: every link read in the last 24 hours of its collector: errors, bit errors, flaps, speed, and a verdict.
-- grain: one link of one device in one node as seen by one collector
-- key: cluster, source, is_synthetic, node, device, link_kind, link_index
-- depends: mart.link_counter_kinds, mart.link_history, mart.pcie_links
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
-- column last_read_at: newest reading of the link, UTC; for PCIe the minute of it, or its hour where minutes are not kept
-- column error_count: growth of all its error counters in the window; null where none could be compared
-- column replay_count: of it replays
-- column recovery_count: of it recoveries, failed ones included; successful recoveries of NVLink 5 too
-- column crc_count: of it CRC errors
-- column symbol_error_count: of it symbol errors
-- column other_error_count: of it everything else
-- column out_of_sequence_count: packets that a network port met out of sequence; no error of the link, often a loss elsewhere
-- column pause_count: pause frames (global and by priority) that a network port sent and received
-- column cnp_count: congestion notifications (CNP) that a network port sent and handled, and packets marked by ECN
-- column wait_ticks: time an InfiniBand port had data and no credit to send it, in the port's own ticks
-- column crc_max_per_s: highest rate of CRC errors between two readings [1/s]
-- column flap_count: times the link went down, by its counter or by events, whichever saw more
-- column error_periods: minutes of the window in which an error counter grew; for PCIe hours, since samples tell it by the hour
-- column bad_minutes: minutes of the 30 before the newest reading in which an error counter grew [min]
-- column bit_error_ratio: highest effective bit-error rate the device states; for network ports symbol errors over bits received [ratio]
-- column traffic_bytes: data over the link in the window, where it is counted [bytes]
-- column speed_mbit_per_s: last speed read [Mbit/s]
-- column expected_speed_mbit_per_s: the model's nominal speed, or the highest of like links in the cluster [Mbit/s]
-- column width_lanes: fewest PCIe lanes in the window, by samples or a counter of that name
-- column expected_width_lanes: most lanes the board and its slot can do, else of a board of that model in the cluster
-- column pcie_generation: highest PCIe generation in hours in which the GPU worked; idle links fall back to 1
-- column expected_pcie_generation: highest generation the board and its slot can do, else of a working board of that model
-- column is_down: true where the link's last state is down and it was up before
-- column unknown_counters: error counters that stand at their maximum or could not be read
-- column verdict: fail, warn, ok, or unknown where no error counter could be compared
-- column rule: the rule that decided, with its threshold
-- column first_error_at: first growth of an error counter of this link on record, UTC; of PCIe replays the start of its hour
-- column last_error_at: last such growth, UTC
-- column neighbour_count: links of the same node whose errors grew in the same minutes
-- column neighbours: up to five of them, as device#link
-- column other_nodes: other nodes in which the same device or board had link errors, before or after a swap
-- DCGM reads Hopper's and later boards' errors from fields that answer 0 whatever happens on the link.
with deaf as (
    select distinct t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_index, t.counter as raw_counter
    from telemetry.link_counters as t
    join telemetry.inventory as i on i.cluster = t.cluster and i.node = t.node and i.gpu_uuid = t.device
    join ref.accelerators as a on a.accelerator_id = i.accelerator_id
    where
        t.link_kind = 'nvlink' and t.source in ('dcgm-exporter', 'prometheus')
        and regexp_matches(t.counter, '^(replay|recovery|crc_flit|crc_data|ecc_data)(_all_links)?$')
        and regexp_matches(a.architecture, 'Hopper|Blackwell|Rubin')
    group by all
    having max(t."value") = 0
),

windows as (
    select cluster, source, is_synthetic, max(sampled_at) as to_at, max(sampled_at) - interval 24 hour as from_at
    from telemetry.link_counters
    group by all
),

recent as (
    select
        t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_kind, t.link_index, t.counter as raw_counter,
        t.sampled_at, t.delta, t.delta_status, t."value", lower(t.counter) as counter, w.from_at, w.to_at,
        k.tells,
        case when d.device is null then k.error_class end as error_class,
        d.device is not null as is_deaf
    from telemetry.link_counters as t
    join windows as w
        on w.cluster = t.cluster and w.source = t.source and w.is_synthetic = t.is_synthetic and t.sampled_at >= w.from_at
    join mart.link_counter_kinds as k on k.link_kind = t.link_kind and k.counter = t.counter
    left join deaf as d
        on t.link_kind = 'nvlink' and d.cluster = t.cluster and d.source = t.source and d.is_synthetic = t.is_synthetic
        and d.node = t.node and d.device = t.device and d.link_index = t.link_index and d.raw_counter = t.counter
),

links as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        any_value(from_at) as window_from_at,
        max(sampled_at) as last_read_at,
        sum(delta) filter (error_class is not null) as error_count,
        sum(delta) filter (error_class = 'replay') as replay_count,
        sum(delta) filter (error_class = 'recovery') as recovery_count,
        sum(delta) filter (error_class = 'crc') as crc_count,
        sum(delta) filter (error_class = 'symbol') as symbol_error_count,
        sum(delta) filter (error_class = 'other') as other_error_count,
        sum(delta) filter (error_class = 'down') as downs,
        -- mantissa in bits 8 to 11, exponent in bits 0 to 7: m * 10^-e; 255 and Blackwell's floor of 238 are zero
        max(
            case when "value" & 255 in (255, 238) then 0.0 else ("value" >> 8 & 15) * power(10.0::double, -("value" & 255)) end
        ) filter (starts_with(counter, 'effective_ber_raw') and "value" is not null) as stated_ber,
        arg_max(
            case counter when 'speed_mb_per_s' then "value" * 8 when 'rate_mbit_per_s' then "value" end, sampled_at
        ) filter (counter in ('speed_mb_per_s', 'rate_mbit_per_s') and "value" is not null) as speed_mbit_per_s,
        -- an InfiniBand port's state is 4 when it is active, an NVLink that is down has no speed
        arg_max(
            case counter when 'state' then "value" = 4 when 'state_is_active' then "value" = 1 else "value" > 0 end, sampled_at
        ) filter (counter in ('state', 'state_is_active', 'speed_mb_per_s') and "value" is not null) as is_up,
        min("value") filter (counter = 'width_lanes' and "value" > 0) as width_lanes,
        count(delta) filter (error_class is not null) as compared,
        count(distinct counter) filter (error_class is not null and delta_status in ('saturated', 'unreadable'))
            as unknown_counters,
        bool_or(is_deaf) as is_deaf
    from recent
    group by all
),

-- The rate of CRC errors needs the reading before; only the few series that grew are looked at.
crc_series as (
    select distinct cluster, source, is_synthetic, node, device, link_kind, link_index, raw_counter, from_at
    from recent
    where error_class = 'crc' and delta > 0
),

crc_rates as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        max(delta / nullif(seconds, 0)) filter (sampled_at >= from_at) as crc_max_per_s
    from (
        select
            t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_kind, t.link_index, t.sampled_at, t.delta, c.from_at,
            epoch(t.sampled_at - lag(t.sampled_at) over (
                partition by t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_kind, t.link_index, t.counter
                order by t.sampled_at
            )) as seconds
        from telemetry.link_counters as t
        join crc_series as c
            on c.cluster = t.cluster and c.source = t.source and c.is_synthetic = t.is_synthetic and c.node = t.node
            and c.device = t.device and c.link_kind = t.link_kind and c.link_index = t.link_index and c.raw_counter = t.counter
    )
    group by all
),

-- Cards count one traffic in several layers: the one nearest to the wire is taken, not their sum.
traffic as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        coalesce(
            max(grown) filter (tells = 'received'), max(grown) filter (tells = 'received, if nothing better')
        ) as received_bytes,
        coalesce(max(grown) filter (tells = 'sent'), max(grown) filter (tells = 'sent, if nothing better')) as sent_bytes,
        sum(grown) filter (tells = 'pause') as pause_count,
        sum(grown) filter (tells = 'cnp') as cnp_count,
        sum(grown) filter (tells = 'sequence') as out_of_sequence_count,
        sum(grown) filter (tells = 'wait') as wait_ticks
    from (
        select cluster, source, is_synthetic, node, device, link_kind, link_index, counter, tells, sum(delta) as grown
        from recent
        where tells is not null
        group by all
    )
    group by all
),

current_boards as (
    select
        cluster, node, gpu_uuid,
        arg_max(accelerator_id, valid_from) filter (accelerator_id is not null) as accelerator_id,
        arg_max(gpu_serial, valid_from) filter (gpu_serial is not null) as gpu_serial,
        arg_max(rack, valid_from) filter (rack is not null) as rack,
        arg_max(pcie_link_width_max, valid_from) filter (pcie_link_width_max is not null) as width_max,
        arg_max(pcie_link_generation_max, valid_from) filter (pcie_link_generation_max is not null) as generation_max
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
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index, date_trunc('minute', sampled_at) as minute_at,
        bool_or(sampled_at > to_at - interval 30 minute) as is_late
    from recent
    where error_class is not null and delta > 0
    group by all
),

minutes as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        count(distinct case when link_kind = 'pcie' then date_trunc('hour', minute_at) else minute_at end) as error_periods,
        count(*) filter (is_late) as bad_minutes
    from bad
    group by all
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
    select distinct h.cluster, h.is_synthetic, h.node, coalesce(i.gpu_serial, h.device) as board
    from mart.link_history as h
    left join current_boards as i on i.cluster = h.cluster and i.node = h.node and i.gpu_uuid = h.device
    where h.link_kind in ('nvlink', 'xgmi', 'hccs', 'c2c') and h.first_error_at is not null
),

whole as (
    select
        l.* exclude (is_up),
        c.crc_max_per_s,
        coalesce(m.error_periods, 0) as error_periods,
        coalesce(m.bad_minutes, 0) as bad_minutes,
        h.best_speed_mbit_per_s,
        h.was_up and not l.is_up as is_down,
        h.first_error_at, h.last_error_at
    from links as l
    left join crc_rates as c using (cluster, source, is_synthetic, node, device, link_kind, link_index)
    left join minutes as m using (cluster, source, is_synthetic, node, device, link_kind, link_index)
    left join mart.link_history as h using (cluster, source, is_synthetic, node, device, link_kind, link_index)
),

-- PCIe is read with the samples, and on some nodes by counters: a link known to either has its row.
joined as (
    select
        cluster, source, is_synthetic, node, device, link_kind, link_index,
        l.* exclude (
            cluster, source, is_synthetic, node, device, link_kind, link_index, window_from_at, last_read_at, error_count,
            replay_count, width_lanes, compared, error_periods, first_error_at, last_error_at
        ),
        p.accelerator_id as sampled_accelerator_id,
        coalesce(p.window_from_at, l.window_from_at) as window_from_at,
        greatest(p.last_read_at, l.last_read_at) as last_read_at,
        case when p.replay_count is not null or l.error_count is not null
            then coalesce(p.replay_count, 0) + coalesce(l.error_count, 0) end as error_count,
        case when p.replay_count is not null or l.replay_count is not null
            then coalesce(p.replay_count, 0) + coalesce(l.replay_count, 0) end as replay_count,
        case when p.replay_count is null then 0 else 1 end + coalesce(l.compared, 0) as compared,
        greatest(p.error_hours, l.error_periods) as error_periods,
        least(p.first_error_at, l.first_error_at) as first_error_at,
        greatest(p.last_error_at, l.last_error_at) as last_error_at,
        least(p.width_lanes, l.width_lanes) as width_lanes,
        greatest(p.best_width_lanes, l.width_lanes) as best_width_lanes,
        p.generation as pcie_generation,
        p.best_generation
    from whole as l
    full join mart.pcie_links as p using (cluster, source, is_synthetic, node, device, link_kind, link_index)
),

identified as (
    select
        j.* exclude (sampled_accelerator_id),
        coalesce(b.accelerator_id, j.sampled_accelerator_id) as accelerator_id,
        b.gpu_serial, coalesce(b.rack, r.rack) as rack, a.architecture,
        case when j.link_kind = 'pcie' then b.width_max end as width_max,
        case when j.link_kind = 'pcie' then b.generation_max end as generation_max
    from joined as j
    left join current_boards as b on b.cluster = j.cluster and b.node = j.node and b.gpu_uuid = j.device
    left join racks as r on r.cluster = j.cluster and r.node = j.node
    left join models as a on a.accelerator_id = coalesce(b.accelerator_id, j.sampled_accelerator_id)
),

every_link as (
    select
        l.* exclude (downs, stated_ber, best_speed_mbit_per_s, best_width_lanes, best_generation, width_max, generation_max),
        t.pause_count, t.cnp_count, t.out_of_sequence_count, t.wait_ticks,
        case when l.downs is not null or e.downs is not null
            then greatest(coalesce(l.downs, 0), coalesce(e.downs, 0)) end as flap_count,
        coalesce(
            l.stated_ber,
            case when l.link_kind in ('infiniband', 'roce')
                then l.symbol_error_count / nullif(t.received_bytes * 8.0, 0) end
        ) as bit_error_ratio,
        case when t.received_bytes is not null or t.sent_bytes is not null
            then coalesce(t.received_bytes, 0) + coalesce(t.sent_bytes, 0) end as traffic_bytes,
        -- an idle PCIe link runs slower on purpose
        case when l.best_speed_mbit_per_s > 0 and l.link_kind <> 'pcie' then greatest(
            max(l.best_speed_mbit_per_s) over (
                partition by l.cluster, l.is_synthetic, l.link_kind, l.accelerator_id,
                case when l.link_kind = 'nvlink' then '' else l.device end
            ),
            case when l.link_kind = 'nvlink' then
                case l.architecture when 'Hopper' then 212500 when 'Blackwell' then 425000 when 'Grace Blackwell' then 425000 end
            end
        ) end as expected_speed_mbit_per_s,
        l.best_speed_mbit_per_s = 0 and l.accelerator_id is not null and max(l.best_speed_mbit_per_s) over (
            partition by l.cluster, l.is_synthetic, l.link_kind, l.accelerator_id, l.link_index
        ) > 0 as is_unlike_its_peers,
        -- boards of an unknown model are not alike
        coalesce(l.width_max, case when l.accelerator_id is not null then max(l.best_width_lanes) over like_boards end)
            as expected_width_lanes,
        coalesce(l.generation_max, case when l.accelerator_id is not null then max(l.best_generation) over like_boards end)
            as expected_pcie_generation
    from identified as l
    left join traffic as t using (cluster, source, is_synthetic, node, device, link_kind, link_index)
    left join events as e
        on e.cluster = l.cluster and e.is_synthetic = l.is_synthetic and e.node = l.node and e.device = l.device
        and e.link_index = l.link_index and l.link_kind <> 'pcie'
    window like_boards as (partition by l.cluster, l.is_synthetic, l.link_kind, l.accelerator_id)
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
            when is_down then 'fail: link is down and was up before'
            when bad_minutes > 15 then 'fail: errors in more than 15 of the last 30 minutes'
            -- speeds are printed rounded: one per cent is no fault
            when speed_mbit_per_s < 0.99 * expected_speed_mbit_per_s then 'fail: speed below expected'
            when width_lanes < expected_width_lanes then 'fail: PCIe width below what board and slot or like boards have'
            when link_kind = 'nvlink' and crc_count >= 1 then 'warn: NVLink CRC errors >= 1'
            when flap_count >= 1 then 'warn: link went down'
            when pcie_generation < expected_pcie_generation then 'warn: PCIe generation below expected while the GPU works'
            when is_unlike_its_peers then 'warn: link was never up, as it is on like boards'
            when coalesce(other_error_count, 0) + coalesce(symbol_error_count, 0)
                + case when link_kind = 'nvlink' then 0 else coalesce(crc_count, 0) end
                + case when link_kind in ('nvlink', 'pcie') then 0 else coalesce(replay_count, 0) + coalesce(recovery_count, 0) end
                > 10 then 'warn: other errors > 10'
            when link_kind = 'pcie' and replay_count >= 1 then 'warn: PCIe replays >= 1'
            when compared = 0 and is_deaf then 'unknown: DCGM reads 0 from this architecture whatever happens'
            when compared = 0 then 'unknown: no error counter read twice'
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
    cast(j.out_of_sequence_count as bigint) as out_of_sequence_count,
    cast(j.pause_count as bigint) as pause_count,
    cast(j.cnp_count as bigint) as cnp_count,
    cast(j.wait_ticks as bigint) as wait_ticks,
    j.crc_max_per_s,
    cast(j.flap_count as bigint) as flap_count,
    j.error_periods, j.bad_minutes, j.bit_error_ratio,
    cast(j.traffic_bytes as bigint) as traffic_bytes,
    j.speed_mbit_per_s, j.expected_speed_mbit_per_s, j.width_lanes, j.expected_width_lanes,
    j.pcie_generation, j.expected_pcie_generation, j.is_down,
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
