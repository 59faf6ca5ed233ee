"""What owning costs: pools to months, months to users, and the GPU-hour, with sensitivity and break-even.

Belongs here: the arithmetic of own cost. Does not belong here: market prices, the file of pools
(`sources/cost_model.py`). Money is counted in whole millionths of a dollar, so that parts add up to the total.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

import polars as pl

MICRO = 1_000_000
HOURS_PER_MONTH = 365.25 * 24 / 12


@dataclass(frozen=True, slots=True)
class CostModel:
    """One cluster's cost in one set of conditions, for planning: everything for `gpus` GPUs.

    purchase, residual in USD; life in months; discount_rate and utilisation 0-1; power of one GPU in W;
    monthly: staff, network, space and the like in USD a month.
    """

    gpus: float
    purchase_usd: float
    residual_usd: float
    life_months: float
    discount_rate: float
    monthly_usd: float
    power_w: float
    energy_usd_per_kwh: float
    pue: float
    non_gpu_ratio: float = 1.0


def annuity_usd(purchase_usd: float, residual_usd: float, life_months: float, discount_rate: float) -> float:
    """Level monthly payment that returns purchase less discounted residual over the life, at a yearly rate.

    (P - R / (1+i)^n) * i / (1 - (1+i)^-n), i = (1+rate)^(1/12) - 1; without a rate (P - R) / n.
    """
    if life_months <= 0:
        raise ValueError("the life must be above 0 months")
    if not 0 <= residual_usd <= purchase_usd:
        raise ValueError("the residual value must lie between 0 and the purchase price")
    rate = float((1 + discount_rate) ** (1 / 12)) - 1
    if rate == 0:
        return (purchase_usd - residual_usd) / life_months
    growth = float((1 + rate) ** life_months)
    return (purchase_usd - residual_usd / growth) * rate / (1 - 1 / growth)


def energy_usd_per_hour(model: CostModel) -> float:
    """Electricity of one GPU-hour under load: kW x IT over GPU x PUE x price."""
    return model.power_w / 1000 * model.non_gpu_ratio * model.pue * model.energy_usd_per_kwh


def capacity_usd_per_hour(model: CostModel) -> float:
    """What one GPU costs an hour whether it works or not: write-off and monthly sums."""
    fixed = (
        annuity_usd(model.purchase_usd, model.residual_usd, model.life_months, model.discount_rate) + model.monthly_usd
    )
    return fixed / (model.gpus * HOURS_PER_MONTH)


def own_usd_per_used_hour(model: CostModel, utilisation: float) -> float:
    """Cost of one hour that is used: fixed cost over utilisation, and its own electricity."""
    if not 0 < utilisation <= 1:
        raise ValueError("utilisation must lie above 0 and not above 1")
    return capacity_usd_per_hour(model) / utilisation + energy_usd_per_hour(model)


def sensitivity(model: CostModel, utilisation: float, step: float = 0.1) -> dict[str, tuple[float, float]]:
    """Cost of a used hour with each input lowered and raised by `step`, everything else unchanged."""
    out = {}
    for name in (
        "purchase_usd",
        "residual_usd",
        "life_months",
        "discount_rate",
        "monthly_usd",
        "power_w",
        "energy_usd_per_kwh",
        "pue",
    ):
        value = float(getattr(model, name))
        low, high = (replace(model, **{name: value * f}) for f in (1 - step, 1 + step))
        out[name] = (own_usd_per_used_hour(low, utilisation), own_usd_per_used_hour(high, utilisation))
    lowered, raised = utilisation * (1 - step), min(1.0, utilisation * (1 + step))
    out["utilisation"] = (own_usd_per_used_hour(model, lowered), own_usd_per_used_hour(model, raised))
    return out


def break_even_utilisation(model: CostModel, rent_usd_per_hour: float) -> float | None:
    """Utilisation from which owning costs less than renting the used hours; above 1: never; None: rent below energy."""
    margin = rent_usd_per_hour - energy_usd_per_hour(model)
    return capacity_usd_per_hour(model) / margin if margin > 0 else None


def usd_per_million_tokens(cost_usd: float, tokens: float) -> float:
    """Cost of a million tokens, training or inference. Raises `ValueError` for no tokens."""
    if tokens <= 0:
        raise ValueError("cost of tokens needs tokens")
    return cost_usd / tokens * 1e6


def month_bounds(first: dt.date, last: dt.date, time_zone: str) -> pl.DataFrame:
    """Give month (its first day), from_us, to_us for each calendar month of a zone that touches first..last."""
    zone = ZoneInfo(time_zone)
    rows, month = [], first.replace(day=1)
    while month <= last:
        following = (month + dt.timedelta(days=32)).replace(day=1)
        edges = [int(dt.datetime.combine(d, dt.time(), zone).timestamp() * MICRO) for d in (month, following)]
        rows.append((month, *edges))
        month = following
    return pl.DataFrame(rows, schema={"month": pl.Date, "from_us": pl.Int64, "to_us": pl.Int64}, orient="row")


def monthly_costs(
    pools: Sequence[Mapping[str, object]], months: pl.DataFrame, energy_j: Mapping[dt.date, float], time_zone: str
) -> pl.DataFrame:
    """month, pool, category, cost_micro_usd of every pool in every month.

    pools: rows of ref.cost_pools of one cluster. A pool that begins, ends or is written off within a month counts
    by its share of the month's seconds in `time_zone`. energy_j: GPU energy of each month; energy pools price it.
    """
    zone = ZoneInfo(time_zone)
    rows = []
    for month, from_us, to_us in months.iter_rows():
        for pool in pools:
            begin, end = validity_us(pool, zone)
            overlap = max(0, min(to_us, end) - max(from_us, begin)) / (to_us - from_us)
            if overlap:
                cost = month_usd(pool, energy_j.get(month, 0.0)) * overlap
                rows.append((month, str(pool["pool"]), pool.get("category"), round(cost * MICRO)))
    schema = {"month": pl.Date, "pool": pl.String, "category": pl.String, "cost_micro_usd": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _number(pool: Mapping[str, object], name: str, default: float = 0.0) -> float:
    value = pool.get(name)
    return default if value is None else float(str(value))


def validity_us(pool: Mapping[str, object], zone: ZoneInfo) -> tuple[int, int]:
    """From when to when a pool costs anything, in µs since 1970; 9999 where nothing ends it."""
    begin = dt.date.fromisoformat(str(pool["valid_from_date"]))
    end = pool.get("valid_to_date")
    last = dt.date.fromisoformat(str(end)) + dt.timedelta(days=1) if end else dt.date(9999, 1, 1)
    if pool["method"] == "capital":
        # Written off means paid for: the pool costs nothing after its life.
        years, month = divmod(begin.month - 1 + round(_number(pool, "life_months")), 12)
        day = min(begin.day, calendar.monthrange(begin.year + years, month + 1)[1])
        last = min(last, dt.date(begin.year + years, month + 1, day))
    edges = [int(dt.datetime.combine(d, dt.time(), zone).timestamp() * MICRO) for d in (begin, last)]
    return edges[0], edges[1]


def month_usd(pool: Mapping[str, object], energy_j: float) -> float:
    """What a pool costs in one whole month; an energy pool prices the GPU energy given."""
    if pool["method"] == "monthly":
        return _number(pool, "monthly_usd")
    if pool["method"] == "capital":
        worth = [_number(pool, n) for n in ("purchase_usd", "residual_usd", "life_months", "discount_rate_ratio")]
        return annuity_usd(*worth)
    factor = _number(pool, "non_gpu_power_ratio", 1.0) * _number(pool, "pue_ratio", 1.0)
    return energy_j / 3.6e6 * factor * _number(pool, "energy_usd_per_kwh")


def allocate(
    costs: pl.DataFrame, usage: pl.DataFrame, consumers: Sequence[str], kept: Sequence[str] = ()
) -> pl.DataFrame:
    """Each pool's month shared among consumers, adding up to it exactly; `kept`: columns of costs that tell rows apart.

    usage: month, the consumer columns (account, user_name, project, …; null where nobody held the GPU), rung,
    gpu_us, energy_j. Energy follows energy, everything else GPU time. Nobody's GPU time stays visible as its rung
    (unallocated, down). A month without usage is kept whole, as unallocated.
    """
    keys = [*consumers, "rung"]
    summed = usage.group_by("month", *keys).agg(pl.col("gpu_us").sum(), pl.col("energy_j").sum())
    joined = costs.join(summed, on="month", how="left").with_columns(pl.col("rung").fill_null("unallocated"))
    # Energy nobody measured falls to GPU time.
    measured = pl.col("energy_j").sum().over("month", "pool") > 0
    by_energy = (pl.col("category") == "power").fill_null(value=False) & measured.fill_null(value=False)
    weight = pl.when(by_energy).then(pl.col("energy_j")).otherwise(pl.col("gpu_us").cast(pl.Float64)).fill_null(0.0)
    joined = joined.sort("month", "pool", *keys, nulls_last=True).with_columns(weight.alias("weight"))
    group = ["month", "pool"]
    whole = pl.col("weight").sum().over(group)
    edge = pl.when(whole > 0).then(pl.col("weight").cum_sum().over(group) / whole).otherwise(1.0).clip(0, 1)
    is_last = pl.int_range(pl.len()).over(group) == pl.len().over(group) - 1
    upper = (
        pl.when(is_last)
        .then(pl.col("cost_micro_usd"))
        .otherwise((edge * pl.col("cost_micro_usd")).round().cast(pl.Int64))
    )
    joined = joined.with_columns(upper.alias("upper"))
    part = pl.col("upper") - pl.col("upper").shift(1).over(group).fill_null(0)
    return (
        joined.with_columns(part.alias("part"))
        .group_by("month", *kept, *keys, maintain_order=True)
        .agg(pl.col("part").sum().alias("cost_micro_usd"), pl.col("gpu_us").first(), pl.col("energy_j").first())
        .with_columns(
            (pl.col("cost_micro_usd") / MICRO).alias("cost_usd"), (pl.col("gpu_us") / 3.6e9).alias("gpu_hours")
        )
    )
