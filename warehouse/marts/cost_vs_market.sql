-- mart.cost_vs_market: own cost of a GPU-hour against what renting one costs, and the use from which owning is cheaper.
-- grain: one cluster, accelerator and kind of rental price
-- key: cluster, accelerator_id, price_kind, is_synthetic
-- depends: gpu_price_trend
-- column cluster: name of the cluster
-- column accelerator_id: accelerator
-- column price_kind: kind of rental price: on_demand, reserved, spot
-- column is_synthetic: true where use and power come from generated demonstration data
-- column as_of_date: day for which own cost is computed: the last day read, else the newest pool's first day
-- column own_fixed_usd_per_gpu_hour: write-off and monthly sums of one GPU-hour of capacity, used or not [USD/GPU/h]
-- column own_energy_usd_per_gpu_hour: electricity of one GPU-hour, with the rest of the node and the building [USD/GPU/h]
-- column own_usd_per_gpu_hour: both, for a GPU that works all the time [USD/GPU/h]
-- column power_w: power of one GPU that the electricity is computed with [W]
-- column power_basis: measured over the last 30 days read, or the rated power where nothing is measured
-- column utilisation_ratio: time held by jobs over time read, last 30 days; null where no job is known [ratio]
-- column own_usd_per_used_gpu_hour: own cost of one hour that a job held, idle time paid for [USD/GPU/h]
-- column market_usd_per_gpu_hour: median of the providers' newest prices [USD/GPU/h]
-- column market_low_usd_per_gpu_hour: lowest of them [USD/GPU/h]
-- column market_high_usd_per_gpu_hour: highest of them [USD/GPU/h]
-- column market_providers: providers behind it
-- column market_as_of_date: newest observation among them
-- column index_usd_per_gpu_hour: newest level of our index, else median of its small panel: on demand the headline series, else the neocloud one, shortest term [USD/GPU/h]
-- column index_basis: level or median_of_small_panel, and its series
-- column index_as_of_date: day of that level
-- column index_change_30d_ratio: its change over 30 days, on matched providers [ratio]
-- column compare_usd_per_gpu_hour: what own cost is compared with: the index where it has a level, else the median of newest prices [USD/GPU/h]
-- column compare_basis: index or newest_prices
-- column break_even_utilisation_ratio: use from which owning costs less than renting the used hours; above 1: never [ratio]
-- column own_over_market_ratio: own cost of a used hour over the price compared with [ratio]
-- column unknown_reason: why own cost or the comparison is missing
with pools as (
    select * from ref.cost_pools where is_latest
),

recent as (
    select h.cluster, h.is_synthetic, h.accelerator_id, h.gpu_uuid, h.hour_at, h.seconds_covered, h.power_mean_w, h.power_count
    from telemetry.gpu_hours as h
    inner join (
        select cluster, is_synthetic, max(hour_at) as last_hour_at from telemetry.gpu_hours group by all
    ) as l on h.cluster = l.cluster and h.is_synthetic = l.is_synthetic
    where h.hour_at > l.last_hour_at - interval 30 day and h.parent_gpu_uuid is null
    qualify row_number() over (
        partition by h.cluster, h.is_synthetic, h.gpu_uuid, h.hour_at order by h.seconds_covered desc, h.source
    ) = 1
),

fleet as (
    select
        cluster, is_synthetic, accelerator_id,
        count(distinct gpu_uuid) as gpus,
        sum(seconds_covered) as seconds_read,
        sum(power_mean_w * seconds_covered) filter (power_count > 0)
        / nullif(sum(seconds_covered) filter (power_count > 0 and power_mean_w is not null), 0) as power_w,
        min(hour_at) as first_hour_at,
        max(hour_at) + interval 1 hour as read_until
    from recent
    where accelerator_id is not null
    group by all
),

