-- mart.financial_restatements: figures that a later document of the same source states differently, a restatement or a misreading.
-- grain: one fact, source and later statement that changed it
-- key: entity, metric, definition_version, fiscal_period, source, known_at
-- column entity: ticker
-- column metric: what is counted
-- column definition_version: cut of the metric
-- column fiscal_period: quarter, year or month
-- column source: source of both statements
-- column earlier_value: value stated before [currency]
-- column value: value stated later [currency]
-- column change_ratio: later value against the earlier one, 0.01 is plus one percent
-- column currency: currency of both
-- column earlier_known_at: when the earlier value became public
-- column known_at: when the later one became public
-- column earlier_source_url: link to the earlier document
-- column source_url: link to the later one
with ordered as (
    select
        *,
        lag(value) over statements as earlier_value,
        lag(precision_usd) over statements as earlier_precision,
        lag(known_at) over statements as earlier_known_at,
        lag(source_url) over statements as earlier_source_url
    from market.financials
    -- A transcription repeats a figure in the rounding of its page: only documents restate.
    where source <> 'curated'
    window statements as (
        partition by entity, metric, definition_version, fiscal_period, source, currency order by known_at
    )
)

select
    entity,
    metric,
    definition_version,
    fiscal_period,
    source,
    earlier_value,
    value,
    value / nullif(earlier_value, 0) - 1 as change_ratio,
    currency,
    earlier_known_at,
    known_at,
    earlier_source_url,
    source_url
from ordered
where
    -- Half a step of the coarser of the two figures is rounding, not a change.
    abs(value - earlier_value) > greatest(coalesce(precision_usd, 0), coalesce(earlier_precision, 0)) / 2 + 0.5
