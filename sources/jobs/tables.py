"""Cutting Slurm's delimited exports into fields, whatever users wrote into them.

Belongs here: header, delimiter, records that span lines, known layouts without a header. Does not belong here:
what the fields mean (`slurm_rows.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from sources.base import ParseError

DELIMITERS = ("\x1f", "|#", "|", "\t")

# Field names in lower case without separators, as sacct, squeue and sinfo spell them, to the house's.
NAMES: Mapping[str, str] = {
    "jobid": "job_id",
    "jobarrayid": "job_id",
    "jobidraw": "raw_job_id",
    "jobname": "name",
    "name": "name",
    "user": "user",
    "account": "account",
    "wckey": "wckey",
    "partition": "partition",
    "qos": "qos",
    "cluster": "cluster",
    "submit": "submit",
    "submittime": "submit",
    "eligible": "eligible",
    "eligibletime": "eligible",
    "start": "start",
    "starttime": "start",
    "end": "end",
    "endtime": "end",
    "state": "state",
    "reason": "reason",
    "exitcode": "exit_code",
    "reqtres": "req_tres",
    "alloctres": "alloc_tres",
    "tresallocated": "alloc_tres",
    "tresalloc": "alloc_tres",
    "trespernode": "tres_per_node",
    "reqgres": "req_gres",
    "allocgres": "alloc_gres",
    "nnodes": "nodes",
    "allocnodes": "nodes",
    "numnodes": "nodes",
    "nodes": "nodes",
    "ncpus": "cpus",
    "alloccpus": "cpus",
    "cpus": "cpus",
    "nodelist": "node_list",
    "timelimit": "time_limit",
    "elapsed": "elapsed",
    "timeused": "elapsed",
    "elapsedraw": "elapsed_raw",
    "suspended": "suspended",
    "consumedenergyraw": "energy",
    "restarts": "restarts",
    "restartcnt": "restarts",
    "submitline": "submit_line",
}
_XDMOD = (
    "job_id raw_job_id cluster partition qos account group gid user uid submit eligible start end elapsed exit_code "
    "state nodes cpus req_cpus req_mem req_tres alloc_tres time_limit node_list name"
)
_CEEMS = (
    "job_id partition qos account group gid user uid submit start end elapsed elapsed_raw exit_code state alloc_tres "
    "node_list name work_dir"
)
_SQUEUE = (
    "tres_per_node min_cpus job_id raw_job_id name time_limit min_memory command priority state user cpus nodes "
    "time_left elapsed node_list dependency excluded start submit eligible accrue pending comment partition account "
    "qos reason alloc_tres reservation requeue feature restarts scheduled_nodes end_mark"
)
LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "xdmod": tuple(_XDMOD.split()),
    "ceems": tuple(_CEEMS.split()),
    "squeue": tuple(_SQUEUE.split()),
}
_STATE_WORD = r"^\s*(?:PENDING|CONFIGURING|RUNNING|COMPLETING|SUSPENDED|COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED|OUT_OF_MEMORY|REQUEUED|BOOT_FAIL|DEADLINE)\b"


@dataclass(frozen=True, slots=True)
class Cut:
    """Fields as text, one row a record; `raw` keeps the record. `refused` are (reason, raw) pairs."""

    frame: pl.DataFrame
    refused: tuple[tuple[str, str], ...]
    layout: str


def cut_table(body: str) -> Cut:
    """Find delimiter and layout and cut the text. Raises `ParseError` when neither is recognised."""
    lines = pl.Series("line", body.replace("\r\n", "\n").split("\n"))
    filled = lines.filter(lines.str.strip_chars() != "")
    if filled.is_empty():
        raise ParseError("the export is empty; run the scheduler's command again")
    head = filled[0]
    delimiter = next((d for d in DELIMITERS if d in head), None)
    if delimiter is None:
        raise ParseError("no delimiter found; export with sacct --parsable2 and its header")
    names = [_house(n) for n in head.split(delimiter)]
    if "job_id" in names and "state" in names:
        frame, refused = _records(lines.slice(_index_of(lines, head) + 1), delimiter, names)
        return Cut(frame, refused, "header")
    return _headerless(filled, delimiter)


def _headerless(lines: pl.Series, delimiter: str) -> Cut:
    for layout, names in LAYOUTS.items():
        if delimiter.join(names).count(delimiter) != lines[0].count(delimiter):
            continue
        frame, refused = _records(lines, delimiter, list(names))
        if frame.height and frame.get_column("state").str.contains(_STATE_WORD).all():
            return Cut(frame, refused, layout)
    raise ParseError("the columns are not known; export with a header (sacct --parsable2, without --noheader)")


def _house(name: str) -> str:
    plain = name.strip().lower().replace("_", "").replace(" ", "")
    return NAMES.get(plain, f"x_{plain}")


def _index_of(lines: pl.Series, head: str) -> int:
    found = (lines == head).arg_max()
    return 0 if found is None else found


def _records(lines: pl.Series, delimiter: str, names: list[str]) -> tuple[pl.DataFrame, tuple[tuple[str, str], ...]]:
    """Join lines until each record has all its fields; a record with too many is refused, never guessed at."""
    want = len(names) - 1
    table = pl.DataFrame({"line": lines}).with_columns(
        pl.col("line").str.count_matches(delimiter, literal=True).cast(pl.Int64).alias("seen")
    )
    # A trailing delimiter (--parsable) is one field more, an empty one.
    table = table.with_columns(
        pl.when((pl.col("seen") == want + 1) & pl.col("line").str.ends_with(delimiter))
        .then(pl.col("line").str.strip_suffix(delimiter))
        .otherwise(pl.col("line"))
        .alias("line"),
        pl.when((pl.col("seen") == want + 1) & pl.col("line").str.ends_with(delimiter))
        .then(want)
        .otherwise(pl.col("seen"))
        .alias("seen"),
    )
    whole = pl.col("seen") >= want
    table = table.with_columns(whole.rle_id().alias("run"), pl.int_range(pl.len()).alias("place"))
    before = (pl.col("seen").cum_sum() - pl.col("seen")).over("run")
    table = table.with_columns(pl.when(whole).then(pl.col("place")).otherwise(before // max(want, 1)).alias("part"))
    joined = table.group_by("run", "part", maintain_order=True).agg(
        pl.col("line").str.join("\n").alias("raw"), pl.col("seen").sum()
    )
    joined = joined.filter((pl.col("seen") > 0) | (pl.lit(want) == 0))
    right = joined.filter(pl.col("seen") == want)
    wrong = joined.filter(pl.col("seen") != want)
    fields = right.get_column("raw").str.split(delimiter).list.to_struct(fields=_unique(names)).struct.unnest()
    frame = (
        fields.with_columns(right.get_column("raw"))
        if right.height
        else pl.DataFrame(schema=dict.fromkeys([*_unique(names), "raw"], pl.String))
    )
    reason = "the record has {} fields, the header {}: a delimiter stands inside a field, or the export is cut off"
    return frame, tuple(
        (reason.format(seen + 1, want + 1), raw) for raw, seen in wrong.select("raw", "seen").iter_rows()
    )


def _unique(names: list[str]) -> list[str]:
    """A name that stands twice (sacct prints End twice when asked to) keeps its first place."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"x_{name}_{seen[name]}")
    return out
