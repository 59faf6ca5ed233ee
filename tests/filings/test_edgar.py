"""Finding filings: real submissions and indexes, and the live fetch against a replay of EDGAR."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from filings.release_factory import PLATFORMS, SUMMARY, TEXT, exhibit, table
from sources.base import FetchError, ParseError
from sources.http import HttpWeb
from sources.http_limits import RATES, HostLimiter
from sources.sec.bundles import group_local, pack, unpack
from sources.sec.companies import BY_TICKER, planned_end
from sources.sec.companyfacts import SOURCE as FACTS
from sources.sec.figures import FINANCIALS
from sources.sec.formd import SOURCE as FUNDING
from sources.sec.release import SOURCE as RELEASE
from sources.sec.submissions import everything_filed, exhibits_of, filings_of, older_pages, releases, reports

ACCESSION = "0001045810-25-000228"
FOLDER = "/Archives/edgar/data/1045810/000104581025000228/"
INDEX = """<html><body><table class="tableFile" summary="Document Format Files">
<tr><th>Seq</th><th>Description</th><th>Document</th><th>Type</th><th>Size</th></tr>
<tr><td>1</td><td>8-K</td><td><a href="/ix?doc={folder}nvda.htm">nvda.htm</a></td><td>8-K</td><td>1</td></tr>
<tr><td>2</td><td></td><td><a href="{folder}q3fy26pr.htm">q3fy26pr.htm</a></td><td>EX-99..1</td><td>1</td></tr>
<tr><td>3</td><td></td><td><a href="{folder}q3fy26cfo.htm">q3fy26cfo.htm</a></td><td>EX-99.2</td><td>1</td></tr>
<tr><td>4</td><td></td><td><a href="{folder}logo.jpg">logo.jpg</a></td><td>GRAPHIC</td><td>1</td></tr>
</table><table class="tableFile" summary="Data Files">
<tr><td>5</td><td></td><td><a href="{folder}nvda.xsd">nvda.xsd</a></td><td>EX-99.3</td><td>1</td></tr></table></body></html>"""


def columns(*rows):
    names = ("accessionNumber", "form", "items", "filingDate", "acceptanceDateTime", "reportDate", "primaryDocument")
    return dict(zip(names, (list(c) for c in zip(*rows, strict=True)), strict=True))


RESULTS = (ACCESSION, "8-K", "2.02,9.01", "2025-11-19", "2025-11-19T21:17:04.000Z", "2025-11-19", "nvda.htm")
ROWS = (
    RESULTS,
    ("0001045810-25-000001", "8-K", "12.02", "2025-01-02", "2025-01-02T21:00:00.000Z", "2025-01-02", "a.htm"),
    ("0001045810-23-000002", "EFFECT", "S-3,,2023-05-31 17:00:00", "2023-05-31", "2023-05-31T21:00:00.000Z", "", ""),
)
OLD = (("0001045810-10-000003", "10-K", "", "2010-03-18", "2010-03-18T21:00:00.000Z", "2010-01-31", "old.htm"),)
SUBMISSIONS = {
    "cik": "0001045810",
    "filings": {"recent": columns(*ROWS), "files": [{"name": "CIK0001045810-submissions-001.json"}]},
}


class Edgar:
    """Answers like EDGAR's three hosts and notes when it was asked."""

    def __init__(self, refuse: str = "") -> None:
        self.asked: list[tuple[float, str]] = []
        self.refuse = refuse
        commentary = exhibit("EX-99.2", "q3fy26cfo.htm", table(SUMMARY) + table(PLATFORMS))
        self.pages = {
            "data.sec.gov/submissions/CIK0001045810.json": json.dumps(SUBMISSIONS).encode(),
            "data.sec.gov/submissions/CIK0001045810-submissions-001.json": json.dumps(columns(*OLD)).encode(),
            f"www.sec.gov{FOLDER}{ACCESSION}-index.html": INDEX.format(folder=FOLDER).encode(),
            f"www.sec.gov{FOLDER}q3fy26pr.htm": exhibit("EX-99.1", "q3fy26pr.htm", TEXT),
            f"www.sec.gov{FOLDER}q3fy26cfo.htm": commentary,
        }

    def __call__(self, request: httpx.Request) -> httpx.Response:
        key = request.url.host + request.url.path
        self.asked.append((time.monotonic(), key))
        if self.refuse and self.refuse in key:
            return answer(403, b"<html>Undeclared Automated Tool</html>")
        body = self.pages.get(key)
        return answer(200, body) if body else answer(404, b"no such document")


def answer(status, body):
    return httpx.Response(status, stream=httpx.ByteStream(body))


