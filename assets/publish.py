"""Publishing: what the published file needs from the registry and from the subjects.

Belongs here: the frame of sources, the computed columns. Does not belong here: how the file is built
(`warehouse.publish`), Dagster (`published.py`).
"""

from __future__ import annotations

import polars as pl

from sources.registry import all_sources
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.publish import Compute, Published, publish


def source_frame() -> pl.DataFrame:
    """One row for each registered source, as `ops.sources` wants it."""
    return pl.concat([_registered(), pl.DataFrame(DERIVED, schema_overrides={"off_reason": pl.String})], how="diagonal")


# What is computed here is no source to fetch, yet every row leads to one.
DERIVED = [
    {
        "source": name,
        "publisher": "GPU Almanac",
        "homepage": "docs/price-index.md",
        "licence": licence,
        "terms": "computed here from market.gpu_offers",
        "authority": "secondary",
        "cadence": "daily",
        "may_republish": may_republish,
        "off_reason": "",
        "tables": table,
    }
    for name, licence, may_republish, table in (
        ("price-daily", "facts of the price lists behind it", False, "market.gpu_price_daily"),
        ("price-index", "own statistic", True, "market.gpu_price_index"),
    )
]


def _registered() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "source": s.name,
            "publisher": s.publisher,
            "homepage": s.homepage,
            "licence": s.licence,
            "terms": s.terms,
            "authority": s.authority,
            "cadence": s.cadence,
            "may_republish": s.may_republish,
            "off_reason": s.off_reason,
            "tables": ", ".join(s.tables),
        }
        for s in all_sources().values()
    )


def computed_columns(home: Home, sources: pl.DataFrame) -> dict[str, Compute]:
    """Tables that are computed, or have columns that are, over the whole table at publish, and by what."""
    from assets.bills import bills
    from assets.collection import collection
    from assets.telemetry_boards import close_processes
    from assets.telemetry_intervals import close_inventory, close_node_states, close_null_reasons
    from assets.telemetry_xids import date_xids

    authorities = _authorities(sources)
    return {
        "ops.collection": lambda _: collection(Lake(home.lake)),
        "telemetry.bill_monthly": lambda _: bills(Lake(home.lake), authorities),
        "telemetry.gpu_events": date_xids,
        "telemetry.gpu_processes": close_processes,
        "telemetry.inventory": close_inventory,
        "telemetry.node_states": close_node_states,
        "telemetry.null_reasons": close_null_reasons,
    }


def publish_home(home: Home, since: Published | None = None) -> Published:
    """Bring derived tables up to date and publish what the lake holds. since: what this process published last."""
    from assets.grown import update_growth
    from assets.ladder_lake import update_ladder

    sources, lake = source_frame(), Lake(home.lake)
    update_ladder(lake, _authorities(sources))
    update_growth(lake)
    return publish(home, sources, computed_columns(home, sources), since)


def _authorities(sources: pl.DataFrame) -> dict[str, str]:
    return dict(sources.select("source", "authority").iter_rows())
