"""From what an agent wrote to table rows: types, SI units, sentinels to null with a reason.

Belongs here: pure functions over a `Batch` of spool segments. Does not belong here: decoding
(`sources/telemetry/segment.py`), deltas (`telemetry_links.py`), roll-ups, the gate, the lake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import polars as pl
from sqlmodel import SQLModel

from assets.telemetry_order import by_gpu_and_time
from assets.telemetry_parts import first_or_joined, joined, one_for_each
from sources.base import AlmanacError
from sources.telemetry.segment import Batch
from sources.telemetry.spool_format import Column
from sources.telemetry_inputs.xid_catalogue import with_meaning
from warehouse.schema.declare import key_of, lake_schema, qualified_name, table_of
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_boards import EccCounter, GpuProcess
from warehouse.schema.telemetry_fleet import (
    GpuEvent,
    Inventory,
    LinkCounter,
    NodeState,
    NullReason,
    PowerReading,
)

RECORD_TABLES: Final[Mapping[str, type[SQLModel]]] = {
    "ecc_counter": EccCounter,
    "gpu_event": GpuEvent,
    "gpu_process": GpuProcess,
    "inventory": Inventory,
    "link_counter": LinkCounter,
    "node_state": NodeState,
    "null_reason": NullReason,
    "power_reading": PowerReading,
}
# (unit as written, unit of the column): what to multiply by, then what to divide by
CONVERSIONS: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("mW", "W"): (1, 1000),
    ("mJ", "J"): (1, 1000),
    ("uJ", "J"): (1, 1_000_000),
    ("percent", "ratio"): (1, 100),
    ("basis_points", "ratio"): (1, 10_000),
    ("KiB", "bytes"): (1 << 10, 1),
    ("MiB", "bytes"): (1 << 20, 1),
    ("KiB/s", "bytes/s"): (1 << 10, 1),
    ("MiB/s", "bytes/s"): (1 << 20, 1),
    ("us", "ns"): (1000, 1),
    ("Hz", "MHz"): (1, 1_000_000),
}
POWER_PLAUSIBLE_OVER_LIMIT: Final = 2.0  # readings above the limit are real (599.7 W on a 400 W board), not above twice
_LAYOUTS: Final = 64  # of columns: asked for with every segment
_DAY_US: Final = 86_400_000_000
_DCGM_FP64_BLANK: Final = 140737488355328.0
_DCGM_KINDS: Final = 4  # blank, not found, not supported, not permitted
_UNKNOWN_U64: Final = 2**63 - 16  # DCGM's 64-bit blanks and NVML's all-ones lie at or above
_INT32_BLANK: Final = 2147483632
_UNKNOWN_U32: Final = 0xFFFFFFFF
_CUMULATIVE: Final = ("bytes", "ns", "J")  # what can pass 2³¹ honestly
_BLANK_REASONS: Final = ("blank", "not_found", "not_supported", "no_permission")


class UnitError(AlmanacError):
    """A collector wrote a unit nobody taught the house; nothing of the batch may land."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Table rows by qualified table name; rows left out because they repeat another; columns nobody declared.

    Text of samples is held as `pl.Categorical`: a number for each row.
    """

    frames: Mapping[str, pl.DataFrame]
    duplicates: Mapping[str, int]
    undeclared: Sequence[str]


def clean_segments(batch: Batch) -> Cleaned:
    """Everything the segments hold, ready for the gate. Raises `UnitError`."""
    frames: dict[str, pl.DataFrame] = {}
    repeats: dict[str, int] = {}
    undeclared: set[str] = set()
    samples, reasons = [], _gaps(batch.records.get("gap"))
    repeated = 0
    for columns, raw in batch.samples:
        frame, why, count = clean_samples(raw, columns)
        samples.append(frame)
        reasons.append(why)
        repeated += count
        undeclared |= {f"gpu_samples.{c.name}" for c in columns if c.name not in GpuSample.model_fields}
    if samples:
        frames["telemetry.gpu_samples"], again = joined(samples)
        repeats["telemetry.gpu_samples"] = repeated + again
    for kind, model in RECORD_TABLES.items():
        told = [_dated(batch.records[kind], model)] if kind in batch.records else []
        undeclared |= {f"{table_of(model).name}.{n}" for f in told for n in f.columns if n not in model.model_fields}
        if model is GpuEvent:
            told = [with_meaning(frame) if "code" in frame.columns else frame for frame in told]
        rows = [conform(frame, model) for frame in told] + (reasons if model is NullReason else [])
        if rows and any(frame.height for frame in rows):
            name = qualified_name(model)
            whole = pl.concat(rows, how="vertical_relaxed")
            frames[name] = first_or_joined(whole, key_of(model))
            repeats[name] = whole.height - frames[name].height
    return Cleaned(frames, {name: count for name, count in repeats.items() if count}, sorted(undeclared))


def clean_samples(raw: pl.DataFrame, columns: Sequence[Column]) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Samples of one layout as `telemetry.gpu_samples` sorted by GPU and time, null reasons, repeats left out.

    Of rows with equal key the first stays, filled from the others where a collector's rows come in parts.
    Raises `UnitError`.
    """
    if problem := unknown_unit(tuple(columns)):
        raise UnitError(problem)
    known = [c for c in columns if c.name in GpuSample.model_fields]
    ordered = by_gpu_and_time(raw)
    same = (pl.col("@gpu") == pl.col("@gpu").shift(1)) & (pl.col("sampled_at") == pl.col("sampled_at").shift(1))
    repeats = int(ordered.select(same.sum()).item() or 0)
    if repeats:
        ordered = one_for_each(ordered, ordered.select(same.fill_null(value=False)).to_series())
    suspects = _suspects(ordered, [c.name for c in known])
    rules = [(c.name, rule, reason) for c in known if c.name in suspects for rule, reason in _blank_rules(ordered, c)]
    blanks = _refused(ordered, rules, ordered)
    ordered = _without(ordered, blanks)
    converted = ordered.with_columns(_converted(c) for c in known if c.unit != _unit(c.name))
    refused = _refused(converted, _range_rules(converted), ordered)
    frame = _without(converted, refused).with_columns(_day(pl.col("sampled_at")).alias("date"))
    return _samples(frame), _reasons(ordered, [*blanks, *refused]), repeats


