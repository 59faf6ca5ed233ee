"""An object store on the loopback that speaks as much S3 as shipping needs, and fails when told to.

Belongs here: PUT, multipart uploads, GET with ranges, HEAD, DELETE, ListObjectsV2. Does not belong here: checking
signatures; the access key decides.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

ACCESS_KEY = "AKIDGOOD"
PAGE = 2  # names in one page of a listing: three segments need two pages


class Store:
    """Objects by name, and what goes wrong.

    `busy[method]`: how many requests get 503 · `broken[method]`: how many uploads lose their connection half way ·
    `garbled[method]`: how many whole answers have a wrong byte · `cut`: stored objects lose so many bytes · `seen`: requests by method.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.busy: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.garbled: Counter[str] = Counter()
        self.cut = 0
        self.seen: Counter[str] = Counter()
        self.largest_put = 0
        self.url = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _fail(self, status: int, code: str) -> None:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as told</Message></Error>"
        self._answer(status, body.encode(), Content_Type="application/xml")

    def _take(self) -> bytes | None:
        """The request's body; None where the connection breaks or the request is refused, which is then answered."""
        method, length = self.command, int(self.headers.get("Content-Length") or 0)
        self.store.seen[method] += 1
        if length and self.store.broken[method] > 0:
            self.store.broken[method] -= 1
            self.rfile.read(length // 2)
            self.close_connection = True
            self.connection.close()
            return None
        body = self.rfile.read(length)
        if self.store.busy[method] > 0:
            self.store.busy[method] -= 1
            self._fail(503, "SlowDown")
            return None
        if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
            self._fail(403, "InvalidAccessKeyId")
            return None
        return body

    def _where(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return unquote(parts.path).removeprefix("/bucket").lstrip("/"), parse_qs(parts.query, keep_blank_values=True)

    def do_PUT(self) -> None:
        if (body := self._take()) is None:
            return
        name, query = self._where()
        self.store.largest_put = max(self.store.largest_put, len(body))
        tag = f'"{hashlib.md5(body).hexdigest()}"'  # noqa: S324 - S3's own tag
        if "uploadId" in query:
            self.store.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.store.objects[name] = body[: len(body) - self.store.cut]
        self._answer(200, ETag=tag)

    def do_POST(self) -> None:
        if (asked := self._take()) is None:
            return
        name, query = self._where()
        if "uploads" in query:
            upload = f"upload-{len(self.store.uploads)}"
            self.store.uploads[upload] = {}
            body = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        elif "delete" in query:
            names = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", asked.decode())]
            for gone in names:
                self.store.objects.pop(gone, None)
            told = "".join(f"<Deleted><Key>{escape(gone)}</Key></Deleted>" for gone in names)
            body = f"<DeleteResult>{told}</DeleteResult>"
        else:
            parts = self.store.uploads.pop(query["uploadId"][0])
            self.store.objects[name] = b"".join(parts[number] for number in sorted(parts))
            body = '<CompleteMultipartUploadResult><ETag>"joined"</ETag></CompleteMultipartUploadResult>'
        self._answer(200, body.encode(), Content_Type="application/xml")

    def do_HEAD(self) -> None:
        self._get(with_body=False)

    def do_GET(self) -> None:
        self._get(with_body=True)

    def _get(self, *, with_body: bool) -> None:
        if self._take() is None:
            return
        name, query = self._where()
        if "list-type" in query:
            self._list(query)
            return
        if name not in self.store.objects:
            self._fail(404, "NoSuchKey")
            return
        body = self.store.objects[name]
        told = {"ETag": '"x"', "Last_Modified": "Sun, 01 Nov 2026 00:00:00 GMT", "Accept_Ranges": "bytes"}
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if span:
            begin, end = int(span[1]), min(int(span[2]) + 1, len(body))
            told["Content_Range"] = f"bytes {begin}-{end - 1}/{len(body)}"
            self._answer(206, body[begin:end], **told)
        elif with_body:
            if self.store.garbled["GET"] > 0:
                self.store.garbled["GET"] -= 1
                middle = len(body) // 2
                body = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
            self._answer(200, body, **told)
        else:
            self._answer(200, Content_Length=str(len(body)), **told)

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        names = [n for n in sorted(self.store.objects) if n.startswith(prefix) and n > after]
        page, more = names[:PAGE], len(names) > PAGE
        rows = "".join(
            f"<Contents><Key>{escape(n)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;x&quot;</ETag><Size>{len(self.store.objects[n])}</Size></Contents>"
            for n in page
        )
        rest = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult>{rows}<IsTruncated>{str(more).lower()}</IsTruncated>{rest}</ListBucketResult>"
        self._answer(200, body.encode(), Content_Type="application/xml")

    def do_DELETE(self) -> None:
        if self._take() is None:
            return
        name, query = self._where()
        if "uploadId" in query:
            self.store.uploads.pop(query["uploadId"][0], None)
        else:
            self.store.objects.pop(name, None)
        self._answer(204)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def object_store() -> Iterator[Store]:
    """A store that runs until the block ends; `url` is its address."""
    store = Store()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": store}))
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
