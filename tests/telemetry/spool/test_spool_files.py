from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from spool_writers import START_US, by_time, sealed, write_ticks, writer

from assets.telemetry_clean import clean_segments
from sources.telemetry.segment import read_segment, read_segments
from sources.telemetry.spool_format import MAGIC


def powers(directory: Path) -> list[float]:
    return [p for path in sealed(directory) for p in by_time(read_segment(path).samples)["power_w"].to_list()]


class FullDisk:
    """Stands in for `os.write`: takes `room` bytes, part of a write included, then says the disk is full."""

    def __init__(self) -> None:
        self.room: int | None = None
        self._write = os.write

    def __call__(self, fd: int, data: Any) -> int:
        if self.room is None:
            return self._write(fd, data)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self._write(fd, data[: self.room])
        self.room -= taken
        return taken


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    full = FullDisk()
    monkeypatch.setattr("sources.telemetry.spool.os.write", full)
    return full


@pytest.mark.parametrize("room", [0, 1, 23, 24, 25, 60])
def test_a_full_disk_keeps_what_was_acknowledged_and_resumes(tmp_path: Path, disk: FullDisk, room: int) -> None:
    said: list[str] = []
    with writer(tmp_path, notify=said.append) as spool:
        assert all(write_ticks(spool, range(3), ("GPU-a",)))
        disk.room = room
        taken = write_ticks(spool, range(3, 6), ("GPU-a",))
        refused = [3 + i for i, ok in enumerate(taken) if not ok]
        assert refused == [4, 5] if room == 60 else refused == [3, 4, 5]  # a frame of one GPU takes 52 bytes
        disk.room = None
        assert all(write_ticks(spool, range(6, 8), ("GPU-a",)))
    segment = read_segment(sealed(tmp_path)[0])
    assert segment.damage == []
    assert segment.samples["power_w"].to_list() == [100.0 + k for k in range(8) if k not in refused]
    (gap,) = segment.records["gap"].to_dicts()
    assert (gap["reason"], gap["rows"]) == ("disk_full", len(refused))
    assert len(said) == 2
    assert "No space left" in said[0]
    assert "writing again" in said[1]


def test_a_full_disk_at_the_first_segment_is_survived(tmp_path: Path, disk: FullDisk) -> None:
    with writer(tmp_path) as spool:
        disk.room = 30
        assert write_ticks(spool, range(2)) == [False, False]
        assert list(tmp_path.iterdir()) == []
        disk.room = None
        assert write_ticks(spool, range(2, 4)) == [True, True]
    assert powers(tmp_path) == [102.0, 102.0, 103.0, 103.0]


def test_a_disk_too_full_to_seal_loses_nothing(tmp_path: Path, disk: FullDisk) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(2))
        disk.room = 10
        assert not spool.seal()
        assert sealed(tmp_path) == []
        disk.room = None
        write_ticks(spool, range(2, 3))
    assert powers(tmp_path) == [100.0, 100.0, 101.0, 101.0, 102.0, 102.0]
    assert read_segment(sealed(tmp_path)[0]).damage == []


def test_a_new_gpu_on_a_full_disk_waits_for_its_segment(tmp_path: Path, disk: FullDisk) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(1), ("GPU-a",))
        disk.room = 0
        assert write_ticks(spool, range(1, 2), ("GPU-b",)) == [False]
        disk.room = None
        assert write_ticks(spool, range(2, 3), ("GPU-a", "GPU-b")) == [True]
    assert [by_time(read_segment(p).samples)["gpu_uuid"].to_list() for p in sealed(tmp_path)] == [
        ["GPU-a"],
        ["GPU-a", "GPU-b"],
    ]


def test_records_a_full_disk_refused_are_written_later(tmp_path: Path, disk: FullDisk) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(1))
        disk.room = 0
        assert not spool.record("gpu_event", {"occurred_at": START_US, "kind": "xid", "code": 79}, START_US)
        disk.room = None
        write_ticks(spool, range(1, 2))
    assert read_segment(sealed(tmp_path)[0]).records["gpu_event"]["code"].to_list() == [79]


def test_over_its_bound_the_oldest_segments_go_and_each_is_recorded(tmp_path: Path) -> None:
    said: list[str] = []
    with writer(tmp_path, segment_bytes=2_000, max_bytes=10_000, notify=said.append) as spool:
        assert all(write_ticks(spool, range(500)))
    assert sum(p.stat().st_size for p in sealed(tmp_path)) <= 10_000
    batch = read_segments([(p.name, p) for p in sealed(tmp_path)])
    kept = [p for _, frame in batch.samples for p in by_time(frame)["power_w"].to_list()]
    assert kept[-1] == 599.0
    assert kept == sorted(kept)
    # Segments with a gap record may have been dropped too; those that are left name what went before them.
    gaps = batch.records["gap"]
    assert set(gaps["reason"]) == {"spool_dropped"}
    assert gaps["rows"].min() > 0
    reasons = clean_segments(batch).frames["telemetry.null_reasons"]
    assert set(reasons["column_name"]) == {"*"}
    assert set(reasons["device"]) == {"*"}
    assert "dropped" in said[0]


