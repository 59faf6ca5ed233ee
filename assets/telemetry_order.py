"""GPU samples in order of GPU and time, sorted only where they are not in order already.

Belongs here: the one ordering that deltas, spans and roll-ups rely on. Does not belong here: what they do with it.
"""

from __future__ import annotations

from typing import Final

import polars as pl

IDENTITY: Final = ("source", "cluster", "node", "gpu_uuid")


def by_gpu_and_time(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame by GPU and time, with `@gpu`: a number for each (source, cluster, node, gpu_uuid).

    Segments and lake files hold one GPU after another, so names are compared only where they change and a frame
    in order is returned as it is. Rows with equal GPU and time keep their order.
    """
    changes = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in IDENTITY).fill_null(value=True)
    starts = frame.select(changes.alias("@new")).to_series()
    heads = frame.lazy().select(*IDENTITY).filter(starts).collect()
    names = heads.unique(maintain_order=True).with_row_index("@gpu")
    number = heads.join(names, on=IDENTITY, how="left", maintain_order="left").get_column("@gpu")
    run = (starts.cast(pl.UInt32).cum_sum() - 1).alias("@run")
    numbered = frame.with_columns(number.gather(run).alias("@gpu"))
    later = (pl.col("sampled_at") >= pl.col("sampled_at").shift(1)) | pl.Series(starts)
    if number.is_sorted() and numbered.select(later.all()).item():
        return numbered
    return numbered.sort("@gpu", "sampled_at", maintain_order=True)
