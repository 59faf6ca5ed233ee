"""ECC counters as growth, and sightings of processes as spans of time.

Belongs here: what publish computes over the whole tables of `warehouse/schema/telemetry_boards.py`. Does not belong
here: link counters (`telemetry_links.py`), samples.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import polars as pl

ECC: Final = ("cluster", "source", "is_synthetic", "node", "gpu_uuid", "error_kind", "counter_span", "location")
PROCESS: Final = ("cluster", "source", "is_synthetic", "node", "gpu_uuid", "pid")
# The agent tells of a running process at least once an hour: one not told of for so long has ended meanwhile.
LONGEST_SILENCE: Final = dt.timedelta(hours=2)


def ecc_deltas(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of `telemetry.ecc_counters`, sorted, with `delta` and `delta_status`.

    counted: growth since the last readable value · first: nothing to compare with · reset: the counter restarted, so
    the value itself is the growth · unreadable: null.
    """
    value = pl.col("value")
    before = value.forward_fill().shift(1).over(ECC)
    status = (
        pl.when(value.is_null())
        .then(pl.lit("unreadable"))
        .when(before.is_null())
        .then(pl.lit("first"))
        .when(value >= before)
        .then(pl.lit("counted"))
        .otherwise(pl.lit("reset"))
    )
    told = pl.col("delta_status")
    delta = pl.when(told == "counted").then(value - before).when(told == "reset").then(value)
    return (
        frame.sort(*ECC, "sampled_at")
        .with_columns(status.alias("delta_status"))
        .with_columns(delta.cast(pl.Int64).alias("delta"))
    )


def close_processes(frame: pl.DataFrame) -> pl.DataFrame:
    """`telemetry.gpu_processes` with one row for each stay of a process on a GPU, whatever the order of arrival.

    A record with `to_at` says that the process is gone. One that was not told of for `LONGEST_SILENCE`, while its
    node told of others or it came again, ended when it was last seen (the agent was not there to see it go).
    """
    if frame.is_empty():
        return frame
    ordered = frame.sort(*PROCESS, "from_at", "to_at", nulls_last=True)
    since = pl.col("from_at") - pl.col("from_at").shift(1).over(PROCESS)
    begins = (
        since.is_null()
        | (since > LONGEST_SILENCE)
        | pl.col("to_at").shift(1).over(PROCESS).is_not_null()
        | pl.col("process_name").ne_missing(pl.col("process_name").shift(1).over(PROCESS))
    )
    newest = pl.col("from_at").max().over("cluster", "source", "is_synthetic", "node")
    stays = (
        ordered.with_columns(begins.cum_sum().alias("@stay"), newest.alias("@newest"))
        .group_by(*PROCESS, "@stay", maintain_order=True)
        .agg(
            pl.first("from_at"),
            pl.last("from_at").alias("@seen"),
            pl.last("to_at"),
            pl.first("process_name", "@newest"),
            pl.max("memory_used_bytes"),
        )
    )
    came_again = pl.col("@stay").shift(-1).over(PROCESS).is_not_null()
    silent = came_again | (pl.col("@newest") - pl.col("@seen") > LONGEST_SILENCE)
    return stays.with_columns(pl.coalesce("to_at", pl.when(silent).then("@seen")).alias("to_at")).select(frame.columns)