def conform(frame: pl.DataFrame, model: type[SQLModel]) -> pl.DataFrame:
    """The model's columns in order and type: absent ones null, undeclared ones left out.

    A column with a value that its type cannot hold stays text: the gate then refuses that row alone.
    """
    schema = lake_schema(model)
    cast = frame.select(
        pl.col(name).cast(kind, strict=False) if name in frame.columns else pl.lit(None, kind).alias(name)
        for name, kind in schema.items()
    )
    lossy = [name for name in cast.columns if name in frame.columns and _lost(frame[name], cast[name])]
    return cast.with_columns(
        pl.coalesce(pl.col(name).cast(pl.String), frame[name].cast(pl.String)).alias(name) for name in lossy
    )


def _lost(before: pl.Series, after: pl.Series) -> bool:
    return before.null_count() != after.null_count()


def _samples(frame: pl.DataFrame) -> pl.DataFrame:
    """The declared columns of samples, text still as the numbers it was read as."""
    have = frame.schema
    return frame.select(_held(have.get(name), name, kind) for name, kind in lake_schema(GpuSample).items())


def _held(have: pl.DataType | None, name: str, kind: pl.DataType) -> pl.Expr:
    if have is None:
        return pl.lit(None, kind).alias(name)
    if have in (kind, pl.Categorical):
        return pl.col(name)
    if have == pl.UInt64 and kind == pl.Int64:  # the blanks are gone, and they were all that lay above 2⁶³ - 17
        return pl.col(name).reinterpret(signed=True)
    return pl.col(name).cast(kind)


