"""The one way to the network: an httpx client that all sources of a run share (`Web`).

Belongs here: requests, redirects, retries, conditional requests. Does not belong here: pacing and
reachability (`http_limits`), robots.txt rules (`http_robots`), redaction (`http_addresses`), parsing.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import logging
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

from sources.base import AlmanacError, FetchError, NotConfiguredError, OfflineError, Response
from sources.http_addresses import RedactingFilter, clean_url, is_private, resolve, scrub, secrets_in, uses_proxy
from sources.http_body import TruncatedError, read_bounded
from sources.http_errors import SEC_CONTACT, BlockedError, refusal, seconds_to_wait
from sources.http_limits import PROCESS_LIMITER, Breaker, Clock, HostLimiter, Sleep
from sources.http_robots import DOCUMENTED_APIS, ROBOT, Rule, is_documented_api, may_fetch, rules_for

CONTACT_HOSTS = ("sec.gov",)
RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5
DEFAULT_MAX_BYTES = 256 << 20
ROBOTS_MAX_BYTES = 512 << 10

Validators = Callable[[str], tuple[str | None, str | None] | None]
_REDACT = RedactingFilter()


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of one request, in seconds. `total_s` bounds one answer; connecting is tried at most twice."""

    connect_s: float = 10.0
    first_connect_s: float = 2.5  # until any host has answered: a missing network must show within seconds
    read_s: float = 30.0
    total_s: float = 300.0
    attempts: int = 4
    backoff_s: float = 0.5
    backoff_cap_s: float = 20.0
    retry_after_cap_s: float = 120.0


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    url: str
    headers: Mapping[str, str]
    conditional: bool
    max_bytes: int
    json: object = None
    secrets: tuple[str, ...] = ()
    check_robots: bool = True


@dataclass(slots=True)
class _AgainError(Exception):
    """This attempt failed in a way that another may not."""

    reason: str
    wait_s: float | None = None
    attempts: int = 99


