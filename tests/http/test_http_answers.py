"""What each kind of answer leads to."""

from __future__ import annotations

import datetime as dt
import gzip
import zlib

import httpx
import pytest
from replay import Answer

from sources.base import FetchError
from sources.http import Patience
from sources.http_body import read_bounded
from sources.http_errors import StatusError, seconds_to_wait

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def test_200_gives_bytes_type_and_validators(replay, make_web):
    url = replay.add(
        "/a", Answer(b'{"a":1}', headers={"ETag": '"v1"', "Last-Modified": "Mon, 30 Nov 2026 00:00:00 GMT"})
    )
    answer = make_web(now=lambda: NOON).get(url)
    assert answer is not None
    assert (answer.status, answer.body, answer.media_type, answer.url) == (200, b'{"a":1}', "application/json", url)
    assert (answer.etag, answer.last_modified, answer.retrieved_at) == ('"v1"', "Mon, 30 Nov 2026 00:00:00 GMT", NOON)


def test_user_agent_names_project_version_and_contact(replay, web):
    web.get(replay.add("/a", Answer(b"{}")))
    assert replay.last("/a").headers["User-Agent"] == "gpu-almanac/0.1.0 (ops@example.org)"


def test_304_is_none_and_remembered(replay, make_web):
    url = replay.add("/a", Answer(status=304))
    web = make_web(
        validators=lambda u: ('"v1"', "Mon, 30 Nov 2026 00:00:00 GMT") if u == url else None, now=lambda: NOON
    )
    assert web.get(url) is None
    assert web.not_modified == {url: NOON}
    assert replay.last("/a").headers["If-None-Match"] == '"v1"'
    assert replay.last("/a").headers["If-Modified-Since"] == "Mon, 30 Nov 2026 00:00:00 GMT"


def test_unconditional_get_sends_no_validators(replay, make_web):
    url = replay.add("/a", Answer(b"{}"))
    assert make_web(validators=lambda _: ('"v1"', None)).get(url, conditional=False) is not None
    assert replay.last("/a").headers["If-None-Match"] is None


def test_304_out_of_the_blue_is_an_error(replay, web):
    with pytest.raises(FetchError, match="304"):
        web.get(replay.add("/a", Answer(status=304)))


def test_403_stops_at_once(replay, web, naps):
    with pytest.raises(StatusError, match=r"403.*not tried again") as caught:
        web.get(replay.add("/a", Answer(b"no", 403)))
    assert (caught.value.status, replay.count("/a"), naps) == (403, 1, [])


def test_sec_undeclared_tool_is_explained_and_ends_the_site_for_this_run(replay, web):
    url = replay.add(
        "/a", Answer(b"<h1>Your Request Originates from an Undeclared Automated Tool</h1>", 403, media_type="text/html")
    )
    with pytest.raises(FetchError, match="ALMANAC_CONTACT"):
        web.get(url)
    with pytest.raises(FetchError, match="undeclared automated tool"):
        web.get(url)
    assert replay.count("/a") == 1


def test_sec_needs_a_contact_before_any_request(make_web):
    asked: list[str] = []
    transport = httpx.MockTransport(lambda request: asked.append(str(request.url)) or httpx.Response(200))
    web = make_web(contact="", transport=transport)
    with pytest.raises(FetchError, match="set ALMANAC_CONTACT"):
        web.get("https://data.sec.gov/submissions/CIK0001045810.json")
    assert asked == []


def test_contact_from_the_environment_comes_first(make_web, monkeypatch):
    monkeypatch.setenv("ALMANAC_CONTACT", "env@example.org")
    assert make_web(contact="file@example.org").contact == "env@example.org"


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("Mon, 30 Nov 2026 12:00:09 GMT", 9.0)])
def test_429_waits_as_long_as_it_is_told(replay, make_web, naps, value, seconds):
    url = replay.add("/a", Answer(status=429, headers={"Retry-After": value}), Answer(b"{}"))
    assert make_web(now=lambda: NOON).get(url) is not None
    assert naps == [seconds]


def test_429_beyond_our_patience_gives_up_and_says_when(replay, web, naps):
    with pytest.raises(FetchError, match="come back in 3,600 s"):
        web.get(replay.add("/a", Answer(status=429, headers={"Retry-After": "3600"})))
    assert (replay.count("/a"), naps) == (1, [])


def test_retry_after_that_cannot_be_read_is_none():
    assert seconds_to_wait("soon", NOON) is None
    assert seconds_to_wait(None, NOON) is None
    assert seconds_to_wait("Mon, 30 Nov 2026 11:00:00 GMT", NOON) == 0.0


