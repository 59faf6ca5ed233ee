"""What may be said about a URL and where it may lead: secrets taken out, private addresses told apart.

Belongs here: redaction for errors, logs and stored links, and address checks. Does not belong here: requests.
"""

from __future__ import annotations

import ipaddress
import logging
import queue
import re
import socket
import threading
import urllib.request
from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

# Whole names, so that `page_token` or `sort_key`, which tell two documents apart, stay in a stored link.
SECRET_NAMES = re.compile(
    r"^(x-|ocp-apim-)?(api|access|auth|client|private|secret|subscription|account|user|private-?token)?[-_.]?"
    r"(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|key-?id)$"
    r"|^(set-)?cookie$|^proxy-authorization$|^x-(amz|goog)-(signature|credential|security-token)$",
    re.IGNORECASE,
)


def clean_url(url: str) -> str:
    """The URL without user name, password, fragment and every query parameter that names a secret."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "<unreadable URL>"
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    query = parts.query
    pairs = parse_qsl(query, keep_blank_values=True)
    if any(SECRET_NAMES.search(name) for name, _ in pairs):
        query = urlencode([(name, value) for name, value in pairs if not SECRET_NAMES.search(name)])
    return urlunsplit(SplitResult(parts.scheme, host + port, parts.path, query, ""))


def secrets_in(url: str, headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Values that must never be printed: secret query parameters, secret headers and the URL's password."""
    parts = urlsplit(url)
    found = [value for name, value in parse_qsl(parts.query) if SECRET_NAMES.search(name)]
    for name, value in headers:
        if SECRET_NAMES.search(name):
            found += [value, value.rpartition(" ")[2]]
    found += [part for part in (parts.password,) if part]
    return tuple(sorted({value for value in found if value}, key=len, reverse=True))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """The text on one line, with each secret replaced by a mark."""
    for secret in secrets:
        text = text.replace(secret, "<secret>")
    return " ".join(text.split())


class RedactingFilter(logging.Filter):
    """Takes secrets out of the URLs that httpx writes to its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(clean_url(str(a)) if hasattr(a, "raw_path") else a for a in record.args)
        return True


def resolve(host: str, timeout: float) -> list[str]:
    """Addresses of a host; empty if it has none or the resolver does not answer within `timeout` seconds.

    A resolver without a network may block for half a minute and takes no time limit, hence the thread.
    """
    answers: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(sorted({str(row[4][0]) for row in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}))
        except (OSError, UnicodeError):
            answers.put([])

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        return answers.get(timeout=timeout)
    except queue.Empty:
        return []


def is_private(address: str) -> bool:
    """Whether an IP address is not on the public internet (loopback, RFC 1918, link-local, metadata, reserved)."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return not ip.is_global or ip.is_multicast


def uses_proxy(url: str) -> bool:
    """Whether the environment sends this URL through a proxy, which then resolves the name itself."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if not (proxies.get(parts.scheme) or proxies.get("all")):
        return False
    return not urllib.request.proxy_bypass(parts.hostname or "")
