"""What owning a cluster costs: dated cost pools, and the bill of each month.

Belongs here: `ref.cost_pools`, `telemetry.bill_monthly`. Does not belong here: market prices, the arithmetic (`assets/cost.py`).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import FactVersions, Provenance, col, table_info
from warehouse.schema.ladder import RUNGS
from warehouse.schema.telemetry import Observed


class CostPool(FactVersions, Provenance, table=True):
    """One dated pool of cost of a cluster: a purchase written off over its life, a monthly sum, or energy."""

    __tablename__ = "cost_pools"
    __table_args__ = table_info(
        "ref",
        "Dated pools of cost of a cluster, from the cost-model file. Grain: one pool, one validity. "
        "Key: cluster, pool, valid_from_date, source, known_at.",
        kind="dimension",
        fact_key=("cluster", "pool", "valid_from_date"),
        value=(
            "valid_to_date",
            "purchase_usd",
            "residual_usd",
            "life_months",
            "discount_rate_ratio",
            "monthly_usd",
            "energy_usd_per_kwh",
            "pue_ratio",
            "gpus",
        ),
        checks=(
            ("ends_after_start", "critical", "valid_to_date < valid_from_date"),
            ("residual_below_purchase", "critical", "residual_usd > purchase_usd"),
        ),
    )

    cluster: str = col("cluster name", key=True)
    pool: str = col("name of the pool, like servers, network, staff, power", key=True)
    valid_from_date: dt.date = col("first day the pool applies", key=True)
    valid_to_date: dt.date | None = col("last day it applies; null while it lasts")
    method: str = col("how it becomes a cost", one_of=("capital", "monthly", "energy"))
    category: str | None = col(
        "what it pays for", one_of=("compute", "network", "storage", "facility", "staff", "power", "software", "other")
    )
    purchase_usd: float | None = col("purchase price", unit="USD", ge=0)
    residual_usd: float | None = col("value at the end of its life", unit="USD", ge=0)
    life_months: float | None = col("months over which it is written off", unit="month", ge=0)
    discount_rate_ratio: float | None = col("cost of capital a year", ge=0, le=1)
    monthly_usd: float | None = col("cost of one calendar month", unit="USD", ge=0)
    energy_usd_per_kwh: float | None = col("price of electricity", unit="USD/kWh", ge=0)
    pue_ratio: float | None = col("facility energy over IT energy, where no meter gives it", ge=1)
    non_gpu_power_ratio: float | None = col("IT energy over GPU energy, where no node meter gives it", ge=1)
    gpus: float | None = col("GPUs the pool pays for", unit="GPU", ge=0)
    accelerator_id: str | None = col("accelerator the pool pays for; null for all")
    time_zone: str | None = col("zone whose calendar months are billed")


class BillMonth(Observed, table=True):
    """What one consumer is charged from one pool for one rung of a calendar month. Computed at publish."""

    __tablename__ = "bill_monthly"
    __table_args__ = table_info(
        "telemetry",
        "The bill of each calendar month: each pool's cost shared to the last millionth of a dollar; idle, down and unread "
        "time stand as such. Grain: pool x consumer x rung of one month. "
        "Key: cluster, month_date, pool, account, user_name, project, rung, source.",
        kind="telemetry",
    )
    month_date: dt.date = col("first day of the calendar month", key=True)
    time_zone: str = col("zone of the calendar")
    pool: str = col("pool of ref.cost_pools", key=True)
    category: str | None = col("what the pool pays for")
    account: str = col("account that is charged; empty where none is known", key=True)
    user_name: str = col("user, as configured; empty where none is known", key=True)
    project: str = col("project; empty where none is known", key=True)
    rung: str = col(
        "what the time went to; not_read: paid for, but no telemetry", key=True, one_of=(*RUNGS, "not_read")
    )
    gpu_us: int | None = col(
        "GPU time of consumer and rung, the same for every pool; null where not read", unit="µs", ge=0
    )
    energy_j: float | None = col("GPU energy of consumer and rung, the same for every pool", unit="J", ge=0)
    cost_micro_usd: int = col("charged", unit="millionths of USD", ge=0)
