"""The live fetch over real sockets: a loopback server replays EDGAR, every host of sec.gov leads to it."""

from __future__ import annotations

import json
import threading

import httpx
import pytest
from replay import Answer, replay_server

from filings.release_factory import PLATFORMS, SUMMARY, TEXT, exhibit, table
from filings.test_edgar import ACCESSION, FOLDER, INDEX, OLD, ROWS, columns
from sources.base import FetchError
from sources.http import HttpWeb
from sources.http_limits import RATES, HostLimiter
from sources.sec.companies import BY_TICKER
from sources.sec.companyfacts import MAIN_CONCEPTS, RAW_TABLE
from sources.sec.companyfacts import SOURCE as FACTS
from sources.sec.submissions import everything_filed, releases

NVIDIA = "/api/xbrl/companyfacts/CIK0001045810.json"
PRODUCTIVE = "PaymentsToAcquireProductiveAssets"
CONCEPT = f"/api/xbrl/companyconcept/CIK0001045810/us-gaap/{PRODUCTIVE}.json"
OLDER = "CIK0001045810-submissions-001.json"


class ToLoopback(httpx.BaseTransport):
    """Carries each request to the server on loopback, under the host name it was meant for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Host"] = request.url.host
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self.port)
        return self.inner.handle_request(request)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def edgar():
    with replay_server() as replay:
        yield replay


@pytest.fixture
def web(edgar, monkeypatch):
    monkeypatch.delenv("ALMANAC_CONTACT", raising=False)
    transport = ToLoopback(edgar.server.server_port)
    with HttpWeb(contact="ops@example.org", transport=transport, limiter=HostLimiter(RATES)) as web:
        yield web


def only(monkeypatch, *tickers):
    monkeypatch.setattr("sources.sec.companyfacts.COMPANIES", tuple(BY_TICKER[t] for t in tickers))


def test_an_undeclared_tool_is_refused_once_and_asks_no_more(edgar, web):
    edgar.add(NVIDIA, Answer(b"<html>Undeclared Automated Tool</html>", 403, media_type="text/html"))
    with pytest.raises(FetchError, match="undeclared automated tool"):
        list(FACTS.fetch(web))
    assert len(edgar.asked) == 1
    assert "ops@example.org" in edgar.asked[0].headers["User-Agent"]
    assert edgar.asked[0].headers["Host"] == "data.sec.gov"


def test_after_a_refusal_no_other_host_of_edgar_is_asked(edgar, web):
    edgar.add(NVIDIA, Answer(b"<html>Undeclared Automated Tool</html>", 403, media_type="text/html"))
    with pytest.raises(FetchError):
        list(FACTS.fetch(web))
    with pytest.raises(FetchError):
        web.get("https://www.sec.gov/files/company_tickers.json")
    assert len(edgar.asked) == 1


def test_without_a_contact_nothing_is_asked(edgar, monkeypatch):
    monkeypatch.delenv("ALMANAC_CONTACT", raising=False)
    transport = ToLoopback(edgar.server.server_port)
    with HttpWeb(transport=transport, limiter=HostLimiter(RATES)) as web, pytest.raises(FetchError, match="CONTACT"):
        list(FACTS.fetch(web))
    assert edgar.asked == []


def test_a_concept_never_used_is_404_and_no_error(edgar, web, monkeypatch):
    """No whole file: the main concepts are asked one by one, all but one were never used."""
    only(monkeypatch, "NVDA")
    fact = {
        "start": "2026-01-26",
        "end": "2026-04-26",
        "val": 1758000000,
        "accn": "0001045810-26-000052",
        "fy": 2027,
        "fp": "Q1",
        "form": "10-Q",
        "filed": "2026-05-20",
    }
    concept = {
        "cik": 1045810,
        "taxonomy": "us-gaap",
        "tag": PRODUCTIVE,
        "label": "Payments",
        "entityName": "NVIDIA CORP",
        "units": {"USD": [fact]},
    }
    edgar.add(CONCEPT, Answer(json.dumps(concept).encode()))
    (payload,) = FACTS.fetch(web)
    assert len(edgar.asked) == 1 + len(MAIN_CONCEPTS)
    assert payload.stream == f"CIK0001045810 us-gaap:{PRODUCTIVE}"
    row = FACTS.parse(payload).frames[RAW_TABLE].row(0, named=True)
    assert (row["entity"], row["concept"], row["val"]) == ("NVDA", f"us-gaap:{PRODUCTIVE}", 1758000000.0)


def test_older_submission_pages_are_fetched(edgar, web):
    first = {"cik": "0001045810", "filings": {"recent": columns(*ROWS), "files": [{"name": OLDER}]}}
    edgar.add("/submissions/CIK0001045810.json", Answer(json.dumps(first).encode()))
    edgar.add(f"/submissions/{OLDER}", Answer(json.dumps(columns(*OLD)).encode()))
    assert [f.accession for f in everything_filed(web, BY_TICKER["NVDA"])] == [r[0] for r in (*ROWS, *OLD)]
    assert edgar.count(f"/submissions/{OLDER}") == 1


def test_a_release_comes_over_two_hosts(edgar, web):
    commentary = exhibit("EX-99.2", "q3fy26cfo.htm", table(SUMMARY) + table(PLATFORMS))
    first = {"cik": "0001045810", "filings": {"recent": columns(*ROWS), "files": []}}
    edgar.add("/submissions/CIK0001045810.json", Answer(json.dumps(first).encode()))
    edgar.add(f"{FOLDER}{ACCESSION}-index.html", Answer(INDEX.format(folder=FOLDER).encode(), media_type="text/html"))
    edgar.add(f"{FOLDER}q3fy26pr.htm", Answer(exhibit("EX-99.1", "q3fy26pr.htm", TEXT), media_type="text/html"))
    edgar.add(f"{FOLDER}q3fy26cfo.htm", Answer(commentary, media_type="text/html"))
    (payload,) = releases(web, "sec-release", ("NVDA",))
    assert payload.meta["accession"] == ACCESSION
    assert {a.headers["Host"] for a in edgar.asked} == {"data.sec.gov", "www.sec.gov"}


@pytest.mark.slow
def test_three_hosts_and_four_threads_together_ask_at_most_ten_a_second(edgar, web):
    """Measured where the requests arrive: 32 and those for robots.txt, over three hosts, at most ten in any second."""
    edgar.add("/pace.json", Answer(b'{"a": 1}'))
    hosts = ("data.sec.gov", "www.sec.gov", "efts.sec.gov", "data.sec.gov")

    def ask(host: str) -> None:
        for _ in range(8):
            web.get(f"https://{host}/pace.json", conditional=False)

    threads = [threading.Thread(target=ask, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = sorted(a.at for a in edgar.asked)
    assert edgar.count("/pace.json") == 32
    assert max(sum(at <= other < at + 1.0 for other in times) for at in times) <= 10
    assert {a.headers["Host"] for a in edgar.asked} == {"data.sec.gov", "www.sec.gov", "efts.sec.gov"}
