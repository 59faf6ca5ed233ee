"""The source `slurm`: exports of sacct, squeue, scontrol show job and sinfo.

Belongs here: telling the exports apart and the contract with the street. Does not belong here: fields and values.
The scheduler is asked in bounded windows, as `sacct_command` writes them; nothing here asks for everything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.jobs.scontrol import cut_blocks, devices, is_scontrol
from sources.jobs.sinfo import NODE_STATES, is_sinfo, node_state_rows
from sources.jobs.slurm_rows import JOBS, RAW_JOBS, job_rows
from sources.jobs.tables import cut_table
from sources.local_files import local_files, payload_of
from sources.texts import decoded

RAW_DEVICES = "raw.device_snapshots"
OPTIONS = ("cluster", "time_zone", "is_synthetic")
MAX_WINDOW = dt.timedelta(days=7)
FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "WCKey", "User", "Submit", "Eligible", "Start", "End",
    "State", "Reason", "ExitCode", "Elapsed", "ElapsedRaw", "Suspended", "Timelimit", "NNodes", "NCPUS", "ReqTRES",
    "AllocTRES", "ConsumedEnergyRaw", "NodeList", "JobName", "SubmitLine",
)  # fmt: skip


def sacct_command(start: dt.datetime, end: dt.datetime) -> list[str]:
    """The sacct call for one bounded window (UTC): every attempt, allocations only, a delimiter nobody types.

    Raises `ValueError` for a window that is empty or longer than a week: ask in several.
    """
    if not dt.timedelta(0) < end - start <= MAX_WINDOW:
        raise ValueError(f"the window {start} to {end} is empty or longer than {MAX_WINDOW.days} days: ask in several")
    window = [f"{t.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S}" for t in (start, end)]
    flags = ["--allusers", "--duplicates", "--allocations", "--parsable2", "--noconvert", "--delimiter=\x1f"]
    return [
        "env",
        "TZ=UTC",
        "sacct",
        *flags,
        f"--starttime={window[0]}",
        f"--endtime={window[1]}",
        f"--format={','.join(FIELDS)}",
    ]


class Slurm:
    """Slurm's accounting and queue, from local exports.

    Options of `read`: cluster (where the export does not state it), time_zone of its local times (else UTC).
    """

    name = "slurm"
    publisher = "the cluster's own scheduler"
    homepage = "https://slurm.schedmd.com/sacct.html"
    licence = "own data"
    terms = "local exports; nothing is fetched"
    cadence: Cadence = "hourly"
    tables = (JOBS, "telemetry.job_gpus", NODE_STATES)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = "local exports only: almanac load slurm FILE"
    options = OPTIONS
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: exports are local."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each export."""
        meta = {k: options[k] for k in OPTIONS if options.get(k)}
        for file, name in local_files(paths):
            kind = name.rsplit("/", 1)[-1].split(".")[0]
            stream = f"{meta.get('cluster', 'local')}/{kind}"
            yield payload_of(self.name, file, name, options, media_type="text/plain", meta=meta, stream=stream)

    def parse(self, payload: Payload) -> Parsed:
        """Jobs, stays on devices, node states. Raises `ParseError` when the export is none that is known."""
        body = decoded(payload.read())
        head = body.lstrip().split("\n", 1)[0]
        if head.startswith("#!"):
            raise ParseError("a script, not an export; run it and load what it prints")
        if head.startswith(("<", "{")):
            raise ParseError(f"starts with {head[:20]!r}; export with sacct --parsable2 and its header")
        if is_scontrol(body):
            return self._scontrol(body, payload)
        if is_sinfo(head):
            return Parsed({NODE_STATES: node_state_rows(body, payload.meta, payload.retrieved_at)})
        cut = cut_table(body)
        rows, rejects = job_rows(cut.frame, payload.meta, payload.retrieved_at, payload.url.removeprefix("file:"))
        rejects += [Reject(JOBS, "fields_match_header", why, raw[:2000]) for why, raw in cut.refused]
        return Parsed({RAW_JOBS: rows} if rows.height else {}, rejects)

    def _scontrol(self, body: str, payload: Payload) -> Parsed:
        rows, rejects = job_rows(
            cut_blocks(body), payload.meta, payload.retrieved_at, payload.url.removeprefix("file:")
        )
        held = devices(body).join(
            rows.select("raw_job_id", "job_id", "cluster", "attempt", pl.col("started_at").alias("from_at")),
            on=["raw_job_id", "attempt"],
            nulls_equal=True,
        )
        counted = pl.len().over("raw_job_id", "attempt", "node")
        stays = held.select(
            "cluster",
            "job_id",
            "attempt",
            pl.concat_str("node", pl.lit("/"), "gpu_index").alias("gpu_uuid"),
            "node",
            "gpu_index",
            "from_at",
            pl.lit(1.0).alias("share_ratio"),
            pl.lit("slurm").alias("scheduler"),
            pl.lit("scheduler").alias("evidence"),
            pl.lit(payload.retrieved_at).cast(pl.Datetime("us", "UTC")).alias("observed_at"),
            pl.lit(payload.meta.get("is_synthetic") == "true").alias("is_synthetic"),
            pl.when(counted != pl.col("stated"))
            .then(pl.format("GRES counts {} devices, IDX lists {}", "stated", counted))
            .alias("notes"),
        )
        frames = {RAW_JOBS: rows} if rows.height else {}
        return Parsed({**frames, RAW_DEVICES: stays} if stays.height else frames, rejects)


SOURCE = Slurm()
