from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from telemetry_rows import NOON, lawful

from sources.base import Parsed, Payload
from sources.registry import source_named


@pytest.fixture
def parse() -> Callable[..., Parsed]:
    """Parse text as a source does; options are the payload's meta (noon of 2026-11-30 unless said)."""

    def run(source: str, text: str | bytes, **options: str) -> Parsed:
        body = text if isinstance(text, bytes) else text.encode()
        meta = {"observed_at": NOON.isoformat(), **options}
        meta = {k: v for k, v in meta.items() if v}
        return lawful(
            source, source_named(source).parse(Payload(source, "file:x", NOON, "text/plain", body, meta=meta))
        )

    return run


@pytest.fixture
def load() -> Callable[..., list[Parsed]]:
    """Read and parse files as `almanac load` does."""

    def run(source: str, *paths: Path, **options: str) -> list[Parsed]:
        given = {"observed_at": NOON.isoformat(), **options}
        src = source_named(source)
        return [lawful(source, src.parse(p)) for p in src.read(paths, {k: v for k, v in given.items() if v})]

    return run
