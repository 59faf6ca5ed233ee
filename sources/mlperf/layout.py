"""Where things lie in a results repository: paths to results directories, and what does not belong there.

Belongs here: names only. Does not belong here: reading files, the network, what the files say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

Handle = TypeVar("Handle")

_IN_RESULTS = re.compile(
    r"^(?:(?P<before>.*)/)?(?P<org>[^/]+)/results/(?P<system>[^/]+)/(?P<benchmark>[^/]+)/(?P<rest>.+)$"
)
_SYSTEM = re.compile(r"^(?:(?P<before>.*)/)?(?P<org>[^/]+)/systems/(?P<system>[^/]+)\.json$")
_POWER = re.compile(r"^power/(?P<run>[^/]+)/(?P<kind>node|sw)_[^/]*\.txt$")
# Files that submitters keep beside their results and that say nothing about a run.
_COMPANIONS = ("package_checker_params", "compliance*", "*.sh", "*_nccl_allreduce*.txt", "config_*", "power/*", "*.png")
_ANYWHERE = ("README*", "LICENSE*", "CONTRIBUTING*", "*.md", "summary*", "*_summary.csv", "*.sh", ".*")
CODE_FOLDERS = frozenset({"benchmarks", ".git", ".github"})


@dataclass(frozen=True, order=True, slots=True)
class DirectoryName:
    """Which results directory: organisation, system and benchmark as spelled in the repository."""

    organization: str
    system_desc_id: str
    benchmark: str

    @property
    def path(self) -> str:
        """Path within the repository."""
        return f"{self.organization}/results/{self.system_desc_id}/{self.benchmark}"

    @property
    def system_path(self) -> str:
        """Path of the system file within the repository."""
        return f"{self.organization}/systems/{self.system_desc_id}.json"


@dataclass(slots=True)
class Directory(Generic[Handle]):
    """Files of one results directory by their path within it, each with whatever opens it."""

    before: str
    name: DirectoryName
    runs: dict[str, Handle] = field(default_factory=dict)
    power: dict[str, Handle] = field(default_factory=dict)
    strays: dict[str, Handle] = field(default_factory=dict)
    scaling: Handle | None = None
    system: Handle | None = None


@dataclass(slots=True)
class Layout(Generic[Handle]):
    """All results directories of a listing, and the paths that fit nowhere."""

    directories: list[Directory[Handle]]
    strays: dict[str, Handle]


def lay_out(paths: Iterable[tuple[str, Handle]]) -> Layout[Handle]:
    """Sort paths (with forward slashes) into results directories; the order of the listing does not matter."""
    found: dict[tuple[str, DirectoryName], Directory[Handle]] = {}
    systems: dict[tuple[str, str, str], Handle] = {}
    strays: dict[str, Handle] = {}
    for path, handle in sorted(paths, key=lambda pair: pair[0]):
        if CODE_FOLDERS & set(path.split("/")[:-1]):
            continue
        if place := place_in_results(path):
            before, name, rest = place
            _place(found.setdefault((before, name), Directory(before, name)), rest, handle)
        elif match := _SYSTEM.match(path):
            systems[match["before"] or "", match["org"], match["system"]] = handle
        elif not _fits(path.rpartition("/")[2], _ANYWHERE):
            strays[path] = handle
    for (before, name), directory in found.items():
        directory.system = systems.get((before, name.organization, name.system_desc_id))
    return Layout(list(found.values()), strays)


def place_in_results(path: str) -> tuple[str, DirectoryName, str] | None:
    """(what stands before the organisation, directory, path within it); None for a path outside `results`."""
    match = _IN_RESULTS.match(path)
    if match is None:
        return None
    name = DirectoryName(match["org"], match["system"], match["benchmark"])
    return match["before"] or "", name, match["rest"]


def is_system_file(path: str) -> bool:
    """Is this `<organization>/systems/<system_desc_id>.json`, whatever stands before it?"""
    return _SYSTEM.match(path) is not None


def power_log(path: str) -> tuple[str, str] | None:
    """(run, `node` or `sw`) of a power log's path within its directory; None for any other file."""
    match = _POWER.match(path)
    return (match["run"], match["kind"]) if match else None


def is_run(path: str) -> bool:
    """Is this path within a results directory a result file? Files deeper down never are."""
    return fnmatchcase(path, "result_*.txt") and "/" not in path


def _place(directory: Directory[Handle], path: str, handle: Handle) -> None:
    if is_run(path):
        directory.runs[path] = handle
    elif path == "scaling.json":
        directory.scaling = handle
    elif power_log(path):
        directory.power[path] = handle
    elif not _fits(path, _COMPANIONS) and not _fits(path.rpartition("/")[2], _ANYWHERE):
        directory.strays[path] = handle


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
