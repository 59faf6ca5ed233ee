"""What `--help` says: every option has its words, and every command takes a home."""

from __future__ import annotations

import importlib

import click
import pytest

from assets.street import StreetReport
from pipelines.cli import COMMANDS
from pipelines.main_job import Outcome
from tests.core.console import Console
from tests.core.test_bad_input import one_line
from warehouse.home import Home


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is_for(name: str) -> None:
    command: click.Command = importlib.import_module(f"pipelines.commands.{name}").command
    options = [p for p in command.params if isinstance(p, click.Option)]
    assert [o.name for o in options if not o.help] == [], "options without words"
    assert "--home" in {o.opts[0] for o in options}
    assert command.help


def test_gpus_that_are_asked_for_and_are_not_there(
    almanac: Console, home: Home, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sources.telemetry.agent.gpus_present", lambda: False)
    answer = almanac("run", "--offline", "--telemetry", "nvml", "--home", f"{tmp_path}/none")
    assert answer.code == 2
    assert "NVML finds no GPU here" in one_line(answer)


def test_sources_that_were_not_asked_are_told_by_cause() -> None:
    offline = [StreetReport(name, problem="no network", skipped=True) for name in ("b", "a")]
    failed = StreetReport("c", problem="500 from the server")
    outcome = Outcome(Home.at("x"), reports=[*offline, failed])
    assert list(outcome.skipped()) == ["not fetched: no network; the archive and curated facts stay in use: a, b"]
    assert list(outcome.complaints()) == ["c: 500 from the server"]
