"""GPU samples to minutes and hours: energy, means and counter growth, aware of gaps and restarts.

Belongs here: the roll-up over the sorted samples. Does not belong here: which hours are due, reading and writing
the lake, links (`telemetry_links.py`).

Rules. An interval runs from one sample of a GPU to the next. It is covered when it is no longer than three times
the longer of its neighbours, at least 10 s and at most 300 s. Energy is the growth of the counter; where that is
not known or the counter restarted, the trapezoid of power. A covered interval that crosses the end of a bucket is
shared by time. Other counters count in the bucket where the interval ends. A restarted counter grew by what it
shows. MIG instances have no power of their own: their boards' rows carry it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import polars as pl
from sqlmodel import SQLModel

from assets.telemetry_clean import conform
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 3_600_000_000
SHORTEST_GAP_US: Final = 10_000_000
LONGEST_COVERED_US: Final = 300_000_000
USUAL_INTERVALS: Final = 3
QUIET_TENSOR_RATIO: Final = 0.01
QUIET_SM_RATIO: Final = 0.05
FROZEN_COUNTER_J: Final = 60.0  # a counter that stands still while power says this much was used is not to be believed
IDENTITY: Final = ("source", "cluster", "node", "gpu_uuid")
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
GAUGES: Final = (
    "power_w",
    "power_limit_w",
    "energy_j",
    "gpu_util_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "temperature_c",
    "memory_temperature_c",
    "sm_clock_mhz",
    "event_reasons",
)
_SHARED: Final = ("seconds_covered", "energy_seconds", "@counter_j", "@trapezoid_j", "@filled_j", "@quiet_s")
ABOUT: Final = ("is_synthetic", "parent_gpu_uuid", "gpu_index", "accelerator_id")


def rollup_minutes(samples: pl.LazyFrame) -> pl.DataFrame:
    """Rows of `telemetry.gpu_minutes` for every minute the samples reach."""
    return _rollup(samples, MINUTE_US, "minute_at", GpuMinute)


def rollup_hours(samples: pl.LazyFrame) -> pl.DataFrame:
    """Rows of `telemetry.gpu_hours` for every hour the samples reach."""
    return _rollup(samples, HOUR_US, "hour_at", GpuHour)


def hours_due(samples: pl.DataFrame) -> list[dt.datetime]:
    """Hours that new samples change: their own, the one before (an interval reaches back) and the one after.

    To roll them up right, read the samples from one hour before the first of them to one hour after the last.
    """
    hour = pl.col("sampled_at").dt.epoch("us") // HOUR_US
    touched = samples.select(hour.unique()).to_series()
    around = sorted({h + step for h in touched.to_list() for step in (-1, 0, 1)})
    return [dt.datetime.fromtimestamp(h * 3600, tz=dt.UTC) for h in around]


def _rollup(samples: pl.LazyFrame, width_us: int, name: str, model: type[SQLModel]) -> pl.DataFrame:
    ordered = _intervals(_ordered(samples))
    by_sample = _sample_stats(ordered, width_us)
    by_interval = _interval_stats(ordered, width_us)
    both = by_sample.join(by_interval, on=("@gpu", "@bucket"), how="full", coalesce=True)
    who = ordered.group_by("@gpu").agg(pl.first(*IDENTITY), pl.last(*ABOUT))
    zero = ("sample_count", "power_count", "gpu_util_count", "tensor_active_count", "counter_reset_count")
    spans = ("seconds_covered", "energy_seconds")
    at = pl.from_epoch(pl.col("@bucket") * width_us, time_unit="us").dt.replace_time_zone("UTC")
    whole = (
        both.join(who, on="@gpu")
        .with_columns(at.alias(name), pl.col(*zero).fill_null(0), pl.col(*spans).fill_null(0.0))
        .with_columns(pl.col(name).dt.date().alias("date"))
        .sort(name, *IDENTITY)
    )
    return conform(whole, model)


def _ordered(samples: pl.LazyFrame) -> pl.DataFrame:
    """Samples by GPU and time, with a number for each (source, cluster, node, GPU)."""
    frame = samples.select("sampled_at", *IDENTITY, *ABOUT, *GAUGES, *COUNTERS).collect()
    numbered = frame.with_columns(
        _number(frame, IDENTITY).alias("@gpu"), pl.col("sampled_at").dt.epoch("us").alias("@t")
    )
    return numbered.sort("@gpu", "@t", maintain_order=True)


def _number(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """One number for each distinct combination of text columns, far quicker than ranking the text."""
    number = pl.Series("@gpu", [0], pl.Int64).new_from_index(0, frame.height)
    for column in columns:
        code = frame.get_column(column).cast(pl.Categorical).to_physical().cast(pl.Int64)
        lowest, highest = code.to_frame().select(pl.all().min().alias("low"), pl.all().max().alias("high")).row(0)
        if lowest is not None:
            number = number * (highest - lowest + 1) + (code - lowest)
    return number


def _intervals(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds what happened between a sample and the one before it of the same GPU; null at each GPU's first."""
    same = pl.col("@gpu") == pl.col("@gpu").shift(1)
    frame = frame.with_columns(pl.when(same).then(pl.col("@t") - pl.col("@t").shift(1)).alias("@dt"))
    usual = USUAL_INTERVALS * pl.max_horizontal(
        pl.when(same).then(pl.col("@dt").shift(1)),
        pl.when(pl.col("@gpu").shift(-1) == pl.col("@gpu")).then(pl.col("@dt").shift(-1)),
    )
    limit = pl.min_horizontal(pl.max_horizontal(usual, SHORTEST_GAP_US), LONGEST_COVERED_US)
    before = pl.col("energy_j").shift(1)
    grown = pl.when(pl.col("@dt").is_not_null() & (pl.col("energy_j") >= before)).then(pl.col("energy_j") - before)
    board = pl.col("parent_gpu_uuid").is_null()
    mean_power = 0.5 * (pl.col("power_w") + pl.col("power_w").shift(1))
    quiet = (
        pl.when(pl.col("tensor_active_ratio").is_not_null() & pl.col("sm_active_ratio").is_not_null())
        .then((pl.col("tensor_active_ratio") < QUIET_TENSOR_RATIO) & (pl.col("sm_active_ratio") < QUIET_SM_RATIO))
        .when(board)
        .then(pl.col("gpu_util_ratio") == 0)
    )
    return frame.with_columns(
        (pl.col("@dt") <= limit).alias("@covered"),
        pl.when(board).then(grown).alias("@counter_j"),
        pl.when(board & pl.col("@dt").is_not_null()).then(mean_power * pl.col("@dt") / 1e6).alias("@trapezoid_j"),
        (pl.col("@dt").is_not_null() & (pl.col("energy_j") < before)).alias("@reset"),
        quiet.alias("@quiet"),
    )


