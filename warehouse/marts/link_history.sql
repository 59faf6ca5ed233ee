-- mart.link_history: what is on record of every link since it was first read: first and last error, best speed, was it ever up.
-- grain: one link of one device in one node as seen by one collector
-- key: cluster, source, is_synthetic, node, device, link_kind, link_index
-- depends: mart.link_counter_kinds
-- column cluster: name of the cluster
-- column source: collector that read the link
-- column is_synthetic: true for generated demonstration data
-- column node: host name of the node or switch
-- column device: GPU UUID, or the name of the network device
-- column link_kind: nvlink, infiniband, roce, pcie, …
-- column link_index: link or port number on the device
-- column first_error_at: first growth of an error counter, UTC; null where none grew
-- column last_error_at: last such growth, UTC
-- column best_speed_mbit_per_s: highest speed read [Mbit/s]
-- column was_up: true where it was up at any reading; null where its state and speed were never read
select
    t.cluster, t.source, t.is_synthetic, t.node, t.device, t.link_kind, t.link_index,
    min(t.sampled_at) filter (k.error_class is not null and t.delta > 0) as first_error_at,
    max(t.sampled_at) filter (k.error_class is not null and t.delta > 0) as last_error_at,
    max(case lower(t.counter) when 'speed_mb_per_s' then t."value" * 8 when 'rate_mbit_per_s' then t."value" end)
        as best_speed_mbit_per_s,
    bool_or(
        case lower(t.counter)
            when 'state' then t."value" = 4 when 'state_is_active' then t."value" = 1 when 'speed_mb_per_s' then t."value" > 0
        end
    ) as was_up
from telemetry.link_counters as t
join mart.link_counter_kinds as k on k.link_kind = t.link_kind and k.counter = t.counter
where
    (k.error_class is not null and t.delta > 0)
    or lower(t.counter) in ('speed_mb_per_s', 'rate_mbit_per_s', 'state', 'state_is_active')
group by all
