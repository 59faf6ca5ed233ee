"""How much a link's counters grew: aware of restarts, of wraps and of counters that stop at their maximum.

Belongs here: deltas over the sorted set of `telemetry.link_counters`. Does not belong here: thresholds and
verdicts on links (`mart.link_health`), reading the counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

SERIES: Final = ("cluster", "node", "device", "link_kind", "link_index", "counter", "source")
# Where a counter of the InfiniBand port (PortCounters attribute) stops: 4, 8 or 16 bits
INFINIBAND_MAXIMA: Final[Mapping[str, int]] = {
    "symbol_error": 65535,
    "link_error_recovery": 255,
    "link_downed": 255,
    "port_rcv_errors": 65535,
    "port_rcv_remote_physical_errors": 65535,
    "port_rcv_switch_relay_errors": 65535,
    "port_xmit_discards": 65535,
    "port_xmit_constraint_errors": 255,
    "port_rcv_constraint_errors": 255,
    "local_link_integrity_errors": 15,
    "excessive_buffer_overrun_errors": 15,
    "vl15_dropped": 65535,
}
NVLINK_MAXIMUM: Final = 65535  # 16 bits on Volta
_WRAP: Final = 1 << 32
NARROW: Final = ("saturated", "wrapped")  # told only while no value of the series shows that it has more bits
NUMBER: Final = "@series"
MOST_SERIES: Final = 1 << 62  # as many numbers as 64 bits hold


def link_deltas(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of `telemetry.link_counters`, sorted, with `delta` and `delta_status`.

    counted: growth since the last readable value · first: nothing to compare with · reset: the counter restarted,
    so the value itself is the growth · wrapped: a 32-bit traffic counter passed its end · saturated: it stands at
    its maximum, so growth is not known · unreadable: null. A counter only counts as saturating while no value of
    its series lies above the maximum: on newer hardware the same counter has 64 bits.
    """
    if frame.is_empty():
        return frame.with_columns(pl.lit(None, pl.String).alias("delta_status"), pl.lit(None, pl.Int64).alias("delta"))
    ordered = frame.with_columns(_numbers(frame)).sort(NUMBER, "sampled_at")
    value = pl.col("value")
    if ordered["value"].null_count():
        before = value.forward_fill().shift(1).over(NUMBER)
    else:  # the usual case, and many times faster
        before = pl.when(pl.col(NUMBER) == pl.col(NUMBER).shift(1)).then(value.shift(1))
    highest = value.max().over(NUMBER)
    maximum = _maximum()
    wraps = _is_traffic() & (highest < _WRAP) & (before >= _WRAP // 4 * 3) & (value < _WRAP // 4)
    status = (
        pl.when(value.is_null())
        .then(pl.lit("unreadable"))
        .when((value == maximum) & (highest <= maximum))
        .then(pl.lit("saturated"))
        .when(before.is_null())
        .then(pl.lit("first"))
        .when(value >= before)
        .then(pl.lit("counted"))
        .when(wraps)
        .then(pl.lit("wrapped"))
        .otherwise(pl.lit("reset"))
    )
    told = pl.col("delta_status")
    delta = (
        pl.when(told == "counted")
        .then(value - before)
        .when(told == "wrapped")
        .then(value + _WRAP - before)
        .when(told == "reset")
        .then(value)
    )
    return (
        ordered.with_columns(status.alias("delta_status"))
        .with_columns(delta.cast(pl.Int64).alias("delta"))
        .drop(NUMBER)
    )


def is_beyond() -> pl.Expr:
    """Is the value one that a counter of so few bits cannot show? Then no row of its series is `NARROW`."""
    value = pl.col("value")
    return ((value > _maximum()) | (_is_traffic() & (value >= _WRAP))).fill_null(value=False)


def _maximum() -> pl.Expr:
    """Where the counter stops, if it has few bits."""
    name = pl.col("counter").str.to_lowercase()
    return (
        pl.when(pl.col("link_kind") == "infiniband")
        .then(name.replace_strict(INFINIBAND_MAXIMA, default=None, return_dtype=pl.Int64))
        .when((pl.col("link_kind") == "nvlink") & ~name.str.ends_with("_bytes"))
        .then(pl.lit(NVLINK_MAXIMUM, pl.Int64))
    )


def _is_traffic() -> pl.Expr:
    return pl.col("counter").str.to_lowercase().str.contains(r"(?:data|bytes|packets|pkts|wait)$")


def _numbers(frame: pl.DataFrame) -> pl.Series:
    """A number for each series that sorts as its columns do: comparing one number is faster than seven texts."""
    whole = pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
    size = 1
    for name in SERIES:
        column = frame.get_column(name)
        codes = column.cast(pl.Categorical).to_physical() if column.dtype == pl.String else column
        heads = pl.DataFrame({"code": codes, "told": column}).unique("code").sort("told")
        size *= heads.height
        if size > MOST_SERIES:
            return frame.select(pl.struct(SERIES).rank("dense").cast(pl.Int64).alias(NUMBER)).to_series()
        places = codes.replace_strict(heads["code"], pl.Series(range(heads.height), dtype=pl.Int64))
        whole = whole * heads.height + places
    return whole.alias(NUMBER)
