"""The source `mlperf-training`: results directories of MLPerf Training rounds, one document each.

Belongs here: local folders to documents, a document to raw frames and refusals. Does not belong here: the network
(`github.py`), the score and MFU (`assets/mlperf.py` derives both from the raw frames).
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sources.base import Authority, Cadence, Landing, Parsed, ParseError, Payload, Reject, Web
from sources.local_files import observed_at
from sources.mlperf import github
from sources.mlperf.bundle import Member, member_of_bytes, member_of_file, open_bundle, read_bundle
from sources.mlperf.directory import read_directory
from sources.mlperf.layout import CODE_FOLDERS, Directory, Layout, lay_out
from sources.mlperf.rounds import round_given, round_in

BUNDLE = "application/x-tar"
STRAYS = "strays"
STRAY_BYTES = 2_000
SINGLE_STRAYS = 15


class MlperfTraining:
    """MLPerf Training results since v2.1, from the public repositories or a local checkout."""

    name = "mlperf-training"
    publisher = "MLCommons"
    homepage = "https://github.com/mlcommons"
    licence = "Apache-2.0"
    terms = "results may be quoted with round, division and submitter; MFU is no official MLPerf metric"
    cadence: Cadence = "weekly"
    tables: tuple[str, ...] = ("market.mlperf_results", "market.mlperf_runs")
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 1
    off_reason = ""
    options = ("round",)
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Results directories not held yet, then the listing of each round that is complete. Raises `FetchError`."""
        return github.fetch_training(web, self.name)

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """Results directories below `paths`; `options["round"]` names the round where no path does.

        Raises `ParseError` if nothing there is a results directory, or if the round is not to be known.
        """
        seen = observed_at(options)
        for path in paths:
            layout = _layout(path)
            if not layout.directories and not layout.strays:
                raise ParseError(
                    f"{path.name}: no <organization>/results/<system>/<benchmark>/result_*.txt in it; "
                    "give a checkout or a folder of a round"
                )
            for directory in layout.directories:
                round_ = round_given(options.get("round")) or round_in(directory.before)
                if round_ is None:
                    raise ParseError(f"{directory.name.path}: no round in its path; say which, as in --round v5.1")
                members = _members(directory, round_)
                yield Payload(
                    source=self.name,
                    url=f"file:{_shown(path, directory)}",
                    retrieved_at=seen,
                    media_type=BUNDLE,
                    body=lambda members=members: open_bundle(members),  # type: ignore[misc]
                    stream=f"{round_}/{directory.name.path}",
                )
            if layout.strays:
                body = _describe(path, layout.strays)
                yield Payload(self.name, f"file:{path.name}", seen, "application/json", body, stream=STRAYS)

    def parse(self, payload: Payload) -> Parsed:
        """`raw.mlperf_directories` and `raw.mlperf_runs` of one directory. Raises `ParseError`."""
        if payload.stream == STRAYS:
            return Parsed({}, _stray_rejects(payload.read()))
        if payload.media_type != BUNDLE:
            github.check_listing(payload)
            return Parsed({})
        with payload.open() as stream:
            try:
                return read_directory(read_bundle(stream), payload.retrieved_at)
            except tarfile.TarError as error:
                raise ParseError(f"{payload.stream}: the bundle is cut short ({error}); load it again") from None


def _layout(path: Path) -> Layout[Path]:
    """What lies at a path. Whole paths are sorted, so that a folder deep inside a checkout knows where it is."""
    root = path.resolve()
    if not root.exists():
        raise ParseError(f"{path.name}: no such file or folder")
    files = [root] if root.is_file() else list(_walk(root))
    layout = lay_out((file.as_posix(), file) for file in files)
    for directory in layout.directories:
        if directory.system is None:
            beside = Path(directory.before or "/") / directory.name.system_path
            directory.system = beside if beside.is_file() else None
    return layout


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - CODE_FOLDERS)
        yield from (Path(folder) / name for name in sorted(names))


def _members(directory: Directory[Path], round_: str) -> list[Member]:
    """Files of a bundle, small ones first, under their names in the repository and the round before them."""
    base = f"{round_}/{directory.name.path}"
    small = {f"{base}/scaling.json": directory.scaling} if directory.scaling else {}
    if directory.system:
        small[f"{round_}/{directory.name.system_path}"] = directory.system
    members = [member_of_file(name, path) for name, path in sorted(small.items())]
    members += [member_of_file(f"{base}/{n}", p, STRAY_BYTES) for n, p in sorted(directory.strays.items())]
    members += [member_of_file(f"{base}/{n}", p) for n, p in sorted(directory.power.items())]
    members += [member_of_file(f"{base}/{n}", p) for n, p in sorted(directory.runs.items())]
    # A directory without any result file is still told apart from one that is not there.
    return members or [member_of_bytes(f"{base}/empty", b"")]


def _shown(path: Path, directory: Directory[Path]) -> str:
    whole = Path(directory.before or "/") / directory.name.path
    root = path.resolve()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) and whole != root else whole.name


def _describe(root: Path, strays: Mapping[str, Path]) -> bytes:
    """Names, sizes and beginnings of files that fit nowhere, as JSON."""
    base = root.resolve()
    found: list[dict[str, Any]] = []
    for path in strays.values():
        with path.open("rb") as stream:
            head = stream.read(STRAY_BYTES).decode("utf-8", "replace")
        name = path.relative_to(base).as_posix() if path != base else path.name
        found.append({"path": name, "size_bytes": path.stat().st_size, "head": head})
    return json.dumps(found, ensure_ascii=False).encode()


def _stray_rejects(body: bytes) -> list[Reject]:
    strays = json.loads(body)
    rule = ("market.mlperf_runs", "stray_file", "it lies outside <organization>/results/<system>/<benchmark>/")
    rejects = [Reject(*rule, raw=s["head"], locator=s["path"]) for s in strays[:SINGLE_STRAYS]]
    if more := strays[SINGLE_STRAYS:]:
        names = "\n".join(s["path"] for s in more)
        rejects.append(Reject(*rule, raw=names[:STRAY_BYTES], locator=f"{len(more)} more files"))
    return rejects


SOURCE = MlperfTraining()
