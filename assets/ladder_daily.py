"""One UTC day of the ladder from landed telemetry: inventory, states, stays, minutes, jobs and their logs.

Belongs here: turning tables into the intervals that `ladder.py` takes. Does not belong here: the sweep itself,
reading and writing the lake.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from assets.cost import month_bounds
from assets.idle import MINUTE_US, idle_stretches, learn_idle_power
from assets.ladder import ladder
from assets.ladder_jobs import KEY, job_timelines
from warehouse.schema.declare import lake_schema
from warehouse.schema.ladder import LadderDay

DAY_US: Final = 86_400_000_000
SOURCE: Final = "ladder"
DOWN_STATES: Final = (
    "down",
    "drain",
    "drained",
    "maint",
    "fail",
    "error",
    "boot_fail",
    "reboot",
    "not_responding",
    "power_down",
)
MIG_SLICES: Final = 7
HOT: Final = ("throttle_sw_thermal_seconds", "throttle_hw_thermal_seconds", "throttle_power_brake_seconds")
_SPAN: Final = ["cluster", "gpu_uuid", "from_us", "to_us"]


def ladder_day(
    tables: Mapping[str, pl.DataFrame], day: dt.date, *, is_synthetic: bool, zones: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """Rows of telemetry.ladder_daily for one UTC day; `tables` as `ladder_window` takes them.

    zones: the zone in which each cluster is billed; others in UTC. Where a billed month begins within the day, the
    day is cut there, so that months add up from whole rows.
    """
    start = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp() * 1e6)
    clusters = tables["telemetry.inventory"].get_column("cluster").unique().to_list()
    pieces: dict[tuple[int, int, dt.date], list[str]] = {}
    for cluster in sorted(clusters):
        for piece in month_pieces(day, (zones or {}).get(cluster, "UTC")):
            pieces.setdefault(piece, []).append(cluster)
    found = [
        ladder_window(_of_clusters(tables, names), begin, end, start + DAY_US).with_columns(
            pl.lit(month).alias("billing_month_date")
        )
        for (begin, end, month), names in pieces.items()
    ]
    if not found:
        return pl.DataFrame(schema=lake_schema(LadderDay))
    return pl.concat(found).select(
        "cluster",
        pl.lit(SOURCE).alias("source"),
        pl.lit(is_synthetic).alias("is_synthetic"),
        pl.lit(day).alias("date"),
        "billing_month_date",
        pl.col("job_id").fill_null(""),
        pl.col("attempt").fill_null(0),
        "rung",
        "gpu_us",
    )


def month_pieces(day: dt.date, time_zone: str) -> list[tuple[int, int, dt.date]]:
    """A UTC day cut where a calendar month of the zone begins: from_us, to_us, first day of the month."""
    start = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp() * 1e6)
    months = month_bounds(day - dt.timedelta(days=2), day + dt.timedelta(days=2), time_zone)
    return [
        (max(start, begin), min(start + DAY_US, end), month)
        for month, begin, end in months.iter_rows()
        if begin < start + DAY_US and end > start
    ]


def _of_clusters(tables: Mapping[str, pl.DataFrame], names: Sequence[str]) -> dict[str, pl.DataFrame]:
    return {name: frame.filter(pl.col("cluster").is_in(names)) for name, frame in tables.items()}


def ladder_window(tables: Mapping[str, pl.DataFrame], start: int, end: int, until: int | None = None) -> pl.DataFrame:
    """The ladder of a window in µs since 1970: a UTC day, or the part of it that falls into one billed month.

    tables, by qualified name and each of one kind (synthetic or not): telemetry.inventory, node_states, gpu_events,
    job_gpus and jobs (newest versions), training_steps and job_phases of the jobs that ran in the window (whole,
    since a rollback reaches back), gpu_minutes of the window. Idle power is learned from the minutes given, a job's
    usual step time from the steps begun before `until` (default: the end).
    """
    boards = _boards(tables["telemetry.inventory"], end)
    capacity = clip(boards.select(_SPAN), start, end)
    jobs = _attempts(tables["telemetry.jobs"], end)
    stays = clip(_stays(tables["telemetry.job_gpus"], jobs, boards, tables["telemetry.inventory"], end), start, end)
    minutes = tables["telemetry.gpu_minutes"]
    timelines = job_timelines(
        jobs,
        tables["telemetry.training_steps"],
        tables["telemetry.job_phases"],
        _throttled(minutes, stays),
        until or end,
    )
    return ladder(
        capacity,
        clip(_down(tables["telemetry.node_states"], tables["telemetry.gpu_events"], boards, end), start, end),
        stays,
        clip(idle_stretches(minutes, learn_idle_power(minutes)), start, end),
        timelines,
    )


def _us(column: str) -> pl.Expr:
    return pl.col(column).dt.epoch("us")


def clip(spans: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """Spans (from_us, to_us) cut to a window; what lies outside is left out."""
    clipped = spans.with_columns(pl.col("from_us").clip(lower_bound=start), pl.col("to_us").clip(upper_bound=end))
    return clipped.filter(pl.col("from_us") < pl.col("to_us"))


def _boards(inventory: pl.DataFrame, end: int) -> pl.DataFrame:
    """Boards (not MIG instances) with their node, index and time in place; a state lasts until the board's next one."""
    whole = inventory.filter(pl.col("parent_gpu_uuid").is_null()).sort("cluster", "gpu_uuid", "valid_from")
    until = pl.min_horizontal(_us("valid_to"), _us("valid_from").shift(-1).over("cluster", "gpu_uuid"))
    return whole.select(
        "cluster",
        "gpu_uuid",
        "node",
        "gpu_index",
        _us("valid_from").alias("from_us"),
        until.fill_null(end).alias("to_us"),
    )


