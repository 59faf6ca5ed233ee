"""An error that nobody foresaw costs what it hit and nothing else; what is lost is looked for less and less often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pynvml
import pytest

from sources.telemetry import nvml, nvml_collector
from sources.telemetry.nvml_collector import Collector
from sources.telemetry.nvml_errors import DriverDownError
from sources.telemetry.nvml_reading import Reading

SECOND_US = 1_000_000


class Sink:
    """What was written: rows by tick, records by kind."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []

    def samples(self, at_us: int, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self.rows += [(at_us // SECOND_US, uuid) for uuid, _ in rows]

    def record(self, kind: str, row: Mapping[str, Any]) -> None:
        self.told.append((kind, dict(row)))

    def slot(self, _uuid: str, **_facts: object) -> None:
        return

    def reasons(self) -> list[tuple[int, int | None, str, str, str, str]]:
        """(begin, end, device, table, part, what was said) of each reason `collector_error`, in seconds."""
        return [
            (
                row["from_at"] // SECOND_US,
                row["to_at"] and row["to_at"] // SECOND_US,
                row["device"],
                row["table_name"],
                row["column_name"],
                row["raw_value"],
            )
            for kind, row in self.told
            if kind == "null_reason" and row["reason"] == "collector_error"
        ]


class Board:
    """A GPU whose every part answers, until its name stands in `broken`."""

    index, pci_bus_id = 0, "00000000:01:00.0"

    def __init__(self, uuid: str) -> None:
        self.uuid, self.handle = uuid, object()
        self.broken: set[str] = set()

    def _part(self, name: str) -> None:
        if name in self.broken:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    def refresh(self) -> None:
        self._part("refresh")

    def inventory(self) -> list[tuple[str, dict[str, Any]]]:
        return [(self.uuid, {"driver": "1"})]

    def links(self) -> Iterator[tuple[int, str, int, str]]:
        self._part("links")
        yield 0, "replay", 1, ""

    def link_states(self) -> list[tuple[int, bool]]:
        self._part("link_states")
        return []

    def pcie(self) -> Iterator[tuple[int, str, int, str]]:
        self._part("pcie")
        yield 0, "replay", 1, ""

    def memory_errors(self) -> list[Any]:
        self._part("memory_errors")
        return []

    def processes(self) -> tuple[list[Any], str]:
        self._part("processes")
        return [], ""

    def read(self, _now: float, *, is_slow: bool) -> Iterator[tuple[str, Reading]]:
        self._part("read")
        assert is_slow
        reading = Reading()
        reading.put("power_w", 300.0)
        yield self.uuid, reading

    def close(self) -> None:
        return


class Driver:
    """Two boards; `opened` holds the times at which it was opened, `error` what opening gives."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.opened, self.error = clock, list[float](), 0
        self.every = [Board("GPU-a"), Board("GPU-b")]
        self.boards: dict[str, Board] = {}
        self.closed_doors: dict[int, str] = {}

    def open(self, _now: float) -> None:
        self.opened.append(self._clock.now)
        if self.error:
            raise DriverDownError(self.error)
        self.boards = {board.uuid: board for board in self.every}

    def close(self) -> None:
        self.boards = {}


class Watch:
    """An event thread that ends again as soon as it is started, while `error` is set."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.error: Exception | None = None
        self.starts = 0

    def start(self, _boards: object) -> None:
        self.starts += 1
        self.failure = self.error

    def stop(self) -> None:
        return


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A collector whose driver, event thread and clock are played."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.sink, self.lines = Clock(), Sink(), list[str]()
        self.driver, self.watch = Driver(self.clock), Watch()
        monkeypatch.setattr(nvml_collector, "Driver", lambda **_: self.driver)
        monkeypatch.setattr(nvml_collector, "EventWatch", lambda *_: self.watch)
        monkeypatch.setattr(nvml_collector, "SETTLE_S", 0)
        self.collector = Collector(
            self.sink, columns=["power_w"], interval_s=1, slow_s=1, clock=self.clock, notify=self.lines.append
        )

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.now += 1
            self.collector.tick(int(self.clock.now * SECOND_US))


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(monkeypatch)
    made.collector.start(0)
    made.tick()
    made.sink.told.clear()
    return made


SAID = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"


@pytest.mark.parametrize(
    ("part", "table", "name"),
    [
        ("refresh", "inventory", "*"),
        ("links", "link_counters", "nvlink"),
        ("link_states", "gpu_events", "link_down"),
        ("pcie", "link_counters", "pcie"),
        ("memory_errors", "ecc_counters", "*"),
        ("processes", "gpu_processes", "*"),
    ],
)
def test_a_part_of_the_slow_loop_that_fails_costs_no_sample_and_is_told_once(
    node: Node, part: str, table: str, name: str
) -> None:
    node.driver.every[0].broken = {part}
    node.tick(2)
    node.driver.every[0].broken.clear()
    node.tick(2)
    assert node.sink.rows == [(tick, uuid) for tick in range(1, 6) for uuid in ("GPU-a", "GPU-b")]
    assert node.sink.reasons() == [(2, None, "GPU-a", table, name, SAID), (4, 4, "GPU-a", table, name, SAID)]
    assert node.lines == [f"{table} of GPU-a cannot be read ({name}: {SAID}); the other readings go on"]


def test_a_part_that_fails_leaves_the_other_parts_of_its_board(node: Node) -> None:
    node.driver.every[0].broken = {"links", "processes"}
    hour_us = 3_600 * SECOND_US
    node.collector.tick(hour_us * 2)  # every counter is told again after an hour
    told = [(row["device"], row["link_kind"]) for kind, row in node.sink.told if kind == "link_counter"]
    assert told == [("GPU-a", "pcie"), ("GPU-b", "nvlink"), ("GPU-b", "pcie")]


def test_a_gpu_whose_samples_cannot_be_read_stops_no_other(node: Node) -> None:
    node.driver.every[0].broken = {"read"}
    node.tick(2)
    node.driver.every[0].broken.clear()
    node.tick()
    assert node.sink.rows == [(1, "GPU-a"), (1, "GPU-b"), (2, "GPU-b"), (3, "GPU-b"), (4, "GPU-a"), (4, "GPU-b")]
    assert node.sink.reasons() == [
        (2, None, "GPU-a", "gpu_samples", "*", SAID),
        (4, 4, "GPU-a", "gpu_samples", "*", SAID),
    ]


def test_an_event_thread_that_dies_is_told_and_started_again_less_and_less_often(node: Node) -> None:
    before = node.watch.starts
    node.watch.failure = node.watch.error = RuntimeError("odd line in the kernel's log")
    starts = []
    for _ in range(40):
        node.tick()
        starts.append(node.watch.starts - before)
    again_at = [k for k in range(1, 40) if starts[k] != starts[k - 1]]
    assert again_at == [1, 3, 7, 15, 31]  # a second later, then 2, 4, 8, 16 s after the one before
    assert len(node.sink.rows) == 2 * 41
    node.watch.error = None
    node.tick(40)
    said = "RuntimeError: odd line in the kernel's log"
    (begin, end) = node.sink.reasons()
    assert begin == (2, None, "*", "gpu_events", "*", said)
    assert end == (66, 66, "*", "gpu_events", "*", said)  # 32 s after the start at second 33, and alive a tick later
    assert node.watch.starts - before == 6


def test_a_driver_that_does_not_come_up_is_tried_less_and_less_often(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.driver.opened.clear()
    node.driver.error = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    with monkeypatch.context() as patch:
        patch.setattr(Board, "read", lambda *_, **__: (_ for _ in ()).throw(DriverDownError(9)))
        node.tick()
    lost_at = node.clock.now
    node.tick(1200)
    pauses = [b - a for a, b in zip([lost_at, *node.driver.opened], node.driver.opened, strict=False)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert [row["event_id"] for kind, row in node.sink.told if kind == "gpu_event"] == ["driver_not_loaded"] * 2
    assert len(node.lines) == 3  # one for each GPU, one for the driver; none for each attempt
    node.driver.error = 0
    node.tick(300)
    assert node.sink.rows[-2:] == [(int(node.clock.now), "GPU-a"), (int(node.clock.now), "GPU-b")]
    assert [row["kind"] for kind, row in node.sink.told if kind == "gpu_event"][2:] == ["returned"] * 2


def test_a_gpu_nobody_can_make_sense_of_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __init__(self, handle: int, uuid: str, **_: object) -> None:
            self.uuid = uuid
            if handle == 1:
                raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

        def seed(self, _now: float) -> None:
            return

    monkeypatch.setattr(nvml, "Board", Odd)
    monkeypatch.setattr(pynvml, "nvmlInitWithFlags", lambda _flags: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: f"GPU-{handle}")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda _uuid: 1)
    driver = nvml.Driver(progress=lambda: None)
    driver.open(0.0)
    assert set(driver.boards) == {"GPU-0", "GPU-2"}
    assert driver.closed_doors == {1: SAID}
    assert not driver.find_again("GPU-1", 1.0)
