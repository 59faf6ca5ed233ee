"""`sinfo` with a header: states of nodes.

Belongs here: one row for each node, though sinfo prints one for each partition. Does not belong here: jobs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import polars as pl

from sources.jobs.values import instant, text

NODE_STATES = "telemetry.node_states"
_SUFFIX = r"[*~#!%$@^+\-]+$"


def is_sinfo(head: str) -> bool:
    """Is this the header of a sinfo export?"""
    names = {n.strip().upper() for n in head.split("|")}
    return "STATE" in names and bool(names & {"NODELIST", "HOSTNAMES", "NODE_ADDR"}) and "JOBID" not in names


def node_state_rows(body: str, meta: Mapping[str, str], retrieved_at: dt.datetime) -> pl.DataFrame:
    """Rows of telemetry.node_states. A state begins at its reason's time where there is one, else now."""
    lines = [line for line in body.split("\n") if line.strip()]
    names = [n.strip().upper() for n in lines[0].split("|")]
    node, state = next(n for n in ("HOSTNAMES", "NODELIST", "NODE_ADDR") if n in names), _last(names, "STATE")
    columns = {"node": names.index(node), "state": state, "reason": _at(names, "REASON"), "by": _last(names, "USER")}
    columns["since"] = _at(names, "TIMESTAMP")
    cut = pl.DataFrame({"line": lines[1:]}, schema={"line": pl.String}).select(
        (
            pl.col("line").str.split("|").list.get(place, null_on_oob=True).str.strip_chars()
            if place is not None
            else pl.lit(None, pl.String)
        ).alias(name)
        for name, place in columns.items()
    )
    now = pl.lit(retrieved_at).cast(pl.Datetime("us", "UTC"))
    reason = pl.when(pl.col("reason").str.to_lowercase() != "none").then(text("reason"))
    rows = cut.select(
        pl.coalesce(instant("since", meta.get("time_zone", "UTC")), now).alias("valid_from"),
        pl.lit(meta.get("cluster", "local")).alias("cluster"),
        "node",
        pl.col("state").str.replace(_SUFFIX, "").str.to_lowercase().alias("state"),
        reason.alias("reason"),
        pl.when(reason.is_not_null()).then(text("by").str.replace(r"\(\d+\)$", "")).alias("reason_by"),
        pl.lit(meta.get("is_synthetic") == "true").alias("is_synthetic"),
    )
    return rows.filter(text("node").is_not_null()).unique("node", keep="first", maintain_order=True)


def _at(names: list[str], name: str) -> int | None:
    return names.index(name) if name in names else None


def _last(names: list[str], name: str) -> int | None:
    """STATE stands twice when compact and long form are asked for; the long one comes last."""
    return len(names) - 1 - names[::-1].index(name) if name in names else None
