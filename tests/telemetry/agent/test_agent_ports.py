"""InfiniBand and RoCE ports that the agent reads itself, on a made-up sysfs."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from agent_machine import Machine

from assets.ingest import ingest
from assets.publish import publish_home
from sources.telemetry.port_watch import PortWatch, read_text
from sources.telemetry_inputs.infiniband import SOURCE as LOADED
from warehouse.home import Home

Told = list[tuple[str, dict[str, Any]]]


def make_port(sysfs: Path, card: str, layer: str = "InfiniBand", **counters: object) -> Path:
    """A card with one port; counters whose name begins with hw_ go to hw_counters."""
    port = sysfs / card / "ports" / "1"
    for group in ("counters", "hw_counters"):
        (port / group).mkdir(parents=True, exist_ok=True)
    (port / "link_layer").write_text(layer + "\n")
    (port / "state").write_text("4: ACTIVE\n")
    (port / "phys_state").write_text("5: LinkUp\n")
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    (port / "hw_counters" / "lifespan").write_text("12\n")
    for name, value in counters.items():
        group = "hw_counters" if name.startswith("hw_") else "counters"
        (port / group / name.removeprefix("hw_")).write_text(f"{value}\n")
    return port


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    folder = tmp_path / "class" / "infiniband"
    make_port(folder, "mlx5_0", symbol_error=3, link_downed=0, port_rcv_data=1000, hw_out_of_sequence=7)
    make_port(folder, "rocep1s0", "Ethernet", port_xmit_data=5, hw_np_cnp_sent=40)
    return folder


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def watching(sysfs: Path, told: Told) -> Iterator[Callable[..., PortWatch]]:
    made: list[PortWatch] = []

    def watch(**given: Any) -> PortWatch:
        options = {"every_s": 60.0, "hang_s": 30.0, "notify": lambda _line: None} | given
        made.append(PortWatch(sysfs, lambda kind, row: told.append((kind, dict(row))), **options))
        return made[-1]

    yield watch
    for one in made:
        one._stop.set()


def look(watch: PortWatch) -> None:
    """One reading of all cards, to its end."""
    watch.look()
    for thread, _, _ in watch._at_work.values():
        thread.join(5)


def counted(told: Told) -> list[tuple[object, ...]]:
    names = ("device", "link_kind", "link_index", "counter", "value")
    return sorted(tuple(row[name] for name in names) for kind, row in told if kind == "link_counter")


def reasons(told: Told) -> list[tuple[object, ...]]:
    names = ("device", "column_name", "reason", "raw_value")
    return [(*(row[name] for name in names), row["to_at"] is not None) for kind, row in told if kind == "null_reason"]


EXPECTED = [
    ("mlx5_0", "infiniband", 1, "link_downed", 0),
    ("mlx5_0", "infiniband", 1, "out_of_sequence", 7),
    ("mlx5_0", "infiniband", 1, "phys_state", 5),
    ("mlx5_0", "infiniband", 1, "port_rcv_bytes", 4000),
    ("mlx5_0", "infiniband", 1, "port_rcv_data", 1000),
    ("mlx5_0", "infiniband", 1, "rate_mbit_per_s", 400_000),
    ("mlx5_0", "infiniband", 1, "state", 4),
    ("mlx5_0", "infiniband", 1, "symbol_error", 3),
    ("rocep1s0", "roce", 1, "np_cnp_sent", 40),
    ("rocep1s0", "roce", 1, "phys_state", 5),
    ("rocep1s0", "roce", 1, "port_xmit_bytes", 20),
    ("rocep1s0", "roce", 1, "port_xmit_data", 5),
    ("rocep1s0", "roce", 1, "rate_mbit_per_s", 400_000),
    ("rocep1s0", "roce", 1, "state", 4),
]


def test_ports_are_told_as_a_loaded_snapshot_tells_them(sysfs: Path, watching, told: Told) -> None:
    look(watching())
    assert counted(told) == EXPECTED
    (payload,) = LOADED.read([sysfs], {"observed_at": "2026-03-02T12:00:00Z", "cluster": "c1", "node": "n1"})
    frame = LOADED.parse(payload).frames["telemetry.link_counters"]
    assert sorted(frame.select("device", "link_kind", "link_index", "counter", "value").rows()) == EXPECTED


def test_a_living_sysfs_whose_cards_are_links_loads_too(sysfs: Path) -> None:
    for card in ("mlx5_0", "rocep1s0"):
        (sysfs / card).rename(sysfs.parent.parent / card)
        (sysfs / card).symlink_to(sysfs.parent.parent / card)
    (payload,) = LOADED.read([sysfs], {"observed_at": "2026-03-02T12:00:00Z"})
    frame = LOADED.parse(payload).frames["telemetry.link_counters"]
    assert sorted(frame.select("device", "link_kind", "link_index", "counter", "value").rows()) == EXPECTED


def test_only_what_changed_is_told_again(sysfs: Path, watching, told: Told) -> None:
    watch = watching()
    look(watch)
    told.clear()
    (sysfs / "mlx5_0/ports/1/counters/symbol_error").write_text("9\n")
    (sysfs / "mlx5_0/ports/1/state").write_text("1: DOWN\n")
    look(watch)
    assert counted(told) == [
        ("mlx5_0", "infiniband", 1, "state", 1),
        ("mlx5_0", "infiniband", 1, "symbol_error", 9),
    ]


def test_without_the_folder_nothing_is_told(tmp_path: Path, told: Told) -> None:
    watch = PortWatch(
        tmp_path / "none", lambda kind, row: told.append((kind, dict(row))), every_s=60, hang_s=30, notify=print
    )
    look(watch)
    assert told == []


def test_a_counter_that_the_kernel_refuses_or_that_is_no_number_has_one_reason(
    sysfs: Path, watching, told: Told
) -> None:
    (sysfs / "mlx5_0/ports/1/counters/link_downed").write_text("N/A\n")

    def read(file: Path) -> str:
        if file.name == "symbol_error":
            raise OSError(22, "Invalid argument")
        return read_text(file)

    watch = watching(read=read)
    look(watch)
    look(watch)
    gone = ("link_downed", "symbol_error")
    assert counted(told) == [row for row in EXPECTED if row[3] not in gone]
    assert sorted(reasons(told)) == [
        ("mlx5_0", "link_downed", "not_a_number", None, False),
        ("mlx5_0", "symbol_error", "not_supported", None, False),
    ]


def test_a_card_that_hangs_costs_its_own_counters_is_told_once_and_comes_back(
    sysfs: Path, watching, told: Told
) -> None:
    # Opening a pipe that nobody writes to waits, as a read does while the firmware of a card hangs.
    counter = sysfs / "mlx5_0/ports/1/counters/symbol_error"
    counter.unlink()
    os.mkfifo(counter)
    lines: list[str] = []
    watch = watching(hang_s=0.05, notify=lines.append)
    watch.look()
    for _ in range(3):
        time.sleep(0.06)
        watch.look()
    said = "TimeoutError: mlx5_0/ports/1/counters/symbol_error has not come back for 0.05 s"
    assert reasons(told) == [("mlx5_0", "*", "collector_error", said, False)]
    assert lines == [f"link_counters of mlx5_0 cannot be read (*: {said}); the other readings go on"]
    assert counted(told) == [row for row in EXPECTED if row[0] == "rocep1s0"]
    counter.open("w").close()  # the read comes back, late: its numbers are of different ages and are not told
    watch._at_work["mlx5_0"][0].join(5)
    assert not [row for row in counted(told) if row[0] == "mlx5_0"]
    counter.unlink()
    counter.write_text("3\n")
    watch._hang_s = 30
    look(watch)
    assert counted(told) == EXPECTED
    assert reasons(told)[1:] == [("mlx5_0", "*", "collector_error", said, True)]


def test_a_card_that_vanishes_is_told_once(sysfs: Path, watching, told: Told) -> None:
    watch = watching()
    look(watch)
    (sysfs / "mlx5_0").rename(sysfs.parent / "mlx5_0")
    look(watch)
    look(watch)
    assert reasons(told) == [
        ("mlx5_0", "*", "collector_error", "FileNotFoundError: the card is gone from the node", False)
    ]


def test_stopping_does_not_wait_for_a_card_that_hangs(sysfs: Path, watching) -> None:
    os.mkfifo(sysfs / "mlx5_0/ports/1/counters/port_xmit_wait")
    watch = watching()
    watch.start()
    begun = time.monotonic()
    watch.stop(wait_s=0.2)
    assert time.monotonic() - begun < 2


def fetched(con: duckdb.DuckDBPyConnection) -> Mapping[str, list[tuple[object, ...]]]:
    names = "device, link_kind, link_index, counter, value, node, cluster, is_synthetic"
    return {
        source: con.sql(
            f"select {names} from telemetry.link_counters where source = '{source}' order by all"
        ).fetchall()
        for source in ("nvml", "infiniband")
    }


def test_ports_reach_the_table_from_a_living_agent_while_one_hangs(machine: Machine, sysfs: Path, home: Path) -> None:
    os.mkfifo(make_port(sysfs, "mlx5_9") / "counters" / "symbol_error")
    machine.start(duration_s=2, hang_s=1.0, slow_s=0.5, cluster="c1", ports_dir=str(sysfs))
    assert machine.wait(20) == 0
    at = Home.at(home).prepare()
    assert not ingest(at, [machine.spool]).failed
    publish_home(at)
    con = duckdb.connect(str(at.database), read_only=True)
    told = fetched(con)
    assert sorted(told["infiniband"]) == [(*row, "n1", "c1", False) for row in EXPECTED]
    assert {row[1] for row in told["nvml"]} == {"nvlink", "pcie"}  # the GPUs were read all the while
    samples = con.sql("select count(distinct sampled_at) from telemetry.gpu_samples").fetchall()[0][0]
    assert samples >= 8
    why = con.sql("select device, raw_value from telemetry.null_reasons where source = 'infiniband'").fetchall()
    assert why == [("mlx5_9", "TimeoutError: mlx5_9/ports/1/counters/symbol_error has not come back for 1 s")]
    verdicts = con.sql("select device, verdict from mart.link_health where source = 'infiniband' order by 1").fetchall()
    assert verdicts == [("mlx5_0", "unknown"), ("rocep1s0", "unknown")]  # read once: nothing to compare yet


def test_a_stream_without_news_is_sealed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sources.telemetry import agent
    from sources.telemetry.spool import SpoolWriter

    writer = SpoolWriter(tmp_path, cluster="c1", node="n1", source="infiniband", is_synthetic=False, columns=())
    spool = agent.Spool(writer)
    at_us = int(dt.datetime(2026, 3, 2, tzinfo=dt.UTC).timestamp() * 1e6)
    row = {"sampled_at": at_us, "device": "mlx5_0", "link_kind": "infiniband", "link_index": 1}
    spool.record("link_counter", row | {"counter": "symbol_error", "value": 1})
    spool.seal_if_due()
    assert not list(tmp_path.glob("*.seg"))
    monkeypatch.setattr(agent, "SEAL_S", 0.0)
    spool.seal_if_due()
    assert len(list(tmp_path.glob("*.seg"))) == 1
    spool.close()
