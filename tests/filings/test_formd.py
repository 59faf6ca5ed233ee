"""Form D: funding rounds without persons; pooled funds give no row; amendments are newer versions."""

from __future__ import annotations

import datetime as dt

import pytest

from sources.base import ParseError, Payload
from sources.sec.formd import EVENTS, SOURCE, hits_of, without_persons

NOTICE = """<?xml version="1.0"?>
<edgarSubmission><submissionType>{form}</submissionType>
<primaryIssuer><cik>0001999999</cik><entityName>Example Compute, Inc.</entityName>
<issuerAddress><street1>1 Private Road</street1></issuerAddress><issuerPhoneNumber>555-0100</issuerPhoneNumber>
<jurisdictionOfInc>DELAWARE</jurisdictionOfInc></primaryIssuer>
<relatedPersonsList><relatedPersonInfo><relatedPersonName><firstName>Ada</firstName><lastName>Person</lastName>
</relatedPersonName></relatedPersonInfo></relatedPersonsList>
<offeringData><industryGroup><industryGroupType>{industry}</industryGroupType></industryGroup>
<typeOfFiling><newOrAmendment><isAmendment>false</isAmendment></newOrAmendment>
<dateOfFirstSale><value>2026-03-16</value></dateOfFirstSale></typeOfFiling>
<offeringSalesAmounts><totalOfferingAmount>Indefinite</totalOfferingAmount><totalAmountSold>{sold}</totalAmountSold>
</offeringSalesAmounts><investors><totalNumberAlreadyInvested>13</totalNumberAlreadyInvested></investors>
<signatureBlock><signature><nameOfSigner>Ada Person</nameOfSigner></signature></signatureBlock></offeringData>
</edgarSubmission>"""


def notice(form="D", industry="Other Technology", sold="50000000", filed="2026-03-30") -> Payload:
    body = NOTICE.format(form=form, industry=industry, sold=sold).encode()
    meta = {"accession": "0001999999-26-000001", "filed": filed}
    return Payload("sec-form-d", "file:primary_doc.xml", dt.datetime(2026, 11, 1, tzinfo=dt.UTC), "application/xml", body, meta=meta)  # fmt: skip


def test_a_round_becomes_an_event():
    row = SOURCE.parse(notice()).frames[EVENTS].row(0, named=True)
    assert (row["event_kind"], row["subject"], row["amount_usd"]) == ("funding", "Example Compute, Inc.", 50e6)
    assert row["event_date"] == dt.date(2026, 3, 16)
    assert row["known_at"] == dt.datetime(2026, 3, 30, tzinfo=dt.UTC)
    assert "Indefinite" in row["notes"]


def test_an_amendment_is_a_newer_version_of_the_same_offering():
    first = SOURCE.parse(notice()).frames[EVENTS].row(0, named=True)
    later = SOURCE.parse(notice(form="D/A", sold="80000000", filed="2026-05-02")).frames[EVENTS].row(0, named=True)
    assert first["event_id"] == later["event_id"]
    assert (first["amount"], later["amount"]) == (50e6, 80e6)


def test_pooled_funds_give_no_row():
    parsed = SOURCE.parse(notice(industry="Pooled Investment Fund"))
    assert parsed.frames[EVENTS].is_empty()
    assert not parsed.rejects


def test_persons_are_gone_before_anything_is_kept(tmp_path):
    (tmp_path / "primary_doc.xml").write_bytes(notice().read())
    (payload,) = SOURCE.read([tmp_path], {})
    kept = payload.read()
    for word in (b"Ada", b"Person", b"Private Road", b"555-0100"):
        assert word not in kept
    assert SOURCE.parse(payload).frames[EVENTS].height == 1


def test_an_amount_that_is_a_word_is_refused():
    parsed = SOURCE.parse(notice(sold="Indefinite"))
    assert parsed.frames[EVENTS].is_empty()
    assert "not an amount" in parsed.rejects[0].reason


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"<edgarSubmission><submissionType>D</subm"])
def test_another_document_is_an_error(body):
    with pytest.raises(ParseError):
        without_persons(body, "x.xml")


def test_held_notices(shared):
    found = {p.url: SOURCE.parse(p).frames[EVENTS] for p in SOURCE.read([shared / "data/filings/formd"], {})}
    # A fund series is not a start-up; the other is a real issuer with cumulative amounts.
    assert found["file:APFund_primary_doc.xml"].is_empty()
    row = found["file:Shepards_primary_doc.xml"].row(0, named=True)
    assert (row["amount_usd"], row["quantity"], row["event_id"]) == (5_725_051, 13, "form-d:1544190:2017-03-16")


def test_the_search_answers(shared):
    folder = shared / "data/filings/efts"
    assert hits_of((folder / "search-index_0_hits.json").read_bytes(), "x") == []
    assert hits_of((folder / "search-index_1_hit.json").read_bytes(), "x") == [
        (1865782, "0000950170-25-055890", "2025-04-18")
    ]
    with pytest.raises(ParseError, match="window is too large"):
        hits_of((shared / "data/signals/sec_formd/efts_error_window.json").read_bytes(), "x")
