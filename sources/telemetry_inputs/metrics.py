"""Turns series of exporters into rows of the telemetry tables, by the map in `metrics.csv`.

Belongs here: what a metric is, its unit, its scope under MIG. Does not belong here: any exposition format.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sources.base import Parsed, ParseError, Reject
from sources.telemetry_inputs.context import UNKNOWN, Where, is_address, stamped, table, with_accelerator
from sources.telemetry_inputs.sentinels import blank_reason
from sources.telemetry_inputs.xid_catalogue import with_meaning

ENTITY = ["sampled_at", "cluster", "node", "gpu_uuid"]
SERIES = ["metric", "sampled_at", "node", "board_uuid", "gi", "link", "domain"]
BARE_UUID = r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
CONTAINER_ID = r"^[0-9a-f]{12}$"
COUNTERS = ("_bytes", "_ns", "_count", "_rows", "energy_j")
FLOATS = ("_w", "_ratio", "_c", "_j", "_per_s")
# What masked captures print for a serial number.
NO_IDENTITY = ["0", "0000000000000", "[N/A]", "N/A"]
INFO = ("serial", "vbios", "driver", "model", "pci_bus_id", "profile")


def metric_map() -> pl.DataFrame:
    """`metrics.csv` with numbers as numbers."""
    numbers = [pl.col(c).cast(pl.Float64) for c in ("factor", "low", "high")]
    return table("metrics.csv").with_columns(numbers)


def to_frames(series: pl.DataFrame, where: Where, what: str, rejects: list[Reject]) -> Parsed:
    """Rows of all telemetry tables from series (`exposition.read_exposition` tells the columns).

    A series whose time is null was seen at the payload's `observed_at`. Raises `ParseError` if no metric is known.
    """
    if series.height:
        known = series.join(metric_map(), on="metric", how="inner", maintain_order="left")
        if not known.height:
            raise ParseError(f"{what}: none of its metrics is known here (the first is {series['metric'][0]})")
    else:
        known = series.join(metric_map(), on="metric", how="inner")
    if known["at"].null_count() or not known.height:
        known = known.with_columns(pl.col("at").fill_null(where.moment(what)))
    known = placed(known, where)
    known, repeats = _first_scrape(known)
    rejects = rejects + repeats + _nameless(known)
    values = _valued(known.filter(pl.col("gpu_uuid").is_not_null() | (pl.col("kind") == "power")))
    frames = {
        "telemetry.gpu_samples": _samples(values),
        "telemetry.link_counters": _links(values),
        "telemetry.gpu_events": _xids(values),
        "telemetry.inventory": _inventory(values),
        "telemetry.power_readings": _power(values),
        "telemetry.null_reasons": _reasons(values),
    }
    return Parsed({name: frame for name, frame in frames.items() if frame.height}, rejects)


def gap_frame(where: Where, what: str) -> Parsed:
    """An exporter that answered without one series: a gap of the whole row, not an absence of GPUs."""
    record = {
        "from_at": [where.moment(what)],
        "device": ["*"],
        "table_name": ["gpu_samples"],
        "column_name": ["*"],
        "reason": ["no_series"],
    }
    return Parsed({"telemetry.null_reasons": stamped(pl.DataFrame(record), where, time_column=None)})


def placed(known: pl.DataFrame, where: Where) -> pl.DataFrame:
    """Add sampled_at, cluster, node, board_uuid, gpu_uuid (an instance's own where the metric has its scope)."""
    uuid = pl.col("uuid")
    board = pl.when(uuid.str.contains(BARE_UUID)).then(pl.lit("GPU-") + uuid).otherwise(uuid)
    instance_host = pl.col("instance").str.replace(r":\d+$", "")
    hosts = {h: None if is_address(h) else h for h in known.select(instance_host).to_series().drop_nulls().unique()}
    instance_host = instance_host.replace_strict(hosts, default=None, return_dtype=pl.String)
    poor = pl.col("hostname").is_in(["localhost"]) | pl.col("hostname").str.contains(CONTAINER_ID)
    named = pl.when(~poor).then("hostname")
    node = pl.lit(where.options.get("node"), dtype=pl.String)
    own = (pl.col("scope") == "instance") & pl.col("gi").is_not_null()
    return known.with_columns(
        pl.col("at").alias("sampled_at"),
        pl.coalesce("cluster", pl.lit(where.cluster)).alias("cluster"),
        pl.coalesce(named, instance_host, node, "hostname", pl.lit(where.node)).alias("node"),
        board.alias("board_uuid"),
        pl.when(own).then(pl.format("MIG-{}/{}", board, "gi")).otherwise(board).alias("gpu_uuid"),
        pl.when(own).then(board).alias("parent_gpu_uuid"),
    )


def _first_scrape(known: pl.DataFrame) -> tuple[pl.DataFrame, list[Reject]]:
    """Keep the first scrape of a capture, and the first of two equal series within it.

    A later scrape without time stamps would claim the same instant. One reject stands for each GPU and scrape.
    """
    marked = known.with_columns(
        pl.col("line").rank("ordinal").over(SERIES).alias("nth"), pl.col("scope").eq("board").alias("is_board")
    )
    # On a MIG board each instance repeats the board's value: the first counts, the others are no error.
    board = [*(c for c in SERIES if c != "gi")]
    marked = marked.with_columns(
        pl.when("is_board")
        .then(pl.col("line").rank("ordinal").over([*board, "is_board"]))
        .otherwise("nth")
        .alias("nth_board")
    )
    again = marked.filter(pl.col("nth") > 1)
    rejects = [
        Reject(
            "telemetry.gpu_samples",
            "one value for a series and instant",
            f"{count} series come again without a time of their own",
            f"{uuid or node}: {metric} …",
            f"line {line}",
        )
        for uuid, node, metric, line, count in again.group_by("board_uuid", "node", "nth", maintain_order=True)
        .agg(pl.col("metric").first(), pl.col("line").first(), pl.len())
        .select("board_uuid", "node", "metric", "line", "len")
        .iter_rows()
    ]
    return marked.filter((pl.col("nth") == 1) & (pl.col("nth_board") == 1)), rejects


def _nameless(known: pl.DataFrame) -> list[Reject]:
    lost = known.filter(pl.col("gpu_uuid").is_null() & (pl.col("kind") != "power"))
    return [
        Reject(
            "telemetry.gpu_samples",
            "a GPU is its UUID",
            "the series names no UUID; an index says nothing after a reboot",
            f"{metric} {value}",
            f"line {line}",
        )
        for metric, value, line in lost.select("metric", "value_text", "line").iter_rows()
    ]


def _valued(known: pl.DataFrame) -> pl.DataFrame:
    """Add `value` in our unit (null for a sentinel or a value out of range) and `reason`."""
    target = pl.col("target")
    counter = pl.any_horizontal(target.str.ends_with(end) for end in COUNTERS) | (pl.col("kind") == "link")
    number = pl.col("value_text").cast(pl.Float64, strict=False)
    scaled = number * pl.col("factor")
    out = (scaled < pl.col("low")) | (scaled > pl.col("high"))
    cold = (target == "memory_temperature_c") & (number == 0)
    has_mig = pl.col("gi").is_not_null().any().over("board_uuid", "sampled_at")
    util = target.is_in(["gpu_util_ratio", "memory_util_ratio"]) & has_mig
    blank = pl.when(pl.col("kind") != "inventory").then(blank_reason(pl.col("value_text"), counter=counter))
    judged = known.with_columns(
        pl.coalesce(
            blank,
            pl.when(util).then(pl.lit("unknown_on_mig")),
            pl.when(cold).then(pl.lit("not_supported")),
            pl.when(out & (pl.col("kind") != "xid")).then(pl.lit("out_of_range")),
        ).alias("reason"),
        scaled.alias("value"),
    )
    judged = judged.with_columns(pl.when(pl.col("reason").is_null()).then("value").alias("value"))
    return _without_dead_profiling(judged)


def _without_dead_profiling(values: pl.DataFrame) -> pl.DataFrame:
    """After an Xid 31 the profiling counters may stay 0 while the GPU works: then they are no readings."""
    profiling = ["graphics_active_ratio", "tensor_active_ratio", "dram_active_ratio", "sm_active_ratio"]

    def most(name: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("target") == name).max().over("board_uuid", "sampled_at", "gi")

    in_profiling = pl.col("target").is_in([*profiling, "sm_occupancy_ratio"])
    silent = pl.max_horizontal(most(name) for name in profiling) == 0
    busy = most("gpu_util_ratio") >= 0.9  # noqa: PLR2004
    dead = (in_profiling & silent & busy).fill_null(value=False)
    return values.with_columns(
        pl.when(dead).then(pl.lit("implausible")).otherwise("reason").alias("reason"),
        pl.when(~dead).then("value").alias("value"),
    )


def column_of(name: str) -> pl.DataType:
    """The type of a sample's column, read off its unit."""
    return pl.Float64() if name.endswith(FLOATS) else pl.Int64()


def _samples(values: pl.DataFrame) -> pl.DataFrame:
    samples = values.filter(pl.col("kind") == "sample")
    if not samples.height:
        return pl.DataFrame()
    columns = samples["target"].unique(maintain_order=True).to_list()

    def one(name: str) -> pl.Expr:
        found = pl.col("value").filter(pl.col("target") == name).drop_nulls().first()
        return (found if column_of(name) == pl.Float64() else found.round().cast(pl.Int64)).alias(name)

    # An exporter's `gpu` label counts boards; under MIG it says nothing of the instance.
    index = pl.col("gpu_index").cast(pl.Int64, strict=False).drop_nulls().first()
    wide = samples.group_by(ENTITY, maintain_order=True).agg(
        pl.col("parent_gpu_uuid").first(),
        index.alias("gpu_index"),
        pl.col("model").drop_nulls().first(),
        *map(one, columns),
    )
    wide = with_accelerator(wide, "model").drop("model")
    return _finished(wide)


def _links(values: pl.DataFrame) -> pl.DataFrame:
    links = values.filter(pl.col("kind") == "link")
    parts = pl.col("target").str.split_exact(":", 1)
    number = pl.coalesce(parts.struct.field("field_1"), "link").cast(pl.Int64, strict=False)
    name = parts.struct.field("field_0")
    whole = pl.when(number.is_null()).then(name + "_all_links").otherwise(name)
    return _finished(
        links.select(
            "sampled_at",
            "cluster",
            "node",
            pl.col("board_uuid").alias("device"),
            pl.lit("nvlink").alias("link_kind"),
            number.fill_null(0).alias("link_index"),
            whole.alias("counter"),
            pl.col("value").cast(pl.Int64),
        )
    )


def _xids(values: pl.DataFrame) -> pl.DataFrame:
    """The XID gauge keeps the last code for ever: only a change within this payload is an event.

    What stood there at the first reading is kept as kind `xid_last`, 0 (none since the driver loaded) too: a later
    payload that begins with another code then tells an event (`assets/telemetry_xids.py`). So is a return to 0.
    """
    gauge = values.filter((pl.col("kind") == "xid") & pl.col("value").is_not_null()).sort("sampled_at", "line")
    gauge = gauge.with_columns(pl.col("value").cast(pl.Int64).alias("code"))
    before = pl.col("code").shift(1).over("board_uuid", "node", "cluster")
    seen = gauge.with_columns(before.alias("before")).filter(pl.col("code").ne_missing(pl.col("before")))
    standing = pl.col("before").is_null() | (pl.col("code") == 0)
    events = seen.select(
        pl.col("sampled_at").alias("occurred_at"),
        "cluster",
        "node",
        pl.col("board_uuid").alias("device"),
        pl.when(standing).then(pl.lit("xid_last")).otherwise(pl.lit("xid")).alias("kind"),
        pl.col("code").cast(pl.String).alias("event_id"),
        pl.col("board_uuid").alias("gpu_uuid"),
        "pci_bus_id",
        "code",
    )
    return with_meaning(events).with_columns(pl.lit(value=False).alias("is_synthetic"))


def _inventory(values: pl.DataFrame) -> pl.DataFrame:
    told = values.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in INFO if c != "profile"))
    told = told.filter(pl.col("board_uuid").is_not_null()).sort("sampled_at")
    boards = told.group_by("cluster", "node", "board_uuid", maintain_order=True).agg(
        pl.col("sampled_at").min().alias("valid_from"),
        pl.col("gpu_index").cast(pl.Int64, strict=False).drop_nulls().first(),
        *(pl.col(c).replace(NO_IDENTITY, None).drop_nulls().first() for c in INFO if c != "profile"),
        pl.when(pl.col("gi").is_not_null().any()).then(pl.lit(value=True)).alias("is_mig_enabled"),
    )
    names = {"board_uuid": "gpu_uuid", "serial": "gpu_serial", "model": "gpu_name"}
    boards = with_accelerator(boards.rename(names))
    return boards.with_columns(pl.lit(value=False).alias("is_synthetic"))


