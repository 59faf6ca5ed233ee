"""How each column of GPU samples is written in Parquet, decided from its values.

Belongs here: which encoding suits which column of a file. Does not belong here: writing the file (`telemetry_files.py`).
Encodings bring a value to less than half a byte: counters and times as deltas; gauges repeat, so a dictionary suits
them, but for those that hardly do; the energy counter never repeats, and its bytes are split instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

NEVER_REPEATS: Final = ("energy_j",)
SOME: Final = 1024  # rows that tell what the others are like
FEW: Final = 16  # words of a whole number that is a state or a setting; clocks and counters have more
MANY: Final = 0.25  # different readings a row: above, a dictionary is larger than the readings pressed as they are


@dataclass(frozen=True, slots=True)
class Encodings:
    """Columns with a dictionary, and the encoding by column of those with another than plain."""

    dictionary: Sequence[str]
    other: Mapping[str, str]


def encodings(body: pl.DataFrame) -> Encodings:
    """Encodings for the columns of one file."""
    schema = body.schema
    numbers = [name for name, kind in schema.items() if kind.is_numeric() and name not in NEVER_REPEATS]
    # Rows by chance: every so many would be the same tick of every GPU, where counters have just begun.
    rows = np.random.default_rng(0).integers(0, body.height, SOME) if body.height > SOME else np.arange(body.height)
    some = body.select(pl.col(numbers).gather(rows))
    words = some.select(pl.all().n_unique()).row(0, named=True)
    floats = [name for name in numbers if schema[name].is_float()]
    plain = _hardly_repeat(body, [name for name in floats if words[name] > len(rows) / 2])
    other = dict.fromkeys((name for name in NEVER_REPEATS if name in body.columns), "BYTE_STREAM_SPLIT")
    for name, kind in schema.items():
        if kind.is_temporal() or (kind.is_integer() and words[name] > FEW):
            other[name] = "DELTA_BINARY_PACKED"
    return Encodings([name for name in body.columns if name not in other and name not in plain], other)


def _hardly_repeat(body: pl.DataFrame, floats: Sequence[str]) -> set[str]:
    if not floats:
        return set()
    about = body.lazy().select(pl.col(floats).approx_n_unique()).collect().row(0, named=True)
    return {name for name in floats if about[name] > body.height * MANY}
