"""Cash-flow statements of releases in the shape of each company: heading over two years, its column order, its words.

Capital expenditure is that of the reference facts; the other rows are chosen so that the statement adds up.
"""

from __future__ import annotations

import re

import pytest

from filings.release_factory import bundle, split, wide
from sources.sec.figures import FINANCIALS, GUIDANCE
from sources.sec.release import SOURCE


def statement(spans, years, rows, unit="(In millions)") -> str:
    """A table with periods over years, as most companies set it."""
    width = 3 * (1 + len(years))
    each = 3 * len(years) // len(spans)
    out = [f'<tr><td colspan="{width}">{unit}</td></tr>']
    out.append("<tr>" + wide("") + "".join(f'<td colspan="{each}">{s}</td>' for s in spans) + "</tr>")
    out.append("<tr>" + wide("") + "".join(wide(y) for y in years) + "</tr>")
    for label, *figures in rows:
        cells = wide(label) + "".join(split(f) for f in figures) if figures else f'<td colspan="{width}">{label}</td>'
        out.append(f"<tr>{cells}</tr>")
    return f"<div><table>{''.join(out)}</table></div>"


def read(*bodies):
    parsed = SOURCE.parse(bundle([(f"{i}.htm", "EX-99.1", body) for i, body in enumerate(bodies)]))
    rows = parsed.frames[FINANCIALS].iter_rows(named=True)
    found = {(r["metric"], r["fiscal_period"]): r["value_usd"] / 1e6 for r in rows if r["metric"] != "revenue"}
    return found, [r.reason for r in parsed.rejects], parsed.frames[GUIDANCE]


ALPHABET_TEXT = (
    "<div>MOUNTAIN VIEW, Calif. \u2013 July 23, 2025 \u2013 Alphabet Inc. (NASDAQ: GOOG, GOOGL) today announced financial "
    "results for the quarter ended June 30, 2025.</div><div>Consolidated revenues increased 14% to $96.4 billion.</div>"
    "<div>\u201cWe expect to invest approximately $85 billion in capital expenditures in 2025,\u201d the company said.</div>"
)
ALPHABET_INCOME = statement(
    ("Quarter Ended June 30,", "Year to Date June 30,"),
    ("2024", "2025", "2024", "2025"),
    (
        ("Revenues", "$84,742", "$96,428", "$165,281", "$186,662"),
        ("Costs and expenses", "57,317", "65,157", "112,384", "124,785"),
        ("Net income", "$23,619", "$28,196", "$47,281", "$62,736"),
    ),
)
ALPHABET_ROWS = (
    ("Operating activities",),
    ("Net income", "$23,619", "$28,196", "$47,281", "$62,736"),
    ("Other adjustments", "3,021", "(449)", "8,207", "1,161"),
    ("Net cash provided by operating activities", "26,640", "27,747", "55,488", "63,897"),
    ("Investing activities",),
    ("Purchases of property and equipment", "(13,186)", "(22,446)", "(25,198)", "(39,643)"),
    ("Purchases of marketable securities", "(20,684)", "(20,601)", "(41,368)", "(41,202)"),
    ("Other investing activities", "31,059", "21,000", "55,189", "42,000"),
    ("Net cash used in investing activities", "(2,811)", "(22,047)", "(11,377)", "(38,845)"),
    ("Cash and cash equivalents at beginning of period", "24,493", "23,264", "24,048", "23,466"),
    ("Cash and cash equivalents at end of period", "$27,225", "$21,036", "$27,225", "$21,036"),
)


def alphabet(rows=ALPHABET_ROWS, years=("2024", "2025", "2024", "2025"), text=ALPHABET_TEXT, income=ALPHABET_INCOME):
    flow = statement(("Quarter Ended June 30,", "Year to Date June 30,"), years, rows)
    return text + income + flow


def test_alphabet_prior_year_first_and_year_to_date_left_out():
    found, why, guided = read(alphabet())
    assert not why
    assert found == {("capex_cash_ppe", "FY24Q2"): 13_186, ("capex_cash_ppe", "FY25Q2"): 22_446}
    row = guided.row(0, named=True)
    assert (row["metric"], row["target_period"], row["low_usd"], row["guidance_kind"]) == (
        "capex_cash_ppe",
        "FY25",
        85e9,
        "approximately",
    )


def test_alphabet_is_tied_to_the_text_through_its_income_statement():
    other = ALPHABET_INCOME.replace("28,196", "28,169")
    found, why, _ = read(alphabet(income=other))
    assert not found
    assert "confirmed" in why[0]


def test_alphabet_with_the_years_swapped_is_refused():
    found, why, _ = read(alphabet(years=("2025", "2024", "2025", "2024")))
    assert not found
    assert why


def test_alphabet_with_quarter_and_year_to_date_swapped_is_refused():
    flow = statement(
        ("Year to Date June 30,", "Quarter Ended June 30,"), ("2024", "2025", "2024", "2025"), ALPHABET_ROWS
    )
    found, why, _ = read(ALPHABET_TEXT + ALPHABET_INCOME + flow)
    assert not found
    assert "longer" in why[0]


