"""The dense peak of an accelerator, read from the curated table.

Belongs here: look-up by accelerator and precision, refused when unknown; standard library only.
Does not belong here: the table itself (`sources/curated/ref.accelerators.csv`) and achieved throughput.
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

PEAK_COLUMNS: dict[str, str] = {
    "fp64": "fp64_matrix_tflops",
    "tf32": "tf32_dense_tflops",
    "bf16": "bf16_dense_tflops",
    "fp16": "fp16_dense_tflops",
    "fp8": "fp8_dense_tflops",
    "fp4": "fp4_dense_tflops",
    "int8": "int8_dense_tops",
}


class PeakUnknownError(LookupError):
    """No dense peak can be given; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A dense peak of one accelerator in one precision, with where it comes from."""

    accelerator_id: str
    precision: str
    tflops: float
    source_name: str
    certainty: str


def find_peak(accelerator_id: str, precision: str, table: Path | None = None) -> Peak:
    """The dense peak in TFLOP/s. Raises `PeakUnknownError` where the part, the precision or the figure is unknown."""
    column = PEAK_COLUMNS.get(precision.lower())
    if column is None:
        raise PeakUnknownError(f"precision {precision!r} is unknown: use one of {', '.join(PEAK_COLUMNS)}")
    rows = _rows(table)
    found = [r for r in rows if r["accelerator_id"] == accelerator_id.lower()]
    if not found:
        wanted, known_ids = accelerator_id.lower(), [r["accelerator_id"] for r in rows]
        near = [i for i in known_ids if wanted in i] or difflib.get_close_matches(wanted, known_ids, n=3, cutoff=0.4)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise PeakUnknownError(f"accelerator {accelerator_id!r} is not in ref.accelerators{hint}")
    row = found[0]
    if not row.get(column):
        known = [p for p, c in PEAK_COLUMNS.items() if row.get(c)]
        raise PeakUnknownError(
            f"{accelerator_id} has no published dense {precision} peak: no ratio is given"
            + (f" (known: {', '.join(known)})" if known else "")
        )
    return Peak(
        row["accelerator_id"],
        precision.lower(),
        float(row[column]),
        row.get("source_name") or "source not stated",
        row.get("certainty") or "certainty not stated",
    )


def dense_peaks(accelerator_id: str, table: Path | None = None) -> dict[str, float]:
    """Every known dense peak of an accelerator in TFLOP/s, by precision; empty when it is unknown."""
    rows = [r for r in _rows(table) if r["accelerator_id"] == accelerator_id.lower()]
    return {p: float(row[column]) for row in rows for p, column in PEAK_COLUMNS.items() if row.get(column)}


def _rows(table: Path | None) -> list[dict[str, str]]:
    source = table or resources.files("sources") / "curated" / "ref.accelerators.csv"
    try:
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PeakUnknownError("the curated table of accelerators is missing from this installation") from None
    return list(csv.DictReader(text.splitlines()))
