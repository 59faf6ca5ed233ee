"""Sealed segments that wait to be ingested: found, put in order, divided into batches, retired.

Belongs here: files and their order. Does not belong here: what is in them beyond the header, landing.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from sys import intern

from assets.clock_checks import clock_problem
from assets.telemetry_clean import unknown_unit
from sources.telemetry.segment import read_header
from sources.telemetry.segment_rows import FormatError
from warehouse.home import Home

ARCHIVE = "spool"
BATCH_BYTES = 1 << 30  # about 3 M rows: what a gate and a commit cost is shared by many
GROUP_BYTES = 64 << 20  # about what one thread holds at a time
THREADS = min(4, os.cpu_count() or 1)  # each holds a group in memory
KEEP_SEGMENTS = dt.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Waiting:
    """One sealed segment. `segment_id` is None where its header cannot be read.

    `problem` says why it cannot land, `doubt` why only a person may let it land, `held` why this version cannot read
    it at all: it stays where it is for one that can.
    """

    path: Path
    size: int
    segment_id: str | None
    cluster: str
    source: str
    node: str
    created_at_us: int
    problem: str
    doubt: str = ""
    held: str = ""


def waiting(folders: Iterable[Path]) -> list[Waiting]:
    """Every sealed segment of the folders, oldest first within each cluster and source."""
    paths = {path.resolve() for folder in folders if folder.is_dir() for path in folder.rglob("*.seg")}
    found = [one for path in sorted(paths) if (one := _look(path))]
    return sorted(found, key=lambda w: (w.cluster, w.source, w.created_at_us, w.path.name, w.path))


def _look(path: Path) -> Waiting | None:
    """None when another process has taken the segment meanwhile."""
    try:
        size = path.stat().st_size
        header = read_header(path)
    except FileNotFoundError:
        return None
    except FormatError as error:
        return _unread(path, size, str(error))
    if header is None:
        return _unread(path, size, "")
    return Waiting(
        path,
        size,
        header.segment_id,
        intern(header.cluster),
        intern(header.source),
        intern(header.node),
        header.created_at_us,
        unknown_unit(header.columns),
        "" if header.is_synthetic else clock_problem(path),
    )


def _unread(path: Path, size: int, held: str) -> Waiting:
    cluster, node, source, *_ = (*path.name.split("~"), "", "", "")
    return Waiting(path, size, None, intern(cluster), intern(source), intern(node), 0, "", held=held)


def batches(found: Sequence[Waiting], most_bytes: int | None = None) -> Iterator[list[Waiting]]:
    """Segments of one cluster and source up to a bounded size, so that memory is flat in the number of segments.

    A batch holds a segment once: a second copy waits for a batch after it, where it is seen to have landed.
    """
    most = most_bytes or BATCH_BYTES
    left = list(found)
    while left:
        again: list[Waiting] = []
        for _, some in groupby(left, key=lambda w: (w.cluster, w.source)):
            batch: list[Waiting] = []
            ids: set[str | None] = set()
            size = 0
            for one in some:
                if one.segment_id is not None and one.segment_id in ids:
                    again.append(one)
                    continue
                if batch and size + one.size > most:
                    yield batch
                    batch, size = [], 0
                batch.append(one)
                ids.add(one.segment_id)
                size += one.size
            if batch:
                yield batch
        left = again


def groups(batch: Sequence[Waiting], most_bytes: int | None = None) -> list[list[Waiting]]:
    """A batch divided evenly, so that no thread works while the others have nothing left; a small one stays whole.

    All segments of a node stay together: repeats are found within a group.
    """
    most = most_bytes or GROUP_BYTES
    total = sum(w.size for w in batch)
    rounds = -(-total // (THREADS * most))
    count = 1 if total <= most // 4 else rounds * THREADS
    divided: list[list[Waiting]] = [[] for _ in range(count)]
    before = 0
    for _, some in groupby(sorted(batch, key=lambda w: w.node), key=lambda w: w.node):
        node = list(some)
        divided[before * count // max(1, total)].extend(node)
        before += sum(w.size for w in node)
    return [group for group in divided if group]


def retire(paths: Iterable[Path], folder: Path) -> int:
    """Move segments out of the way; returns how many. One that another process moved first is no error."""
    folder.mkdir(parents=True, exist_ok=True)
    moved = 0
    for path in paths:
        target = folder / path.name
        try:
            try:
                path.replace(target)
            except FileNotFoundError:
                raise
            except OSError:  # another disk
                shutil.move(path, target)
            os.utime(target)
        except FileNotFoundError:
            continue
        moved += 1
    return moved


def forget_old(home: Home) -> None:
    """Landed segments are kept for seven days, then forgotten: for telemetry the lake is the truth."""
    edge = dt.datetime.now(dt.UTC).timestamp() - KEEP_SEGMENTS.total_seconds()
    for path in (home.archive / ARCHIVE).glob("*.seg"):
        if path.stat().st_mtime < edge:
            path.unlink(missing_ok=True)
