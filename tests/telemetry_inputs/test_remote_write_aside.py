"""What a Prometheus writes that makes no row: the rest lands, and the quarantine says what was left out."""

from __future__ import annotations

import json
import socket
import struct
import threading
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from ingest.segments import samples
from telemetry_inputs.test_remote_write import GPU, T0, field, request, series, varint

from assets.ingest import ingest
from pipelines.commands import receive
from sources.telemetry_inputs.receiver import Receiver
from sources.telemetry_inputs.remote_write import samples_of
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QuarantineRecord

POWER, CLOCK, XID = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS"
NO_UUID = {"gpu": "0", "Hostname": "n1", "cluster": "c7"}
OTHER = {**GPU, "UUID": "GPU-bb", "Hostname": "n2"}


class Clock:
    now = T0 / 1000

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def house(home: Path) -> Home:
    return Home(home).prepare()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def receiver(house: Home, clock: Clock, told: list[str]) -> Receiver:
    return Receiver(house.inbox, settle_s=60, clock=clock, notify=told.append)


def aside(house: Home) -> list[tuple[object, ...]]:
    """Rule, place, metric and count of each row of the quarantine, after an ingest."""
    ingest(house)
    rows = Lake(house.lake).scan(QuarantineRecord).collect().sort("rule", "locator", "raw")
    raw = [json.loads(text) for text in rows["raw"]]
    assert set(rows["source"]) <= {"prometheus"}
    return [
        (*row, r["metric"], r["samples"]) for row, r in zip(rows.select("rule", "locator").rows(), raw, strict=True)
    ]


