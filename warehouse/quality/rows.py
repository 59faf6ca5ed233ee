"""Row rules: what makes one row impossible, read off the declaration, applied by Polars before the gate.

Belongs here: the split of a frame into good rows and refused rows with reasons. Does not belong here: rules about
a whole batch (`batches.py`), Great Expectations (`gx.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import polars as pl
from sqlmodel import SQLModel

from warehouse.quality.edges import edges_of
from warehouse.schema.declare import bounds_of, key_of, lake_columns, lake_schema, table_of


@dataclass(frozen=True, slots=True)
class RowRule:
    """One rule: rows for which `bad` is true are refused. `column` is the one named in the reason.

    settled: the edges of the column tell whether any row breaks it; cheaper to ask than every row.
    """

    name: str
    column: str
    bad: pl.Expr
    settled: bool = True


def conform(frame: pl.DataFrame, model: type[SQLModel]) -> tuple[pl.DataFrame, pl.Series]:
    """Cast to the declared types: (frame in declared order, reason a value would not cast or empty text).

    A missing column becomes null. Raises `ValueError` naming columns the declaration does not know or types that
    cannot hold the declared one at all: that is schema drift, and blocks the batch.
    """
    wanted = lake_schema(model)
    unknown = [c for c in frame.columns if c not in wanted]
    if unknown:
        raise ValueError(f"unknown columns {', '.join(sorted(unknown))}")
    casts: list[pl.Expr] = []
    failed: list[pl.Expr] = []
    for name, kind in wanted.items():
        if name not in frame.columns:
            casts.append(pl.lit(None, dtype=kind).alias(name))
            continue
        have = frame.schema[name]
        if have == kind:
            casts.append(pl.col(name))
        elif isinstance(have, pl.List | pl.Struct | pl.Array):
            raise ValueError(f"column {name} is {have}, the table holds {kind}")
        else:
            cast = _cast(pl.col(name), have, kind)
            casts.append(cast.alias(name))
            failed.append(
                pl.when(pl.col(name).is_not_null() & cast.is_null())
                .then(pl.format(f"{name} is not a {kind}: {{}}", pl.col(name).cast(pl.String)))
                .otherwise(pl.lit(""))
            )
    reasons = frame.select(pl.concat_str(failed, separator="") if failed else pl.lit("").alias("r"))
    text = reasons.to_series() if failed else pl.Series("r", [""] * frame.height, dtype=pl.String)
    return frame.select(casts), text.alias("reason")


def _cast(column: pl.Expr, have: pl.DataType, want: pl.DataType) -> pl.Expr:
    if have == pl.String:
        return _from_text(column, want)
    if isinstance(want, pl.Datetime) and (have == pl.Date or (isinstance(have, pl.Datetime) and not have.time_zone)):
        return column.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    if want.is_integer() and have.is_float():
        # A fraction in a column of counts is an error, not something to truncate.
        return pl.when(column == column.round(0)).then(column).cast(want, strict=False)
    return column.cast(want, strict=False)


def _from_text(column: pl.Expr, want: pl.DataType) -> pl.Expr:
    if isinstance(want, pl.Datetime):
        return column.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    if want == pl.Date:
        return column.str.to_date(strict=False)
    if want == pl.Boolean:
        return column.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None)
    return column.cast(want, strict=False)


@cache
def row_rules(model: type[SQLModel]) -> Sequence[RowRule]:
    """Not null, bounds, allowed words and finite numbers, from the declaration."""
    rules: list[RowRule] = []
    for column in lake_columns(model):
        name, here = column.name, pl.col(column.name)
        if not column.nullable or column.primary_key:
            rules.append(RowRule(f"{name} is given", name, here.is_null()))
        low, high = bounds_of(model, name)
        if low is not None:
            rules.append(RowRule(f"{name} >= {low:g}", name, here < low))
        if high is not None:
            rules.append(RowRule(f"{name} <= {high:g}", name, here > high))
        if column.info["one_of"]:
            words = list(column.info["one_of"])
            rules.append(RowRule(f"{name} is one of {', '.join(words)}", name, ~here.is_in(words), settled=False))
        if lake_schema(model)[name].is_float():
            rules.append(RowRule(f"{name} is a finite number", name, ~here.is_finite()))
    return rules


@dataclass(frozen=True, slots=True)
class Split:
    """Rows that may go on, rows refused (with `rule`, `reason`, `raw`), and how many were exact repeats."""

    good: pl.DataFrame
    refused: pl.DataFrame
    repeats: int


REFUSED = pl.Schema({"rule": pl.String, "reason": pl.String, "raw": pl.String})


def split(frame: pl.DataFrame, cast_reasons: pl.Series, model: type[SQLModel]) -> Split:
    """Apply every row rule, then look for repeated keys: exact repeats are dropped, different ones refused."""
    uncast = cast_reasons != ""
    castable = frame.filter(~uncast) if uncast.any() else frame
    good, refused = refuse(castable, model)
    good, repeats, conflicts = _keys(good, model)
    return Split(good, pl.concat([refused, _refuse_uncast(frame, cast_reasons, uncast), conflicts]), repeats)


def refuse(
    frame: pl.DataFrame, model: type[SQLModel], edges: pl.DataFrame | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(good rows, refused rows with rule, reason and raw form) by the row rules alone.

    edges: those of the frame, where they are known. Most batches break no rule, and then nothing is copied.
    """
    told = edges_of(frame) if edges is None else edges
    rules = row_rules(model)
    broken = [*_broken(told, [r for r in rules if r.settled]), *_broken(frame, [r for r in rules if not r.settled])]
    if not broken:
        return frame, pl.DataFrame(schema=REFUSED)
    verdicts = frame.select(rule.bad.fill_null(value=False).alias(f"r{i}") for i, rule in enumerate(broken))
    bad = verdicts.select(pl.any_horizontal(pl.all())).to_series()
    return frame.filter(~bad), _refuse(frame, verdicts, broken, bad)


