"""When each round became public, with a link, and how its repository is named.

Belongs here: dates of publication (one line for a new round; a round that is not listed still loads, with the
day it was first seen). Does not belong here: anything that is in the repositories themselves.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from sources.base import ParseError

Suite = Literal["training", "inference"]
ROUND_IN_PATH = re.compile(r"(?:^|[/_-])(v\d+\.\d+)(?=$|[/_-])")


@dataclass(frozen=True, slots=True)
class Published:
    """Day a round became public. `is_confirmed` is false where the day was not read in a source."""

    day: dt.date
    link: str
    is_confirmed: bool


def _seen(year: int, month: int, day: int, link: str) -> Published:
    return Published(dt.date(year, month, day), link, is_confirmed=True)


def _recalled(year: int, month: int, day: int, suite: Suite) -> Published:
    return Published(dt.date(year, month, day), f"https://mlcommons.org/benchmarks/{suite}", is_confirmed=False)


PUBLISHED: dict[tuple[Suite, str], Published] = {
    ("training", "v2.1"): _recalled(2022, 11, 9, "training"),
    ("training", "v3.0"): _recalled(2023, 6, 27, "training"),
    ("training", "v3.1"): _recalled(2023, 11, 8, "training"),
    ("training", "v4.0"): _recalled(2024, 6, 12, "training"),
    ("training", "v4.1"): _recalled(2024, 11, 13, "training"),
    ("training", "v5.0"): _seen(
        2025,
        6,
        4,
        "https://wallstbusinessnews.com/new-mlperf-training-v5-0-benchmark-results-reflect-rapid-growth-and-evolution-of-the-field-of-ai/",
    ),
    ("training", "v5.1"): _seen(
        2025,
        11,
        12,
        "https://fwnbc.marketminute.com/article/gnwcq-2025-11-12-mlcommons-releases-mlperf-training-v51-results",
    ),
    ("training", "v6.0"): _seen(2026, 6, 16, "https://mlcommons.org/2026/06/mlperf-training-v6-0-results/"),
    ("inference", "v4.0"): _recalled(2024, 3, 27, "inference"),
    ("inference", "v4.1"): _recalled(2024, 8, 28, "inference"),
    ("inference", "v5.0"): _recalled(2025, 4, 2, "inference"),
    ("inference", "v5.1"): _seen(
        2025, 9, 9, "https://kiadev.net/news/2025-10-01-mlperf-inference-v5-1-results-explained"
    ),
}


def known_at(suite: Suite, round_: str, retrieved_at: dt.datetime) -> tuple[dt.datetime, str | None]:
    """When results of a round became public, and a remark where that day is not certain."""
    published = PUBLISHED.get((suite, round_))
    if published is None:
        return retrieved_at, f"round {round_} has no publication day on record: known_at is the first retrieval"
    moment = dt.datetime.combine(published.day, dt.time(), dt.UTC)
    if published.is_confirmed:
        return moment, None
    return moment, f"the publication day of round {round_} was not read in a source: known_at may be a few days off"


def repository(suite: Suite, round_: str) -> str:
    """Name of the results repository of a round."""
    return f"{suite}_results_{round_}"


def repository_link(suite: Suite, round_: str, path: str = "") -> str:
    """Where a person finds `path` of a round."""
    return f"https://github.com/mlcommons/{repository(suite, round_)}/tree/main/{quote(path)}".rstrip("/")


def round_given(text: str | None) -> str | None:
    """A round named by a person, `v5.1` or `5.1`; None if none was. Raises `ParseError`."""
    if not text:
        return None
    match = re.fullmatch(r"v?(\d+\.\d+)", text.strip())
    if match is None:
        raise ParseError(f"round {text!r} is not one: write it as v5.1")
    return f"v{match[1]}"


def round_in(text: str) -> str | None:
    """The last round named in a path, such as `training_results_v5.1-main/` or `v5.1/`; None if there is none."""
    found = ROUND_IN_PATH.findall(text.replace("\\", "/"))
    return found[-1] if found else None
