"""Local copies of EDGAR documents as payloads.

Belongs here: walking files and folders in one order, whoever asks. Does not belong here: reading what is in them.
"""

from __future__ import annotations

import datetime as dt
import mimetypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sources.base import AlmanacError, Payload


def payloads_from(
    source: str,
    paths: Sequence[Path],
    options: Mapping[str, str],
    *,
    suffixes: tuple[str, ...],
    stream: Callable[[Path], str],
) -> Iterator[Payload]:
    """One payload a file. A folder gives its files with these suffixes, sorted; a file given by name is always taken.

    `options["observed_at"]` (ISO, UTC when no zone stands there) is the time of retrieval; without it the file's own
    time is used. Raises `AlmanacError` for a path that is not there and for a time that cannot be read.
    """
    for path, name in _files(paths, suffixes):
        yield Payload(
            source=source,
            url=f"file:{name}",
            retrieved_at=_observed(path, options),
            media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            body=path.read_bytes(),
            stream=stream(path),
        )


def _files(paths: Sequence[Path], suffixes: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.is_dir():
            inside = (p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in suffixes)
            yield from sorted((p, p.relative_to(path).as_posix()) for p in inside)
        elif path.is_file():
            yield path, path.name
        else:
            raise AlmanacError(f"{path}: there is no such file or folder")


def _observed(path: Path, options: Mapping[str, str]) -> dt.datetime:
    given = options.get("observed_at")
    if not given:
        return dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
    try:
        moment = dt.datetime.fromisoformat(given)
    except ValueError as error:
        raise AlmanacError(f"observed_at: {given!r} is not a time such as 2026-08-06T00:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
