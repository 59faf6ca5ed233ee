"""The node agent: reads the GPUs of this node on time and writes them to the spool until it is told to stop.

Belongs here: the clock of the loop, the watchdog, the end. Does not belong here: what a tick reads
(`nvml_collector.py`), segment files (`spool.py`). Standard library, nvidia-ml-py and click only.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pynvml

from sources.base import AlmanacError
from sources.telemetry.nvml import BOARD_COLUMNS
from sources.telemetry.nvml_collector import Collector, NeedsNewProcessError, Row
from sources.telemetry.port_watch import PORTS, PortWatch
from sources.telemetry.spool import MIB, SpoolWriter
from sources.telemetry.spool_format import GPU_COLUMNS

SOURCE: Final = "nvml"
PORT_SOURCE: Final = "infiniband"  # the same as of snapshots that are loaded by hand: one series for one counter
PORT_SEGMENT_BYTES: Final = 8 * MIB
PORT_SPOOL_BYTES: Final = 256 * MIB
SEAL_S: Final = 300.0
HANG_S: Final = 30.0  # opening a GPU without persistence mode takes seconds; nothing healthy takes this long
STOP_GRACE_S: Final = 5.0
STEP_US: Final = 1_000_000
COLUMNS: Final = tuple(column for column in GPU_COLUMNS if column.name in BOARD_COLUMNS)
_LOG: Final = logging.getLogger(__name__)
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class HungDriverError(AlmanacError):
    """A driver call does not come back; only a new process helps. What was written is sealed."""


class DriverReplacedError(AlmanacError):
    """The driver was exchanged under the agent; only a new process loads the library that fits it."""


class NoGpusError(AlmanacError):
    """There is nothing to collect from, and one reading was asked for."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a run of the agent did."""

    ticks: int
    samples: int
    missed_ticks: int


