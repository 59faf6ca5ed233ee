"""A Prometheus writes to us: bytes, journal, segments, rows."""

from __future__ import annotations

import errno
import http.client
import math
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import cramjam
import polars as pl
import pytest

from assets.telemetry_clean import clean_segments
from pipelines.commands.receive import serve
from sources.base import ParseError
from sources.telemetry.segment import read_segments
from sources.telemetry_inputs.receiver import Receiver
from sources.telemetry_inputs.remote_write import samples_of, unpacked

T0 = 1_793_491_200_000  # 2026-11-01 00:00 UTC in ms
GPU = {"UUID": "GPU-aa", "gpu": "0", "Hostname": "n1", "modelName": "NVIDIA H100 80GB HBM3", "cluster": "c7"}


def varint(number: int) -> bytes:
    out = bytearray()
    while True:
        out.append((number & 0x7F) | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(out)


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def series(name: str, points: Sequence[tuple[int, float]], labels: Mapping[str, str] = GPU) -> bytes:
    told = {"__name__": name, **labels}
    body = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in sorted(told.items()))
    for at, value in points:
        body += field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at))
    return field(1, body)


def request(*some: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(b"".join(some)))


class Clock:
    now = T0 / 1000

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receiver(tmp_path: Path, clock: Clock) -> Receiver:
    return Receiver(tmp_path, cluster="c0", settle_s=60, clock=clock)


def rows(folder: Path) -> pl.DataFrame:
    segments = sorted(folder.glob("*.seg"))
    cleaned = clean_segments(read_segments([(p.name, p) for p in segments]))
    return cleaned.frames["telemetry.gpu_samples"].sort("sampled_at", "gpu_uuid")


def test_samples_are_read_with_their_labels_and_ends_of_series_are_not() -> None:
    stale = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
    told = list(
        samples_of(unpacked(request(series("m", [(T0, 1.5), (T0 + 1, stale), (T0 + 2, math.nan)], {"a": "b"}))))
    )
    assert told[0] == ((("__name__", "m"), ("a", "b")), T0, 1.5)
    assert [at for _, at, _ in told] == [T0, T0 + 2]


def test_labels_may_stand_after_the_samples() -> None:
    label = field(1, field(1, b"__name__") + field(2, b"m"))
    point = field(2, b"\x09" + struct.pack("<d", 1.5) + b"\x10" + varint(T0))
    late = field(1, field(1, b"a") + field(2, b"b"))
    for order in ((label, late, point), (point, label, late), (label, point, late)):
        assert list(samples_of(field(1, b"".join(order)))) == [((("__name__", "m"), ("a", "b")), T0, 1.5)]


@pytest.mark.parametrize("body", [b"", b"no snappy", request(b"\x0a\xff\x01")])
def test_a_body_that_is_no_request_is_refused(receiver: Receiver, body: bytes) -> None:
    if body == b"":
        body = b"\x01"
    with pytest.raises(ParseError):
        receiver.accept(body)
    assert receiver.settle(everything=True).samples == 0


def test_a_request_cut_anywhere_never_reads_as_a_whole_one() -> None:
    whole = series("m", [(T0, 1.5)], {"a": "b"})
    for length in range(1, len(whole)):
        with pytest.raises(ParseError):
            list(samples_of(whole[:length]))


def test_metrics_of_one_scrape_in_several_requests_become_one_row(
    receiver: Receiver, clock: Clock, tmp_path: Path
) -> None:
    receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0, 401.5)])))
    receiver.accept(request(series("DCGM_FI_DEV_GPU_TEMP", [(T0, 55.0)])))
    assert receiver.settle().segments == 0  # it may not be complete
    clock.now += 59
    receiver.accept(request(series("DCGM_FI_DEV_SM_CLOCK", [(T0, 1980.0)])))
    clock.now += 59
    assert receiver.settle().segments == 0
    clock.now += 2
    assert receiver.settle().samples == 3
    (row,) = rows(tmp_path).select("cluster", "node", "gpu_uuid", "power_w", "temperature_c", "sm_clock_mhz").rows()
    assert row == ("c7", "n1", "GPU-aa", 401.5, 55.0, 1980)
    assert receiver.settle().samples == 0


