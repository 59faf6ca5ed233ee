"""From raw MLPerf frames to `market.mlperf_results` and `market.mlperf_runs`: score, work done, utilisation.

Belongs here: joining runs, system, accelerator and FLOPs into a result. Does not belong here: reading logs
(`sources/mlperf/`), the rules of the score (`mlperf_score.py`), FLOPs per unit (`mlperf_work.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from assets.mlperf_accelerators import resolve, with_peaks
from assets.mlperf_score import DIRECTORY, place_runs, score
from assets.mlperf_work import no_work_reason, with_precision, work_table
from warehouse.schema.declare import PROVENANCE_COLUMNS, lake_schema
from warehouse.schema.mlperf import MlperfInference, MlperfResult, MlperfRun

STREET_COLUMNS = ("source", "payload_sha256", "retrieved_at")
TERA = 1e12


def derive(
    parsed_frames: Mapping[str, pl.DataFrame], *, aliases: pl.DataFrame, accelerators: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Tables of the sources `mlperf-training` and `mlperf-inference` from their raw frames.

    aliases, accelerators: `ref.accelerator_aliases` and `ref.accelerators`, any number of versions. A name or a
    peak that they do not hold gives a null with its reason.
    """
    tables: dict[str, pl.DataFrame] = {}
    if "raw.mlperf_runs" in parsed_frames:
        tables |= _training(
            parsed_frames["raw.mlperf_directories"], parsed_frames["raw.mlperf_runs"], aliases, accelerators
        )
    if "raw.mlperf_inference" in parsed_frames:
        resolved = resolve(parsed_frames["raw.mlperf_inference"], aliases)
        tables["market.mlperf_inference"] = _fit(resolved, MlperfInference)
    return tables