@pytest.mark.parametrize("at", [T0 * 1000, T0 // 1000, 0, (1 << 63) - 1, (1 << 64) - 5, 1 << 63])
def test_a_time_that_is_none_is_set_aside_and_the_rest_lands(house: Home, receiver: Receiver, at: int) -> None:
    receiver.accept(request(series(POWER, [(at, 1.0), (T0, 401.5)]), series(POWER, [(T0, 99.5)], OTHER)))
    done = receiver.settle(everything=True)
    assert (done.samples, done.aside, done.segments) == (2, 1, 2)
    assert aside(house) == [("a sample's time lies between 2000 and 2100", "c7/n1", POWER, 1)]
    signed = at - (1 << 64) if at >> 63 else at
    (reason,) = Lake(house.lake).scan(QuarantineRecord).collect()["reason"]
    assert reason == f"the time {signed} is no instant in ms between 2000 and 2100: mind its unit"
    assert sorted(samples(house).select("gpu_uuid", "power_w").rows()) == [("GPU-aa", 401.5), ("GPU-bb", 99.5)]


def test_a_journal_that_holds_such_a_time_is_read_after_a_restart(house: Home, receiver: Receiver) -> None:
    receiver.accept(request(series(POWER, [(T0 * 1000, 1.0)])))
    receiver.accept(request(series(POWER, [(T0, 99.5)], OTHER)))
    assert receiver.settle().carried == 1
    assert Receiver(house.inbox, settle_s=60).settle(everything=True).samples == 1
    assert list((house.inbox / "remote-write").iterdir()) == []
    aside(house)
    assert samples(house)["power_w"].to_list() == [99.5]


def test_a_carried_request_is_told_once(house: Home, receiver: Receiver, clock: Clock) -> None:
    late = series(POWER, [(T0 + 60_000, 2.0)])
    receiver.accept(request(series(CLOCK, [(T0 * 1000, 1.0)]), series(CLOCK, [(T0, 1.0)], NO_UUID), late))
    clock.now += 61
    receiver.accept(request(late))
    first = receiver.settle()
    assert (first.samples, first.carried, first.aside) == (1, 2, 0)
    assert receiver.settle(everything=True).aside == 1
    assert [row[2:] for row in aside(house)] == [(CLOCK, 1), (CLOCK, 1)]


def test_the_upper_bits_of_a_long_time_count_for_nothing() -> None:
    body = field(1, field(2, b"\x09" + struct.pack("<d", 1.5) + b"\x10" + varint((1 << 69) + T0)))
    assert [at for _, at, _ in samples_of(body)] == [T0]


def test_a_series_without_uuid_is_told_with_metric_node_and_count(
    house: Home, receiver: Receiver, told: list[str]
) -> None:
    receiver.accept(request(series(POWER, [(T0, 1.0), (T0 + 1000, 2.0)], NO_UUID)))
    receiver.settle(everything=True)
    assert aside(house) == [("a GPU is its UUID", "c7/n1", POWER, 2)]
    assert told == [
        f"2 samples of {POWER} from c7/n1 are set aside: the series names no UUID; an index says nothing after a reboot"
    ]


def test_two_values_for_one_instant_are_told_and_the_first_stands(house: Home, receiver: Receiver) -> None:
    for value in (401.5, 401.5, 333.0):  # sent twice is no conflict
        receiver.accept(request(series(POWER, [(T0, value)])))
    receiver.settle(everything=True)
    assert aside(house) == [("one value for a series and instant", "c7/n1", POWER, 1)]
    (raw,) = Lake(house.lake).scan(QuarantineRecord).collect()["raw"]
    row = json.loads(raw)
    assert (row["gpu"], row["first_ms"], row["value"], row["kept"]) == ("GPU-aa", T0, "333.0", "401.5")
    assert samples(house)["power_w"].to_list() == [401.5]


def test_what_comes_with_every_scrape_is_told_at_once_then_once_an_hour(
    house: Home, receiver: Receiver, clock: Clock, told: list[str]
) -> None:
    for k in range(122):  # one a minute
        receiver.accept(request(series(POWER, [(T0 + k * 60_000, 1.0)], NO_UUID)))
        clock.now += 60
        receiver.settle()
    receiver.settle(everything=True)
    counts = [int(line.split(" ", 1)[0]) for line in told]
    assert counts == [1, 60, 60, 1]  # the last when it stops
    assert sorted(row[3] for row in aside(house)) == sorted(counts)


def test_a_value_no_row_can_hold_takes_no_other_with_it(house: Home, receiver: Receiver) -> None:
    receiver.accept(request(series(XID, [(T0, -1e300)]), series(POWER, [(T0, 401.5)])))
    receiver.accept(request(series(POWER, [(T0, 99.5)], OTHER)))
    assert receiver.settle(everything=True).segments == 2
    assert aside(house) == [("a sample can be read", "c7/n1", XID, 1)]
    assert sorted(samples(house)["power_w"]) == [99.5, 401.5]


def test_a_node_with_an_odd_name_makes_a_segment(house: Home, receiver: Receiver) -> None:
    receiver.accept(request(series(POWER, [(T0, 401.5)], {**GPU, "Hostname": "../n\0é\n" + "x" * 300})))
    assert receiver.settle(everything=True).segments == 1
    aside(house)
    assert samples(house)["power_w"].to_list() == [401.5]


def test_a_step_that_fails_is_one_line_and_keeps_the_journal(
    house: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.accept(request(series(POWER, [(T0, 401.5)])))
    with monkeypatch.context() as patch:
        patch.setattr("sources.telemetry_inputs.receiver.to_frames", lambda *_: 1 // 0)
        receive._settle(receiver, everything=True)
    assert capsys.readouterr().err.count("\n") == 1
    assert receiver.settle(everything=True).samples == 1


@pytest.mark.parametrize("listen", ["127.0.0.1:99999", "127.0.0.1:²", "9201x", "256.0.0.1:x"])
def test_an_address_that_is_none_is_a_usage_error(home: Path, listen: str) -> None:
    done = CliRunner().invoke(receive.command, ["--listen", listen, "--home", str(home)])
    assert done.exit_code == 2
    assert "is no address: give HOST:PORT" in done.output


def test_a_port_in_use_is_a_usage_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = CliRunner().invoke(receive.command, ["--listen", listen, "--home", str(home)])
    assert done.exit_code == 2
    assert f"cannot listen on {listen}" in done.output


def test_a_sender_that_goes_away_is_no_news(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    server = receive.serve(receiver, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        gone = socket.create_connection(("127.0.0.1", server.server_port))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes with a reset
        gone.sendall(b"POST /api/v1/write HTTP/1.1\r\nContent-Length: 1000\r\n\r\nhalf")
        gone.close()
        for error in (BrokenPipeError(), ConnectionResetError()):
            try:
                raise error
            except OSError:
                server.handle_error(None, ("10.0.0.1", 1))
    finally:
        server.shutdown()
        server.server_close()  # waits for its threads
    assert capsys.readouterr().err == ""


def test_a_request_that_fails_otherwise_is_one_line(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    with receive.serve(receiver, "127.0.0.1", 0) as server:
        try:
            int("odd")
        except ValueError:
            server.handle_error(None, ("10.0.0.1", 1))
    said = capsys.readouterr().err
    assert said.startswith("almanac receive: a request of 10.0.0.1 failed: ValueError: ")
    assert said.count("\n") == 1


def test_records_of_a_receiver_are_no_warning_of_a_newer_agent() -> None:
    from assets.telemetry_unknown import unknown_kinds

    assert unknown_kinds({"set_aside": pl.DataFrame()}) == []
