"""A refused document or batch set aside by a person: it no longer fails anything, and the decision stays on record."""

from __future__ import annotations

import hashlib
from pathlib import Path

import duckdb
import polars as pl
import pytest

from assets.dismissals import decide, refused_documents, refused_load
from assets.publish import publish_home
from assets.street import land_pending, receive
from sources.base import Payload
from tests.core.console import Console
from tests.core.fakes import AT, Figures, body, many
from warehouse.archive import Archive
from warehouse.errors import WarehouseError
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.quality.audit import audit
from warehouse.schema.declare import lake_schema
from warehouse.schema.financials import Financial
from warehouse.schema.ops import DismissalRecord
from warehouse.schema.telemetry import GpuSample

WRONG = b"<html>the wrong file</html>"
SHA = hashlib.sha256(WRONG).hexdigest()
WHY = "a page saved by mistake"


@pytest.fixture
def at(home: Path) -> Home:
    return Home.at(home).prepare()


def load(at: Home, content: bytes, name: str = "0.json", source: Figures | None = None) -> Figures:
    source = source or Figures()
    payload = Payload(source.name, f"file:{name}", AT, "application/json", content, stream="s")
    receive(at, source, [payload])
    return source


def test_a_dismissed_document_no_longer_fails_the_run(at: Home) -> None:
    source = load(at, WRONG)
    assert land_pending(at, source).failed
    decide(at, refused_documents(at, SHA[:8]), "dismissed", WHY)
    assert not land_pending(at, source).failed


def test_the_document_before_counts_again(at: Home) -> None:
    older = b"<html>an older page</html>"
    source = load(at, older)
    load(at, WRONG, "1.json")
    decide(at, refused_documents(at, SHA), "dismissed", WHY)
    assert [url for url, _ in land_pending(at, source).still_blocked] == ["file:0.json"]


def test_a_new_bad_document_fails_after_one_was_dismissed(at: Home) -> None:
    source = load(at, WRONG)
    decide(at, refused_documents(at, SHA), "dismissed", WHY)
    load(at, b"<html>another</html>", "1.json")
    assert land_pending(at, source).failed


def test_undo_makes_it_count_again_and_keeps_both_decisions(at: Home) -> None:
    source = load(at, WRONG)
    subjects = refused_documents(at, SHA)
    assert decide(at, subjects, "dismissed", WHY) == subjects
    assert decide(at, subjects, "dismissed", "once more") == []
    assert decide(at, subjects, "restored", "it was the right file") == subjects
    assert land_pending(at, source).failed
    kept = Lake(at.lake).scan(DismissalRecord).sort("decided_at").collect()
    assert kept["decision"].to_list() == ["dismissed", "restored"]
    assert kept["reason"].to_list() == [WHY, "it was the right file"]
    assert kept["refusal"].str.contains("is not JSON").all()


def test_loading_a_dismissed_document_again_says_that_it_is_dismissed(at: Home) -> None:
    source = load(at, WRONG)
    decide(at, refused_documents(at, SHA), "dismissed", WHY)
    payload = Payload(source.name, "file:0.json", AT, "application/json", WRONG, stream="s")
    report = receive(at, source, [payload])
    assert report.dismissed == [("file:0.json", WHY)]
    assert any("--undo" in line for line in report.complaints())


def test_a_dismissed_document_does_not_land_under_a_newer_parser(at: Home) -> None:
    class Forgiving(Figures):
        version = 2

        def parse(self, payload: Payload):
            return super().parse(Payload(payload.source, payload.url, AT, "", body(*many(3))))

    load(at, WRONG)
    decide(at, refused_documents(at, SHA), "dismissed", WHY)
    land_pending(at, Forgiving())
    assert Lake(at.lake).scan(Financial).collect().height == 0


def test_what_landed_cannot_be_dismissed(at: Home) -> None:
    good = body(*many(3))
    load(at, good)
    with pytest.raises(WarehouseError, match="only a refused document"):
        refused_documents(at, hashlib.sha256(good).hexdigest())


@pytest.mark.parametrize(("digits", "says"), [("abc", "at least 8"), ("zzzzzzzz", "hex"), ("00000000", "no document")])
def test_digits_that_name_nothing(at: Home, digits: str, says: str) -> None:
    load(at, WRONG)
    with pytest.raises(WarehouseError, match=says):
        refused_documents(at, digits)


def blocked_batch(at: Home, held: list[str]) -> str:
    """A batch of telemetry that was blocked, in the ledger of the published file."""
    frame = pl.DataFrame(schema=lake_schema(GpuSample))
    stats = {"": {"payload_ids": held}} if held else {}
    blocked = Load("load-7", "nvml", Counts(9, 0, 9, 0), "blocked", "c1: the clock is wrong", 1, stats)
    Lake(at.lake).commit(GpuSample, [], lambda _h, _t: (frame, blocked))
    publish_home(at)
    return blocked.load_id


def failing(at: Home) -> list[str]:
    return [f.remedy for f in audit(at) if not f.passed and f.severity == "critical"]


def test_a_blocked_batch_is_dismissed_by_its_load(at: Home) -> None:
    load_id = blocked_batch(at, [])
    told = (
        "land a good batch (what a clock or a jump held back: almanac ingest --inbox HOME/quarantine --accept), or set "
        'this one aside: almanac dismiss --load-id load-7 --reason "…"'
    )
    assert failing(at) == [told]
    decide(at, refused_load(at, load_id), "dismissed", "a test of the clock")
    publish_home(at)
    assert failing(at) == []
    with pytest.raises(WarehouseError, match="no blocked load"):
        refused_load(at, "load-8")


def test_documents_speak_for_the_batches_that_hold_them(at: Home) -> None:
    blocked_batch(at, ["a-document"])
    assert failing(at) == []
    with duckdb.connect(str(at.database), read_only=True) as con:
        assert con.sql("select held_payload_ids from ops.loads where load_id = 'load-7'").fetchall() == [
            ("a-document",)
        ]


def test_check_names_the_command_and_passes_after_it(almanac: Console, at: Home, tmp_path: Path) -> None:
    page = tmp_path / "CIK0001045810.json"
    page.write_bytes(WRONG)
    assert almanac("load", "sec-companyfacts", page, "--home", at.root).code == 1
    answer = almanac("check", "--home", at.root)
    assert answer.code == 1
    assert f"almanac dismiss {SHA[:12]} --reason" in answer.out
    assert almanac("dismiss", SHA[:12], "--reason", WHY, "--home", at.root).code == 0
    assert almanac("check", "--home", at.root).code == 0
    again = almanac("load", "sec-companyfacts", page, "--home", at.root)
    assert again.code == 1
    assert WHY in again.err
    assert "already there" not in again.out
    assert almanac("dismiss", SHA[:12], "--undo", "--reason", "look again", "--home", at.root).code == 0
    assert almanac("check", "--home", at.root).code == 1
    assert Archive(at.archive).starting_with(SHA)[0].outcome == "unreadable"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((SHA,), "--reason"),
        ((SHA, "--reason", "  "), "--reason is empty"),
        (("--reason", WHY), "give the SHA-256"),
        ((SHA, "--load-id", "x", "--reason", WHY), "give the SHA-256"),
    ],
)
def test_a_wrong_call_is_refused(almanac: Console, home: Path, arguments: tuple[str, ...], says: str) -> None:
    answer = almanac("dismiss", *arguments, "--home", home)
    assert answer.code == 2
    assert says in answer.err
    assert list(home.iterdir()) == []
