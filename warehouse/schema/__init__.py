"""The tables: one SQLModel declaration each, one module per subject.

Belongs here: finding the declarations. Does not belong here: what is derived from them (`declare.py` and the
modules that own Delta, DuckDB, Dagster and the gate).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from sqlmodel import SQLModel

from warehouse.schema.declare import qualified_name


@cache
def tables() -> dict[str, type[SQLModel]]:
    """Every declared table by qualified name, in name order."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found = {qualified_name(m): m for m in _models(SQLModel)}
    return dict(sorted(found.items()))


def _models(base: type[SQLModel]) -> list[type[SQLModel]]:
    found = []
    for child in base.__subclasses__():
        if hasattr(child, "__table__") and child.__module__.startswith(f"{__name__}."):
            found.append(child)
        found.extend(_models(child))
    return found
