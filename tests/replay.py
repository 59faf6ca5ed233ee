"""A web server on loopback that plays prepared answers and records what it was asked.

Belongs here: the server for every test that needs HTTP. Does not belong here: any source's payloads.
"""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message


@dataclass(slots=True)
class Answer:
    """One prepared answer. `declared_length` other than the body's makes it end early; `delay_s` comes first."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"
    declared_length: int | None = None
    delay_s: float = 0.0


@dataclass(slots=True)
class Asked:
    """One request as it arrived: monotonic seconds, method, path with query, headers, body."""

    at: float
    method: str
    path: str
    headers: Message
    body: bytes


class Replay:
    """Answers by path: a list is played in order and its last entry repeats; an unknown path is 404."""

    def __init__(self, server: http.server.ThreadingHTTPServer) -> None:
        self.server = server
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[Asked] = []
        self.lock = threading.Lock()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server.server_port}{path}"

    def add(self, path: str, *answers: Answer) -> str:
        self.answers[path] = list(answers)
        return self.url(path)

    def count(self, path: str) -> int:
        return sum(a.path.partition("?")[0] == path for a in self.asked)

    def last(self, path: str) -> Asked:
        return [a for a in self.asked if a.path.partition("?")[0] == path][-1]

    def take(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
            queue = self.answers.get(asked.path.partition("?")[0], [Answer(b"not here", 404)])
            return queue.pop(0) if len(queue) > 1 else queue[0]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    replay: Replay

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.replay.take(Asked(time.monotonic(), self.command, self.path, self.headers, body))
        time.sleep(answer.delay_s)
        with contextlib.suppress(ConnectionError):
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.media_type)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            length = len(answer.body) if answer.declared_length is None else answer.declared_length
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = length != len(answer.body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextlib.contextmanager
def replay_server() -> Iterator[Replay]:
    """A running server on a free port of 127.0.0.1 (127.0.0.2 and localhost reach it too)."""
    handler = type("BoundHandler", (Handler,), {})
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), handler)  # noqa: S104
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up early is no news
    replay = handler.replay = Replay(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield replay
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
