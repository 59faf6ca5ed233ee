"""What has no table: records of a newer agent, and samples a receiver set aside. Both are kept in quarantine.

Belongs here: finding such records. Does not belong here: columns nobody declared (`telemetry_clean.py` names them),
segments of another format (`waiting.py` leaves them where they are).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from assets.telemetry_clean import RECORD_TABLES
from assets.telemetry_parts import QUARANTINED

SET_ASIDE: Final = "set_aside"
_KNOWN: Final = frozenset({*RECORD_TABLES, "gap", SET_ASIDE})


def unknown_records(records: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Every record of a kind no table takes, and what was set aside, as a row for the quarantine.

    `records`: as a batch of segments has them.
    """
    kinds = sorted(records.keys() - _KNOWN)
    aside = [_set_aside(records[SET_ASIDE])] if SET_ASIDE in records else []
    return pl.concat([pl.DataFrame(schema=QUARANTINED), *aside, *(_kept(kind, records[kind]) for kind in kinds)])


def unknown_kinds(records: Mapping[str, pl.DataFrame]) -> Sequence[str]:
    """How a warning names these kinds."""
    return [f"records of kind {kind} (kept in ops.quarantine)" for kind in sorted(records.keys() - _KNOWN)]


def _kept(kind: str, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        pl.lit("record kind is known").alias("rule"),
        pl.lit(f"no table takes records of kind {kind}; a newer almanac may").alias("reason"),
        pl.struct(pl.all()).struct.json_encode().alias("raw"),
        pl.format("{}/{}", "cluster", "node").alias("locator"),
        pl.lit(None, pl.String).alias("payload_sha256"),
    )


def _set_aside(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        pl.col("rule", "reason").cast(pl.String),
        pl.struct(pl.exclude("rule", "reason")).struct.json_encode().alias("raw"),
        pl.format("{}/{}", "cluster", "node").alias("locator"),
        pl.lit(None, pl.String).alias("payload_sha256"),
    )
