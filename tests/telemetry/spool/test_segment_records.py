"""Records read many at once, and one by one where any of them is odd: the same rows either way."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sources.telemetry import segment_records
from sources.telemetry.segment_records import Told, record_frames
from sources.telemetry.segment_rows import Header
from sources.telemetry.spool_format import FRAME_BYTES

Row = dict[str, Any]


def header(node: str) -> Header:
    return Header("s", "c1", node, "nvml", False, (), (), "stream", 0, 5)  # noqa: FBT003 - as a header lists it


def payload(row: Row, kind: str = "link_counter") -> bytes:
    return json.dumps({"kind": kind, "row": row}, separators=(",", ":"), ensure_ascii=False).encode()


def told(*nodes: list[bytes]) -> list[Told]:
    return [Told(header(f"n{i}"), [(100 * k, p) for k, p in enumerate(some)], []) for i, some in enumerate(nodes)]


def both(monkeypatch: pytest.MonkeyPatch, *nodes: list[bytes]) -> list[pl.DataFrame]:
    frames = []
    for many in (1, 1_000_000):
        monkeypatch.setattr(segment_records, "MANY", many)
        frames.append(record_frames(told(*nodes))["link_counter"])
    return frames


def row(tick: int, value: object) -> Row:
    return {"sampled_at": 1_793_491_200_000_000 + tick, "device": "GPU-ä\n", "link_index": tick, "value": value}


def test_many_records_of_two_nodes_read_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [[payload(row(tick, 7 * tick)) for tick in range(5)], [payload(row(9, None) | {"more": True})]]
    at_once, careful = both(monkeypatch, *nodes)
    assert_frame_equal(at_once, careful)
    assert at_once["node"].to_list() == ["n0"] * 5 + ["n1"]
    assert at_once["value"].to_list() == [0, 7, 14, 21, 28, None]
    assert at_once["device"].unique().to_list() == ["GPU-ä\n"]
    assert at_once.schema["sampled_at"] == pl.Datetime("us", "UTC")


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(2**53, 2**63 - 1), st.floats(allow_nan=False), st.text()
)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_whatever_the_values_are_nothing_is_lost_by_reading_at_once(values: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at_once, careful = both(patch, [payload(row(k, value)) for k, value in enumerate(values)])
    assert at_once["value"].cast(pl.String).to_list() == careful["value"].cast(pl.String).to_list()


@pytest.mark.parametrize(
    "bad",
    [b"{", payload({"sampled_at": "soon"}), payload({"sampled_at": 1 << 60}), payload({"value": [1]}), b'{"kind":"x"}'],
)
def test_one_that_does_not_read_is_damage_and_the_others_stay(monkeypatch: pytest.MonkeyPatch, bad: bytes) -> None:
    monkeypatch.setattr(segment_records, "MANY", 1)
    (one,) = some = told([payload(row(0, 1)), bad, payload(row(2, 3))])
    assert record_frames(some)["link_counter"]["value"].to_list() == [1, 3]
    assert [(d.offset, d.length) for d in one.damage] == [(100, FRAME_BYTES + len(bad))]


def test_a_row_that_names_its_own_node_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, careful = both(monkeypatch, [payload(row(0, 1) | {"node": "other"}), payload(row(1, 2))])
    assert at_once["node"].to_list() == careful["node"].to_list() == ["other", "n0"]
