"""`almanac backfill` against a Prometheus of our own: two GPUs that draw 300 W and 400 W without end."""

from __future__ import annotations

import datetime as dt
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines.cli import almanac, guarded
from pipelines.commands.backfill import _key
from warehouse.home import Home

POWER = {"GPU-a": 300, "GPU-b": 400}
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


class Server(ThreadingHTTPServer):
    """Keeps the queries, can fail from one instant on, and wants a token where one is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []
        self.fails_from: dt.datetime | None = None
        self.token = ""
        self.ahead = dt.timedelta()  # how far its clock is ahead
        self.warning = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        if parts.path != "/api/v1/query_range":
            return self._answer(404, b"")
        if self.server.token and self.headers["Authorization"] != f"Bearer {self.server.token}":
            return self._answer(401, b"")
        first, last = (dt.datetime.fromisoformat(query[name]) for name in ("start", "end"))
        if self.server.fails_from and last >= self.server.fails_from:
            return self._answer(501, b"no longer here")
        self.server.asked.append((f"{first:%H:%M}", f"{last:%H:%M}"))
        if self.server.warning:
            empty = {"status": "success", "data": {"resultType": "matrix", "result": []}}
            return self._answer(200, json.dumps({**empty, "warnings": [self.server.warning]}).encode())
        step = dt.timedelta(seconds=int(query["step"]))
        at = [first + k * step for k in range((last - first) // step + 1)]
        found = [
            {
                "metric": {"__name__": name, "UUID": gpu, "Hostname": "n1"},
                "values": [[(t + self.server.ahead).timestamp(), v(t)] for t in at],
            }
            for gpu, power in POWER.items()
            for name, v in (
                ("DCGM_FI_DEV_POWER_USAGE", lambda _t, p=power: str(p)),
                (
                    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                    lambda t, p=power: str(p * 1000 * (t - START).total_seconds()),
                ),
            )
        ]
        body = {"status": "success", "data": {"resultType": "matrix", "result": found}}
        return self._answer(200, json.dumps(body).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def prometheus() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def backfill(home: Path, server: Server, *more: str) -> int:
    span = ["--from", "2026-11-01T00:00:00Z", "--to", "2026-11-01T02:30:00Z"]
    args = ["backfill", server.url, *span, "--cluster", "c1", "--home", str(home), *more]
    return guarded(lambda: almanac(args=args, standalone_mode=False))


def rows(home: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(Home(home).database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        return con.sql(query).fetchall()


def test_a_range_lands_once_and_is_rolled_up(prometheus: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prometheus.token = "s3cret"  # noqa: S105 - of this test
    monkeypatch.setenv("ALMANAC_PROMETHEUS_TOKEN", "s3cret")
    assert backfill(home, prometheus) == 0
    assert prometheus.asked == [("00:00", "01:00"), ("01:00", "02:00"), ("02:00", "02:29")]
    # 150 points a minute apart of two GPUs; the points at 01:00 and 02:00 came twice.
    assert rows(home, "select count(*), count(distinct sampled_at), min(cluster) from telemetry.gpu_samples") == [
        (300, 150, "c1")
    ]
    energy = "select gpu_uuid, sum(energy_j) from telemetry.gpu_hours group by 1 order by 1"
    assert rows(home, energy) == [("GPU-a", 300.0 * 149 * 60), ("GPU-b", 400.0 * 149 * 60)]
    assert rows(home, "select sum(rows_duplicate) from ops.loads where table_name = 'telemetry.gpu_samples'") == [(4,)]
    assert rows(home, "select count(*) from ops.payloads where url like '%s3cret%'") == [(0,)]
    before = list(prometheus.asked)
    assert backfill(home, prometheus) == 0
    assert prometheus.asked == before  # what is in the archive is not asked for again
    monkeypatch.delenv("ALMANAC_PROMETHEUS_TOKEN")
    assert backfill(home, prometheus, "--again") == 1


def test_an_interrupted_back_fill_goes_on_where_it_stopped(
    prometheus: Server, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prometheus.fails_from = START + dt.timedelta(hours=2)
    assert backfill(home, prometheus) == 1
    assert "call it again to go on" in capsys.readouterr().err
    assert rows(home, "select count(*) from telemetry.gpu_samples") == [(2 * 61,)]
    prometheus.fails_from = None
    assert backfill(home, prometheus) == 0
    assert prometheus.asked == [("00:00", "01:00"), ("01:00", "02:00"), ("02:00", "02:29")]
    assert rows(home, "select count(*) from telemetry.gpu_samples") == [(300,)]


@pytest.mark.parametrize(
    "span", [("--to", "2026-10-31T00:00:00Z"), ("--to", "2199-01-01T00:00:00Z"), ("--from", "noon")]
)
def test_a_range_that_is_none_is_a_wrong_call(prometheus: Server, home: Path, span: tuple[str, str]) -> None:
    assert backfill(home, prometheus, *span) == 2
    assert prometheus.asked == []


SPAN = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-01T01:00:00Z")


def test_another_server_or_cluster_is_asked_though_the_range_is_the_same(
    prometheus: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"http://localhost:{prometheus.server_port}"
    base = ["--home", str(home), *SPAN]

    def call(url: str, cluster: str) -> int:
        return guarded(lambda: almanac(args=["backfill", url, *base, "--cluster", cluster], standalone_mode=False))

    assert [call(prometheus.url, "a"), call(other, "b"), call(prometheus.url, "c")] == [0, 0, 0]
    assert len(prometheus.asked) == 3
    # two GPUs, 60 points a minute apart, in each cluster
    told = "select cluster, count(*) from telemetry.gpu_samples group by 1 order by 1"
    assert rows(home, told) == [("a", 120), ("b", 120), ("c", 120)]
    with_name = prometheus.url.replace("http://", "http://user:pass@") + "/"
    assert [call(other, "b"), call(with_name, "a")] == [0, 0]
    assert len(prometheus.asked) == 3  # both are in the archive, whoever asks


def test_a_default_port_and_a_password_make_no_other_server() -> None:
    answered = _key("https://prom/x/api/v1/query_range?step=60", "c1", {"step": "60"})
    assert _key("https://me:s3cret@PROM:443/x/", "c1", {"step": "60"}) == answered
    assert _key("http://prom:443/x", "c1", {"step": "60"}) != answered


def test_points_ahead_of_the_clock_are_refused(
    prometheus: Server, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prometheus.ahead = dt.timedelta(days=365 * 50)
    assert backfill(home, prometheus, *SPAN) == 1
    said = capsys.readouterr()
    assert "1 answers, 0 new rows, 0 already there, 120 refused" in said.out
    assert "refused 120 by sampled_at is not ahead of the clock: sampled_at is 2076-10-19" in said.err


def test_an_empty_answer_shows_the_warning_of_the_server(
    prometheus: Server, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prometheus.warning = "store-1 is not available"
    assert backfill(home, prometheus, *SPAN) == 1
    said = capsys.readouterr().err
    assert "the server warns: store-1 is not available" in said
    assert "--observed-at" not in said


@pytest.mark.parametrize("url", ["ftp://user:s3cret@x", "prometheus:9090", "http://[x"])
def test_an_address_that_is_none_is_a_wrong_call(home: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert guarded(lambda: almanac(args=["backfill", url, *SPAN, "--home", str(home)], standalone_mode=False)) == 2
    said = capsys.readouterr().err
    assert "is no address of a Prometheus" in said
    assert "s3cret" not in said
    assert said.count("\n") == 1
