"""From "seen so at" to "was so from … to …": inventory, node states and reasons for nulls as intervals.

Belongs here: collapsing repeated observations and closing intervals. Does not belong here: reading inventories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

NODE: Final = ("cluster", "node", "source", "is_synthetic")
BOARD: Final = ("cluster", "gpu_uuid", "source", "is_synthetic")
PLACE: Final = ("cluster", "node", "pci_bus_id", "source", "is_synthetic")
NULL: Final = ("cluster", "node", "device", "table_name", "column_name", "source", "is_synthetic")


def close_intervals(
    frame: pl.DataFrame, key: Sequence[str], begin: str = "valid_from", end: str = "valid_to"
) -> pl.DataFrame:
    """Rows with `begin` and `end` as intervals of `key`, whatever the order of arrival.

    Neighbours that say the same become one row from the first of them; `end` is what the row states, else the
    start of the next state, else null. Every column but the key and the two instants is part of the state.
    """
    if frame.is_empty():
        return frame
    state = [name for name in frame.columns if name not in {*key, begin, end}]
    ordered = frame.sort(*key, begin, end, *state, nulls_last=True)
    before = pl.struct(state).shift(1).over(key)
    closed = pl.col(end).shift(1).over(key)
    # A state that ended and came back later is a new interval.
    begins = (pl.struct(state) != before).fill_null(value=True) | (closed < pl.col(begin)).fill_null(value=False)
    run = begins.cum_sum().alias("@run")
    merged = (
        ordered.with_columns(run)
        .group_by(*key, "@run", maintain_order=True)
        .agg(pl.first(begin), pl.last(end), *(pl.first(name) for name in state))
        .drop("@run")
    )
    following = pl.col(begin).shift(-1).over(key)
    return merged.with_columns(pl.min_horizontal(end, following).alias(end)).select(frame.columns)


def close_inventory(frame: pl.DataFrame) -> pl.DataFrame:
    """`telemetry.inventory` with `valid_to`: a board is in one place at a time, and a place holds one board.

    So a state also ends when the board is seen in another node, or another board at its PCI bus id.
    """
    if frame.is_empty():
        return frame
    in_slot = pl.col("parent_gpu_uuid").is_null() & pl.col("pci_bus_id").is_not_null()
    seen = frame.filter(in_slot).select(*PLACE, "gpu_uuid", "valid_from").sort(*PLACE, "valid_from")
    # Masked captures give every board one bus id: that is no place.
    crowded = pl.col("gpu_uuid").n_unique().over(*PLACE, "valid_from").max().over(PLACE) > 1
    seen = seen.filter(~crowded)
    changes = pl.col("gpu_uuid") != pl.col("gpu_uuid").shift(1).over(PLACE)
    tenants = seen.filter(changes).drop("gpu_uuid").with_columns(pl.col("valid_from").alias("@next"))
    told = (
        frame.sort("valid_from")
        .join_asof(
            tenants.sort("valid_from"),
            on="valid_from",
            by=PLACE,
            strategy="forward",
            allow_exact_matches=False,
            check_sortedness=False,  # sorted above; Polars cannot check it within groups, and warns
        )
        .with_columns(pl.when(in_slot).then(pl.col("@next")).alias("@next"))
        .with_columns(pl.min_horizontal("valid_to", "@next").alias("valid_to"))
    )
    return close_intervals(told.select(frame.columns), BOARD)


def close_node_states(frame: pl.DataFrame) -> pl.DataFrame:
    """`telemetry.node_states` with `valid_to`."""
    return close_intervals(frame, NODE)


def close_null_reasons(frame: pl.DataFrame) -> pl.DataFrame:
    """`telemetry.null_reasons` with `to_at`: one row for each span, not one for each record."""
    return close_intervals(frame, NULL, "from_at", "to_at")
