"""The same generated telemetry into this project, VictoriaMetrics and Prometheus: ingest, disk, memory, queries.

Belongs here: the comparison. Does not belong here: the generator (`spool_bulk.py`), the table of results
(`__main__.py`). Both peers take the same bytes, Prometheus remote write; this project takes its own spool segments.
CPU is the server process's own (user and system), memory its peak; the client is not counted. On Debian:
`apt-get install --no-install-recommends victoria-metrics prometheus`. A peer that is not installed is left out.

Run: `python -m benchmarks.telemetry_peers [--rows 300000] [--gpus 128 512 4096]`; prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

INTERVAL_S = 10.0
REPEATS = 5
TICKS_A_REQUEST = 60
SENDERS = 2  # one for each core: with one sender a peer waits half of the time
NODE_GPUS = 8
TICK = os.sysconf("SC_CLK_TCK")
# Peers take the same readings of the links as this project: once an hour, and whenever a counter grew.
LINK_ERRORS = "nvlink_error_count"
LINK = ("node", "device", "link_index", "counter")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="samples of one GPU at one instant, at each size")
    parser.add_argument("--gpus", type=int, nargs="+", default=[128, 512, 4096])
    parser.add_argument("--only", choices=["almanac", "victoria-metrics", "prometheus"])
    parser.add_argument("--no-links", action="store_true", help="samples alone, without the counters of links")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ours:
        print(json.dumps(ours(given.ours)))
        return
    for gpus in given.gpus:
        for result in compare(gpus, max(30, given.rows // gpus), given.only, links=not given.no_links):
            print(json.dumps(result), flush=True)


def compare(gpus: int, ticks: int, only: str | None, *, links: bool) -> Iterator[dict[str, Any]]:
    """One result for each system at one size."""
    from benchmarks.spool_bulk import bulk_segments

    with tempfile.TemporaryDirectory(prefix="almanac-bench-") as folder:
        root = Path(folder)
        segments = root / "home" / "inbox"
        rows = bulk_segments(segments, nodes=gpus // NODE_GPUS, tick_count=ticks, interval_s=INTERVAL_S, links=links)
        about = {"gpus": gpus, "ticks": ticks, "rows": rows}
        bodies = root / "bodies"
        values = write_requests(segments, bodies) if only != "almanac" else 0
        for system, run in (("victoria-metrics", victoria), ("prometheus", prometheus)):
            if only in (None, system):
                _settle(bodies)
                if shutil.which(system):
                    yield about | {"system": system, "values": values} | run(root / system, bodies, values)
                else:
                    yield about | {"system": system, "skipped": f"{system} is not installed"}
        if only in (None, "almanac"):
            _settle(segments)
            told = subprocess.run(
                [sys.executable, "-m", "benchmarks.telemetry_peers", "--ours", str(root / "home")],
                check=True,
                capture_output=True,
                text=True,
            )
            yield about | {"system": "almanac"} | json.loads(told.stdout.splitlines()[-1])


def _settle(inputs: Path) -> None:
    """No system pays for what another left to be written, or for inputs that have left the memory since they were made."""
    os.sync()
    for path in inputs.rglob("*"):
        if path.is_file():
            path.read_bytes()


def ours(root: Path) -> dict[str, Any]:
    """Ingest with the gate, compaction, roll-up and the queries, in a process of its own."""
    import resource

    import duckdb
    import great_expectations.expectations  # noqa: F401 - imports are not counted
    import polars as pl

    import warehouse.quality.gx  # noqa: F401
    from assets.ingest import ingest
    from assets.maintenance import maintain
    from assets.publish import publish_home
    from assets.rollup import roll_up
    from warehouse.home import Home
    from warehouse.lake import Lake
    from warehouse.schema.declare import lake_schema
    from warehouse.schema.telemetry import GpuSample
    from warehouse.schema.telemetry_fleet import LinkCounter

    home = Home(root).prepare()
    _import_all(root / "first")
    wall, cpu = time.perf_counter(), time.process_time()
    report = ingest(home)
    ingest_s, ingest_cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lake = Lake(home.lake)
    measured = [n for n, kind in lake_schema(GpuSample).items() if kind.is_numeric() and n != "gpu_index"]
    values = sum(lake.scan(GpuSample).select(pl.col(measured).count()).collect().row(0))
    values += lake.scan(LinkCounter).select(pl.col("value").count()).collect().item()
    wall = time.perf_counter()
    roll_up(home)
    rollup_s = time.perf_counter() - wall
    maintain(home)
    files = [uri for table in (GpuSample, LinkCounter) for uri in lake.open(table).file_uris()]
    size = sum(Path(urllib.parse.urlparse(uri).path).stat().st_size for uri in files)
    publish_home(home)
    with duckdb.connect(str(home.database), read_only=True) as con:
        con.execute("set threads = 2")
        one = con.sql("select max(gpu_uuid) from telemetry.gpu_hours").fetchall()[0][0]
        queries = {
            "rollup_s": "select gpu_uuid, epoch_us(sampled_at) // 3600000000 as h, avg(power_w), max(power_w), "
            "avg(gpu_util_ratio) from telemetry.gpu_samples group by all",
            "one_gpu_s": f"select * from telemetry.gpu_samples where gpu_uuid = '{one}'",
            "top_links_s": "select node, device, link_index, counter, sum(delta) as d from telemetry.link_counters "
            "where link_kind = 'nvlink' group by all order by d desc nulls last limit 10",
        }
        timed = {name: best(lambda sql=sql: con.execute(sql).fetchnumpy()) for name, sql in queries.items()}
    return {
        "values": values,
        "landed": report.rows_landed,
        "ingest_s": ingest_s,
        "cpu_s": ingest_cpu_s,
        "peak_mb": peak,
        "bytes_per_value": size / values,
        "full_rollup_s": rollup_s,
        **timed,
    }


def _import_all(root: Path) -> None:
    """One reading through the street: what is imported at first use is no part of the measurement."""
    from assets.ingest import ingest
    from benchmarks.spool_bulk import bulk_segments
    from warehouse.home import Home

    home = Home(root).prepare()
    bulk_segments(home.inbox, nodes=1, tick_count=1)
    ingest(home)


def victoria(folder: Path, bodies: Path, values: int) -> dict[str, Any]:
    port = _free_port()
    arguments = [
        f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y",
        "-search.maxUniqueTimeseries=10000000", "-search.maxSamplesPerQuery=1000000000", "-search.disableCache",
        "-search.maxPointsPerTimeseries=1000000", "-search.maxExportSeries=10000000",
    ]  # fmt: skip
    return _serve(
        ["victoria-metrics", *arguments],
        port,
        bodies,
        values,
        after_ingest=lambda base: [_get(base + "/internal/force_flush"), _get(base + "/internal/force_merge")],
        size=lambda _base: _disk(folder / "data") + _disk(folder / "indexdb"),
    )


def prometheus(folder: Path, bodies: Path, values: int) -> dict[str, Any]:
    port = _free_port()
    folder.mkdir(parents=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    arguments = [
        f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--web.enable-admin-api",
        "--storage.tsdb.retention.time=100y", "--query.max-samples=1000000000", "--log.level=error",
    ]  # fmt: skip

    def snapshot(base: str) -> int:
        told = json.loads(_get(base + "/api/v1/admin/tsdb/snapshot", method="POST"))
        return _disk(folder / "data" / "snapshots" / told["data"]["name"])

    return _serve(["prometheus", *arguments], port, bodies, values, after_ingest=lambda _base: [], size=snapshot)


def _serve(
    command: list[str],
    port: int,
    bodies: Path,
    values: int,
    *,
    after_ingest: Callable[[str], object],
    size: Callable[[str], int],
) -> dict[str, Any]:
    base = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(base)
        cpu, wall = _cpu_s(server.pid), time.perf_counter()
        with ThreadPoolExecutor(SENDERS) as senders:
            list(senders.map(lambda body: _post(base + "/api/v1/write", body.read_bytes()), sorted(bodies.iterdir())))
        ingest_s, cpu_s = time.perf_counter() - wall, _cpu_s(server.pid) - cpu
        after_ingest(base)
        time.sleep(2)
        peak = _peak_mb(server.pid)
        told = json.loads((bodies.parent / "about.json").read_text())
        end, span = told["to_s"], f"{told['to_s'] - told['from_s'] + 1}s"
        queries = {
            "rollup_s": ("query_range", "avg_over_time(power_w[1h])", {"start": told["from_s"] // 3600 * 3600 + 3600,
                                                                     "end": end + 3600, "step": 3600}),
            "one_gpu_s": ("query", f'{{gpu_uuid="{told["gpu"]}"}}[{span}]', {"time": end}),
            "top_links_s": ("query", f"topk(10, increase({LINK_ERRORS}[{span}]))", {"time": end}),
        }  # fmt: skip
        timed = {}
        for name, (path, query, more) in queries.items():
            url = f"{base}/api/v1/{path}?" + urllib.parse.urlencode({"query": query, **more})
            timed[name] = best(lambda url=url: json.loads(_get(url)))
        return {
            "ingest_s": ingest_s,
            "cpu_s": cpu_s,
            "peak_mb": peak,
            "bytes_per_value": size(base) / values,
            **timed,
        }
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def write_requests(segments: Path, bodies: Path) -> int:
    """Remote-write requests of the segments, one file each, in order of time; returns the number of values."""
    import cramjam
    import polars as pl

    from sources.telemetry.segment import read_segment

    bodies.mkdir()
    values = 0
    first, last, gpu = 0, 0, ""
    for path in sorted(segments.glob("*.seg")):
        segment = read_segment(path)
        rows = segment.samples.sort("gpu_uuid", "sampled_at")
        links = segment.records.get("link_counter", pl.DataFrame(schema={"sampled_at": pl.Int64}))
        links = links.with_columns(pl.col("sampled_at").cast(pl.Int64) // 1000)
        names = [c for c in rows.columns if rows.schema[c].is_numeric() and c != "gpu_index"]
        at_ms = rows.get_column("sampled_at").dt.epoch("ms")
        first, last = int(at_ms.min()) // 1000, int(at_ms.max()) // 1000  # type: ignore[arg-type]
        for part, begin in enumerate(range(first * 1000, last * 1000 + 1, int(TICKS_A_REQUEST * INTERVAL_S * 1000))):
            until = begin + int(TICKS_A_REQUEST * INTERVAL_S * 1000)
            request: list[bytes] = []
            for board in rows.filter(at_ms.is_between(begin, until, closed="left")).partition_by("gpu_uuid"):
                gpu = board.item(0, "gpu_uuid")
                labels = {"cluster": "bulk", "node": board.item(0, "node"), "gpu_uuid": gpu}
                points = _points(board.get_column("sampled_at").dt.epoch("ms").to_numpy().astype(np.uint64))
                for name in names:
                    column = board.get_column(name)
                    known = column.is_not_null().to_numpy() if column.null_count() else slice(None)
                    some = points[known]
                    if len(some):
                        some["value"] = column.drop_nulls().to_numpy()
                        request.append(_series({"__name__": name, **labels}, some.tobytes()))
                        values += len(some)
            now = links.filter(pl.col("sampled_at").is_between(begin, until, closed="left"))
            for link in now.partition_by(LINK) if now.height else ():
                labels = {name: str(link.item(0, name)) for name in LINK}
                points = _points(link.get_column("sampled_at").to_numpy().astype(np.uint64))
                points["value"] = link.get_column("value").to_numpy()
                request.append(_series({"__name__": LINK_ERRORS, "cluster": "bulk", **labels}, points.tobytes()))
                values += len(points)
            (bodies / f"{part:06d}-{path.stem}").write_bytes(bytes(cramjam.snappy.compress_raw(b"".join(request))))
    (bodies.parent / "about.json").write_text(json.dumps({"from_s": first, "to_s": last, "gpu": gpu}))
    return values


# A sample: field 2 of a series, 16 bytes long; value as double in field 1, time as six-byte varint in field 2.
_POINT = np.dtype([("head", "V3"), ("value", "<f8"), ("tag", "u1"), ("time", "V6")])


def _points(at_ms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Samples at these times, their values still to be filled in."""
    points = np.zeros(len(at_ms), _POINT)
    points["head"] = np.frombuffer(b"\x12\x10\x09", "V3")[0]
    points["tag"] = 0x10
    digits = np.stack([(at_ms >> np.uint64(7 * k)) & np.uint64(0x7F) for k in range(6)], axis=1).astype(np.uint8)
    digits[:, :5] |= 0x80
    points["time"] = digits.view("V6").ravel()
    return points


def _series(labels: dict[str, str], points: bytes) -> bytes:
    body = b"".join(_field(1, _field(1, k.encode()) + _field(2, v.encode())) for k, v in sorted(labels.items()))
    return _field(1, body + points)


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while True:
        out.append((number & 0x7F) | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(out)


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls: other work only ever slows one down."""
    times = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return min(times)


def _post(url: str, body: bytes) -> None:
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310 - our own server
        answer.read()


def _get(url: str, method: str = "GET") -> bytes:
    request = urllib.request.Request(url, method=method)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310 - our own server
        told: bytes = answer.read()
    return told


def _wait(base: str) -> None:
    for _ in range(300):
        try:
            _get(base + "/api/v1/query?query=1")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{base} does not answer")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
