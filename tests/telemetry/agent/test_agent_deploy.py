"""The deploy manifests are well formed, call the command as it is, and let it end and start again."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pipelines.commands.collect import RESTART, command

DEPLOY = Path(__file__).resolve().parents[3] / "docs" / "deploy"
UNIT = DEPLOY / "almanac-agent.service"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return parser


@pytest.fixture
def pod() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "daemonset.yaml").read_text())
    return found


def accepted(args: list[str]) -> bool:
    """Whether the command takes these arguments."""
    command.make_context("collect", list(args), resilient_parsing=False)
    return True


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/gpu-almanac/bin/almanac", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert complaints == []


def test_the_unit_calls_the_command_with_options_it_has() -> None:
    program, name, *args = shlex.split(unit()["Service"]["ExecStart"])
    assert (Path(program).name, name) == ("almanac", "collect")
    assert accepted(args)


def test_the_unit_starts_the_agent_again_without_end() -> None:
    parsed = unit()
    assert parsed["Service"]["Restart"] == "always"
    assert parsed["Unit"]["StartLimitIntervalSec"] == "0"
    assert parsed["Service"]["KillSignal"] == "SIGTERM"


def test_the_daemon_set_calls_the_command_with_options_it_has(pod: dict[str, Any]) -> None:
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["almanac", "collect"]
    assert accepted(container["args"])


def test_the_daemon_set_is_consistent(pod: dict[str, Any]) -> None:
    spec = pod["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert pod["apiVersion"] == "apps/v1"
    assert pod["spec"]["selector"]["matchLabels"].items() <= pod["spec"]["template"]["metadata"]["labels"].items()
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    assert "nvidia.com/gpu" not in container["resources"].get("limits", {})
    assert spec.get("restartPolicy", "Always") == "Always"


def test_environment_names_are_those_the_command_reads(pod: dict[str, Any]) -> None:
    read = {param.envvar for param in command.params if isinstance(param, click.Option) and param.envvar}
    given = {entry["name"] for entry in pod["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert {name for name in given if name.startswith("ALMANAC_")} <= read


def test_the_documents_name_the_exit_code_of_a_needed_restart() -> None:
    assert f"Exit code {RESTART} " in (DEPLOY / "README.md").read_text()
