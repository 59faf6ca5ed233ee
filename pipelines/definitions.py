"""The definitions Dagster loads: explicit, in process, no components.

Belongs here: assembly. Does not belong here: any asset, schedule or resource of its own.
"""

from __future__ import annotations

import dagster as dg

from assets.observed import freshness_assets, source_assets
from assets.price_assets import price_asset
from assets.published import publish_asset
from assets.telemetry import telemetry_assets
from pipelines.jobs import JOBS
from pipelines.resources import HomeResource, TelemetryResource, WebResource
from pipelines.schedules import SCHEDULES
from pipelines.sensors import SENSORS

defs = dg.Definitions(
    assets=[*source_assets(), *telemetry_assets(), price_asset(), publish_asset(), *freshness_assets()],
    jobs=JOBS,
    schedules=SCHEDULES,
    sensors=SENSORS,
    resources={"home": HomeResource(), "web": WebResource(), "telemetry": TelemetryResource()},
    # The default starts a process for each step, about five seconds each; our steps are short.
    executor=dg.in_process_executor,
)