def gpus_present() -> bool:
    """Whether NVML sees a GPU here; opens none of them."""
    try:
        pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
    except pynvml.NVMLError:
        return False
    try:
        return bool(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return False
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def collect(
    spool_dir: Path | str,
    *,
    interval_s: float = 10.0,
    duration_s: float | None = None,
    cluster: str = "local",
    node: str = "",
    once: bool = False,
    stop: threading.Event | None = None,
    hang_s: float = HANG_S,
    retry_s: float = 1.0,
    slow_s: float = 60.0,
    ports_dir: Path | str = PORTS,
    notify: Callable[[str], None] = _LOG.warning,
) -> Collected:
    """Collect into `spool_dir` until `duration_s` is over, `stop` is set, or after one tick with `once`.

    The reading runs in a thread of its own, so that the caller's thread can watch it and can be interrupted.
    The network ports under `ports_dir` are read beside it every `slow_s`, into a stream of segments of their own.
    Raises `HungDriverError`, `DriverReplacedError` (both: start a new process), `NoGpusError` (with `once`),
    and `OSError` when the spool folder cannot be made. What was written is sealed in every case but a disk
    that hangs.
    """
    boot_id = _boot_id()
    open_spool = partial(
        SpoolWriter,
        spool_dir,
        cluster=cluster,
        node=node or os.uname().nodename,
        is_synthetic=False,
        boot_id=boot_id,
        notify=notify,
    )
    spool = Spool(open_spool(source=SOURCE, columns=COLUMNS))
    ports_spool = Spool(
        open_spool(source=PORT_SOURCE, columns=(), segment_bytes=PORT_SEGMENT_BYTES, max_bytes=PORT_SPOOL_BYTES)
    )
    ports = PortWatch(
        ports_dir, ports_spool.record, every_s=slow_s, hang_s=hang_s, notify=notify, on_look=ports_spool.seal_if_due
    )
    collector = Collector(
        spool,
        columns=[column.name for column in COLUMNS],
        interval_s=interval_s,
        slow_s=slow_s,
        retry_s=retry_s,
        boot_id=boot_id,
        notify=notify,
    )
    loop = _Loop(collector, spool, interval_s=interval_s, duration_s=0.0 if once else duration_s, stop=stop)
    ports.start()
    try:
        _watch(loop, spool, hang_s)
    finally:
        ports.stop()
        ports_spool.close(wait_s=2.0)
    spool.close()
    if loop.failure:
        raise loop.failure
    if once and not loop.collected.samples:
        raise NoGpusError(f"no GPU answered: {collector.down or 'NVML finds none'}; load the driver, then try again")
    return loop.collected


class Spool:
    """The writer behind a lock: ticks, the event thread and the watchdog all write."""

    def __init__(self, writer: SpoolWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._is_closed = False
        self._sealed_at = time.monotonic()

    def samples(self, at_us: int, rows: Sequence[Row]) -> None:
        with self._lock:
            if not self._is_closed:
                self._writer.samples(at_us, rows)

    def record(self, kind: str, row: Mapping[str, Any]) -> None:
        with self._lock:
            if not self._is_closed:
                self._writer.record(kind, row)

    def slot(self, uuid: str, *, index: int | None, parent: str | None, accelerator_id: str | None) -> None:
        with self._lock:
            if not self._is_closed:
                self._writer.slot(uuid, gpu_index=index, parent_gpu_uuid=parent, accelerator_id=accelerator_id)

    def seal_if_due(self) -> None:
        """Finish a segment that nothing was added to for long: a stream without news must not hold its last back."""
        with self._lock:
            if not self._is_closed and time.monotonic() - self._sealed_at >= SEAL_S:
                self._writer.seal()
                self._sealed_at = time.monotonic()

    def close(self, gap: Mapping[str, Any] | None = None, *, wait_s: float = -1) -> bool:
        """Seal, after a last record where one is given. False when the writer itself does not come back."""
        if not self._lock.acquire(timeout=wait_s):
            return False
        try:
            if not self._is_closed:
                self._is_closed = True
                if gap:
                    self._writer.record("gap", gap)
                self._writer.close()
        finally:
            self._lock.release()
        return True


class WallClock:
    """The time that samples carry, watched against the one that no one sets. A drift by NTP is no step."""

    def __init__(self) -> None:
        self._offset_us: int | None = None

    def stepped_us(self, wall_us: int, monotonic_us: int) -> int:
        """By how much the clock was set since the last call, 0 where it was not; negative: set back."""
        before, self._offset_us = self._offset_us, wall_us - monotonic_us
        step = 0 if before is None else self._offset_us - before
        return step if abs(step) >= STEP_US else 0


class _Loop:
    """Ticks at absolute deadlines: a late tick does not move the next one, and ticks that fell out are told."""

    def __init__(
        self,
        collector: Collector,
        spool: Spool,
        *,
        interval_s: float,
        duration_s: float | None,
        stop: threading.Event | None,
    ) -> None:
        self._collector = collector
        self._spool = spool
        self._interval_s = interval_s
        self._duration_s = duration_s
        self.stop = stop or threading.Event()
        self.ticks = self.missed = 0
        self.busy_since: float | None = None
        self.failure: Exception | None = None
        self._wall = WallClock()
        collector.on_progress = self._progress

    @property
    def collected(self) -> Collected:
        return Collected(self.ticks, self._collector.samples_taken, self.missed)

    def hangs_since(self, now: float, hang_s: float) -> float | None:
        """Since when a call has not come back for too long, None while all is well."""
        waiting = [since for since in (self.busy_since, self._collector.watch.busy_since) if since is not None]
        oldest = min(waiting, default=now)
        return oldest if now - oldest > hang_s else None

    def run(self) -> None:
        try:
            self._run()
        except NeedsNewProcessError as error:
            self.failure = DriverReplacedError(f"the driver was exchanged ({error}); start the agent again")
        except Exception as error:  # noqa: BLE001 - carried to the caller's thread and raised there
            self.failure = error
        finally:
            self.busy_since = time.monotonic()
            self._collector.close()
            self.busy_since = None

    def _run(self) -> None:
        self._busy(lambda: self._collector.start(time.time_ns() // 1000))
        start = time.monotonic()
        number = 0
        while True:
            self._tell_step()
            self._busy(lambda: self._collector.tick(time.time_ns() // 1000))
            self.ticks += 1
            number += 1
            now = time.monotonic()
            number += self._count_missed(start + number * self._interval_s, now)
            due = start + number * self._interval_s
            if self._duration_s is not None and due - start >= self._duration_s:
                return
            if self.stop.wait(max(0.0, due - time.monotonic())):
                return

    def _tell_step(self) -> None:
        """A step of the clock tears or folds the record: it is told where it happened."""
        now_us = time.time_ns() // 1000
        step_us = self._wall.stepped_us(now_us, time.monotonic_ns() // 1000)
        if step_us:
            message = f"the node's clock was set {'forward' if step_us > 0 else 'back'} by {abs(step_us) / 1e6:.1f} s"
            row = {"occurred_at": now_us, "device": "node", "kind": "clock_step", "event_id": str(step_us)}
            self._spool.record("gpu_event", row | {"severity": "warning", "message": message})

    def _progress(self) -> None:
        self.busy_since = time.monotonic()

    def _busy(self, work: Callable[[], None]) -> None:
        self.busy_since = time.monotonic()
        try:
            work()
        finally:
            self.busy_since = None

    def _count_missed(self, due: float, now: float) -> int:
        """Deadlines from `due` on that are past and have a later one that is past too; the last is still kept."""
        ticks = int((now - due) // self._interval_s) if now > due else 0
        if ticks:
            self.missed += ticks
            from_us = time.time_ns() // 1000 - int((now - due) * 1e6)
            to_us = from_us + int((ticks - 1) * self._interval_s * 1e6)
            rows = ticks * self._collector.gpus
            self._spool.record("gap", {"from_at": from_us, "to_at": to_us, "reason": "missed_ticks", "rows": rows})
        return ticks


def _watch(loop: _Loop, spool: Spool, hang_s: float) -> None:
    """Run the loop in a thread and return when it ended. Raises `HungDriverError` when it does not come back."""
    worker = threading.Thread(target=loop.run, name="almanac-collect", daemon=True)
    worker.start()
    stopped_at: float | None = None
    while worker.is_alive():
        worker.join(min(0.5, hang_s / 4))
        now = time.monotonic()
        if loop.stop.is_set() and stopped_at is None:
            stopped_at = now
        since = loop.hangs_since(now, hang_s)
        if stopped_at is not None and now - stopped_at > STOP_GRACE_S:
            since = since or loop.busy_since or stopped_at
        if since is None or not worker.is_alive():
            continue
        seconds = now - since
        now_us = time.time_ns() // 1000
        gap = {"from_at": now_us - int(seconds * 1e6), "to_at": now_us, "reason": "driver_hung", "rows": None}
        is_sealed = spool.close(gap, wait_s=2.0)
        raise HungDriverError(
            f"a driver call has not come back for {seconds:.0f} s; "
            + ("the spool is sealed; " if is_sealed else "the spool does not answer either; ")
            + "start the agent again, and reset the GPU if it hangs again"
        )


def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None
