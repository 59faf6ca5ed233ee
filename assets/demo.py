"""The demonstration cluster of a home without GPUs: written once, through the same spool as everything else.

Belongs here: whether it is there already. Does not belong here: its numbers (`sources.telemetry.synthetic`).
"""

from __future__ import annotations

from sources.telemetry.synthetic import write
from sources.telemetry.synthetic_plan import Plan
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.telemetry import GpuSample


def provide_demo(home: Home) -> None:
    """Put the fixed, seeded demonstration day into the spool, unless the lake has it. Marked `is_synthetic`."""
    plan = Plan()
    if not any(plan.cluster in commit["stats"] for commit in Lake(home.lake).history(GpuSample)):
        write(plan, home.spool)