MICROSOFT_TEXT = (
    "<div>REDMOND, Wash. \u2014 July 30, 2025 \u2014 Microsoft Corp. (NASDAQ: MSFT) today announced the following results for "
    "the quarter ended June 30, 2025: Revenue was $76.4 billion. Net income was $27.2 billion.</div>"
)
MICROSOFT_ROWS = (
    ("Operations",),
    ("Net income", "$27,233", "$22,036", "$101,832", "$88,136"),
    ("Net cash from operations", "42,647", "37,195", "136,162", "118,548"),
    ("Financing",),
    ("Dividends paid", "(6,169)", "(5,574)", "(24,082)", "(21,771)"),
    ("Net cash used in financing", "(6,169)", "(5,574)", "(24,082)", "(21,771)"),
    ("Investing",),
    ("Additions to property and equipment", "(17,079)", "(13,873)", "(64,551)", "(44,477)"),
    ("Purchases of investments", "(10,000)", "(6,000)", "(29,775)", "(17,732)"),
    ("Other, net", "(1,000)", "(2,000)", "(3,000)", "(4,000)"),
    ("Net cash used in investing", "(28,079)", "(21,873)", "(97,326)", "(66,209)"),
    ("Cash and cash equivalents, beginning of period", "28,828", "19,634", "18,315", "34,704"),
    ("Cash and cash equivalents, end of period", "$30,242", "$18,315", "$30,242", "$18,315"),
)


def microsoft(rows=MICROSOFT_ROWS):
    spans, years = ("Three Months Ended June 30,", "Twelve Months Ended June 30,"), ("2025", "2024", "2025", "2024")
    return MICROSOFT_TEXT + statement(spans, years, rows)


def test_microsoft_quarter_and_year_current_first():
    """The year is the sum of the four quarters in the reference facts: 14,923 + 15,804 + 16,745 + 17,079."""
    found, why, _ = read(microsoft())
    assert not why
    assert found == {
        ("capex_cash_ppe", "FY25Q4"): 17_079,
        ("capex_cash_ppe", "FY24Q4"): 13_873,
        ("capex_cash_ppe", "FY25"): 14_923 + 15_804 + 16_745 + 17_079,
        ("capex_cash_ppe", "FY24"): 44_477,
    }


def test_microsoft_with_finance_leases_in_the_row_is_not_read_as_cash():
    rows = [
        ("Additions including finance leases", *r[1:]) if r[0].startswith("Additions") else r for r in MICROSOFT_ROWS
    ]
    found, why, _ = read(microsoft(rows))
    assert not found
    assert "no cash-flow statement" in why[0]


META_TEXT = (
    "<div>MENLO PARK, Calif. \u2013 July 30, 2025 \u2013 Meta Platforms, Inc. (Nasdaq: META) today reported results for the "
    "quarter ended June 30, 2025.</div><div>Capital expenditures, including principal payments on finance leases, were "
    "$17.01 billion. Net income was $18.34 billion.</div><div>We currently expect 2025 capital expenditures, including "
    "principal payments on finance leases, to be in the range of $66-72 billion, narrowed from our prior outlook of "
    "$64-72 billion.</div>"
)
META_ROWS = (
    ("Cash flows from operating activities",),
    ("Net income", "$18,337", "$13,465", "$34,981", "$25,834"),
    ("Net cash provided by operating activities", "25,561", "19,370", "49,587", "38,616"),
    ("Cash flows from investing activities",),
    ("Purchases of property and equipment", "(16,538)", "(8,173)", "(29,479)", "(14,573)"),
    ("Other investing activities", "(1,462)", "(827)", "(2,521)", "(1,427)"),
    ("Net cash used in investing activities", "(18,000)", "(9,000)", "(32,000)", "(16,000)"),
    ("Cash flows from financing activities",),
    ("Principal payments on finance leases", "(474)", "(299)", "(1,225)", "(614)"),
    ("Net cash used in financing activities", "(474)", "(299)", "(1,225)", "(614)"),
    ("Cash, cash equivalents, and restricted cash at beginning of the period", "30,000", "33,000", "45,438", "42,827"),
    ("Cash, cash equivalents, and restricted cash at end of the period", "$37,087", "$43,071", "$37,087", "$43,071"),
)


def test_meta_counts_lease_principal_and_guides_by_the_same_definition():
    """16,538 + 474 = 17,012, the sum in the text and in the reference facts."""
    spans = ("Three Months Ended June 30,", "Six Months Ended June 30,")
    found, why, guided = read(META_TEXT + statement(spans, ("2025", "2024", "2025", "2024"), META_ROWS))
    assert not why
    assert found["capex_incl_finance_lease_principal", "FY25Q2"] == 17_012
    assert found["capex_cash_ppe", "FY25Q2"] == 16_538
    assert found["finance_lease_principal_payments", "FY25Q2"] == 474
    assert {p for _, p in found} == {"FY25Q2", "FY24Q2"}
    row = guided.row(0, named=True)
    assert (row["metric"], row["low_usd"], row["high_usd"], row["prior_low_usd"]) == (
        "capex_incl_finance_lease_principal",
        66e9,
        72e9,
        64e9,
    )


