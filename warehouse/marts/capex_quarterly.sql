-- mart.capex_quarterly: capital expenditure of each quarter by definition, with change, trailing year and the guidance in force.
-- grain: one company, metric, definition version, fiscal quarter and state of knowledge
-- key: entity, metric, definition_version, fiscal_period, known_at
-- column entity: ticker
-- column metric: which definition of capital expenditure; rows of different metrics are not comparable
-- column definition_version: cut of the metric
-- column fiscal_period: fiscal quarter
-- column period_start: first day of the quarter
-- column period_end: last day of the quarter
-- column calendar_quarter: calendar quarter that holds the middle of the fiscal quarter
-- column value_usd: capital expenditure of the quarter [USD]
-- column previous_quarter_usd: the quarter before, as known then [USD]
-- column year_ago_usd: the same quarter a year before, as known then [USD]
-- column qoq_ratio: change on the quarter before, 0.1 is plus ten percent
-- column yoy_ratio: change on the year before, 0.1 is plus ten percent
-- column ttm_usd: sum of the last four quarters, null unless all four are known [USD]
-- column guidance_period: fiscal or calendar year that the guidance is for
-- column guidance_low_usd: low end of the guidance for that year in force then, same metric only [USD]
-- column guidance_mid_usd: midpoint of it [USD]
-- column guidance_high_usd: high end of it [USD]
-- column guidance_previous_low_usd: low end of the guidance it replaced [USD]
-- column guidance_previous_high_usd: high end of the guidance it replaced [USD]
-- column guidance_known_at: when that guidance became public
-- column guidance_channel: where it was said
-- column guidance_source_url: link to it
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
with actuals as (
    select
        entity, metric, definition_version, fiscal_period, period_start, period_end, value_usd,
        definition, derivation, source, source_rank, certainty, form, accession, source_url, known_at
    from market.financials
    where metric like 'capex%' and period_basis = 'quarter' and value_usd is not null
    -- A figure that a source of the same rank repeats later was known before.
    qualify value_usd is distinct from lag(value_usd) over (
        partition by entity, metric, definition_version, fiscal_period, source_rank order by known_at, source
    )
),

series as (
    select distinct entity, metric, definition_version from actuals
),

guidance as (
    select
        entity, metric, target_period, low_usd, mid_usd, high_usd, channel, source, source_rank, source_url, known_at
    from market.guidance as g
    where
        metric like 'capex%'
        -- A transcription of what a better source said within the same days is not a revision.
        and not exists (
            from market.guidance as better
            where
                better.entity = g.entity and better.metric = g.metric and better.target_period = g.target_period
                and better.source_rank < g.source_rank
                and better.low_usd is not distinct from g.low_usd and better.high_usd is not distinct from g.high_usd
                and abs(date_diff('day', better.known_at, g.known_at)) <= 3
        )
),

-- Every moment at which something about a series became known.
moments as (
    select entity, metric, definition_version, known_at as moment from actuals
    union
    select s.entity, s.metric, s.definition_version, g.known_at
    from series as s
    inner join guidance as g on s.entity = g.entity and s.metric = g.metric
),

-- At each moment, the one figure of each quarter: primary before curated before secondary, then the newest.
known as (
    select m.moment, a.*
    from moments as m
    inner join actuals as a
        on m.entity = a.entity and m.metric = a.metric and m.definition_version = a.definition_version
        and a.known_at <= m.moment
    qualify row_number() over (
        partition by m.entity, m.metric, m.definition_version, m.moment, a.fiscal_period
        order by a.source_rank, a.known_at desc, a.source
    ) = 1
),

neighbours as (
    select
        *,
        lag(value_usd, 1) over quarters as value_1,
        lag(value_usd, 4) over quarters as value_4,
        date_diff('day', lag(period_end, 1) over quarters, period_end) as days_1,
        date_diff('day', lag(period_end, 3) over quarters, period_end) as days_3,
        date_diff('day', lag(period_end, 4) over quarters, period_end) as days_4,
        sum(value_usd) over (quarters rows between 3 preceding and current row) as sum_4
    from known
    window quarters as (partition by entity, metric, definition_version, moment order by period_end)
),

compared as (
    select
        *,
        case when days_1 between 80 and 105 then value_1 end as previous_quarter_usd,
        case when days_4 between 350 and 380 then value_4 end as year_ago_usd,
        case when days_3 between 260 and 290 then sum_4 end as ttm_usd,
        (period_end - 45) as middle
    from neighbours
),

placed as (
    select
        *,
        'CY' || year(middle) || 'Q' || quarter(middle) as calendar_quarter,
        left(fiscal_period, 4) as fiscal_year,
        'CY' || year(middle) as calendar_year
    from compared
),

guided as (
    select
        m.moment, m.metric, m.definition_version, g.entity, g.target_period, g.low_usd, g.mid_usd, g.high_usd,
        g.channel, g.source_url, g.known_at,
        row_number() over newest as turn,
        lead(g.low_usd) over newest as previous_low_usd,
        lead(g.high_usd) over newest as previous_high_usd
    from moments as m
    inner join guidance as g on m.entity = g.entity and m.metric = g.metric and g.known_at <= m.moment
    window newest as (
        partition by m.entity, m.metric, m.definition_version, m.moment, g.target_period
        order by g.known_at desc, g.source_rank, g.source, g.channel
    )
),

in_force as (
    select p.*, g.target_period, g.low_usd, g.mid_usd, g.high_usd, g.previous_low_usd, g.previous_high_usd,
        g.known_at as guidance_known_at, g.channel, g.source_url as guidance_source_url
    from placed as p
    left join guided as g
        on p.entity = g.entity and p.metric = g.metric and p.definition_version = g.definition_version
        and p.moment = g.moment and g.turn = 1 and g.target_period in (p.fiscal_year, p.calendar_year)
    qualify row_number() over (
        partition by p.entity, p.metric, p.definition_version, p.moment, p.fiscal_period
        order by g.target_period = p.fiscal_year desc nulls last
    ) = 1
),

states as (
    select
        *,
        row(
            value_usd, previous_quarter_usd, year_ago_usd, ttm_usd, low_usd, mid_usd, high_usd, guidance_known_at,
            source, source_url
        ) as content
    from in_force
),

changes as (
    select *
    from states
    qualify content is distinct from lag(content) over (
        partition by entity, metric, definition_version, fiscal_period order by moment
    )
)

select
    entity,
    metric,
    definition_version,
    fiscal_period,
    period_start,
    period_end,
    calendar_quarter,
    value_usd,
    previous_quarter_usd,
    year_ago_usd,
    value_usd / nullif(previous_quarter_usd, 0) - 1 as qoq_ratio,
    value_usd / nullif(year_ago_usd, 0) - 1 as yoy_ratio,
    ttm_usd,
    target_period as guidance_period,
    low_usd as guidance_low_usd,
    mid_usd as guidance_mid_usd,
    high_usd as guidance_high_usd,
    previous_low_usd as guidance_previous_low_usd,
    previous_high_usd as guidance_previous_high_usd,
    guidance_known_at,
    channel as guidance_channel,
    guidance_source_url,
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
