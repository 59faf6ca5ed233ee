-- mart.cost_monthly: the bill of each calendar month by account, user and project; idle, down and unread time stand as such.
-- grain: one consumer and rung of one calendar month of one cluster
-- key: cluster, month_date, is_synthetic, account, user_name, project, rung
-- column cluster: name of the cluster
-- column month_date: first day of the calendar month
-- column time_zone: zone of the calendar, from the cost model
-- column is_synthetic: true where use comes from generated demonstration data
-- column account: account that is charged; null where nobody or nobody known held the GPUs
-- column user_name: user, as configured: hash, name or nothing
-- column project: project
-- column rung: what the time went to; unallocated, down and not_read are nobody's
-- column is_idle: true for paid time that did nothing for anybody: unallocated, allocated_idle, down
-- column gpu_hours: GPU time; null where it was paid for but not read [GPU h]
-- column energy_kwh: GPU energy [kWh]
-- column power_usd: of the cost: electricity, exact to the millionth [USD]
-- column other_usd: of the cost: everything else [USD]
-- column cost_usd: cost; the rows of a month sum exactly to total_usd [USD]
-- column total_usd: cost of all pools in the month so far [USD]
-- column share_ratio: share of that total [ratio]
with consumers as (
    select
        cluster, month_date, time_zone, is_synthetic, account, user_name, project, rung,
        max(gpu_us) as gpu_us,
        max(energy_j) as energy_j,
        cast(coalesce(sum(cost_micro_usd) filter (category = 'power'), 0) as bigint) as power_micro,
        cast(sum(cost_micro_usd) as bigint) as cost_micro
    from telemetry.bill_monthly
    group by all
)

select
    cluster,
    month_date,
    time_zone,
    is_synthetic,
    nullif(account, '') as account,
    nullif(user_name, '') as user_name,
    nullif(project, '') as project,
    rung,
    rung in ('unallocated', 'allocated_idle', 'down') as is_idle,
    round(gpu_us / 3.6e9, 9) as gpu_hours,
    round(energy_j / 3.6e6, 6) as energy_kwh,
    cast(cast(power_micro as decimal(18, 0)) * 0.000001 as decimal(18, 6)) as power_usd,
    cast(cast(cost_micro - power_micro as decimal(18, 0)) * 0.000001 as decimal(18, 6)) as other_usd,
    cast(cast(cost_micro as decimal(18, 0)) * 0.000001 as decimal(18, 6)) as cost_usd,
    cast(cast(sum(cost_micro) over w as decimal(18, 0)) * 0.000001 as decimal(18, 6)) as total_usd,
    round(cost_micro / nullif(sum(cost_micro) over w, 0), 9) as share_ratio
from consumers
window w as (partition by cluster, month_date, is_synthetic)
