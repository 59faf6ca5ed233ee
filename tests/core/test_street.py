"""The gate at landing: what lands, what is refused, what blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assets.street import StreetReport, fetch_into_archive, land_pending, receive
from tests.core.fakes import TABLE, Figures, body, many, row
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.financials import Financial
from warehouse.schema.ops import QualityResult, QuarantineRecord


@pytest.fixture
def at(home: Path) -> Home:
    return Home.at(home).prepare()


def load(at: Home, *bodies: bytes) -> StreetReport:
    return receive(at, Figures(*bodies), Figures(*bodies).payloads())


def values(at: Home) -> list[float]:
    return sorted(Lake(at.lake).scan(Financial).collect()["value"].to_list())


def counts(report: StreetReport) -> tuple[int, int, int, int]:
    total = [(c.read, c.landed, c.rejected, c.duplicate) for c in (one.counts for one in report.landed)]
    return tuple(map(sum, zip(*total, strict=True)))  # type: ignore[return-value]


def test_good_rows_land_and_bad_ones_go_to_quarantine_with_reasons(at: Home) -> None:
    absurd = row("AAA", "FY03Q1", 9e15)
    negative = row("AAA", "FY04Q1", -1.0, metric="capex_cash_ppe", period_basis="decade")
    good = row("AAA", "FY01Q1", 5.0)
    conflict = row("AAA", "FY01Q1", 6.0)
    report = load(at, body(good, absurd, negative, conflict, row("AAA", "FY02Q1", 7.0), {"entity": "AAA"}))
    assert values(at) == [5.0, 7.0]
    assert counts(report) == (6, 2, 4, 0)
    quarantined = Lake(at.lake).scan(QuarantineRecord).collect()
    assert set(quarantined["rule"]) == {
        "value_usd <= 2e+12",
        "period_basis is one of quarter, half, nine_months, year, month, instant",
        "key is unique",
        "value is given",
    }
    raw = [json.loads(r) for r in quarantined.filter(quarantined["rule"].str.starts_with("value_usd"))["raw"]]
    assert raw[0]["value"] == 9e15


def test_the_same_document_again_is_a_no_op(at: Home) -> None:
    first = load(at, body(*many(5)))
    again = load(at, body(*many(5)))
    assert counts(first) == (5, 5, 0, 0)
    assert again.landed == []
    assert len(values(at)) == 5


def test_another_document_with_the_same_rows_counts_duplicates(at: Home) -> None:
    load(at, body(*many(5)))
    report = load(at, body(*many(6)))
    assert counts(report) == (6, 1, 0, 5)


def test_two_vintages_are_kept_whatever_the_order(at: Home, tmp_path: Path) -> None:
    old, new = body(row("AAA", "FY01Q1", 9915.0, "2016-02-01")), body(row("AAA", "FY01Q1", 9950.0, "2017-02-01"))
    other = Home.at(tmp_path / "other").prepare()
    load(at, old)
    load(at, new)
    load(other, new)
    load(other, old)
    assert values(at) == values(other) == [9915.0, 9950.0]


@pytest.mark.parametrize(
    ("second", "rule"),
    [
        (body(*many(30, factor=1000)), "the magnitude of value does not change"),
        (body(*many(3)), "the number of rows does not collapse"),
        (body(*(dict(r, surprise=1) for r in many(30))), "the columns are the declared ones"),
        (body(*({**r, "period_basis": "decade"} for r in many(30))), "of the rows"),
    ],
    ids=["magnitude x1000", "row count collapse", "schema drift", "too many refused"],
)
def test_a_batch_that_breaks_a_table_rule_lands_nothing(at: Home, second: bytes, rule: str) -> None:
    load(at, body(*many(30)))
    before = values(at)
    report = load(at, second)
    assert values(at) == before
    (landed,) = report.landed
    assert landed.status == "blocked"
    assert rule in landed.reason
    assert report.failed
    assert landed.counts.read == landed.counts.rejected
    assert landed.counts.landed == 0


def test_a_blocked_stream_does_not_stop_the_others(at: Home) -> None:
    source = Figures()
    a, b = Figures(body(*many(30))), Figures(body(*(dict(r, entity="BBB") for r in many(30))))
    receive(at, source, [*a.payloads(stream="a"), *b.payloads(stream="b")])
    bad = Figures(body(*many(30, factor=1000, known="2026-06-01")))
    good = Figures(body(*(dict(r, entity="BBB") for r in many(31))))
    report = receive(at, source, [*bad.payloads(stream="a"), *good.payloads(stream="b")])
    assert len(values(at)) == 61
    assert [one.status for one in report.landed] == ["landed"]
    assert report.landed[0].reason.startswith("a: the magnitude")


def test_a_blocked_document_stays_a_failure_until_a_good_one_comes(at: Home) -> None:
    load(at, body(*many(30)))
    load(at, body(*many(30, factor=1000)))
    still = land_pending(at, Figures())
    assert [reason for _, reason in still.still_blocked] != []
    assert still.failed
    load(at, body(*many(30)), body(*many(30, factor=1000)), body(*many(31)))
    assert not land_pending(at, Figures()).failed


def test_an_unreadable_document_is_quarantined_and_the_rest_lands(at: Home) -> None:
    report = load(at, b"<html>blocked</html>", body(*many(2)))
    assert len(values(at)) == 2
    assert report.failed
    (url, why) = report.unreadable[0]
    assert url == "file:0.json"
    assert "is not JSON" in why
    assert Lake(at.lake).scan(QuarantineRecord).collect()["raw"].to_list() == ["<html>blocked</html>"]


def test_every_expectation_is_recorded(at: Home) -> None:
    load(at, body(*many(2)))
    results = Lake(at.lake).scan(QualityResult).collect()
    assert results["passed"].all()
    assert {"entity is given", "the columns are the declared ones"} <= set(results["expectation"])


def test_a_newer_parser_reads_the_archive_again_and_replaces_its_rows(at: Home) -> None:
    load(at, body(*many(3)))

    class Fixed(Figures):
        version = 2

        def parse(self, payload):  # type: ignore[no-untyped-def]
            parsed = super().parse(payload)
            frame = parsed.frames[TABLE]
            return type(parsed)({TABLE: frame.with_columns(value=frame["value"] * 2, value_usd=frame["value"] * 2)})

    land_pending(at, Fixed())
    assert values(at) == [2 * r["value"] for r in many(3)]  # type: ignore[operator]


def test_a_source_that_cannot_be_fetched_is_reported_and_nothing_is_lost(at: Home) -> None:
    load(at, body(*many(3)))
    report = fetch_into_archive(at, Figures(problem="https://example.org answered 403"), None)  # type: ignore[arg-type]
    land_pending(at, Figures(), report)
    assert report.failed
    assert list(report.complaints()) == ["test-figures: https://example.org answered 403"]
    assert len(values(at)) == 3


def test_snapshot_sources_replace_their_slice(at: Home) -> None:
    class Snapshot(Figures):
        landing = "snapshot"

    receive(at, Snapshot(), Snapshot(body(*many(3))).payloads())
    receive(at, Snapshot(), Snapshot(body(row("BBB", "FY01Q1", 1.0))).payloads())
    assert values(at) == [1.0]
    back = receive(at, Snapshot(), Snapshot(body(*many(3))).payloads())
    assert len(values(at)) == 3
    assert back.landed[0].status == "landed"
