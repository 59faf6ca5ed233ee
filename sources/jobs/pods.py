"""One Kubernetes pod as a row of telemetry.jobs.

Belongs here: reading a pod object. Does not belong here: lists of pods, devices.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

_PHASES = {
    "Pending": "pending",
    "Running": "running",
    "Succeeded": "completed",
    "Failed": "failed",
    "Unknown": "unknown",
}
_WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "huawei.com/Ascend910")
_JOB_LABELS = (
    "batch.kubernetes.io/job-name",
    "job-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "jobset.sigs.k8s.io/jobset-name",
)
_QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "runai/queue")


def pod_row(pod: Any, meta: Mapping[str, str]) -> dict[str, Any] | str:
    """The row (with the clear name under `user`), or why there is none."""
    if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict):
        return "no metadata in the pod"
    about, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    if not about.get("namespace") or not about.get("name"):
        return "no namespace or name in the pod's metadata"
    labels: Mapping[str, str] = about.get("labels") or {}
    ends = [
        c["state"]["terminated"]
        for c in status.get("containerStatuses") or ()
        if "terminated" in (c.get("state") or {})
    ]
    state = _PHASES.get(str(status.get("phase")), "unknown")
    if any(e.get("reason") == "OOMKilled" for e in ends):
        state = "out_of_memory"
    ended = max((t for e in ends if (t := _time(e.get("finishedAt")))), default=None)
    gpus, shared = _devices(spec)
    return {
        "cluster": meta.get("cluster", "local"),
        "scheduler": "kubernetes",
        "job_id": f"{about['namespace']}/{about['name']}",
        "attempt": 0,
        "raw_job_id": about.get("uid"),
        "array_job_id": next((labels[k] for k in _JOB_LABELS if k in labels), None),
        "job_name": about["name"],
        "user": labels.get(meta.get("user_label", "")),
        "account": about["namespace"],
        "project": labels.get(meta.get("project_label", "project")),
        "queue": next((labels[k] for k in _QUEUE_LABELS if k in labels), None),
        "qos": spec.get("priorityClassName"),
        "submitted_at": _time(about.get("creationTimestamp")),
        "eligible_at": _condition(status, "PodScheduled"),
        "started_at": _time(status.get("startTime")),
        "ended_at": ended if state not in {"pending", "running"} else None,
        "state": state,
        "state_reason": status.get("reason") or next((e["reason"] for e in ends if e.get("reason")), None),
        "exit_code": max((e["exitCode"] for e in ends if isinstance(e.get("exitCode"), int)), default=None),
        "gpus_requested": gpus,
        "gpus_allocated": gpus if status.get("startTime") else None,
        "nodes_allocated": 1 if spec.get("nodeName") else None,
        "node_list": spec.get("nodeName"),
        "is_synthetic": meta.get("is_synthetic") == "true",
        "notes": f"also holds {shared}: its share of a GPU is not stated" if shared else None,
    }


def _devices(spec: Mapping[str, Any]) -> tuple[float | None, str]:
    """Whole devices of all containers, and the names of shared ones (MIG), whose share is not stated."""
    gpus, shared = 0.0, set()
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        for name, amount in limits.items():
            if name in _WHOLE:
                gpus += float(amount)
            elif name.startswith(("nvidia.com/mig-", "nvidia.com/gpu.")):
                shared.add(name)
    return (None if shared and not gpus else gpus), ", ".join(sorted(shared))


def _condition(status: Mapping[str, Any], kind: str) -> dt.datetime | None:
    found = (c for c in status.get("conditions") or () if c.get("type") == kind and c.get("status") == "True")
    return next((_time(c.get("lastTransitionTime")) for c in found), None)


def _time(text: Any) -> dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment.astimezone(dt.UTC) if moment.tzinfo else None
