"""A wrong call is one line and exit code 2 (1 where a far end failed), and leaves nothing behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.core.console import Console
from tests.core.test_bad_input import one_line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ingest", "--from", "gone"], "gone is no folder"),
        (["ingest", "--from", "file://{here}/gone"], "gone is no folder"),
        (["ingest", "--from", "s4://x/y"], "s4://x/y is no place"),
        (["ingest", "--follow", "--from", "s4://x/y"], "s4://x/y is no place"),
        (["ingest", "--inbox", "gone"], "'gone' does not exist"),
        (["ship", "out"], "no spool to ship from"),
        (["ship", "out", "--spool", "gone"], "gone is no folder"),
        (["ship", "file://{here}/out", "--spool", "gone"], "gone is no folder"),
        (["ship", "out", "--follow", "--every", "-1"], "--every"),
        (["load", "slurm", "gone"], "gone does not exist"),
        (
            ["mfu", "--config", "gone", "--tokens", "1", "--seconds", "1", "--accelerators", "1"],
            "'gone' does not exist",
        ),
        (["receive", "--listen", "nonsense"], "is no address"),
        (["receive", "--listen", "192.0.2.1:9201"], "cannot listen on"),
        (["receive", "--listen", "127.0.0.1:{taken}"], "cannot listen on"),
        (["backfill", "nowhere", "--from", "2026-11-01"], "is no address of a Prometheus"),
        (["backfill", "http://127.0.0.1:9", "--from", "soon"], "is not an ISO 8601 instant"),
        (["backfill", "http://127.0.0.1:9", "--from", "2026-11-01", "--chunk", "30"], "shorter than --step"),
        (["check", "--junit", "gone/x.xml"], "run `almanac run` first"),
        (["export", "--to", "out"], "run `almanac run` first"),
        (["dismiss", "abc", "--reason", "x"], "run `almanac run` first"),
        (["synthetic", "--straggler", "nonsense"], "--straggler"),
        (["synthetic", "--hours", "0"], "--hours"),
        (["run", "--telemetry", "none", "left over"], "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_makes_nothing(
    almanac: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMANAC_HOME", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = almanac(*(a.format(here=tmp_path, taken=port) for a in arguments))
    assert answer.code == 2, answer
    assert says in one_line(answer)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_leaves_no_home(
    almanac: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMANAC_HOME", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answer = almanac("backfill", f"http://127.0.0.1:{port}", "--from", "2026-11-30", "--to", "2026-11-30T00:10")
    assert answer.code == 1
    assert "no connection" in one_line(answer)
    assert list(tmp_path.iterdir()) == []