@lru_cache(maxsize=_LAYOUTS)
def unknown_unit(columns: tuple[Column, ...]) -> str:
    """What is wrong with the units of a segment's columns: one line, or empty text."""
    for column in columns:
        if column.name in GpuSample.model_fields:
            unit = _unit(column.name)
            if column.unit != unit and (column.unit, unit) not in CONVERSIONS:
                return (
                    f"column {column.name}: the collector wrote {column.unit!r}, the table holds {unit!r}; "
                    "teach assets/telemetry_clean.py the conversion"
                )
    return ""


@cache
def _unit(column: str) -> str:
    return table_of(GpuSample).columns[column].info["unit"] or ""


def _converted(column: Column) -> pl.Expr:
    unit = _unit(column.name)
    times, over = CONVERSIONS[column.unit, unit]
    value = pl.col(column.name)
    if over != 1:  # dividing, not multiplying by 0.001, keeps 65700 mW at exactly 65.7 W
        return value.cast(pl.Float64) / over
    return value.cast(pl.Int64) * times


Rule = tuple[str, pl.Expr, str]
Refusal = tuple[str, str, pl.Series, pl.Series]  # column, reason, where, the values as they were


def _suspects(frame: pl.DataFrame, names: Sequence[str]) -> set[str]:
    """Columns that reach up to where blanks begin, or hold NaN; most batches have none but the large counters."""
    return {name for name in names if _is_suspect(frame.get_column(name))}


def _is_suspect(column: pl.Series) -> bool:
    highest = column.max()
    return (isinstance(highest, int | float) and highest >= _INT32_BLANK) or (
        column.dtype.is_float() and bool(column.is_nan().any())
    )


def _blank_rules(frame: pl.DataFrame, column: Column) -> list[tuple[pl.Expr, str]]:
    """What DCGM and NVML write for "no value", found before a unit is applied (and after one was: x 100)."""
    value = pl.col(column.name)
    kind = frame.schema[column.name]
    rules: list[tuple[pl.Expr, str]] = []
    if kind.is_float():
        rules.append((value.is_nan(), "not_a_number"))
        for i, reason in enumerate(_BLANK_REASONS):
            blank = _DCGM_FP64_BLANK + i
            rules.append(((value == blank) | (value == blank * 100), reason))
        rules.append((value >= float(_UNKNOWN_U64), "blank"))
    elif kind in (pl.UInt64, pl.Int64):
        rules.append((value >= _UNKNOWN_U64, "blank"))
    elif kind == pl.UInt32:
        rules.append((value == _UNKNOWN_U32, "blank"))
    if column.unit not in _CUMULATIVE and (kind.is_float() or kind in (pl.UInt64, pl.Int64, pl.UInt32, pl.Int32)):
        rules.append((value.is_between(_INT32_BLANK, _INT32_BLANK + _DCGM_KINDS - 1), "blank"))
    return rules


def _range_rules(frame: pl.DataFrame) -> list[Rule]:
    """Readings that cannot be, in the columns' own units. Negative numbers are left to the gate, which keeps the row."""
    rules: list[Rule] = [
        (name, pl.col(name) > 1, "out_of_range")
        for name in frame.columns
        if name.endswith("_ratio") and name != "fan_speed_ratio"
    ]
    if "memory_temperature_c" in frame.columns:
        rules.append(("memory_temperature_c", pl.col("memory_temperature_c") == 0, "zero_without_sensor"))
    if "power_limit_w" in frame.columns:
        # The limit is read once a minute; between readings the last one stands.
        limit = pl.col("power_limit_w").forward_fill().over("@gpu")
        rules += [
            (name, pl.col(name) > POWER_PLAUSIBLE_OVER_LIMIT * limit, "implausible")
            for name in ("power_w", "power_instant_w")
            if name in frame.columns and _exceeds(frame, name, POWER_PLAUSIBLE_OVER_LIMIT)
        ]
    return rules


