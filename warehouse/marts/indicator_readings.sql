-- mart.indicator_readings: every figure that feeds an indicator: newest value, the one before, where it comes from.
-- grain: one entry of one indicator's feed
-- key: indicator_id, position
-- depends: mart.capex_quarterly
-- column indicator_id: as in ref.indicators
-- column position: place in the feed; 0 is a sum over entries of the feed
-- column feed: the entry, `table:metric[@entity]`
-- column measure_en: what the figure is, in English
-- column measure_zh: what the figure is, in Chinese
-- column entity: company, market or group it is about; null where the entry names none
-- column value: the figure in `unit`; null where only a range or a text is known
-- column value_low: low end of a range or band
-- column value_high: high end of a range or band
-- column value_text: what the figure says beyond its number: words that bound it, the newest or the largest item
-- column unit: unit of the figure
-- column period: period or day the figure is about
-- column period_end: last day of that period
-- column previous_value: the figure before, in `unit`; null where nothing comparable is known
-- column previous_period: period of the figure before
-- column change_ratio: change on it, 0.1 is plus ten percent [ratio]
-- column year_ago_value: the figure of the same quarter or month a year before, in `unit`
-- column year_change_ratio: change on the year before [ratio]
-- column status: ok, range only, text only or no data
-- column source: source of the figure
-- column source_name: document or publisher
-- column source_url: link to it; several are separated by blanks
-- column certainty: how sure a figure from a non-primary source is
-- column known_at: when the figure became public
-- column as_of_date: day on which it was last compared with its source, else the day it became public
with entries as (
    select
        indicator_id,
        unnest(string_split(feed, ';')) as feed,
        generate_subscripts(string_split(feed, ';'), 1) as position
    from (
        from ref.indicators
        qualify row_number() over (partition by indicator_id order by known_at desc, source) = 1
    ) as newest
    where feed is not null
),

feeds as (
    select
        indicator_id,
        position,
        trim(feed) as feed,
        split_part(trim(feed), ':', 1) as table_name,
        split_part(split_part(trim(feed), ':', 2), '@', 1) as metric,
        nullif(split_part(split_part(trim(feed), ':', 2), '@', 2), '') as entity
    from entries
),

labels(metric, en, zh) as (
    values
    ('data_center_revenue', 'data-centre revenue', '数据中心收入'),
    ('data_center_networking_revenue', 'data-centre networking revenue', '数据中心网络收入'),
    ('ai_semiconductor_revenue', 'AI semiconductor revenue', 'AI 半导体收入'),
    ('revenue', 'total revenue', '总收入'),
    ('monthly_net_revenue', 'monthly revenue', '月度营收'),
    ('capex_cash_ppe', 'capital expenditure, cash for property and equipment', '资本开支（购置不动产与设备现金支出）'),
    ('capex_incl_finance_lease_principal', 'capital expenditure with finance-lease principal', '资本开支（含融资租赁本金）'),
    ('cowos_supply_wafers', 'CoWoS supply', 'CoWoS 供应量'),
    ('hbm_supply_usd', 'HBM supply', 'HBM 供应额'),
    ('ethernet_share_ai_backend', 'Ethernet share of AI back-end switching', '以太网在 AI 后端交换中的份额'),
    ('ai_cluster_optics_sales', 'sales of optics for AI clusters', 'AI 集群光模块销售额'),
    ('liquid_penetration_ai_dc', 'liquid cooling in AI data centres', 'AI 数据中心液冷渗透率'),
    ('average_pue', 'average PUE', '平均 PUE'),
    ('fleet_pue_ttm', 'fleet PUE, trailing year', '全机群 PUE（近十二个月）'),
    ('indiaai_l40s_price', 'subsidised price of an L40S', 'L40S 补贴价'),
    ('funding', 'funding events, amounts stated, 90 days', '近 90 天融资（已披露金额）'),
    ('award', 'contract awards, 90 days', '近 90 天合同授予'),
    ('tender', 'tenders, 90 days', '近 90 天招标'),
    ('policy', 'policy events, 90 days', '近 90 天政策事件'),
    ('announced', 'installations announced', '已宣布的集群'),
    ('China', 'clusters in China in operation', '中国在运行集群'),
    ('minutes', 'best time to train', '最短训练时间'),
    ('mfu_ratio', 'MFU of the newest training run with one', '最新披露训练任务的 MFU'),
    ('company_claim', 'MFU as claimed by the company', '企业自报 MFU'),
    ('nccl', 'NCCL releases, 365 days', 'NCCL 近 365 天版本数'),
    ('rccl', 'RCCL releases, 365 days', 'RCCL 近 365 天版本数'),
    ('oneccl', 'oneCCL releases, 365 days', 'oneCCL 近 365 天版本数'),
    ('US', 'US documents, 365 days', '美国近 365 天文件数'),
    ('EU', 'EU documents, 365 days', '欧盟近 365 天文件数')
),

