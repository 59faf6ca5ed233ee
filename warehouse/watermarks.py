"""What has landed of a numbered stream, told as runs: one app transaction for "7 to 2311", not one for each number.

Belongs here: which marks say what an id says, and which marks a commit has to set. Does not belong here: reading the
log (`transactions.py`), committing (`lake.py`), what a stream is.

An id is numbered when it ends as the spool ends the ids of its segments: `segment:<stream>-00000007`. The numbers of a
stream that have landed are kept as runs without a hole: `run:segment:<stream>@<first>`, whose number is the last. A
run never says more than what has landed, so a hole costs one more run and is never closed by guessing; what fills it
joins the two. Ids that are not numbered, and those of homes from before there were runs, are marks of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

RUN: Final = "run:"
_DIGITS: Final = 8  # how many the spool writes at least
_MOST_DIGITS: Final = 18  # as many as a transaction's number can always hold

Span = tuple[int, int]  # first and last number, both landed


def numbered(name: str) -> tuple[str, int] | None:
    """The stream of an id and its number in it; None for an id of any other form. No two ids give the same."""
    stream, _, digits = name.rpartition("-")
    if not stream or not _DIGITS <= len(digits) <= _MOST_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > _DIGITS and digits[0] == "0":  # the spool pads to eight and no further
        return None
    return stream, int(digits)


def marks_of(names: Iterable[str]) -> set[str]:
    """The marks that can tell of these ids: each itself, and all runs of its stream (`run:<stream>@`)."""
    wanted = set(names)
    return wanted | {f"{RUN}{place[0]}@" for name in wanted if (place := numbered(name))}


def run_of(mark: str) -> tuple[str, int] | None:
    """Stream and first number of a run's mark; None for any other mark."""
    stream, _, first = mark.removeprefix(RUN).rpartition("@")
    return (stream, int(first)) if stream and mark.startswith(RUN) and first.isascii() and first.isdigit() else None


def landed_among(names: Iterable[str], told: Mapping[str, int]) -> set[str]:
    """Those of the ids that have landed. told: number by mark, as the log has them for `marks_of` the ids."""
    runs = _runs(told)
    return {name for name in names if name in told or _holds(runs, name)}


def marks_for(names: Iterable[str], told: Mapping[str, int]) -> dict[str, int]:
    """The marks, with their numbers, that a commit sets so that these ids have landed. told: as in `landed_among`."""
    marks: dict[str, int] = {}
    fresh: dict[str, set[int]] = defaultdict(set)
    for name in names:
        place = numbered(name)
        if place is None:
            marks[name] = 1
        else:
            fresh[place[0]].add(place[1])
    runs = _runs(told)
    for stream, numbers in fresh.items():
        for first, last in _grown(runs.get(stream, ()), numbers):
            marks[f"{RUN}{stream}@{first}"] = last
    return marks


def _grown(runs: Iterable[Span], numbers: set[int]) -> list[Span]:
    """The runs that hold the new numbers, each joined with every run it touches."""
    joined: list[list[int]] = []
    for first, last in sorted([*runs, *((n, n) for n in numbers)]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    if len(joined) == 1:
        return [(joined[0][0], joined[0][1])]
    return [(first, last) for first, last in joined if any(first <= n <= last for n in numbers)]


def _runs(told: Mapping[str, int]) -> dict[str, list[Span]]:
    runs: dict[str, list[Span]] = defaultdict(list)
    for mark, last in told.items():
        if place := run_of(mark):
            runs[place[0]].append((place[1], last))
    return runs


def _holds(runs: Mapping[str, list[Span]], name: str) -> bool:
    place = numbered(name)
    return place is not None and any(first <= place[1] <= last for first, last in runs.get(place[0], ()))
