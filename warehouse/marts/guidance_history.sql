-- mart.guidance_history: every statement of guidance, what it replaced, and how the actual figure of the same metric turned out.
-- grain: one statement (company, metric, target period, channel, source, when stated) and state of knowledge
-- key: entity, metric, target_period, channel, source, stated_known_at, known_at
-- column entity: ticker
-- column metric: what is guided; comparable only with the actual of the same metric
-- column target_period: quarter or year the statement is about
-- column target_period_start: first day of it, where known
-- column target_period_end: last day of it, where known
-- column channel: filing, release, call or press
-- column low_usd: low end [USD]
-- column mid_usd: midpoint [USD]
-- column high_usd: high end [USD]
-- column previous_low_usd: low end of the statement before, on the same target [USD]
-- column previous_high_usd: high end of the statement before [USD]
-- column revision_ratio: change of the midpoint on the statement before, 0.1 is plus ten percent
-- column guidance_kind: form of the statement
-- column definition: what is counted, in words
-- column evidence: the sentence or table row
-- column confidence: how sure the reading is
-- column given_with_period: fiscal period whose results came with it
-- column actual_usd: figure of the same metric and period, as known then; a year also as the sum of its four quarters [USD]
-- column actual_position: below, within or above the range; null while there is no actual figure
-- column actual_to_mid_ratio: actual against the midpoint, 0.02 is two percent above
-- column subject: what is guided, whatever the definition: `capex` for every measure of the whole capital expenditure, else the metric
-- column is_newest_statement: no later statement of the company on this subject and target was known then, in any definition
-- column is_newest_of_metric: no later statement in the definition of this metric was known then
-- column newest_metric: metric of the newest statement on this subject and target known then; another one where the company changed its wording
-- column source: source of the statement
-- column certainty: how sure a statement from a non-primary source is
-- column source_url: link to the filing or page
-- column stated_known_at: when the statement became public
-- column known_at: when this state of knowledge began
-- column superseded_at: when the next one began; null while current
-- column is_latest: the current state
with statements as (
    select
        g.entity, g.metric, g.target_period, g.target_period_start, g.target_period_end, g.channel, g.low_usd,
        coalesce(g.mid_usd, (g.low_usd + g.high_usd) / 2) as mid_usd, g.high_usd, g.guidance_kind, g.definition, g.evidence,
        g.confidence, g.given_with_period, g.source, g.source_rank, g.certainty, g.source_url,
        g.known_at as stated_known_at,
        -- A company that words its capital expenditure anew replaces its earlier figure for the same year; what it
        -- says of a part of it (data centres for AI) does not.
        case when g.metric like 'capex%' and g.metric <> 'capex_ai_data_centers' then 'capex' else g.metric end as subject
    from market.guidance as g
    where
        -- A transcription of what a better source said within the same days is not a statement of its own.
        not exists (
            from market.guidance as better
            where
                better.entity = g.entity and better.metric = g.metric and better.target_period = g.target_period
                and better.source_rank < g.source_rank
                and better.low_usd is not distinct from g.low_usd and better.high_usd is not distinct from g.high_usd
                and abs(date_diff('day', better.known_at, g.known_at)) <= 3
        )
),

ordered as (
    select
        *,
        lag(low_usd) over revisions as previous_low_usd,
        lag(mid_usd) over revisions as previous_mid_usd,
        lag(high_usd) over revisions as previous_high_usd
    from statements
    window revisions as (
        partition by entity, metric, target_period order by stated_known_at, source_rank desc, source, channel
    )
),

targets as (
    select distinct entity, metric, target_period from statements
),

-- Figures that may answer a target: the period itself, or a quarter of the year it names.
figures as (
    select
        t.entity, t.metric, t.target_period, f.fiscal_period, f.value_usd, f.known_at, f.source_rank, f.source,
        f.definition_version, f.fiscal_period = t.target_period as is_target
    from targets as t
    inner join market.financials as f
        on t.entity = f.entity and t.metric = f.metric
        and f.value_usd is not null and f.definition_version = '1' and f.period_basis in ('quarter', 'year')
        and (
            f.fiscal_period = t.target_period
            or (length(t.target_period) = 4 and f.period_basis = 'quarter' and left(f.fiscal_period, 4) = t.target_period)
        )
),

