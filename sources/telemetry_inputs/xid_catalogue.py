"""What the vendor's catalogue says of an XID: its immediate action, and our severity of that action.

Belongs here: filling both in where the collector did not. Does not belong here: reading logs; the node agent has
its own look-up (`sources/telemetry/nvml_catalogue.py`), because it runs without Polars.
"""

from __future__ import annotations

import polars as pl

from sources.telemetry_inputs.context import table


def with_meaning(events: pl.DataFrame) -> pl.DataFrame:
    """Events with `severity` and `action` of the catalogue where they are null and the kind is `xid`."""
    catalogue = table("xid_actions.csv").select(
        pl.lit("xid").alias("kind"),
        pl.col("code").cast(pl.Int64).alias("@code"),
        pl.col("severity").alias("@severity"),
        pl.col("action").alias("@action"),
    )
    given = [n if n in events.columns else pl.lit(None, pl.String).alias(n) for n in ("severity", "action")]
    names = [*events.columns, *(n for n in ("severity", "action") if n not in events.columns)]
    return (
        events.with_columns(given)
        .with_columns(pl.col("code").cast(pl.Int64, strict=False).alias("@code"))
        .join(catalogue, on=("kind", "@code"), how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("severity", "@severity").alias("severity"), pl.coalesce("action", "@action").alias("action")
        )
        .select(names)
    )
