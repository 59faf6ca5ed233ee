"""The published file, its marts and the report as Dagster assets.

Belongs here: one step that depends on everything that lands. Does not belong here: how the file is built.
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.observed import OWNERS, PREVIEW_ROWS, source_key
from assets.price_assets import PRICE_TABLES, table_key
from assets.publish import publish_home
from assets.telemetry import ROLLED, SPOOL, key_of
from sources.registry import all_sources
from warehouse.home import Home
from warehouse.marts import marts
from warehouse.report import write_reports

DATABASE = dg.AssetKey(["warehouse", "duckdb"])
REPORT = dg.AssetKey(["warehouse", "report"])
GROUP = "published"


def publish_asset() -> dg.AssetsDefinition:
    """The published file, its marts and the report: one step that depends on everything that lands."""
    upstream = [*map(source_key, all_sources().values()), SPOOL, *map(key_of, ROLLED), *map(table_key, PRICE_TABLES)]
    specs = [
        dg.AssetSpec(
            DATABASE,
            deps=upstream,
            description="warehouse.duckdb, assembled from the lake and swapped in whole.",
            group_name=GROUP,
            kinds={"duckdb"},
            owners=OWNERS,
        ),
        *(
            dg.AssetSpec(
                dg.AssetKey(["mart", mart.name]),
                deps=[DATABASE],
                description=f"{mart.meaning} Grain: {mart.grain}. Key: {', '.join(mart.key)}.",
                group_name=GROUP,
                kinds={"duckdb", "sql"},
                owners=OWNERS,
            )
            for mart in marts()
        ),
        dg.AssetSpec(
            REPORT,
            deps=[DATABASE],
            description="The one-page HTML report.",
            group_name=GROUP,
            kinds={"html"},
            owners=OWNERS,
        ),
    ]

    @dg.multi_asset(name="publish", specs=specs, pool="warehouse", required_resource_keys={"home"})
    def step(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        home: Home = context.resources.home.home()
        published = publish_home(home)
        yield dg.MaterializeResult(
            asset_key=DATABASE, metadata={"build": published.build_id, "rows": sum(published.rows.values())}
        )
        for mart in marts():
            yield dg.MaterializeResult(
                asset_key=dg.AssetKey(["mart", mart.name]),
                metadata={"dagster/row_count": published.rows[f"mart.{mart.name}"], **_preview(home, mart.name)},
            )
        pages = write_reports(home)
        yield dg.MaterializeResult(asset_key=REPORT, metadata={"pages": ", ".join(p.name for p in pages)})

    return step


def _preview(home: Home, mart: str) -> dict[str, Any]:
    """The first rows of a mart, as a table in Dagster's page."""
    import duckdb

    with duckdb.connect(str(home.database), read_only=True) as con:
        rows = con.sql(f"select * from mart.{mart} limit {PREVIEW_ROWS}")
        names = rows.columns
        head = "| " + " | ".join(names) + " |\n|" + "---|" * len(names)
        body = ["| " + " | ".join(str(v).replace("|", "\\|") for v in row) + " |" for row in rows.fetchall()]
    return {"preview": dg.MetadataValue.md("\n".join([head, *body]))}