def test_5xx_then_200_backs_off_exponentially_with_jitter(replay, web, naps):
    url = replay.add("/a", Answer(status=500), Answer(status=502), Answer(status=503), Answer(b"ok"))
    answer = web.get(url)
    assert answer is not None
    assert answer.body == b"ok"
    assert [0.25 <= naps[0] <= 0.5, 0.5 <= naps[1] <= 1.0, 1.0 <= naps[2] <= 2.0] == [True] * 3


def test_5xx_for_ever_is_an_error_after_four_attempts(replay, web):
    with pytest.raises(FetchError, match=r"HTTP 500 \(4 attempts\)"):
        web.get(replay.add("/a", Answer(status=500)))
    assert replay.count("/a") == 4


def test_404_is_told_by_its_status(replay, web):
    with pytest.raises(StatusError) as caught:
        web.get(replay.url("/missing"))
    assert caught.value.status == 404


def test_truncated_body_is_asked_for_again(replay, web, naps):
    url = replay.add("/a", Answer(b'{"a":', declared_length=100), Answer(b'{"a":1}'))
    answer = web.get(url)
    assert answer is not None
    assert (answer.body, len(naps)) == (b'{"a":1}', 1)


def test_truncated_gzip_is_asked_for_again(replay, web):
    packed = gzip.compress(b"x" * 1000)
    headers = {"Content-Encoding": "gzip"}
    url = replay.add("/a", Answer(packed[:-9], headers=headers), Answer(packed, headers=headers))
    answer = web.get(url)
    assert answer is not None
    assert answer.body == b"x" * 1000


def test_html_where_json_was_due_reaches_the_caller_with_its_type(replay, web):
    answer = web.get(replay.add("/a", Answer(b"<html>", media_type="text/html; charset=utf-8")))
    assert answer is not None
    assert answer.media_type == "text/html"


def test_slow_answer_times_out(replay, make_web):
    web = make_web(patience=Patience(read_s=0.05, attempts=2))
    with pytest.raises(FetchError, match="no answer"):
        web.get(replay.add("/a", Answer(b"{}", delay_s=0.3)), conditional=False)


def test_drip_longer_than_the_total_is_cut(replay, make_web):
    ticks = iter(range(0, 10_000, 40))
    web = make_web(patience=Patience(total_s=100, attempts=1), clock=lambda: next(ticks), robots_exempt=("",))
    with pytest.raises(FetchError, match="longer than 100 s"):
        web.get(replay.add("/a", Answer(b"x" * 1_000_000)))


def test_declared_size_over_the_cap_is_not_fetched(replay, web):
    with pytest.raises(FetchError, match="2,000 bytes, above the limit of 1,000"):
        web.get(replay.add("/a", Answer(b"x" * 2000)), max_bytes=1000)


def test_gzip_bomb_stops_at_the_cap(replay, web):
    bomb = gzip.compress(bytes(64 << 20))
    with pytest.raises(FetchError, match="larger than the limit"):
        web.get(replay.add("/a", Answer(bomb, headers={"Content-Encoding": "gzip"})), max_bytes=1 << 20)


def test_deflate_with_and_without_wrapper_and_joined_gzip_members_are_read():
    raw = zlib.compressobj(wbits=-15)
    packed = raw.compress(b"abc") + raw.flush()
    assert read_bounded([zlib.compress(b"abc")], "deflate", 10, "u") == b"abc"
    assert read_bounded([packed], "deflate", 10, "u") == b"abc"
    assert read_bounded([gzip.compress(b"ab") + gzip.compress(b"c")], "gzip", 10, "u") == b"abc"


def test_encoding_that_was_not_asked_for_is_refused():
    with pytest.raises(FetchError, match="zstd"):
        read_bounded([b""], "zstd", 10, "u")


def test_post_sends_json_and_repeats_like_a_get(replay, web):
    url = replay.add("/q", Answer(status=503), Answer(b'{"hits":0}'))
    assert web.post(url, json={"limit": 5}).body == b'{"hits":0}'
    assert (replay.last("/q").method, replay.last("/q").body) == ("POST", b'{"limit":5}')


def test_params_are_encoded_into_the_url(replay, web):
    answer = web.get(replay.add("/a", Answer(b"{}")), params={"$filter": "a eq 'b'"})
    assert answer is not None
    assert replay.last("/a").path == "/a?%24filter=a+eq+%27b%27"
    assert answer.url == replay.url("/a?%24filter=a+eq+%27b%27")
