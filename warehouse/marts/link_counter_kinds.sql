-- mart.link_counter_kinds: what each counter of a link on record tells: an error of the link, traffic, congestion, or a state.
-- grain: one counter of one kind of link
-- key: link_kind, counter
-- column link_kind: nvlink, infiniband, roce, pcie, …
-- column counter: name of the counter as collected
-- column is_error: true where its growth is an error of the link itself
-- column error_class: replay, recovery, crc, symbol, down or other; null where it is no error
-- column tells: received or sent traffic, pause, cnp, sequence or wait, where it is one of those; null for errors, states and the rest
with names as (
    select distinct link_kind, counter, lower(counter) as name from telemetry.link_counters
),

judged as (
    select
        link_kind, counter, name,
        case
            -- a network card counts hundreds of things; these are what goes wrong on the wire. Requests, retries and
            -- flushed queues are its users' doing, and errors that a code corrected are none
            when link_kind in ('infiniband', 'roce', 'ethernet')
                then regexp_matches(
                    name,
                    'symbol|crc|fcs|align|jabber|fragment|corrupt|link_?down|link_error|rcv_errors|remote_physical'
                    || '|constraint_errors|link_integrity|buffer_overrun|discards|switch_relay|vl15_dropped|qp1_dropped'
                    || '|err_lane|^(rx|tx)_errors_phy$|^frames_tx_bad$|uncorrect'
                ) and not regexp_matches(name, '(^|_)correct|^rsfec_ch_')
            when link_kind = 'pcie'
                then regexp_matches(name, 'rollover|correctable|receiver|bad_tlp|bad_dllp|lcrc|lane_err|fatal')
            -- states, speeds and rates are readings, and traffic is no fault
            else not (
                regexp_matches(name, '(^|_)(state|phys_state|physical_state|is_active|is_up)(_|$)')
                or regexp_matches(name, '(data|bytes|packets|pkts|octets|frames|wait|pause)$')
                or name in ('speed_mb_per_s', 'rate_mbit_per_s', 'width_lanes')
                or ends_with(name, '_ber_raw')
                or contains(name, '_ber_raw_')
            )
        end as is_error,
        -- one name of each kind of traffic and of congestion: cards tell the same in several layers
        case
            when regexp_matches(name, '^port_rcv_bytes$|^rx_bytes_phy$|^octets_rx_ok$|^rcv_bytes$') then 'received'
            when regexp_matches(name, '^port_xmit_bytes$|^tx_bytes_phy$|^octets_tx_ok$|^xmit_bytes$') then 'sent'
            when name in ('rx_bytes', 'rx_octets', 'octets_rx_all') then 'received, if nothing better'
            when name in ('tx_bytes', 'tx_octets', 'octets_tx_all') then 'sent, if nothing better'
            when regexp_matches(name, '^(rx|tx)_(prio\d+_)?pause$|^(rx|tx)_global_pause$|^frames_[rt]x_(pri)?pause$') then 'pause'
            when regexp_matches(name, '^np_cnp_sent$|^rp_cnp_handled$|^[rt]x_rdma_cnp_pkts$|^np_ecn_marked|^rx_rdma_ecn_pkts$')
                then 'cnp'
            when name in ('out_of_sequence', 'packet_seq_err', 'req_rx_pkt_seq_err', 'resp_rx_outouf_seq', 'resp_rx_outof_seq')
                then 'sequence'
            when name = 'port_xmit_wait' then 'wait'
        end as tells
    from names
)

select
    link_kind, counter, is_error,
    case
        when not is_error then null
        when contains(name, 'replay') then 'replay'
        when contains(name, 'recover') then 'recovery'
        when contains(name, 'crc') then 'crc'
        when contains(name, 'symbol') then 'symbol'
        when regexp_matches(name, 'link_?down') then 'down'
        else 'other'
    end as error_class,
    tells
from judged
