"""Tables of what companies report and what they say they will report: `market.financials`, `market.guidance`.

Belongs here: the declarations, and the words their columns may hold. Does not belong here: how figures are read
from filings (`sources/sec`), how quarters are derived (`assets/filings.py`), the marts.
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, FactVersions, Provenance, col, table_info

PERIOD_BASES = ("quarter", "half", "nine_months", "year", "month", "instant")
CHANNELS = ("filing", "release", "call", "press")
CONFIDENCES = ("high", "medium", "low")
GUIDANCE_KINDS = ("range", "plus_minus_percent", "plus_minus_amount", "approximately", "at_least", "at_most")

_NEGATIVE_SPENDING = (
    "cash_spending_not_negative",
    "critical",
    "metric in ('capex_cash_ppe', 'capex_incl_finance_lease_principal') and value < 0",
)


class Financial(FactVersions, Provenance, table=True):
    """One reported figure of one company for one fiscal period, in one vintage.

    `metric` says what is counted (`capex_cash_ppe`, `capex_net_of_proceeds`, `capex_incl_finance_lease_principal`,
    `revenue`, `data_center_revenue`, `data_center_compute_revenue`, …) and `definition_version` which cut of it,
    where a company changed the cut (`1` is the first; NVIDIA's split of the data centre into hyperscale and ACIE,
    from FY27Q1 on, is `2`, its total stays `1`); rows that differ in either are never compared silently.
    Other metrics: `data_center_networking_revenue`, `data_center_hyperscale_revenue`, `data_center_acie_revenue`,
    `supply_commitments`, `ai_semiconductor_revenue`, `capex_mgmt_incl_finance_leases`, `capex_company_definition`,
    `monthly_net_revenue`, Micron units as `revenue_bu_cloud_memory`, … . `fiscal_period` is `FY27Q1`, `FY26` (a whole year) or `2026-08` (a calendar month).
    """

    __tablename__ = "financials"
    __table_args__ = table_info(
        "market",
        "Figures that companies reported, every vintage. Grain: one company, metric, definition version, fiscal period "
        "and vintage. Key: entity, metric, definition_version, fiscal_period, source, known_at.",
        kind="fact",
        fact_key=("entity", "metric", "definition_version", "fiscal_period"),
        value=("value", "value_usd"),
        checks=(
            _NEGATIVE_SPENDING,
            ("period_in_order", "critical", "period_start is not null and period_start > period_end"),
            ("known_after_period", "warning", "known_at < cast(period_end as timestamp) - interval 15 day"),
            ("usd_equals_value", "critical", "currency = 'USD' and value_usd is distinct from value"),
            ("not_huge", "warning", "abs(value_usd) > 4e11 and period_basis = 'quarter'"),
        ),
    )

    entity: str = col("ticker of the company", key=True)
    metric: str = col("what is counted", key=True)
    definition_version: str = col("which cut of the metric: `1` unless the company changed it", key=True)
    fiscal_period: str = col("`FY27Q1`, `FY26` (whole year) or `2026-08` (calendar month)", key=True)
    period_basis: str = col("length of the period the value covers", one_of=PERIOD_BASES)
    period_start: dt.date | None = col("first day of the period; null for an instant")
    period_end: dt.date = col("last day of the period")
    value_usd: float | None = col("the value, where the currency is USD", unit="USD", ge=-2e12, le=2e12)
    value: float = col("the value in the reported currency", unit="currency", ge=-1e15, le=1e15)
    currency: str = col("ISO 4217 code")
    unit: str = col("unit of `value`, such as USD")
    precision_usd: float | None = col("smallest step the figure was printed in", unit="USD", ge=0)
    definition: str | None = col("what the company counts, in words")
    concept: str | None = col("XBRL concept or printed row label the figure was read from")
    derivation: str | None = col("how the figure follows from what the filing states; null: as stated")
    form: str | None = col("form of the filing, such as 10-Q, 10-K/A, 8-K")
    accession: str | None = col("EDGAR accession number of the filing")


class Guidance(FactVersions, Provenance, table=True):
    """One statement of what a company expects for one metric and period.

    `metric` is the metric of `market.financials` it can be compared with; a guided figure whose definition is not
    that of any reported metric carries its own name (`capex_company_definition`). Revisions are new versions.
    """

    __tablename__ = "guidance"
    __table_args__ = table_info(
        "market",
        "What companies said they expect, every revision. Grain: one company, metric, target period, channel and "
        "statement. Key: entity, metric, target_period, channel, source, known_at.",
        kind="fact",
        fact_key=("entity", "metric", "target_period"),
        value=("low_usd", "mid_usd", "high_usd"),
        checks=(
            ("range_in_order", "critical", "low_usd > high_usd or mid_usd < low_usd or mid_usd > high_usd"),
            ("says_something", "critical", "coalesce(low_usd, mid_usd, high_usd) is null"),
            ("wide_range", "warning", "high_usd > 2 * low_usd"),
        ),
    )

    entity: str = col("ticker of the company", key=True)
    metric: str = col("metric of `market.financials` the statement is about", key=True)
    target_period: str = col("`FY27Q2`, `FY26`, or `CY2026` where a calendar year is meant", key=True)
    channel: str = col("where it was said; a call figure is entered by a person", key=True, one_of=CHANNELS)
    target_period_start: dt.date | None = col("first day of the target period; null where not known")
    target_period_end: dt.date | None = col("last day of the target period; null where not known")
    low_usd: float | None = col("low end", unit="USD", ge=0, le=5e12)
    mid_usd: float | None = col("stated or computed midpoint", unit="USD", ge=0, le=5e12)
    high_usd: float | None = col("high end", unit="USD", ge=0, le=5e12)
    prior_low_usd: float | None = col("low end of the earlier range named in the same sentence", unit="USD", ge=0)
    prior_high_usd: float | None = col("high end of the earlier range named in the same sentence", unit="USD", ge=0)
    guidance_kind: str | None = col("form of the statement", one_of=GUIDANCE_KINDS)
    plus_minus_ratio: float | None = col("tolerance as stated, 0.02 for 2 %", ge=0, le=1)
    definition: str | None = col("what is counted, in words (with or without finance leases, gross or net)")
    given_with_period: str | None = col("fiscal period whose results came with it")
    stated_at: dt.datetime | None = col("when it was said, UTC", sa_type=UTC_TIME)
    evidence: str | None = col("the sentence or table row it was read from")
    confidence: str | None = col("how sure the reading is", one_of=CONFIDENCES)
    form: str | None = col("form of the filing, such as 8-K")
    accession: str | None = col("EDGAR accession number of the filing")


class Estimate(FactVersions, Provenance, table=True):
    """One estimate of the user, or a consensus the user holds, for one metric and period.

    It is never mixed with guidance: a surprise against it is computed only where a question asks for it.
    """

    __tablename__ = "estimates"
    __table_args__ = table_info(
        "market",
        "Estimates from the user's own files. Grain: one company, metric, definition version, period, named estimate "
        "and day. Key: entity, metric, definition_version, fiscal_period, estimate_name, source, known_at.",
        kind="fact",
        fact_key=("entity", "metric", "definition_version", "fiscal_period", "estimate_name"),
        value=("value_usd", "low_usd", "high_usd"),
        checks=(("estimate_in_range", "warning", "value_usd < low_usd or value_usd > high_usd"),),
    )

    entity: str = col("ticker of the company", key=True)
    metric: str = col("metric of `market.financials` that is estimated", key=True)
    definition_version: str = col("cut of the metric", key=True)
    fiscal_period: str = col("`FY27Q2`, `FY27` or `CY2027`", key=True)
    estimate_name: str = col("whose estimate, as the user calls it", key=True)
    value_usd: float = col("the estimate", unit="USD", ge=0, le=5e12)
    low_usd: float | None = col("lowest of the estimates it sums up", unit="USD", ge=0, le=5e12)
    high_usd: float | None = col("highest of the estimates it sums up", unit="USD", ge=0, le=5e12)
    analyst_count: int | None = col("number of estimates it sums up", ge=0, le=10000)
