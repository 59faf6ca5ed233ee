"""A receiver's segments are numbered on, node by node, so that the lake can tell of them in a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.telemetry.segment import read_header, read_segment
from sources.telemetry.spool import SpoolWriter
from sources.telemetry.spool_format import Column, Slot
from sources.telemetry_inputs import node_streams
from sources.telemetry_inputs.node_streams import NodeStreams

T0_US = 1_793_491_200_000_000
POWER = (Column("power_w", "f8", "W"),)
BOTH = (*POWER, Column("temperature_c", "i8", "°C"))


@pytest.fixture
def streams(tmp_path: Path) -> NodeStreams:
    return NodeStreams(tmp_path, source="prometheus", notify=lambda _line: None)


def step(
    streams: NodeStreams, node: str, number: int, columns: tuple[Column, ...] = POWER, gpus: tuple[str, ...] = ("a",)
) -> None:
    with streams.writing("c", node, columns, [Slot(gpu, k) for k, gpu in enumerate(gpus)]) as spool:
        spool.samples(T0_US + number * 1_000_000, [(gpu, {"power_w": 400.0 + number}) for gpu in gpus])


def told(folder: Path, node: str) -> list[tuple[str, int]]:
    headers = [read_header(path) for path in sorted(folder.glob("*.seg"))]
    assert all(h.segment_id == f"{h.stream_id}-{h.segment_number:08d}" for h in headers)
    return [(h.stream_id, h.segment_number) for h in headers if h.node == node]


def test_each_step_is_the_next_segment_of_the_node(streams: NodeStreams, tmp_path: Path) -> None:
    for number in range(3):
        step(streams, "n1", number)
        step(streams, "n2", number)
    first, second = told(tmp_path, "n1"), told(tmp_path, "n2")
    assert [number for _, number in first] == [number for _, number in second] == [0, 1, 2]
    assert len({stream for stream, _ in first}) == 1
    assert {stream for stream, _ in first}.isdisjoint(stream for stream, _ in second)


def test_other_columns_are_another_stream_and_a_new_gpu_is_not(streams: NodeStreams, tmp_path: Path) -> None:
    step(streams, "n1", 0)
    step(streams, "n1", 1, BOTH)
    step(streams, "n1", 2, gpus=("b", "a"))
    (one, other, again) = told(tmp_path, "n1")
    assert (one[0] == again[0], one[0] == other[0]) == (True, False)
    assert (one[1], other[1], again[1]) == (0, 0, 1)
    last = read_segment(max(tmp_path.glob("*.seg")))
    assert sorted(last.samples.select("gpu_uuid", "gpu_index", "power_w").rows()) == [("a", 1, 402.0), ("b", 0, 402.0)]


def test_after_a_refusal_the_node_begins_a_new_stream(streams: NodeStreams, tmp_path: Path) -> None:
    step(streams, "n1", 0)
    with pytest.raises(OSError, match="refused"):
        _refused(streams, tmp_path)
    step(streams, "n1", 2)
    (first, half, after) = told(tmp_path, "n1")
    assert (first[0] == half[0], first[1], half[1]) == (True, 0, 1)  # what was written stays whole
    assert (after[0] == first[0], after[1]) == (False, 0)


def test_writers_kept_are_bounded(streams: NodeStreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_streams, "MOST_WRITERS", 2)
    for number, node in enumerate(("n1", "n2", "n1", "n3", "n1", "n2")):
        step(streams, node, number)
    assert [number for _, number in told(tmp_path, "n1")] == [0, 1, 2]
    assert [number for _, number in told(tmp_path, "n2")] == [0, 0]  # the one used longest ago was let go


def test_a_seal_that_the_disk_refuses_is_an_error_and_ends_the_stream(
    streams: NodeStreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step(streams, "n1", 0)
    with monkeypatch.context() as patch:
        patch.setattr(SpoolWriter, "seal", lambda _self: False)
        with pytest.raises(OSError, match="refused to seal"):
            step(streams, "n1", 1)
    step(streams, "n1", 2)  # begins anew, and first recovers what lay there half written
    (first, half, after) = told(tmp_path, "n1")
    assert (first[0] == half[0], after[0] == first[0], after[1]) == (True, False, 0)


def _refused(streams: NodeStreams, folder: Path) -> None:
    with streams.writing("c", "n1", POWER, [Slot("a", 0)]) as spool:
        spool.samples(T0_US + 1_000_000, [("a", {"power_w": 401.0})])
        raise OSError(28, "the disk refused samples", str(folder))
