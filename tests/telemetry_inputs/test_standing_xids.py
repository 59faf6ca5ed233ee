"""An XID gauge read scrape by scrape: a change between two documents is an event when published."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from assets.telemetry_xids import date_xids
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry_fleet import GpuEvent

TEN = dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)


def event(minute: int, code: int | None, kind: str = "xid_last", **given) -> dict:
    row = {"occurred_at": TEN + dt.timedelta(minutes=minute), "cluster": "c", "node": "n", "device": "A", "kind": kind}
    row |= {"event_id": str(code), "code": code, "source": "dcgm-exporter", "is_synthetic": False}
    return row | given


def published(*events: dict) -> list[tuple]:
    frame = pl.DataFrame(list(events), schema=lake_schema(GpuEvent))
    told = date_xids(frame)
    assert told.schema == frame.schema
    minutes = (pl.col("occurred_at") - TEN).dt.total_minutes()
    return told.sort("occurred_at").select(minutes, "kind", "code", "severity", "action").rows()


FATAL_79 = ("xid", 79, "fatal", "RESTART_BM")


@pytest.mark.parametrize("order", [1, -1])
def test_another_code_than_the_document_before_is_an_event_in_whatever_order_they_came(order: int) -> None:
    assert published(*[event(0, 0), event(10, 79)][::order]) == [(10, *FATAL_79)]


def test_a_first_reading_stays_of_an_unknown_time_and_a_code_that_stands_is_told_once() -> None:
    assert published(event(0, 79), event(10, 79)) == [(0, "xid_last", 79, None, None)]
    assert published(event(0, 0), event(10, 79), event(20, 79)) == [(10, *FATAL_79)]
    assert published(event(0, 43), event(10, 79))[1] == (10, *FATAL_79)


def test_a_code_that_comes_back_after_a_driver_load_is_a_second_event() -> None:
    assert published(event(0, 0), event(10, 79), event(20, 0), event(30, 79)) == [(10, *FATAL_79), (30, *FATAL_79)]


def test_a_document_that_begins_with_the_event_that_ended_another_adds_none() -> None:
    change = event(10, 79, "xid", severity="fatal", action="RESTART_BM")
    assert published(event(0, 0), change, event(10, 79)) == [(10, *FATAL_79)]


def test_another_gpu_collector_or_kind_is_no_reading_before() -> None:
    others = [event(0, 0, device="B"), event(0, 0, source="prometheus"), event(0, None, "lost", severity="fatal")]
    assert published(*others, event(10, 79)) == [(0, "lost", None, "fatal", None), (10, "xid_last", 79, None, None)]
