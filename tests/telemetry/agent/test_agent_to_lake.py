"""From the driver to the table: what the stub answers stands in the lake, through spool, gate and publish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from agent_machine import Machine, uuid_of

from assets.ingest import ingest
from assets.publish import publish_home
from assets.rollup import roll_up
from warehouse.home import Home


def published(home: Path, machine: Machine) -> duckdb.DuckDBPyConnection:
    at = Home.at(home).prepare()
    report = ingest(at, [machine.spool])
    assert not report.failed, list(report.complaints())
    roll_up(at)
    publish_home(at)
    con = duckdb.connect(str(at.database), read_only=True)
    con.execute("set TimeZone = 'UTC'")
    return con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.sql(query).fetchall()


@pytest.fixture
def lake(machine: Machine, home: Path) -> duckdb.DuckDBPyConnection:
    """One agent run: power of GPU 2 not supported; GPU 5 lost and back; link 4 of GPU 1 errs, grows, resets."""

    def replays() -> list[object]:
        wanted = (uuid_of(1), 4, "replay")
        told = machine.records("link_counter")
        return [r["value"] for r in told if (r["device"], r["link_index"], r["counter"]) == wanted]

    quiet = ("2 err.nvmlDeviceGetPowerUsage 3", "2 fi_err.185 3", "2 fi_err.186 3")
    machine.say(*quiet, "1 nv.4.0 17")
    machine.start(duration_s=12)
    machine.until(lambda: replays() == [17])
    machine.say(*quiet, "1 nv.4.0 21", "5 lost 1")
    machine.until(lambda: machine.events("lost") and replays() == [17, 21])
    machine.say(*quiet)
    machine.until(lambda: machine.events("returned") and replays() == [17, 21, 0])
    machine.until_rows(16)
    assert machine.wait(20) == 0
    return published(home, machine)


def test_values_lost_gpus_nulls_and_link_deltas_reach_the_published_tables(lake: duckdb.DuckDBPyConnection) -> None:
    power = dict(rows(lake, "select gpu_uuid, max(power_w) from telemetry.gpu_samples group by 1"))
    assert power == {uuid_of(g): None if g == 2 else 300.0 + g for g in range(8)}
    memory = dict(rows(lake, "select gpu_index, any_value(memory_used_bytes) from telemetry.gpu_samples group by 1"))
    assert memory == {g: (g + 1) << 30 for g in range(8)}
    assert rows(lake, "select count(*) from telemetry.gpu_samples where power_w = 0") == [(0,)]
    reasons = rows(
        lake,
        f"select distinct reason from telemetry.null_reasons where device = '{uuid_of(2)}' and column_name = 'power_w'",
    )
    assert reasons == [("not_supported",)]
    events = rows(
        lake, "select kind, gpu_uuid from telemetry.gpu_events where kind in ('lost', 'returned') order by occurred_at"
    )
    assert events == [("lost", uuid_of(5)), ("returned", uuid_of(5))]
    (per_gpu,) = rows(
        lake,
        f"select min(n) filter (gpu_uuid <> '{uuid_of(5)}') > max(n) filter (gpu_uuid = '{uuid_of(5)}') "
        "from (select gpu_uuid, count(*) as n from telemetry.gpu_samples group by 1)",
    )
    assert per_gpu == (True,)
    deltas = rows(
        lake,
        "select value, delta from telemetry.link_counters "
        f"where device = '{uuid_of(1)}' and link_index = 4 and counter = 'replay' order by sampled_at",
    )
    # 17 at first sight is no growth we saw; then 4 more; then a reset to 0, which grew by nothing.
    assert deltas == [(17, None), (21, 4), (0, 0)]
    # Speed, ECC and processes of every board; GPU g runs g % 3 processes of the stub.
    assert rows(lake, "select distinct speed_mbit_per_s from mart.link_health where link_kind = 'nvlink'") == [
        (212496,)
    ]
    total = "error_kind = 'corrected' and counter_span = 'aggregate' and location = 'total'"
    assert rows(lake, f"select count(distinct gpu_uuid), max(value) from telemetry.ecc_counters where {total}") == [
        (8, 12)
    ]
    running = "select count(distinct (gpu_uuid, pid)) from telemetry.gpu_processes where memory_used_bytes = 1048576"
    assert rows(lake, running) == [(sum(g % 3 for g in range(8)),)]
    assert rows(lake, "select bool_or(is_synthetic) from telemetry.gpu_samples") == [(False,)]