-- When something became known that may change what stands in a row: a figure, or a statement on the subject.
moments as (
    select t.entity, t.metric, t.target_period, t.subject, s.stated_known_at as moment
    from (select distinct entity, metric, target_period, subject from statements) as t
    inner join statements as s
        on t.entity = s.entity and t.subject = s.subject and t.target_period = s.target_period
    union
    select t.entity, t.metric, t.target_period, t.subject, f.known_at
    from (select distinct entity, metric, target_period, subject from statements) as t
    inner join figures as f
        on t.entity = f.entity and t.metric = f.metric and t.target_period = f.target_period
),

newest as (
    select
        m.entity, m.metric, m.target_period, m.moment,
        max(s.stated_known_at) as subject_stated_known_at,
        max(s.stated_known_at) filter (where s.metric = m.metric) as metric_stated_known_at,
        -- Two definitions given at once are both the newest; then each row names its own.
        coalesce(
            max(s.metric) filter (where s.metric = m.metric and s.stated_known_at = m.newest_known_at),
            max(s.metric) filter (where s.stated_known_at = m.newest_known_at)
        ) as newest_metric
    from (
        select m.*, max(s.stated_known_at) as newest_known_at
        from moments as m
        inner join statements as s
            on m.entity = s.entity and m.subject = s.subject and m.target_period = s.target_period
            and s.stated_known_at <= m.moment
        group by all
    ) as m
    inner join statements as s
        on m.entity = s.entity and m.subject = s.subject and m.target_period = s.target_period
        and s.stated_known_at <= m.moment
    group by all
),

known_figures as (
    select m.moment, f.*
    from moments as m
    inner join figures as f
        on m.entity = f.entity and m.metric = f.metric and m.target_period = f.target_period and f.known_at <= m.moment
    qualify row_number() over (
        partition by m.entity, m.metric, m.target_period, m.moment, f.fiscal_period
        order by f.source_rank, f.known_at desc, f.source
    ) = 1
),

actuals as (
    select
        entity, metric, target_period, moment,
        coalesce(
            max(value_usd) filter (where is_target),
            case when count(*) filter (where not is_target) = 4 then sum(value_usd) filter (where not is_target) end
        ) as actual_usd
    from known_figures
    group by all
),

states as (
    select
        o.*, m.moment, a.actual_usd,
        o.stated_known_at = n.subject_stated_known_at as is_newest_statement,
        o.stated_known_at = n.metric_stated_known_at as is_newest_of_metric,
        n.newest_metric
    from ordered as o
    inner join moments as m
        on o.entity = m.entity and o.metric = m.metric and o.target_period = m.target_period
        and o.stated_known_at <= m.moment
    inner join newest as n
        on m.entity = n.entity and m.metric = n.metric and m.target_period = n.target_period and m.moment = n.moment
    left join actuals as a
        on o.entity = a.entity and o.metric = a.metric and o.target_period = a.target_period and m.moment = a.moment
),

changes as (
    select *
    from states
    qualify row(actual_usd, is_newest_statement, is_newest_of_metric, newest_metric)
        is distinct from lag(row(actual_usd, is_newest_statement, is_newest_of_metric, newest_metric)) over (
            partition by entity, metric, target_period, channel, source, stated_known_at order by moment
        )
)

select
    entity,
    metric,
    target_period,
    target_period_start,
    target_period_end,
    channel,
    low_usd,
    mid_usd,
    high_usd,
    previous_low_usd,
    previous_high_usd,
    mid_usd / nullif(previous_mid_usd, 0) - 1 as revision_ratio,
    guidance_kind,
    definition,
    evidence,
    confidence,
    given_with_period,
    actual_usd,
    case
        when actual_usd is null then null
        when actual_usd < low_usd then 'below'
        when actual_usd > high_usd then 'above'
        else 'within'
    end as actual_position,
    actual_usd / nullif(mid_usd, 0) - 1 as actual_to_mid_ratio,
    subject,
    is_newest_statement,
    is_newest_of_metric,
    newest_metric,
    source,
    certainty,
    source_url,
    stated_known_at,
    moment as known_at,
    lead(moment) over (
        partition by entity, metric, target_period, channel, source, stated_known_at order by moment
    ) as superseded_at,
    row_number() over (
        partition by entity, metric, target_period, channel, source, stated_known_at order by moment desc
    ) = 1 as is_latest
from changes
