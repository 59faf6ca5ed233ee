"""Reference tables: they land first, because other sources' rows are resolved against them.

Belongs here: making sure that the reference shipped with the package is there. Does not belong here: its content.
"""

from __future__ import annotations

from assets.street import fetch_into_archive, land_pending
from sources.base import Web
from sources.registry import all_sources
from warehouse.home import Home

SHIPPED = ("curated", "model-config")


class _NoWeb:
    """These facts come with the package; nothing of them is fetched."""

    def get(self, url: str, **_options: object) -> None:
        raise AssertionError(f"shipped facts do not fetch, yet {url} was asked for")

    def post(self, url: str, **_options: object) -> None:
        raise AssertionError(f"shipped facts do not fetch, yet {url} was asked for")


def ensure_reference(home: Home, *, but: str = "") -> None:
    """Land the facts shipped with this package version, except those of the source that is being loaded."""
    web: Web = _NoWeb()  # type: ignore[assignment]
    for name in SHIPPED:
        if name != but:
            source = all_sources()[name]
            fetch_into_archive(home, source, web)
            land_pending(home, source)
