"""Whatever a company spent and restated, a derived quarter is the quarter of one vintage."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filings.factory import PPE, fact, rows, values

ENDS = ("2023-03-31", "2023-06-30", "2023-09-30", "2023-12-31")
FIRST = ("2023-04-27", "2023-07-27", "2023-10-26", "2024-02-02")
LATER = ("2024-04-25", "2024-08-01", "2024-10-31", "2025-01-30")
spending = st.lists(st.integers(1, 90_000), min_size=4, max_size=4)


def year_to_date(quarters, filed, year_of_filing):
    """Cumulative facts of one generation, with the filing's own year beside them so that it is known as such."""
    out, total = [], 0
    for i, amount in enumerate(quarters):
        total += amount
        form = "10-K" if i == 3 else "10-Q"
        out.append(fact(PPE, "2023-01-01", ENDS[i], total, filed[i], form=form))
        if year_of_filing != 2023:
            out.append(fact(PPE, "2024-01-01", ENDS[i].replace("2023", "2024"), 1000 * (i + 1), filed[i], form=form))
    return out


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(first=spending, restated=spending)
def test_each_vintage_is_differenced_with_itself(first, restated):
    found = values(rows("META", year_to_date(first, FIRST, 2023) + year_to_date(restated, LATER, 2024)))
    early = [(p, v) for p, v, known in found if p.startswith("FY23Q") and known in FIRST]
    assert early == [(f"FY23Q{i + 1}", first[i]) for i in range(4)]
    truth = {f"FY23Q{i + 1}": restated[i] for i in range(4)}
    late = {p: v for p, v, known in found if p.startswith("FY23Q") and known in LATER}
    # A quarter may be missing where only one of two figures changed; it is never another number.
    assert all(truth[p] == v for p, v in late.items())


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(quarters=spending, order=st.randoms(use_true_random=False))
def test_the_order_of_facts_does_not_matter(quarters, order):
    facts = year_to_date(quarters, FIRST, 2023)
    shuffled = list(facts)
    order.shuffle(shuffled)
    assert values(rows("META", shuffled)) == values(rows("META", facts))
