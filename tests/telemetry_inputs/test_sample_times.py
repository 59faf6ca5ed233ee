"""Documents whose samples lie ahead of our clock or before GPUs of today: refused row by row, the others land."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

from pipelines.cli import almanac, guarded
from warehouse.home import Home
from warehouse.quality.sample_times import moment_of, refuse_mistimed
from warehouse.schema import tables

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
GPU = "GPU-11111111-2222-3333-4444-555555555555"


def load(home: Path, folder: Path, *seconds: float) -> int:
    points = [[at, "300"] for at in seconds]
    series = {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "UUID": GPU, "Hostname": "n1"}, "values": points}
    file = folder / "answer.json"
    file.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}))
    args = ["load", "prometheus", str(file), "--cluster", "c1", "--home", str(home)]
    return guarded(lambda: almanac(args=args, standalone_mode=False))


def rows(home: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(Home(home).database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        return con.sql(query).fetchall()


def test_rows_of_2100_and_1970_are_refused_and_the_others_land(home: Path, tmp_path: Path) -> None:
    good = dt.datetime(2026, 11, 1, tzinfo=dt.UTC).timestamp()
    ahead = dt.datetime(2100, 1, 1, tzinfo=dt.UTC).timestamp()
    # the third is seconds read as milliseconds, the fourth milliseconds read as seconds: a year of five digits
    assert load(home, tmp_path, good, ahead, good / 1000, good * 1000) == 0
    assert rows(home, "select sampled_at::varchar from telemetry.gpu_samples") == [("2026-11-01 00:00:00+00",)]
    told = "select rule, count(*) from ops.quarantine where table_name = 'telemetry.gpu_samples' group by 1 order by 1"
    assert rows(home, told) == [("sampled_at >= 2016-01-01", 1), ("sampled_at is not ahead of the clock", 2)]
    why = "select reason from ops.quarantine where rule like '%2016%' and table_name = 'telemetry.gpu_samples'"
    ((reason,),) = rows(home, why)
    assert str(reason).startswith("sampled_at is 1970-01-21 ")
    assert "seconds where milliseconds were due" in str(reason)


def test_where_nothing_lands_the_call_fails(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ahead = dt.datetime(2100, 1, 1, tzinfo=dt.UTC).timestamp()
    assert load(home, tmp_path, *(ahead + 60 * k for k in range(50))) == 1
    told = "refused 50 by sampled_at is not ahead of the clock in file:answer.json: sampled_at is 2100-01-01"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (NOW + dt.timedelta(minutes=59), ""),
        (NOW + dt.timedelta(hours=8), "dated ahead of the clock by 8 hours"),
        (NOW + dt.timedelta(days=10), "dated ahead of the clock by 10 days"),
        (dt.datetime(2016, 1, 1, tzinfo=dt.UTC), ""),
        (dt.datetime(2015, 12, 31, 23, tzinfo=dt.UTC), "before any GPU this house knows"),
    ],
)
def test_an_hour_of_drift_and_any_time_since_2016_pass(at: dt.datetime, told: str) -> None:
    model = tables()["telemetry.gpu_events"]
    frame = pl.DataFrame({"occurred_at": [at], "is_synthetic": [False]})
    good, refused = refuse_mistimed(frame, model, NOW)
    assert good.height == (0 if told else 1)
    assert [told in reason for reason in refused["reason"]] == ([True] if told else [])
    invented = frame.with_columns(pl.lit(value=True).alias("is_synthetic"))
    assert refuse_mistimed(invented, model, NOW)[0].height == 1


def test_the_rule_holds_for_every_observed_table_and_no_plan() -> None:
    judged = {name: moment_of(model) for name, model in tables().items() if moment_of(model)}
    assert judged == {
        "telemetry.gpu_samples": "sampled_at",
        "telemetry.ecc_counters": "sampled_at",
        "telemetry.link_counters": "sampled_at",
        "telemetry.power_readings": "sampled_at",
        "telemetry.gpu_events": "occurred_at",
        "telemetry.gpu_processes": "from_at",
        "telemetry.null_reasons": "from_at",
        "telemetry.inventory": "valid_from",
        "telemetry.node_states": "valid_from",
    }
