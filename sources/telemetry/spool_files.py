"""Segment files in a spool folder: names, claims, recovery after a crash, the bound on their size.

Belongs here: what happens to whole files. Does not belong here: appending frames (`spool.py`). Standard
library only: the node agent imports this.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sources.telemetry.spool_format import (
    HEADER,
    RECOVERED,
    SAMPLES,
    SEAL,
    Damage,
    Frame,
    Seal,
    frame,
    read_seal,
    walk,
)


def file_prefix(cluster: str, node: str, source: str) -> str:
    """How file names of one stream begin; characters a file name should not have become `_`."""
    return "~".join(re.sub(r"[^A-Za-z0-9.-]", "_", part)[:60] for part in (cluster, node, source))


def claim(path: Path) -> int:
    """Create `path` and lock it, so that no other process takes it for a crashed agent's. Returns the descriptor."""
    while True:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            continue
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def move_into_place(path: Path) -> None:
    """Rename `*.open` to `*.seg` and make the rename last through a power cut."""
    path.rename(path.with_suffix(".seg"))
    fd = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def recover(path: Path, notify: Callable[[str], None]) -> bool:
    """Seal the `*.open` file of a crashed agent: whole frames stay, a torn end is cut off.

    A file that a living agent holds is left alone. One without a single sample or record is removed.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(fd).st_nlink:
            return False
        return _finish(fd, path, notify)
    except OSError as error:
        if not isinstance(error, BlockingIOError):
            notify(f"spool {path.name}: cannot be recovered now ({error.strerror or error})")
        return False
    finally:
        os.close(fd)


def _finish(fd: int, path: Path, notify: Callable[[str], None]) -> bool:
    if not os.fstat(fd).st_size:
        path.unlink()
        return False
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as body:
        return _finish_bytes(body, fd, path, notify)


def _finish_bytes(body: mmap.mmap, fd: int, path: Path, notify: Callable[[str], None]) -> bool:
    seal = read_seal(body)
    if seal and seal.holds(_crc(body, seal.length)):  # crashed between sealing and renaming
        move_into_place(path)
        return True
    frames: list[Frame] = []
    damage: list[Damage] = []
    for item in walk(body, len(body)):
        if isinstance(item, Frame):
            frames.append(item)
        else:
            damage.append(item)
    content = [f for f in frames if f.kind != HEADER]
    header = next((f for f in frames if f.kind == HEADER), None)
    if not content and not damage:
        path.unlink()
        return False
    if header is None:
        notify(f"spool {path.name}: no readable header; kept as it is for a person to look at")
        path.rename(path.with_suffix(".broken"))
        return False
    end = frames[-1].end
    ending = frame(HEADER, frames[-1].sequence + 1, body[header.begin : header.end])
    times = [int.from_bytes(body[f.begin : f.begin + 8], "little", signed=True) for f in content if f.kind == SAMPLES]
    inner = [d for d in damage if d.offset < end]
    closing = Seal(
        length=end + len(ending),
        frames=len(frames) + 1,
        rows=sum(f.rows for f in content),
        first_us=min(times, default=0),
        last_us=max(times, default=0),
        flags=RECOVERED,
    )
    crc = zlib.crc32(ending, _crc(body, end))
    size = len(body)
    os.ftruncate(fd, end)
    os.pwrite(fd, ending + closing.pack(crc), end)
    os.fsync(fd)
    move_into_place(path)
    lost = size - end
    if lost or inner:
        notify(f"spool {path.name}: recovered {closing.rows} samples; {lost} bytes at the end, {len(inner)} spans lost")
    return True


def _crc(body: mmap.mmap, end: int) -> int:
    with memoryview(body) as view:
        return zlib.crc32(view[:end])


def drop_oldest(directory: Path, prefix: str, most_bytes: int, notify: Callable[[str], None]) -> list[dict[str, Any]]:
    """Remove this stream's oldest sealed segments until they fit `most_bytes`; returns one gap for each."""
    files = sorted(directory.glob(f"{_escaped(prefix)}~*.seg"))
    sizes = {path: path.stat().st_size for path in files if path.exists()}
    total = sum(sizes.values())
    gaps = []
    for path, size in sizes.items():
        if total <= most_bytes:
            break
        gap = {"reason": "spool_dropped", "segment": path.name, "bytes": size} | _span(path)
        path.unlink(missing_ok=True)
        gaps.append(gap)
        total -= size
    if gaps:
        notify(
            f"spool {directory}: over its bound; dropped the {len(gaps)} oldest segments: drain it or raise the bound"
        )
    return gaps


def _span(path: Path) -> dict[str, int | None]:
    """Rows and times of a segment, from its seal."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < SEAL.size:
            return {"rows": None, "from_at": None, "to_at": None}
        file.seek(size - SEAL.size)
        seal = Seal(*SEAL.unpack(file.read(SEAL.size))[1:])
    return {"rows": seal.rows, "from_at": seal.first_us or None, "to_at": seal.last_us or None}


def _escaped(prefix: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", prefix)
