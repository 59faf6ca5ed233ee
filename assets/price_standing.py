"""Offers of lists that were read again and had not changed: what stood in them was seen on those days too.

Belongs here: the days an archived list stood, and its offers on them. Does not belong here: the archive, quotes and
screens. The same bytes land once, and the archive only moves `checked_at`: without this a provider whose prices are
steady would leave every panel.
"""

from __future__ import annotations

import datetime as dt

import polars as pl

STREAM = ("source", "stream")
DOCUMENT = ("source", "payload_sha256")
# An order book is never the same twice: one that is has frozen.
BOOK_KINDS = ("marketplace_ask", "bid_floor")
RETURN_DAYS = 3


def standing_days(payloads: pl.DataFrame) -> pl.DataFrame:
    """`source`, `payload_sha256`, `from_date`, `to_date`: days after the first on which each document stood.

    payloads: the archive's index (`source`, `stream`, `url`, `payload_sha256`, `retrieved_at`, `checked_at`); one
    stream is one list. A list read again unchanged stood on all days in between, until another document of its
    stream came. One that came back after another is only known since that one was last seen: at most three days.
    Files loaded by hand do not count: loading one again asks nobody.
    """
    read = payloads.filter(~pl.col("url").str.starts_with("file:"))
    known = read.sort([*STREAM, "retrieved_at", "payload_sha256"]).with_columns(
        following=pl.col("retrieved_at").shift(-1).over(STREAM)
    )
    known = known.sort([*STREAM, "checked_at", "payload_sha256"]).with_columns(
        other=pl.col("checked_at").shift(1).over(STREAM)
    )
    first, last = pl.col("retrieved_at").dt.date(), pl.col("checked_at").dt.date()
    until = pl.min_horizontal(last, pl.col("following").dt.date() - pl.duration(days=1))
    since = pl.max_horizontal(pl.col("other").dt.date() + pl.duration(days=1), last - pl.duration(days=RETURN_DAYS - 1))
    is_back = (pl.col("checked_at") > pl.col("following")).fill_null(value=False)
    return (
        known.select(
            *DOCUMENT,
            from_date=pl.when(is_back).then(since).otherwise(first + pl.duration(days=1)),
            to_date=pl.when(is_back).then(last).otherwise(until),
        )
        .filter(pl.col("from_date") <= pl.col("to_date"))
        .sort([*DOCUMENT, "from_date"])
    )


def with_standing(offers: pl.DataFrame, payloads: pl.DataFrame, since: dt.date | None = None) -> pl.DataFrame:
    """`offers`, and those of unchanged lists once more at the beginning of each further day they stood.

    offers: rows of `market.gpu_offers` with `payload_sha256` and `retrieved_at`. since: earlier days are not wanted.
    Only offers seen at the moment of the fetch are repeated: a list that states its own time stays at that time.
    """
    days = standing_days(payloads)
    if since is not None:
        days = days.filter(pl.col("to_date") >= since).with_columns(
            pl.max_horizontal("from_date", pl.lit(since)).alias("from_date")
        )
    steady = offers.filter(
        "index_eligible",
        pl.col("observed_at") == pl.col("retrieved_at"),
        ~pl.col("price_kind").is_in(BOOK_KINDS),
    )
    if days.is_empty() or steady.is_empty():
        return offers
    again = (
        steady.join(days, on=DOCUMENT)
        .with_columns(seen=pl.date_ranges("from_date", "to_date"))
        .explode("seen")
        .with_columns(observed_at=pl.col("seen").cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))
        .select(offers.columns)
    )
    return pl.concat([offers, again])
