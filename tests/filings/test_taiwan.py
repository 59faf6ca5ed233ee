"""Monthly revenue: the ROC calendar, thousand-dollar units, and TSMC's two tables that must agree."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from filings.release_factory import table
from sources.base import ParseError, Payload
from sources.sec.figures import FINANCIALS
from sources.sec.tsmc_revenue import SOURCE as TSMC
from sources.twse import SOURCE as EXCHANGE
from sources.twse import roc_day, roc_month

AT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
ROW = {
    "出表日期": "1130610",
    "資料年月": "11305",
    "公司代號": "2330",
    "公司名稱": "台積電",
    "產業別": "半導體業",
    "營業收入-當月營收": "229620372",
    "營業收入-上月營收": "236021112",
    "營業收入-上月比較增減(%)": "-2.7119",
}


def exchange(*rows) -> Payload:
    body = json.dumps(rows, ensure_ascii=False).encode()
    return Payload("twse-revenue", "file:t187ap05_L.json", AT, "application/json", body)


def test_the_month_counts_from_1911_and_the_unit_is_a_thousand():
    row = EXCHANGE.parse(exchange(ROW)).frames[FINANCIALS].row(0, named=True)
    assert (row["entity"], row["fiscal_period"], row["value"], row["currency"]) == (
        "TSM",
        "2024-05",
        229_620_372_000,
        "TWD",
    )
    assert row["value_usd"] is None
    assert (row["period_start"], row["period_end"]) == (dt.date(2024, 5, 1), dt.date(2024, 5, 31))
    assert row["known_at"] == dt.datetime(2024, 6, 10, tzinfo=dt.UTC)


def test_companies_nobody_watches_are_left_out():
    assert EXCHANGE.parse(exchange(ROW | {"公司代號": "1101"})).frames[FINANCIALS].is_empty()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("營業收入-當月營收", "229.6", "whole number"),
        ("營業收入-上月比較增減(%)", "12.0", "does not follow"),
        ("資料年月", "2024-05", "ROC"),
    ],
)
def test_a_row_whose_columns_moved_is_refused(key, value, message):
    parsed = EXCHANGE.parse(exchange(ROW | {key: value}))
    assert parsed.frames[FINANCIALS].is_empty()
    assert message in parsed.rejects[0].reason


def test_roc_calendar():
    assert roc_month("11503") == (2026, 3)
    assert roc_month("9912") == (2010, 12)
    assert roc_day("1150411") == dt.date(2026, 4, 11)
    assert roc_day("1150231") is None
    with pytest.raises(ValueError, match="month"):
        roc_month("11513")


@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b'{"a": 1}', b'[{"a": 1'])
def test_another_answer_is_an_error(body):
    with pytest.raises(ParseError):
        EXCHANGE.parse(Payload("twse-revenue", "file:x.json", AT, "application/json", body))


MILLIONS = [
    ("(Unit:NT$ million)",),
    ("Period", "May 2024", "April 2024", "M-o-M Increase (Decrease) %", "May 2023"),
    ("Net Revenue", "229,620", "236,021", "(2.7)", "176,537"),
]
THOUSANDS = [("Period", "Items", "2024", "2023"), ("May", "Net Revenue", "229,620,372", "176,537,345")]


def wide_first(rows):
    """The second table labels its rows in two columns."""
    head, body = rows
    cells = "".join(f'<td colspan="3">{c}</td>' for c in head)
    figures = f'<td colspan="3">{body[0]}</td><td colspan="3">{body[1]}</td>' + "".join(
        f'<td colspan="2">{c}</td><td></td>' for c in body[2:]
    )
    return f"<table><tr>{cells}</tr><tr>{figures}</tr></table>"


def report(millions=MILLIONS, thousands=THOUSANDS) -> Payload:
    html = f"<html><body><p>TSMC May Revenue Report</p>{table(millions)}{wide_first(thousands)}</body></html>"
    return Payload("sec-tsmc-revenue", "file:tsm-revenue20240607x6k.htm", AT, "text/html", html.encode())


def test_tsmc_months_with_the_exact_figure_where_there_is_one():
    parsed = TSMC.parse(report())
    assert not parsed.rejects
    rows = {r["fiscal_period"]: r for r in parsed.frames[FINANCIALS].iter_rows(named=True)}
    # The month before stands in NT$ million only.
    assert {p: r["value"] for p, r in rows.items()} == {
        "2024-05": 229_620_372_000,
        "2024-04": 236_021_000_000,
        "2023-05": 176_537_345_000,
    }
    assert rows["2024-05"]["known_at"] == dt.datetime(2024, 6, 7, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("millions", "thousands", "message"),
    [
        ([("(Unit:NT$ thousand)",), *MILLIONS[1:]], THOUSANDS, "NT$ million"),
        (MILLIONS, [THOUSANDS[0], ("May", "Net Revenue", "229,620", "176,537")], "in the other"),
        (MILLIONS, [("Period", "Items", "x", "y"), THOUSANDS[1]], "cannot be read"),
        ([MILLIONS[0], ("Period", "a", "b", "c", "d"), MILLIONS[2]], THOUSANDS, "months in its heading"),
    ],
)
def test_tsmc_tables_that_disagree_are_refused(millions, thousands, message):
    parsed = TSMC.parse(report(millions, thousands))
    assert parsed.frames[FINANCIALS].is_empty()
    assert message in parsed.rejects[0].reason
