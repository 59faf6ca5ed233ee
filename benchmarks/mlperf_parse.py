"""How fast an MLPerf log is read on one core, and how much memory it takes.

The peer is the plain way: every line that holds the token goes through `json.loads`. Both read the same bytes
from a file in the page cache; the best of several rounds counts, since other work only ever slows a round down.
The log is written for the purpose in the proportions of a public one: ranks before the token, library noise
between the lines, an evaluation now and then. Memory is measured in a process of its own, which reads the log
inside a bundle, as the source does.

    python benchmarks/mlperf_parse.py [--megabytes 200] [--rounds 5] [--real FOLDER]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sources.mlperf.bundle import member_of_file, open_bundle, read_bundle
from sources.mlperf.mllog import TOKEN, read_log

TARGET_MB_S = 150
START = 1_714_684_949_797


def entry(key: str, value: object, ms: int, **metadata: object) -> str:
    body = {
        "namespace": "",
        "time_ms": START + ms,
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": {"file": "/workspace/llm/custom_callbacks.py", "lineno": 71, **metadata},
    }
    return f":::MLLOG {json.dumps(body)}\n"


def lines(count: int) -> Iterator[str]:
    """`count` steps of one rank: a loss each, statistics and noise now and then, rarely an evaluation."""
    yield entry("global_batch_size", 1152, 0) + entry("run_start", None, 10)
    for step in range(count):
        yield f" 0: {entry('train_loss', 1.25 + step / 7, 20 + step, samples_count=step * 8, lr=0.0003 / (1 + step))}"
        if step % 8 == 0:
            yield f" 0: {entry('tracked_stats', {'throughput': 41.5 + step}, 21 + step, step=step)}"
        if step % 16 == 0:
            yield f" 3: node7:2112:2190 [3] NCCL INFO Channel {step % 32}/0 : 8[0] -> 0[0] via P2P/CUMEM\n"
        if step % 400 == 0:
            yield entry("eval_accuracy", 5.7 - step * 1e-7, 22 + step, samples_count=step * 8)
    yield entry("run_stop", None, 30 + count, samples_count=count * 8, status="success")


def write_log(path: Path, megabytes: int) -> None:
    sample = "".join(lines(20_000)).encode()
    with path.open("w") as stream:
        for text in lines(20_000 * (megabytes << 20) // len(sample)):
            stream.write(text)


def plain(path: Path) -> int:
    count = 0
    with path.open("rb") as stream:
        for line in stream:
            if TOKEN in line:
                json.loads(line.rpartition(TOKEN)[2])
                count += 1
    return count


def ours(path: Path) -> int:
    with path.open("rb") as stream:
        return read_log(stream).line_count


def best_mb_s(reader: Callable[[Path], int], path: Path, rounds: int) -> tuple[float, int]:
    best, found = 0.0, 0
    for _ in range(rounds):
        begun = time.process_time()
        found = reader(path)
        best = max(best, path.stat().st_size / 1e6 / (time.process_time() - begun))
    return best, found


def peak_mb(path: Path) -> float:
    """Peak memory of a process that reads the log out of a bundle, less what an empty one needs."""
    used = [
        float(subprocess.run([sys.executable, __file__, "--read", str(p)], check=True, capture_output=True).stdout)
        for p in (path, Path("/dev/null"))
    ]
    return used[0] - used[1]


def read_once(path: Path) -> None:
    for _, stream in read_bundle(open_bundle([member_of_file("r/o/results/s/b/result_0.txt", path)])):
        read_log(stream)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def real_log(folder: Path, path: Path) -> None:
    """The public logs of a folder, one after the other, until there are 50 MB of them."""
    logs = [log.read_bytes() for log in sorted(folder.rglob("results/*/*/result_*.txt"))]
    whole = [log for log in logs if not _corrupt(log)]
    size = sum(map(len, whole))
    with path.open("wb") as stream:
        for _ in range(max(1, (50 << 20) // size)):
            stream.writelines(log if log.endswith(b"\n") else log + b"\n" for log in whole)


def _corrupt(log: bytes) -> bool:
    from io import BytesIO

    return read_log(BytesIO(log)).corrupt_count > 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--read", type=Path)
    given = parser.parse_args()
    if given.read:
        read_once(given.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result_0.txt"
        if given.real:
            real_log(given.real, path)
        else:
            write_log(path, given.megabytes)
        peer, counted = best_mb_s(plain, path, min(given.rounds, 3))
        speed, found = best_mb_s(ours, path, given.rounds)
        assert found == counted
        size = path.stat().st_size / 1e6
        print(f"log              {size:8.1f} MB, {found:,} log lines")
        print(f"json.loads       {peer:8.1f} MB/s")
        print(f"read_log         {speed:8.1f} MB/s, {speed / peer:.1f} times the peer (target {TARGET_MB_S} MB/s)")
        print(f"memory           {peak_mb(path):8.1f} MB above an empty log")


if __name__ == "__main__":
    main()
