"""Sealed segments on their way: from a node's spool to an inbox (a folder or an object store), and from there home.

Belongs here: copying whole files so that a crash at any step repeats the step. Does not belong here: writing
segments, landing them. A segment is removed at the near end only when it is known to be whole at the far end: its
length and its seal, which carries the checksum of all of it, are read back there. On the way home that checksum is
computed.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

from sources.base import AlmanacError
from sources.telemetry.spool_format import SEAL, read_seal

SUFFIX: Final = ".seg"
_METADATA_SERVICE: Final = "169.254.169.254"  # asked by S3 and Google clients when the environment holds no credentials
_REFUSED: Final = re.compile(r"\b40[13] (Unauthorized|Forbidden)")
# How long it took and how often it was tried, and the XML around an answer: what went wrong stands behind them.
_NOISE: Final = re.compile(
    r" in [\d.]+[µm]?s(, after \d+ retries, max_retries: \d+, retry_timeout: \d+s)?(?= )|<\?xml.*"
)
T = TypeVar("T")


class ShipError(AlmanacError):
    """Segments could not be moved; they stay where they were."""


@dataclass(slots=True)
class Shipped:
    """How many segments moved, and how many were there already from a run that was cut off."""

    moved: int = 0
    known: int = 0


class Place(Protocol):
    """An inbox: what segments it holds, and how they get in and out."""

    def ready(self) -> None: ...
    def is_in(self, name: str, folder: Path) -> bool: ...
    def names(self) -> Iterator[str]: ...
    def put(self, name: str, path: Path) -> None: ...
    def get(self, name: str, path: Path) -> None: ...
    def ending(self, name: str) -> tuple[int, bytes] | None: ...
    def remove(self, name: str) -> None: ...


def place_of(url: str) -> Place:
    """A folder's path, or a URL as s3://bucket/prefix, gs://…, az://…, file:///…. Raises `ShipError`."""
    if "://" not in url:
        return Folder(Path(url))
    if url.startswith("file://"):
        path = unquote(url.removeprefix("file://"))
        if not path.startswith("/"):
            raise ShipError(
                f"{url} is no place to ship to: write file:///folder, with three strokes, or the path alone"
            )
        return Folder(Path(path))
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise ShipError(
            "shipping to an object store needs obstore: pip install '.[warehouse]' in the checkout"
        ) from None
    try:
        return ObjectStore(from_url(url))
    except (BaseError, OSError, ValueError) as error:
        raise ShipError(f"{url} is no place to ship to: {_first_words(error)}") from None


def ship(spool: Path, place: Place, notify: Callable[[str], None] = lambda _line: None) -> Shipped:
    """Move every sealed segment of a spool, oldest first. Raises `ShipError` when the far end fails or is the spool."""
    done = Shipped()
    if not spool.is_dir():
        raise ShipError(f"{spool} is no folder: there is no spool to ship from; give the agent's with --spool")
    _asked(place.ready)  # an empty spool must not hide a place that is wrong
    if place.is_in("", spool):
        raise ShipError(f"{spool} would be shipped to itself; give another place")
    for path in sorted(spool.glob(f"*{SUFFIX}"), key=lambda p: (p.stat().st_mtime_ns, p.name)):
        here = _ending(path)
        if _asked(partial(place.ending, path.name)) == here:
            done.known += 1
        else:
            _asked(partial(place.put, path.name, path))
            there = _asked(partial(place.ending, path.name))
            if there != here:
                raise ShipError(f"{path.name} did not arrive whole; it stays in the spool")
            done.moved += 1
        path.unlink(missing_ok=True)
        notify(path.name)
    return done


def look_at(place: Place) -> None:
    """Raises `ShipError` where segments cannot be brought home from the place: it is not there, or refuses."""
    _asked(lambda: next(iter(place.names()), None))


