"""When a request may go out: a rate for each group of hosts, and the breaker that notices a missing network.

Belongs here: pacing and reachability, shared by all threads. Does not belong here: HTTP itself, robots.txt.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from sources.base import OfflineError

# Requests a second. SEC allows 10 over all its hosts and answers more with a block; arXiv asks for one in 3 s.
RATES: Mapping[str, float] = {"sec.gov": 8.0, "arxiv.org": 1 / 3}
DEFAULT_RATE = 2.0
# Two publishers of ours on unrelated networks: reaching either of them means that there is a network.
PROBE_HOSTS: Sequence[tuple[str, int]] = (("www.sec.gov", 443), ("raw.githubusercontent.com", 443))
PROBE_SECONDS = 2.0

Clock = Callable[[], float]
Sleep = Callable[[float], None]


class HostLimiter:
    """Gives each group of hosts evenly spaced slots; callers in any thread wait for theirs."""

    def __init__(
        self,
        rates: Mapping[str, float] = RATES,
        default_rate: float = DEFAULT_RATE,
        clock: Clock = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._rates = dict(rates)
        self._default_rate = default_rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at: dict[str, float] = {}

    def group(self, host: str) -> str:
        """The name under which a host is counted: the listed domain above it, else the host itself."""
        for domain in self._rates:
            if host == domain or host.endswith(f".{domain}"):
                return domain
        return host

    def wait(self, host: str) -> float:
        """Take the next slot of the host's group and sleep until it; returns the seconds slept."""
        group = self.group(host)
        with self._lock:
            now = self._clock()
            slot = max(now, self._free_at.get(group, now))
            self._free_at[group] = slot + 1 / self._rates.get(group, self._default_rate)
        pause = slot - now
        if pause > 0:
            self._sleep(pause)
        return pause

    def hold(self, host: str, seconds: float) -> None:
        """Let no thread ask this group again before `seconds` have passed (the server said Retry-After)."""
        group = self.group(host)
        with self._lock:
            self._free_at[group] = max(self._free_at.get(group, 0.0), self._clock() + seconds)


PROCESS_LIMITER = HostLimiter()


def probe_network(hosts: Sequence[tuple[str, int]] = PROBE_HOSTS, seconds: float = PROBE_SECONDS) -> bool:
    """Whether any of the hosts accepts a connection within `seconds`; nothing is sent."""
    reached = threading.Event()
    pending = threading.Semaphore(0)

    def knock(address: tuple[str, int]) -> None:
        try:
            socket.create_connection(address, timeout=seconds).close()
            reached.set()
        except OSError:
            pass
        finally:
            pending.release()

    for address in hosts:
        threading.Thread(target=knock, args=(address,), name="probe", daemon=True).start()
    deadline = time.monotonic() + seconds
    for _ in hosts:
        if reached.is_set() or not pending.acquire(timeout=max(0.0, deadline - time.monotonic())):
            break
    return reached.is_set()


class Breaker:
    """Tells "no network" from "one host is down", and after that refuses every request of the run at once.

    A failed connection to a public host makes it probe two others; only if they are dead too is the network
    held to be gone. Behind a proxy (`can_probe=False`) two distinct hosts must fail in a row instead. Private
    addresses are neither counted nor refused, so a mirror inside an air-gapped site keeps working.
    """

    def __init__(self, probe: Callable[[], bool] = probe_network) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._failed: set[str] = set()
        self._reason = ""

    @property
    def open(self) -> bool:
        """Whether the network is held to be gone."""
        return bool(self._reason)

    def check(self) -> None:
        """Raise `OfflineError` if the network is gone."""
        if self._reason:
            raise OfflineError(self._reason)

    def succeeded(self) -> None:
        """A host answered."""
        if self._failed:
            with self._lock:
                self._failed.clear()

    def failed(self, host: str, cause: str, *, can_probe: bool) -> None:
        """No connection to a public host came about; raises `OfflineError` if that is true of all."""
        with self._lock:
            first = host not in self._failed
            self._failed.add(host)
            if not self._reason and first:
                dead = not self._probe() if can_probe else len(self._failed) > 1
                if dead:
                    self._reason = (
                        f"no network: {host} and others cannot be reached ({cause}); "
                        "the archive and the last good data stay in use, or set HTTPS_PROXY"
                    )
        self.check()