-- Quarters with quarters, months with months, one cut of a metric at a time.
reported as (
    select
        entity, metric, definition_version, period_basis, fiscal_period, period_end,
        coalesce(value_usd, "value") as amount,
        case when value_usd is not null then 'USD' else currency end as unit,
        source, source_name, source_url, certainty, known_at,
        case period_basis when 'month' then 1 when 'quarter' then 2 when 'instant' then 3 else 4 end as basis_rank,
        case period_basis when 'month' then 31 when 'quarter' then 98 when 'instant' then 98 else 371 end as usual_days
    from market.financials
    where is_preferred
),

compared as (
    select
        *,
        lag(amount) over series as previous,
        lag(fiscal_period) over series as previous_period,
        date_diff('day', lag(period_end) over series, period_end) as previous_days,
        lag(unit) over series as previous_unit
    from reported
    window series as (partition by entity, metric, definition_version, period_basis order by period_end)
),

financials as (
    select
        f.indicator_id, f.position, c.amount as "value", null::double as value_low, null::double as value_high,
        null::varchar as value_text, c.unit, c.fiscal_period as period, c.period_end,
        case when c.previous_days <= c.usual_days + 10 and c.previous_unit = c.unit then c.previous end as previous_value,
        c.previous_period,
        y.amount as year_ago_value,
        c.source, c.source_name, c.source_url, c.certainty, c.known_at, null::date as as_of_date
    from feeds as f
    inner join compared as c on f.table_name = 'market.financials' and f.entity = c.entity and f.metric = c.metric
    left join reported as y
        on y.entity = c.entity and y.metric = c.metric and y.definition_version = c.definition_version
        and y.period_basis = c.period_basis and y.unit = c.unit
        and date_diff('day', y.period_end, c.period_end) between 355 and 375
    qualify row_number() over (
        partition by f.indicator_id, f.position
        order by c.basis_rank, c.period_end desc, c.definition_version, y.period_end desc
    ) = 1
),

-- The quarter of all companies of a feed together, once the last of them has reported.
combined as (
    select
        f.indicator_id, c.calendar_quarter,
        sum(c.value_usd) as amount,
        count(*) as companies,
        max(c.period_end) as period_end,
        max(c.value_known_at) as known_at,
        string_agg(distinct c.source, ' ' order by c.source) as source,
        string_agg(c.entity, ', ' order by f.position) as entities,
        string_agg(c.source_url, ' ' order by f.position) as source_url,
        string_agg(distinct c.certainty, ', ' order by c.certainty) as certainty
    from feeds as f
    inner join mart.capex_quarterly as c
        on f.table_name = 'market.financials' and f.metric = 'capex_cash_ppe'
        and f.metric = c.metric and f.entity = c.entity and c.is_latest
    group by all
),

sums as (
    select
        c.indicator_id, 0 as position, c.amount as "value", null::double as value_low, null::double as value_high,
        null::varchar as value_text, 'USD' as unit, c.calendar_quarter as period, c.period_end,
        p.amount as previous_value, p.calendar_quarter as previous_period, y.amount as year_ago_value,
        c.source, 'sum of ' || c.entities as source_name, c.source_url, c.certainty, c.known_at,
        null::date as as_of_date
    from combined as c
    inner join (
        select indicator_id, count(*) as companies
        from feeds
        where table_name = 'market.financials' and metric = 'capex_cash_ppe'
        group by indicator_id
    ) as whole on c.indicator_id = whole.indicator_id and c.companies = whole.companies and whole.companies > 1
    left join combined as p
        on c.indicator_id = p.indicator_id and c.companies = p.companies
        and date_diff('day', p.period_end, c.period_end) between 80 and 105
    left join combined as y
        on c.indicator_id = y.indicator_id and c.companies = y.companies
        and date_diff('day', y.period_end, c.period_end) between 355 and 375
    qualify row_number() over (partition by c.indicator_id order by c.period_end desc) = 1
),

