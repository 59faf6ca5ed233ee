-- mart.vendor_datacenter_revenue: revenue of AI-compute vendors by quarter, with change, trailing year and guidance for the same metric.
-- grain: one company, metric, definition version, fiscal quarter and state of knowledge
-- key: entity, metric, definition_version, fiscal_period, known_at
-- column entity: ticker
-- column metric: what is counted: total revenue, the data centre, its parts, Micron's units, Broadcom's AI revenue
-- column definition_version: cut of the metric; versions are not comparable
-- column fiscal_period: fiscal quarter
-- column period_end: last day of the quarter
-- column calendar_quarter: calendar quarter that holds the middle of the fiscal quarter
-- column value_usd: revenue of the quarter [USD]
-- column precision_usd: smallest step it was printed in [USD]
-- column previous_quarter_usd: the quarter before, as known then [USD]
-- column year_ago_usd: the same quarter a year before, as known then [USD]
-- column qoq_ratio: change on the quarter before, 0.1 is plus ten percent
-- column yoy_ratio: change on the year before, 0.1 is plus ten percent
-- column ttm_usd: sum of the last four quarters, null unless all four are known [USD]
-- column share_of_revenue_ratio: part of the company's total revenue of that quarter
-- column guidance_low_usd: low end of the guidance for this quarter and metric, given before the figure was known [USD]
-- column guidance_mid_usd: midpoint of it [USD]
-- column guidance_high_usd: high end of it [USD]
-- column guidance_known_at: when it was given
-- column guidance_source_url: link to it
-- column surprise_ratio: figure against the guided midpoint of the same metric, 0.02 is two percent above
-- column next_guidance_low_usd: low end of the guidance for the next quarter and the same metric [USD]
-- column next_guidance_mid_usd: midpoint of it [USD]
-- column next_guidance_high_usd: high end of it [USD]
-- column next_guidance_known_at: when it was given
-- column definition: what the company counts, in words
-- column derivation: how the figure follows from the filing; null: as stated
-- column source: source of the figure
-- column certainty: how sure a figure from a non-primary source is
-- column form: form of the filing
-- column accession: accession number of the filing
-- column source_url: link to the filing or page
-- column value_known_at: when this figure became public
-- column known_at: when this state of knowledge began
-- column superseded_at: when the next one began; null while current
-- column is_latest: the current state
with vendors as (
    select unnest([
        'NVDA', 'AMD', 'AVGO', 'INTC', 'MU', 'MRVL', 'ANET', 'SMCI', 'VRT', 'COHR', 'LITE', 'FN', 'CRDO', 'DELL', 'TSM'
    ]) as entity
),

actuals as (
    select
        f.entity, f.metric, f.definition_version, f.fiscal_period, f.period_end, f.value_usd, f.precision_usd,
        f.definition, f.derivation, f.source, f.source_rank, f.certainty, f.form, f.accession, f.source_url, f.known_at,
        4 * cast(substr(f.fiscal_period, 3, 2) as integer) + cast(substr(f.fiscal_period, 6, 1) as integer) as quarter_no
    from market.financials as f
    inner join vendors as v on f.entity = v.entity
    where
        f.period_basis = 'quarter' and f.value_usd is not null
        and (
            f.metric = 'revenue' or f.metric like 'data_center%' or f.metric like 'revenue_bu%'
            or f.metric = 'ai_semiconductor_revenue'
        )
    -- A figure that a source of the same rank repeats later was known before.
    qualify f.value_usd is distinct from lag(f.value_usd) over (
        partition by f.entity, f.metric, f.definition_version, f.fiscal_period, f.source_rank order by f.known_at, f.source
    )
),

series as (
    select distinct entity, metric, definition_version from actuals
),

guidance as (
    select
        entity, metric, target_period, low_usd, mid_usd, high_usd, source_rank, source, source_url, known_at,
        4 * cast(substr(target_period, 3, 2) as integer) + cast(substr(target_period, 6, 1) as integer) as quarter_no
    from market.guidance
    where regexp_matches(target_period, '^FY[0-9]{2}Q[1-4]$')
),

moments as (
    select entity, metric, definition_version, known_at as moment from actuals
    union
    select s.entity, s.metric, s.definition_version, t.known_at
    from series as s
    inner join actuals as t on s.entity = t.entity and t.metric = 'revenue'
    union
    select s.entity, s.metric, s.definition_version, g.known_at
    from series as s
    inner join guidance as g on s.entity = g.entity and s.metric = g.metric
),

-- When each figure first became public, whatever its value then.
first_known as (
    select entity, metric, definition_version, quarter_no, min(known_at) as first_known_at
    from actuals
    group by all
),

known as (
    select m.moment, a.*, k.first_known_at
    from moments as m
    inner join actuals as a
        on m.entity = a.entity and m.metric = a.metric and m.definition_version = a.definition_version
        and a.known_at <= m.moment
    inner join first_known as k
        on a.entity = k.entity and a.metric = k.metric and a.definition_version = k.definition_version
        and a.quarter_no = k.quarter_no
    qualify row_number() over (
        partition by m.entity, m.metric, m.definition_version, m.moment, a.quarter_no
        order by a.source_rank, a.known_at desc, a.source
    ) = 1
),

