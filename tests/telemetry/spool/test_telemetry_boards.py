"""ECC counters become growth, sightings of processes become stays."""

from __future__ import annotations

import datetime as dt

import polars as pl

from assets.telemetry_boards import close_processes, ecc_deltas
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry_boards import EccCounter, GpuProcess

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
WHERE = {"cluster": "c1", "node": "n1", "source": "nvml", "is_synthetic": False, "gpu_uuid": "GPU-a"}


def ecc(minute: int, value: int | None, **given: object) -> dict[str, object]:
    row = {"sampled_at": NOON + minute * MINUTE, "date": NOON.date(), "value": value, "location": "dram"}
    return WHERE | row | {"error_kind": "corrected", "counter_span": "volatile"} | given


def seen(minute: int, *, gone: bool = False, **given: object) -> dict[str, object]:
    at = NOON + minute * MINUTE
    row = {"from_at": at, "to_at": at if gone else None, "pid": 7, "process_name": "train", "memory_used_bytes": 100}
    return WHERE | row | given


def deltas(*rows: dict[str, object]) -> list[tuple[object, ...]]:
    frame = ecc_deltas(pl.DataFrame(rows, schema=lake_schema(EccCounter)))
    return frame.select("value", "delta", "delta_status").rows()


def stays(*rows: dict[str, object]) -> list[tuple[object, ...]]:
    frame = close_processes(pl.DataFrame(rows, schema=lake_schema(GpuProcess)))
    minute = ((pl.col(c) - NOON).dt.total_minutes() for c in ("from_at", "to_at"))
    return frame.select(*minute, "pid", "process_name", "memory_used_bytes").rows()


def test_ecc_growth_is_aware_of_restarts_and_of_what_could_not_be_read() -> None:
    rows = [ecc(0, 5), ecc(1, 7), ecc(2, None), ecc(3, 9), ecc(4, 2)]
    expected = [(5, None, "first"), (7, 2, "counted"), (None, None, "unreadable"), (9, 2, "counted"), (2, 2, "reset")]
    assert deltas(*rows) == expected
    assert deltas(*reversed(rows)) == expected


def test_ecc_counters_of_two_memories_do_not_mix() -> None:
    assert deltas(ecc(0, 5), ecc(1, 50, location="sram"), ecc(2, 6)) == [
        (5, None, "first"),
        (6, 1, "counted"),
        (50, None, "first"),
    ]


def test_a_process_stays_from_its_first_sight_until_it_is_gone() -> None:
    rows = [seen(0), seen(1, memory_used_bytes=900), seen(61, memory_used_bytes=800), seen(70, gone=True)]
    assert stays(*rows) == [(0, 70, 7, "train", 900)]
    assert stays(*reversed(rows)) == [(0, 70, 7, "train", 900)]


def test_a_process_that_runs_has_no_end() -> None:
    assert stays(seen(0), seen(60)) == [(0, None, 7, "train", 100)]


def test_a_process_id_that_comes_again_is_another_stay() -> None:
    again = stays(seen(0), seen(5, gone=True), seen(6, process_name="eval"))
    assert again == [(0, 5, 7, "train", 100), (6, None, 7, "eval", 100)]
    unseen_end = stays(seen(0), seen(1, process_name="eval"))
    assert unseen_end == [(0, 0, 7, "train", 100), (1, None, 7, "eval", 100)]


def test_a_process_that_ended_while_no_agent_looked_ended_when_it_was_last_seen() -> None:
    rows = [seen(0), seen(60), seen(300, pid=8)]
    assert stays(*rows) == [(0, 60, 7, "train", 100), (300, None, 8, "train", 100)]
    assert stays(seen(0), seen(500)) == [(0, 0, 7, "train", 100), (500, None, 7, "train", 100)]