def _broken(frame: pl.DataFrame, rules: Sequence[RowRule]) -> list[RowRule]:
    """The rules that any row breaks."""
    if not rules:
        return []
    asked = frame.lazy().select(rule.bad.any().alias(str(i)) for i, rule in enumerate(rules)).collect().row(0)
    return [rule for rule, hit in zip(rules, asked, strict=True) if hit]


def _refuse(frame: pl.DataFrame, verdicts: pl.DataFrame, rules: list[RowRule], bad: pl.Series) -> pl.DataFrame:
    rows, hits = frame.filter(bad), verdicts.filter(bad)
    both = pl.concat([rows, hits], how="horizontal")
    first = pl.coalesce(
        pl.when(pl.col(f"r{i}")).then(
            pl.struct(
                pl.lit(rule.name).alias("rule"),
                pl.format(
                    f"{rule.column} is {{}}, the rule is: {rule.name}",
                    pl.col(rule.column).cast(pl.String).fill_null("null"),
                ).alias("reason"),
            )
        )
        for i, rule in enumerate(rules)
    )
    return both.select(first.alias("hit"), raw_form(frame)).select(
        pl.col("hit").struct.field("rule"), pl.col("hit").struct.field("reason"), "raw"
    )


def _refuse_uncast(frame: pl.DataFrame, reasons: pl.Series, bad: pl.Series) -> pl.DataFrame:
    if not bad.any():
        return pl.DataFrame(schema=REFUSED)
    return frame.filter(bad).select(pl.lit("type").alias("rule"), reasons.filter(bad).alias("reason"), raw_form(frame))


def _keys(frame: pl.DataFrame, model: type[SQLModel]) -> tuple[pl.DataFrame, int, pl.DataFrame]:
    key = key_of(model)
    if not frame.height or not frame.select(pl.struct(key).is_duplicated().any()).item():
        return frame, 0, pl.DataFrame(schema=REFUSED)
    same = [*key, *identity(model)]
    once = frame.unique(subset=list(dict.fromkeys(same)), keep="first", maintain_order=True)
    first = once.select(pl.struct(key).is_first_distinct()).to_series()
    conflicts = once.filter(~first).select(
        pl.lit("key is unique").alias("rule"),
        pl.format(
            "another row of the same payload has the key {} with other values",
            pl.concat_str([pl.col(k).cast(pl.String) for k in key], separator=" | "),
        ).alias("reason"),
        raw_form(frame),
    )
    return once.filter(first), frame.height - once.height, conflicts


def identity(model: type[SQLModel]) -> list[str]:
    """Columns that make two rows of one key the same row: the declared value, else all but the retrieval."""
    value = list(table_of(model).info["value"])
    return value or [c.name for c in lake_columns(model) if c.name not in ("payload_sha256", "retrieved_at")]


def raw_form(frame: pl.DataFrame) -> pl.Expr:
    """Each row as JSON in a column `raw`, the way quarantine keeps it."""
    return pl.struct(pl.col(c) for c in frame.columns).struct.json_encode().alias("raw")