def web_of(edgar, monkeypatch, **options):
    monkeypatch.delenv("ALMANAC_CONTACT", raising=False)
    monkeypatch.setattr("sources.http.resolve", lambda *_: ["192.0.2.1"])
    settings = {"limiter": HostLimiter(RATES, sleep=lambda _: None), "sleep": lambda _: None} | options
    return HttpWeb(contact="ops@example.org", transport=httpx.MockTransport(edgar), **settings)


def test_item_202_is_matched_exactly():
    assert [f.is_results for f in filings_of(SUBMISSIONS)] == [True, False, False]


def test_a_page_with_columns_of_unlike_length_is_damaged():
    broken = {"filings": {"recent": columns(*ROWS) | {"form": ["8-K"]}}}
    with pytest.raises(ParseError, match="differ in length"):
        filings_of(broken)


def test_exhibits_by_type_even_with_a_typo_and_not_from_the_data_files():
    found = exhibits_of(INDEX.format(folder=FOLDER))
    assert [kind for kind, _ in found] == ["8-K", "EX-99.1", "EX-99.2", "GRAPHIC"]
    assert found[1][1] == f"https://www.sec.gov{FOLDER}q3fy26pr.htm"
    assert found[0][1] == f"https://www.sec.gov{FOLDER}nvda.htm"


def test_nvidias_submissions_hold_25_results_for_24_quarters(shared):
    document = json.loads((shared / "data/filings/submissions/CIK0001045810_NVDA.json").read_text())
    results = [f for f in filings_of(document) if f.is_results and f.filed >= "2020-08-01"]
    assert len(results) == 25
    early = [f for f in results if f.accession == "0001045810-22-000133"]
    assert [f.filed for f in early] == ["2022-08-08"]
    assert len(results) - len(early) == 24


def test_exhibits_of_real_indexes(shared):
    folder = shared / "data/filings/filing_index"
    nvidia = exhibits_of((folder / "NVDA_8K_0001045810-26-000019-index.html").read_text())
    assert [u.rpartition("/")[2] for k, u in nvidia if k.startswith("EX-99")] == [
        "q4fy26pr.htm",
        "q4fy26cfocommentary.htm",
    ]


def test_a_release_comes_with_its_exhibits_and_the_time_of_acceptance(monkeypatch):
    (payload,) = releases(web_of(Edgar(), monkeypatch), "sec-release", ("NVDA",))
    meta, exhibits = unpack(payload)
    assert meta["accepted"] == "2025-11-19T21:17:04.000Z"
    assert [e.type for e in exhibits] == ["EX-99.1", "EX-99.2"]
    row = RELEASE.parse(payload).frames[FINANCIALS].row(0, named=True)
    assert (row["accession"], f"{row['known_at']:%H:%M}") == (ACCESSION, "21:17")


def test_the_same_filing_gives_the_same_bytes(monkeypatch):
    bodies = {next(releases(web_of(Edgar(), monkeypatch), "sec-release", ("NVDA",))).sha256() for _ in range(2)}
    assert len(bodies) == 1


def test_older_pages_are_read(monkeypatch):
    assert older_pages(SUBMISSIONS) == ["https://data.sec.gov/submissions/CIK0001045810-submissions-001.json"]
    filed = list(everything_filed(web_of(Edgar(), monkeypatch), BY_TICKER["NVDA"]))
    assert [f.accession for f in filed] == [r[0] for r in (*ROWS, *OLD)]


def test_reports_reach_back_into_the_older_pages(monkeypatch):
    edgar = Edgar()
    edgar.pages["www.sec.gov/Archives/edgar/data/1045810/000104581010000003/old.htm"] = b"<html/>"
    (payload,) = reports(web_of(edgar, monkeypatch), "sec-ixbrl", ("NVDA",))
    assert (payload.meta["form"], payload.meta["accepted"]) == ("10-K", "2010-03-18T21:00:00.000Z")


def test_a_filing_that_is_gone_is_passed_over(monkeypatch):
    edgar = Edgar()
    del edgar.pages[f"www.sec.gov{FOLDER}{ACCESSION}-index.html"]
    assert list(releases(web_of(edgar, monkeypatch), "sec-release", ("NVDA",))) == []


def test_a_page_that_is_no_list_of_filings_is_a_fetch_error(monkeypatch):
    edgar = Edgar()
    edgar.pages["data.sec.gov/submissions/CIK0001045810.json"] = b'{"filings": {"recent": {}}}'
    with pytest.raises(FetchError, match="not a list of filings"):
        list(releases(web_of(edgar, monkeypatch), "sec-release", ("NVDA",)))


def test_a_fund_search_that_is_refused_is_a_fetch_error(monkeypatch):
    edgar = Edgar()
    edgar.pages["efts.sec.gov/LATEST/search-index"] = b'{"errorMessage": "window is too large"}'
    with pytest.raises(FetchError, match="window is too large"):
        list(FUNDING.fetch(web_of(edgar, monkeypatch)))


