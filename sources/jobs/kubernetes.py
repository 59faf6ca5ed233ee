"""The source `kubernetes`: pods (`kubectl get pods -o json`) and the kubelet's pod-resources.

Belongs here: both JSON shapes and the contract with the street. Does not belong here: stays over time, which
`assets/jobs.py` makes from snapshots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.jobs.pods import pod_row
from sources.jobs.snapshots import RAW_DEVICES, device_rows
from sources.jobs.users import user_columns
from sources.local_files import local_files, payload_of

JOBS = "telemetry.jobs"
OPTIONS = ("cluster", "node", "project_label", "user_label", "is_synthetic")


class Kubernetes:
    """Kubernetes pods and the devices they hold, from local exports.

    Options of `read`: cluster; node (of a pod-resources export, else unknown); project_label and user_label,
    the pod labels that name the project and the user.
    """

    name = "kubernetes"
    publisher = "the cluster's own control plane"
    homepage = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
    licence = "own data"
    terms = "local exports; nothing is fetched"
    cadence: Cadence = "hourly"
    tables = (JOBS, "telemetry.job_gpus")
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = "local exports only: almanac load kubernetes FILE"
    options = OPTIONS
    may_republish = False

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Nothing: exports are local."""
        return iter(())

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """One payload for each JSON file."""
        meta = {k: options[k] for k in OPTIONS if options.get(k)}
        for file, name in local_files(paths, (".json",)):
            stream = f"{meta.get('cluster', 'local')}/{meta.get('node') or name}"
            yield payload_of(self.name, file, name, options, media_type="application/json", meta=meta, stream=stream)

    def parse(self, payload: Payload) -> Parsed:
        """Jobs from a pod list, a snapshot of devices from pod-resources. Raises `ParseError` for anything else."""
        try:
            document = json.loads(payload.read())
        except ValueError as error:
            raise ParseError(f"not JSON ({error}); export with kubectl get pods -o json") from None
        if isinstance(document, dict) and isinstance(document.get("pod_resources"), list):
            return _pod_resources(document["pod_resources"], payload)
        items = document.get("items") if isinstance(document, dict) else None
        if not isinstance(items, list):
            raise ParseError("neither a pod list nor pod-resources; export with kubectl get pods -o json")
        return _pods(items, payload)


def _pods(items: list[Any], payload: Payload) -> Parsed:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for number, item in enumerate(items):
        row = pod_row(item, payload.meta)
        if isinstance(row, str):
            rejects.append(Reject(JOBS, "pod_is_complete", row, json.dumps(item)[:2000], f"item {number}"))
            continue
        closed = row["ended_at"] if row["state"] in {"completed", "failed"} else None
        rows.append(
            {**row, "known_at": closed or payload.retrieved_at, "source_name": payload.url.removeprefix("file:")}
        )
    if not rows:
        return Parsed({}, rejects)
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("user").cast(pl.String))
    return Parsed({JOBS: user_columns(frame)}, rejects)


def _pod_resources(pods: list[Any], payload: Payload) -> Parsed:
    held: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for number, pod in enumerate(pods):
        try:
            job_id = f"{pod['namespace']}/{pod['name']}"
            devices = [
                (d["resource_name"], i)
                for c in pod["containers"]
                for d in c.get("devices") or ()
                for i in d["device_ids"]
            ]
        except (KeyError, TypeError) as error:
            reason = f"no {error} in the pod's entry"
            rejects.append(
                Reject("telemetry.job_gpus", "pod_is_complete", reason, json.dumps(pod)[:2000], f"pod {number}")
            )
            continue
        held += [{"job_id": job_id, "resource": name, "device": device} for name, device in devices]
    frame = device_rows(held, payload, scheduler="kubernetes", evidence="pod_resources")
    return Parsed({RAW_DEVICES: frame} if frame.height else {}, rejects)


SOURCE = Kubernetes()
