"""Which model of `ref.accelerators` a board is, by the name its driver gives.

Belongs here: the look-up in the curated aliases with the standard library alone. Does not belong here: the aliases.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def _by_name() -> Mapping[str, str]:
    raw = resources.files("sources").joinpath("curated", "ref.accelerator_aliases.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(raw))
    return {
        row["raw_name"]: row["accelerator_id"] for row in rows if row["namespace"] == "nvml" and row["accelerator_id"]
    }


def accelerator_of(name: str) -> str | None:
    """Accelerator id of a board's name; None where the aliases do not know it or leave it open."""
    return _by_name().get(name)
