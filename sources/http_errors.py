"""What a refused request says: the error with its status, and the reasons known for well-known refusals.

Belongs here: error classes and texts of the HTTP client. Does not belong here: requests, retries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from sources.base import FetchError

SEC_CONTACT = "set ALMANAC_CONTACT to an e-mail address: sec.gov answers only programs that name one"

EPOCH_DIGITS = 11  # of seconds since 1970, up to the year 5138


class StatusError(FetchError):
    """The server answered, but not with the document. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class BlockedError(StatusError):
    """The site as a whole has shut this client out: nothing more of it is asked in this run."""


def refusal(url: str, status: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """The error for an answer that a retry does not help (`url` without secrets, `body` its first bytes)."""
    if status in (403, 429) and b"Undeclared Automated Tool" in body:
        return BlockedError(f"{url}: 403, SEC took this client for an undeclared automated tool; {SEC_CONTACT}", status)
    if status in (403, 429) and b"Request Rate Threshold Exceeded" in body:
        text = (
            f"{url}: {status}, SEC blocks this address for exceeding its request rate; wait ten minutes and run again"
        )
        return BlockedError(text, status)
    if status in (403, 429) and headers.get("x-ratelimit-remaining") == "0":
        again = headers.get("x-ratelimit-reset", "")
        when = (
            f"after {dt.datetime.fromtimestamp(int(again), dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
            if again.isdigit() and len(again) <= EPOCH_DIGITS
            else "later"
        )
        return StatusError(f"{url}: {status}, the site's request quota is used up; run again {when}", status)
    hint = {
        401: "the site wants a key; see `almanac sources` for the variable that holds it",
        403: "the site refuses this client; not tried again",
        404: "no such document",
        410: "the document was withdrawn",
        451: "withheld for legal reasons",
    }.get(status, "not a document")
    return StatusError(f"{url}: HTTP {status}, {hint}", status)


def seconds_to_wait(value: str | None, now: dt.datetime) -> float | None:
    """Retry-After in seconds from now; None if absent or unreadable. Takes seconds or an HTTP date."""
    text = (value or "").strip()
    if text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return max(0.0, (at - now).total_seconds())