def test_an_undeclared_tool_is_told_so_and_asks_no_more(monkeypatch):
    edgar = Edgar(refuse="companyfacts")
    with pytest.raises(FetchError, match="undeclared automated tool"):
        list(FACTS.fetch(web_of(edgar, monkeypatch)))
    assert len(edgar.asked) == 1


def test_a_filer_without_facts_is_passed_over(monkeypatch):
    edgar = Edgar()
    edgar.pages["data.sec.gov/api/xbrl/companyfacts/CIK0000002488.json"] = b"{}"
    got = list(FACTS.fetch(web_of(edgar, monkeypatch)))
    assert [p.stream for p in got] == ["CIK0000002488"]


def test_all_hosts_of_edgar_share_one_pace(monkeypatch):
    """Eighteen requests over data and www: at most ten in any second."""
    edgar = Edgar()
    pace = HostLimiter(RATES)
    web = web_of(edgar, monkeypatch, limiter=pace, sleep=time.sleep)
    for _ in range(9):
        web.get("https://data.sec.gov/submissions/CIK0001045810.json", conditional=False)
        web.get(f"https://www.sec.gov{FOLDER}q3fy26pr.htm", conditional=False)
    times = [at for at, _ in edgar.asked]
    assert len(times) == 18
    assert max(sum(1 for other in times if 0 <= other - at < 1.0) for at in times) <= 10


def test_packed_filings_round_trip_and_depend_on_nothing_else():
    members = [("a.htm", b"<html>1</html>")]
    assert pack({"x": "1", "a": "2"}, members) == pack({"a": "2", "x": "1"}, members)


def test_local_exhibits_of_one_filing_go_together(tmp_path):
    names = ["NVDA_q1fy27_EX-99.1.htm", "NVDA_q1fy27_EX-99.2_CFO_commentary.htm", "MU_a2026q2_EX-99.1.htm"]
    for name in names:
        (tmp_path / name).write_text("<html></html>")
    groups = [[name for _, name in g] for g in group_local([(tmp_path / n, n) for n in names])]
    assert groups == [["MU_a2026q2_EX-99.1.htm"], names[:2]]


@pytest.mark.parametrize(
    ("ticker", "year", "quarter", "end"),
    [
        ("NVDA", 2027, 3, "2026-10-25"),
        ("NVDA", 2026, 4, "2026-01-25"),
        ("AMD", 2022, 1, "2022-03-26"),
        ("MU", 2026, 4, "2026-09-03"),
        ("ORCL", 2027, 1, "2026-08-31"),
        ("MSFT", 2026, 3, "2026-03-31"),
    ],
)
def test_planned_ends_of_quarters(ticker, year, quarter, end):
    assert str(planned_end(BY_TICKER[ticker], year, quarter)) == end


@pytest.mark.parametrize(
    ("ticker", "year", "quarter", "end"),
    [
        ("AVGO", 2026, 3, "2026-08-02"),
        ("AVGO", 2026, 4, "2026-11-01"),
        ("AVGO", 2024, 1, "2024-02-04"),
        ("MRVL", 2027, 2, "2026-08-01"),
        ("INTC", 2022, 1, "2022-04-02"),
        ("DELL", 2024, 4, "2024-02-02"),
        ("FN", 2025, 4, "2025-06-27"),
        ("LITE", 2025, 4, "2025-06-28"),
        ("CRDO", 2025, 4, "2025-05-03"),
    ],
)
def test_planned_ends_of_52_53_week_years(ticker, year, quarter, end):
    """Broadcom and Intel put the 53rd week into the first quarter (FY24Q1, FY22Q1)."""
    assert str(planned_end(BY_TICKER[ticker], year, quarter)) == end


def test_quarters_of_a_long_year_whose_long_quarter_is_unknown_have_no_date():
    assert planned_end(BY_TICKER["CRDO"], 2025, 2) is None


def test_every_company_of_the_watch_list_has_a_calendar():
    assert all(planned_end(c, 2027, 4) for c in BY_TICKER.values())


@pytest.mark.parametrize("table_name", ["nvda_datacenter", "amd_datacenter", "capex_actuals"])
def test_planned_ends_agree_with_every_reported_end(shared, table_name):
    import polars as pl

    rows = pl.read_csv(shared / f"facts/{table_name}.csv").filter(pl.col("fiscal_period").str.contains("Q"))
    for entity, period, end in rows.select("entity", "fiscal_period", "period_end").unique().iter_rows():
        assert str(planned_end(BY_TICKER[entity], 2000 + int(period[2:4]), int(period[5]))) == end
