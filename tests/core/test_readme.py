"""The README's questions are asked, and answered as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.console import Console
from tests.core.test_main_job import ran  # noqa: F401 - the home after one run
from warehouse.home import Home

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
PAIRS = re.findall(r"```sql\n(.*?)```\n```\n(.*?)```", README, flags=re.DOTALL)

pytestmark = pytest.mark.xdist_group("main job")


def test_there_are_five_questions() -> None:
    assert len(PAIRS) == 5


@pytest.mark.parametrize(("query", "printed"), PAIRS)
def test_the_answer_is_the_printed_one(ran: Home, almanac: Console, query: str, printed: str) -> None:  # noqa: F811
    answer = almanac("sql", query, "--home", ran.root)
    assert answer.code == 0, answer.err
    assert answer.out.split() == printed.split()


def test_commands_named_in_the_readme_exist() -> None:
    from pipelines.cli import COMMANDS

    named = set(re.findall(r"(?:^|`)almanac (\w+)", README, flags=re.MULTILINE))
    assert named <= set(COMMANDS)
