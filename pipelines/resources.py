"""Resources: the home, and the way to the network.

Belongs here: configuration that runs differ in. Does not belong here: what is done with it.
"""
# Dagster reads annotations at run time: no `from __future__ import annotations` here.

from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from assets.street import StreetReport
from sources.http import HttpWeb
from warehouse.archive import Archive
from warehouse.home import Home


class HomeResource(dg.ConfigurableResource[Any]):
    """ALMANAC_HOME for a run. Reports of the sources are collected here, so that the CLI can show them."""

    path: str = ""
    _reports: list[StreetReport] = PrivateAttr(default_factory=list)

    def home(self) -> Home:
        """The prepared home."""
        return Home.at(self.path or None).prepare()

    def tell(self, report: StreetReport) -> None:
        """Remember what a source's run did."""
        REPORTS.append(report)


# Dagster copies resources for each run; the CLI reads what its own in-process run reported from here.
REPORTS: list[StreetReport] = []


class WebResource(dg.ConfigurableResource[Any]):
    """The HTTP client of a run; `offline` answers every request at once with OfflineError."""

    offline: bool = False
    contact: str = ""
    _client: HttpWeb | None = PrivateAttr(default=None)

    def client(self, home: Home) -> HttpWeb:
        """One client for the whole run, so that rate limits and the breaker are shared."""
        if self._client is None:
            validators = Archive(home.archive).validators
            self._client = HttpWeb(contact=self.contact, validators=validators, offline=self.offline)
        return self._client

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Give the connections back."""
        if self._client is not None:
            self._client.close()


class TelemetryResource(dg.ConfigurableResource[Any]):
    """Where a run's telemetry comes from when no agent fills the spool: `auto`, `nvml`, `synthetic` or `none`."""

    mode: str = "auto"
    capture_seconds: float = 5.0

    def provide(self, home: Home) -> None:
        """Put something into the spool: a short capture of this machine's GPUs, or the demonstration cluster."""
        match self._resolved():
            case "nvml":
                from sources.telemetry.agent import collect

                collect(home.spool, interval_s=1.0, duration_s=self.capture_seconds)
            case "synthetic":
                from assets.demo import provide_demo

                provide_demo(home)

    def complete(self, home: Home) -> None:
        """After ingest: the demonstration cluster's jobs, whose devices are named from its inventory."""
        if self._resolved() == "synthetic":
            from assets.demo_jobs import provide_demo_jobs

            provide_demo_jobs(home)

    def _resolved(self) -> str:
        from sources.telemetry.agent import gpus_present

        if self.mode != "auto":
            return self.mode
        return "nvml" if gpus_present() else "synthetic"
