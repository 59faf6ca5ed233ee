"""Running the main job in this process, on the run history that `dagster dev` shows.

Belongs here: the instance, the run, and what it told. Does not belong here: any step.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from assets.street import StreetReport
from warehouse.home import Home


@dataclass(slots=True)
class Outcome:
    """What a run did, for the command line."""

    home: Home
    seconds: float = 0.0
    reports: list[StreetReport] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Was a batch blocked, or did a source or step fail?"""
        return bool(self.failures) or any(r.failed for r in self.reports)

    def complaints(self) -> Iterator[str]:
        """One line for each thing that went wrong."""
        yield from self.failures
        for report in self.reports:
            if not report.skipped:
                yield from report.complaints()

    def skipped(self) -> Iterator[str]:
        """One line for each cause by which sources were not asked: the cause first, then whom it concerns."""
        found: dict[str, list[str]] = {}
        for report in self.reports:
            if report.skipped:
                found.setdefault(_kind(report.problem), []).append(report.source)
        for why, names in found.items():
            yield f"not fetched: {why}: {', '.join(sorted(names))}"

    def summary(self) -> Iterator[str]:
        """What landed and where to look."""
        landed = sum(r.rows_landed for r in self.reports)
        yield f"landed {landed:,} new rows in {self.seconds:.0f} s"
        yield f"warehouse {self.home.database}"
        page = self.home.report / "index.html"
        if page.exists():
            yield f"report    {page}"


def _kind(problem: str) -> str:
    """Sources skipped for the same cause are told together."""
    if "no network" in problem or problem.startswith("offline"):
        return "no network; the archive and curated facts stay in use"
    return problem.split(": ", 1)[-1]


def run_main_job(home: Home, *, offline: bool, telemetry: str) -> Outcome:
    """Execute the job `main`. The same graph, resources and home as a run started in Dagster's page."""
    outcome = Outcome(home)
    start = time.monotonic()
    with _quiet():
        import dagster as dg

        from pipelines.definitions import defs
        from pipelines.resources import REPORTS

        REPORTS.clear()
        config = {
            "resources": {
                "home": {"config": {"path": str(home.root)}},
                "web": {"config": {"offline": offline}},
                "telemetry": {"config": {"mode": telemetry}},
            },
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        }
        os.environ.setdefault("DAGSTER_HOME", str(home.dagster))
        with dg.DagsterInstance.from_ref(instance_ref(home)) as instance:
            job = defs.resolve_job_def("main")
            result = job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)
        outcome.reports = list(REPORTS)
        for event in result.all_events:
            if event.is_step_failure:
                outcome.failures.append(f"{event.step_key}: {_cause(event)}")
    outcome.seconds = time.monotonic() - start
    return outcome


def instance_ref(home: Home) -> Any:
    """The scheduler's storage inside the home: the place `dagster.yaml` names for the default home."""
    from dagster._core.instance.ref import InstanceRef

    storage = {"sqlite": {"base_dir": str(home.dagster)}}
    artifacts = {
        "module": "dagster.core.storage.root",
        "class": "LocalArtifactStorage",
        "config": {"base_dir": str(home.dagster)},
    }
    logs = {
        "module": "dagster.core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
    overrides = {
        "storage": storage,
        "local_artifact_storage": artifacts,
        "compute_logs": logs,
        "telemetry": {"enabled": False},
    }
    # Where DAGSTER_HOME is set, Dagster warns of every folder without this file.
    (home.dagster / "dagster.yaml").touch()
    return InstanceRef.from_dir(str(home.dagster), overrides=overrides)


def _cause(event: Any) -> str:
    error = event.step_failure_data.error
    if error.cls_name == "DagsterExecutionInterruptedError":
        return "interrupted; what has landed stays, run it again for the rest"
    # A message of our own says where and what to do; what lies beneath it does not.
    while error.cause and error.cls_name != "WarehouseError":
        error = error.cause
    return " ".join(str(error.message).split())[:400]


@contextmanager
def _quiet() -> Iterator[None]:
    """Dagster warns about its own beta features and logs every event; a person wants neither here."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        yield
