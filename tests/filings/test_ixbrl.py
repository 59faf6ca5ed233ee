"""Inline XBRL written by hand: labels against members, scale and sign, sums, periods."""

from __future__ import annotations

import datetime as dt

import pytest

from sources.base import ParseError, Payload
from sources.sec.figures import FINANCIALS
from sources.sec.ixbrl import SOURCE
from sources.sec.ixbrl_reader import read_document

CONCEPT = "us-gaap:RevenueFromContractWithCustomerExcludingAssessedTax"
QUARTER, HALF = ("2023-04-02", "2023-07-01"), ("2023-01-01", "2023-07-01")
# AMD's report of July 2023: the printed row and the member it is tagged with, in millions, quarter and half year.
ROWS = [
    ("Data Center", "amd:ClientMember", "1,321", "2,616"),
    ("Client", "amd:GamingMember", "998", "1,737"),
    ("Gaming", "amd:DataCenterMember", "1,581", "3,338"),
    ("Embedded", "amd:EmbeddedMember", "1,459", "3,021"),
    ("Total net revenue", "", "5,359", "10,712"),
]


def context(name, period, member):
    segment = (
        "<xbrli:segment><xbrldi:explicitMember dimension='us-gaap:StatementBusinessSegmentsAxis'>"
        f"{member}</xbrldi:explicitMember></xbrli:segment>"
        if member
        else ""
    )
    return (
        f"<xbrli:context id='{name}'><xbrli:entity><xbrli:identifier scheme='x'>2488</xbrli:identifier>{segment}"
        f"</xbrli:entity><xbrli:period><xbrli:startDate>{period[0]}</xbrli:startDate><xbrli:endDate>{period[1]}"
        "</xbrli:endDate></xbrli:period></xbrli:context>"
    )


def document(rows=ROWS, cik="0000002488", signed="August 2, 2023", section="Net revenue:") -> bytes:
    contexts, lines = [], [f"<tr><td>{section}</td></tr>"]
    for i, (label, member, *figures) in enumerate(rows):
        cells = []
        for period, figure, half in ((QUARTER, figures[0], "q"), (HALF, figures[1], "h")):
            contexts.append(context(f"c{i}{half}", period, member))
            cells.append(
                f"<td>$</td><td><ix:nonFraction name='{CONCEPT}' contextRef='c{i}{half}' unitRef='usd' scale='6' "
                f"decimals='-6' format='ixt:num-dot-decimal'>{figure}</ix:nonFraction></td>"
            )
        lines.append(f"<tr><td>{label}</td>{''.join(cells)}</tr>")
    return (
        "<html xmlns='http://www.w3.org/1999/xhtml' xmlns:ix='http://www.xbrl.org/2013/inlineXBRL' "
        "xmlns:xbrli='http://www.xbrl.org/2003/instance' xmlns:xbrldi='http://xbrl.org/2006/xbrldi'><body>"
        f"<ix:header><ix:resources>{''.join(contexts)}</ix:resources></ix:header>"
        f"<p><ix:nonNumeric name='dei:EntityCentralIndexKey' contextRef='c0q'>{cik}</ix:nonNumeric>"
        "<ix:nonNumeric name='dei:DocumentType' contextRef='c0q'>10-Q</ix:nonNumeric>"
        "<ix:nonNumeric name='dei:DocumentPeriodEndDate' contextRef='c0q'>July 1, 2023</ix:nonNumeric></p>"
        f"<table>{''.join(lines)}</table><p>SIGNATURE</p><p>{signed} By: /s/ Someone</p></body></html>"
    ).encode()


def read(body, **meta):
    at = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    parsed = SOURCE.parse(Payload("sec-ixbrl", "file:amd.htm", at, "text/html", body, meta=meta))
    return parsed.frames[FINANCIALS], [r.reason for r in parsed.rejects]


def values(frame):
    return {(r["metric"], r["fiscal_period"]): r["value_usd"] / 1e6 for r in frame.iter_rows(named=True)}


def test_the_printed_label_decides_not_the_member():
    found, why = read(document())
    assert not why
    assert values(found)["data_center_revenue", "FY23Q2"] == 1321
    assert values(found)["gaming_revenue", "FY23Q2"] == 1581


def test_the_first_quarter_follows_from_the_half_year_of_the_same_filing():
    found, _ = read(document())
    row = found.filter((found["metric"] == "data_center_revenue") & (found["fiscal_period"] == "FY23Q1")).row(
        0, named=True
    )
    assert (row["value_usd"], row["period_end"]) == (1295e6, dt.date(2023, 4, 1))
    assert row["derivation"].startswith("half year less second quarter")


def test_known_when_signed_or_accepted():
    assert set(read(document())[0]["known_at"]) == {dt.datetime(2023, 8, 2, tzinfo=dt.UTC)}
    accepted = read(document(), accepted="2023-08-02T20:31:05.000Z", accession="0000002488-23-000139")[0]
    assert accepted["known_at_precision"][0] == "second"
    assert accepted["source_url"][0].startswith("https://www.sec.gov/Archives/edgar/data/2488/000000248823000139/")