@dataclass(slots=True)
class HttpWeb:
    """`Web` over httpx; safe to share among threads, one for each run.

    contact: e-mail of the operator, for the User-Agent (environment ALMANAC_CONTACT comes first) ·
    validators: (etag, last_modified) of what the archive holds for a URL · offline: refuse every request.
    `not_modified` maps each URL answered with 304 to the time of the answer. Posts are taken for queries and
    repeated like gets.
    """

    contact: str = ""
    validators: Validators = lambda _url: None
    offline: bool = False
    patience: Patience = field(default_factory=Patience)
    limiter: HostLimiter = PROCESS_LIMITER
    breaker: Breaker = field(default_factory=Breaker)
    robots_exempt: tuple[str, ...] = DOCUMENTED_APIS
    max_bytes: int = DEFAULT_MAX_BYTES
    clock: Clock = time.monotonic
    sleep: Sleep = time.sleep
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    transport: httpx.BaseTransport | None = None
    not_modified: dict[str, dt.datetime] = field(default_factory=dict, init=False)
    _client: httpx.Client = field(init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _robots: dict[str, tuple[Rule, ...]] = field(default_factory=dict, init=False, repr=False)
    _addresses: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False)
    _blocked: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _answered: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self.contact = (os.environ.get("ALMANAC_CONTACT") or self.contact).strip()
        if not self.contact.isprintable() or not self.contact.isascii() or set(self.contact) & set("()"):
            raise AlmanacError("ALMANAC_CONTACT must be one plain line, such as an e-mail address")
        logger = logging.getLogger("httpx")
        if _REDACT not in logger.filters:
            logger.addFilter(_REDACT)
        headers = {"User-Agent": user_agent(self.contact), "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
        try:
            self._client = httpx.Client(headers=headers, transport=self.transport, follow_redirects=False)
        except (ImportError, ValueError, httpx.HTTPError) as error:
            raise AlmanacError(f"the proxy set in the environment cannot be used ({error}); set HTTPS_PROXY") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        conditional: bool = True,
        max_bytes: int | None = None,
    ) -> Response | None:
        """GET a document; None if the server says 304. Raises `FetchError`, or `OfflineError` without network."""
        full = str(_checked(url).copy_merge_params(dict(params))) if params else url
        return self._run(_Call("GET", full, dict(headers or {}), conditional, max_bytes or self.max_bytes))

    def post(
        self, url: str, *, json: object, headers: Mapping[str, str] | None = None, max_bytes: int | None = None
    ) -> Response:
        """POST a query as JSON. Raises like `get`."""
        call = _Call(
            "POST", url, dict(headers or {}), conditional=False, max_bytes=max_bytes or self.max_bytes, json=json
        )
        answer = self._run(call)
        if answer is None:  # unreachable: 304 without validators is an error
            raise FetchError(f"{clean_url(url)}: 304 to a POST")
        return answer

    def _run(self, call: _Call) -> Response | None:
        _checked(call.url)
        secrets = secrets_in(call.url, call.headers.items())
        call = _Call(**{**{name: getattr(call, name) for name in _Call.__slots__}, "secrets": secrets})
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._follow(call)
            except _AgainError as again:
                reason = scrub(again.reason, secrets)
                if attempt >= min(self.patience.attempts, again.attempts):
                    raise FetchError(f"{clean_url(call.url)}: {reason} ({attempt} attempts); try again later") from None
                pause = min(self.patience.backoff_cap_s, self.patience.backoff_s * 2 ** (attempt - 1))
                pause *= random.uniform(0.5, 1.0)  # noqa: S311
                self.sleep(max(pause, again.wait_s or 0.0))

    def _follow(self, call: _Call) -> Response | None:
        """One attempt: the request and up to five redirects."""
        url, headers = call.url, dict(call.headers)
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._once(call, url, headers)
            if not isinstance(answer, str):
                return answer
            if _origin(answer) != _origin(url):
                headers = {k: v for k, v in headers.items() if k.lower() in ("accept", "accept-language")}
            self._check_redirect(call.url, url, answer)
            url = answer
        raise FetchError(f"{clean_url(call.url)}: more than {MAX_REDIRECTS} redirects")

    def _once(self, call: _Call, url: str, headers: Mapping[str, str]) -> Response | str | None:
        """One request; the new URL if it answers with a redirect."""
        host = urlsplit(url).hostname or ""
        self._admit(url, host, check_robots=call.check_robots)
        self.limiter.wait(host)
        deadline = self.clock() + self.patience.total_s
        request = self._client.build_request(
            call.method,
            url,
            headers={**headers, **self._conditions(call, url), "User-Agent": user_agent(self.contact)},
            json=call.json,
            timeout=self._timeout(deadline),
        )
        try:
            response = self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise self._no_answer(url, host, error) from None
        try:
            if not self._known_private(host):
                self._answered = True
                self.breaker.succeeded()
            return self._judge(call, url, response, deadline)
        except httpx.TransportError as error:
            raise _AgainError(f"the answer broke off: {error or type(error).__name__}") from None
        finally:
            response.close()

    def _judge(self, call: _Call, url: str, response: httpx.Response, deadline: float) -> Response | str | None:
        shown, status, headers = clean_url(url), response.status_code, response.headers
        if status in REDIRECTS and "location" in headers:
            if call.method == "POST" and status not in (307, 308):
                raise FetchError(f"{shown}: HTTP {status}, a query was redirected; the interface has moved")
            return str(httpx.URL(url).join(headers["location"]))
        if status == httpx.codes.NOT_MODIFIED:
            if "if-none-match" not in response.request.headers and "if-modified-since" not in response.request.headers:
                raise FetchError(f"{shown}: HTTP 304, though nothing was said of an earlier version")
            self.not_modified.update(dict.fromkeys((clean_url(call.url), shown), self.now()))
            return None
        if not response.is_success:
            self._refuse(shown, urlsplit(url).hostname or "", response, deadline)
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > call.max_bytes:
            raise FetchError(f"{shown}: {int(length):,} bytes, above the limit of {call.max_bytes:,}; not fetched")
        chunks = self._within(response.iter_raw(), deadline)
        try:
            body = read_bounded(chunks, headers.get("content-encoding", ""), call.max_bytes, shown)
        except TruncatedError as error:
            raise _AgainError(str(error)) from None
        media_type = headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()
        etag, modified = headers.get("etag"), headers.get("last-modified")
        return Response(shown, status, body, media_type, self.now(), etag, modified)

    def _refuse(self, shown: str, host: str, response: httpx.Response, deadline: float) -> None:
        """Raise what an answer without a document means: another attempt, or an error."""
        status = response.status_code
        head = b""
        for chunk in self._within(response.iter_bytes(), deadline):
            head += chunk
            if len(head) >= 16 << 10:
                break
        error = refusal(shown, status, response.headers, head)
        if isinstance(error, BlockedError):
            self._blocked[self.limiter.group(host)] = str(error)
            raise error
        if status not in RETRY_STATUS:
            raise error
        wait = seconds_to_wait(response.headers.get("retry-after"), self.now())
        if wait is None:
            raise _AgainError(f"HTTP {status}")
        if wait > self.patience.retry_after_cap_s:
            raise FetchError(f"{shown}: HTTP {status}, the site asks to come back in {wait:,.0f} s; run again then")
        self.limiter.hold(host, wait)
        raise _AgainError(f"HTTP {status}", wait_s=wait)

    def _admit(self, url: str, host: str, *, check_robots: bool) -> None:
        """Raise if this request must not go out."""
        if self.offline:
            raise OfflineError("offline: no request is made; the archive and the last good data stay in use")
        if not self._known_private(host):
            self.breaker.check()
        if blocked := self._blocked.get(self.limiter.group(host)):
            raise FetchError(blocked)
        if any(host == h or host.endswith(f".{h}") for h in CONTACT_HOSTS) and "@" not in self.contact:
            raise NotConfiguredError(f"{clean_url(url)}: {SEC_CONTACT}")
        if check_robots and not is_documented_api(url, self.robots_exempt) and not may_fetch(self._rules(url), url):
            raise FetchError(f"{clean_url(url)}: robots.txt of {host} does not let {ROBOT} read it")
        if not uses_proxy(url) and self.transport is None and not self._resolve(host):
            self._dead(url, host, "its name does not resolve")
            raise _AgainError("the host name does not resolve", attempts=2)

    def _rules(self, url: str) -> tuple[Rule, ...]:
        """The site's robots rules, fetched once a run; a site whose robots.txt cannot be had allows all."""
        origin = _origin(url)
        with self._lock:
            known = self._robots.get(origin)
        if known is None:
            call = _Call("GET", f"{origin}/robots.txt", {}, False, ROBOTS_MAX_BYTES, check_robots=False)  # noqa: FBT003
            try:
                answer = self._follow(call)
            except OfflineError:
                raise
            except (FetchError, _AgainError):
                answer = None
            known = rules_for(answer.body.decode("utf-8", "replace")) if answer else ()
            with self._lock:
                self._robots[origin] = known
        return known

    def _conditions(self, call: _Call, url: str) -> dict[str, str]:
        if not call.conditional:
            return {}
        held = self.validators(clean_url(url)) or self.validators(clean_url(call.url))
        names = ("If-None-Match", "If-Modified-Since")
        return {name: value for name, value in zip(names, held or (None, None), strict=True) if value}

    def _timeout(self, deadline: float) -> httpx.Timeout:
        left = max(0.001, deadline - self.clock())
        connect = self.patience.connect_s if self._answered else self.patience.first_connect_s
        return httpx.Timeout(min(self.patience.read_s, left), connect=min(connect, left), pool=None)

    def _within(self, chunks: Iterator[bytes], deadline: float) -> Iterator[bytes]:
        for chunk in chunks:
            if self.clock() > deadline:
                raise _AgainError(f"took longer than {self.patience.total_s:g} s")
            yield chunk

    def _no_answer(self, url: str, host: str, error: httpx.TransportError) -> Exception:
        cause = str(error) or type(error).__name__
        if _is_tls(error):
            return FetchError(f"{clean_url(url)}: no trusted connection ({cause}); check the clock and SSL_CERT_FILE")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            self._dead(url, host, cause)
            return _AgainError(f"no connection ({cause})", attempts=2)
        return _AgainError(f"no answer ({cause})")

    def _dead(self, url: str, host: str, cause: str) -> None:
        if not self._known_private(host):
            self.breaker.failed(host, cause, can_probe=not uses_proxy(url))

    def _resolve(self, host: str) -> list[str]:
        with self._lock:
            known = self._addresses.get(host)
        if not known:
            known = resolve(host, self.patience.first_connect_s)
            with self._lock:
                self._addresses[host] = known
        return known

    def _known_private(self, host: str) -> bool:
        addresses = self._addresses.get(host) or [host]
        return host == "localhost" or all(is_private(address) for address in addresses)

    def _check_redirect(self, start: str, url: str, target: str) -> None:
        """Refuse to be led to another protocol, or from the internet into a private network."""
        parts = urlsplit(target)
        shown = f"{clean_url(url)} redirects to {clean_url(target)}"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FetchError(f"{shown}: only http and https are followed")
        if urlsplit(url).scheme == "https" and parts.scheme == "http":
            raise FetchError(f"{shown}: from an encrypted to an open connection; not followed")
        if self._leads_inside(parts.hostname) and not self._leads_inside(urlsplit(start).hostname or ""):
            raise FetchError(f"{shown}: a private address; not followed")

    def _leads_inside(self, host: str) -> bool:
        literal = host == "localhost" or is_private(host)
        return literal or any(is_private(address) for address in self._resolve(host))


def user_agent(contact: str) -> str:
    """`gpu-almanac/<version> (<contact>)`: who asks, and whom to write to."""
    try:
        version = importlib.metadata.version("gpu-almanac")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return f"gpu-almanac/{version} ({contact})" if contact else f"gpu-almanac/{version}"


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise FetchError(f"{clean_url(url)}: not a usable URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise FetchError(f"{clean_url(url)}: only http and https are fetched")
    return parsed


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _is_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
