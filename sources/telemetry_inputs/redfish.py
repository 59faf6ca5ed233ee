"""Redfish: what a management controller says of power, in its Power or its newer EnvironmentMetrics document.

Belongs here: both documents' JSON into power readings. Does not belong here: talking to the controller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload
from sources.telemetry_inputs.context import UNKNOWN, UTC_US, LocalInput, Where, metered, rows, stamped, text_of

CHASSIS = re.compile(r"/Chassis/([^/]+)/(?:Power|EnvironmentMetrics)")
SECONDS_PER_MINUTE = 60
JOULES_PER_KWH = 3.6e6
SCHEMA: dict[str, Any] = {
    "sampled_at": UTC_US,
    "scope": pl.String,
    "device": pl.String,
    **dict.fromkeys(
        (
            "power_w",
            "power_min_w",
            "power_mean_w",
            "power_max_w",
            "window_seconds",
            "power_limit_w",
            "power_capacity_w",
            "energy_j",
        ),
        pl.Float64,
    ),
}


REASON: dict[str, Any] = {
    "from_at": UTC_US,
    "device": pl.String,
    "table_name": pl.String,
    "column_name": pl.String,
    "reason": pl.String,
    "raw_value": pl.String,
}


class Redfish(LocalInput):
    """Power documents of BMCs."""

    name = "redfish"
    publisher = "the node's management controller"
    homepage = "https://redfish.dmtf.org/"
    tables = ("telemetry.power_readings", "telemetry.null_reasons")
    media_type = "application/json"

    def parse(self, payload: Payload) -> Parsed:
        """One row for each power control and supply, or for the chassis; a window that contradicts itself is null.

        Raises `ParseError` if it is neither document.
        """
        where = Where.of(payload)
        document = _document(text_of(payload, "the Redfish answer"))
        at = where.moment("a Redfish Power document")
        found = CHASSIS.search(str(document.get("@odata.id", "")))
        chassis = "/".join(part for part in (where.node, found[1] if found else None) if part and part != UNKNOWN)
        reasons: list[dict[str, Any]] = []
        records = [
            {"sampled_at": at, **record}
            for record in (
                *_controls(document, chassis or UNKNOWN, reasons),
                *_supplies(document, chassis or UNKNOWN),
                *_environment(document, chassis or UNKNOWN),
            )
        ]
        if not records:
            raise ParseError("the document lists no meter; does the chassis measure power?")
        frames = {"telemetry.power_readings": metered(rows(records, SCHEMA), where)}
        if reasons:
            told = rows([{"from_at": at, **reason} for reason in reasons], REASON)
            frames["telemetry.null_reasons"] = stamped(told, where, time_column=None)
        return Parsed(frames)


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"the JSON is cut or broken at line {error.lineno}; take the capture again") from None
    kind = document.get("@odata.type", "") if isinstance(document, dict) else ""
    if not re.match(r"#(Power|EnvironmentMetrics)\.", kind):
        raise ParseError(f"a Redfish Power or EnvironmentMetrics document was due, this is {kind or 'something else'}")
    return dict(document)


def _controls(document: dict[str, Any], chassis: str, reasons: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    controls = document.get("PowerControl") or []
    for control in controls:
        member = str(control.get("MemberId", ""))
        metrics = control.get("PowerMetrics") or {}
        low, high = metrics.get("MinConsumedWatts"), metrics.get("MaxConsumedWatts")
        mean = metrics.get("AverageConsumedWatts")
        if low is not None and mean is not None and high is not None and not low <= mean <= high:
            # One of minimum, mean and maximum is wrong and nobody can say which: the reading stays, the window goes.
            told = f"{low}, {mean}, {high}"
            reasons.extend(
                {
                    "device": f"{chassis}/control/{member}",
                    "table_name": "power_readings",
                    "column_name": name,
                    "reason": "implausible",
                    "raw_value": told,
                }
                for name in ("power_min_w", "power_mean_w", "power_max_w")
            )
            low = mean = high = None
        minutes = metrics.get("IntervalInMin")
        yield {
            # Several controls of one chassis are separate inputs; one alone is the node.
            "scope": "node" if len(controls) == 1 else "chassis",
            "device": f"{chassis}/control/{member}",
            "power_w": control.get("PowerConsumedWatts"),
            "power_min_w": low,
            "power_mean_w": mean,
            "power_max_w": high,
            "window_seconds": minutes * SECONDS_PER_MINUTE if minutes is not None and mean is not None else None,
            "power_limit_w": (control.get("PowerLimit") or {}).get("LimitInWatts"),
            "power_capacity_w": control.get("PowerCapacityWatts") or None,
        }


def _supplies(document: dict[str, Any], chassis: str) -> Iterator[dict[str, Any]]:
    for supply in document.get("PowerSupplies") or []:
        output = supply.get("PowerOutputWatts", supply.get("LastPowerOutputWatts"))
        yield {
            "scope": "psu",
            "device": f"{chassis}/psu/{supply.get('MemberId', '')}",
            "power_w": output,
            "power_capacity_w": supply.get("PowerCapacityWatts"),
        }


def _environment(document: dict[str, Any], chassis: str) -> Iterator[dict[str, Any]]:
    """Power and energy of EnvironmentMetrics: of the chassis it belongs to, which may be one module of a node."""
    watts, limit = document.get("PowerWatts") or {}, document.get("PowerLimitWatts") or {}
    if watts.get("Reading") is None:
        return
    joules, kwh = ((document.get(name) or {}).get("Reading") for name in ("EnergyJoules", "EnergykWh"))
    yield {
        "scope": "chassis",
        "device": f"{chassis}/environment",
        "power_w": watts["Reading"],
        "power_limit_w": limit.get("SetPoint") if limit.get("ControlMode") != "Disabled" else None,
        "power_capacity_w": limit.get("AllowableMax"),
        "energy_j": joules if joules is not None else None if kwh is None else kwh * JOULES_PER_KWH,
    }


SOURCE = Redfish()
