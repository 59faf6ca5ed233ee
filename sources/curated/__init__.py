"""Source `curated`: facts that have no API, kept as CSV files in this package, one file for each table.

Belongs here: handing out those files and reading files of the same shape. Does not belong here: the facts of the
user (`guidance-notes`, `model-config`), cleaning, any other format.

A file is named after its table (`ref.accelerators.csv`), is UTF-8 with a header, and leaves a cell empty where
nothing is known. Days are written `2026-11-30`, instants `2026-11-30T12:00:00Z`.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath

import polars as pl

from sources.base import Authority, Cadence, FetchError, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.curated.columns import (
    DATES,
    EMPTY_WHERE_NONE,
    FLAGS,
    INTEGERS,
    KEYS,
    NUMBERS,
    PROVENANCE,
    TABLES,
    TIMES,
)
from sources.local_files import local_files, payload_of

MEDIA_TYPE = "text/csv"
FIRST_ROW = 2  # the header is line 1
LINE = "__line"
FLAG_WORDS = {"true": True, "false": False}


class Curated:
    """Reference and market facts entered by hand, each with its source, its day and how sure it is."""

    name = "curated"
    publisher = "GPU Almanac"
    homepage = ""
    licence = "facts with their sources; rows that name CC BY 4.0 keep that licence"
    terms = "facts only; each row leads to where it was read"
    cadence: Cadence = "static"
    tables = TABLES
    authority: Authority = "curated"
    landing: Landing = "snapshot"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """The files of this package; no request is made.

        `retrieved_at` is the newest day that the file names, not the clock, so that the same file is the same
        document on every run.
        """
        folder = resources.files(__package__ or "sources.curated")
        for entry in sorted(folder.iterdir(), key=lambda e: e.name):
            if entry.name.endswith(".csv"):
                body = entry.read_bytes()
                yield Payload(
                    source=self.name,
                    url=f"curated:{entry.name}",
                    retrieved_at=newest_day(body),
                    media_type=MEDIA_TYPE,
                    body=body,
                    stream=table_named(entry.name),
                )

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Local files of the same shape, named after their table. A file states the whole table.

        Raises `FetchError` for a file that is not named after a table of this source.
        """
        for file, name in local_files(paths, (".csv",)):
            yield payload_of(self.name, file, name, options, media_type=MEDIA_TYPE, meta={}, stream=table_named(name))

    def parse(self, payload: Payload) -> Parsed:
        """Rows of one file; a cell that is not what its column holds refuses its row, with the line number.

        Raises `ParseError` for a file that is empty, is no CSV or lacks a column of its key or its provenance.
        """
        table = payload.stream
        if table not in KEYS:
            raise ParseError(f"{payload.url} is of no curated table: name the file <table>.csv")
        text = _text_frame(payload.read(), table)
        typed = text.with_columns(_typed(c) for c in text.columns if c != LINE)
        # A cell that held something and holds nothing after the cast is not what its column holds.
        faults = pl.concat_list(
            pl.when(pl.col(c).is_not_null() & typed[c].is_null()).then(pl.lit(c)) for c in text.columns if c != LINE
        ).list.drop_nulls()
        checked = text.with_columns(faults.alias("__faults"))
        is_bad = checked["__faults"].list.len() > 0
        rejects = [_reject(table, row) for row in checked.filter(is_bad).iter_rows(named=True)]
        return Parsed({table: typed.filter(~is_bad).drop(LINE)}, rejects)


def table_named(name: str) -> str:
    """The table that a file is named after. Raises `FetchError` when there is none."""
    table = PurePosixPath(name).name.removesuffix(".csv")
    if table not in KEYS:
        raise FetchError(f"{name} is not named after a curated table; name it <table>.csv, one of {', '.join(TABLES)}")
    return table


def newest_day(body: bytes) -> dt.datetime:
    """The newest readable day on which a row became known or was compared; the epoch when a file names none."""
    try:
        frame = pl.read_csv(io.BytesIO(body), infer_schema=False)
    except (pl.exceptions.PolarsError, ValueError):
        return dt.datetime.fromtimestamp(0, dt.UTC)
    named = [c for c in ("known_at", "as_of_date") if c in frame.columns]
    newest = frame.select(pl.max_horizontal(_instant(c).max() for c in named)).item() if named else None
    return newest if isinstance(newest, dt.datetime) else dt.datetime.fromtimestamp(0, dt.UTC)


def _text_frame(body: bytes, table: str) -> pl.DataFrame:
    """The file as text, with the line of each row. Raises `ParseError`."""
    try:
        frame = pl.read_csv(io.BytesIO(body), infer_schema=False, row_index_name=LINE, row_index_offset=FIRST_ROW)
    except pl.exceptions.NoDataError:
        raise ParseError(f"{table}.csv is empty: write a header and rows") from None
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise ParseError(f"{table}.csv is not a CSV file: {str(error).splitlines()[0]}; save it as UTF-8 CSV") from None
    missing = [c for c in (*KEYS[table], *PROVENANCE) if c not in frame.columns]
    if missing:
        raise ParseError(f"{table}.csv lacks the column {', '.join(missing)}: add it to the header")
    trimmed = frame.with_columns(pl.col(pl.String).str.strip_chars())
    return trimmed.with_columns(
        pl.col(c).fill_null("") if c in EMPTY_WHERE_NONE else pl.when(pl.col(c) != "").then(pl.col(c)).alias(c)
        for c in trimmed.columns
        if c != LINE
    )


def _typed(column: str) -> pl.Expr:
    if column in DATES:
        return pl.col(column).str.to_date("%Y-%m-%d", strict=False)
    if column in TIMES:
        return _instant(column)
    if column in INTEGERS:
        return pl.col(column).cast(pl.Int64, strict=False)
    if column in NUMBERS:
        number = pl.col(column).cast(pl.Float64, strict=False)
        return pl.when(number.is_finite()).then(number).alias(column)
    if column in FLAGS:
        return pl.col(column).replace_strict(FLAG_WORDS, default=None, return_dtype=pl.Boolean)
    return pl.col(column)


def _instant(column: str) -> pl.Expr:
    """A day (its midnight, UTC) or an instant written with Z."""
    text = pl.col(column)
    day = text.str.to_datetime("%Y-%m-%d", strict=False, time_unit="us").dt.replace_time_zone("UTC")
    moment = text.str.to_datetime("%Y-%m-%dT%H:%M:%SZ", strict=False, time_unit="us").dt.replace_time_zone("UTC")
    return pl.coalesce(day, moment).alias(column)


def _reject(table: str, row: Mapping[str, object]) -> Reject:
    faults = row["__faults"]
    columns = [str(c) for c in faults] if isinstance(faults, list) else []
    said = ", ".join(f"{c} {row[c]!r}" for c in columns)
    cells = {k: v for k, v in row.items() if v is not None and k not in (LINE, "__faults")}
    return Reject(
        table=table,
        rule="each cell is what its column holds",
        reason=f"not readable: {said}",
        raw="; ".join(f"{k}={v}" for k, v in cells.items()),
        locator=f"line {row[LINE]}",
    )


SOURCE = Curated()
