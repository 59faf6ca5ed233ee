"""Fetches rounds from the public repositories: organisation listing, tree listing, then only the files that count.

Belongs here: which requests are made, and how an interrupted round is taken up again. Does not belong here: HTTP
itself (`sources/http.py`), what the files say (`directory.py`, `inference.py`).

A round costs one request while nothing changes (its listing answers 304). The listing is handed over as the last
document of its round, so a round that was cut short is listed again; a results directory that is already held
then answers 304 to the request for its first file, because the address carries a digest of all its files.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sources.base import FetchError, OfflineError, ParseError, Payload, Response, Web
from sources.mlperf.bundle import Member, member_of_bytes, member_of_file, open_bundle
from sources.mlperf.layout import CODE_FOLDERS, Directory, is_system_file, lay_out, place_in_results
from sources.mlperf.rounds import Suite

API = "https://api.github.com"
RAW = "https://raw.githubusercontent.com"
OWNER = "mlcommons"
FIRST_ROUND = (2, 1)
PAGE = 100
MAX_PAGES = 20
WORKERS = 4
IN_MEMORY_BYTES = 64 << 20
FAILURES_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Blob:
    """One file of a repository: its path, content hash and size in bytes."""

    path: str
    sha: str
    size_bytes: int


def rounds(web: Web, suite: Suite) -> list[tuple[str, str]]:
    """(round, repository) of every results repository since v2.1, oldest first. Raises `FetchError`."""
    found = {}
    name = re.compile(rf"{suite}_results_(v(\d+)\.(\d+))")
    for page in range(1, MAX_PAGES + 1):
        params = {"per_page": str(PAGE), "page": str(page)}
        response = web.get(f"{API}/orgs/{OWNER}/repos", params=params, conditional=False)
        listed = _json(response, list)
        for repository in listed:
            match = name.fullmatch(str(repository.get("name")))
            if match and (int(match[2]), int(match[3])) >= FIRST_ROUND:
                found[int(match[2]), int(match[3])] = (match[1], str(repository["full_name"]))
        if len(listed) < PAGE:
            break
    if not found:
        raise FetchError(f"{API}/orgs/{OWNER}/repos lists no {suite}_results_v*: the repositories have moved")
    return [found[key] for key in sorted(found)]


def fetch_training(web: Web, source: str) -> Iterator[Payload]:
    """Bundles of directories not held yet, each round closed by its listing. Raises `FetchError` at the end."""
    problems = _Problems()
    for round_, repository in rounds(web, "training"):
        url = f"{API}/repos/{repository}/git/trees/HEAD?recursive=1"
        response = web.get(url)
        if response is None:
            continue
        before = len(problems.all)
        blobs = list_tree(web, repository, response)
        layout = lay_out((blob.path, blob) for blob in blobs)
        for directory in layout.directories:
            payload = None
            with problems.noted(f"{round_}/{directory.name.path}"):
                payload = _fetch_directory(web, source, round_, repository, directory)
            if payload is not None:
                yield payload
        if len(problems.all) == before:
            yield Payload(
                source=source,
                url=url,
                retrieved_at=response.retrieved_at,
                media_type="application/json",
                body=response.body,
                stream=f"{round_}/listing",
                etag=response.etag,
                last_modified=response.last_modified,
            )
    problems.tell()


def list_tree(web: Web, repository: str, response: Response | None) -> list[Blob]:
    """All files behind a recursive tree listing; where it is truncated, folder by folder. Raises `FetchError`."""
    listing = _json(response, dict)
    if not listing.get("truncated"):
        return [blob for blob in _blobs(listing, "") if _counts(blob.path)]
    return [blob for blob in _walk(web, repository, str(listing.get("sha") or "HEAD"), "") if _counts(blob.path)]


def check_listing(payload: Payload) -> None:
    """Raises `ParseError` unless the document is a tree listing."""
    try:
        listing = json.loads(payload.read())
    except ValueError:
        listing = None
    if not isinstance(listing, dict) or not isinstance(listing.get("tree"), list):
        raise ParseError(f"{payload.url}: neither a results directory nor a tree listing; load a checkout or folder")


def raw_url(repository: str, path: str) -> str:
    """Address of one file at the head of a repository."""
    return f"{RAW}/{repository}/HEAD/{quote(path)}"


def _counts(path: str) -> bool:
    return place_in_results(path) is not None or is_system_file(path) or path == "summary_results.json"


def _walk(web: Web, repository: str, sha: str, prefix: str) -> Iterator[Blob]:
    flat = _json(web.get(f"{API}/repos/{repository}/git/trees/{sha}", conditional=False), dict)
    if flat.get("truncated"):
        raise FetchError(f"{repository}: the listing of {prefix or 'its root'} is cut short even by itself")
    yield from _blobs(flat, prefix)
    for entry in flat.get("tree", ()):
        if entry.get("type") != "tree" or entry.get("path") in CODE_FOLDERS:
            continue
        below = f"{prefix}{entry['path']}/"
        url = f"{API}/repos/{repository}/git/trees/{entry['sha']}"
        deep = _json(web.get(f"{url}?recursive=1", conditional=False), dict)
        yield from _walk(web, repository, entry["sha"], below) if deep.get("truncated") else _blobs(deep, below)


def _blobs(listing: dict[str, Any], prefix: str) -> Iterator[Blob]:
    for entry in listing.get("tree", ()):
        if entry.get("type") == "blob":
            yield Blob(prefix + str(entry["path"]), str(entry["sha"]), int(entry.get("size") or 0))


def _fetch_directory(web: Web, source: str, round_: str, repository: str, directory: Directory[Blob]) -> Payload | None:
    """The bundle of one directory; None if it is held as it is."""
    base = directory.name.path
    wanted = [blob for blob in (directory.scaling, directory.system) if blob]
    wanted += [directory.power[name] for name in sorted(directory.power)]
    wanted += [directory.runs[name] for name in sorted(directory.runs)]
    if not directory.runs:
        return None
    digest = hashlib.sha256("\n".join(f"{blob.path} {blob.sha}" for blob in wanted).encode()).hexdigest()
    url = f"{raw_url(repository, wanted[0].path)}?files={digest[:16]}"
    first = web.get(url)
    if first is None:
        return None
    spool = _Spool(sum(blob.size_bytes for blob in wanted) > IN_MEMORY_BYTES)

    def member(blob: Blob, response: Response | None) -> Member:
        if response is None:
            raise FetchError(f"{blob.path}: 304 to an unconditional request")
        return spool.keep(f"{round_}/{blob.path}", response.body)

    members = [member(wanted[0], first)]
    with ThreadPoolExecutor(WORKERS) as pool:
        members += pool.map(
            lambda blob: member(blob, web.get(raw_url(repository, blob.path), conditional=False)), wanted[1:]
        )
    return Payload(
        source=source,
        url=url,
        retrieved_at=first.retrieved_at,
        media_type="application/x-tar",
        body=lambda: spool.open(members),
        stream=f"{round_}/{base}",
        etag=first.etag,
        last_modified=first.last_modified,
    )


class _Problems:
    """Directories that could not be fetched: one does not stop the others, several in a row do."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._in_a_row = 0

    @contextmanager
    def noted(self, where: str) -> Iterator[None]:
        """Note a `FetchError` raised inside. Raises it on when the network is gone or refuses one after the other."""
        try:
            yield
        except OfflineError:
            raise
        except FetchError as error:
            self.all.append(f"{where}: {error}")
            self._in_a_row += 1
            if self._in_a_row >= FAILURES_IN_A_ROW:
                self.tell()
        else:
            self._in_a_row = 0

    def tell(self) -> None:
        """Raise `FetchError` if there is anything to tell."""
        if self.all:
            text = "results directory was" if len(self.all) == 1 else "results directories were"
            raise FetchError(f"{len(self.all)} {text} not fetched; run again later. The last: {self.all[-1]}")


class _Spool:
    """Keeps fetched files in memory, or in a folder that goes when nothing refers to it any more."""

    def __init__(self, on_disk: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mlperf-")) if on_disk else None
        if self._folder:
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def keep(self, name: str, body: bytes) -> Member:
        if self._folder is None:
            return member_of_bytes(name, body)
        path = self._folder / hashlib.sha256(name.encode()).hexdigest()
        path.write_bytes(body)
        return member_of_file(name, path)

    def open(self, members: Sequence[Member]) -> Any:
        return open_bundle(members)


def _json(response: Response | None, kind: type[Any]) -> Any:
    if response is None:
        raise FetchError("304 to an unconditional request")
    try:
        value = json.loads(response.body)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise FetchError(f"{response.url}: not the JSON {kind.__name__} that was due; nothing of it is used")
    return value
