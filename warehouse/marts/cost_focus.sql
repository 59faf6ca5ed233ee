-- mart.cost_focus: the monthly bill in the columns of a FOCUS cost export: almanac sql "from mart.cost_focus" --format csv.
-- grain: one pool, consumer and rung of one calendar month of one cluster
-- key: BillingAccountId, BillingPeriodStart, SkuId, SubAccountId, Tags
-- column BillingAccountId: cluster
-- column BillingPeriodStart: first moment of the month in the zone of the cost model, UTC
-- column BillingPeriodEnd: first moment of the next month, UTC
-- column ChargePeriodStart: as the billing period
-- column ChargePeriodEnd: as the billing period
-- column ChargeCategory: Usage
-- column ChargeClass: null: nothing is corrected afterwards
-- column ChargeDescription: what the GPU time went to
-- column ChargeFrequency: Usage-Based
-- column BillingCurrency: USD
-- column BilledCost: cost, exact to the millionth [USD]
-- column EffectiveCost: the same [USD]
-- column ListCost: the same [USD]
-- column ContractedCost: the same [USD]
-- column ConsumedQuantity: GPU time of consumer and rung, the same in the row of every pool [GPU h]
-- column ConsumedUnit: GPU-Hours
-- column ServiceCategory: Compute
-- column ServiceName: GPU cluster
-- column ServiceProviderName: owner of the cluster: nobody else is paid
-- column SkuId: cost pool
-- column SubAccountId: account that is charged; null where nobody is
-- column Tags: JSON: user, project, rung, category of the pool, whether the data are synthetic
with months as (
    select
        *,
        cast(month_date as timestamp) at time zone time_zone as begins_at,
        cast(month_date + interval 1 month as timestamp) at time zone time_zone as ends_at,
        cast(cast(cost_micro_usd as decimal(18, 0)) * 0.000001 as decimal(18, 6)) as cost_usd
    from telemetry.bill_monthly
)

select
    cluster as "BillingAccountId",
    begins_at as "BillingPeriodStart",
    ends_at as "BillingPeriodEnd",
    begins_at as "ChargePeriodStart",
    ends_at as "ChargePeriodEnd",
    'Usage' as "ChargeCategory",
    cast(null as varchar) as "ChargeClass",
    rung as "ChargeDescription",
    'Usage-Based' as "ChargeFrequency",
    'USD' as "BillingCurrency",
    cost_usd as "BilledCost",
    cost_usd as "EffectiveCost",
    cost_usd as "ListCost",
    cost_usd as "ContractedCost",
    round(gpu_us / 3.6e9, 9) as "ConsumedQuantity",
    'GPU-Hours' as "ConsumedUnit",
    'Compute' as "ServiceCategory",
    'GPU cluster' as "ServiceName",
    'owner of ' || cluster as "ServiceProviderName",
    pool as "SkuId",
    nullif(account, '') as "SubAccountId",
    cast(json_object(
        'user', nullif(user_name, ''), 'project', nullif(project, ''), 'rung', rung, 'category', category,
        'is_synthetic', is_synthetic
    ) as varchar) as "Tags"
from months
