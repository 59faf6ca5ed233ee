-- mart.own_cost_daily: what a GPU-hour of each cluster costs its owner, day by day, from the dated cost pools.
-- grain: one accelerator of one cluster on one UTC day that was read
-- key: cluster, accelerator_id, date, is_synthetic
-- column cluster: name of the cluster
-- column accelerator_id: accelerator
-- column date: UTC day
-- column is_synthetic: true where the day was read from generated demonstration data
-- column gpus_seen: boards read on that day [GPU]
-- column power_w: mean power of one board while it was read [W]
-- column own_fixed_usd_per_gpu_hour: write-off and monthly sums of one GPU-hour of capacity, used or not [USD/GPU/h]
-- column own_usd_per_gpu_kwh: electricity for one kWh of GPU energy, with the rest of the node and the building [USD/kWh]
-- column own_energy_usd_per_gpu_hour: that at the mean power of the day [USD/GPU/h]
-- column own_usd_per_gpu_hour: fixed and electricity [USD/GPU/h]
-- column unknown_reason: why the cost is missing
with hours as (
    select *
    from telemetry.gpu_hours
    where parent_gpu_uuid is null and accelerator_id is not null
    qualify row_number() over (
        partition by cluster, is_synthetic, gpu_uuid, hour_at order by seconds_covered desc, source
    ) = 1
),

days as (
    select
        cluster, accelerator_id, "date", is_synthetic,
        count(distinct gpu_uuid) as gpus_seen,
        sum(power_mean_w * seconds_covered) filter (power_count > 0)
        / nullif(sum(seconds_covered) filter (power_count > 0 and power_mean_w is not null), 0) as power_w
    from hours
    group by all
),

pools as (
    select
        *,
        pow(1 + coalesce(discount_rate_ratio, 0), 1.0 / 12) - 1 as rate,
        coalesce(residual_usd, 0) as left_usd
    from ref.cost_pools
    where is_latest
),

in_force as (
    select
        d.cluster, d.accelerator_id, d."date", d.is_synthetic, p.method,
        coalesce(p.gpus, d.gpus_seen) as pool_gpus,
        p.energy_usd_per_kwh * coalesce(p.pue_ratio, 1) * coalesce(p.non_gpu_power_ratio, 1) as kwh_usd,
        case p.method
            when 'monthly' then p.monthly_usd
            when 'capital' then
                case
                    when p.rate = 0 then (p.purchase_usd - p.left_usd) / p.life_months
                    else (p.purchase_usd - p.left_usd / pow(1 + p.rate, p.life_months)) * p.rate
                        / (1 - 1 / pow(1 + p.rate, p.life_months))
                end
        end as month_usd
    from days as d
    inner join pools as p
        on d.cluster = p.cluster and (p.accelerator_id is null or p.accelerator_id = d.accelerator_id)
    where
        p.valid_from_date <= d."date"
        and (p.valid_to_date is null or p.valid_to_date >= d."date")
        and (
            p.method <> 'capital'
            or p.valid_from_date + to_months(cast(round(p.life_months) as integer)) > d."date"
        )
),

own as (
    select
        cluster, accelerator_id, "date", is_synthetic,
        -- 730.5 hours are the twelfth of a year of 365.25 days
        sum(month_usd / (pool_gpus * 730.5)) as fixed_usd,
        sum(kwh_usd) as kwh_usd
    from in_force
    group by all
)

select
    d.cluster,
    d.accelerator_id,
    d."date",
    d.is_synthetic,
    d.gpus_seen,
    round(d.power_w, 3) as power_w,
    round(o.fixed_usd, 9) as own_fixed_usd_per_gpu_hour,
    round(o.kwh_usd, 9) as own_usd_per_gpu_kwh,
    round(d.power_w / 1000 * o.kwh_usd, 9) as own_energy_usd_per_gpu_hour,
    round(o.fixed_usd + d.power_w / 1000 * o.kwh_usd, 9) as own_usd_per_gpu_hour,
    case
        when not exists (select 1 from pools as p where p.cluster = d.cluster) then 'no cost pool of this cluster'
        when o.fixed_usd is null then 'no cost pool is in force on this day'
        when o.kwh_usd is null then 'no pool states the price of electricity'
        when d.power_w is null then 'power was not measured'
    end as unknown_reason
from days as d
left join own as o using (cluster, accelerator_id, "date", is_synthetic)