-- Every statement, in the order it was made: a revision of the same period is compared with what it replaced.
guidance as (
    select
        f.indicator_id, f.position, g.mid_usd as "value", g.low_usd as value_low, g.high_usd as value_high,
        null::varchar as value_text, 'USD' as unit, g.target_period as period, g.target_period_end as period_end,
        b.mid_usd as previous_value, b.target_period as previous_period, null::double as year_ago_value,
        g.source, g.source_name, g.source_url, g.certainty, g.known_at, null::date as as_of_date
    from feeds as f
    inner join market.guidance as g
        on f.table_name = 'market.guidance' and f.entity = g.entity and f.metric = g.metric and g.is_preferred
    left join market.guidance as b
        on g.entity = b.entity and g.metric = b.metric and b.known_at < g.known_at - interval 3 day
        and (g.target_period like '%Q%') = (b.target_period like '%Q%')
    qualify row_number() over (
        partition by f.indicator_id, f.position
        order by
            g.known_at desc, g.target_period desc,
            b.target_period = g.target_period desc nulls last, b.known_at desc, b.source_rank
    ) = 1
),

-- A figure for a period that had not ended when it was stated is an outlook: one that had comes first.
signals as (
    select
        f.indicator_id, f.position, s."value", s.value_low, s.value_high, s.qualifier as value_text, s.unit, s.period,
        s.period_end, b."value" as previous_value, b.period as previous_period, null::double as year_ago_value,
        s.source, coalesce(s.source_name, s.stated_by) as source_name, s.source_url, s.certainty, s.known_at,
        s.as_of_date
    from feeds as f
    inner join market.supply_signals as s
        on f.table_name = 'market.supply_signals' and f.metric = s.metric and f.entity = s.subject and s.is_preferred
    left join market.supply_signals as b
        on s.metric = b.metric and s.subject = b.subject and s.basis = b.basis and s.stated_by = b.stated_by
        and s.unit = b.unit and b.is_preferred and b.period_end < s.period_end
    qualify row_number() over (
        partition by f.indicator_id, f.position
        order by
            s.period_end <= coalesce(s.as_of_date, s.known_at::date) desc nulls last,
            s.period_end desc nulls last, s.source_rank, s.stated_by, s.basis, b.period_end desc
    ) = 1
),

dated_events as (
    select e.*, f.indicator_id, f.position, f.metric, max(e.event_date) over (partition by f.indicator_id, f.position) as newest
    from feeds as f
    inner join market.events as e on f.table_name = 'market.events' and f.metric = e.event_kind and e.is_preferred
),

events as (
    select
        indicator_id, position,
        case
            when metric = 'funding' then sum(amount_usd) filter (event_date > newest - 90)
            else count(*) filter (event_date > newest - 90)
        end as "value",
        null::double as value_low, null::double as value_high,
        arg_max(title, (event_date, event_id)) as value_text,
        case when metric = 'funding' then 'USD' else 'notices' end as unit,
        strftime(max(event_date), '%Y-%m-%d') as period, max(event_date) as period_end,
        case
            when min(event_date) > max(newest) - 180 then null
            when metric = 'funding' then sum(amount_usd) filter (event_date between newest - 179 and newest - 90)
            else count(*) filter (event_date between newest - 179 and newest - 90)
        end as previous_value,
        '90 days before' as previous_period, null::double as year_ago_value,
        arg_max(source, (event_date, event_id)) as source, arg_max(source_name, (event_date, event_id)) as source_name,
        arg_max(source_url, (event_date, event_id)) as source_url, arg_max(certainty, (event_date, event_id)) as certainty,
        max(known_at) as known_at, null::date as as_of_date
    from dated_events
    group by indicator_id, position, metric
),

