"""A release in a layout never seen gives the right figures or none: real and hand-written releases, spoiled."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filings.mutations import MUTATIONS, columns_together, spoil
from filings.release_factory import DATES, PLATFORMS, SUMMARY, TEXT, exhibit, table
from filings.test_capex_releases import alphabet, microsoft
from sources.base import Payload
from sources.sec.bundles import MEDIA_TYPE, pack
from sources.sec.figures import FINANCIALS
from sources.sec.release import SOURCE

BESIDE = Path(__file__).resolve().parents[3] / "shared/data/filings/press_release"
ALIKE = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Case:
    """Documents of a filing, the one that is spoiled, and words that find the table in it."""

    documents: tuple[tuple[str, str], ...]
    spoiled: str
    words: str


def real(words: str, *names: str) -> Case:
    documents = tuple((n, (BESIDE / n).read_text(encoding="utf-8", errors="replace")) for n in names)
    return Case(documents, names[-1], words)


def written() -> Case:
    commentary = exhibit("EX-99.2", "cfo.htm", table(SUMMARY) + table(PLATFORMS) + table(DATES)).decode()
    return Case(
        (("pr.htm", exhibit("EX-99.1", "pr.htm", TEXT).decode()), ("cfo.htm", commentary)), "cfo.htm", "Data Center"
    )


def capex(body: str) -> Case:
    return Case((("r.htm", exhibit("EX-99.1", "r.htm", body).decode()),), "r.htm", "roperty and equipment")


@cache
def case(name: str) -> Case:
    if name == "written":
        return written()
    if name == "alphabet":
        return capex(alphabet())
    if name == "microsoft":
        return capex(microsoft())
    if name == "nvidia":
        return real("Revenue by Market Platform", "NVDA_q3fy26_EX-99.1.htm", "NVDA_q3fy26_EX-99.2_CFO_commentary.htm")
    if name == "nvidia with year":
        return real("Revenue by Market Platform", "NVDA_q4fy25_EX-99.1.htm", "NVDA_q4fy25_EX-99.2_CFO_commentary.htm")
    if name == "amazon":
        return real("INVESTING ACTIVITIES", "AMZN_20251231_EX-99.1.htm")
    if name == "amazon sales":
        return real("Total net sales", "AMZN_20251231_EX-99.1.htm")
    if name == "micron results":
        return real("Cost of goods sold", "MU_a2026q2_EX-99.1.htm")
    return real("Cloud Memory Business Unit", "MU_a2026q2_EX-99.1.htm")


def read(documents: tuple[tuple[str, str], ...]) -> dict[tuple[str, str, str], tuple[float, dt.date]]:
    body = pack({}, [(name, text.encode()) for name, text in documents])
    payload = Payload("sec-release", "file:x.tar", dt.datetime(2026, 11, 1, tzinfo=dt.UTC), MEDIA_TYPE, body)
    rows = SOURCE.parse(payload).frames[FINANCIALS].iter_rows(named=True)
    return {(r["metric"], r["definition_version"], r["fiscal_period"]): (r["value_usd"], r["period_end"]) for r in rows}


@cache
def right(name: str) -> dict:
    return read(case(name).documents)


def spoiled(one: Case, seed: int, how) -> tuple[tuple[str, str], ...]:
    return tuple((n, spoil(t, one.words, seed, how) if n == one.spoiled else t) for n, t in one.documents)


def check(name: str, seed: int, how) -> None:
    one = case(name)
    found = read(spoiled(one, seed, how))
    wrong = {k: (v, right(name).get(k)) for k, v in found.items() if right(name).get(k) != v}
    assert not wrong, f"{how.__name__} with seed {seed} gives {wrong}"


@pytest.mark.parametrize("how", MUTATIONS, ids=lambda how: how.__name__)
@ALIKE
@given(seed=st.integers(0, 10**6))
def test_a_written_release(how, seed):
    check("written", seed, how)


@pytest.mark.parametrize("name", ["alphabet", "microsoft"])
@settings(ALIKE, max_examples=60)
@given(seed=st.integers(0, 10**6), how=st.sampled_from(MUTATIONS))
def test_a_written_cash_flow_statement(name, seed, how):
    check(name, seed, how)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nvidia", "nvidia with year", "amazon", "amazon sales", "micron", "micron results"])
@settings(ALIKE, max_examples=12)
@given(seed=st.integers(0, 10**6), how=st.sampled_from(MUTATIONS))
def test_a_real_release(name, seed, how):
    if not BESIDE.exists():
        pytest.skip("../shared (real payloads and reference facts) is not beside this checkout")
    check(name, seed, how)


def test_an_unspoiled_release_gives_figures():
    assert len(right("written")) == 24


def test_columns_moved_together_still_give_the_figures():
    """Refusing everything would also never be wrong: moved columns must be read."""
    found = read(spoiled(case("written"), 3, columns_together))
    assert found == right("written")