COREWEAVE_TEXT = (
    "<div>LIVINGSTON, N.J. \u2013 November 10, 2025 \u2013 CoreWeave, Inc. (Nasdaq: CRWV) today reported results for the third "
    "quarter ended September 30, 2025. Cash paid for property and equipment was $3.28 billion in the quarter; capital "
    "expenditures as the company counts them were $1.9 billion.</div>"
)
COREWEAVE_ROWS = (
    ("Cash flows from investing activities",),
    (
        "Purchase of property and equipment, including capitalized internal-use software",
        "(3,278,786)",
        "(1,215,155)",
        "(7,000,000)",
        "(4,000,000)",
    ),
    ("Other investing activities", "(21,214)", "(4,845)", "(100,000)", "(50,000)"),
    ("Net cash used in investing activities", "(3,300,000)", "(1,220,000)", "(7,100,000)", "(4,050,000)"),
    ("Cash, cash equivalents and restricted cash at beginning of period", "1,800", "900", "1,500", "600"),
    ("Cash, cash equivalents and restricted cash at end of period", "2,000", "1,000", "2,000", "1,000"),
)


def test_coreweave_cash_purchases_in_thousands_are_not_its_own_capex():
    spans, years = ("Three Months Ended September 30,", "Nine Months Ended September 30,"), ("2025", "2024") * 2
    found, why, _ = read(COREWEAVE_TEXT + statement(spans, years, COREWEAVE_ROWS, unit="(in thousands)"))
    assert not why
    assert found == {("capex_cash_ppe", "FY25Q3"): 3278.786, ("capex_cash_ppe", "FY24Q3"): 1215.155}


BROADCOM_TEXT = (
    "<div>PALO ALTO, Calif. \u2013 September 2, 2026 \u2013 Broadcom Inc. (Nasdaq: AVGO) today reported financial results for "
    "its third quarter of fiscal year 2026, ended August 2, 2026.</div><div>Revenue of $29,600 million for the third quarter. "
    "Q3 AI revenue grew 220% year-over-year to $16.7 billion. We expect fourth quarter AI semiconductor revenue to be "
    "$21.7 billion.</div>"
    "<div>\u2022 Fourth quarter revenue guidance of approximately $34.0 billion</div>"
)
BROADCOM_ROWS = (
    ("Net revenue", "29,600", "22,000", "15,952", "75,000", "46,000"),
    ("Net income", "9,000", "7,000", "4,140", "22,000", "14,000"),
)


def broadcom() -> str:
    out = ['<tr><td colspan="18">(In millions)</td></tr>']
    out.append(
        "<tr>"
        + wide("")
        + '<td colspan="9">Fiscal Quarter Ended</td><td colspan="6">Three Fiscal Quarters Ended</td></tr>'
    )
    days = ("August 2, 2026", "May 3, 2026", "August 3, 2025", "August 2, 2026", "August 3, 2025")
    out.append("<tr>" + wide("") + "".join(wide(d) for d in days) + "</tr>")
    out += ["<tr>" + wide(r[0]) + "".join(split(f) for f in r[1:]) + "</tr>" for r in BROADCOM_ROWS]
    return f"<div><table>{''.join(out)}</table></div>"


def test_broadcom_three_fiscal_quarters_are_not_a_quarter():
    parsed = SOURCE.parse(bundle([("r.htm", "EX-99.1", BROADCOM_TEXT + broadcom() + broadcom())]))
    rows = parsed.frames[FINANCIALS].iter_rows(named=True)
    assert {(r["metric"], r["fiscal_period"]): r["value_usd"] / 1e6 for r in rows} == {
        ("ai_semiconductor_revenue", "FY26Q3"): 16_700,
        ("revenue", "FY26Q3"): 29_600,
        ("revenue", "FY26Q2"): 22_000,
        ("revenue", "FY25Q3"): 15_952,
    }


def test_broadcom_guides_total_and_ai_revenue_apart():
    guided = SOURCE.parse(bundle([("r.htm", "EX-99.1", BROADCOM_TEXT)])).frames[GUIDANCE]
    rows = {
        r["metric"]: (r["target_period"], r["mid_usd"], str(r["target_period_end"]))
        for r in guided.iter_rows(named=True)
    }
    assert rows == {
        "ai_semiconductor_revenue": ("FY26Q4", 21.7e9, "2026-11-01"),
        "revenue": ("FY26Q4", 34.0e9, "2026-11-01"),
    }


@pytest.mark.parametrize("body", [alphabet(), microsoft()], ids=["alphabet", "microsoft"])
def test_another_unit_line_is_refused(body):
    for unit in ("(In thousands)", "(In billions)", ""):
        found, why, _ = read(re.sub(r"\(In millions\)", unit, body))
        assert not found
        assert why
