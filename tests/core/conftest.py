"""Fixtures of the core tests."""

from __future__ import annotations

import pytest

from tests.core.console import Console


@pytest.fixture
def almanac(capsys: pytest.CaptureFixture[str]) -> Console:
    """The command line."""
    return Console(capsys)
