"""`telemetry.ladder_daily` kept up to date: the days whose inputs changed, and no others.

Belongs here: which days are due, computing and replacing them. Does not belong here: what a day's inputs are
(`ladder_inputs.py`), the ladder (`ladder_daily.py`), publishing. Each commit carries the hash of every day's inputs;
a day whose hash differs is computed again from all that is known now, so a log that arrives late corrects the days it
is about, and a killed run is simply done again.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from assets.ladder_daily import ladder_day
from assets.ladder_inputs import Inputs, read_inputs
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.declare import lake_schema
from warehouse.schema.ladder import LadderDay

# One more whenever a day's rows would come out differently from the same inputs.
VERSION: Final = 1
SOURCE: Final = "ladder"
DAYS: Final = "days"
DAYS_A_COMMIT: Final = 8
RECENT_COMMITS: Final = 20

Day = tuple[dt.date, bool]


def update_ladder(lake: Lake, authorities: Mapping[str, str], *, load_id: str = "") -> int:
    """Compute every day whose inputs changed since the last call; returns how many days were.

    authorities: source name to primary, curated or secondary, as publish has them. Real and synthetic telemetry are
    kept apart.
    """
    inputs = read_inputs(lake, authorities)
    known = _known(lake)
    wanted = {day: f"{VERSION}:{inputs.fingerprint(*day)}" for day in inputs.days}
    due = [day for day, mark in wanted.items() if known.get(_name(day)) != mark]
    gone = [name for name in known if name not in {_name(day) for day in wanted}]
    load_id = load_id or uuid.uuid4().hex
    for start in range(0, len(due), DAYS_A_COMMIT):
        some = due[start : start + DAYS_A_COMMIT]
        known |= {_name(day): wanted[day] for day in some}
        _replace(lake, _computed(inputs, some), [_name(day) for day in some], known, load_id)
    if gone:
        known = {name: mark for name, mark in known.items() if name not in gone}
        _replace(lake, pl.DataFrame(schema=lake_schema(LadderDay)), gone, known, load_id)
    return len(due)


def _name(day: Day) -> str:
    return f"{day[0]}/{'synthetic' if day[1] else 'real'}"


def _known(lake: Lake) -> dict[str, str]:
    """Hash of the inputs of each day as of the last commit; empty where there is none."""
    for commit in reversed(lake.history(LadderDay, limit=RECENT_COMMITS)):
        marks = commit["stats"].get("", {}).get(DAYS)
        if marks is not None:
            return dict(marks)
    return {}


def _computed(inputs: Inputs, days: Sequence[Day]) -> pl.DataFrame:
    schema = lake_schema(LadderDay)
    found = [
        ladder_day(inputs.of_day(day, is_synthetic), day, is_synthetic=is_synthetic, zones=inputs.zones)
        for day, is_synthetic in days
    ]
    return pl.concat([frame.select(list(schema)).cast(schema) for frame in found])


def _replace(lake: Lake, rows: pl.DataFrame, days: Sequence[str], known: Mapping[str, str], load_id: str) -> None:
    where = " or ".join(
        f"(date = '{day}' and is_synthetic = {'true' if kind == 'synthetic' else 'false'})"
        for day, kind in (name.split("/") for name in days)
    )
    load = Load(load_id, SOURCE, Counts(rows.height, rows.height), stats={"": {DAYS: dict(known)}})
    lake.commit(LadderDay, [], lambda _handle, _todo: (rows, load), replace=where)
