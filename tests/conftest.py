"""Fixtures every test may use: the shared reference folder (skipped where absent) and a fresh home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("POLARS_MAX_THREADS", "2")
SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The reference material beside the checkout: real payloads and facts."""
    if not (SHARED / "README.md").exists():
        pytest.skip("../shared (real payloads and reference facts) is not beside this checkout")
    return SHARED


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty ALMANAC_HOME."""
    path = tmp_path / "home"
    path.mkdir()
    return path