-- Counted, not added up: phases of one site may be cumulative.
clusters as (
    select
        f.indicator_id, f.position, count(*)::double as "value", null::double as value_low, null::double as value_high,
        arg_max(c.cluster, (coalesce(c.accelerator_count, 0), c.cluster))
        || coalesce(' (' || format('{:,}', max(c.accelerator_count)) || ')', '') as value_text,
        'installations' as unit, strftime(max(coalesce(c.as_of_date, c.known_at::date)), '%Y-%m-%d') as period,
        max(coalesce(c.as_of_date, c.known_at::date)) as period_end, null::double as previous_value,
        null::varchar as previous_period, null::double as year_ago_value,
        arg_max(c.source, (coalesce(c.accelerator_count, 0), c.cluster)) as source,
        arg_max(c.source_name, (coalesce(c.accelerator_count, 0), c.cluster)) as source_name,
        arg_max(c.source_url, (coalesce(c.accelerator_count, 0), c.cluster)) as source_url,
        string_agg(distinct c.certainty, ', ' order by c.certainty) as certainty,
        max(c.known_at) as known_at, max(c.as_of_date) as as_of_date
    from feeds as f
    inner join market.clusters as c
        on f.table_name = 'market.clusters' and c.is_preferred
        and (f.metric = c.status or (f.metric = c.country and c.status = 'operating'))
    group by f.indicator_id, f.position
),

index_days as (
    select f.indicator_id, f.position, i.*
    from feeds as f
    inner join market.gpu_price_index as i
        on f.table_name = 'market.gpu_price_index' and i.is_preferred and i.level_usd_per_gpu_hour is not null
        and f.metric in (i.accelerator_id, i.series)
),

price_index as (
    select
        d.indicator_id, d.position, d.level_usd_per_gpu_hour as "value", d.p25_usd_per_gpu_hour as value_low,
        d.p75_usd_per_gpu_hour as value_high, d.series || ', ' || d.provider_count || ' providers' as value_text,
        'USD per GPU-hour' as unit, strftime(d."date", '%Y-%m-%d') as period, d."date" as period_end,
        b.level_usd_per_gpu_hour as previous_value, strftime(b."date", '%Y-%m-%d') as previous_period,
        null::double as year_ago_value, d.source, coalesce(d.source_name, d.contributors) as source_name, d.source_url,
        d.certainty, d.known_at, d."date" as as_of_date
    from index_days as d
    left join index_days as b
        on d.indicator_id = b.indicator_id and d.position = b.position and d.series = b.series
        and d.method_version = b.method_version and b."date" between d."date" - 45 and d."date" - 28
    qualify row_number() over (
        partition by d.indicator_id, d.position
        order by
            d."date" desc, d.price_kind = 'on_demand' desc nulls last, d.provider_count desc, d.series,
            d.method_version desc, b."date" desc
    ) = 1
),

-- The H100 is the part that most indices price.
indices as (
    select
        f.indicator_id, f.position, i.level_usd_per_gpu_hour as "value", null::double as value_low,
        null::double as value_high, i.index_id || ': ' || i.measures as value_text, 'USD per GPU-hour' as unit,
        strftime(i.period_start, '%Y-%m-%d') as period, i.period_start as period_end,
        b.level_usd_per_gpu_hour as previous_value, strftime(b.period_start, '%Y-%m-%d') as previous_period,
        null::double as year_ago_value, i.source, coalesce(i.source_name, i.publisher) as source_name, i.source_url,
        i.certainty, i.known_at, null::date as as_of_date
    from feeds as f
    inner join market.external_indices as i
        on f.table_name = 'market.external_indices' and f.metric = i.price_kind and i.is_preferred
    left join market.external_indices as b
        on i.index_id = b.index_id and i.period = b.period and b.is_preferred and b.period_start < i.period_start
    qualify row_number() over (
        partition by f.indicator_id, f.position
        order by
            i.gpu_name like 'H100%' desc nulls last, i.period_start desc, i.source_rank, i.index_id, b.period_start desc
    ) = 1
),

