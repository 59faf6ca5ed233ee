"""How a table is declared once, and what follows from the declaration.

Belongs here: `col`, `table_info`, `Provenance`, and the Polars schema, key, bounds and units read off a model.
Does not belong here: any table (one module per subject beside this one), Delta, DuckDB, Dagster or
Great Expectations, which each read what this module derives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

import polars as pl
import sqlalchemy as sa
from annotated_types import Ge, Le
from sqlmodel import Field, SQLModel

Kind = Literal["fact", "dimension", "telemetry", "derived", "ledger"]
UTC_TIME = sa.DateTime(timezone=True)


def col(
    meaning: str,
    *,
    unit: str | None = None,
    source: str | None = None,
    key: bool = False,
    at_publish: bool = False,
    one_of: Sequence[str] = (),
    **field: Any,
) -> Any:
    """Declare one column: meaning, unit and source go into the database comment and the dictionary.

    `ge`/`le` bound the value, `key=True` puts it into the row key, `one_of` lists the allowed words,
    `at_publish=True` marks a column that is computed at publish from the whole table; the lake does not hold it.
    """
    text = meaning + (f" [{unit}]" if unit else "")
    info = {"unit": unit, "source": source, "at_publish": at_publish, "one_of": tuple(one_of), "meaning": meaning}
    kwargs = {"comment": text, "info": info, **field.pop("sa_column_kwargs", {})}
    if key:
        field["primary_key"] = True
    return Field(description=text, sa_column_kwargs=kwargs, **field)


def table_info(
    schema: str,
    comment: str,
    *,
    kind: Kind,
    fact_key: Sequence[str] = (),
    value: Sequence[str] = (),
    checks: Sequence[tuple[str, str, str]] = (),
    steady: Sequence[str] = (),
    collapse: float = 0.2,
    partition_by: Sequence[str] = (),
    publish_as: Literal["table", "view"] = "table",
    published_from: str = "",
) -> dict[str, Any]:
    """`__table_args__` of a model.

    comment: one sentence, then "Grain: …. Key: …." · fact_key: what a fact is about (vintages and sources of
    one fact share it) · value: the columns whose change makes a new version · checks: extra suite rules as
    (name, severity `critical`|`warning`, SQL condition that a BAD row satisfies) · steady: numeric columns whose
    median cannot jump a hundredfold between two batches of a stream (default: the value columns) · collapse: a
    batch with less than this share of the last batch's rows is blocked · published_from: the `derived` table of the
    lake that holds the rows with their computed columns; a derived table is not published under its own name.
    """
    info = {
        "kind": kind,
        "fact_key": tuple(fact_key),
        "value": tuple(value),
        "checks": tuple(checks),
        "steady": tuple(steady),
        "collapse": collapse,
        "partition_by": tuple(partition_by),
        "publish_as": publish_as,
        "published_from": published_from,
    }
    return {"schema": schema, "comment": comment, "info": info}


# How near `known_at` is to the moment of publication. Only `earliest` can make a view as known too early.
KNOWN_AT_PRECISIONS = ("second", "day", "month", "year", "earliest", "retrieved")


class Provenance(SQLModel):
    """Columns of every market and reference row: where it came from and when it became known."""

    source: str = col("name of the source in `ops.sources` that delivered the row", key=True)
    source_name: str | None = col("the document or publisher the figure was taken from, as text")
    source_url: str | None = col("link that leads to the figure")
    known_at: dt.datetime = col("when the fact became public, UTC", key=True, sa_type=UTC_TIME)
    known_at_precision: str | None = col(
        "how exactly `known_at` is known. `second`: the moment of publication; `day`: that day, at 00:00 UTC; `month`, "
        "`year`: known no closer, the last day is taken; `retrieved`: publication unknown, the day of retrieval or "
        "collection is taken, so views as known are late, never early; `earliest`: public then or days later, "
        "as with the time of a tagged commit; null: not stated",
        one_of=KNOWN_AT_PRECISIONS,
    )
    certainty: str | None = col("how sure a non-primary row is; `memory` or `unverified` means nobody checked it")
    checked: str | None = col("how far the row was verified against its source")
    payload_sha256: str | None = col("SHA-256 of the archived bytes the row was read from")
    retrieved_at: dt.datetime | None = col("first retrieval of those bytes, UTC", sa_type=UTC_TIME)
    notes: str | None = col("remarks of the curator or the parser")


class FactVersions(SQLModel):
    """Columns that publish computes for every bitemporal table."""

    is_latest: bool | None = col("newest version of this fact from this source", at_publish=True)
    superseded_at: dt.datetime | None = col(
        "when a newer version from the same source became known; null while current", at_publish=True, sa_type=UTC_TIME
    )
    source_rank: int | None = col("1 primary, 2 curated, 3 secondary", at_publish=True, sa_type=sa.Integer)
    is_preferred: bool | None = col("the one row to use for this fact today: lowest rank, latest", at_publish=True)


PROVENANCE_COLUMNS = (
    "source_name", "source_url", "known_at_precision", "payload_sha256", "retrieved_at", "certainty", "checked", "notes",
)  # fmt: skip

_POLARS: tuple[tuple[type[Any], pl.DataType], ...] = (
    (sa.Boolean, pl.Boolean()),
    (sa.BigInteger, pl.Int64()),
    (sa.SmallInteger, pl.Int32()),
    (sa.Integer, pl.Int64()),
    (sa.Float, pl.Float64()),
    (sa.Date, pl.Date()),
    (sa.String, pl.String()),
)


def polars_type(column: sa.Column[Any]) -> pl.DataType:
    """The Polars type of a declared column. Raises `TypeError` for a type the house does not use."""
    kind = column.type.impl if isinstance(column.type, sa.types.TypeDecorator) else column.type
    if isinstance(kind, sa.DateTime):
        if not kind.timezone:
            raise TypeError(f"{column}: instants carry UTC; use sa_type=UTC_TIME")
        return pl.Datetime("us", "UTC")
    if isinstance(kind, sa.Float):
        return pl.Float64()
    if isinstance(kind, sa.Numeric):
        return pl.Decimal(kind.precision or 38, kind.scale or 0)
    for sql, polars in _POLARS:
        if isinstance(kind, sql):
            return polars
    raise TypeError(f"{column}: no Polars type for {kind!r}")


def table_of(model: type[SQLModel]) -> sa.Table:
    """The SQLAlchemy table behind a model."""
    return model.__table__  # type: ignore[attr-defined, no-any-return]


def qualified_name(model: type[SQLModel]) -> str:
    """`schema.table`, the name used everywhere."""
    table = table_of(model)
    return f"{table.schema}.{table.name}"


def lake_columns(model: type[SQLModel]) -> list[sa.Column[Any]]:
    """Columns the lake stores: the table's own first, provenance after them."""
    columns = [c for c in table_of(model).columns if not c.info.get("at_publish")]
    last = Provenance.model_fields if issubclass(model, Provenance) else ()
    return sorted(columns, key=lambda c: c.name in last)


def lake_schema(model: type[SQLModel]) -> pl.Schema:
    """Polars schema of what the lake stores."""
    return pl.Schema({c.name: polars_type(c) for c in lake_columns(model)})


def key_of(model: type[SQLModel]) -> list[str]:
    """Columns that together identify a row."""
    return [c.name for c in table_of(model).primary_key.columns]


def bounds_of(model: type[SQLModel], column: str) -> tuple[float | None, float | None]:
    """(lowest, highest) allowed value, None where open."""
    low: Any = None
    high: Any = None
    for item in model.model_fields[column].metadata:
        if isinstance(item, Ge):
            low = item.ge
        if isinstance(item, Le):
            high = item.le
    return low, high
