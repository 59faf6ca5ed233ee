"""`almanac receive`: a Prometheus sends its samples here, and they become segments of the inbox.

Belongs here: HTTP. Does not belong here: the journal and the segments (`sources.telemetry_inputs.receiver`).
"""

from __future__ import annotations

import hmac
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import click

from pipelines.commands.options import home_option

if TYPE_CHECKING:
    from sources.telemetry_inputs.receiver import Receiver

TOKEN_VARIABLE = "ALMANAC_RECEIVE_TOKEN"  # noqa: S105 - the variable's name
MOST_BYTES = 32 << 20
MOST_PORT = 65_535


@click.command("receive")
@click.option("--listen", default="127.0.0.1:9201", show_default=True, help="Address and port to listen on.")
@click.option(
    "--cluster",
    envvar="ALMANAC_CLUSTER",
    default="unknown",
    show_default=True,
    help="Cluster of series that name none [env ALMANAC_CLUSTER].",
)
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(0, 3600),
    default=60.0,
    show_default=True,
    help="Seconds without news after which what was measured at one instant becomes rows.",
)
@home_option
def command(listen: str, cluster: str, settle_s: float, home_path: str | None) -> int:
    """Take Prometheus remote write (1.0) until stopped; answers 204 once a request is on the disk.

    In Prometheus: remote_write: [{url: "http://HOST:9201/api/v1/write"}]. With ALMANAC_RECEIVE_TOKEN set, requests
    must carry it as bearer token. `almanac ingest` lands the segments.
    """
    from sources.telemetry_inputs.receiver import Receiver
    from warehouse.home import Home

    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > MOST_PORT:
        raise click.UsageError(f"--listen {listen!r} is no address: give HOST:PORT, the port at most {MOST_PORT}")
    try:
        # A wrong address is told before a home is made.
        server = _Server((host or "0.0.0.0", int(port)), _Handler)  # noqa: S104 - asked for
    except (OSError, UnicodeError) as error:
        raise click.UsageError(f"cannot listen on {listen}: {getattr(error, 'strerror', None) or error}") from None
    with server:
        receiver = Receiver(Home.at(home_path).prepare().inbox, cluster=cluster, settle_s=settle_s, notify=_say)
        server.RequestHandlerClass = _handler(receiver, os.environ.get(TOKEN_VARIABLE, ""))
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        threading.Thread(target=server.serve_forever, name="almanac-receive", daemon=True).start()
        click.echo(f"listening on {listen}; segments go to {receiver.inbox}")
        while not stop.wait(max(1.0, settle_s / 4)):
            _settle(receiver)
        server.shutdown()
    _settle(receiver, everything=True)
    return 0


def serve(receiver: Receiver, host: str, port: int, token: str = "") -> ThreadingHTTPServer:
    """A server that hands bodies of POST /api/v1/write to the receiver. Call `serve_forever` on it."""
    return _Server((host, port), _handler(receiver, token))


def _handler(receiver: Receiver, token: str) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"receiver": receiver, "token": token})


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that goes away is no news: it sends again what was not answered. Anything else is one line."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            _say(f"a request of {client_address[0]} failed: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver
    token: str

    def do_POST(self) -> None:
        refused = self._refused()
        if refused:
            self.close_connection = True  # the body was not read
        status, text = refused or self._kept(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(status)
        if text:
            self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _refused(self) -> tuple[int, str] | None:
        """Why the request is not even read, by its head."""
        length = self.headers.get("Content-Length", "")
        given, wanted = self.headers.get("Authorization", ""), f"Bearer {self.token}"
        is_stranger = bool(self.token) and not hmac.compare_digest(given.encode(), wanted.encode())
        kind = self.headers.get("Content-Type", "").replace(" ", "")
        other = "proto=io.prometheus.write.v2" in kind or self.headers.get("Content-Encoding", "snappy") != "snappy"
        rules = (
            (is_stranger, 401, "give the bearer token"),
            (self.path.split("?", 1)[0] != "/api/v1/write", 404, "post to /api/v1/write"),
            (not length.isdigit(), 411, "say how long the body is"),
            (length.isdigit() and int(length) > MOST_BYTES, 413, f"send at most {MOST_BYTES} bytes at a time"),
            (other, 415, "send remote write 1.0: protobuf packed with snappy"),
        )
        return next(((status, f"{text}\n") for bad, status, text in rules if bad), None)

    def _kept(self, body: bytes) -> tuple[int, str]:
        from sources.base import ParseError

        try:
            self.receiver.accept(body)
        except ParseError as error:
            return 400, f"{error}\n"  # never good: Prometheus drops it and goes on
        except OSError as error:
            _say(f"not kept: {error.strerror or error}")
            return 503, "the disk refuses; send it again later\n"
        return 204, ""

    def log_message(self, *_: Any) -> None:
        """Quiet: a line for each request would be thousands an hour."""


def _settle(receiver: Receiver, *, everything: bool = False) -> None:
    try:
        receiver.settle(everything=everything)
    except OSError as error:
        _say(f"segments wait, the journal keeps them: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - requests of other nodes must still be taken and kept
        _say(f"segments wait, the journal keeps them: {type(error).__name__}: {error}")


def _say(line: str) -> None:
    click.echo(f"almanac receive: {line}", err=True)
