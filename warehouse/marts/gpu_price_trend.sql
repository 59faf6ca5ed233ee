-- mart.gpu_price_trend: where the price of each GPU stands in each kind of market, and how it moved.
-- grain: one series (accelerator, kind of market, kind of price, term) at its newest day
-- key: accelerator_id, segment, price_kind, term_months
-- column accelerator_id: ref.accelerators
-- column segment: kind of market; headline joins neoclouds and verified asks
-- column price_kind: kind of promise
-- column term_months: commitment; 0 where there is none [months]
-- column series: series of market.gpu_price_index
-- column date: newest day of the series
-- column method_version: version of docs/price-index.md
-- column level_usd_per_gpu_hour: level; null where the panel is too small for one [USD/GPU/h]
-- column no_level_reason: why there is no level
-- column median_usd_per_gpu_hour: median of the provider prices, also of a small panel [USD/GPU/h]
-- column price_usd_per_gpu_hour: the level, else the median: what the ratios below are taken from [USD/GPU/h]
-- column price_basis: level, or median_of_small_panel
-- column p25_usd_per_gpu_hour: lower quartile of provider prices [USD/GPU/h]
-- column p75_usd_per_gpu_hour: upper quartile of provider prices [USD/GPU/h]
-- column low_usd_per_gpu_hour: lowest provider price [USD/GPU/h]
-- column high_usd_per_gpu_hour: highest provider price [USD/GPU/h]
-- column provider_count: providers behind them
-- column contributors: providers behind them, separated by blanks
-- column index_value: chain, 100 on base_date
-- column base_date: day on which the chain was 100
-- column change_7d_ratio: change on matched providers over 7 days; links of small panels included [ratio]
-- column change_7d_from_date: day it is counted from, at most 3 days earlier than 7 days ago
-- column change_30d_ratio: the same over 30 days [ratio]
-- column change_30d_from_date: day it is counted from, at most 7 days earlier than 30 days ago
-- column change_365d_ratio: the same over 365 days [ratio]
-- column change_365d_from_date: day it is counted from, at most 31 days earlier than 365 days ago
-- column premium_over_neocloud_ratio: price over the neocloud on-demand or same-kind price within 3 days, less 1 [ratio]
-- column spot_discount_ratio: 1 less spot over on-demand of the same provider, median over providers [ratio]
-- column spot_provider_count: providers that quote both within 3 days of this day
-- column one_gpu_premium_ratio: one GPU over eight, per GPU, same provider and region, less 1, median [ratio]
-- column one_gpu_provider_count: providers that quote both shapes
-- column dense_peak_precision: precision of the peak in the next column
-- column usd_per_dense_pflop_hour: price over dense BF16 (else FP16) peak [USD/(PFLOP/s h)]
-- column usd_per_gb_hour: price over memory [USD/(GB h)]
-- column known_at: when the day was fixed, UTC
with fixings as (
    select *
    from market.gpu_price_index
    where is_preferred
    qualify method_version = max(method_version) over (partition by series)
),

newest as (
    select
        *,
        coalesce(level_usd_per_gpu_hour, median_usd_per_gpu_hour) as price_usd_per_gpu_hour,
        case when level_usd_per_gpu_hour is null then 'median_of_small_panel' else 'level' end as price_basis
    from fixings
    qualify row_number() over (partition by series order by "date" desc) = 1
),

horizons as (
    select * from (values (7, 3), (30, 7), (365, 31)) as h (days, slack_days)
),

starts as (
    select n.series, n."date" as until_date, h.days, max(f."date") as from_date
    from newest as n
    cross join horizons as h
    inner join fixings as f
        on f.series = n.series
        and f."date" between n."date" - (h.days + h.slack_days)::integer and n."date" - h.days::integer
    group by n.series, n."date", h.days
),

-- A chain that starts anew inside the span, or a day with nobody to compare, leaves the change unknown.
changes as (
    select
        s.series,
        s.days,
        s.from_date,
        case
            when count(*) filter (where f.link_status in ('base', 'unmatched')) = 0 then exp(sum(f.link_log)) - 1
        end as change_ratio
    from starts as s
    inner join fixings as f on f.series = s.series and f."date" > s.from_date and f."date" <= s.until_date
    group by s.series, s.days, s.from_date
),

change_columns as (
    select
        series,
        max(change_ratio) filter (where days = 7) as change_7d_ratio,
        max(from_date) filter (where days = 7) as change_7d_from_date,
        max(change_ratio) filter (where days = 30) as change_30d_ratio,
        max(from_date) filter (where days = 30) as change_30d_from_date,
        max(change_ratio) filter (where days = 365) as change_365d_ratio,
        max(from_date) filter (where days = 365) as change_365d_from_date
    from changes
    group by series
),

