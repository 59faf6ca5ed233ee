"""Monthly revenue as rows of `market.financials`.

Belongs here: the frame two sources share. Does not belong here: reading either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

MONTHLY = "monthly_net_revenue"
_IN: dict[str, Any] = {
    "entity": pl.String,
    "metric": pl.String,
    "fiscal_period": pl.String,
    "period_start": pl.Date,
    "period_end": pl.Date,
    "value": pl.Float64,
    "currency": pl.String,
    "precision": pl.Float64,
    "concept": pl.String,
    "form": pl.String,
    "accession": pl.String,
    "known_at": pl.Datetime("us", "UTC"),
    "known_at_precision": pl.String,
    "source_name": pl.String,
    "source_url": pl.String,
}


def monthly_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows with value in their own currency; dollars stay unknown."""
    return pl.DataFrame(list(rows), schema=_IN).select(
        pl.exclude("precision"),
        definition_version=pl.lit("1"),
        period_basis=pl.lit("month"),
        value_usd=pl.lit(None, pl.Float64),
        unit=pl.col("currency"),
        definition=pl.lit("consolidated net revenue of the month"),
    )
