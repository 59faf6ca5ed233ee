-- mart.financial_disagreements: figures on which a curated or secondary row and a primary one differ by more than their rounding.
-- grain: one fact and one source that disagrees with the preferred one
-- key: entity, metric, definition_version, fiscal_period, source
-- column entity: ticker
-- column metric: what is counted
-- column definition_version: cut of the metric
-- column fiscal_period: quarter, year or month
-- column preferred_value: value that the precedence rule prefers [currency]
-- column value: value that disagrees [currency]
-- column difference: value less the preferred one [currency]
-- column currency: currency of both
-- column preferred_source: source of the preferred value
-- column preferred_source_url: link to it
-- column source: source that disagrees
-- column source_url: link to it
-- column preferred_known_at: when the preferred value became public
-- column known_at: when the other one became public
with preferred as (
    select * from market.financials where is_preferred
),

others as (
    select * from market.financials where is_latest and not is_preferred
)

select
    o.entity,
    o.metric,
    o.definition_version,
    o.fiscal_period,
    p.value as preferred_value,
    o.value,
    o.value - p.value as difference,
    o.currency,
    p.source as preferred_source,
    p.source_url as preferred_source_url,
    o.source,
    o.source_url,
    p.known_at as preferred_known_at,
    o.known_at
from others as o
inner join preferred as p
    on o.entity = p.entity and o.metric = p.metric and o.definition_version = p.definition_version
    and o.fiscal_period = p.fiscal_period
where
    o.currency is distinct from p.currency
    -- Half a step of the coarser of the two figures is rounding, not disagreement.
    or abs(o.value - p.value) > greatest(coalesce(o.precision_usd, 0), coalesce(p.precision_usd, 0)) / 2 + 0.5
