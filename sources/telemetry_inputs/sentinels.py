"""Values that mean "no value": DCGM's blanks, NaN, and the words of command-line tools, each with its reason.

Belongs here: telling a number from a sentinel, before any change of unit. Does not belong here: bounds of a column.
"""

from __future__ import annotations

import polars as pl

# DCGM: blank +0, not found +1, not supported +2, not permitted +3, on top of one base for each type. As 64-bit
# floats the int64 blanks collapse into one number, so only "no value" is left of them.
INT32_BLANK = 2147483632
INT64_BLANK = float(2**63 - 16)
FP64_BLANK = 140737488355328.0
KINDS = ("blank", "not_found", "not_supported", "no_permission")
STRINGS = {
    "<<<null>>>": "blank",
    "<<<not_found>>>": "not_found",
    "<<<not_supported>>>": "not_supported",
    "<<<not_perm>>>": "no_permission",
}
WORDS = {
    "n/a": "not_supported",
    "na": "not_supported",
    "-": "not_supported",
    "none": "not_supported",
    "not supported": "not_supported",
    "unknown error": "unknown_error",
    "gpu is lost": "gpu_is_lost",
    "gpu requires reset": "reset_required",
    "insufficient permissions": "no_permission",
    "requested functionality has been deprecated": "deprecated",
    "function not found": "function_not_found",
    "nan": "not_a_number",
    "": "blank",
}


def blank_reason(value_text: pl.Expr, *, counter: pl.Expr) -> pl.Expr:
    """Why a DCGM value is none; null for a number. `counter`: 32-bit blanks are then real values and not tested."""
    number = value_text.cast(pl.Float64, strict=False)
    small = (number - INT32_BLANK).cast(pl.Int64, strict=False)
    wide = ((number / FP64_BLANK).round(12) - 1).abs() < 1e-12  # noqa: PLR2004
    hundredfold = ((number / (FP64_BLANK * 100)) - 1).abs() < 1e-9  # noqa: PLR2004
    return (
        pl.when(value_text.str.to_lowercase().is_in(list(STRINGS)))
        .then(value_text.str.to_lowercase().replace_strict(STRINGS, default=None, return_dtype=pl.String))
        .when(number.is_null())
        .then(pl.lit("not_a_number"))
        .when(number.is_nan() | number.is_infinite())
        .then(pl.lit("not_a_number"))
        .when(number >= INT64_BLANK)
        .then(pl.lit("blank"))
        .when(~counter & small.is_between(0, 3) & (number == number.floor()))
        .then(small.replace_strict(dict(enumerate(KINDS)), default=None, return_dtype=pl.String))
        .when(~counter & wide)
        .then(
            (number - FP64_BLANK)
            .cast(pl.Int64, strict=False)
            .replace_strict(dict(enumerate(KINDS)), default="blank", return_dtype=pl.String)
        )
        .when(~counter & hundredfold)
        .then(pl.lit("blank"))
        .otherwise(None)
    )


def word_reason(text: str) -> str | None:
    """Why a command-line tool printed no number; null for text that is none of its words."""
    return WORDS.get(text.strip().strip("[]").strip().lower())
