"""The source `job-mapping`: a directory in the style of dcgm-exporter's HPC jobs, one file for each device.

Belongs here: that directory. A file is named by the device (index `0`, MIG `0.1`, or a UUID) and holds a job id a
line; a scheduler's prolog writes it and its epilog empties it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sources.base import Authority, Cadence, FetchError, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.jobs.snapshots import RAW_DEVICES, device_rows
from sources.local_files import observed_at

_DEVICE = re.compile(r"^(?:\d+(?:\.\d+)?|(?:GPU|MIG)-[0-9A-Za-z/-]+)$")
_JOB = re.compile(r"^[\w.+/\[\]%-]+$")


class JobMapping:
    """Devices to jobs by files. Options of `read`: cluster, node (else the directory's name)."""

    name = "job-mapping"
    publisher = "the cluster's own scheduler"
    homepage = "https://github.com/NVIDIA/dcgm-exporter"
    licence = "own data"
    terms = "local files; nothing is fetched"
    cadence: Cadence = "hourly"
    tables = ("telemetry.job_gpus",)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = "local files only: almanac load job-mapping FOLDER"
    options = ("cluster", "node", "is_synthetic")
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: the files are local."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each directory: its files bundled as JSON, in name order."""
        for path in paths:
            if not path.is_dir():
                raise FetchError(f"{path.name} is no directory; give the directory that the prolog writes")
            files = {
                f.name: f.read_text(encoding="utf-8", errors="replace") for f in sorted(path.iterdir()) if f.is_file()
            }
            meta = {k: options[k] for k in self.options if options.get(k)}
            meta.setdefault("node", path.name)
            yield Payload(
                source=self.name,
                url=f"file:{path.name}",
                retrieved_at=observed_at(options),
                media_type="application/json",
                body=json.dumps(files, sort_keys=True).encode(),
                stream=f"{meta.get('cluster', 'local')}/{meta['node']}",
                meta=meta,
            )

    def parse(self, payload: Payload) -> Parsed:
        """A snapshot of devices. Raises `ParseError` when the payload is no bundle of files."""
        try:
            files = json.loads(payload.read())
        except ValueError:
            raise ParseError("not a bundle of mapping files; load the directory itself") from None
        if not isinstance(files, dict):
            raise ParseError("not a bundle of mapping files; load the directory itself")
        held = []
        rejects = []
        for name, text in files.items():
            jobs = [j for line in str(text).splitlines() if (j := line.strip().split(" ")[0])]
            wrong = [j for j in jobs if not _JOB.match(j)]
            if not _DEVICE.match(name) or wrong:
                what = f"job id {wrong[0]!r}" if wrong else f"file name {name!r} is no device"
                rejects.append(
                    Reject("telemetry.job_gpus", "device_and_job_are_named", what, f"{name}: {text}"[:2000], name)
                )
                continue
            device = name if name.startswith(("GPU-", "MIG-")) else f"{payload.meta.get('node', 'unknown')}/{name}"
            held += [{"job_id": job, "resource": "", "device": device} for job in jobs]
        frame = device_rows(held, payload, scheduler="slurm", evidence="mapping_directory")
        return Parsed({RAW_DEVICES: frame} if frame.height else {}, rejects)


SOURCE = JobMapping()
