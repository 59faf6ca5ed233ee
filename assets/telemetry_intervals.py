"""From "seen so at" to "was so from … to …": inventory and node states as intervals.

Belongs here: collapsing repeated observations and closing intervals. Does not belong here: reading inventories.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def close_intervals(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Rows with `valid_from` and `valid_to` as intervals of `key`, whatever the order of arrival.

    Neighbours that say the same become one row from the first of them; `valid_to` is what the row states, else
    the start of the next state, else null. Every column but the key and the two instants is part of the state.
    """
    state = [name for name in frame.columns if name not in {*key, "valid_from", "valid_to"}]
    ordered = frame.sort(*key, "valid_from")
    before = pl.struct(state).shift(1).over(key)
    closed = pl.col("valid_to").shift(1).over(key)
    # A state that ended and came back later is a new interval.
    begins = (pl.struct(state) != before).fill_null(value=True) | (closed < pl.col("valid_from")).fill_null(value=False)
    run = begins.cum_sum().alias("@run")
    merged = (
        ordered.with_columns(run)
        .group_by(*key, "@run", maintain_order=True)
        .agg(pl.first("valid_from"), pl.last("valid_to"), *(pl.first(name) for name in state))
        .drop("@run")
    )
    following = pl.col("valid_from").shift(-1).over(key)
    return merged.with_columns(pl.min_horizontal("valid_to", following).alias("valid_to")).select(frame.columns)
