"""Which source's frames need deriving before they fit a table, and by what.

Belongs here: the table of derivations. Does not belong here: the derivations themselves (one module per subject).
A derivation gets the parsed frames and a reader of landed reference tables, and gives frames by table name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

import polars as pl

from warehouse.lake import Lake
from warehouse.schema import tables

Frames = Mapping[str, pl.DataFrame]
Reference = Callable[[str], pl.DataFrame]

# source (or the part before its slash) -> module and function taking (frames, reference)
DERIVATIONS: dict[str, tuple[str, str]] = {}


def derive(source: str, frames: Frames, lake: Lake) -> dict[str, pl.DataFrame]:
    """Frames that fit declared tables; those that already do pass through."""
    where = DERIVATIONS.get(source) or DERIVATIONS.get(source.split("/")[0])
    if where is None:
        return dict(frames)
    module, function = where
    run: Callable[[Frames, Reference], dict[str, pl.DataFrame]] = getattr(importlib.import_module(module), function)
    return run(frames, lambda table: lake.scan(tables()[table]).collect())