held as (
    select
        g.cluster, g.is_synthetic, b.accelerator_id,
        sum(coalesce(g.share_ratio, 1) * epoch(
            least(coalesce(g.to_at, j.ended_at, f.read_until), coalesce(j.ended_at, f.read_until), f.read_until)
            - greatest(g.from_at, f.first_hour_at)
        )) as seconds
    from telemetry.job_gpus as g
    inner join (select distinct cluster, is_synthetic, gpu_uuid, accelerator_id from recent) as b
        on g.cluster = b.cluster and g.is_synthetic = b.is_synthetic and g.gpu_uuid = b.gpu_uuid
    inner join fleet as f
        on g.cluster = f.cluster and g.is_synthetic = f.is_synthetic and b.accelerator_id = f.accelerator_id
    left join (
        select cluster, is_synthetic, job_id, attempt, max(ended_at) as ended_at
        from telemetry.jobs
        where is_latest
        group by all
    ) as j on g.cluster = j.cluster and g.is_synthetic = j.is_synthetic and g.job_id = j.job_id and g.attempt = j.attempt
    where
        g.is_preferred
        and g.from_at < f.read_until
        and coalesce(g.to_at, j.ended_at, f.read_until) > f.first_hour_at
        and coalesce(j.ended_at, f.read_until) > greatest(g.from_at, f.first_hour_at)
    group by all
),

owned as (
    select cluster, accelerator_id from pools where accelerator_id is not null
    union
    select f.cluster, f.accelerator_id from fleet as f where f.cluster in (from pools select cluster)
),

subjects as (
    select
        o.cluster, o.accelerator_id, coalesce(f.is_synthetic, false) as is_synthetic,
        f.gpus, f.seconds_read, f.power_w as measured_w,
        cast(coalesce(
            f.read_until - interval 1 second,
            (select max(cast(p.valid_from_date as timestamptz)) from pools as p where p.cluster = o.cluster)
        ) as date) as as_of_date
    from owned as o
    left join fleet as f on o.cluster = f.cluster and o.accelerator_id = f.accelerator_id
),

in_force as (
    select
        s.cluster, s.accelerator_id, s.is_synthetic, p.pool, p.method, p.energy_usd_per_kwh,
        coalesce(p.pue_ratio, 1) * coalesce(p.non_gpu_power_ratio, 1) as power_factor,
        coalesce(p.gpus, s.gpus) as pool_gpus,
        pow(1 + coalesce(p.discount_rate_ratio, 0), 1.0 / 12) - 1 as rate,
        p.purchase_usd, coalesce(p.residual_usd, 0) as residual_usd, p.life_months, p.monthly_usd
    from subjects as s
    inner join pools as p
        on s.cluster = p.cluster and (p.accelerator_id is null or p.accelerator_id = s.accelerator_id)
    where
        p.valid_from_date <= s.as_of_date
        and (p.valid_to_date is null or p.valid_to_date >= s.as_of_date)
        and (
            p.method <> 'capital'
            or p.valid_from_date + to_months(cast(round(p.life_months) as integer)) > s.as_of_date
        )
),

own as (
    select
        cluster, accelerator_id, is_synthetic,
        sum(
            case method
                when 'monthly' then monthly_usd
                when 'capital' then
                    case
                        when rate = 0 then (purchase_usd - residual_usd) / life_months
                        else (purchase_usd - residual_usd / pow(1 + rate, life_months)) * rate
                            / (1 - 1 / pow(1 + rate, life_months))
                    end
            end / (pool_gpus * 730.5)
        ) as fixed_usd,
        sum(energy_usd_per_kwh * power_factor) filter (method = 'energy') as kwh_usd,
        bool_or(method <> 'energy' and pool_gpus is null) as lacks_gpus
    from in_force
    group by all
),

newest as (
    select
        accelerator_id, case price_kind when 'savings_plan' then 'reserved' else price_kind end as kind,
        provider, observed_at, price_usd_per_gpu_hour,
        max(observed_at) over (partition by accelerator_id, price_kind, provider) as provider_newest_at,
        max(observed_at) over (partition by accelerator_id, price_kind) as kind_newest_at
    from market.gpu_offers
    where
        is_preferred
        and price_usd_per_gpu_hour is not null
        and accelerator_id is not null
        and price_kind in ('on_demand', 'reserved', 'savings_plan', 'spot')
),

providers as (
    select accelerator_id, kind, provider, median(price_usd_per_gpu_hour) as price, max(observed_at) as observed_at
    from newest
    where
        observed_at > provider_newest_at - interval 1 day
        and provider_newest_at > kind_newest_at - interval 180 day
    group by all
),

market_prices as (
    select
        accelerator_id, kind as price_kind,
        median(price) as market_usd, min(price) as low_usd, max(price) as high_usd, count(*) as providers,
        cast(max(observed_at) as date) as as_of_date
    from providers
    group by all
),

