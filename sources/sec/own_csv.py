"""A source whose documents are CSV files that a person fills.

Belongs here: what such sources share. Does not belong here: what a file is about (`guidance_notes.py`,
`estimates.py`), reading cells (`notes_csv.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, Payload, Reject, Web
from sources.local_files import local_files, payload_of
from sources.sec.notes_csv import NoteError, only_columns, rows_of


class OwnCsv(ABC):
    """Rows of one table from a person's file; a subclass names the table and its columns and reads a row.

    `columns` must be there, `more` may be; no other column is kept, so that who entered a row is stored nowhere.
    """

    name: str
    licence: str
    terms: str
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    more: tuple[str, ...]
    schema: Mapping[str, Any]
    publisher = "the user"
    homepage = ""
    cadence: Cadence = "static"
    authority: Authority = "curated"
    landing: Landing = "append"
    version = 1
    options: tuple[str, ...] = ()
    may_republish = False

    @abstractmethod
    def row(self, cells: Mapping[str, str]) -> dict[str, Any]:
        """One row of the table. Raises `NoteError` that says which cell is wrong."""

    @property
    def off_reason(self) -> str:
        """Why it is not fetched."""
        return f"local only: almanac load {self.name} FILE.csv"

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: the file comes from the user."""
        del web
        yield from ()

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """CSV files, each without columns nobody asked for."""
        for file, name in local_files(paths, (".csv",)):
            payload = payload_of(self.name, file, name, options, media_type="text/csv", meta={}, stream=name)
            yield replace(payload, body=only_columns(payload.read(), (*self.columns, *self.more)))

    def parse(self, payload: Payload) -> Parsed:
        """Rows of the table; a row that cannot be used is refused with its line. Raises `ParseError`."""
        (table,) = self.tables
        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for line, cells in rows_of(payload, self.columns):
            try:
                rows.append(self.row(cells))
            except NoteError as error:
                kept = {k: v for k, v in cells.items() if k in (*self.columns, *self.more)}
                rejects.append(Reject(table, "note", str(error), str(kept), f"line {line}"))
        return Parsed({table: pl.DataFrame(rows, schema=dict(self.schema))}, tuple(rejects))
