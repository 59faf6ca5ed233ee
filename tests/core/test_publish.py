"""The published file: whole or not at all, readable while it changes, portable."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import duckdb
import polars as pl
import pytest

from assets.street import receive
from pipelines.reader import connect
from tests.core.fakes import Figures, body, many
from warehouse import publish as module
from warehouse.errors import WarehouseError
from warehouse.export import export
from warehouse.fingerprint import fingerprint
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.marts import Mart, marts
from warehouse.publish import publish
from warehouse.schema import tables
from warehouse.schema.declare import qualified_name
from warehouse.schema.financials import Financial

SOURCES = pl.DataFrame(
    [
        {
            "source": "test-figures",
            "publisher": "a test",
            "homepage": "",
            "licence": "",
            "terms": "",
            "authority": "primary",
            "cadence": "daily",
            "may_republish": False,
            "off_reason": "",
            "tables": "market.financials",
        }
    ]
)


def link_columns(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(None, pl.Int64).alias("delta"), pl.lit(None, pl.String).alias("delta_status"))


def put_out(at: Home) -> None:
    publish(at, SOURCES, {"telemetry.link_counters": link_columns})


@pytest.fixture(autouse=True)
def _few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish only the tables these tests look at: they are about the file, not about what is in it."""
    wanted = {n: m for n, m in tables().items() if n == "market.financials" or n.startswith("ops.")}
    monkeypatch.setattr(module, "tables", lambda: wanted)
    monkeypatch.setattr(module, "marts", list)


def add_figure(at: Home, number: int) -> None:
    """One more row straight into the lake: the gate is not what these tests are about."""
    lake = Lake(at.lake)
    more = lake.scan(Financial).collect().head(1).with_columns(pl.lit(f"FY{50 + number}Q1").alias("fiscal_period"))
    lake.commit(Financial, [], lambda _h, _t: (more, Load(str(number), "test-figures", Counts(1, 1))))


@pytest.fixture
def at(home: Path) -> Home:
    where = Home.at(home).prepare()
    source = Figures(body(*many(5)))
    receive(where, source, source.payloads())
    put_out(where)
    return where


def test_ledger_reconciles(at: Home) -> None:
    with connect(at) as con:
        bad = "select * from ops.loads where rows_read <> rows_landed + rows_rejected + rows_duplicate"
        assert con.sql(bad).fetchall() == []
        assert con.sql("select rows_landed from ops.loads").fetchall() == [(5,)]


def test_publishing_again_changes_no_content(at: Home) -> None:
    before = fingerprint(at.database)
    put_out(at)
    assert fingerprint(at.database) == before


