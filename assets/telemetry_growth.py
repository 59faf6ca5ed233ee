"""What counters gained between buckets, restarts included.

Belongs here: the growth of cumulative readings by GPU and bucket. Does not belong here: buckets and their other
statistics (`telemetry_rollup.py`), energy, links (`telemetry_links.py`).
"""

from __future__ import annotations

from typing import Final

import polars as pl

COUNTERS: Final = {
    "nvlink_tx_bytes": "nvlink_tx_delta_bytes",
    "nvlink_rx_bytes": "nvlink_rx_delta_bytes",
    "pcie_tx_bytes": "pcie_tx_delta_bytes",
    "pcie_rx_bytes": "pcie_rx_delta_bytes",
    "pcie_replay_count": "pcie_replay_delta_count",
    "ecc_corrected_count": "ecc_corrected_delta_count",
    "ecc_uncorrected_count": "ecc_uncorrected_delta_count",
    "throttle_power_cap_ns": "throttle_power_cap_seconds",
    "throttle_sw_thermal_ns": "throttle_sw_thermal_seconds",
    "throttle_hw_thermal_ns": "throttle_hw_thermal_seconds",
    "throttle_power_brake_ns": "throttle_power_brake_seconds",
}


def growth(buckets: pl.DataFrame, frame: pl.DataFrame, reach: int) -> pl.DataFrame:
    """What each counter gained in a bucket: last value less the last of the bucket before, plus what restarts hid.

    A value up to `reach` buckets back still counts as the one before. Only the samples where a counter restarted
    are looked at one by one; they are few.
    """
    ordered = buckets
    restarted = _restarted(frame)
    gained = ordered.select("@gpu", "@bucket")
    for counter, name in COUNTERS.items():
        if ordered.get_column(counter).null_count() == ordered.height:
            gained = gained.with_columns(pl.lit(None, pl.Int64).alias(name))
            continue
        before = _carried(ordered, counter, reach)
        since = pl.coalesce(before, pl.col(f"@first {counter}"))
        gained = gained.with_columns(ordered.select((pl.col(counter) - since).alias(name)))
        if counter in restarted:
            hidden = _hidden_by_restarts(frame, counter, reach)
            gained = gained.join(hidden, on=("@gpu", "@bucket"), how="left", maintain_order="left").with_columns(
                pl.col(name) + pl.col("@hidden").fill_null(0)
            )
            gained = gained.drop("@hidden")
    return gained.with_columns(pl.col(n) / 1e9 for c, n in COUNTERS.items() if c.endswith("_ns"))


def _carried(frame: pl.DataFrame, counter: str, reach: int) -> pl.Expr:
    """The last known value of a counter before each row of the same GPU, no more than `reach` buckets back."""
    value, bucket = pl.col(counter), pl.col("@bucket")
    if frame.get_column(counter).null_count():
        before = value.forward_fill().shift(1).over("@gpu")
        known = pl.when(value.is_not_null()).then(bucket).forward_fill().shift(1).over("@gpu")
        return pl.when(bucket - known <= reach).then(before)
    same = pl.col("@gpu") == pl.col("@gpu").shift(1)
    return pl.when(same & (bucket - bucket.shift(1) <= reach)).then(value.shift(1))


def _restarted(frame: pl.DataFrame) -> set[str]:
    """Counters that fell anywhere within a GPU: few, and only they are looked at sample by sample."""
    same = pl.col("@gpu") == pl.col("@gpu").shift(1)
    fell = {
        name: pl.col(name)
        < (pl.col(name).forward_fill() if frame.get_column(name).null_count() else pl.col(name)).shift(1)
        for name in COUNTERS
        if frame.get_column(name).null_count() < frame.height
    }
    told = frame.lazy().select((fell[name] & same).any().alias(name) for name in fell).collect()
    return {name for name in fell if told.item(0, name)}


def _hidden_by_restarts(frame: pl.DataFrame, counter: str, reach: int) -> pl.DataFrame:
    """Sum, by bucket, of the values a counter had right before it restarted."""
    return (
        frame.lazy()
        .select("@gpu", "@bucket", pl.col(counter).alias("@now"), _carried(frame, counter, reach).alias("@hidden"))
        .filter(pl.col("@now") < pl.col("@hidden"))
        .group_by("@gpu", "@bucket")
        .agg(pl.col("@hidden").sum())
        .collect()
    )
