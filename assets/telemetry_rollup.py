"""GPU samples to minutes and hours: energy, means and counter growth, aware of gaps and restarts.

Belongs here: the roll-up over the sorted samples. Does not belong here: which hours are due, reading and writing
the lake, links (`telemetry_links.py`).

Rules. An interval runs from one sample of a GPU to the next. It is covered when it is no longer than three times
the longer of its neighbours, at least 10 s and at most 300 s. Energy is the growth of the counter; where that is
not known, the counter restarted, or it grew by more than twice the power limit allows (a clock that was set back
mixes two times), the trapezoid of power. A covered interval that crosses the end of a bucket is
shared by time. Other counters count in the bucket where the interval ends. A restarted counter grew by what it
shows. MIG instances have no power of their own: their boards' rows carry it. What lies more than an hour before a
sample or bucket says nothing about it, so an hour comes out the same from any window that holds the hours beside it.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import polars as pl
from sqlmodel import SQLModel

from assets.telemetry_clean import conform
from assets.telemetry_growth import COUNTERS, growth
from assets.telemetry_order import IDENTITY, by_gpu_and_time
from assets.telemetry_runs import Array, Runs
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 3_600_000_000
SHORTEST_GAP_US: Final = 10_000_000
LONGEST_COVERED_US: Final = 300_000_000
USUAL_INTERVALS: Final = 3
PLAUSIBLE_OVER_LIMIT: Final = 2.0
UNLIMITED_W: Final = 1e5
COUNTER_LAG_US: Final = 500_000  # a counter is read a little after or before its sample's time
QUIET_TENSOR_RATIO: Final = 0.01
QUIET_SM_RATIO: Final = 0.05
FROZEN_COUNTER_J: Final = 60.0  # a counter that stands still while power says this much was used is not to be believed
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
    "remapped_uncorrected_rows",
    "remap_pending",
    "remap_failed",
    "retired_pages",
    "recovery_action",
    "pcie_link_width",
    "pcie_link_generation",
)
_SHARED: Final = ("seconds_covered", "energy_seconds", "@counter_j", "@trapezoid_j", "@filled_j", "@quiet_s")
_SUMMED: Final = (*_SHARED, "gap_energy_j", "counter_reset_count")
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


def rollup_both(samples: pl.LazyFrame, minutes_from: dt.datetime | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Minutes (right from `minutes_from` on, a full minute) and hours of the same samples, read and ordered once."""
    read = _read(samples)
    near = read if minutes_from is None else _from(read, minutes_from - dt.timedelta(hours=1))
    return _rolled(near, MINUTE_US, "minute_at", GpuMinute), _rolled(read, HOUR_US, "hour_at", GpuHour)


def _from(read: pl.DataFrame, begin: dt.datetime) -> pl.DataFrame:
    """The ordered samples from an instant on; GPUs are numbered anew, for some may have none."""
    return read.filter(pl.col("sampled_at") >= begin).with_columns(pl.col("@gpu").rle_id())


def due_from(first: dt.datetime) -> dt.datetime:
    """The first minute that changes when the earliest new sample is this one.

    It may be the other end of a covered interval, and say that the interval before that one is no gap.
    """
    reach = dt.timedelta(microseconds=2 * LONGEST_COVERED_US)
    return (first - reach).replace(second=0, microsecond=0)


def _read(samples: pl.LazyFrame) -> pl.DataFrame:
    return by_gpu_and_time(samples.select("sampled_at", *IDENTITY, *ABOUT, *GAUGES, *COUNTERS).collect())


def _rollup(samples: pl.LazyFrame, width_us: int, name: str, model: type[SQLModel]) -> pl.DataFrame:
    return _rolled(_read(samples), width_us, name, model)