-- The largest pre-training benchmark of each round; smaller ones are a different race.
best_times as (
    select
        *,
        try_cast(split_part(trim(round, 'v'), '.', 1) as integer) * 100
        + try_cast(split_part(trim(round, 'v'), '.', 2) as integer) as round_number,
        case benchmark_id when 'llama31_405b' then 1 when 'gpt3' then 2 else 3 end as benchmark_rank
    from market.mlperf_results
    where is_preferred and minutes is not null and coalesce(division, 'closed') = 'closed'
    qualify row_number() over (
        partition by round, benchmark_id order by minutes, source_rank, organization, system_desc_id
    ) = 1
),

mlperf as (
    select
        f.indicator_id, f.position, t.minutes as "value", null::double as value_low, null::double as value_high,
        t.benchmark_id || ', ' || coalesce(format('{:,}', t.accelerator_count) || ' × ', '')
        || coalesce(t.accelerator_id, t.accelerator, 'accelerator not stated') || ', ' || t.submitter
        || coalesce(', MFU ' || printf('%.1f', t.mfu_ratio * 100) || ' % of dense BF16', '') as value_text,
        'minutes' as unit, t.round as period, t.known_at::date as period_end,
        b.minutes as previous_value, b.round as previous_period, null::double as year_ago_value,
        t.source, t.source_name, t.source_url, t.certainty, t.known_at, null::date as as_of_date
    from feeds as f
    inner join best_times as t on f.table_name = 'market.mlperf_results' and f.metric = 'minutes'
    left join best_times as b on t.benchmark_id = b.benchmark_id and b.round_number < t.round_number
    qualify row_number() over (
        partition by f.indicator_id, f.position
        order by t.round_number desc, t.benchmark_rank, t.benchmark_id, b.round_number desc
    ) = 1
),

claims as (
    select f.indicator_id, f.position, d.*
    from feeds as f
    inner join market.model_disclosures as d
        on f.table_name = 'market.model_disclosures' and d.is_preferred and d.mfu_ratio is not null
        and (d.disclosure_kind = f.metric or (f.metric = 'mfu_ratio' and d.disclosure_kind = 'training_run'))
    qualify rank() over (
        partition by f.indicator_id, f.position
        order by d.published_date desc nulls last, d.accelerator_count desc nulls last, d.organisation
    ) = 1
),

-- Several figures of one publication stand as a range. Runs of different models are not compared.
disclosures as (
    select
        indicator_id, position,
        case when min(mfu_ratio) = max(mfu_ratio) then min(mfu_ratio) end as "value",
        case when min(mfu_ratio) < max(mfu_ratio) then min(mfu_ratio) end as value_low,
        case when min(mfu_ratio) < max(mfu_ratio) then max(mfu_ratio) end as value_high,
        string_agg(model, '; ' order by model)
        || coalesce(', ' || format('{:,}', max(accelerator_count)) || ' × ' || max(accelerator), '') as value_text,
        'MFU, 0 to 1' as unit, strftime(max(published_date), '%Y-%m-%d') as period,
        max(published_date) as period_end, null::double as previous_value, null::varchar as previous_period,
        null::double as year_ago_value, max(source) as source, max(source_name) as source_name,
        max(source_url) as source_url, max(certainty) as certainty, max(known_at) as known_at,
        max(as_of_date) as as_of_date
    from claims
    group by indicator_id, position
),

tagged as (
    select
        f.indicator_id, f.position, r.*, coalesce(r.published_at, r.tagged_at)::date as day,
        max(coalesce(r.published_at, r.tagged_at)::date) over (partition by f.indicator_id, f.position) as newest
    from feeds as f
    inner join market.software_releases as r
        on f.table_name = 'market.software_releases' and f.metric = r.component and r.is_preferred
        and not coalesce(r.is_prerelease, false) and coalesce(r.published_at, r.tagged_at) is not null
),

releases as (
    select
        indicator_id, position, (count(*) filter (day > newest - 365))::double as "value", null::double as value_low,
        null::double as value_high, arg_max(tag, (day, tag)) as value_text, 'releases' as unit,
        strftime(max(day), '%Y-%m-%d') as period, max(day) as period_end,
        case when min(day) <= max(newest) - 729 then count(*) filter (day between newest - 729 and newest - 365) end as previous_value,
        '365 days before' as previous_period, null::double as year_ago_value,
        arg_max(source, (day, tag)) as source, arg_max(source_name, (day, tag)) as source_name,
        arg_max(source_url, (day, tag)) as source_url, arg_max(certainty, (day, tag)) as certainty,
        arg_max(known_at, (day, tag)) as known_at, null::date as as_of_date
    from tagged
    group by indicator_id, position
),

