"""Roll-ups brought up to date: only what new samples touch, and the same rows as computing everything at once."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from assets import landing, rollup
from assets.ingest import ingest
from assets.landing import few_nodes, hours_of
from assets.maintenance import maintain
from assets.rollup import roll_up
from assets.telemetry_rollup import rollup_hours, rollup_minutes
from tests.ingest.segments import write_segment
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample
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


START = dt.datetime(2026, 11, 1, 20, tzinfo=dt.UTC)


def samples(node: str, seconds: list[float], energy: list[float | None], sent: list[int | None]) -> pl.DataFrame:
    at = [START + dt.timedelta(seconds=second) for second in seconds]
    told = {
        "sampled_at": at, "date": [one.date() for one in at], "cluster": "c", "node": node, "source": "nvml",
        "is_synthetic": False, "gpu_uuid": f"GPU-{node}", "power_w": 400.0, "energy_j": energy, "nvlink_tx_bytes": sent,
    }  # fmt: skip
    frame, schema = pl.DataFrame(told, strict=False), lake_schema(GpuSample)
    return frame.select((pl.col(n) if n in told else pl.lit(None)).cast(kind).alias(n) for n, kind in schema.items())


def restless(seed: int) -> pl.DataFrame:
    """Seven hours over midnight: gaps from seconds to hours, nulls, and restarts, most of them at the start of a minute."""
    chance = np.random.default_rng(seed)
    frames = []
    for node in ("n1", "n2"):
        second, energy, sent = 0.0, 1e6, 0
        seconds: list[float] = []
        counted: list[float | None] = []
        moved: list[int | None] = []
        while second < 7 * 3600:
            seconds.append(second)
            counted.append(None if chance.random() < 0.1 else energy)
            moved.append(None if chance.random() < 0.1 else sent)
            step = float(chance.choice([10.0, 20.0, 60.0, 250.0, 900.0, 5000.0], p=[0.5, 0.2, 0.15, 0.1, 0.04, 0.01]))
            second += step
            restarts = chance.random() < (0.3 if second % 60 == 0 else 0.01)
            energy, sent = (50.0, 5) if restarts else (energy + 400.0 * step, sent + int(chance.integers(10**9)))
        frames.append(samples(node, seconds, counted, moved))
    return pl.concat(frames)


def land(lake: Lake, rows: pl.DataFrame, *, tells_span: bool) -> None:
    """A commit of samples with the notes that ingest leaves for the roll-up."""
    note = {"hours": hours_of(rows), **few_nodes(rows)}
    note |= {"from_at": rows.select(pl.col("sampled_at").min()).item().isoformat()} if tells_span else {}
    load = Load("t", "nvml", Counts(rows.height, rows.height), stats={"": note})
    lake.commit(GpuSample, [], lambda *_: (rows, load))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_batches_in_any_order_give_what_all_at_once_gives(tmp_path: Path, seed: int) -> None:
    home, chance = home_at(tmp_path), np.random.default_rng(seed)
    lake, rows = Lake(home.lake), restless(seed).sort("sampled_at")
    third = rows.height // 3
    in_order = [rows[:third], *(rows[at : at + 7] for at in range(third, third + 21, 7))]
    rest = rows[third + 21 :].with_columns(pl.Series("batch", chance.integers(0, 3, rows.height - third - 21)))
    for batch in (*in_order, *(one.drop("batch") for one in rest.partition_by("batch"))):
        land(lake, batch.sample(fraction=1.0, shuffle=True, seed=seed), tells_span=chance.random() < 0.8)
        roll_up(home)
        there = lake.scan(GpuSample).collect()
        for kept, compute in zip(rolled(home), (rollup_minutes, rollup_hours), strict=True):
            at = "minute_at" if "minute_at" in kept.columns else "hour_at"
            assert_frame_equal(kept, compute(there.lazy()).sort("node", "gpu_uuid", at))


def test_a_round_in_the_middle_of_an_hour_writes_no_more_minutes_than_changed(tmp_path: Path) -> None:
    home = home_at(tmp_path)
    arrive(home, "n1", range(0, 3 * 3600, 10))
    assert arrive(home, "n1", range(3 * 3600, 3 * 3600 + 1800, 10)) == {
        "telemetry.gpu_minutes": 10 + 30,
        "telemetry.gpu_hours": 2,
    }
    newest = arrive(home, "n1", range(3 * 3600 + 1800, 3 * 3600 + 1860, 10))
    assert newest == {"telemetry.gpu_minutes": 10 + 1, "telemetry.gpu_hours": 1}
    files = pl.DataFrame(Lake(home.lake).open(GpuMinute).get_add_actions(flatten=True))
    assert sorted(files["num_records"].to_list()) == [31, 60, 120]  # the hour that goes on has a file of its own


def test_hours_of_minutes_are_merged_when_their_day_is_over(tmp_path: Path) -> None:
    home, day = home_at(tmp_path), START.date()
    lake = Lake(home.lake)
    for hour in range(9):
        one = {"cluster": "c", "source": "nvml", "is_synthetic": False, "node": "n1", "gpu_uuid": "g", "date": day}
        row = one | {"minute_at": dt.datetime.combine(day, dt.time(hour), dt.UTC), "sample_count": 6}
        rows = pl.DataFrame([row], schema={name: lake_schema(GpuMinute)[name] for name in row})
        whole = rows.select(
            (pl.col(n) if n in row else pl.lit(None)).cast(kind).alias(n) for n, kind in lake_schema(GpuMinute).items()
        )
        lake.commit(GpuMinute, [], lambda *_, whole=whole: (whole, Load("t", "roll-up", Counts(1, 1))))
    maintain(home, today=day)
    assert len(lake.open(GpuMinute).file_uris()) == 9
    maintain(home, today=day + dt.timedelta(days=1))
    assert len(lake.open(GpuMinute).file_uris()) == 1
    assert lake.scan(GpuMinute).select(pl.len()).collect().item() == 9
