"""Model shapes that a log prints without a parameter count: the count is added.

Belongs here: filling `params`, `active_params` and `embedding_params` of ref.model_configs. Does not belong here:
the counting itself (`flops.py`), reading logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from assets.flops import Shape, ShapeError, count_params

MODELS = "ref.model_configs"
_FILLED = ("params", "active_params", "embedding_params")
_FIELDS = tuple(Shape.__dataclass_fields__)


def derive(frames: Mapping[str, pl.DataFrame], _reference: Callable[[str], pl.LazyFrame]) -> dict[str, pl.DataFrame]:
    """The frames, with parameters counted where the dimensions allow it; unknown dimensions leave them null."""
    if MODELS not in frames:
        return dict(frames)
    return {**frames, MODELS: count_missing(frames[MODELS])}


def count_missing(models: pl.DataFrame) -> pl.DataFrame:
    """Fill the three counts of rows without `params`. A handful of rows: one for each model."""
    rows = []
    for row in models.iter_rows(named=True):
        known = {k: v for k, v in row.items() if k in _FIELDS and v is not None}
        try:
            counted = count_params(Shape(**known))
        except ShapeError:
            rows.append({k: row.get(k) for k in _FILLED})
            continue
        rows.append({k: getattr(counted, k) for k in _FILLED})
    counts = pl.DataFrame(rows, schema=dict.fromkeys(_FILLED, pl.Float64))
    return models.drop(_FILLED, strict=False).hstack(counts)
