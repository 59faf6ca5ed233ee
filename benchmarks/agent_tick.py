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


def measure(spool_dir: Path, ticks: int) -> None:
    from sources.telemetry.agent import COLUMNS, Spool
    from sources.telemetry.nvml_collector import Collector
    from sources.telemetry.spool import SpoolWriter

    writer = SpoolWriter(spool_dir, cluster="c", node="n", source="nvml", is_synthetic=True, columns=COLUMNS)
    spool = Spool(writer)
    collector = Collector(spool, columns=[c.name for c in COLUMNS], interval_s=1.0, notify=print)
    at_us = time.time_ns() // 1000
    collector.start(0.0, at_us)
    collector.tick(0.0, at_us)  # the slow one, and the first use of everything
    cpu = time.process_time()
    for second in range(1, ticks + 1):
        collector.tick(float(second) % 59 + 1, at_us + second * 1_000_000)  # stays within the fast loop
    fast = (time.process_time() - cpu) / ticks
    cpu = time.process_time()
    collector.tick(1e6, at_us + (ticks + 1) * 1_000_000)
    slow = time.process_time() - cpu
    collector.close()
    spool.close()
    written = sum(path.stat().st_size for path in spool_dir.glob("*.seg"))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"fast tick: {fast * 1000:.2f} ms CPU for {collector.samples_taken // (ticks + 2)} GPUs ({len(COLUMNS)} columns)"
    )
    print(f"slow tick (each minute): {slow * 1000:.1f} ms CPU")
    print(f"share of one core at 1 s: {fast * 100 + slow / 60 * 100:.2f} %")
    print(f"memory: {rss:.1f} MB; spool: {written / (ticks + 2):.0f} bytes a tick")


if __name__ == "__main__":
    os.environ.pop("NVML_STUB_CONTROL", None)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