def _attempts(jobs: pl.DataFrame, end: int) -> pl.DataFrame:
    """Attempts that have started, with their end (the day's where they still run); the scheduler's word before a log's."""
    ran = jobs.filter(pl.col("started_at").is_not_null()).sort(pl.col("scheduler") == "none")
    ran = ran.unique(list(KEY), keep="first", maintain_order=True)
    return ran.select(*KEY, _us("started_at").alias("from_us"), _us("ended_at").fill_null(end).alias("to_us")).filter(
        pl.col("from_us") < pl.col("to_us")
    )


def stays_on_boards(held: pl.DataFrame, jobs: pl.DataFrame, inventory: pl.DataFrame, end: int) -> pl.DataFrame:
    """cluster, gpu_uuid, from_us, to_us, job_id, attempt, share_ratio of telemetry.job_gpus, on boards, up to `end`."""
    return _stays(held, _attempts(jobs, end), _boards(inventory, end), inventory, end)


def _stays(
    held: pl.DataFrame, jobs: pl.DataFrame, boards: pl.DataFrame, inventory: pl.DataFrame, end: int
) -> pl.DataFrame:
    """Stays on boards: MIG instances as their share of the board, `node/index` as the board that sat there then."""
    parents = inventory.filter(pl.col("parent_gpu_uuid").is_not_null()).select(
        "cluster", "gpu_uuid", pl.col("parent_gpu_uuid").alias("board"), pl.col("mig_profile").alias("profile")
    ).unique(["cluster", "gpu_uuid"])  # fmt: skip
    ends = jobs.select(*KEY, pl.col("to_us").alias("job_to_us"))
    spans = held.join(parents, on=["cluster", "gpu_uuid"], how="left").join(ends, on=list(KEY), how="left")
    slices = pl.coalesce("mig_profile", "profile").str.extract(r"^(\d+)g\.").cast(pl.Float64)
    spans = spans.select(
        *KEY,
        pl.coalesce("parent_gpu_uuid", "board", "gpu_uuid").alias("gpu_uuid"),
        _us("from_at").alias("from_us"),
        pl.min_horizontal(_us("to_at"), "job_to_us").fill_null(end).alias("to_us"),
        pl.when(slices.is_not_null())
        .then(slices / MIG_SLICES * pl.col("share_ratio").fill_null(1.0))
        .otherwise("share_ratio")
        .alias("share_ratio"),
    )
    by_place = boards.select(
        "cluster",
        pl.concat_str("node", pl.lit("/"), "gpu_index").alias("place"),
        pl.col("gpu_uuid").alias("at_place"),
        pl.col("from_us").alias("begun_us"),
    ).drop_nulls("place")
    placed = spans.sort("from_us").join_asof(
        by_place.sort("begun_us"), left_on="from_us", right_on="begun_us", by_left=["cluster", "gpu_uuid"],
        by_right=["cluster", "place"], strategy="backward", check_sortedness=False,
    )  # fmt: skip
    return placed.select(
        "cluster",
        pl.coalesce("at_place", "gpu_uuid").alias("gpu_uuid"),
        "from_us",
        "to_us",
        "job_id",
        "attempt",
        "share_ratio",
    ).filter(pl.col("from_us") < pl.col("to_us"))


