"""One results directory as one document: a tar archive whose bytes depend only on names and contents.

Belongs here: writing such an archive as a stream, without holding it, and reading it member by member.
Does not belong here: what the members mean. The archive keeps the bundle as it is, and any tar program opens it.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from sources.base import ParseError

CHUNK = 1 << 20
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle: its name within, its size in bytes, and how to open it."""

    name: str
    size_bytes: int
    open: Callable[[], BinaryIO]


def member_of_bytes(name: str, body: bytes) -> Member:
    """A member held in memory."""
    return Member(name, len(body), lambda: io.BytesIO(body))


def member_of_file(name: str, path: Path, limit_bytes: int | None = None) -> Member:
    """A member read from disk when the bundle is; only its first `limit_bytes` where a limit is given."""
    size = path.stat().st_size
    if limit_bytes is None or size <= limit_bytes:
        return Member(name, size, lambda: path.open("rb"))
    with path.open("rb") as stream:
        return member_of_bytes(name, stream.read(limit_bytes))


def open_bundle(members: Sequence[Member]) -> BinaryIO:
    """The bundle as a binary stream; memory stays at a few blocks whatever the sizes."""
    return cast("BinaryIO", io.BufferedReader(_Chunks(_tar_bytes(members)), CHUNK))


def read_bundle(stream: BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    """Each member's name and stream, in order; a stream is valid until the next one is asked for.

    Raises `ParseError` if this is not a complete bundle.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as archive:
            for info in archive:
                body = archive.extractfile(info)
                if body is not None:
                    yield info.name, cast("BinaryIO", body)
    except (tarfile.TarError, EOFError) as error:
        raise ParseError(f"the results directory's bundle is damaged ({error}): load the directory again") from None


def _tar_bytes(members: Iterable[Member]) -> Iterator[bytes]:
    total = 0
    for member in members:
        info = tarfile.TarInfo(member.name)
        info.size, info.mode = member.size_bytes, 0o644
        header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        yield header
        left = member.size_bytes
        with member.open() as stream:
            while left and (chunk := stream.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk
        if left:
            raise ParseError(f"{member.name} became shorter while it was read: load it again")
        padding = -member.size_bytes % _BLOCK
        yield b"\0" * padding
        total += len(header) + member.size_bytes + padding
    end = 2 * _BLOCK
    yield b"\0" * (end + -(total + end) % tarfile.RECORDSIZE)


class _Chunks(io.RawIOBase):
    """A readable stream over an iterator of byte strings."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast("bytearray", buffer)).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
