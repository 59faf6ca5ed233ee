"""What goes wrong is said in one line with a non-zero exit, and nothing is lost."""

from __future__ import annotations

import errno
import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from ingest.segments import write_segment

from pipelines.commands.load import _told
from pipelines.main_job import _cause
from tests.core.console import Answer, Console
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QuarantineRecord


def one_line(answer: Answer) -> str:
    """The complaint; fails where it is not exactly one line or a traceback."""
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert len(lines) == 1, answer.err
    assert "Traceback" not in answer.err
    return lines[0]


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("CIK0001045810.json", b"", "empty"),
        (
            "CIK0001045810.json",
            b"<!DOCTYPE html><html><body>Undeclared Automated Tool</body></html>",
            "refusal page of EDGAR",
        ),
        ("CIK0001045810.json", b'{"cik": 1045810, "entityName": "NVIDIA CORP", "facts": {"us-ga', "breaks off"),
        ("CIK0001045810.json", b'{"cik": 320193, "entityName": "Apple Inc.", "facts": {}}', "CIK"),
    ],
    ids=["empty", "html", "truncated", "wrong company"],
)
def test_a_document_that_cannot_be_read(
    almanac: Console, home: Path, tmp_path: Path, name: str, body: bytes, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(body)
    answer = almanac("load", "sec-companyfacts", path, "--home", home)
    assert answer.code == 1
    assert says.lower() in one_line(answer).lower()
    kept = Lake(Home.at(home).lake).scan(QuarantineRecord).collect()
    assert kept.height == 1


def test_an_unknown_source_names_the_nearest(almanac: Console, home: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{}")
    answer = almanac("load", "sec-company-facts", tmp_path / "x", "--home", home)
    assert answer.code == 2
    assert "did you mean sec-companyfacts" in one_line(answer)


def test_an_unknown_source_without_a_near_one_names_none(almanac: Console, home: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{}")
    answer = almanac("load", "nosuch", tmp_path / "x", "--home", home)
    assert (answer.code, one_line(answer)) == (
        2,
        "almanac: no source is called 'nosuch'; see `almanac sources`",
    )


@pytest.mark.parametrize("filled", [False, True])
def test_a_place_to_ship_to_that_cannot_be(almanac: Console, tmp_path: Path, filled: bool) -> None:
    (tmp_path / "spool").mkdir()
    if filled:
        write_segment(tmp_path / "spool", "n1", range(3))
    answer = almanac("ship", "/dev/null/x", "--spool", tmp_path / "spool")
    assert answer.code == 2
    assert "the inbox cannot be reached" in one_line(answer)


def test_a_place_to_ingest_from_that_is_not_there(almanac: Console, home: Path) -> None:
    answer = almanac("ingest", "--from", "/nonexistent", "--home", home)
    assert (answer.code, answer.out) == (2, "")
    assert "/nonexistent is no folder" in one_line(answer)


def test_documents_are_counted_as_they_are_read() -> None:
    files = (Path(__file__), Path(__file__).parent / "console.py")
    assert _told(0, files[:1]) == "0 documents"
    assert _told(1, files[:1]) == "1 document"
    assert _told(1, files) == "1 document of 2 files"
    assert _told(2, files) == "2 documents"


def test_a_path_that_does_not_exist(almanac: Console, home: Path) -> None:
    answer = almanac("load", "sec-companyfacts", home / "nothing.json", "--home", home)
    assert answer.code == 2
    assert "does not exist" in answer.err


def test_an_unknown_command_names_the_nearest(almanac: Console) -> None:
    answer = almanac("chek")
    assert answer.code == 2
    assert "did you mean `almanac check`" in answer.err


def test_asking_before_anything_ran(almanac: Console, home: Path) -> None:
    for command in (
        ["sql", "select 1"],
        ["check"],
        ["export", "--to", home / "x"],
        ["report"],
        ["doctor", "--fingerprint"],
    ):
        answer = almanac(*command, "--home", home)
        assert answer.code == 2
        assert "run `almanac run` first" in one_line(answer)


def test_a_home_that_cannot_be_written(almanac: Console, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = almanac("run", "--offline", "--home", tmp_path / "file" / "home")
    assert answer.code == 2
    assert "choose another place with --home" in one_line(answer)


def test_a_disk_that_is_full(almanac: Console, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(home))

    monkeypatch.setattr("warehouse.archive.os.fsync", full)
    (tmp_path / "x.json").write_text("{}")
    answer = almanac("load", "sec-companyfacts", tmp_path / "x.json", "--home", home)
    assert answer.code == 2
    assert "No space left on device" in one_line(answer)
    assert list(Home.at(home).archive.rglob("*.zst")) == []


def test_a_disk_that_is_full_for_the_run_history(almanac: Console, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("pipelines.main_job.run_main_job", full)
    answer = almanac("run", "--offline", "--home", home)
    assert answer.code == 2
    assert "make room on the disk" in one_line(answer)


def test_a_document_without_rows_says_so(almanac: Console, home: Path, tmp_path: Path) -> None:
    shape = {"name": "BM.Standard.E5", "gpuQty": None, "status": "ACTIVE", "processorType": {"value": "amd"}}
    (tmp_path / "shapes.json").write_text(json.dumps({"items": [shape]}))
    answer = almanac(
        "load", "gpu-prices/oracle", tmp_path / "shapes.json", "--observed-at", "2026-09-01", "--home", home
    )
    assert (answer.code, "no row in file:shapes.json" in answer.out) == (1, True)


def test_a_step_that_fails_is_told_in_our_own_words() -> None:
    beneath = SimpleNamespace(message="Error: No files in log segment", cls_name="TableNotFoundError", cause=None)
    ours = SimpleNamespace(message="move that folder away", cls_name="WarehouseError", cause=beneath)
    step = SimpleNamespace(message="an op failed", cls_name="DagsterExecutionStepExecutionError", cause=ours)
    assert _cause(SimpleNamespace(step_failure_data=SimpleNamespace(error=step))) == "move that folder away"
    stopped = SimpleNamespace(message="…Error", cls_name="DagsterExecutionInterruptedError", cause=None)
    assert _cause(SimpleNamespace(step_failure_data=SimpleNamespace(error=stopped))).startswith("interrupted; what has")


def test_a_published_file_of_another_version(almanac: Console, home: Path) -> None:
    import duckdb

    with duckdb.connect(str(home / "warehouse.duckdb")) as con:
        con.execute("create table something (a int)")
    answer = almanac("sql", "select 1", "--home", home)
    assert answer.code == 2
    assert "`almanac run` builds it again" in one_line(answer)


def test_a_published_file_that_is_no_database(almanac: Console, home: Path) -> None:
    (home / "warehouse.duckdb").write_bytes(b"not a database" * 1000)
    answer = almanac("sql", "select 1", "--home", home)
    assert answer.code == 2
    assert "`almanac run` builds it again" in one_line(answer)


def test_a_corrupt_delta_log(almanac: Console, home: Path, tmp_path: Path) -> None:
    at = Home.at(home).prepare()
    log = at.lake / "market" / "financials" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{broken")
    (tmp_path / "x.json").write_text("{}")
    answer = almanac("load", "sec-companyfacts", tmp_path / "x.json", "--home", home)
    assert answer.code == 2
    assert "market.financials" in one_line(answer)


def test_a_query_with_a_mistake_is_one_line(almanac: Console, home: Path) -> None:
    import duckdb

    with duckdb.connect(str(home / "warehouse.duckdb")) as con:
        con.execute("create schema ops; create table ops.build (build_id text)")
    answer = almanac("sql", "selec 1", "--home", home)
    assert answer.code == 2
    assert "syntax error" in one_line(answer)


def test_sql_cannot_write(almanac: Console, home: Path) -> None:
    import duckdb

    with duckdb.connect(str(home / "warehouse.duckdb")) as con:
        con.execute("create schema ops; create table ops.build (build_id text)")
    answer = almanac("sql", "drop table ops.build", "--home", home)
    assert answer.code == 2
    assert "read-only" in one_line(answer)


@pytest.fixture
def asked(home: Path) -> Path:
    """A home whose published file can be asked."""
    import duckdb

    with duckdb.connect(str(home / "warehouse.duckdb")) as con:
        con.execute("create schema ops; create table ops.build (build_id text)")
    return home


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select 1; select 2", "one query, and this text holds 2"),
        ("/* only a remark */", "no query given"),
        ("copy (select 1) to '{file}'", "--out FILE"),
        ("explain analyze copy (select 1) to '{file}'", "--out FILE"),
        ("EXPLAIN (analyze) copy (select 1) to '{file}'", "--out FILE"),
        ("export database '{file}'", "almanac export"),
        ("attach '{file}'", "not ATTACH"),
        ("create temp table a as select 1", "not CREATE"),
    ],
)
def test_sql_takes_one_query_and_writes_no_file(
    almanac: Console, asked: Path, tmp_path: Path, query: str, says: str
) -> None:
    file = tmp_path / "written"
    answer = almanac("sql", query.format(file=file), "--home", asked)
    assert answer.code == 2
    assert says in one_line(answer)
    assert answer.out == ""
    assert not file.exists()


@pytest.mark.parametrize(
    "query",
    ["select 1;", "from range(2)", "show all tables", "explain analyze select 1", "pragma version", "summarize select 1",
     "with a as (select 1 as b) select b from a", "pivot (select 1 as a, 2 as b) on a using sum(b)", "values (1)"],
)  # fmt: skip
def test_sql_takes_every_kind_of_query(almanac: Console, asked: Path, query: str) -> None:
    answer = almanac("sql", query, "--home", asked)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_place_that_cannot_be_written_is_named_as_given(
    almanac: Console, asked: Path, tmp_path: Path, form: str
) -> None:
    out = tmp_path / "nowhere" / "x"
    answer = almanac("sql", "select 1", "--format", form, "--out", out, "--home", asked)
    assert answer.code == 2
    assert (
        one_line(answer)
        == f"almanac: cannot write {out}: there is no folder {out.parent}; choose another place with --out"
    )


def test_json_output_is_json(almanac: Console, home: Path) -> None:
    import duckdb

    with duckdb.connect(str(home / "warehouse.duckdb")) as con:
        con.execute("create schema ops; create table ops.build (build_id text)")
    answer = almanac(
        "sql", "select 1 as a, date '2026-01-02' as d, 1.5::decimal(4,1) as x", "--format", "json", "--home", home
    )
    assert json.loads(answer.out) == [{"a": 1, "d": "2026-01-02", "x": 1.5}]


def test_data_of_the_future_is_not_taken(almanac: Console, home: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{}")
    answer = almanac(
        "load", "gpu-prices/runpod", tmp_path / "prices.json", "--observed-at", "2999-01-01", "--home", home
    )
    assert answer.code == 2
    assert "lies in the future" in one_line(answer)


@pytest.mark.parametrize(
    ("source", "name", "body"),
    [
        ("sec-companyfacts", "CIK0001045810.json", b"{"),
        ("gpu-prices/azure", "azure-2026-09-01.json", b"{"),
        ("guidance-notes", "notes.csv", b"a,b\n1,2\n"),
        ("slurm", "sacct.txt", b"hello\n"),
        ("fx-ecb", "rates.xml", b"{"),
    ],
)
def test_a_complaint_names_its_file_once(
    almanac: Console, home: Path, tmp_path: Path, source: str, name: str, body: bytes
) -> None:
    (tmp_path / name).write_bytes(body)
    answer = almanac("load", source, tmp_path / name, "--home", home)
    assert answer.code == 1
    assert one_line(answer).count(name) == 1


def test_blocked_exports_of_one_stream_are_told_apart(almanac: Console, home: Path, tmp_path: Path) -> None:
    wrong = "".join(f"{i}|{i}|COMPLETED|x|y|z|more|more\n" for i in range(40))
    for number in (1, 2):
        path = tmp_path / f"sacct.{number}.txt"
        path.write_text(f"JobID|JobIDRaw|State|Submit|Start|End\n{wrong}# {number}\n")
    answer = almanac("load", "slurm", tmp_path / "sacct.1.txt", tmp_path / "sacct.2.txt", "--home", home)
    assert answer.code == 1
    first, second = answer.err.splitlines()
    assert "nothing of file:sacct.1.txt landed" in first
    assert "nothing of file:sacct.2.txt landed" in second


def test_load_says_why_rows_were_refused(almanac: Console, home: Path, tmp_path: Path) -> None:
    (tmp_path / "tsm-revenue20260910x6k.htm").write_text("TSMC reports revenue for August 2026")
    answer = almanac("load", "sec-tsmc-revenue", tmp_path / "tsm-revenue20260910x6k.htm", "--home", home)
    assert answer.code == 1
    assert (
        "refused 1 by monthly_revenue in file:tsm-revenue20260910x6k.htm: it holds no table; give the report as HTML"
        in answer.out
    )


def test_load_tells_what_concerns_its_own_documents(almanac: Console, home: Path, tmp_path: Path) -> None:
    bad, other = tmp_path / "CIK0001045810.json", tmp_path / "CIK0000789019.json"
    bad.write_text("{")
    other.write_text('{"cik": 789019, "entityName": "MICROSOFT CORP", "facts": {}}')
    assert almanac("load", "sec-companyfacts", bad, "--home", home).code == 1
    assert "CIK0001045810" not in almanac("load", "sec-companyfacts", other, "--home", home).err
    again = almanac("load", "sec-companyfacts", bad, "--home", home)
    assert again.code == 1
    assert "file:CIK0001045810.json: still blocked: " in one_line(again)
    assert "CIK0001045810" in almanac("check", "--home", home).out


@pytest.mark.parametrize(
    ("source", "name", "more"),
    [
        ("no-such-source", "x.json", ()),
        ("sec-companyfacts", "missing.json", ()),
        ("sec-companyfacts", "x.json", ("--observed-at", "yesterday")),
        ("sec-companyfacts", "x.json", ("-o", "nothing")),
        ("sec-companyfacts", "x.json", ("-o", "no=thing")),
        ("curated", "x.json", ()),
        ("mlperf-inference", "x.json", ()),
        ("sec-release", "empty", ()),
    ],
)
def test_a_wrong_load_makes_no_home(
    almanac: Console, tmp_path: Path, source: str, name: str, more: tuple[str, ...]
) -> None:
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    home = tmp_path / "home"
    assert almanac("load", source, tmp_path / name, *more, "--home", home).code in (1, 2)
    assert not home.exists()


def test_doctor_looks_and_makes_nothing(almanac: Console, tmp_path: Path) -> None:
    answer = almanac("doctor", "--home", tmp_path / "home")
    assert answer.code == 0
    assert f"note  home: {tmp_path / 'home'} does not exist" in answer.out
    assert not (tmp_path / "home").exists()


def test_a_complaint_of_the_gate_is_a_line_a_person_reads(almanac: Console, home: Path, tmp_path: Path) -> None:
    header = "quoted_date,provider,gpu,gpu_count,amount,currency,unit,kind,term_months,upfront_amount,region,reference,link,notes"
    (tmp_path / "q.csv").write_text(
        f"{header}\n2999-01-01,CoreWeave,H100 SXM5,8,2.35,USD,gpu_hour,contract,12,,us-east,Q-1,,\n"
    )
    answer = almanac("load", "gpu-prices/quotes", tmp_path / "q.csv", "--home", home)
    assert answer.code == 1
    line = one_line(answer)
    assert "nothing of file:q.csv landed: file/q: observed_in_the_future" in line
    assert line.endswith("ops.quality_results and ops.payloads hold the whole)")
    assert len(line) < 400


@pytest.mark.parametrize(("name", "odd"), [("a b", "' '"), ("x%41y", "'%'"), ("übung", "'ü'"), ("q[1]", "'[' ']'")])
def test_a_home_whose_lake_could_not_be_read_back_is_refused_before_anything_is_made(
    almanac: Console, tmp_path: Path, name: str, odd: str
) -> None:
    answer = almanac("ingest", "--home", tmp_path / name)
    assert answer.code == 2
    assert f"cannot hold a lake: its files would not be found again for {odd} in it" in one_line(answer)
    assert not (tmp_path / name).exists()
