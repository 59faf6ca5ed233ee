"""The version of this program, from its own metadata. Nothing else belongs here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """As installed; `0+unknown` when run from a folder that was never installed."""
    try:
        return installed("gpu-almanac")
    except PackageNotFoundError:
        return "0+unknown"
