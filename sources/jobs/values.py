"""Slurm's ways of writing times, durations, node lists, trackable resources and states.

Belongs here: one expression or function for each. Does not belong here: layouts of files.
"""

from __future__ import annotations

import itertools
import re

import polars as pl

UNKNOWN = ("", "Unknown", "None", "N/A", "(null)", "NONE", "INVALID", "Partition_Limit")
_STATES = {
    "PENDING": "pending",
    "CONFIGURING": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "RESIZING": "running",
    "SUSPENDED": "suspended",
    "STOPPED": "suspended",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "BOOT_FAIL": "node_fail",
    "NODE_FAIL": "node_fail",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
    "DEADLINE": "deadline",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "REQUEUE_HOLD": "pending",
    "SPECIAL_EXIT": "failed",
    "PD": "pending",
    "R": "running",
    "S": "suspended",
    "CD": "completed",
    "F": "failed",
    "CA": "cancelled",
    "TO": "timeout",
    "NF": "node_fail",
    "PR": "preempted",
    "OOM": "out_of_memory",
}
_PART = re.compile(r"([^,\[\]]*)(\[[^\]]*\])?")


def text(column: str) -> pl.Expr:
    """The column, with Slurm's words for nothing as null."""
    stripped = pl.col(column).str.strip_chars()
    return pl.when(~stripped.is_in(list(UNKNOWN))).then(stripped)


def instant(column: str, time_zone: str) -> pl.Expr:
    """`2023-01-16T00:56:11` in the cluster's zone, or `…+0100` with its own, as UTC."""
    value = text(column)
    zoned = value.str.to_datetime("%Y-%m-%dT%H:%M:%S%z", strict=False, time_zone="UTC")
    local = value.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
    at_home = local.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    return pl.coalesce(zoned, at_home.dt.convert_time_zone("UTC")).cast(pl.Datetime("us", "UTC"))


def duration_seconds(column: str) -> pl.Expr:
    """`[days-][hours:]minutes:seconds[.fraction]` in seconds; UNLIMITED and the like are null."""
    value = text(column)
    days = value.str.extract(r"^(\d+)-").cast(pl.Float64)
    clock = value.str.extract(r"^(?:\d+-)?((?:\d+:)?\d+:\d+(?:\.\d+)?)$").str.split(":").list.reverse()
    part = [clock.list.get(i, null_on_oob=True).cast(pl.Float64, strict=False) for i in range(3)]
    return days.fill_null(0) * 86_400 + part[0] + part[1] * 60 + part[2].fill_null(0) * 3600


def tres(column: str, name: str) -> pl.Expr:
    """A count out of `cpu=8,gres/gpu=4,node=1`; typed GPUs are added where no plain count stands."""
    value = pl.col(column)
    plain = value.str.extract(rf"(?:^|,)(?:gres/)?{name}[=:](\d+)(?:,|\(|$)").cast(pl.Float64)
    if name != "gpu":
        return plain
    typed = value.str.extract_all(r"(?:^|,)(?:gres/)?gpu:[A-Za-z][^,=:]*[=:]\d+").list.eval(
        pl.element().str.extract(r"[=:](\d+)$").cast(pl.Float64)
    )
    return pl.coalesce(plain, pl.when(typed.list.len() > 0).then(typed.list.sum()))


def gpu_type(column: str) -> pl.Expr:
    """The type named in `gres/gpu:a100=8`; null where several or none are named."""
    named = pl.col(column).str.extract_all(r"gpu:[A-Za-z][^,=:()]*").list.unique()
    return pl.when(named.list.len() == 1).then(named.list.first().str.strip_prefix("gpu:"))


def state(column: str) -> pl.Expr:
    """The house's word for a state; `CANCELLED by 1000` and `NODE_FAIL+` included."""
    word = pl.col(column).str.extract(r"^\s*([A-Za-z_]+)").str.to_uppercase()
    return word.replace_strict(_STATES, default="unknown", return_dtype=pl.String)


def expand_nodes(nodes: str) -> str | None:
    """`n[1-2,05],m7` as `n1,n2,n05,m7`. Leading zeros stay; None where the text is no node list."""
    names: list[str] = []
    for item in re.split(r",(?![^\[]*\])", nodes):
        pieces: list[list[str]] = []
        for match in _PART.finditer(item.strip()):
            if match.group(1):
                pieces.append([match.group(1)])
            if match.group(2):
                numbers = _numbers(match.group(2)[1:-1])
                if numbers is None:
                    return None
                pieces.append(numbers)
        if not pieces:
            return None
        names.extend("".join(parts) for parts in itertools.product(*pieces))
    return ",".join(names)


def _numbers(ranges: str) -> list[str] | None:
    found: list[str] = []
    for piece in ranges.split(","):
        low, dash, high = piece.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            return None
        if not dash:
            found.append(low)
            continue
        if not 0 <= int(high) - int(low) < 100_000:  # noqa: PLR2004 - no cluster has more nodes in one range
            return None
        found.extend(str(n).zfill(len(low)) for n in range(int(low), int(high) + 1))
    return found


def node_lists(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Expand a column of node lists, each distinct list once."""
    distinct = frame.select(text(column).alias(column)).drop_nulls().unique().get_column(column).to_list()
    expanded = {nodes: expand_nodes(nodes) for nodes in distinct}
    return frame.with_columns(text(column).replace_strict(expanded, default=None, return_dtype=pl.String).alias(column))
