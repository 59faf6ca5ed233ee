"""`scontrol show job [-d]`: key=value blocks, and with -d the devices of each node.

Belongs here: turning blocks into the fields sacct has, and device lines into stays. Does not belong here: what
fields mean (`slurm_rows.py`).
"""

from __future__ import annotations

import polars as pl

from sources.jobs.values import expand_nodes
from sources.training_logs.reading import records

_KEYS = {
    "raw_job_id": r"^JobId=(\d+)",
    "array_job": r"\bArrayJobId=(\d+)",
    "array_task": r"\bArrayTaskId=(\S+)",
    "het_job": r"\bHetJobId=(\d+)",
    "het_offset": r"\bHetJobOffset=(\d+)",
    "name": r"\bJobName=([^\n]*)",
    "user": r"\bUserId=([^(\s]+)",
    "account": r"\bAccount=(\S+)",
    "wckey": r"\bWCKey=(\S+)",
    "partition": r"\bPartition=(\S+)",
    "qos": r"\bQOS=(\S+)",
    "state": r"\bJobState=(\S+)",
    "reason": r"\bReason=(\S+)",
    "exit_code": r"\bExitCode=(\S+)",
    "submit": r"\bSubmitTime=(\S+)",
    "eligible": r"\bEligibleTime=(\S+)",
    "start": r"\bStartTime=(\S+)",
    "end": r"\bEndTime=(\S+)",
    "elapsed": r"\bRunTime=(\S+)",
    "time_limit": r"\bTimeLimit=(\S+)",
    "node_list": r"\n\s+NodeList=(\S+)",
    "nodes": r"\bNumNodes=(\d+)",
    "cpus": r"\bNumCPUs=(\d+)",
    "req_tres": r"\bReqTRES=(\S+)",
    "alloc_tres": r"\b(?:AllocTRES|TRES)=(\S+)",
    "restarts": r"\bRestarts=(\d+)",
}


def is_scontrol(body: str) -> bool:
    """Is the text what `scontrol show job` prints?"""
    return body.lstrip().startswith("JobId=") and "JobState=" in body


def cut_blocks(body: str) -> pl.DataFrame:
    """One row a job with the field names of `tables.py`."""
    blocks = records(body.lstrip(), r"\bJobId=\d+")
    fields = blocks.select(
        *(pl.col("text").str.extract(p).alias(k) for k, p in _KEYS.items()), pl.col("text").alias("raw")
    )
    array = pl.concat_str("array_job", pl.lit("_"), "array_task")
    part = pl.concat_str("het_job", pl.lit("+"), "het_offset")
    return fields.with_columns(pl.coalesce(array, part, "raw_job_id").alias("job_id")).drop(
        "array_job", "array_task", "het_job", "het_offset"
    )


def devices(body: str) -> pl.DataFrame:
    """Columns raw_job_id, attempt, node, gpu_index, stated: one row for each device index that a job holds on a node."""
    lines = (
        records(body.lstrip(), r"\bJobId=\d+")
        .with_columns(
            pl.col("text").str.extract(r"^JobId=(\d+)").alias("raw_job_id"),
            pl.col("text").str.extract(r"\bRestarts=(\d+)").cast(pl.Int64).alias("attempt"),
            pl.col("text").str.extract_all(r"Nodes=\S+ CPU_IDs=\S+ Mem=\S+ GRES=\S*").alias("line"),
        )
        .explode("line")
        .drop_nulls("line")
    )
    lines = lines.select(
        "raw_job_id",
        "attempt",
        pl.col("line").str.extract(r"Nodes=(\S+)").alias("nodes"),
        pl.col("line").str.extract(r"gpu(?::[^:(,]+)?:(\d+)\(").cast(pl.Int64).alias("stated"),
        pl.col("line").str.extract(r"gpu[^(,]*\(IDX:([\d,\-]+)\)").alias("indices"),
    ).drop_nulls("indices")
    rows = [
        (job, attempt, node, int(index), stated)
        for job, attempt, nodes, stated, indices in lines.iter_rows()
        for node in (expand_nodes(nodes) or "").split(",")
        for index in (expand_nodes(f"[{indices}]") or "").split(",")
        if node and index
    ]
    schema = {
        "raw_job_id": pl.String,
        "attempt": pl.Int64,
        "node": pl.String,
        "gpu_index": pl.Int64,
        "stated": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