def _power(values: pl.DataFrame) -> pl.DataFrame:
    meters = values.filter(pl.col("kind") == "power")
    if not meters.height:
        return pl.DataFrame()
    parts = pl.col("target").str.split_exact(":", 1)
    meters = meters.with_columns(
        pl.when(parts.struct.field("field_0") == "domain").then("domain").otherwise(pl.lit("node")).alias("meter"),
        parts.struct.field("field_1").alias("target"),
        (parts.struct.field("field_0") == "domain").alias("by_domain"),
    )
    columns: Mapping[str, pl.Expr] = {
        name: pl.col("value").filter(pl.col("target") == name).first().alias(name) for name in meters["target"].unique()
    }
    wide = meters.group_by("sampled_at", "cluster", "node", "meter", "by_domain", maintain_order=True).agg(
        columns.values()
    )
    tool = pl.when("by_domain").then(pl.lit("pm_counters")).otherwise(pl.lit("ipmi_dcmi"))
    named = wide.with_columns(
        pl.col("meter").str.replace(r"\d+$", "").replace({"accel": "accelerator"}).alias("scope"),
        pl.format("{}/{}/{}", "node", tool, "meter").alias("device"),
    )
    return named.drop("meter", "by_domain").with_columns(
        pl.lit(value=False).alias("is_synthetic"), pl.col("node").replace(UNKNOWN, None)
    )


def _reasons(values: pl.DataFrame) -> pl.DataFrame:
    refused = values.filter(pl.col("reason").is_not_null() & (pl.col("kind") == "sample"))
    return refused.select(
        pl.col("sampled_at").alias("from_at"),
        "cluster",
        "node",
        pl.col("gpu_uuid").alias("device"),
        pl.lit("gpu_samples").alias("table_name"),
        pl.col("target").alias("column_name"),
        "reason",
        pl.col("value_text").alias("raw_value"),
        pl.lit(value=False).alias("is_synthetic"),
    )


def _finished(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(value=False).alias("is_synthetic"), pl.col("sampled_at").dt.date().alias("date"))
