"""Where a redirect may lead, and what may be said about a URL."""

from __future__ import annotations

import logging

import httpx
import pytest
from replay import Answer

from sources.base import FetchError
from sources.http_addresses import clean_url, is_private, scrub, secrets_in


def test_redirect_is_followed_and_the_final_url_reported(replay, web):
    url = replay.add("/old", Answer(status=301, headers={"Location": "/new"}))
    replay.add("/new", Answer(b"{}"))
    answer = web.get(url)
    assert answer is not None
    assert answer.url == replay.url("/new")


def test_sixth_redirect_is_refused(replay, web):
    with pytest.raises(FetchError, match="more than 5 redirects"):
        web.get(replay.add("/loop", Answer(status=302, headers={"Location": "/loop"})))
    assert replay.count("/loop") == 6


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.org/a"])
def test_redirect_to_another_protocol_is_refused(replay, web, target):
    with pytest.raises(FetchError, match="only http and https"):
        web.get(replay.add("/a", Answer(status=302, headers={"Location": target})))


@pytest.mark.parametrize(
    "inside", ["http://169.254.169.254/latest", "http://127.0.0.1:9/", "http://localhost/", "http://[::1]/"]
)
def test_redirect_from_the_internet_into_a_private_network_is_refused(make_web, inside):
    transport = httpx.MockTransport(lambda _: httpx.Response(302, headers={"Location": inside}))
    with pytest.raises(FetchError, match="private address"):
        make_web(transport=transport, robots_exempt=("",)).get("http://prices.example/")


def test_redirect_from_https_to_http_is_refused(make_web):
    transport = httpx.MockTransport(lambda _: httpx.Response(302, headers={"Location": "http://prices.example/"}))
    with pytest.raises(FetchError, match="open connection"):
        make_web(transport=transport, robots_exempt=("",)).get("https://prices.example/")


def test_redirect_to_another_host_carries_no_secret_header(replay, web):
    url = replay.add("/a", Answer(status=307, headers={"Location": replay.url("/b", host="127.0.0.2")}))
    replay.add("/b", Answer(b"{}"))
    web.get(url, headers={"Authorization": "Bearer s3cret", "X-Api-Key": "k"})
    assert replay.last("/a").headers["Authorization"] == "Bearer s3cret"
    assert replay.last("/b").headers["Authorization"] is None
    assert replay.last("/b").headers["X-Api-Key"] is None


def test_query_that_is_redirected_to_a_page_is_refused(replay, web):
    with pytest.raises(FetchError, match="interface has moved"):
        web.post(replay.add("/q", Answer(status=302, headers={"Location": "/new"})), json={})


def test_secrets_appear_neither_in_errors_nor_in_the_log_nor_in_the_url(replay, web, caplog):
    caplog.set_level(logging.DEBUG)
    url = replay.add("/a", Answer(status=500))
    with pytest.raises(FetchError) as caught:
        web.get(url, params={"api_key": "s3cret", "page": "2"}, headers={"Authorization": "Bearer t0ken"})
    ok = web.get(replay.add("/b", Answer(b"{}")), params={"api_key": "s3cret", "page": "2"})
    assert ok is not None
    assert ok.url == replay.url("/b?page=2")
    assert replay.last("/b").path == "/b?api_key=s3cret&page=2"
    assert "HTTP Request: GET" in caplog.text
    assert "s3cret" not in str(caught.value) + caplog.text
    assert "t0ken" not in str(caught.value) + caplog.text


def test_clean_url_keeps_what_tells_documents_apart():
    assert (
        clean_url("https://u:p@h.example:8443/a?page_token=x&key=K&q=%C3%A9#f")
        == "https://h.example:8443/a?page_token=x&q=%C3%A9"
    )
    assert clean_url("https://h/a?X-Amz-Signature=1&X-Amz-Date=2") == "https://h/a?X-Amz-Date=2"
    assert clean_url("http://[::1]:80/") == "http://[::1]:80/"


def test_secret_values_are_found_and_scrubbed():
    secrets = secrets_in("https://u:pw@h/?token=abc", [("Authorization", "Bearer xyz"), ("Accept", "text/csv")])
    assert set(secrets) == {"pw", "abc", "Bearer xyz", "xyz"}
    assert scrub("sent abc with\nBearer xyz", secrets) == "sent <secret> with <secret>"


def test_private_addresses():
    inside = [
        "10.1.2.3",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "100.64.0.1",
        "224.0.0.1",
    ]
    assert [is_private(a) for a in inside] == [True] * len(inside)
    assert not is_private("8.8.8.8")
    assert not is_private("example.org")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h/a", "not a url", "http://"])
def test_only_http_urls_are_fetched(web, url):
    with pytest.raises(FetchError, match="only http and https"):
        web.get(url)
