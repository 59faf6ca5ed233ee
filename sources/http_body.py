"""Reads the body of an answer with its size bounded before and after decompression.

Belongs here: streaming, gzip and deflate. Does not belong here: what the bytes mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from sources.base import FetchError

_STEP = 1 << 20
_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class TruncatedError(FetchError):
    """The body ended early; the next attempt may bring all of it."""


def read_bounded(chunks: Iterable[bytes], encoding: str, max_bytes: int, url: str) -> bytes:
    """The decompressed body. Raises `FetchError` past `max_bytes`, `TruncatedError` for an incomplete stream.

    Decompression stops at the limit, so a few kilobytes that unpack to gigabytes cost no memory.
    """
    name = encoding.strip().lower()
    if name not in ("", "identity", *_WINDOW):
        raise FetchError(f"{url}: sent with Content-Encoding {encoding!r}, which was not asked for")
    pieces = chunks if name in ("", "identity") else _unpack(chunks, name, url)
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > max_bytes:
            raise FetchError(f"{url}: larger than the limit of {max_bytes:,} bytes; not kept")
    return bytes(body)


def _unpack(chunks: Iterable[bytes], name: str, url: str) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_WINDOW[name])
    started = False
    for chunk in chunks:
        data = chunk
        while data:
            try:
                piece = unpacker.decompress(data, _STEP)
            except zlib.error as error:
                if name == "deflate" and not started:  # some servers send raw deflate under this name
                    unpacker, name = zlib.decompressobj(-zlib.MAX_WBITS), "raw deflate"
                    continue
                raise TruncatedError(f"{url}: damaged {name} stream ({error})") from None
            started = True
            yield piece
            data = unpacker.unconsumed_tail
            if unpacker.eof and unpacker.unused_data:  # a further gzip member
                data = unpacker.unused_data
                unpacker = zlib.decompressobj(_WINDOW.get(name, -zlib.MAX_WBITS))
    if started:
        yield unpacker.flush()
    if started and not unpacker.eof:
        raise TruncatedError(f"{url}: the {name} stream ended early")
