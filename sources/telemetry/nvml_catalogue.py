"""What the agent looks up by name or number: the accelerator of a board, the severity and action of an XID.

Belongs here: reading the house's own tables with the standard library alone. Does not belong here: the tables.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources


def _rows(*path: str) -> Iterator[dict[str, str]]:
    lines = resources.files("sources").joinpath(*path).read_text(encoding="utf-8").splitlines()
    yield from csv.DictReader(line for line in lines if not line.startswith("#"))


@cache
def _accelerators() -> Mapping[str, str]:
    rows = _rows("curated", "ref.accelerator_aliases.csv")
    return {
        row["raw_name"]: row["accelerator_id"] for row in rows if row["namespace"] == "nvml" and row["accelerator_id"]
    }


@cache
def _xids() -> Mapping[int, tuple[str | None, str | None]]:
    rows = _rows("telemetry_inputs", "xid_actions.csv")
    return {int(row["code"]): (row["severity"] or None, row["action"] or None) for row in rows}


def accelerator_of(name: str) -> str | None:
    """Accelerator id of a board's name; None where the aliases do not know it or leave it open."""
    return _accelerators().get(name)


def xid_meaning(code: int) -> tuple[str | None, str | None]:
    """(severity, the vendor's action) of an XID; None where the catalogue says nothing."""
    return _xids().get(code, (None, None))
