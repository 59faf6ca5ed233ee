"""Two snapshots of one company's facts through the whole street, in either order, give the same series."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from assets.street import keep, land_pending
from sources.sec.companyfacts import SOURCE
from warehouse.archive import Archive
from warehouse.bitemporal import with_versions
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.financials import Financial

SERIES = [
    "entity", "metric", "definition_version", "fiscal_period", "known_at", "value", "is_latest", "superseded_at",
    "is_preferred", "concept", "derivation", "accession",
]  # fmt: skip


def series(root: Path, files: list[Path]) -> pl.DataFrame:
    home = Home(root)
    for file in files:
        for payload in SOURCE.read([file], {}):
            keep(Archive(home.archive), payload)
        report = land_pending(home, SOURCE)
        assert not report.failed, list(report.complaints())
    rows = Lake(home.lake).scan(Financial).collect()
    return with_versions(rows, Financial, {"sec-companyfacts": "primary"}).select(SERIES).sort(SERIES)


def test_either_order_gives_the_same_series(shared, tmp_path):
    files = sorted((shared / "data/filings/companyfacts").glob("*GOOGL*"))
    assert len(files) == 2
    forth = series(tmp_path / "forth", files)
    back = series(tmp_path / "back", files[::-1])
    assert forth.height > 300
    assert forth.equals(back)


def test_loading_the_same_file_again_changes_nothing(shared, tmp_path):
    file = next((shared / "data/filings/companyfacts").glob("*MSFT*"))
    once = series(tmp_path / "once", [file])
    assert series(tmp_path / "twice", [file, file]).equals(once)
