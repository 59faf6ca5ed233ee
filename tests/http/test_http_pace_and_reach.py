"""Pacing by groups of hosts, robots.txt, and the breaker that notices a missing network."""

from __future__ import annotations

import ssl
import threading
import time

import httpx
import pytest
from replay import Answer

from sources.base import FetchError, OfflineError
from sources.http_limits import RATES, Breaker, HostLimiter, probe_network
from sources.http_robots import is_documented_api, may_fetch, rules_for


def test_hosts_of_a_group_share_one_rate_over_all_threads(replay, make_web):
    naps: list[float] = []
    limiter = HostLimiter({"group": 50.0}, clock=lambda: 100.0, sleep=naps.append)  # the clock stands still
    limiter.group = lambda _: "group"  # 127.0.0.1 and 127.0.0.2 stand for two hosts of one group
    web = make_web(limiter=limiter, robots_exempt=("",))
    replay.add("/a", Answer(b"{}"))

    def ask(host: str) -> None:
        for _ in range(3):
            web.get(replay.url("/a", host=host))

    threads = [threading.Thread(target=ask, args=(f"127.0.0.{1 + i % 2}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replay.asked) == 12
    assert sorted(naps) == pytest.approx([slot / 50 for slot in range(1, 12)])
    assert {a.headers["Host"].partition(":")[0] for a in replay.asked} == {"127.0.0.1", "127.0.0.2"}


def test_sec_hosts_are_one_group_below_ten_a_second():
    naps: list[float] = []
    limiter = HostLimiter(clock=lambda: 100.0, sleep=naps.append)
    assert {limiter.group(h) for h in ("www.sec.gov", "data.sec.gov", "efts.sec.gov", "sec.gov")} == {"sec.gov"}
    assert limiter.group("notsec.gov") == "notsec.gov"
    assert RATES["sec.gov"] <= 8
    waits = [limiter.wait(h) for h in ("www.sec.gov", "data.sec.gov", "efts.sec.gov")]
    assert waits == pytest.approx([0.0, 0.125, 0.25])
    assert limiter.wait("other.example") == 0.0
    assert limiter.wait("other.example") == pytest.approx(0.5)


def test_retry_after_holds_back_every_thread_of_the_group():
    limiter = HostLimiter(clock=lambda: 100.0, sleep=lambda _: None)
    limiter.hold("www.sec.gov", 5.0)
    assert limiter.wait("data.sec.gov") == 5.0


def test_robots_disallow_is_honoured_and_read_once(replay, web):
    replay.add("/robots.txt", Answer(b"User-agent: *\nDisallow: /\nAllow: /data/\n", media_type="text/plain"))
    replay.add("/data/a", Answer(b"{}"))
    assert web.get(replay.url("/data/a")) is not None
    with pytest.raises(FetchError, match=r"robots\.txt of 127\.0\.0\.1"):
        web.get(replay.url("/private"))
    assert (replay.count("/robots.txt"), replay.count("/private")) == (1, 0)


@pytest.mark.parametrize("answer", [Answer(status=404), Answer(status=500)])
def test_without_a_robots_txt_all_is_allowed(replay, web, answer):
    replay.add("/robots.txt", answer)
    assert web.get(replay.add("/a", Answer(b"{}"))) is not None
    assert replay.count("/robots.txt") == 1


def test_documented_interfaces_are_exempt(replay, make_web):
    replay.add("/robots.txt", Answer(b"User-agent: *\nDisallow: /"))
    web = make_web(robots_exempt=("127.0.0.1/api/",))
    assert web.get(replay.add("/api/a", Answer(b"{}"))) is not None
    assert is_documented_api("https://data.sec.gov/api/xbrl/frames/x.json")
    assert not is_documented_api("https://data.sec.gov.evil.example/api/")


def test_robots_rules_by_the_rfc():
    text = "User-agent: other\nDisallow: /\n\nUser-agent: GPU-Almanac\nUser-agent: x\nDisallow: /*.pdf$\nDisallow: /a\nAllow: /a/b # c\n"
    rules = rules_for(text)
    allowed = {
        path: may_fetch(rules, f"https://h{path}")
        for path in ("/x.pdf", "/x.pdf?y", "/a/c", "/a/b/c", "/", "/robots.txt")
    }
    assert allowed == {"/x.pdf": False, "/x.pdf?y": True, "/a/c": False, "/a/b/c": True, "/": True, "/robots.txt": True}
    assert may_fetch(rules_for("User-agent: *\nDisallow:\n"), "https://h/a")
    assert not may_fetch(rules_for("User-agent: *\nDisallow: /%7Ejoe"), "https://h/~joe/x")


def test_unresolvable_hosts_open_the_breaker_within_five_seconds(make_web):
    web = make_web(breaker=Breaker(probe=lambda: probe_network([("probe.invalid", 443)], 1.0)))
    start = time.monotonic()
    with pytest.raises(OfflineError, match="no network"):
        web.get("https://first.invalid/a")
    for name in ("second", "third"):
        with pytest.raises(OfflineError):
            web.get(f"https://{name}.invalid/a")
    assert time.monotonic() - start < 5.0
    assert web.breaker.open


def test_refused_connections_open_the_breaker_and_later_requests_are_not_made(make_web):
    asked: list[str] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ConnectError("[Errno 111] Connection refused")

    web = make_web(transport=httpx.MockTransport(refuse), breaker=Breaker(probe=lambda: False))
    for host in ("one.example", "two.example"):
        with pytest.raises(OfflineError):
            web.get(f"https://{host}/")
    assert asked == ["one.example"]


def test_one_dead_host_does_not_open_the_breaker(replay, make_web, naps):
    web = make_web(breaker=Breaker(probe=lambda: True))
    with pytest.raises(FetchError, match="does not resolve") as caught:
        web.get("https://dead.invalid/a")
    assert not isinstance(caught.value, OfflineError)
    assert web.get(replay.add("/a", Answer(b"{}"))) is not None
    assert len(naps) == 1


def test_behind_a_proxy_two_dead_hosts_open_the_breaker():
    breaker = Breaker(probe=lambda: pytest.fail("a proxy hides the network from a probe"))
    breaker.failed("one.example", "502", can_probe=False)
    breaker.failed("one.example", "502", can_probe=False)
    assert not breaker.open
    breaker.succeeded()
    breaker.failed("two.example", "502", can_probe=False)
    with pytest.raises(OfflineError):
        breaker.failed("three.example", "502", can_probe=False)


def test_a_private_mirror_is_still_reached_without_internet(replay, make_web):
    web = make_web(breaker=Breaker(probe=lambda: False))
    with pytest.raises(OfflineError):
        web.get("https://dead.invalid/a")
    assert web.get(replay.add("/a", Answer(b"{}"))) is not None


def test_closed_port_on_a_private_host_is_only_that_hosts_failure(make_web):
    web = make_web(breaker=Breaker(probe=lambda: False))
    with pytest.raises(FetchError, match=r"no connection .* \(2 attempts\)"):
        web.get("http://127.0.0.1:1/a")
    assert not web.breaker.open


def test_offline_refuses_before_anything_is_asked(replay, make_web):
    url = replay.add("/a", Answer(b"{}"))
    with pytest.raises(OfflineError, match="offline"):
        make_web(offline=True).get(url)
    assert replay.asked == []


def test_probe_reaches_a_listening_host_and_not_a_closed_port(replay):
    assert probe_network([("127.0.0.1", 1), ("127.0.0.1", replay.server.server_port)], 1.0)
    assert not probe_network([("127.0.0.1", 1)], 1.0)


def test_environment_proxy_is_used(replay, make_web, monkeypatch):
    web = make_web()
    web.close()
    monkeypatch.setenv("HTTP_PROXY", replay.url(""))
    monkeypatch.setenv("NO_PROXY", "")
    replay.answers["http://prices.example/a"] = [Answer(b"via proxy")]
    answer = make_web(robots_exempt=("",)).get("http://prices.example/a")
    assert answer is not None
    assert answer.body == b"via proxy"


def test_untrusted_certificate_is_told_and_is_no_missing_network(make_web):
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("certificate verify failed") from ssl.SSLCertVerificationError("expired")

    web = make_web(transport=httpx.MockTransport(refuse), robots_exempt=("",), breaker=Breaker(probe=lambda: False))
    with pytest.raises(FetchError, match="no trusted connection"):
        web.get("https://one.example/")
    assert not web.breaker.open