def _exceeds(frame: pl.DataFrame, power: str, ratio: float) -> bool:
    """May any reading lie above the limit that stands for it? Not where the highest is below the lowest limit's."""
    highest, lowest = frame.select(pl.col(power).max(), pl.col("power_limit_w").min()).row(0)
    return highest is not None and lowest is not None and highest > ratio * lowest


def _refused(frame: pl.DataFrame, rules: Sequence[Rule], as_read: pl.DataFrame) -> list[Refusal]:
    """The rules that hit anything. All are asked in one pass; most batches hit none."""
    if not rules or frame.is_empty():
        return []
    asked = frame.lazy().select(rule.any().alias(str(i)) for i, (_, rule, _) in enumerate(rules)).collect().row(0)
    hits = [rule for rule, hit in zip(rules, asked, strict=True) if hit]
    return [
        (column, reason, frame.select(rule.fill_null(value=False)).to_series(), as_read.get_column(column))
        for column, rule, reason in hits
    ]


def _without(frame: pl.DataFrame, refused: Sequence[Refusal]) -> pl.DataFrame:
    for column, _, where, _ in refused:
        frame = frame.with_columns(pl.when(~where).then(pl.col(column)).alias(column))
    return frame


def _reasons(frame: pl.DataFrame, refused: Sequence[Refusal]) -> pl.DataFrame:
    """One row for each span of neighbouring samples of a GPU refused for one reason; the first value is kept."""
    spans = [conform(pl.DataFrame(schema=lake_schema(NullReason)), NullReason)]
    for column, reason, where, values in refused:
        bad = (
            frame.select("cluster", "node", "source", "is_synthetic", "gpu_uuid", "sampled_at", "@gpu")
            .with_row_index("@row")
            .filter(where)
            .with_columns(values.filter(where).cast(pl.String).alias("raw_value"))
        )
        run = (pl.col("@row").cast(pl.Int64) - pl.int_range(pl.len())).alias("@run")
        spans.append(
            conform(
                bad.with_columns(run)
                .group_by("@gpu", "@run", maintain_order=True)
                .agg(
                    pl.first("cluster", "node", "source", "is_synthetic", "raw_value"),
                    pl.first("gpu_uuid").alias("device"),
                    pl.first("sampled_at").alias("from_at"),
                    pl.last("sampled_at").alias("to_at"),
                    pl.lit("gpu_samples").alias("table_name"),
                    pl.lit(column).alias("column_name"),
                    pl.lit(reason).alias("reason"),
                ),
                NullReason,
            )
        )
    return pl.concat(spans)


def _dated(frame: pl.DataFrame, model: type[SQLModel]) -> pl.DataFrame:
    if "date" in model.model_fields and "sampled_at" in frame.columns:
        return frame.with_columns(_day(pl.col("sampled_at")).alias("date"))
    return frame


def _day(at: pl.Expr) -> pl.Expr:
    """The UTC day of an instant; by arithmetic, because the calendar's own way is ten times slower."""
    return (at.to_physical() // _DAY_US).cast(pl.Int32).cast(pl.Date)


def _gaps(frame: pl.DataFrame | None) -> list[pl.DataFrame]:
    """What the spool had to refuse or drop, as reasons for the whole node."""
    if frame is None:
        return []
    start = pl.coalesce(pl.col("from_at", "created_at"))
    rows = pl.col("rows") if "rows" in frame.columns else pl.lit(None)
    return [
        conform(
            frame.with_columns(
                start.alias("from_at"),
                pl.coalesce(pl.col("to_at"), start).alias("to_at"),
                pl.lit("*").alias("device"),
                pl.lit("gpu_samples").alias("table_name"),
                pl.lit("*").alias("column_name"),
                rows.cast(pl.String).alias("raw_value"),
            ),
            NullReason,
        )
    ]
