"""Which accelerator a name in a results file means, and the dense peaks it is measured against.

Belongs here: look-ups in `ref.accelerator_aliases` and `ref.accelerators`. Does not belong here: those tables
(curated), directory names (never a source of an accelerator).
"""

from __future__ import annotations

import polars as pl

NAMESPACE = "mlperf"

# Dense peaks that published MFU figures of these parts were divided by, where ref.accelerators has the vendor's
# unrounded ones: a row must be comparable with what others print, and says which peak it used.
REFERENCE_PEAKS = pl.DataFrame(
    {
        "accelerator_id": ["amd-mi355x-288gb", "amd-mi350x-288gb"],
        "reference_bf16": [2500.0, 2300.0],
        "reference_eight_bit": [5000.0, 4600.0],
    }
)


def resolve(frame: pl.DataFrame, aliases: pl.DataFrame) -> pl.DataFrame:
    """Adds `accelerator_id` and, where it is null, `accelerator_reason`, from the column `accelerator`.

    A name is looked up as MLPerf writes it, then as anybody else does if they all mean one part by it. Case,
    spaces and registered-trademark signs do not count.
    """
    known = _newest(aliases, ["namespace", "raw_name"]).with_columns(_plain("raw_name").alias("name"))
    own = (
        known.filter(pl.col("namespace") == NAMESPACE)
        .group_by("name")
        .agg(_only("accelerator_id").alias("own_id"), pl.col("unresolved_reason").drop_nulls().first())
    )
    others = known.drop_nulls("accelerator_id").group_by("name").agg(_only("accelerator_id").alias("other_id"))
    looked_up = (
        frame.with_columns(_plain("accelerator").alias("name"))
        .join(own, on="name", how="left")
        .join(others, on="name", how="left")
    )
    reason = (
        pl.when(pl.col("accelerator").is_null())
        .then(pl.lit("the system file names no accelerator"))
        .when(pl.col("unresolved_reason").is_not_null())
        .then(pl.format("accelerator {}: {}", "accelerator", "unresolved_reason"))
        .otherwise(pl.format("accelerator {} is not in ref.accelerator_aliases", "accelerator"))
    )
    found = pl.when(pl.col("unresolved_reason").is_null()).then(pl.coalesce("own_id", "other_id"))
    return (
        looked_up.with_columns(found.alias("accelerator_id"))
        .with_columns(pl.when(pl.col("accelerator_id").is_null()).then(reason).alias("accelerator_reason"))
        .drop("name", "own_id", "other_id", "unresolved_reason")
    )


def with_peaks(frame: pl.DataFrame, accelerators: pl.DataFrame) -> pl.DataFrame:
    """Adds dense peaks (BF16, 8-bit, of the precision used) in TFLOP/s, and `peak_note` where two are published.

    The 8-bit peak is the higher of FP8 and INT8: a part without FP8 units lists its BF16 rate under FP8.
    """
    peaks = _newest(accelerators, ["accelerator_id"]).select(
        "accelerator_id", "bf16_dense_tflops", "fp8_dense_tflops", "fp4_dense_tflops", "int8_dense_tops"
    )
    joined = frame.join(peaks, on="accelerator_id", how="left").join(REFERENCE_PEAKS, on="accelerator_id", how="left")
    eight_bit = pl.max_horizontal("fp8_dense_tflops", "int8_dense_tops")
    noted = joined.with_columns(
        pl.when(pl.col("reference_bf16") != pl.col("bf16_dense_tflops"))
        .then(
            pl.format(
                "MFU divides by the rounded peaks {} (BF16) and {} (8 bit) TFLOP/s that published figures use; "
                "ref.accelerators has {} and {}",
                "reference_bf16",
                "reference_eight_bit",
                "bf16_dense_tflops",
                eight_bit,
            )
        )
        .alias("peak_note")
    ).with_columns(
        pl.coalesce("reference_bf16", "bf16_dense_tflops").alias("bf16_dense_tflops"),
        pl.coalesce("reference_eight_bit", eight_bit).alias("eight_bit_dense_tflops"),
    )
    used = pl.col("used_precision")
    return noted.with_columns(
        pl.when(used == "bf16")
        .then("bf16_dense_tflops")
        .when(used.is_in(["fp8", "int8"]))
        .then("eight_bit_dense_tflops")
        .when(used == "fp4")
        .then("fp4_dense_tflops")
        .alias("used_dense_tflops")
    )


def _newest(frame: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The version of each row that became known last."""
    return frame.sort("known_at", maintain_order=True).unique(key, keep="last", maintain_order=True)


def _only(column: str) -> pl.Expr:
    """The value all rows share; null if they differ."""
    return pl.when(pl.col(column).n_unique() == 1).then(pl.col(column).first())


def _plain(column: str) -> pl.Expr:
    return (
        pl.col(column)
        .str.to_lowercase()
        .str.replace_all(r"\((?:r|tm)\)|[®™]", "")
        .str.replace_all(r"\s+x\d+$|\s*\(x\d+\)$", "")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