def test_a_bound_too_small_for_two_segments_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two segments"):
        writer(tmp_path, segment_bytes=1000, max_bytes=1999)


def open_file(directory: Path) -> Path:
    (path,) = directory.glob("*.open")
    return path


def crashed(directory: Path, ticks: int = 3) -> Path:
    """A file as a killed agent leaves it: every write done, no seal, no lock."""
    spool = writer(directory)
    write_ticks(spool, range(ticks))
    os.close(spool._fd)
    spool._fd = -1
    return open_file(directory)


@pytest.mark.parametrize("torn", [b"", b"\xa1", b"\xa1\x1c\xf7\x0e" + bytes(40)])
def test_what_a_crash_left_is_recovered_at_the_next_start(tmp_path: Path, torn: bytes) -> None:
    path = crashed(tmp_path)
    with path.open("ab") as file:
        file.write(torn)
    writer(tmp_path, stream_id="next").close()
    (recovered,) = sealed(tmp_path)
    segment = read_segment(recovered)
    assert by_time(segment.samples)["power_w"].to_list() == [100.0, 100.0, 101.0, 101.0, 102.0, 102.0]
    assert segment.damage == []
    assert segment.segment_id == "0123456789abcdef-00000000"


def test_a_bad_spot_in_a_recovered_segment_is_still_reported(tmp_path: Path) -> None:
    path = crashed(tmp_path)
    body = bytearray(path.read_bytes())
    at = body.index(b"\xa1\x1c\xf7\x0e\x02")
    body[at + 30] ^= 1
    path.write_bytes(body)
    writer(tmp_path, stream_id="next").close()
    segment = read_segment(sealed(tmp_path)[0])
    assert by_time(segment.samples)["power_w"].to_list() == [101.0, 101.0, 102.0, 102.0]
    assert [d.offset for d in segment.damage] == [at]


def test_a_crash_before_the_first_sample_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "c1~n1~nvml~x.open").write_bytes(b"")
    spool = writer(tmp_path)
    write_ticks(spool, range(1))
    os.truncate(open_file(tmp_path), len(MAGIC))
    os.close(spool._fd)
    spool._fd = -1
    writer(tmp_path).close()
    assert sealed(tmp_path) == []


def test_a_crash_between_seal_and_rename_is_finished(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(2))
    (path,) = sealed(tmp_path)
    body = path.read_bytes()
    path.rename(path.with_suffix(".open"))
    writer(tmp_path, stream_id="next").close()
    assert sealed(tmp_path)[0].read_bytes() == body


def test_a_living_agents_segment_is_left_alone(tmp_path: Path) -> None:
    with writer(tmp_path) as spool:
        write_ticks(spool, range(1))
        writer(tmp_path, stream_id="other").close()
        assert sealed(tmp_path) == []
        write_ticks(spool, range(1, 2))
    assert powers(tmp_path) == [100.0, 100.0, 101.0, 101.0]


def test_killed_without_warning_every_acknowledged_tick_is_there(tmp_path: Path) -> None:
    code = """
        import sys
        sys.path[:0] = [sys.argv[2]]
        from spool_writers import writer, write_ticks
        spool = writer(sys.argv[1])
        for k in range(10_000_000):
            assert all(write_ticks(spool, range(k, k + 1)))
            if k % 50 == 49:
                print(k, flush=True)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    acknowledged = [int(child.stdout.readline()) for _ in range(20)][-1]
    child.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in child.stdout.read().splitlines() if line.isdigit())])
    child.wait()
    child.stdout.close()
    writer(tmp_path, stream_id="next").close()
    back = powers(tmp_path)[::2]
    assert back == [100.0 + k for k in range(len(back))]
    assert len(back) > acknowledged


def test_data_reaches_the_disk_within_the_stated_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[float] = []
    now = [0.0]
    monkeypatch.setattr("sources.telemetry.spool.os.fdatasync", lambda _fd: synced.append(now[0]))
    with writer(tmp_path, fsync_ms=1000, clock=lambda: now[0]) as spool:
        for k in range(50):
            now[0] = k / 10
            write_ticks(spool, range(k, k + 1))
    assert synced == [1.0, 2.0, 3.0, 4.0]
