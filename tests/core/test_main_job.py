"""The main job on an empty home without network or GPU, once, and what must then hold."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import duckdb
import pytest

from pipelines.cli import almanac as group
from pipelines.cli import guarded
from tests.core.console import Console
from warehouse.fingerprint import fingerprint
from warehouse.home import Home

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"```sql\n(.*?)```\n```\n(.*?)```", README, flags=re.DOTALL)


def call(*arguments: object) -> int:
    return guarded(lambda: group(args=[str(a) for a in arguments], standalone_mode=False))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home after one `almanac run --offline`."""
    home = Home.at(tmp_path_factory.mktemp("main") / "home")
    assert call("run", "--offline", "--home", home.root) == 0
    return home


def rows(home: Home, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.database), read_only=True) as con:
        con.execute("set TimeZone = 'UTC'")
        con.execute("set variable home = ?", [f"{home.root}/"])
        return con.sql(query).fetchall()


def test_a_second_run_changes_no_content(ran: Home) -> None:
    before = fingerprint(ran.database)
    assert call("run", "--offline", "--home", ran.root) == 0
    assert fingerprint(ran.database) == before


def test_every_load_reconciles(ran: Home) -> None:
    assert rows(ran, "select count(*) from ops.loads")[0][0] > 20
    bad = "select * from ops.loads where rows_read <> rows_landed + rows_rejected + rows_duplicate"
    assert rows(ran, bad) == []


def test_all_sixteen_indicators_are_there_in_two_languages(ran: Home) -> None:
    found = rows(ran, "select count(*), count(name_en), count(name_zh) from mart.indicators")
    assert found == [(16, 16, 16)]


def test_synthetic_telemetry_is_marked_everywhere(ran: Home) -> None:
    for table in ("gpu_samples", "gpu_hours", "gpu_minutes", "link_counters", "gpu_events", "inventory"):
        assert rows(ran, f"select bool_and(is_synthetic), count(*) > 0 from telemetry.{table}") == [(True, True)]
    assert "ynthetic" in (ran.report / "index.html").read_text(encoding="utf-8")


def test_curated_rows_are_marked_and_lead_to_their_source(ran: Home) -> None:
    query = (
        "select count(*) from market.financials where source = 'curated' and source_name is null and source_url is null"
    )
    assert rows(ran, query) == [(0,)]


def test_the_report_asks_for_nothing_outside(ran: Home) -> None:
    page = (ran.report / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=.https?:", page) == []
    assert (ran.report / "index.zh.html").exists()


def test_check_passes_and_writes_junit(ran: Home, tmp_path: Path) -> None:
    assert call("check", "--home", ran.root, "--junit", tmp_path / "junit.xml") == 0
    root = ET.parse(tmp_path / "junit.xml").getroot()
    assert len(root.findall(".//testcase")) > 200
    assert root.findall(".//failure") == []


def test_check_fails_and_names_rule_and_rows_when_a_batch_was_blocked(
    ran: Home, tmp_path: Path, almanac: Console
) -> None:
    import shutil

    home = tmp_path / "copy"
    shutil.copytree(ran.root, home)
    (tmp_path / "CIK0001045810.json").write_text("<html>blocked</html>")
    assert almanac("load", "sec-companyfacts", tmp_path / "CIK0001045810.json", "--home", home).code == 1
    answer = almanac("check", "--home", home, "--junit", tmp_path / "junit.xml")
    assert answer.code == 1
    assert "broken: ops.payloads: the newest document of sec-companyfacts" in answer.out
    (failure,) = ET.parse(tmp_path / "junit.xml").getroot().findall(".//failure")
    assert "sec-companyfacts" in str(failure.get("message"))
    assert "CIK0001045810.json" in str(failure.text)


@pytest.mark.parametrize("form", ["duckdb", "parquet", "csv", "xlsx"])
def test_export_writes_every_format(ran: Home, tmp_path: Path, form: str) -> None:
    assert call("export", "--home", ran.root, "--to", tmp_path / "out", "--format", form) == 0
    files = sorted(p.name for p in (tmp_path / "out").glob("[!.]*"))
    if form in ("parquet", "csv"):
        assert f"market.financials.{form}" in files
        assert f"telemetry.gpu_samples.{form}" in files
    else:
        assert files == [f"warehouse.{form}"]


def test_doctor_finds_nothing_broken(ran: Home, almanac: Console) -> None:
    answer = almanac("doctor", "--home", ran.root)
    assert answer.code == 0
    assert "bad" not in {line.split()[0] for line in answer.out.splitlines()}


def test_sources_lists_every_source_with_its_state(ran: Home, almanac: Console) -> None:
    from sources.registry import all_sources

    listed = json.loads(almanac("sources", "--home", ran.root, "--format", "json").out)
    assert {row["source"] for row in listed} == set(all_sources())
    assert all(row["state"] == "on" or row["state"].startswith("off: ") for row in listed)


def test_a_run_of_dagster_itself_gives_the_same_tables(ran: Home, tmp_path: Path) -> None:
    """As the page starts it: the job by name from the definitions, in another process, on another home."""
    other = tmp_path / "other"
    script = (
        "import dagster as dg, sys\n"
        "from pipelines.definitions import defs\n"
        "with dg.DagsterInstance.local_temp(sys.argv[1]) as instance:\n"
        "    result = defs.resolve_job_def('main').execute_in_process(instance=instance, run_config={'resources': {\n"
        "        'home': {'config': {'path': sys.argv[2]}}, 'web': {'config': {'offline': True}}}})\n"
        "    sys.exit(not result.success)\n"
    )
    (tmp_path / "dagster").mkdir()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "dagster"), str(other)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    mine = fingerprint(ran.database, without=("retrieved_at",))
    assert fingerprint(other / "warehouse.duckdb", without=("retrieved_at",)) == mine


def test_the_readme_asks_five_questions() -> None:
    assert len(QUESTIONS) == 5


@pytest.mark.parametrize(("query", "printed"), QUESTIONS)
def test_the_readme_prints_the_answer(ran: Home, almanac: Console, query: str, printed: str) -> None:
    answer = almanac("sql", query, "--home", ran.root)
    assert answer.code == 0, answer.err
    assert answer.out.split() == printed.split()


def test_commands_named_in_the_readme_exist() -> None:
    from pipelines.cli import COMMANDS

    named = set(re.findall(r"(?:^|`)almanac (\w+)", README, flags=re.MULTILINE))
    assert named <= set(COMMANDS)