-- An ask of an order book is an on-demand price; everything else is compared with its own kind.
premiums as (
    select n.series, n.price_usd_per_gpu_hour / b.price_usd_per_gpu_hour - 1 as premium_over_neocloud_ratio
    from newest as n
    inner join newest as b
        on b.accelerator_id = n.accelerator_id
        and b.segment = 'neocloud'
        and b.price_kind = case when n.price_kind = 'marketplace_ask' then 'on_demand' else n.price_kind end
        and b.term_months = n.term_months
        and abs(b."date" - n."date") <= 3
    where n.segment not in ('neocloud', 'headline')
),

provider_prices as (
    select *
    from market.gpu_price_daily
    where is_preferred and passes and not is_carried and not is_held
),

spot_pairs as (
    select
        n.series,
        o.provider,
        1 - max_by(s.price_usd_per_gpu_hour, s."date") / max_by(o.price_usd_per_gpu_hour, o."date") as discount_ratio
    from newest as n
    inner join provider_prices as o
        on o.series = n.series and o.method_version = n.method_version and o."date" between n."date" - 3 and n."date"
    inner join provider_prices as s
        on s.accelerator_id = o.accelerator_id
        and s.segment = o.segment
        and s.provider = o.provider
        and s.price_kind = 'spot'
        and s.method_version = o.method_version
        and s."date" between n."date" - 3 and n."date" + 3
    where n.price_kind = 'on_demand' and n.segment <> 'headline'
    group by n.series, o.provider
),

spot_discounts as (
    select series, median(discount_ratio) as spot_discount_ratio, count(*) as spot_provider_count
    from spot_pairs
    group by series
),

-- The last price of each shape in each region within three days of the series' newest day.
shapes as (
    select n.series, o.provider, o.region, o.gpu_count, median(o.price_usd_per_gpu_hour) as price_usd_per_gpu_hour
    from newest as n
    inner join market.gpu_offers as o
        on o.accelerator_id = n.accelerator_id
        and o.segment = n.segment
        and o.price_kind = n.price_kind
        and o.term_months = n.term_months
        and o.observed_at::date between n."date" - 3 and n."date"
    where n.price_kind = 'on_demand' and o.index_eligible and o.is_latest and o.gpu_count in (1, 8)
    group by n.series, o.provider, o.region, o.gpu_count, o.observed_at
    qualify row_number() over (
        partition by n.series, o.provider, o.region, o.gpu_count order by o.observed_at desc
    ) = 1
),

shape_pairs as (
    select one.series, one.provider, median(one.price_usd_per_gpu_hour / eight.price_usd_per_gpu_hour - 1) as premium_ratio
    from shapes as one
    inner join shapes as eight
        on eight.series = one.series
        and eight.provider = one.provider
        and eight.region = one.region
        and eight.gpu_count = 8
    where one.gpu_count = 1
    group by one.series, one.provider
),

shape_premiums as (
    select series, median(premium_ratio) as one_gpu_premium_ratio, count(*) as one_gpu_provider_count
    from shape_pairs
    group by series
),

parts as (
    select
        accelerator_id,
        memory_gb,
        coalesce(bf16_dense_tflops, fp16_dense_tflops) as dense_tflops,
        case
            when bf16_dense_tflops is not null then 'bf16'
            when fp16_dense_tflops is not null then 'fp16'
        end as dense_peak_precision
    from ref.accelerators
    qualify row_number() over (partition by accelerator_id order by known_at desc, source) = 1
)

select
    n.accelerator_id,
    n.segment,
    n.price_kind,
    n.term_months,
    n.series,
    n."date",
    n.method_version,
    n.level_usd_per_gpu_hour,
    n.no_level_reason,
    n.median_usd_per_gpu_hour,
    n.price_usd_per_gpu_hour,
    n.price_basis,
    n.p25_usd_per_gpu_hour,
    n.p75_usd_per_gpu_hour,
    n.low_usd_per_gpu_hour,
    n.high_usd_per_gpu_hour,
    n.provider_count,
    n.contributors,
    n.index_value,
    n.base_date,
    c.change_7d_ratio,
    c.change_7d_from_date,
    c.change_30d_ratio,
    c.change_30d_from_date,
    c.change_365d_ratio,
    c.change_365d_from_date,
    m.premium_over_neocloud_ratio,
    d.spot_discount_ratio,
    d.spot_provider_count,
    o.one_gpu_premium_ratio,
    o.one_gpu_provider_count,
    p.dense_peak_precision,
    n.price_usd_per_gpu_hour / (p.dense_tflops / 1000) as usd_per_dense_pflop_hour,
    n.price_usd_per_gpu_hour / p.memory_gb as usd_per_gb_hour,
    n.known_at
from newest as n
left join change_columns as c on c.series = n.series
left join premiums as m on m.series = n.series
left join spot_discounts as d on d.series = n.series
left join shape_premiums as o on o.series = n.series
left join parts as p on p.accelerator_id = n.accelerator_id
