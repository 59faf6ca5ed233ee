"""Source `training-benchmarks`: published throughput tables of llm-foundry and MaxText.

Belongs here: those Markdown tables, figures as printed. Does not belong here: recomputing them
(a test does), MLPerf.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import local_files, payload_of

TABLE = "market.training_benchmarks"
_PAGES = (
    "https://raw.githubusercontent.com/mosaicml/llm-foundry/main/scripts/train/benchmarking/README.md",
    "https://raw.githubusercontent.com/AI-Hypercomputer/maxtext/main/src/maxtext/configs/tpu/v5e/README.md",
    "https://raw.githubusercontent.com/AI-Hypercomputer/maxtext/main/src/maxtext/configs/tpu/v5p/README.md",
)
_FOUNDRY_COLUMNS = (
    "Model", "SeqLen (T)", "# GPUs", "GPU", "MFU", "HFU", "Throughput (T/s)", "Precision", "NumParams", "GlobalBatchSize",
    "MicroBatchSize", "Sharding Strategy", "Activation Checkpointing",
)  # fmt: skip
_TPU = {"v5e": "google-tpu-v5e-16gb", "v5p": "google-tpu-v5p-95gb"}


class TrainingBenchmarks:
    """Throughput, MFU and HFU as the authors of two training stacks print them."""

    name = "training-benchmarks"
    publisher = "MosaicML (llm-foundry) and Google (MaxText)"
    homepage = "https://github.com/mosaicml/llm-foundry"
    licence = "Apache-2.0"
    terms = "open-source repositories; figures as facts"
    cadence: Cadence = "quarterly"
    tables = (TABLE,)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options: tuple[str, ...] = ()
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """The three pages, when they have changed."""
        for url in _PAGES:
            answer = web.get(url)
            if answer is not None:
                yield Payload(
                    self.name, url, answer.retrieved_at, "text/markdown", answer.body, stream=url, etag=answer.etag,
                    last_modified=answer.last_modified,
                )  # fmt: skip

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each Markdown file."""
        for file, name in local_files(paths, (".md",)):
            yield payload_of(self.name, file, name, options, media_type="text/markdown", meta={}, stream=name)

    def parse(self, payload: Payload) -> Parsed:
        """Rows of market.training_benchmarks. Raises `ParseError` for a page with none of the tables."""
        text = payload.read().decode("utf-8", errors="replace")
        rejects: list[Reject] = []
        rows = [*_foundry(text, rejects), *_maxtext(text, rejects)]
        if not rows and not rejects:
            raise ParseError("no throughput table found; the page may have moved")
        frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
            pl.lit(payload.retrieved_at).cast(pl.Datetime("us", "UTC")).alias("known_at"),
            pl.lit(payload.url if payload.url.startswith("http") else None, pl.String).alias("source_url"),
        )
        return Parsed({TABLE: frame.unique(maintain_order=True)} if rows else {}, rejects)


def _tables(text: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """(heading, column names, rows) of every Markdown table."""
    heading, lines = "", text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("#"):
            heading = line.strip("# ").strip()
        is_rule = re.fullmatch(r"\|?[\s:|-]*-{3}[\s:|-]*", line.strip()) is not None
        if not is_rule or place == 0 or "|" not in lines[place - 1]:
            continue
        body = []
        for row in lines[place + 1 :]:
            if not row.strip().startswith("|"):
                break
            body.append(_cells(row))
        yield heading, _cells(lines[place - 1]), body


def _cells(line: str) -> list[str]:
    return [c.strip() for c in line.strip().strip("|").split("|")]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return None


def _foundry(text: str, rejects: list[Reject]) -> Iterator[dict[str, Any]]:
    for heading, names, body in _tables(text):
        if not set(_FOUNDRY_COLUMNS) <= set(names):
            continue
        for cells in body:
            row = dict(zip(names, cells, strict=False))
            numbers = {n: _number(row.get(n, "")) for n in names}
            needed = [
                n
                for n in ("MFU", "HFU", "# GPUs", "Throughput (T/s)", "NumParams", "SeqLen (T)")
                if numbers.get(n) is None
            ]
            if needed or len(cells) != len(names):
                reason = f"{needed[0] if needed else 'a column'} is missing or no number"
                rejects.append(Reject(TABLE, "row_is_complete", reason, " | ".join(cells), heading))
                continue
            precision = row["Precision"].removeprefix("amp_")
            yield {
                "benchmark": "llm-foundry",
                "run": " / ".join(
                    (heading, row["Model"], f"T{row['SeqLen (T)']}", f"{row['# GPUs']} GPUs", f"batch {row['GlobalBatchSize']}",
                     f"micro {row['MicroBatchSize']}", row["Precision"], row["Sharding Strategy"], row["Activation Checkpointing"])
                ),
                "model": f"MPT {row['Model']}",
                "accelerator": row["GPU"],
                "accelerators": int(numbers["# GPUs"] or 0),
                "precision": precision,
                "params": numbers["NumParams"],
                "seq_len": int(numbers["SeqLen (T)"] or 0),
                "global_batch": _whole(numbers.get("GlobalBatchSize")),
                "micro_batch": _whole(numbers.get("MicroBatchSize")),
                "grad_accumulation": _whole(numbers.get("GradAccum")),
                "recompute": "full" if row["Activation Checkpointing"] == "True" else "none",
                "tokens_per_s": numbers["Throughput (T/s)"],
                "tokens_per_s_per_gpu": numbers.get("Throughput (T/s/GPU)"),
                "tflops_per_gpu": numbers.get("Model TFLOP"),
                "mfu_ratio": (numbers["MFU"] or 0.0) / 100,
                "hfu_ratio": (numbers["HFU"] or 0.0) / 100,
                "source_name": "llm-foundry benchmarking README",
            }  # fmt: skip


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _maxtext(text: str, rejects: list[Reject]) -> Iterator[dict[str, Any]]:
    for heading, names, body in _tables(text):
        if names[0] != "Hardware" or not any("TFLOP/sec/chip" in n for n in names):
            continue
        for cells in body:
            for place in range(1, len(names) - 1, 2):
                found = re.match(r"(\d+)x (v5[ep])-(\d+)$", cells[0])
                size = re.match(r"(\d+B)", names[place]) or re.match(r"(\d+B)", heading)
                values = [_number(c) for c in cells[place : place + 2]]
                if found is None or size is None or len(values) < 2 or None in values:  # noqa: PLR2004 - TFLOP/s and MFU
                    rejects.append(
                        Reject(TABLE, "row_is_complete", "no slice, model or figure", " | ".join(cells), heading)
                    )
                    continue
                yield _maxtext_row(found, size.group(1), values[0] or 0.0, values[1] or 0.0)


def _maxtext_row(found: re.Match[str], size: str, tflops: float, percent: float) -> dict[str, Any]:
    slices, kind, named = int(found.group(1)), found.group(2), int(found.group(3))
    # A v5e slice is named by its chips, a v5p slice by its TensorCores, of which a chip has two.
    chips = slices * (named if kind == "v5e" else named // 2)
    return {
        "benchmark": f"maxtext-{kind}",
        "run": f"{size} / {found.group(0)}",
        "model": f"MaxText {size}",
        "accelerator": f"TPU {kind}",
        "accelerator_id": _TPU[kind],
        "accelerators": chips,
        "precision": "bf16",
        "tflops_per_gpu": tflops,
        "mfu_ratio": percent / 100,
        "source_name": f"MaxText {kind} performance table",
    }


SOURCE = TrainingBenchmarks()
