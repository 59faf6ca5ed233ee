"""Reference tables: they land first, because other sources' rows are resolved against them.

Belongs here: making sure that the curated reference is there. Does not belong here: its content.
"""

from __future__ import annotations

from assets.street import fetch_into_archive, land_pending
from sources.base import Web
from sources.registry import all_sources
from warehouse.home import Home

CURATED = "curated"


class _NoWeb:
    """Curated facts come with the package; nothing of them is fetched."""

    def get(self, url: str, **_options: object) -> None:
        raise AssertionError(f"curated facts do not fetch, yet {url} was asked for")

    def post(self, url: str, **_options: object) -> None:
        raise AssertionError(f"curated facts do not fetch, yet {url} was asked for")


def ensure_reference(home: Home, *, but: str = "") -> None:
    """Land the curated facts of this package version, unless they are what is being loaded."""
    if but == CURATED:
        return
    web: Web = _NoWeb()  # type: ignore[assignment]
    source = all_sources()[CURATED]
    fetch_into_archive(home, source, web)
    land_pending(home, source)
