"""What a person may say beside the files of `almanac load`: each word, and how its value is written.

Belongs here: the words that sources share, and refusing a word or a value before anything is read. Does not belong
here: which source reads which word (`Source.options`), what a word means for a row.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Final
from zoneinfo import ZoneInfo

from sources.base import AlmanacError, Source

FOR_ALL: Final = ("observed_at",)
FLAGS: Final = ("observed_at", "round", "cluster", "node")  # have an option of their own on the command line
A_DAY: Final = dt.timedelta(days=1)  # a date without a time may already be tomorrow's elsewhere
_OFFSET: Final = re.compile(r"[+-]([01]\d|2[0-3]):?[0-5]\d")
_ROUND: Final = re.compile(r"v?\d+\.\d+")


class OptionError(AlmanacError):
    """A word that the source does not read, or a value that does not fit its word."""


def checked(source: Source, given: Mapping[str, str]) -> dict[str, str]:
    """The options as the source reads them: times in UTC. Raises `OptionError`."""
    known = (*source.options, *FOR_ALL)
    strange = [name for name in given if name not in known]
    if strange:
        listed = ", ".join(said(name) for name in known)
        raise OptionError(f"{source.name} does not read {', '.join(map(said, strange))}; it reads {listed}")
    return {name: _value(name, text) for name, text in given.items()}


def said(name: str) -> str:
    """How a person writes the option."""
    return f"--{name.replace('_', '-')}" if name in FLAGS else f"-o {name}"


def _value(name: str, text: str) -> str:
    wanted, read = _FORMS.get(name, ("", _text))
    try:
        return read(text)
    except OptionError as error:
        raise OptionError(f"{said(name)} {error}") from None
    except (ValueError, KeyError, OSError):
        raise OptionError(f"{said(name)} {text!r} is not {wanted}") from None


def _text(text: str) -> str:
    if not text.strip():
        raise OptionError("is empty; give a value or leave it out")
    return text


def _instant(text: str) -> str:
    at = dt.datetime.fromisoformat(text)
    at = (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    if at > dt.datetime.now(dt.UTC) + A_DAY:
        raise OptionError(f"{text} lies in the future; give the instant at which the data was true")
    return at.isoformat()


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not pattern.fullmatch(text.strip()):
            raise ValueError
        return text.strip()

    return read


def _one_of(*words: str) -> Callable[[str], str]:
    return _matching(re.compile("|".join(words)))


def _whole(least: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        number = int(text)
        if number < least:
            raise ValueError
        return str(number)

    return read


def _zone(text: str) -> str:
    return ZoneInfo(text).key


# Words that are not named here take any text.
_FORMS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "observed_at": ("an ISO 8601 instant, such as 2026-09-01T00:00:00Z", _instant),
    "boot_at": ("an ISO 8601 instant, such as 2026-09-01T00:00:00Z", _instant),
    "round": ("a round of MLPerf, such as v5.1", _matching(_ROUND)),
    "utc_offset": ("an offset from UTC, such as +02:00", _matching(_OFFSET)),
    "time_zone": ("a time zone, such as Europe/Berlin", _zone),
    "attempt": ("a whole number of 0 or more", _whole(0)),
    "seq_len": ("a whole number above 0", _whole(1)),
    "global_batch": ("a whole number above 0", _whole(1)),
    "gpus": ("a whole number above 0", _whole(1)),
    "recompute": ("none, selective or full", _one_of("none", "selective", "full")),
    "is_synthetic": ("true or false", _one_of("true", "false")),
}