def _rolled(read: pl.DataFrame, width_us: int, name: str, model: type[SQLModel]) -> pl.DataFrame:
    if read.is_empty():
        return pl.DataFrame(schema=lake_schema(model))
    frame = _with_intervals(read, width_us)
    starts = frame.select(
        ((pl.col("@gpu") != pl.col("@gpu").shift(1)) | (pl.col("@bucket") != pl.col("@bucket").shift(1)))
        .fill_null(value=True)
        .arg_true()
    )
    inside = _stats(frame, starts.to_series().to_numpy())
    sums = _sums(frame, inside, width_us)
    grown = growth(inside, frame, HOUR_US // width_us)
    last = (pl.col("@gpu") != pl.col("@gpu").shift(-1)).fill_null(value=True)
    who = frame.lazy().select("@gpu", *IDENTITY).filter(last).collect()
    own = pl.concat([inside.drop(*_SUMMED, *COUNTERS, *ABOUT), grown.drop("@gpu", "@bucket")], how="horizontal")
    counts = ("sample_count", "power_count", "gpu_util_count", "tensor_active_count", "counter_reset_count")
    at = pl.from_epoch(pl.col("@bucket") * width_us, time_unit="us").dt.replace_time_zone("UTC")
    if sums.height == own.height:  # every bucket has samples of its own, in the same order
        whole = pl.concat([_with_method(sums), own.drop("@gpu", "@bucket")], how="horizontal")
    else:
        whole = _with_method(sums).join(own, on=("@gpu", "@bucket"), how="left", maintain_order="left")
    return conform(
        whole.join(who, on="@gpu", maintain_order="left")
        .with_columns(at.alias(name), pl.col(*counts).fill_null(0))
        .with_columns(pl.col("seconds_covered", "energy_seconds").fill_null(0.0), pl.col(name).dt.date().alias("date")),
        model,
    )


def _with_intervals(frame: pl.DataFrame, width_us: int) -> pl.DataFrame:
    """Adds what happened between a sample and the one before it of the same GPU; null at each GPU's first."""
    same = pl.col("@gpu") == pl.col("@gpu").shift(1)
    since = pl.col("@t") - pl.col("@t").shift(1)
    elapsed = pl.when(same & (since <= HOUR_US)).then(since)
    frame = frame.with_columns(pl.col("sampled_at").dt.epoch("us").alias("@t"))
    frame = frame.with_columns(elapsed.alias("@dt"), (pl.col("@t") // width_us).alias("@bucket"))
    short = pl.when(pl.col("@dt") <= LONGEST_COVERED_US).then(pl.col("@dt"))
    usual = USUAL_INTERVALS * pl.max_horizontal(
        pl.when(same).then(short.shift(1)),
        pl.when(pl.col("@gpu").shift(-1) == pl.col("@gpu")).then(short.shift(-1)),
    )
    limit = pl.min_horizontal(pl.max_horizontal(usual, SHORTEST_GAP_US), LONGEST_COVERED_US)
    before = pl.col("energy_j").shift(1)
    most = PLAUSIBLE_OVER_LIMIT * _limits(frame).gather(frame.get_column("@gpu")) / 1e6
    believed = (pl.col("energy_j") - before).is_between(0, pl.lit(most) * (pl.col("@dt") + COUNTER_LAG_US))
    known = pl.col("@dt").is_not_null() & pl.col("parent_gpu_uuid").is_null()
    mean_power = 0.5 * (pl.col("power_w") + pl.col("power_w").shift(1))
    quiet = (
        pl.when(pl.col("tensor_active_ratio").is_not_null() & pl.col("sm_active_ratio").is_not_null())
        .then((pl.col("tensor_active_ratio") < QUIET_TENSOR_RATIO) & (pl.col("sm_active_ratio") < QUIET_SM_RATIO))
        .when(pl.col("parent_gpu_uuid").is_null())
        .then(pl.col("gpu_util_ratio") == 0)
    )
    covered = pl.col("@dt") <= limit
    frame = frame.with_columns(
        covered.alias("@covered"),
        pl.when(known & believed).then(pl.col("energy_j") - before).alias("@counter"),
        (pl.col("@dt").is_not_null() & (pl.col("energy_j") < before)).cast(pl.UInt32).alias("counter_reset_count"),
    )
    seconds = pl.when("@covered").then(pl.col("@dt") / 1e6)
    trapezoid = pl.when(pl.col("@covered") & known).then(mean_power * pl.col("@dt") / 1e6)
    frame = frame.with_columns(
        seconds.alias("seconds_covered"),
        trapezoid.alias("@trapezoid_j"),
        pl.when("@covered").then("@counter").alias("@counter_j"),
        pl.when(~pl.col("@covered")).then("@counter").alias("gap_energy_j"),
        ((pl.col("@bucket") * width_us >= pl.col("@t") - pl.col("@dt")) & pl.col("@covered"))
        .fill_null(value=False)
        .alias("@crosses"),
    )
    gained = pl.col("@counter_j").is_not_null() | pl.col("@trapezoid_j").is_not_null()
    return frame.with_columns(
        pl.when(gained).then("seconds_covered").alias("energy_seconds"),
        pl.when(pl.col("@counter_j").is_null()).then("@trapezoid_j").alias("@filled_j"),
        pl.when(quiet).then("seconds_covered").when(~quiet).then(pl.col("seconds_covered") * 0.0).alias("@quiet_s"),
    )


def _limits(frame: pl.DataFrame) -> pl.Series:
    """The highest power limit of each GPU, in the order of `@gpu`."""
    if frame.get_column("power_limit_w").null_count() == frame.height:
        return pl.Series([UNLIMITED_W]).new_from_index(0, frame.get_column("@gpu").n_unique())
    limits = frame.lazy().group_by("@gpu").agg(pl.col("power_limit_w").max()).sort("@gpu").collect()
    return limits.get_column("power_limit_w").fill_null(UNLIMITED_W)


def _stats(frame: pl.DataFrame, starts: Array) -> pl.DataFrame:
    """One row for each GPU and bucket: statistics of its samples, sums of the intervals that lie inside it."""
    inside = frame.with_columns(pl.when(~pl.col("@crosses")).then(pl.col(name)).alias(name) for name in _SHARED)
    runs = Runs(inside, starts)
    told: dict[str, pl.Series] = {name: runs.at_end(name) for name in ("@gpu", "@bucket", *ABOUT)}
    told |= {name: runs.nothing(name) if runs.is_unknown(name) else runs.total(name) for name in _SUMMED}
    for counter in COUNTERS:
        unknown = runs.is_unknown(counter)
        told[counter] = runs.nothing(counter) if unknown else runs.last(counter)
        told[f"@first {counter}"] = runs.nothing(counter) if unknown else runs.first(counter)
    ask = {
        "mean": runs.mean,
        "min": runs.least,
        "max": runs.most,
        "count": runs.count,
        "last": runs.last,
        "bits": runs.every_bit,
    }
    for name, (column, what) in STATISTICS.items():
        blank = runs.is_unknown(column) and what != "count"
        told[name] = runs.nothing(column) if blank else ask[what](column)
    told["sample_count"] = pl.Series(runs.ends - runs.starts)
    return pl.DataFrame(told)


# column of the roll-up: the samples' column, and what of it
STATISTICS: Final = {
    "power_mean_w": ("power_w", "mean"),
    "power_min_w": ("power_w", "min"),
    "power_max_w": ("power_w", "max"),
    "power_count": ("power_w", "count"),
    "power_limit_w": ("power_limit_w", "max"),
    "gpu_util_mean_ratio": ("gpu_util_ratio", "mean"),
    "gpu_util_max_ratio": ("gpu_util_ratio", "max"),
    "gpu_util_count": ("gpu_util_ratio", "count"),
    "sm_active_mean_ratio": ("sm_active_ratio", "mean"),
    "sm_occupancy_mean_ratio": ("sm_occupancy_ratio", "mean"),
    "tensor_active_mean_ratio": ("tensor_active_ratio", "mean"),
    "tensor_active_max_ratio": ("tensor_active_ratio", "max"),
    "tensor_active_count": ("tensor_active_ratio", "count"),
    "dram_active_mean_ratio": ("dram_active_ratio", "mean"),
    "memory_used_mean_bytes": ("memory_used_bytes", "mean"),
    "memory_used_max_bytes": ("memory_used_bytes", "max"),
    "memory_total_bytes": ("memory_total_bytes", "max"),
    "temperature_mean_c": ("temperature_c", "mean"),
    "temperature_max_c": ("temperature_c", "max"),
    "memory_temperature_max_c": ("memory_temperature_c", "max"),
    "sm_clock_mean_mhz": ("sm_clock_mhz", "mean"),
    "sm_clock_min_mhz": ("sm_clock_mhz", "min"),
    "event_reasons": ("event_reasons", "bits"),
    "remapped_uncorrected_rows": ("remapped_uncorrected_rows", "last"),
    "remap_pending": ("remap_pending", "last"),
    "remap_failed": ("remap_failed", "last"),
    "retired_pages": ("retired_pages", "last"),
    "recovery_action": ("recovery_action", "last"),
    "pcie_link_width_min": ("pcie_link_width", "min"),
    "pcie_link_generation_max": ("pcie_link_generation", "max"),
}


def _sums(frame: pl.DataFrame, inside: pl.DataFrame, width_us: int) -> pl.DataFrame:
    """Intervals by bucket: those inside it, and its share of those that reach over its ends; sorted as `inside`.

    A bucket's own samples say what the GPU was; where there are none, the interval's end does.
    """
    kept = ("@gpu", "@bucket", *ABOUT, *_SUMMED)
    pieces = _shared(frame.filter("@crosses").select(*kept, "@t", "@dt"), width_us)
    here, there = (_place(some) for some in (inside, pieces))
    every = np.union1d(here, there)
    own, others = np.searchsorted(every, here), np.searchsorted(every, there)
    if len(every) == len(here):
        told = inside.select("@gpu", "@bucket", *ABOUT)
    else:
        heads = pl.concat([inside.select("@gpu", "@bucket", *ABOUT), pieces.select("@gpu", "@bucket", *ABOUT)])
        _, first = np.unique(np.concatenate([here, there]), return_index=True)
        told = heads[pl.Series(first)]
    return told.with_columns(_added(name, inside, own, pieces, others, len(every)) for name in _SUMMED)


def _place(frame: pl.DataFrame) -> Array:
    """GPU and bucket as one number that sorts like both."""
    place: Array = frame.select(pl.col("@gpu").cast(pl.Int64) * (1 << 32) + pl.col("@bucket")).to_series().to_numpy()
    return place


def _added(name: str, inside: pl.DataFrame, own: Array, pieces: pl.DataFrame, others: Array, size: int) -> pl.Series:
    """A sum that stays null where nothing is known."""
    total, known = np.zeros(size), np.zeros(size, bool)
    for frame, at in ((inside, own), (pieces, others)):
        column = frame.get_column(name)
        if column.null_count() < len(column):
            has = column.is_not_null().to_numpy()
            total += np.bincount(at, column.fill_null(0).to_numpy(), size)
            known[at[has]] = True
    return pl.Series(name, total).set(pl.Series(~known), None)


def _shared(crossing: pl.DataFrame, width_us: int) -> pl.DataFrame:
    """Covered intervals that reach over the end of a bucket, one piece for each bucket they touch."""
    start, end = pl.col("@t") - pl.col("@dt"), pl.col("@t")
    piece = pl.min_horizontal(end, (pl.col("@piece") + 1) * width_us) - pl.max_horizontal(
        start, pl.col("@piece") * width_us
    )
    others = [name for name in _SUMMED if name not in _SHARED]
    return (
        crossing.with_columns(pl.int_ranges(start // width_us, pl.col("@bucket") + 1).alias("@piece"))
        .explode("@piece")
        .with_columns((piece / pl.col("@dt")).alias("@share"))
        .filter(pl.col("@share") > 0)
        .select(
            "@gpu",
            pl.col("@piece").alias("@bucket"),
            *ABOUT,
            *(
                pl.lit(None, crossing.schema[name]).alias(name) if name in others else pl.col(name) * pl.col("@share")
                for name in _SUMMED
            ),
        )
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
