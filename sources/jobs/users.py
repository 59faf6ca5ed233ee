"""How user names enter the warehouse: as a keyed hash, plain, or not at all.

Belongs here: that one decision. `ALMANAC_USER_NAMES` is `hash` (the default), `plain` or `drop`; the hash is
HMAC-SHA-256 under `ALMANAC_USER_HASH_KEY`, so that names cannot be guessed by hashing a list of them. Without a
key there is no hash, and names are left out.
"""

from __future__ import annotations

import hashlib
import hmac
import os

import polars as pl

from sources.base import ParseError

_LENGTH = 16


def user_columns(frame: pl.DataFrame, column: str = "user") -> pl.DataFrame:
    """Replace `column` (clear names) by `user_name` and `user_name_kind` as configured."""
    mode = os.environ.get("ALMANAC_USER_NAMES", "hash")
    if mode not in {"hash", "plain", "drop"}:
        raise ParseError(f"ALMANAC_USER_NAMES={mode!r} is unknown: use hash, plain or drop")
    names = pl.col(column).replace({"": None})
    key = os.environ.get("ALMANAC_USER_HASH_KEY", "")
    if mode == "plain":
        shown = names
    elif mode == "hash" and key:
        clear = frame.get_column(column).drop_nulls().unique().to_list()
        shown = names.replace_strict({n: _hashed(n, key) for n in clear if n}, default=None, return_dtype=pl.String)
    else:
        shown = pl.lit(None, pl.String)
    kind = pl.when(pl.col("user_name").is_not_null()).then(pl.lit(mode))
    return frame.with_columns(shown.alias("user_name")).with_columns(kind.alias("user_name_kind")).drop(column)


def _hashed(name: str, key: str) -> str:
    return hmac.new(key.encode(), name.encode(), hashlib.sha256).hexdigest()[:_LENGTH]
