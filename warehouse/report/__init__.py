"""The one-page report: self-contained HTML made from the published file.

Belongs here: panels, charts, words. Does not belong here: SQL that defines a figure (that is a mart).
"""

from __future__ import annotations

from pathlib import Path

from warehouse.home import Home

LANGUAGES = ("en", "zh")


def write_report(home: Home, lang: str) -> Path:
    """Write the page in one language and return its path."""
    from warehouse.report.page import write

    home.published()
    return write(home, lang)


def write_reports(home: Home) -> list[Path]:
    """Write the page in every language."""
    return [write_report(home, lang) for lang in LANGUAGES]
