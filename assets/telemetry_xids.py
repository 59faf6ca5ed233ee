"""XIDs that only a gauge tells: DCGM holds the last code for ever, so an event is a change between two readings.

Belongs here: comparing the first reading of one document with the last of the one before. Does not belong here:
changes within a document (`sources/telemetry_inputs/metrics.py`), what to do about an XID (`mart.node_actions`).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from sources.telemetry_inputs.xid_catalogue import with_meaning

GAUGE: Final = ("cluster", "node", "device", "source", "is_synthetic")
STANDING: Final = "xid_last"


def date_xids(frame: pl.DataFrame) -> pl.DataFrame:
    """`telemetry.gpu_events` with what a gauge held at first reading (kind `xid_last`) compared with the reading before.

    Another code than before: an event of kind `xid`, at the instant it was first read, with the catalogue's severity
    and action. The same code again, or 0 (none since the driver loaded): nothing happened, the row is left out.
    No reading before: it stays `xid_last`, of an unknown time.
    """
    standing = pl.col("kind") == STANDING
    if not frame.select(standing.any()).item():
        return frame
    # Of one instant the event goes first: the next document may begin with the reading that ended the one before.
    read = frame.filter(standing | (pl.col("kind") == "xid")).sort(*GAUGE, "occurred_at", "kind")
    before = pl.col("code").shift(1).over(GAUGE)
    read = read.with_columns(before.alias("@before"))
    told = read.filter(~standing | ((pl.col("code") > 0) & pl.col("code").ne_missing(pl.col("@before"))))
    kind = pl.when(standing & pl.col("@before").is_not_null()).then(pl.lit("xid")).otherwise("kind")
    dated = with_meaning(told.with_columns(kind.alias("kind")).drop("@before"))
    others = frame.filter(~standing & (pl.col("kind") != "xid"))
    return pl.concat([others, dated.select(frame.columns)])
