"""From the texts that nvidia-smi prints to typed rows: one conversion for its CSV, XML and plain outputs.

Belongs here: units, words such as `[N/A]`, time stamps. Does not belong here: taking an output apart.
"""

from __future__ import annotations

import datetime as dt

import polars as pl

from sources.base import Parsed, ParseError, Reject
from sources.telemetry_inputs.context import UTC_US, Where, stamped, table, with_accelerator
from sources.telemetry_inputs.metrics import column_of
from sources.telemetry_inputs.sentinels import WORDS

# NVML's recovery actions in the words of nvidia-smi.
ACTIONS = {
    "none": 0,
    "reset": 1,
    "gpu reset": 1,
    "gpu reset required": 1,
    "reboot": 2,
    "node reboot": 2,
    "node reboot required": 2,
    "drain p2p": 3,
    "drain and reset": 4,
}
INVENTORY = (
    "gpu_name",
    "gpu_serial",
    "pci_bus_id",
    "vbios",
    "inforom",
    "driver",
    "cuda",
    "gsp_firmware",
    "board_part_number",
    "fabric_cluster_uuid",
    "chassis_serial",
)
# What masked captures and unset fields print for an identity.
NO_IDENTITY = r"^(0+|00000000-0000-0000-0000-000000000000)$"


def fields() -> pl.DataFrame:
    """`nvidia_smi_fields.csv` with numbers as numbers."""
    return table("nvidia_smi_fields.csv").with_columns(pl.col("factor", "low", "high").cast(pl.Float64))


def to_frames(raw: pl.DataFrame, where: Where, what: str, rejects: list[Reject], offset: dt.timedelta) -> Parsed:
    """Rows from one text column for each item of `nvidia_smi_fields.csv`, and `parent`, `mig_profile` for instances.

    `offset` is how far the node's clock, by which nvidia-smi stamps, is ahead of UTC. Raises `ParseError` if a
    row has no UUID, or no time and nobody said when.
    """
    if "@uuid" not in raw.columns or raw["@uuid"].null_count() == raw.height:
        raise ParseError(
            f"{what} names GPUs by index only: add uuid to the query, an index is not the same after a boot"
        )
    texts = raw.with_columns(pl.col(c).replace("", None) for c in raw.columns)
    timed = texts.with_columns(_time(texts, offset).alias("sampled_at"))
    if timed["sampled_at"].null_count():
        timed = timed.with_columns(pl.col("sampled_at").fill_null(where.moment(what)))
    host = _identity("@hostname") if "@hostname" in timed.columns else pl.lit(None, dtype=pl.String)
    timed = timed.with_columns(pl.coalesce(host, pl.lit(where.node)).alias("node"), pl.col("@uuid").alias("gpu_uuid"))
    for name in ("parent", "mig_profile"):
        if name not in timed.columns:
            timed = timed.with_columns(pl.lit(None, dtype=pl.String).alias(name))
    chosen = [row for row in fields().iter_rows(named=True) if row["kind"] != "id" and row["column"] in timed.columns]
    valued = timed.with_columns(
        expr
        for row in chosen
        for expr in _converted(row["column"], row["kind"], row["factor"], row["low"], row["high"])
    )
    frames = {
        "telemetry.gpu_samples": _samples(valued, [row["column"] for row in chosen], where),
        "telemetry.inventory": _inventory(valued, where),
        "telemetry.null_reasons": _reasons(valued, [row["column"] for row in chosen], where),
    }
    return Parsed({name: frame for name, frame in frames.items() if frame.height}, rejects)


def _time(raw: pl.DataFrame, offset: dt.timedelta) -> pl.Expr:
    if "@time" not in raw.columns:
        return pl.lit(None, dtype=UTC_US)
    text = pl.col("@time").str.strip_chars()
    spaced = text.str.replace_all(r"\s+", " ")
    local = pl.coalesce(
        text.str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="us", strict=False),
        spaced.str.to_datetime("%a %b %e %H:%M:%S %Y", time_unit="us", strict=False),
        spaced.str.to_datetime("%a %b %d %H:%M:%S %Y", time_unit="us", strict=False),
    )
    return (local - pl.lit(offset)).dt.replace_time_zone("UTC").cast(UTC_US)


def word(column: str) -> pl.Expr:
    """The text without brackets and in lower case."""
    return pl.col(column).str.strip_chars(" []").str.to_lowercase()