def _training(
    directories: pl.DataFrame, runs: pl.DataFrame, aliases: pl.DataFrame, accelerators: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    placed = place_runs(runs, directories)
    results = (
        directories.join(score(placed), on=DIRECTORY, how="inner")
        .join(_work_done(placed), on=DIRECTORY, how="left")
        .with_columns((pl.col("unscaled_minutes") * pl.col("scaling_factor")).alias("minutes"))
        .with_columns((pl.col("energy_j") * pl.col("scaling_factor")).alias("official_energy_j"))
    )
    results = with_peaks(with_precision(resolve(results, aliases)), accelerators)
    return {
        "market.mlperf_results": _fit(_utilise(results).sort(DIRECTORY), MlperfResult),
        "market.mlperf_runs": _fit(placed.sort([*DIRECTORY, "run_file"]), MlperfRun),
    }


def _work_done(placed: pl.DataFrame) -> pl.DataFrame:
    """One row a directory: settings all runs share, and the means over the runs kept (null if one run lacks it)."""
    kept = placed.filter(pl.col("slot") == "kept")
    shared = placed.group_by(DIRECTORY).agg(
        pl.when(pl.col(name).drop_nulls().n_unique() == 1).then(pl.col(name).drop_nulls().first()).alias(name)
        for name in ("global_batch_size", "sequence_length", "linear_precision")
    )
    means = kept.group_by(DIRECTORY).agg(
        *(
            pl.when(pl.col(name).null_count() == 0).then(pl.col(name).mean()).alias(name)
            for name in ("convergence_counter", "energy_j")
        ),
        pl.col("counter_unit").first(),
        pl.col("counter_key").drop_nulls().unique().sort().str.join(", "),
    )
    return shared.join(means, on=DIRECTORY, how="left").with_columns(
        pl.when(pl.col("counter_key") != "").then("counter_key").alias("counter_key")
    )


def _utilise(results: pl.DataFrame) -> pl.DataFrame:
    """Throughput, model FLOPs and MFU against each peak.

    MFU = sum(counter x F) / (sum(seconds) x accelerators x dense peak) over the runs kept, unscaled; means on
    both sides give the same. training_policies, training_rules.adoc, "Appendix: Utilization".
    """
    joined = results.join(work_table(), on="benchmark_id", how="left").with_columns(_reason().alias("mfu_reason"))
    usable = pl.col("mfu_reason").is_null()
    seconds = pl.col("unscaled_minutes") * 60
    count = pl.when(pl.col("accelerator_count") > 0).then(pl.col("accelerator_count"))
    rates = joined.with_columns(
        (pl.col("convergence_counter") / seconds).alias("units_per_s"),
        *(
            pl.when(_is_comparable()).then(pl.col(c)).alias(c)
            for c in ("flops_per_unit", "flops_formula", "flops_citation")
        ),
    ).with_columns(
        (pl.col("units_per_s") / count).alias("units_per_s_per_accelerator"),
        (pl.col("convergence_counter") * pl.col("flops_per_unit")).alias("model_flops"),
    )
    achieved = rates.with_columns(
        (pl.col("model_flops") / seconds / count / TERA).alias("model_tflops_per_accelerator")
    )
    each = pl.col("model_tflops_per_accelerator")
    return achieved.with_columns(
        pl.when(usable).then(each / pl.col("bf16_dense_tflops")).alias("mfu_ratio"),
        (each / pl.col("eight_bit_dense_tflops")).alias("mfu_eight_bit_ratio"),
        (each / pl.col("used_dense_tflops")).alias("mfu_used_ratio"),
        pl.when(usable).then(pl.col("is_bound")).alias("mfu_is_upper_bound"),
        pl.when(usable & pl.col("is_bound")).then(pl.col("work_reason")).otherwise("mfu_reason").alias("mfu_reason"),
        pl.concat_str("notes", "peak_note", separator="; ", ignore_nulls=True).replace("", None).alias("notes"),
    )


def _is_comparable() -> pl.Expr:
    """The FLOPs fit: same unit, and the logged sequence length, if any, is the one they were counted for."""
    same_length = pl.col("sequence_length").is_null() | (pl.col("sequence_length") == pl.col("work_sequence_length"))
    whole_sequences = (pl.col("counter_unit") != "tokens") | (
        pl.col("convergence_counter") % pl.col("work_sequence_length") == 0
    )
    return (pl.col("counter_unit") == pl.col("work_unit")) & same_length & whole_sequences


def _reason() -> pl.Expr:
    """Why there is no MFU, the first that holds; null where there is one."""
    count = pl.col("accelerator_count")
    return (
        pl.when(pl.col("minutes_reason").is_not_null())
        .then(pl.format("no official time: {}", "minutes_reason"))
        .when(pl.col("flops_per_unit").is_null())
        .then(no_work_reason())
        .when(pl.col("convergence_counter").is_null())
        .then(pl.lit("the work done until the stop is not logged in all runs kept"))
        .when(~_is_comparable().fill_null(value=False))
        .then(pl.lit("the logged unit or sequence length is not the one the FLOPs are counted for"))
        .when(count.is_null() | (count == 0))
        .then(pl.coalesce("accelerator_reason", pl.lit("the number of accelerators is not stated")))
        .when(pl.col("accelerator_id").is_null())
        .then(pl.col("accelerator_reason"))
        .when(pl.col("bf16_dense_tflops").is_null())
        .then(pl.format("no dense BF16 peak of {} is known", "accelerator_id"))
    )


def _fit(frame: pl.DataFrame, model: type[MlperfResult | MlperfRun | MlperfInference]) -> pl.DataFrame:
    """The columns of a table that this frame has, without those the street adds."""
    schema = lake_schema(model)
    wanted = [c for c in schema if c in frame.columns and c not in STREET_COLUMNS]
    missing = set(schema) - set(wanted) - set(STREET_COLUMNS) - set(PROVENANCE_COLUMNS)
    if missing:
        raise ValueError(f"{model.__tablename__}: no column {', '.join(sorted(missing))}")
    return frame.select(pl.col(c).cast(schema[c]) for c in wanted)