def _down(states: pl.DataFrame, events: pl.DataFrame, boards: pl.DataFrame, end: int) -> pl.DataFrame:
    """Boards of nodes that are down or drained, and boards from their loss until they are back."""
    ordered = states.sort("cluster", "node", "source", "valid_from")
    until = pl.min_horizontal(_us("valid_to"), _us("valid_from").shift(-1).over("cluster", "node", "source")).fill_null(
        end
    )
    off = ordered.select("cluster", "node", "state", _us("valid_from").alias("from_us"), until.alias("to_us"))
    off = off.filter(pl.col("state").is_in(list(DOWN_STATES)))
    by_node = off.join(boards.select("cluster", "node", "gpu_uuid"), on=["cluster", "node"]).select(_SPAN)
    told = events.filter(pl.col("kind").is_in(["lost", "returned"]) & pl.col("gpu_uuid").is_not_null())
    told = told.unique(["cluster", "gpu_uuid", "kind", "occurred_at"]).sort("cluster", "gpu_uuid", "occurred_at")
    back = _us("occurred_at").filter(pl.col("kind") == "returned")
    lost = told.filter(pl.col("kind") == "lost").select("cluster", "gpu_uuid", _us("occurred_at").alias("from_us"))
    returned = told.filter(pl.col("kind") == "returned").select("cluster", "gpu_uuid", back.alias("to_us"))
    by_event = lost.sort("from_us").join_asof(
        returned.sort("to_us"), left_on="from_us", right_on="to_us", by=["cluster", "gpu_uuid"], strategy="forward",
        check_sortedness=False, coalesce=False,
    )  # fmt: skip
    return pl.concat([by_node, by_event.with_columns(pl.col("to_us").fill_null(end)).select(_SPAN)])


def _throttled(minutes: pl.DataFrame, stays: pl.DataFrame) -> pl.DataFrame:
    """Minutes in which a GPU of a job was held back by heat or a power brake (a power cap is normal operation)."""
    hot = minutes.filter(pl.sum_horizontal(pl.col(c).fill_null(0) for c in HOT) > 0)
    spans = hot.select("cluster", "gpu_uuid", _us("minute_at").alias("hot_us")).unique()
    joined = spans.join_where(
        stays.select(
            pl.col("cluster").alias("c"), pl.col("gpu_uuid").alias("g"), "from_us", "to_us", "job_id", "attempt"
        ),
        pl.col("cluster") == pl.col("c"),
        pl.col("gpu_uuid") == pl.col("g"),
        pl.col("hot_us") < pl.col("to_us"),
        pl.col("hot_us") + MINUTE_US > pl.col("from_us"),
    )
    return joined.select(
        *KEY, pl.col("hot_us").alias("from_us"), (pl.col("hot_us") + MINUTE_US).alias("to_us")
    ).unique()
