"""How local files and folders become payloads.

Belongs here: finding files in a stable order, naming them without absolute paths, carrying options along.
Does not belong here: any format.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sources.base import FetchError, Payload

MAX_BYTES = 512 << 20


def local_files(paths: Sequence[Path], suffixes: Sequence[str] = ()) -> Iterator[tuple[Path, str]]:
    """Files given, and files under given folders (only those ending in `suffixes`), with a relative name."""
    for path in paths:
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders.sort()
                for name in sorted(names):
                    if not suffixes or name.endswith(tuple(suffixes)):
                        file = Path(folder) / name
                        yield file, file.relative_to(path).as_posix()
        else:
            yield path, path.name


def payload_of(
    source: str,
    file: Path,
    name: str,
    options: Mapping[str, str],
    *,
    media_type: str,
    meta: Mapping[str, str],
    stream: str,
) -> Payload:
    """One local file as a payload, observed now or at `options["observed_at"]`. Raises `FetchError`."""
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise FetchError(f"{name} has {size:,} bytes, the limit is {MAX_BYTES:,}: split it")
        body = file.read_bytes()
    except OSError as error:
        raise FetchError(f"{name} cannot be read: {error.strerror}") from None
    return Payload(
        source=source,
        url=f"file:{name}",
        retrieved_at=observed_at(options),
        media_type=media_type,
        body=body,
        stream=stream,
        meta=dict(meta),
    )


def observed_at(options: Mapping[str, str]) -> dt.datetime:
    """When the files were observed: `observed_at` of the call, else now. Raises `FetchError`."""
    text = options.get("observed_at")
    if not text:
        return dt.datetime.now(dt.UTC)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise FetchError(f"observed-at {text!r} is not a time: write 2026-11-30T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
