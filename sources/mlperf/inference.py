"""The source `mlperf-inference`: the published summary of an inference round with the logs behind it.

Belongs here: finding summary and logs, in folders and in repositories. Does not belong here: reading them
(`inference_rows.py`).
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from sources.base import Authority, Cadence, FetchError, Landing, Parsed, ParseError, Payload, Web
from sources.local_files import observed_at
from sources.mlperf.bundle import Member, member_of_bytes, member_of_file, open_bundle, read_bundle
from sources.mlperf.github import WORKERS, raw_url, rounds
from sources.mlperf.inference_rows import LOG_NAME, read_logs, read_summary
from sources.mlperf.rounds import round_given, round_in

SUMMARY = "summary_results.json"
MAX_MEMBER = 64 << 20
NOT_FOUND = 404


class MlperfInference:
    """MLPerf Inference results as published, cross-checked with the logs of their first performance run."""

    name = "mlperf-inference"
    publisher = "MLCommons"
    homepage = "https://github.com/mlcommons"
    licence = "Apache-2.0"
    terms = "results may be quoted with round, division and submitter"
    cadence: Cadence = "weekly"
    tables: tuple[str, ...] = ("market.mlperf_inference",)
    authority: Authority = "primary"
    landing: Landing = "append"
    version = 2
    off_reason = ""
    options = ("round",)
    may_republish = True

    def fetch(self, web: Web) -> Iterator[Payload]:
        """Each round whose summary changed, with its logs. Raises `FetchError`."""
        for round_, repository in rounds(web, "inference"):
            url = raw_url(repository, SUMMARY)
            try:
                summary = web.get(url)
            except FetchError as error:
                if getattr(error, "status", None) == NOT_FOUND:
                    continue  # early rounds publish no summary
                raise
            if summary is None:
                continue
            members = [member_of_bytes(f"{round_}/{SUMMARY}", summary.body)]
            with ThreadPoolExecutor(WORKERS) as pool:
                logs = pool.map(partial(_fetch_log, web, repository), _locations(summary.body))
                members += [member_of_bytes(f"{round_}/{path}", body) for path, body in logs if body is not None]
            yield Payload(
                source=self.name,
                url=url,
                retrieved_at=summary.retrieved_at,
                media_type="application/x-tar",
                body=lambda members=members: open_bundle(members),  # type: ignore[misc]
                stream=f"{round_}/summary",
                etag=summary.etag,
                last_modified=summary.last_modified,
            )

    def read(self, paths: Sequence[Path], options: Mapping[str, str]) -> Iterator[Payload]:
        """A folder with `summary_results.json`, that file alone, or a folder with only logs and system files.

        Raises `ParseError` if nothing of that is there, or the round is not to be known.
        """
        seen = observed_at(options)
        for path in paths:
            found = False
            for root, members, kind in _local(path):
                found = True
                round_ = round_given(options.get("round")) or _stated_round(root) or round_in(root.as_posix())
                if round_ is None:
                    raise ParseError(f"{path.name}: no round in it or its path; say which, as in --round v5.1")
                named = [Member(f"{round_}/{m.name}", m.size_bytes, m.open) for m in members]
                yield Payload(
                    source=self.name,
                    url=f"file:{path.name}",
                    retrieved_at=seen,
                    media_type="application/x-tar",
                    body=lambda named=named: open_bundle(named),  # type: ignore[misc]
                    stream=f"{round_}/{kind}",
                )
            if not found:
                raise ParseError(f"{path.name}: neither {SUMMARY} nor {LOG_NAME} in it; give a folder of a round")

    def parse(self, payload: Payload) -> Parsed:
        """`raw.mlperf_inference` of one round. Raises `ParseError`."""
        round_, files = "", {}
        with payload.open() as stream:
            try:
                for path, body in read_bundle(stream):
                    round_, _, name = path.partition("/")
                    files[name] = body.read(MAX_MEMBER)
            except tarfile.TarError as error:
                raise ParseError(f"{payload.stream}: the bundle is cut short ({error}); load it again") from None
        logs = {name.removesuffix(f"/{LOG_NAME}"): body for name, body in files.items() if name.endswith(LOG_NAME)}
        summary = files.get(SUMMARY)
        if summary is not None:
            return read_summary(summary, logs, round_, payload.retrieved_at)
        return read_logs(logs, files, round_, payload.retrieved_at)


def _local(path: Path) -> Iterator[tuple[Path, list[Member], str]]:
    """(root of the round, members by path below it, what it is) for each round found at a path."""
    root = path.resolve()
    if not root.exists():
        raise ParseError(f"{path.name}: no such file or folder")
    summaries = [root] if root.is_file() and root.name == SUMMARY else []
    logs: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        summaries += [Path(folder) / SUMMARY] if SUMMARY in names else []
        if folder.endswith(LOG_NAME.rpartition("/")[0]):
            logs += [Path(folder) / name for name in names if name == Path(LOG_NAME).name]
    for summary in summaries:
        members = [member_of_file(SUMMARY, summary)]
        places = (f"{place}/{LOG_NAME}" for place in _locations(summary.read_bytes()))
        members += [member_of_file(p, summary.parent / p) for p in places if (summary.parent / p).is_file()]
        yield summary.parent, members, "summary"
    if not summaries and logs:
        yield from _logs_alone(logs)


def _logs_alone(logs: Sequence[Path]) -> Iterator[tuple[Path, list[Member], str]]:
    """Logs by the root of their round: the folder that holds `closed` and `open`."""
    rounds_found: dict[Path, dict[str, Path]] = {}
    for log in logs:
        above = [parent for parent in log.parents if parent.name in ("closed", "open")]
        root = above[0].parent if above else log.parent
        files = rounds_found.setdefault(root, {})
        files[log.relative_to(root).as_posix()] = log
        if above:
            organization, _, platform = log.relative_to(above[0]).parts[:3]
            system = above[0] / organization / "systems" / f"{platform}.json"
            if system.is_file():
                files[system.relative_to(root).as_posix()] = system
    for root, files in sorted(rounds_found.items()):
        yield root, [member_of_file(name, file) for name, file in sorted(files.items())], "logs"


def _locations(summary: bytes) -> list[str]:
    """Paths of the results a summary lists, each once; empty where it cannot be read (the parser says why)."""
    try:
        records = json.loads(summary)
    except ValueError:
        return []
    places = [str(r.get("Location") or "").strip("/") for r in records if isinstance(r, dict)]
    return sorted({place for place in places if place and ".." not in place.split("/")})


def _stated_round(root: Path) -> str | None:
    """The round that the summary's records name."""
    try:
        first = json.loads((root / SUMMARY).read_bytes())[0]["version"]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return round_in(str(first))


def _fetch_log(web: Web, repository: str, place: str) -> tuple[str, bytes | None]:
    path = f"{place}/{LOG_NAME}"
    try:
        response = web.get(raw_url(repository, path), conditional=False)
    except FetchError as error:
        if getattr(error, "status", None) == NOT_FOUND:
            return path, None
        raise
    return path, response.body if response else None


SOURCE = MlperfInference()
