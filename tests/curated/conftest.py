"""What the tests of the curated facts share: the packaged tables, and the reference facts they were taken from."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from sources.curated import SOURCE


@pytest.fixture(scope="session")
def curated() -> dict[str, pl.DataFrame]:
    """Every packaged table, parsed."""
    found: dict[str, pl.DataFrame] = {}
    for payload in SOURCE.fetch(None):  # type: ignore[arg-type]
        found.update(SOURCE.parse(payload).frames)
    return found


@pytest.fixture
def facts(shared: Path) -> Callable[[str], list[dict[str, str]]]:
    """Rows of a file of reference facts."""

    def rows(name: str) -> list[dict[str, str]]:
        with (shared / "facts" / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    return rows