def collect_from(place: Place, inbox: Path) -> Shipped:
    """Move every segment of a place into a local inbox. Raises `ShipError` when the far end fails."""
    done = Shipped()
    names = sorted(_asked(lambda: list(place.names())))
    inbox.mkdir(parents=True, exist_ok=True)
    for name in names:
        if place.is_in(name, inbox):
            continue  # it is home already; removing it there would remove it here
        # Nodes may ship to prefixes of their own; a segment's name tells them apart.
        local = PurePosixPath(name).name
        part, target = inbox / f"{local}.part", inbox / local
        wanted = _asked(partial(place.ending, name))
        if target.exists() and _ending(target) == wanted:
            done.known += 1
        else:
            _asked(partial(_fetch, place, name, part))
            _flush(part)
            if _ending(part) != wanted:
                part.unlink(missing_ok=True)
                raise ShipError(f"{name} did not arrive whole; it stays where it was")
            part.replace(target)
            done.moved += 1
        _asked(partial(place.remove, name))
    return done


def _fetch(place: Place, name: str, part: Path) -> None:
    """A copy whose checksum holds; one that is damaged there already is taken as it is, which two equal copies show."""
    place.get(name, part)
    if not _holds(part):
        first = _digest(part)
        place.get(name, part)
        if not _holds(part) and _digest(part) != first:
            raise ShipError(f"{name} is damaged on the way; it stays where it was: look at the network")


class Folder:
    """An inbox that is a folder, perhaps on another disk or a network share."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def ready(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)

    def is_in(self, name: str, folder: Path) -> bool:
        """Does the file of that name (or, for an empty name, a file put here) lie directly in `folder`?"""
        here = (self._root / name).parent if name else self._root
        return here.is_dir() and folder.is_dir() and here.samefile(folder)

    def names(self) -> Iterator[str]:
        if not self._root.is_dir():
            raise ShipError(
                f"{self._root} is no folder: nothing can be brought from there; give the inbox of the nodes"
            )
        return (path.relative_to(self._root).as_posix() for path in self._root.rglob(f"*{SUFFIX}"))

    def put(self, name: str, path: Path) -> None:
        part = self._root / f"{name}.part"
        shutil.copyfile(path, part)
        _flush(part)
        part.replace(self._root / name)

    def get(self, name: str, path: Path) -> None:
        shutil.copyfile(self._root / name, path)

    def ending(self, name: str) -> tuple[int, bytes] | None:
        path = self._root / name
        return _ending(path) if path.exists() else None

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)


class ObjectStore:
    """An inbox in an object store; large segments go up in parts, which the store joins or forgets."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def ready(self) -> None:
        self.ending(f"none{SUFFIX}")  # the same question that each segment begins with

    def is_in(self, name: str, folder: Path) -> bool:
        del name, folder
        return False

    def names(self) -> Iterator[str]:
        for page in self._store.list():
            yield from (entry["path"] for entry in page if entry["path"].endswith(SUFFIX))

    def put(self, name: str, path: Path) -> None:
        self._store.put(name, path)

    def get(self, name: str, path: Path) -> None:
        with path.open("wb") as file:
            for chunk in self._store.get(name).stream():
                file.write(chunk)

    def ending(self, name: str) -> tuple[int, bytes] | None:
        try:
            size = int(self._store.head(name)["size"])
        except FileNotFoundError:
            return None
        begin = max(0, size - SEAL.size)
        return size, bytes(self._store.get_range(name, start=begin, end=size)) if size else b""

    def remove(self, name: str) -> None:
        self._store.delete(name)


def _ending(path: Path) -> tuple[int, bytes]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - SEAL.size))
        return size, file.read()


def _holds(path: Path) -> bool:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as body:
            seal = read_seal(body)
            if seal is None:
                return False
            with memoryview(body) as view:
                return seal.holds(zlib.crc32(view[: seal.length]))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _asked(call: Callable[[], T]) -> T:
    try:
        return call()
    except ShipError:
        raise
    except Exception as error:  # each store has errors of its own
        raise ShipError(f"{_what_is_wrong(error)}: {_first_words(error)}") from error


def _what_is_wrong(error: Exception) -> str:
    """Store clients tell each trouble in another way; what a person can do about it comes first."""
    kind, text = type(error).__name__, str(error)
    if _METADATA_SERVICE in text:
        return "no credentials for the inbox: set those of its store, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or _REFUSED.search(text):
        return "the inbox refuses these credentials: check key, region and what they may do"
    return "the inbox cannot be reached"


def _first_words(error: Exception) -> str:
    words = " ".join(str(error).split("Debug source", 1)[0].split())
    return _NOISE.sub("", words)[:300]