-- Of each kind the widest market first: headline, neocloud, hyperscaler, marketplace; a panel too small for a level last.
trend as (
    select *
    from mart.gpu_price_trend
    where price_usd_per_gpu_hour is not null
    qualify row_number() over (
        partition by accelerator_id, price_kind
        order by
            price_basis,
            case segment when 'headline' then 0 when 'neocloud' then 1 when 'hyperscaler' then 2 else 3 end,
            term_months, "date" desc, series
    ) = 1
),

kinds as (
    select unnest(['on_demand', 'reserved', 'spot']) as price_kind
),

compared as (
    select
        s.cluster, s.accelerator_id, k.price_kind, s.is_synthetic, s.as_of_date,
        case when not coalesce(o.lacks_gpus, false) then o.fixed_usd end as fixed_usd,
        coalesce(s.measured_w, a.tdp_w) / 1000 * o.kwh_usd as energy_usd,
        coalesce(s.measured_w, a.tdp_w) as power_w,
        case when s.measured_w is not null then 'measured' when a.tdp_w is not null then 'rated' end as power_basis,
        h.seconds / nullif(s.seconds_read, 0) as utilisation,
        m.market_usd, m.low_usd, m.high_usd, m.providers, m.as_of_date as market_as_of_date,
        i.price_usd_per_gpu_hour as index_usd, i.price_basis || ', ' || i.series as index_basis,
        i."date" as index_as_of_date, i.change_30d_ratio as index_change,
        case
            when i.price_basis = 'level' then i.price_usd_per_gpu_hour
            else coalesce(m.market_usd, i.price_usd_per_gpu_hour)
        end as compare_usd,
        case
            when i.price_basis = 'level' or m.market_usd is null and i.price_usd_per_gpu_hour is not null then 'index'
            when m.market_usd is not null then 'newest_prices'
        end as compare_basis,
        o.lacks_gpus, o.kwh_usd
    from subjects as s
    cross join kinds as k
    left join own as o using (cluster, accelerator_id, is_synthetic)
    left join held as h using (cluster, accelerator_id, is_synthetic)
    left join market_prices as m on s.accelerator_id = m.accelerator_id and k.price_kind = m.price_kind
    left join trend as i on s.accelerator_id = i.accelerator_id and k.price_kind = i.price_kind
    left join (
        select accelerator_id, tdp_w
        from ref.accelerators
        qualify row_number() over (partition by accelerator_id order by known_at desc, source) = 1
    ) as a on s.accelerator_id = a.accelerator_id
)

select
    cluster,
    accelerator_id,
    price_kind,
    is_synthetic,
    as_of_date,
    round(fixed_usd, 6) as own_fixed_usd_per_gpu_hour,
    round(energy_usd, 6) as own_energy_usd_per_gpu_hour,
    round(fixed_usd + energy_usd, 6) as own_usd_per_gpu_hour,
    round(power_w, 3) as power_w,
    power_basis,
    round(utilisation, 6) as utilisation_ratio,
    round(fixed_usd / nullif(utilisation, 0) + energy_usd, 6) as own_usd_per_used_gpu_hour,
    round(market_usd, 6) as market_usd_per_gpu_hour,
    round(low_usd, 6) as market_low_usd_per_gpu_hour,
    round(high_usd, 6) as market_high_usd_per_gpu_hour,
    providers as market_providers,
    market_as_of_date,
    round(index_usd, 6) as index_usd_per_gpu_hour,
    index_basis,
    index_as_of_date,
    index_change as index_change_30d_ratio,
    round(compare_usd, 6) as compare_usd_per_gpu_hour,
    compare_basis,
    case when compare_usd > energy_usd then round(fixed_usd / (compare_usd - energy_usd), 6) end as break_even_utilisation_ratio,
    round((fixed_usd / nullif(utilisation, 0) + energy_usd) / compare_usd, 6) as own_over_market_ratio,
    case
        when lacks_gpus then 'a cost pool states no number of GPUs, and none is read'
        when fixed_usd is null then 'no cost pool is in force'
        when kwh_usd is null then 'no pool states the price of electricity'
        when power_w is null then 'power neither measured nor published'
        when compare_usd is null then 'no rental price of this accelerator and kind'
        when utilisation is null then 'no job is known, so use is not'
    end as unknown_reason
from compared