def _converted(column: str, kind: str, factor: float, low: float | None, high: float | None) -> list[pl.Expr]:
    """`column` as a number in our unit and `column!` with the reason of a null."""
    text = pl.col(column)
    if kind == "hex":
        number = text.str.extract(r"^0x([0-9A-Fa-f]+)$", 1).str.to_integer(base=16, dtype=pl.Int64, strict=False)
        number = number.cast(pl.Float64)
    elif kind == "pstate":
        number = text.str.extract(r"^P(\d+)$", 1).cast(pl.Float64, strict=False)
    elif kind == "flag":
        number = word(column).replace_strict({"yes": 1.0, "no": 0.0, "1": 1.0, "0": 0.0}, default=None)
    elif kind == "action":
        number = word(column).replace_strict(ACTIONS, default=None, return_dtype=pl.Float64)
    else:
        number = text.str.extract(r"^\s*(-?\d+(?:\.\d+)?)(?:\s*[A-Za-z%/]+)?\s*$", 1).cast(pl.Float64, strict=False)
    scaled = number * factor
    out = (scaled < (low if low is not None else float("-inf"))) | (
        scaled > (high if high is not None else float("inf"))
    )
    cold = (scaled == 0) if column == "memory_temperature_c" else pl.lit(value=False)
    said = word(column).replace_strict(WORDS, default="unreadable", return_dtype=pl.String)
    reason = (
        pl.when(text.is_null())
        .then(None)
        .when(number.is_null())
        .then(said)
        .when(cold)
        .then(pl.lit("not_supported"))
        .when(out)
        .then(pl.lit("out_of_range"))
    )
    value = pl.when(reason.is_null()).then(scaled)
    typed = value if column_of(column) == pl.Float64() else value.round().cast(pl.Int64)
    return [typed.alias(column), reason.alias(f"{column}!"), text.alias(f"{column}?")]


def _identity(column: str) -> pl.Expr:
    masked = pl.col(column).str.contains(NO_IDENTITY) if column != "@fabric_clique_id" else pl.lit(value=False)
    nothing = word(column).is_in([*WORDS, "none"]) | masked
    return pl.when(~nothing).then(pl.col(column).str.strip_chars())


def _samples(valued: pl.DataFrame, columns: list[str], where: Where) -> pl.DataFrame:
    index = (
        pl.col("@gpu_index").cast(pl.Int64, strict=False) if "@gpu_index" in valued.columns else pl.lit(None, pl.Int64)
    )
    name = pl.col("@gpu_name") if "@gpu_name" in valued.columns else pl.lit(None, pl.String)
    chosen = valued.select(
        "sampled_at",
        "node",
        "gpu_uuid",
        pl.col("parent").alias("parent_gpu_uuid"),
        index.alias("gpu_index"),
        name.alias("gpu_name"),
        *columns,
    )
    return stamped(with_accelerator(chosen).drop("gpu_name"), where)


def _inventory(valued: pl.DataFrame, where: Where) -> pl.DataFrame:
    present = [c for c in INVENTORY if f"@{c}" in valued.columns]
    exprs = [_identity(f"@{c}").alias(c) for c in present]
    for name, text in (("is_mig_enabled", "@mig_mode"), ("is_ecc_enabled", "@ecc_mode")):
        if text in valued.columns:
            on = word(text).replace_strict({"enabled": True, "disabled": False}, default=None, return_dtype=pl.Boolean)
            exprs.append(on.alias(name))
    numbers = [n for n in ("module_id", "fabric_clique_id", "gpu_index") if f"@{n}" in valued.columns]
    exprs += [pl.col(f"@{name}").cast(pl.Int64, strict=False).alias(name) for name in numbers]
    sizes = [c for c in ("memory_total_bytes", "power_limit_w") if c in valued.columns]
    boards = valued.select(
        pl.col("sampled_at").alias("valid_from"),
        "node",
        "gpu_uuid",
        pl.col("parent").alias("parent_gpu_uuid"),
        "mig_profile",
        *exprs,
        *sizes,
    )
    boards = boards.sort("valid_from").unique(
        subset=[c for c in boards.columns if c != "valid_from"], keep="first", maintain_order=True
    )
    boards = with_accelerator(boards) if "gpu_name" in boards.columns else boards
    return stamped(boards, where, time_column=None)


def _reasons(valued: pl.DataFrame, columns: list[str], where: Where) -> pl.DataFrame:
    key = ["sampled_at", "node", "gpu_uuid"]
    parts = [
        valued.filter(pl.col(f"{c}!").is_not_null()).select(
            *key, pl.lit(c).alias("column_name"), pl.col(f"{c}!").alias("reason"), pl.col(f"{c}?").alias("raw_value")
        )
        for c in columns
    ]
    long = pl.concat(parts).rename({"sampled_at": "from_at", "gpu_uuid": "device"})
    # A reason that lasts is told once for each device and column of a payload.
    long = long.sort("from_at").unique(
        subset=["node", "device", "column_name", "reason"], keep="first", maintain_order=True
    )
    return stamped(long.with_columns(pl.lit("gpu_samples").alias("table_name")), where, time_column=None)
