"""Leases, purchase commitments and performance obligations of a 10-Q or 10-K, each under its own metric.

Belongs here: which tagged facts they are. Does not belong here: reading the document (`ixbrl_reader.py`), segments.

A fact without dimensions is taken by its concept. One with a dimension needs printed words that agree: the label of
its row, or, in prose, a paragraph about leases that are still to commence.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from sources.sec.concepts import BY_CONCEPT, Metric
from sources.sec.figures import Figure, plain
from sources.sec.filing import Filing
from sources.sec.fiscal import fiscal_quarter
from sources.sec.ixbrl_reader import Context, Document, Fact, quarters

WANTED = (
    "finance_lease_additions",
    "finance_lease_principal_payments",
    "finance_lease_liability",
    "remaining_performance_obligation",
    "purchase_obligation",
    "other_commitment",
    "long_term_purchase_commitment",
)
_COMMITTED = "us-gaap:UnrecordedUnconditionalPurchaseObligationBalanceSheetAmount"
_BY_CATEGORY = "us-gaap:UnrecordedUnconditionalPurchaseObligationByCategoryOfItemPurchasedAxis"
# Members of the standard taxonomy only: a company's own member says nothing by its name.
_TO_COMMENCE = ("us-gaap:OperatingLeaseLeaseNotYetCommencedMember", "us-gaap:FinanceLeaseLeaseNotYetCommencedMember")
_LEASES = ("leases_not_yet_commenced", "leases signed but not yet commenced, undiscounted")
_ROWS = {
    "leases not yet commenced": _LEASES,
    "unconditional purchase obligations": (
        "unrecorded_purchase_obligation",
        "unconditional purchase obligations not on the balance sheet",
    ),
}
_RPO = "us-gaap:RevenueRemainingPerformanceObligation"
_RPO_START = "us-gaap:RevenueRemainingPerformanceObligationExpectedTimingOfSatisfactionStartDateAxis"


def commitments(filing: Filing, document: Document) -> Iterator[Figure]:
    """Instants at the end of the reported period, and flows of its quarter and year."""
    ends = {f.context.end for f in document.facts if quarters(f.context) == 1}
    if not ends:
        return
    own = max(ends)
    year, quarter = fiscal_quarter(own, filing.company.year_end_month)
    has_plain_rpo = any(f.concept == _RPO and f.context.end == own and not f.context.dimensions for f in document.facts)
    for fact in document.facts:
        named = _meaning(fact, has_plain_rpo=has_plain_rpo) if fact.context.end == own else None
        length = quarters(fact.context)
        if named is None or length not in (0, 1, 4) or (length == 4 and quarter != 4):  # noqa: PLR2004
            continue
        metric, words = named
        yield Figure(
            filing.exhibits[0],
            metric,
            year,
            quarter,
            length,
            fact.value,
            fact.step,
            fact.label or fact.concept,
            words,
            period_end=own,
        )


def _meaning(fact: Fact, *, has_plain_rpo: bool) -> tuple[str, str] | None:
    """Metric and words of a fact that is wanted."""
    metric: Metric | None = BY_CONCEPT.get(fact.concept)
    if not fact.context.dimensions:
        return (metric.name, metric.meaning) if metric and metric.name in WANTED else None
    if fact.concept == _COMMITTED and fact.table >= 0:
        return _ROWS.get(plain(fact.label))
    if fact.concept == _COMMITTED and _is_to_commence(fact):
        return _LEASES
    if fact.concept == _RPO and not has_plain_rpo and _is_timing_only(fact.context):
        return "remaining_performance_obligation", "contracted revenue not yet recognised, timing dimension"
    return None


def _is_to_commence(fact: Fact) -> bool:
    """A standard member, alone, and a paragraph that says so."""
    dimensions = fact.context.dimensions
    standard = len(dimensions) == 1 and dimensions[0][0] == _BY_CATEGORY and dimensions[0][1] in _TO_COMMENCE
    words = fact.sentence.lower()
    return standard and "leases" in words and "commence" in words


def _is_timing_only(context: Context) -> bool:
    """All that is expected from the day after the balance sheet on, by whatever customer."""
    return context.dimensions == ((_RPO_START, str(context.end + dt.timedelta(days=1))),)
