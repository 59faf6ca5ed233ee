"""What one tick of the node agent costs for eight GPUs, against the stub driver of the tests.

Prints CPU time a tick and the agent's memory. The stub's own work is in the figures; a real driver's is not.
Usage: python benchmarks/agent_tick.py [TICKS]
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUB = Path(__file__).resolve().parents[1] / "tests" / "telemetry" / "agent" / "stub" / "nvml_stub.c"


def main(ticks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libnvidia-ml.so.1"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O2", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, STUB, "-lpthread"],
            check=True,
        )
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # the loader finds it by its name from now on
        measure(Path(folder) / "spool", ticks)


class Clock:
    """Seconds that pass only when told, so that a tick of 1 s need not be waited for."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def measure(spool_dir: Path, ticks: int) -> None:
    from sources.telemetry.agent import COLUMNS, Spool
    from sources.telemetry.nvml_collector import Collector
    from sources.telemetry.spool import SpoolWriter

    writer = SpoolWriter(spool_dir, cluster="c", node="n", source="nvml", is_synthetic=True, columns=COLUMNS)
    spool, clock = Spool(writer), Clock()
    collector = Collector(spool, columns=[c.name for c in COLUMNS], interval_s=1.0, clock=clock, notify=print)
    at_us = time.time_ns() // 1000
    collector.start(at_us)
    collector.tick(at_us)  # the first use of everything is not counted
    spent = 0.0
    for second in range(1, ticks + 1):
        clock.now += 1.0
        before = time.process_time()
        collector.tick(at_us + second * 1_000_000)
        spent += time.process_time() - before
    gpus = collector.gpus
    collector.close()
    spool.close()
    written = sum(path.stat().st_size for path in spool_dir.glob("*.seg"))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{gpus} GPUs, {len(COLUMNS)} columns, {ticks} ticks of 1 s, every 60th with the slow readings")
    print(f"CPU a tick: {spent / ticks * 1000:.2f} ms = {spent / ticks * 100:.2f} % of one core at 1 s")
    print(f"memory: {rss:.1f} MB; spool: {written / ticks:.0f} bytes a tick")


if __name__ == "__main__":
    os.environ.pop("NVML_STUB_CONTROL", None)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