FACTS = Mart(
    "facts", "m", "g", ("n",), (), {"n": "how many"}, "-- ops.build\nselect count(*) as n from market.financials"
)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of tables read from the lake, and of marts computed, instead of copied."""
    names: list[str] = []
    table, mart = module._publish_table, module._publish_mart

    def read(con, home, lake, model, *more):
        names.append(qualified_name(model))
        return table(con, home, lake, model, *more)

    def compute(con, one, *, is_same):
        names.extend([] if is_same else [one.name])
        return mart(con, one, is_same=is_same)

    monkeypatch.setattr(module, "_publish_table", read)
    monkeypatch.setattr(module, "_publish_mart", compute)
    monkeypatch.setattr(module, "marts", lambda: [FACTS])
    return names


def test_what_the_lake_has_nothing_newer_for_is_copied_and_the_file_says_the_same(at: Home, built: list[str]) -> None:
    first = publish(at, SOURCES, {})
    before = fingerprint(at.database)
    built.clear()
    again = publish(at, SOURCES, {}, first)
    assert [name for name in built if not name.startswith("ops.")] == []
    assert fingerprint(at.database) == before
    assert again.rows == first.rows
    with connect(at) as con:
        (text,) = con.sql("select comment from duckdb_tables() where table_name = 'financials'").fetchall()[0]
        assert text


def test_what_changed_is_read_and_computed_anew(at: Home, built: list[str]) -> None:
    first = publish(at, SOURCES, {})
    add_figure(at, 1)
    built.clear()
    assert publish(at, SOURCES, {}, first).rows["market.financials"] == 6
    assert {"market.financials", "facts"} <= set(built)
    with connect(at) as con:
        assert con.sql("select n from mart.facts").fetchall() == [(6,)]
    whole = fingerprint(at.database)
    publish(at, SOURCES, {})
    assert fingerprint(at.database) == whole


def test_a_file_that_another_process_published_is_not_copied_from(at: Home, built: list[str]) -> None:
    first = publish(at, SOURCES, {})
    publish(at, SOURCES, {})
    built.clear()
    publish(at, SOURCES, {}, first)
    assert {"market.financials", "facts"} <= set(built)


def test_a_commit_that_comes_while_the_file_is_built_counts_as_not_yet_published(
    at: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "marts", list)
    build = module._publish_table

    def meanwhile(con, home, lake, model, *more):
        rows = build(con, home, lake, model, *more)
        if model is Financial:
            add_figure(at, 7)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(module, "_publish_table", meanwhile)
        first = publish(at, SOURCES, {})
    assert first.rows["market.financials"] == 5
    assert publish(at, SOURCES, {}, first).rows["market.financials"] == 6


def tables_of(tree: object) -> set[str]:
    """Tables with a schema anywhere in a parsed statement."""
    if isinstance(tree, list):
        return {name for part in tree for name in tables_of(part)}
    if not isinstance(tree, dict):
        return set()
    here = {f"{tree['schema_name']}.{tree['table_name']}"} if tree.get("type") == "BASE_TABLE" else set()
    return here.union(*(tables_of(part) for part in tree.values()))


def test_a_mart_knows_every_table_it_reads() -> None:
    with duckdb.connect() as con:
        for mart in marts():
            (text,) = con.execute("select json_serialize_sql(?)", [mart.sql]).fetchall()[0]
            named = {name for name in tables_of(json.loads(text)) if not name.startswith(".")}
            assert named, mart.name
            assert named <= mart.reads, mart.name


def test_comments_reach_the_database(at: Home) -> None:
    with connect(at) as con:
        (text,) = con.sql(
            "select comment from duckdb_columns() where table_name = 'financials' and column_name = 'value_usd'"
        ).fetchall()[0]
        assert text.endswith("[USD]")


def test_readers_never_fail_and_never_see_half_a_run(at: Home) -> None:
    """Fifty publishes; every fifth adds a figure. A reader must see as many facts as the ledger says landed."""
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                with connect(at) as con:
                    (facts,) = con.sql("select count(*) from market.financials").fetchall()[0]
                    (landed,) = con.sql("select sum(rows_landed) from ops.loads").fetchall()[0]
                if facts != landed:
                    problems.append(f"{facts} facts, {landed} landed")
            except (duckdb.Error, WarehouseError) as error:
                problems.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(50):
        if i % 5 == 0:
            add_figure(at, i)
        put_out(at)
    done.set()
    reader.join()
    assert problems == []


def test_a_held_connection_keeps_working_and_learns_that_it_is_stale(at: Home) -> None:
    with connect(at) as con:
        assert con.sql("select is_stale from ops.about").fetchall() == [(False,)]
        for _ in range(10):
            put_out(at)
        table = Lake(at.lake).open(Financial)
        table.vacuum(retention_hours=168, dry_run=False)
        assert con.sql("select is_stale from ops.about").fetchall() == [(True,)]
        assert con.sql("select count(*) from market.financials").fetchall() == [(5,)]
    with connect(at) as con:
        assert con.sql("select is_stale from ops.about").fetchall() == [(False,)]


def test_a_home_that_moved_still_answers(at: Home, tmp_path: Path) -> None:
    moved = Home.at(shutil.move(at.root, tmp_path / "elsewhere"))
    with connect(moved) as con:
        assert con.sql("select count(*), any_value(is_latest) from market.financials").fetchall() == [(5, True)]
        assert con.sql("select is_stale from ops.about").fetchall() == [(False,)]


def test_export_needs_nothing_of_the_home(at: Home, tmp_path: Path) -> None:
    export(at, tmp_path / "out", "duckdb", everything=True)
    shutil.rmtree(at.root)
    with duckdb.connect(str(tmp_path / "out" / "warehouse.duckdb"), read_only=True) as con:
        assert con.sql("select count(*) from market.financials").fetchall() == [(5,)]
        assert con.sql("select is_stale from ops.about").fetchall() == [(None,)]
        assert con.sql("select count(*) from duckdb_columns() where comment is not null").fetchall()[0][0] > 60


def test_export_leaves_out_what_may_not_be_given_to_others(at: Home, tmp_path: Path) -> None:
    export(at, tmp_path / "out", "csv")
    assert len((tmp_path / "out" / "market.financials.csv").read_text().splitlines()) == 1


@pytest.mark.parametrize(("form", "name"), [("duckdb", "warehouse.duckdb"), ("csv", "market.financials.csv")])
def test_export_replaces_files_of_others_only_when_told(at: Home, tmp_path: Path, form: str, name: str) -> None:
    mine = tmp_path / name
    mine.write_text("mine")
    with pytest.raises(WarehouseError, match=f"{name} is there already, and no export wrote it; replace"):
        export(at, tmp_path, form)
    assert mine.read_text() == "mine"
    assert [p.name for p in tmp_path.glob(f"*.{form}")] == [name]
    assert mine in export(at, tmp_path, form, overwrite=True)
    assert mine.read_bytes() != b"mine"
    assert [p.name for p in tmp_path.glob(".*")] == [".almanac-export"]


def test_export_replaces_what_it_wrote(at: Home, tmp_path: Path) -> None:
    (file,) = [f for f in export(at, tmp_path, "csv") if f.name == "market.financials.csv"]
    whole = file.read_text()
    file.write_text("cut off")
    export(at, tmp_path, "duckdb")
    export(at, tmp_path, "csv")
    assert file.read_text() == whole


def test_export_never_replaces_the_published_file(at: Home) -> None:
    before = at.database.read_bytes()
    with pytest.raises(WarehouseError, match="is the published file itself"):
        export(at, at.root, "duckdb", overwrite=True)
    assert at.database.read_bytes() == before


def test_a_failing_mart_leaves_the_last_file(at: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = at.database.read_bytes()
    bad = Mart("bad", "m", "g", ("k",), (), {}, "select no_such_column from market.financials")
    monkeypatch.setattr(module, "marts", lambda: [bad])
    with pytest.raises(WarehouseError, match=r"bad\.sql cannot be built"):
        put_out(at)
    assert at.database.read_bytes() == before
    assert list(at.root.glob(".publish-*")) == []


def test_the_file_is_written_for_older_readers(at: Home) -> None:
    """DuckDB writes its storage version after the magic: 65 is what 1.2 reads, hence 1.4 as well."""
    head = at.database.read_bytes()[:32]
    assert head[8:12] == b"DUCK"
    assert int.from_bytes(head[12:20], "little") <= 65
