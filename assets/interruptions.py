"""Interruptions found in telemetry: events collapsed to incidents, job ends explained by them, suspects ranked.

Belongs here: the joins that turn events and job ends into counted incidents. Does not belong here: MTBF and its
interval (`reliability.py`), parsing of events.
"""

from __future__ import annotations

import datetime as dt

import polars as pl

WINDOW = dt.timedelta(minutes=10)
# An application's own fault: the GPU is well, and its job would have ended on any other.
APPLICATION_XIDS = (13, 31, 43, 45, 68, 69)
MEMORY_XIDS = (48, 63, 64, 92, 94, 95)
LINK_XIDS = (74, 145, 146, 147, 148, 149, 150, 155)
PROCESSOR_XIDS = (61, 62, 119, 120)
INTERRUPTED = ("failed", "node_fail", "out_of_memory")


def component_class() -> pl.Expr:
    """The class an event belongs to, from `kind` and `code`: memory, link, processor, bus, application, other."""
    code = pl.col("code")
    xid = pl.col("kind") == "xid"
    return (
        pl.when(xid & code.is_in(APPLICATION_XIDS))
        .then(pl.lit("application"))
        .when((xid & code.is_in(MEMORY_XIDS)) | pl.col("kind").is_in(["ecc", "remap"]))
        .then(pl.lit("gpu_memory"))
        .when((xid & code.is_in(LINK_XIDS)) | pl.col("kind").is_in(["sxid", "link_down"]))
        .then(pl.lit("link"))
        .when(xid & code.is_in(PROCESSOR_XIDS))
        .then(pl.lit("gpu_processor"))
        .when((xid & (code == 79)) | (pl.col("kind") == "lost"))  # noqa: PLR2004 - Xid 79: fallen off the bus
        .then(pl.lit("gpu_bus"))
        .otherwise(pl.lit("other"))
    )


def collapse_events(events: pl.DataFrame, window: dt.timedelta = WINDOW) -> pl.DataFrame:
    """One row an incident: events of one node no further apart than `window` are one, whatever their number.

    events: occurred_at, cluster, node, gpu_uuid, kind, code. Gives cluster, node, started_at, ended_at, events,
    gpus, component_class (of the gravest event), codes. Events of healthy GPUs (application faults, returns) are
    left out.
    """
    rank = {"gpu_bus": 0, "gpu_memory": 1, "gpu_processor": 2, "link": 3, "other": 4}
    grave = (
        events.with_columns(component_class().alias("component_class"))
        .filter(
            ~pl.col("kind").is_in(["returned", "gap", "throttle", "xid_last"])
            & (pl.col("component_class") != "application")
        )
        .with_columns(pl.col("component_class").replace_strict(rank, return_dtype=pl.Int64).alias("rank"))
        .sort("cluster", "node", "occurred_at", "rank")
    )
    apart = (pl.col("occurred_at").diff() > window).fill_null(value=False)
    numbered = grave.with_columns(apart.cum_sum().over("cluster", "node").alias("incident"))
    return (
        numbered.group_by("cluster", "node", "incident", maintain_order=True)
        .agg(
            pl.col("occurred_at").min().alias("started_at"),
            pl.col("occurred_at").max().alias("ended_at"),
            pl.len().alias("events"),
            pl.col("gpu_uuid").drop_nulls().n_unique().alias("gpus"),
            pl.col("component_class").sort_by("rank", "occurred_at").first(),
            pl.col("code").drop_nulls().unique().sort().alias("codes"),
        )
        .drop("incident")
    )


def interruptions(jobs: pl.DataFrame, incidents: pl.DataFrame, window: dt.timedelta = WINDOW) -> pl.DataFrame:
    """Job ends that were nobody's wish, each with the incident that explains it, and the time to its next start.

    jobs: cluster, job_id, attempt, state, started_at, ended_at, node_list, gpus_allocated. A job is explained by
    the nearest incident on one of its nodes within `window` of its end; several jobs may share one incident.
    Gives cluster, job_id, attempt, ended_at, node, component_class, incident_at, repair_s (end to the next
    attempt's start; null where there is none).
    """
    ended = jobs.filter(pl.col("state").is_in(INTERRUPTED) & pl.col("ended_at").is_not_null())
    following = jobs.select(
        "cluster", "job_id", (pl.col("attempt") - 1).alias("attempt"), pl.col("started_at").alias("next_at")
    )
    on_nodes = ended.select(
        "cluster", "job_id", "attempt", "ended_at", pl.col("node_list").str.split(",").alias("node")
    ).explode("node")
    near = (
        on_nodes.join(incidents.select("cluster", "node", "component_class", "started_at"), on=["cluster", "node"])
        .with_columns((pl.col("ended_at") - pl.col("started_at")).abs().alias("apart"))
        .filter(pl.col("apart") <= window)
        .sort("apart", "started_at", "node")
        .unique(["cluster", "job_id", "attempt"], keep="first", maintain_order=True)
    )
    unexplained = pl.col("state").replace_strict(
        {"node_fail": "host", "out_of_memory": "application", "failed": "unknown"}, return_dtype=pl.String
    )
    key = ["cluster", "job_id", "attempt"]
    return (
        ended.join(
            near.select(*key, "node", "component_class", pl.col("started_at").alias("incident_at")), on=key, how="left"
        )
        .join(following, on=key, how="left")
        .select(
            *key,
            "ended_at",
            "gpus_allocated",
            "node",
            pl.coalesce("component_class", unexplained).alias("component_class"),
            "incident_at",
            (pl.col("next_at") - pl.col("ended_at")).dt.total_seconds().cast(pl.Float64).alias("repair_s"),
        )
        .sort(key)
    )


def suspects(counts: pl.DataFrame) -> pl.DataFrame:
    """Nodes or links ranked by how far their incidents exceed what the fleet's rate explains.

    counts: any name columns, `incidents`, `hours`. Adds expected (fleet rate x hours), excess_ratio, and evidence:
    the Poisson log-likelihood ratio k*ln(k/m) - (k - m) for k above m, else 0. Above 3.3 a chance result is
    rarer than about 1 in 100 for one suspect; with many suspects expect some.
    """
    rate = pl.col("incidents").sum() / pl.col("hours").sum()
    expected = rate * pl.col("hours")
    k = pl.col("incidents").cast(pl.Float64)
    evidence = k * (k / pl.col("expected")).log() - (k - pl.col("expected"))
    return (
        counts.with_columns(expected.alias("expected"))
        .with_columns(
            (k / pl.col("expected")).alias("excess_ratio"),
            pl.when((k > pl.col("expected")) & (pl.col("expected") > 0))
            .then(evidence)
            .otherwise(0.0)
            .alias("evidence"),
        )
        .sort("evidence", descending=True, maintain_order=True)
    )
