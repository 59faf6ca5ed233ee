"""Fetching rounds from a server that replays the public interface: listing, files, 304, quota, truncation, moves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from replay import Answer, Replay, replay_server

from mlperf.logs import SYSTEM, run
from sources.base import FetchError, Payload
from sources.http import HttpWeb, Patience
from sources.http_limits import HostLimiter
from sources.mlperf import github
from sources.mlperf.training import SOURCE

ORGS = "/api.github.com/orgs/mlcommons/repos"
REPO = "mlcommons/training_results_v5.1"
TREE = f"/api.github.com/repos/{REPO}/git/trees/HEAD"
RAW = f"/raw.githubusercontent.com/{REPO}/HEAD"
DIRECTORY = "A+B/results/s/gpt3"
FILES = {
    f"{DIRECTORY}/result_0.txt": run(20.0),
    f"{DIRECTORY}/result_1.txt": run(21.0),
    f"{DIRECTORY}/result_2.txt": run(25.0),
    f"{DIRECTORY}/scaling.json": '{"scaling_factor": 1.1}',
    f"{DIRECTORY}/power/result_0/node_0.txt": "",
    f"{DIRECTORY}/compliance_0.out": "noise",
    "A+B/systems/s.json": json.dumps(SYSTEM),
    "A+B/benchmarks/gpt3/train.py": "pass",
    "README.md": "# results",
}


class ToReplay(httpx.BaseTransport):
    """Leads every request to the replay server, with the host as the first part of the path."""

    def __init__(self, replay: Replay) -> None:
        self.base = replay.url("")
        self.inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        headers = [(k, v) for k, v in request.headers.items() if k.lower() != "host"]
        return self.inner.handle_request(httpx.Request("GET", f"{self.base}/{request.url.host}{path}", headers=headers))

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def replay() -> Iterator[Replay]:
    with replay_server() as server:
        yield server


@pytest.fixture
def make_web(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., HttpWeb]]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "ALMANAC_CONTACT"):
        monkeypatch.delenv(name, raising=False)
    made: list[HttpWeb] = []

    def make(held: dict[str, str] | None = None) -> HttpWeb:
        web = HttpWeb(
            transport=ToReplay(replay),
            limiter=HostLimiter({}, default_rate=10_000, sleep=lambda _: None),
            sleep=lambda _: None,
            patience=Patience(attempts=1, read_s=5.0),
            validators=lambda url: (etag, None) if (etag := (held or {}).get(url)) else None,
        )
        made.append(web)
        return web

    yield make
    for web in made:
        web.close()


def as_json(value: Any, **headers: str) -> Answer:
    return Answer(json.dumps(value).encode(), headers=headers)


def listing(files: dict[str, str], *, truncated: bool = False) -> dict[str, Any]:
    blobs = [
        {"path": path, "type": "blob", "sha": hashlib.sha256(text.encode()).hexdigest()[:40], "size": len(text)}
        for path, text in files.items()
    ]
    return {"sha": "root", "tree": [*blobs, {"path": "A+B", "type": "tree", "sha": "t1"}], "truncated": truncated}


def serve(replay: Replay, files: dict[str, str] = FILES, names: tuple[str, ...] = ("training_results_v5.1",)) -> None:
    repositories = [{"name": n, "full_name": f"mlcommons/{n}"} for n in names]
    others = [{"name": n, "full_name": f"mlcommons/{n}"} for n in ("logging", "training_results_v2.0", "training")]
    replay.add(ORGS, as_json([*others, *repositories]))
    replay.add(TREE, as_json(listing(files), ETag='"tree-1"'))
    for path, text in files.items():
        replay.add(f"{RAW}/{path.replace('+', '%2B')}", Answer(text.encode(), headers={"ETag": f'"{path}"'}))


def asked(replay: Replay) -> list[str]:
    return [a.path for a in replay.asked if not a.path.endswith("robots.txt")]


def held_by(payloads: list[Payload]) -> dict[str, str]:
    return {p.url: p.etag for p in payloads if p.etag}


def test_a_round_is_bundled_by_directory_and_closed_by_its_listing(replay: Replay, make_web) -> None:
    serve(replay)
    bundle, closing = SOURCE.fetch(make_web())
    assert (bundle.stream, closing.stream) == (f"v5.1/{DIRECTORY}", "v5.1/listing")
    frames = SOURCE.parse(bundle).frames
    assert frames["raw.mlperf_runs"]["minutes"].to_list() == [20.0, 21.0, 25.0]
    assert frames["raw.mlperf_directories"]["scaling_factor"].to_list() == [1.1]
    assert dict(SOURCE.parse(closing).frames) == {}
    wanted = [p for p in asked(replay) if p.startswith(RAW)]
    assert len(wanted) == 6
    assert not any("train.py" in p or "README" in p or "compliance" in p for p in wanted)


def test_a_bundle_from_the_network_equals_one_from_a_checkout(replay: Replay, make_web, tmp_path: Path) -> None:
    serve(replay)
    for path, text in FILES.items():
        (tmp_path / "v5.1" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "v5.1" / path).write_text(text)
    (local,) = SOURCE.read([tmp_path], {})
    assert next(iter(SOURCE.fetch(make_web()))).sha256() == local.sha256()


def test_nothing_new_costs_two_requests(replay: Replay, make_web) -> None:
    serve(replay)
    held = held_by(list(SOURCE.fetch(make_web())))
    replay.add(TREE, Answer(status=304))
    before = len(asked(replay))
    assert list(SOURCE.fetch(make_web(held))) == []
    assert [p.partition("?")[0] for p in asked(replay)[before:]] == [ORGS, TREE]
    assert replay.last(TREE).headers["If-None-Match"] == '"tree-1"'


def test_an_interrupted_round_is_taken_up_where_it_stopped(replay: Replay, make_web) -> None:
    serve(replay)
    first = next(iter(SOURCE.fetch(make_web())))
    held = held_by([first])  # the listing never arrived
    replay.add(f"{RAW}/A%2BB/systems/s.json", Answer(status=304))
    replay.add(f"{RAW}/A%2BB/results/s/gpt3/scaling.json", Answer(status=304))
    before = len(asked(replay))
    (closing,) = SOURCE.fetch(make_web(held))
    assert closing.stream == "v5.1/listing"
    assert len(asked(replay)) - before == 3  # repositories, listing, one file of the directory


def test_a_changed_file_fetches_its_directory_again(replay: Replay, make_web) -> None:
    serve(replay)
    held = held_by(list(SOURCE.fetch(make_web())))
    changed = FILES | {f"{DIRECTORY}/scaling.json": '{"scaling_factor": 1.2}'}
    serve(replay, changed)
    bundle, _ = SOURCE.fetch(make_web(held))
    assert bundle.url not in held
    assert SOURCE.parse(bundle).frames["raw.mlperf_directories"]["scaling_factor"].to_list() == [1.2]


def test_a_new_round_appears_by_itself(replay: Replay, make_web) -> None:
    serve(replay, names=("training_results_v5.1", "training_results_v7.3"))
    replay.add("/api.github.com/repos/mlcommons/training_results_v7.3/git/trees/HEAD", as_json({"tree": []}))
    assert [p.stream for p in SOURCE.fetch(make_web())][-1] == "v7.3/listing"


def test_a_used_up_quota_says_when_to_come_back(replay: Replay, make_web) -> None:
    serve(replay)
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1764547200"}
    replay.add(TREE, Answer(b'{"message": "API rate limit exceeded"}', 403, headers))
    with pytest.raises(FetchError, match="quota is used up; run again after 2025-12-01 00:00:00 UTC"):
        list(SOURCE.fetch(make_web()))


def test_one_directory_that_fails_does_not_stop_the_others(replay: Replay, make_web) -> None:
    files = FILES | {path.replace("A+B", "C"): text for path, text in FILES.items()}
    serve(replay, files)
    replay.add(f"{RAW}/A%2BB/results/s/gpt3/result_1.txt", Answer(b"no", 403))
    fetched = SOURCE.fetch(make_web())
    assert next(fetched).stream == "v5.1/C/results/s/gpt3"
    with pytest.raises(FetchError, match=r"1 results directory was not fetched; .*A\+B/results/s/gpt3"):
        next(fetched)


def test_refusals_in_a_row_end_the_run(replay: Replay, make_web) -> None:
    files = {f"{o}/{'/'.join(p.split('/')[1:])}": t for o in "ABCDEF" for p, t in FILES.items() if p != "README.md"}
    serve(replay, files)
    for path in files:
        replay.add(f"{RAW}/{path}", Answer(b"no", 403))
    with pytest.raises(FetchError, match="3 results directories were not fetched"):
        list(SOURCE.fetch(make_web()))
    assert not any("/D/" in p for p in asked(replay))


def test_a_truncated_listing_is_walked_folder_by_folder(replay: Replay, make_web) -> None:
    serve(replay)
    api = f"/api.github.com/repos/{REPO}/git/trees"
    below = {path.removeprefix("A+B/"): text for path, text in FILES.items() if path.startswith("A+B/")}
    replay.add(TREE, as_json(listing({}, truncated=True), ETag='"tree-1"'))
    folders = [{"path": "A+B", "type": "tree", "sha": "t1"}, {"path": "benchmarks", "type": "tree", "sha": "code"}]
    replay.add(f"{api}/root", as_json({"tree": folders}))
    replay.add(f"{api}/t1", as_json({"tree": listing(below)["tree"]}))
    bundle, closing = SOURCE.fetch(make_web())
    assert SOURCE.parse(bundle).frames["raw.mlperf_runs"].height == 3
    assert closing.etag == '"tree-1"'
    assert not any(p.startswith(f"{api}/code") for p in asked(replay))


def test_a_moved_repository_is_followed(replay: Replay, make_web) -> None:
    serve(replay)
    there = "https://api.github.com/repositories/7/git/trees/HEAD?recursive=1"
    replay.add(TREE, Answer(b"", 301, {"Location": there}))
    replay.add("/api.github.com/repositories/7/git/trees/HEAD", as_json(listing(FILES)))
    for index in range(3):
        moved = f"https://raw.githubusercontent.com/elsewhere/{index}"
        replay.add(f"{RAW}/A%2BB/results/s/gpt3/result_{index}.txt", Answer(b"", 301, {"Location": moved}))
        replay.add(f"/raw.githubusercontent.com/elsewhere/{index}", Answer(run(10.0 + index).encode()))
    bundle, _ = SOURCE.fetch(make_web())
    assert SOURCE.parse(bundle).frames["raw.mlperf_runs"]["minutes"].to_list() == [10.0, 11.0, 12.0]


@pytest.mark.parametrize("answer", [b"<html>sorry</html>", b'{"message": "odd"}', b"[]"])
def test_an_unexpected_listing_of_repositories_is_an_error(replay: Replay, make_web, answer: bytes) -> None:
    replay.add(ORGS, Answer(answer))
    with pytest.raises(FetchError, match=r"api\.github\.com"):
        list(SOURCE.fetch(make_web()))


def test_large_directories_wait_on_disk_and_leave_nothing(
    replay: Replay, make_web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(replay)
    monkeypatch.setattr(github, "IN_MEMORY_BYTES", 100)
    monkeypatch.setattr(github.tempfile, "tempdir", str(tmp_path))
    payloads = list(SOURCE.fetch(make_web()))
    assert len(list(tmp_path.glob("mlperf-*/*"))) == 6
    assert SOURCE.parse(payloads[0]).frames["raw.mlperf_runs"].height == 3
    payloads.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_listing_that_is_none_is_unreadable() -> None:
    from datetime import UTC, datetime

    from sources.base import ParseError

    payload = Payload(
        "mlperf-training", "x", datetime(2026, 1, 1, tzinfo=UTC), "application/json", b"{}", "v5.1/listing"
    )
    with pytest.raises(ParseError, match="tree listing"):
        SOURCE.parse(payload)
