"""The node's own network ports, read once a minute beside the GPUs: InfiniBand and RoCE counters from sysfs.

Belongs here: reading the living folder without ever holding the agent up. Does not belong here: what the files say
(`port_files.py`), GPUs, the clock of the fast loop. A card whose firmware hangs keeps every reader of its files
waiting, so each card has a thread of its own: one that does not come back costs its own counters, and is told.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sources.telemetry.nvml_guard import Guard
from sources.telemetry.nvml_ledger import WHOLE_ROW, Emit, LinkLedger
from sources.telemetry.port_files import (
    PORT,
    PortCount,
    Unread,
    link_kinds,
    port_counts,
    port_names,
    with_bytes,
)

PORTS: Final = Path("/sys/class/infiniband")
TABLE: Final = "link_counters"
# What the kernel answers for a counter that a card does not keep.
_ABSENT: Final = {
    errno.EINVAL: "not_supported",
    errno.EOPNOTSUPP: "not_supported",
    errno.ENOSYS: "not_supported",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.ENOENT: "not_found",
}
Read = Callable[[Path], str]


class PortWatch:
    """Reads the ports under `folder` at the start and every `every_s`, and tells what changed as link counters.

    A file that does not come back within `hang_s`, or an error that nobody foresaw, is told once, for its card, as
    the reason why its link counters are unknown. `emit` is called from several threads; `on_look` before each reading
    that is due. Without the folder: nothing.
    """

    def __init__(
        self,
        folder: Path | str,
        emit: Emit,
        *,
        every_s: float,
        hang_s: float,
        notify: Callable[[str], None],
        read: Read | None = None,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = Path(folder)
        self._every_s, self._hang_s = every_s, hang_s
        self._read = read or read_text
        self._on_look = on_look
        self._lock = threading.Lock()
        self._guard = Guard(emit, notify)
        self._ledgers = {kind: LinkLedger(emit, kind=kind) for kind in ("infiniband", "roce")}
        self._seen: set[str] = set()
        self._at_work: dict[str, tuple[threading.Thread, float, list[str]]] = {}  # card -> thread, since, file
        self._stop = threading.Event()
        self._clock = threading.Thread(target=self._repeat, name="almanac-ports", daemon=True)

    def start(self) -> None:
        """Begin the first reading and those after it; returns at once."""
        self.look()
        self._clock.start()

    def stop(self, wait_s: float = 2.0) -> None:
        """Read no more. Readings that have begun get `wait_s` together to end."""
        self._stop.set()
        deadline = time.monotonic() + wait_s
        for thread in [self._clock, *(thread for thread, _, _ in list(self._at_work.values()))]:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def look(self) -> None:
        """Begin a reading of every card that none is under way of; tell of those that hang or are gone."""
        try:
            present = {entry.name for entry in self._folder.iterdir()}  # the kernel has the list: no card is asked
        except OSError:
            present = set()
        for card in sorted(self._seen - present):
            self._fail(card, FileNotFoundError("the card is gone from the node"))
        self._seen |= present
        for card in sorted(present):
            thread, since, files = self._at_work.get(card, (None, 0.0, []))
            if thread is None or not thread.is_alive():
                self._begin(card)
            elif time.monotonic() - since > self._hang_s:
                waits_for = files[-1] if files else card
                self._fail(card, TimeoutError(f"{waits_for} has not come back for {self._hang_s:g} s"))

    def _repeat(self) -> None:
        while not self._stop.wait(self._every_s):
            self._on_look()
            self.look()

    def _begin(self, card: str) -> None:
        files: list[str] = []
        thread = threading.Thread(target=self._read_card, args=(card, files), name=f"almanac-{card}", daemon=True)
        self._at_work[card] = (thread, time.monotonic(), files)
        thread.start()

    def _read_card(self, card: str, files: list[str]) -> None:
        begun = time.monotonic()
        try:
            texts, refused = self._texts(card, files)
            if time.monotonic() - begun > self._hang_s:
                return  # numbers of different ages would stand under one time; the next reading tells
            at_us = time.time_ns() // 1000
            with self._lock:
                self._guard.run(at_us, card, TABLE, WHOLE_ROW, lambda: self._note(at_us, card, texts, refused))
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must not end the other cards
            self._fail(card, error)

    def _texts(self, card: str, files: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Texts by file, and for each file that could not be read the reason. `files` grows by what is being read."""
        texts: dict[str, str] = {}
        refused: dict[str, str] = {}
        for name in port_names(self._folder, card):
            files.append(name)
            try:
                texts[name] = self._read(self._folder / name)
            except OSError as error:
                refused[name] = _ABSENT.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, "error").lower()
        return texts, refused

    def _note(self, at_us: int, card: str, texts: Mapping[str, str], refused: Mapping[str, str]) -> None:
        told = list(port_counts(texts))
        missing = dict(refused) | {one.name: "not_a_number" for one in told if isinstance(one, Unread)}
        kinds = link_kinds(texts)
        counts = list(with_bytes(one for one in told if isinstance(one, PortCount)))
        for kind, ledger in self._ledgers.items():
            known = [(one.port, one.counter, one.value, "") for one in counts if one.link_kind == kind]
            unknown = [
                (int(found["port"]), found["counter"], None, reason)
                for name, reason in missing.items()
                if (found := PORT.search(name)) and kinds.get((card, found["port"]), "infiniband") == kind
            ]
            ledger.note(at_us, card, [*known, *unknown])

    def _fail(self, card: str, error: Exception) -> None:
        with self._lock:
            self._guard.fail(time.time_ns() // 1000, card, TABLE, WHOLE_ROW, error)


def read_text(file: Path) -> str:
    """What stands in a file. Raises `OSError`."""
    return file.read_text("utf-8", "replace")