neighbours as (
    select
        *,
        lag(value_usd, 1) over quarters as value_1,
        lag(value_usd, 4) over quarters as value_4,
        quarter_no - lag(quarter_no, 1) over quarters as step_1,
        quarter_no - lag(quarter_no, 3) over quarters as step_3,
        quarter_no - lag(quarter_no, 4) over quarters as step_4,
        sum(value_usd) over (quarters rows between 3 preceding and current row) as sum_4,
        period_end - 45 as middle
    from known
    window quarters as (partition by entity, metric, definition_version, moment order by quarter_no)
),

totals as (
    select m.moment, m.entity, m.metric, m.definition_version, t.quarter_no, t.value_usd as total_usd
    from moments as m
    inner join actuals as t on m.entity = t.entity and t.metric = 'revenue' and t.known_at <= m.moment
    where m.metric <> 'revenue'
    qualify row_number() over (
        partition by m.entity, m.metric, m.definition_version, m.moment, t.quarter_no
        order by t.source_rank, t.known_at desc, t.source
    ) = 1
),

-- Guidance given before the figure: of several statements the last one.
given as (
    select n.moment, n.entity, n.metric, n.definition_version, n.quarter_no, g.low_usd, g.mid_usd, g.high_usd,
        g.known_at, g.source_url
    from neighbours as n
    inner join guidance as g
        on n.entity = g.entity and n.metric = g.metric and n.quarter_no = g.quarter_no and g.known_at < n.first_known_at
    qualify row_number() over (
        partition by n.entity, n.metric, n.definition_version, n.moment, n.quarter_no
        order by g.source_rank, g.known_at desc, g.source
    ) = 1
),

coming as (
    select n.moment, n.entity, n.metric, n.definition_version, n.quarter_no, g.low_usd, g.mid_usd, g.high_usd, g.known_at
    from neighbours as n
    inner join guidance as g
        on n.entity = g.entity and n.metric = g.metric and n.quarter_no + 1 = g.quarter_no and g.known_at <= n.moment
    qualify row_number() over (
        partition by n.entity, n.metric, n.definition_version, n.moment, n.quarter_no
        order by g.source_rank, g.known_at desc, g.source
    ) = 1
),

states as (
    select
        n.*,
        case when n.step_1 = 1 then n.value_1 end as previous_quarter_usd,
        case when n.step_4 = 4 then n.value_4 end as year_ago_usd,
        case when n.step_3 = 3 then n.sum_4 end as ttm_usd,
        'CY' || year(n.middle) || 'Q' || quarter(n.middle) as calendar_quarter,
        n.value_usd / nullif(t.total_usd, 0) as share_of_revenue_ratio,
        g.low_usd as guidance_low_usd, g.mid_usd as guidance_mid_usd, g.high_usd as guidance_high_usd,
        g.known_at as guidance_known_at, g.source_url as guidance_source_url,
        c.low_usd as next_low_usd, c.mid_usd as next_mid_usd, c.high_usd as next_high_usd, c.known_at as next_known_at
    from neighbours as n
    left join totals as t using (moment, entity, metric, definition_version, quarter_no)
    left join given as g using (moment, entity, metric, definition_version, quarter_no)
    left join coming as c using (moment, entity, metric, definition_version, quarter_no)
),

contents as (
    select
        *,
        row(
            value_usd, previous_quarter_usd, year_ago_usd, ttm_usd, share_of_revenue_ratio, guidance_mid_usd,
            guidance_known_at, next_low_usd, next_high_usd, next_known_at, source, source_url
        ) as content
    from states
),

changes as (
    select *
    from contents
    qualify content is distinct from lag(content) over (
        partition by entity, metric, definition_version, fiscal_period order by moment
    )
)

select
    entity,
    metric,
    definition_version,
    fiscal_period,
    period_end,
    calendar_quarter,
    value_usd,
    precision_usd,
    previous_quarter_usd,
    year_ago_usd,
    value_usd / nullif(previous_quarter_usd, 0) - 1 as qoq_ratio,
    value_usd / nullif(year_ago_usd, 0) - 1 as yoy_ratio,
    ttm_usd,
    share_of_revenue_ratio,
    guidance_low_usd,
    guidance_mid_usd,
    guidance_high_usd,
    guidance_known_at,
    guidance_source_url,
    value_usd / nullif(guidance_mid_usd, 0) - 1 as surprise_ratio,
    next_low_usd as next_guidance_low_usd,
    next_mid_usd as next_guidance_mid_usd,
    next_high_usd as next_guidance_high_usd,
    next_known_at as next_guidance_known_at,
    definition,
    derivation,
    source,
    certainty,
    form,
    accession,
    source_url,
    known_at as value_known_at,
    moment as known_at,
    lead(moment) over (
        partition by entity, metric, definition_version, fiscal_period order by moment
    ) as superseded_at,
    row_number() over (
        partition by entity, metric, definition_version, fiscal_period order by moment desc
    ) = 1 as is_latest
from changes
