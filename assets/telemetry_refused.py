"""Which segment each refused sample came from: a row in quarantine leads to its source.

Belongs here: looking for refused samples in the segments of their group. Does not belong here: refusing
(`warehouse/quality/rows.py`), writing the quarantine (`quarantine.py`). Segments are read again, which happens only
where a sample was refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from assets.quarantine import COLUMNS
from assets.waiting import Waiting
from sources.telemetry.segment import read_segments

_KEY: Final = ("node", "gpu_uuid", "sampled_at")
_ORIGIN: Final = pl.Schema({"@key": pl.String, "locator": pl.String, "payload_sha256": pl.String})


def with_origin(refused: pl.DataFrame, group: Sequence[Waiting]) -> pl.DataFrame:
    """Refused samples as rows for the quarantine: `locator` names the segment, `payload_sha256` is that file's.

    refused: `rule`, `reason` and `raw`, the sample as JSON. Of several segments that hold the same sample the first of
    the group is told.
    """
    if refused.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String()))
    told = pl.Struct(dict.fromkeys(_KEY, pl.String()))
    keyed = refused.with_columns(pl.col("raw").str.json_decode(told).struct.json_encode().alias("@key"))
    wanted = keyed.select("@key").unique()
    origins = pl.concat([pl.DataFrame(schema=_ORIGIN), *_origins(wanted, group)]).unique("@key", keep="first")
    found = keyed.join(origins, on="@key", how="left", maintain_order="left")
    return found.with_columns(pl.col("locator").fill_null("")).select(COLUMNS)


def _origins(wanted: pl.DataFrame, group: Sequence[Waiting]) -> Iterator[pl.DataFrame]:
    for one in group:
        body = one.path.read_bytes()
        for _, samples in read_segments([(one.path.name, body)]).samples:
            keys = samples.select(pl.struct(pl.col(_KEY)).struct.json_encode().alias("@key"))
            found = keys.join(wanted, on="@key", how="semi", maintain_order="left")
            yield found.select(
                "@key",
                pl.lit(f"segment {one.segment_id}").alias("locator"),
                pl.lit(hashlib.sha256(body).hexdigest()).alias("payload_sha256"),
            )