def test_a_signature_before_the_period_ended_is_not_believed():
    found, _ = read(document(signed="May 2, 2023"))
    assert set(found["known_at_precision"]) == {"retrieved"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("Data Center", "amd:ClientMember", "1,421", "2,616"), *ROWS[1:]], "add up to"),
        (ROWS[:-2] + ROWS[-1:], "add up to"),
        ([*ROWS[:-1], ("Total net revenue", "amd:AllMember", "5,359", "10,712")], "undimensioned total"),
        ([("Data Center", "", "1,321", "2,616"), *ROWS[1:]], "tagged like the total"),
        ([*ROWS[:3], ("Robotics", "amd:EmbeddedMember", "1,459", "3,021"), ROWS[4]], "Robotics"),
        (ROWS[1:], "no tagged table"),
    ],
)
def test_segments_that_do_not_agree_are_refused(rows, message):
    found, why = read(document(rows))
    assert found.is_empty()
    assert message in why[0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (b"<html><body>Not found", "cut short"),
        (b"<html xmlns='http://www.w3.org/1999/xhtml'><body/></html>", "no XBRL contexts"),
        (document(cik="0000320193"), "wrong company"),
        (document()[:-40], "cut short"),
    ],
)
def test_another_document_is_an_error(body, message):
    with pytest.raises(ParseError, match=message):
        read(body)


def test_a_document_fetched_for_another_company_is_an_error():
    with pytest.raises(ParseError, match="fetched for CIK 1045810"):
        read(document(), cik="1045810")


def test_sign_scale_and_zero():
    body = document([("Data Center", "m", "(5)", "x"), *ROWS[1:]])
    tag = b"<ix:nonFraction name='a:B' contextRef='c1q' unitRef='usd' scale='3' sign='-'>1,234.5</ix:nonFraction>"
    zero = b"<ix:nonFraction name='a:C' contextRef='c1q' unitRef='usd' scale='6' format='ixt:fixed-zero'>-</ix:nonFraction>"
    share = b"<ix:nonFraction name='a:D' contextRef='c1q' unitRef='usdPerShare' scale='0'>2.39</ix:nonFraction>"
    facts = read_document(body.replace(b"<table>", b"<p>" + tag + zero + share + b"</p><table>"), "x").facts
    assert {f.concept: f.value for f in facts if f.concept.startswith("a:")} == {"a:B": -1_234_500.0, "a:C": 0.0}


TO_COMMENCE = "us-gaap:OperatingLeaseLeaseNotYetCommencedMember"
COMMITTED = "us-gaap:UnrecordedUnconditionalPurchaseObligationBalanceSheetAmount"
CATEGORY = "us-gaap:UnrecordedUnconditionalPurchaseObligationByCategoryOfItemPurchasedAxis"
RPO = "us-gaap:RevenueRemainingPerformanceObligation"
STARTS = "us-gaap:RevenueRemainingPerformanceObligationExpectedTimingOfSatisfactionStartDateAxis"


def with_prose(*facts, day="2023-07-01"):
    """The document with paragraphs: (words before, concept, axis, member, figure in billions)."""
    contexts, text = [], []
    for i, (words, concept, axis, member, figure) in enumerate(facts):
        kind = "typedMember" if member.startswith("20") else "explicitMember"
        segment = f"<xbrli:segment><xbrldi:{kind} dimension='{axis}'>{member}</xbrldi:{kind}></xbrli:segment>"
        contexts.append(
            f"<xbrli:context id='p{i}'><xbrli:entity><xbrli:identifier scheme='x'>2488</xbrli:identifier>"
            f"{segment if axis else ''}</xbrli:entity><xbrli:period><xbrli:instant>{day}</xbrli:instant></xbrli:period>"
            "</xbrli:context>"
        )
        text.append(
            f"<p>{words} <ix:nonFraction name='{concept}' contextRef='p{i}' unitRef='usd' scale='9'>{figure}"
            "</ix:nonFraction> billion.</p>"
        )
    body = document().decode().replace("</ix:resources>", "".join(contexts) + "</ix:resources>")
    return body.replace("<table>", "".join(text) + "<table>").encode()


def commitments_of(*facts, **more):
    found = values(read(with_prose(*facts, **more))[0])
    return {k: v for k, v in found.items() if not k[0].endswith("revenue")}


def test_leases_to_commence_need_a_standard_member_and_the_words():
    words = "We expect to commence leases with future obligations of"
    assert commitments_of((words, COMMITTED, CATEGORY, TO_COMMENCE, "32.4")) == {
        ("leases_not_yet_commenced", "FY23Q2"): 32_400
    }
    assert commitments_of(("We owe", COMMITTED, CATEGORY, TO_COMMENCE, "32.4")) == {}
    assert commitments_of((words, COMMITTED, CATEGORY, "amd:LeaseNotYetCommencedMember", "32.4")) == {}
    assert commitments_of((words, COMMITTED, CATEGORY, TO_COMMENCE, "32.4"), day="2022-12-31") == {}


def test_performance_obligations_undimensioned_before_timing_only_never_of_one_customer():
    whole = ("Contracts", RPO, "", "", "684")
    timed = ("Contracts", RPO, STARTS, "2023-07-02", "364")
    customer = ("Contracts", RPO, "srt:MajorCustomersAxis", "amzn:OneMember", "38")
    key = ("remaining_performance_obligation", "FY23Q2")
    assert commitments_of(whole, timed, customer) == {key: 684_000}
    assert commitments_of(timed, customer) == {key: 364_000}
    assert commitments_of(customer) == {}


def test_commitments_stated_twice_differently_are_refused():
    found, why = read(
        with_prose(("A", "us-gaap:OtherCommitment", "", "", "6"), ("B", "us-gaap:OtherCommitment", "", "", "7"))
    )
    assert "other_commitment" not in set(found["metric"])
    assert any("two figures" in reason for reason in why)
