"""Which XBRL concepts stand for which metric.

Belongs here: the metric names, the concepts companies have used for each, what is counted in words. Does not belong
here: which of them one company uses when; that is read off its facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of `market.financials` and the concepts it may be tagged with, in order of preference."""

    name: str
    kind: Literal["flow", "instant"]
    meaning: str
    concepts: tuple[str, ...]


METRICS = (
    Metric(
        "capex_cash_ppe",
        "flow",
        "gross cash purchases of property and equipment",
        (
            "us-gaap:PaymentsToAcquirePropertyPlantAndEquipment",
            "us-gaap:PaymentsToAcquireProductiveAssets",
            "ifrs-full:PurchaseOfPropertyPlantAndEquipmentClassifiedAsInvestingActivities",
        ),
    ),
    Metric(
        "revenue",
        "flow",
        "total revenue as reported",
        (
            "us-gaap:Revenues",
            "us-gaap:RevenueFromContractWithCustomerExcludingAssessedTax",
            "us-gaap:RevenueFromContractWithCustomerIncludingAssessedTax",
            "us-gaap:SalesRevenueNet",
            "us-gaap:SalesRevenueGoodsNet",
            "ifrs-full:Revenue",
        ),
    ),
    Metric(
        "finance_lease_principal_payments",
        "flow",
        "principal payments on finance leases",
        ("us-gaap:FinanceLeasePrincipalPayments",),
    ),
    Metric(
        "finance_lease_additions",
        "flow",
        "assets obtained under finance leases, not cash",
        ("us-gaap:RightOfUseAssetObtainedInExchangeForFinanceLeaseLiability",),
    ),
    Metric(
        "operating_cash_flow",
        "flow",
        "net cash from operating activities",
        ("us-gaap:NetCashProvidedByUsedInOperatingActivities",),
    ),
    Metric(
        "operating_income",
        "flow",
        "operating income or loss",
        ("us-gaap:OperatingIncomeLoss",),
    ),
    Metric("depreciation", "flow", "depreciation of property and equipment", ("us-gaap:Depreciation",)),
    Metric("inventory", "instant", "inventories, net", ("us-gaap:InventoryNet",)),
    Metric(
        "finance_lease_liability",
        "instant",
        "finance lease liability, current and not",
        ("us-gaap:FinanceLeaseLiability",),
    ),
    Metric(
        "finance_lease_liability_current",
        "instant",
        "finance lease liability due within a year",
        ("us-gaap:FinanceLeaseLiabilityCurrent",),
    ),
    Metric(
        "finance_lease_liability_noncurrent",
        "instant",
        "finance lease liability due later",
        ("us-gaap:FinanceLeaseLiabilityNoncurrent",),
    ),
    Metric(
        "long_term_purchase_commitment",
        "instant",
        "long-term purchase commitments",
        ("us-gaap:LongTermPurchaseCommitmentAmount",),
    ),
    Metric(
        "remaining_performance_obligation",
        "instant",
        "contracted revenue not yet recognised, undimensioned",
        ("us-gaap:RevenueRemainingPerformanceObligation",),
    ),
    Metric("purchase_obligation", "instant", "purchase obligations", ("us-gaap:PurchaseObligation",)),
    Metric("other_commitment", "instant", "other commitments", ("us-gaap:OtherCommitment",)),
    Metric(
        "unrecorded_purchase_obligation",
        "instant",
        "unconditional purchase obligations not on the balance sheet",
        ("us-gaap:UnrecordedUnconditionalPurchaseObligationBalanceSheetAmount",),
    ),
)
BY_CONCEPT = {concept: metric for metric in METRICS for concept in metric.concepts}
