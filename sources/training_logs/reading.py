"""What a dialect gives back, and the expressions dialects are written in.

Belongs here: cutting a log into records, reading numbers after a key. Does not belong here: any one dialect.
A dialect fills the columns it knows of `STEP_COLUMNS`; `finish.py` derives the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from sources.texts import decoded

Scalar = int | float | str | bool

STEP_COLUMNS: dict[str, pl.DataType] = {
    "step": pl.Int64(),
    "local_time": pl.Datetime("us"),
    "elapsed_seconds": pl.Float64(),
    "completed_at": pl.Datetime("us", "UTC"),
    "step_seconds": pl.Float64(),
    "tokens": pl.Int64(),
    "samples": pl.Int64(),
    "samples_per_s": pl.Float64(),
    "consumed_samples": pl.Int64(),
    "consumed_tokens": pl.Int64(),
    "tokens_per_s": pl.Float64(),
    "tokens_per_s_per_gpu": pl.Float64(),
    "loss": pl.Float64(),
    "learning_rate": pl.Float64(),
    "grad_norm": pl.Float64(),
    "skipped_steps": pl.Int64(),
    "stated_tflops_per_gpu": pl.Float64(),
    "stated_tflops_kind": pl.String(),
    "stated_mfu_ratio": pl.Float64(),
}
PHASE_COLUMNS: dict[str, pl.DataType] = {
    "phase": pl.String(),
    "from_at": pl.Datetime("us", "UTC"),
    "to_at": pl.Datetime("us", "UTC"),
    "step": pl.Int64(),
}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RECORD = "\x1e"


@dataclass(frozen=True, slots=True)
class Reading:
    """Steps (in the order of the log), phases, and what the log states about the whole run.

    facts: keys `seq_len`, `global_batch`, `gpus`, the parallel degrees, and shape names of ref.model_configs.
    losses: (reason, raw text) of records that cannot become a step.
    """

    steps: pl.DataFrame
    phases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=PHASE_COLUMNS))
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    losses: tuple[tuple[str, str], ...] = ()


class Dialect(Protocol):
    """One framework's way of writing: how often it is seen in a text, and its reading."""

    framework: str

    def hits(self, text: str) -> int:
        """How many step records of this dialect the text holds."""
        ...

    def read(self, text: str) -> Reading:
        """All steps of the text."""
        ...


def clean_text(body: bytes) -> str:
    """Text without colour escapes; wrong bytes become U+FFFD, progress-bar rewrites become lines."""
    text = decoded(body).replace("\r\n", "\n").replace("\r", "\n")
    return _ESCAPES.sub("", text).replace(_RECORD, " ")


def records(text: str, start: str) -> pl.DataFrame:
    """Column `text`: one row for each record; a record runs from one match of `start` to the next.

    Ranks that write into one line, and lines that a terminal wrapped, are put right this way.
    """
    whole = pl.DataFrame({"text": [text]})
    parts = whole.select(pl.col("text").str.replace_all(f"({start})", _RECORD + "${1}").str.split(_RECORD)).explode(
        "text"
    )
    return parts.filter(pl.col("text").str.contains(f"^(?:{start})"))


def number(pattern: str) -> pl.Expr:
    """The first group of `pattern` in a record, as a number; thousands commas dropped; null where absent."""
    return pl.col("text").str.extract(pattern).str.replace_all(",", "").cast(pl.Float64, strict=False)


def whole(pattern: str) -> pl.Expr:
    """The first group as an integer; null where absent or not a whole number."""
    value = number(pattern)
    return pl.when(value == value.floor()).then(value).cast(pl.Int64, strict=False)


def local_time(pattern: str) -> pl.Expr:
    """A zoneless time `YYYY-MM-DD HH:MM:SS[,.ffffff]` as the log prints it."""
    text = pl.col("text").str.extract(pattern).str.replace(",", ".").str.replace("T", " ")
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False).cast(pl.Datetime("us"))


def first_fact(text: str, pattern: str) -> int | float | str | None:
    """The first group of `pattern` in the text, as a number where it is one."""
    found = re.search(pattern, text)
    if found is None:
        return None
    value = found.group(1).strip().strip("'\"")
    try:
        number_ = float(value.replace(",", ""))
    except ValueError:
        return value
    return int(number_) if number_.is_integer() else number_


def with_step_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with every column of `STEP_COLUMNS`, missing ones null."""
    known = {name: frame.schema.get(name) for name in STEP_COLUMNS}
    return frame.select(
        (pl.col(name).cast(dtype, strict=False) if known[name] is not None else pl.lit(None, dtype)).alias(name)
        for name, dtype in STEP_COLUMNS.items()
    )