def test_an_instant_that_waits_is_carried_and_nothing_of_it_is_lost(
    receiver: Receiver, clock: Clock, tmp_path: Path
) -> None:
    receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0, 1.0)])))
    clock.now += 61
    receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0 + 60_000, 2.0)])))
    done = receiver.settle()
    assert (done.samples, done.carried) == (1, 1)
    assert rows(tmp_path)["power_w"].to_list() == [1.0]
    receiver.settle(everything=True)
    assert rows(tmp_path)["power_w"].to_list() == [1.0, 2.0]


def test_what_was_acknowledged_survives_a_crash_and_a_torn_end_is_left_out(
    receiver: Receiver, clock: Clock, tmp_path: Path
) -> None:
    receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0, 7.0)])))
    (journal,) = (tmp_path / "remote-write").glob("*.journal")
    with journal.open("ab") as file:
        file.write(journal.read_bytes()[:-3])  # a second request, cut by the crash before it was answered
    told: list[str] = []
    after = Receiver(tmp_path, settle_s=60, clock=clock, notify=told.append)
    after.settle(everything=True)
    assert rows(tmp_path)["power_w"].to_list() == [7.0]
    assert "torn" in told[0]


def test_a_full_disk_keeps_the_journal_whole_and_is_no_success(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0, 7.0)])))

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0 + 1000, 8.0)])))
    receiver.accept(request(series("DCGM_FI_DEV_POWER_USAGE", [(T0 + 2000, 9.0)])))
    receiver.settle(everything=True)
    assert rows(tmp_path)["power_w"].to_list() == [7.0, 9.0]


def test_an_xid_is_an_event_when_the_gauge_changes_also_between_two_steps(receiver: Receiver, tmp_path: Path) -> None:
    for k, code in enumerate((31, 31, 79)):
        receiver.accept(request(series("DCGM_FI_DEV_XID_ERRORS", [(T0 + k * 1000, float(code))])))
        receiver.settle(everything=True)
    batch = read_segments([(p.name, p) for p in sorted(tmp_path.glob("*.seg"))])
    told = clean_segments(batch).frames["telemetry.gpu_events"].sort("occurred_at")
    assert told.select("kind", "code", "severity").rows() == [("xid_last", 31, None), ("xid", 79, "fatal")]


def test_metrics_nobody_knows_are_counted_said_once_and_no_error(tmp_path: Path, clock: Clock) -> None:
    told: list[str] = []
    receiver = Receiver(tmp_path, settle_s=60, clock=clock, notify=told.append)
    for _ in range(2):
        receiver.accept(request(series("node_load1", [(T0, 1.0)], {"instance": "n1:9100"})))
        assert receiver.settle(everything=True).unknown == 1
    assert len(told) == 1
    assert "no metric of a GPU" in told[0]


def test_the_server_answers_as_prometheus_expects(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(receiver, "127.0.0.1", 0, "secret")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    good = request(series("DCGM_FI_DEV_POWER_USAGE", [(T0, 7.0)]))

    def post(body: bytes, path: str = "/api/v1/write", **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        told = {"Authorization": "Bearer secret", "Content-Encoding": "snappy"} | headers
        connection.request("POST", path, body, told)
        status = connection.getresponse().status
        connection.close()
        return status

    try:
        synced: list[int] = []
        flush = os.fdatasync
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", lambda fd: (flush(fd), synced.append(fd)))
            assert post(good) == 204
        assert len(synced) == 1  # on the disk before the answer
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", _refusing)
            assert post(good) == 503  # Prometheus keeps it and sends it again
        assert post(b"nonsense") == 400
        assert post(good, Authorization="Bearer wrong") == 401
        assert post(good, path="/elsewhere") == 404
        assert post(good, **{"Content-Encoding": "gzip"}) == 415
        assert post(good, **{"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}) == 415
    finally:
        server.shutdown()
        server.server_close()
    assert receiver.settle(everything=True).samples == 1


def _refusing(_fd: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
