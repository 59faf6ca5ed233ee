"""Roll-ups brought up to date: only what new samples touch, and the same rows as computing everything at once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from assets import landing, rollup
from assets.ingest import ingest
from assets.rollup import roll_up
from tests.ingest.segments import write_segment
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.telemetry_rollups import GpuHour, GpuMinute


def home_at(root: Path) -> Home:
    return Home(root).prepare()


def arrive(home: Home, node: str, ticks: range) -> dict[str, int]:
    write_segment(home.inbox, node, ticks, gpus=("a",))
    ingest(home)
    return roll_up(home)


def rolled(home: Home) -> list[pl.DataFrame]:
    lake = Lake(home.lake)
    return [
        lake.scan(model).sort("node", "gpu_uuid", at).collect()
        for model, at in ((GpuMinute, "minute_at"), (GpuHour, "hour_at"))
    ]


def test_a_node_that_comes_late_is_computed_alone_and_others_keep_their_rows(tmp_path: Path) -> None:
    pieces, whole = home_at(tmp_path / "pieces"), home_at(tmp_path / "whole")
    for home in (pieces, whole):
        write_segment(home.inbox, "n1", range(600), gpus=("a",))
        write_segment(home.inbox, "n2", range(600), gpus=("a",))
        write_segment(home.inbox, "o'hare", range(600), gpus=("a",))
    ingest(pieces)
    assert roll_up(pieces) == {"telemetry.gpu_minutes": 30, "telemetry.gpu_hours": 3}
    assert arrive(pieces, "o'hare", range(600, 660)) == {"telemetry.gpu_minutes": 11, "telemetry.gpu_hours": 1}
    arrive(whole, "o'hare", range(600, 660))
    for one, other in zip(rolled(pieces), rolled(whole), strict=True):
        assert one.equals(other)


def test_nodes_that_are_many_are_all_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (landing, rollup):
        monkeypatch.setattr(module, "MOST_NODES", 1)
    home = home_at(tmp_path / "home")
    write_segment(home.inbox, "n1", range(60), gpus=("a",))
    write_segment(home.inbox, "n2", range(60), gpus=("a",))
    ingest(home)
    assert roll_up(home)["telemetry.gpu_hours"] == 2
    write_segment(home.inbox, "n1", range(60, 120), gpus=("a",))
    write_segment(home.inbox, "n2", range(60, 120), gpus=("a",))
    ingest(home)
    assert roll_up(home) == {"telemetry.gpu_minutes": 4, "telemetry.gpu_hours": 2}
    minutes, hours = rolled(home)
    assert minutes["sample_count"].to_list() == [60, 60, 60, 60]
    assert hours["sample_count"].to_list() == [120, 120]