gazetted as (
    select
        f.indicator_id, f.position, p.*, coalesce(p.publication_date, p.effective_date) as day,
        max(coalesce(p.publication_date, p.effective_date)) over (partition by f.indicator_id, f.position) as newest
    from feeds as f
    inner join market.policy_documents as p
        on f.table_name = 'market.policy_documents' and f.metric = p.jurisdiction and p.is_preferred
        and coalesce(p.publication_date, p.effective_date) is not null
),

documents as (
    select
        indicator_id, position, (count(*) filter (day > newest - 365))::double as "value", null::double as value_low,
        null::double as value_high, arg_max(title, (day, document_id)) as value_text,
        'documents' as unit, strftime(max(day), '%Y-%m-%d') as period, max(day) as period_end,
        case when min(day) <= max(newest) - 729 then count(*) filter (day between newest - 729 and newest - 365) end as previous_value,
        '365 days before' as previous_period, null::double as year_ago_value,
        arg_max(source, (day, document_id)) as source, arg_max(source_name, (day, document_id)) as source_name,
        arg_max(source_url, (day, document_id)) as source_url, arg_max(certainty, (day, document_id)) as certainty,
        arg_max(known_at, (day, document_id)) as known_at, max(as_of_date) as as_of_date
    from gazetted
    group by indicator_id, position
),

found as (
    select * from sums
    union all by name
    select * from financials
    union all by name
    select * from guidance
    union all by name
    select * from signals
    union all by name
    select * from events
    union all by name
    select * from clusters
    union all by name
    select * from price_index
    union all by name
    select * from indices
    union all by name
    select * from mlperf
    union all by name
    select * from disclosures
    union all by name
    select * from releases
    union all by name
    select * from documents
),

wanted as (
    select indicator_id, position, feed, table_name, metric, entity from feeds
    union all
    select s.indicator_id, 0, 'mart.capex_quarterly:capex_cash_ppe', 'mart.capex_quarterly', 'capex_cash_ppe', s.source_name
    from sums as s
)

select
    w.indicator_id,
    w.position,
    w.feed,
    case w.table_name
        when 'market.gpu_price_index' then 'rental price index of ' || w.metric
        when 'market.external_indices' then 'rental price index as others publish it'
        when 'market.guidance' then 'guidance: ' || coalesce(l.en, replace(w.metric, '_', ' '))
        else coalesce(l.en, replace(w.metric, '_', ' '))
    end as measure_en,
    case w.table_name
        when 'market.gpu_price_index' then '租赁价格指数：' || w.metric
        when 'market.external_indices' then '第三方发布的租赁价格指数'
        when 'market.guidance' then '指引：' || coalesce(l.zh, w.metric)
        else coalesce(l.zh, w.metric)
    end as measure_zh,
    case when w.position = 0 then null else w.entity end as entity,
    f."value",
    f.value_low,
    f.value_high,
    f.value_text,
    f.unit,
    f.period,
    f.period_end,
    f.previous_value,
    case when f.previous_value is not null then f.previous_period end as previous_period,
    round(f."value" / nullif(f.previous_value, 0) - 1, 6) as change_ratio,
    f.year_ago_value,
    round(f."value" / nullif(f.year_ago_value, 0) - 1, 6) as year_change_ratio,
    case
        when f."value" is not null then 'ok'
        when coalesce(f.value_low, f.value_high) is not null then 'range only'
        when f.value_text is not null then 'text only'
        else 'no data'
    end as status,
    f.source,
    f.source_name,
    f.source_url,
    f.certainty,
    f.known_at,
    coalesce(f.as_of_date, f.known_at::date) as as_of_date
from wanted as w
left join found as f on w.indicator_id = f.indicator_id and w.position = f.position
left join labels as l on w.metric = l.metric