def _sample_stats(frame: pl.DataFrame, width_us: int) -> pl.DataFrame:
    return (
        frame.lazy()
        .with_columns((pl.col("@t") // width_us).alias("@bucket"))
        .group_by("@gpu", "@bucket")
        .agg(
            pl.len().alias("sample_count"),
            pl.col("power_w").mean().alias("power_mean_w"),
            pl.col("power_w").min().alias("power_min_w"),
            pl.col("power_w").max().alias("power_max_w"),
            pl.col("power_w").count().alias("power_count"),
            pl.col("power_limit_w").max(),
            pl.col("gpu_util_ratio").mean().alias("gpu_util_mean_ratio"),
            pl.col("gpu_util_ratio").max().alias("gpu_util_max_ratio"),
            pl.col("gpu_util_ratio").count().alias("gpu_util_count"),
            pl.col("sm_active_ratio").mean().alias("sm_active_mean_ratio"),
            pl.col("sm_occupancy_ratio").mean().alias("sm_occupancy_mean_ratio"),
            pl.col("tensor_active_ratio").mean().alias("tensor_active_mean_ratio"),
            pl.col("tensor_active_ratio").max().alias("tensor_active_max_ratio"),
            pl.col("tensor_active_ratio").count().alias("tensor_active_count"),
            pl.col("dram_active_ratio").mean().alias("dram_active_mean_ratio"),
            pl.col("memory_used_bytes").mean().alias("memory_used_mean_bytes"),
            pl.col("memory_used_bytes").max().alias("memory_used_max_bytes"),
            pl.col("memory_total_bytes").max(),
            pl.col("temperature_c").mean().alias("temperature_mean_c"),
            pl.col("temperature_c").max().alias("temperature_max_c"),
            pl.col("memory_temperature_c").max().alias("memory_temperature_max_c"),
            pl.col("sm_clock_mhz").mean().alias("sm_clock_mean_mhz"),
            pl.col("sm_clock_mhz").min().alias("sm_clock_min_mhz"),
            pl.col("event_reasons").bitwise_or().alias("event_reasons"),
        )
        .collect()
    )


def _interval_stats(frame: pl.DataFrame, width_us: int) -> pl.DataFrame:
    """What the intervals brought, each in the bucket it ends in or, where covered, shared by time."""
    last = (pl.col("@t") - 1) // width_us  # an interval that ends on the hour belongs to the hour before
    first = (pl.col("@t") - pl.col("@dt")) // width_us
    grown = [_growth(counter).alias(name) for counter, name in COUNTERS.items()]
    rows = frame.lazy().with_columns(last.alias("@bucket"), first.alias("@first"), *grown)
    rows = rows.filter(pl.col("@dt").is_not_null())
    seconds = pl.col("@dt") / 1e6
    energy = pl.coalesce("@counter_j", "@trapezoid_j")
    known = rows.select(
        "@gpu",
        "@bucket",
        "@first",
        "@t",
        "@dt",
        pl.lit(1.0).alias("@share"),
        pl.when("@covered").then(seconds).alias("seconds_covered"),
        pl.when(pl.col("@covered") & energy.is_not_null()).then(seconds).alias("energy_seconds"),
        pl.when("@covered").then("@counter_j").alias("@counter_j"),
        pl.when("@covered").then("@trapezoid_j").alias("@trapezoid_j"),
        pl.when(pl.col("@covered") & pl.col("@counter_j").is_null()).then("@trapezoid_j").alias("@filled_j"),
        pl.when("@covered").then(pl.when("@quiet").then(seconds).when(~pl.col("@quiet")).then(0.0)).alias("@quiet_s"),
        pl.when(~pl.col("@covered")).then("@counter_j").alias("gap_energy_j"),
        pl.col("@reset").cast(pl.Int64).alias("counter_reset_count"),
        *COUNTERS.values(),
    ).collect()
    crosses = (pl.col("@first") < pl.col("@bucket")) & pl.col("seconds_covered").is_not_null()
    crossing = known.filter(crosses)
    if crossing.height:
        known = pl.concat([known.filter(~crosses), _shared(crossing, width_us)])
    summed = (*_SHARED, "gap_energy_j", "counter_reset_count", *COUNTERS.values())
    sums = known.group_by("@gpu", "@bucket").agg(
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in summed)
    )
    return _with_method(sums)


def _growth(counter: str) -> pl.Expr:
    now, before = pl.col(counter), pl.col(counter).shift(1)
    grown = pl.when(now >= before).then(now - before).when(now < before).then(now)
    return grown / 1e9 if counter.endswith("_ns") else grown


def _shared(crossing: pl.DataFrame, width_us: int) -> pl.DataFrame:
    """Covered intervals that reach over the end of a bucket, one piece for each bucket they touch."""
    whole = ("gap_energy_j", "counter_reset_count", *COUNTERS.values())
    start, end = pl.col("@t") - pl.col("@dt"), pl.col("@t")
    piece = pl.min_horizontal(end, (pl.col("@piece") + 1) * width_us) - pl.max_horizontal(
        start, pl.col("@piece") * width_us
    )
    return (
        crossing.with_columns(pl.int_ranges("@first", pl.col("@bucket") + 1).alias("@piece"))
        .explode("@piece")
        .with_columns((piece / pl.col("@dt")).alias("@share"))
        .with_columns(
            *(pl.col(name) * pl.col("@share") for name in _SHARED),
            *(pl.when(pl.col("@piece") == pl.col("@bucket")).then(pl.col(name)).alias(name) for name in whole),
        )
        .with_columns(pl.col("@piece").alias("@bucket"))
        .drop("@piece")
        .select(crossing.columns)
    )


def _with_method(sums: pl.DataFrame) -> pl.DataFrame:
    frozen = (pl.col("@counter_j") == 0) & (pl.col("@trapezoid_j") > FROZEN_COUNTER_J)
    counter, filled = pl.col("@counter_j"), pl.col("@filled_j")
    return sums.with_columns(
        pl.when(frozen)
        .then(pl.col("@trapezoid_j"))
        .when(counter.is_not_null() | filled.is_not_null())
        .then(counter.fill_null(0.0) + filled.fill_null(0.0))
        .alias("energy_j"),
        pl.when(frozen | (counter.is_null() & filled.is_not_null()))
        .then(pl.lit("trapezoid"))
        .when(counter.is_not_null() & filled.is_not_null())
        .then(pl.lit("mixed"))
        .when(counter.is_not_null())
        .then(pl.lit("counter"))
        .alias("energy_method"),
        pl.col("@quiet_s").alias("inactive_seconds"),
    )
