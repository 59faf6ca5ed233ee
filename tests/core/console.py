"""Calling the command line inside the test's process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipelines.cli import almanac, guarded


@dataclass(frozen=True, slots=True)
class Answer:
    """Exit code and what was said."""

    code: int
    out: str
    err: str


class Console:
    """`almanac …` with the output captured."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> Answer:
        self._capture.readouterr()
        code = guarded(lambda: almanac(args=[str(a) for a in arguments], standalone_mode=False))
        said = self._capture.readouterr()
        return Answer(code, said.out, said.err)
