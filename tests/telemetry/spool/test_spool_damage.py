from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spool_writers import START_US, by_time, sealed, write_ticks, writer

from sources.telemetry.segment import read_segment, read_segments
from sources.telemetry.spool_format import FRAME_BYTES, MAGIC, Frame, read_seal, walk

TICKS = 6


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Six ticks of two GPUs with one record in their middle."""
    directory = tmp_path_factory.mktemp("spool")
    with writer(directory) as spool:
        write_ticks(spool, range(3))
        spool.record("gpu_event", {"occurred_at": START_US, "kind": "xid", "code": 79}, START_US)
        write_ticks(spool, range(3, TICKS))
    return sealed(directory)[0].read_bytes()


def frames_of(body: bytes) -> list[Frame]:
    seal = read_seal(body)
    assert seal
    return [item for item in walk(body, seal.length) if isinstance(item, Frame)]


def test_truncated_at_every_byte_all_whole_frames_before_come_back(body: bytes) -> None:
    frames = frames_of(body)
    header = frames[0]
    for length in range(len(body)):
        segment = read_segment(body[:length])
        whole = [f for f in frames if f.end <= length]
        assert segment.damage, f"cut at {length}: nothing said"
        if header.end > length:
            assert segment.header is None
            continue
        assert segment.samples.height == sum(f.rows for f in whole), f"cut at {length}"
        assert len(segment.records) == sum(f.kind == 3 for f in whole), f"cut at {length}"
        torn = [f for f in frames if f.start < length < f.end]
        if torn:
            assert torn[0].start in [d.offset for d in segment.damage], f"cut at {length}"


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_costs_only_its_frame(body: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, len(body) * 8 - 1))
    broken = bytearray(body)
    broken[bit // 8] ^= 1 << bit % 8
    whole = read_segment(body)
    segment = read_segment(bytes(broken))
    frames = frames_of(body)
    hit = next((f for f in frames if f.start <= bit // 8 < f.end), None)
    assert segment.damage
    assert segment.header == whole.header
    lost_rows = hit.rows if hit else 0
    assert segment.samples.height == whole.samples.height - lost_rows
    if hit and hit.rows:
        assert hit.start in [d.offset for d in segment.damage]
        kept = whole.samples.filter(whole.samples["power_w"] != segment_power(body, hit))
        assert by_time(segment.samples).equals(by_time(kept))
    assert len(segment.records) == (0 if hit and hit.kind == 3 else 1)


def segment_power(body: bytes, hit: Frame) -> float:
    """Power of the tick in a frame: 100 plus its second."""
    time_us = int.from_bytes(body[hit.begin : hit.begin + 8], "little")
    return 100.0 + (time_us - START_US) // 1_000_000


@settings(max_examples=150, deadline=None)
@given(noise=st.binary(max_size=400))
def test_noise_never_raises_and_is_reported(noise: bytes) -> None:
    for body in (noise, MAGIC + noise):
        segment = read_segment(body)
        assert segment.header is None
        assert segment.damage


def test_a_frame_cut_out_cleanly_is_missed_by_its_number(body: bytes) -> None:
    frames = frames_of(body)
    gone = frames[2]
    segment = read_segment(body[: gone.start] + body[gone.end :])
    assert segment.samples.height == (TICKS - 1) * 2
    assert any("2 to 2 are missing" in d.reason for d in segment.damage)


def test_a_damaged_segment_does_not_stop_the_next(body: bytes) -> None:
    cut = frames_of(body)[3].start + 5
    batch = read_segments([("a", body[:cut]), ("b", b"not a segment"), ("c", body)])
    assert batch.sample_count == 2 * 2 + TICKS * 2
    assert {name for name, _ in batch.damage} == {"a", "b"}


def test_noise_that_looks_like_a_frame_is_stepped_over(body: bytes) -> None:
    frames = frames_of(body)
    head = body[frames[1].start : frames[1].start + FRAME_BYTES]
    at = frames[2].start
    segment = read_segment(body[:at] + head + body[at:])
    assert segment.samples.height == TICKS * 2
    assert [d.offset for d in segment.damage if d.length == FRAME_BYTES] == [at]


def test_damage_offsets_name_the_bytes(body: bytes, tmp_path: Path) -> None:
    hit = frames_of(body)[1]
    broken = bytearray(body)
    broken[hit.begin + 3] ^= 0xFF
    (damage,) = read_segment(bytes(broken)).damage
    assert (damage.offset, damage.length, damage.reason) == (hit.start, hit.end - hit.start, "checksum does not hold")


def test_no_bit_of_the_seal_can_change_unseen(body: bytes) -> None:
    seal = read_seal(body)
    assert seal
    for bit in range(seal.length * 8, len(body) * 8):
        broken = bytearray(body)
        broken[bit // 8] ^= 1 << bit % 8
        segment = read_segment(bytes(broken))
        assert segment.damage, f"bit {bit}"
        assert segment.samples.height == TICKS * 2, f"bit {bit}"
