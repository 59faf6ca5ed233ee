"""Files a person fills: good rows land marked, bad rows say what to change, who wrote them is not kept."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from sources.base import ParseError, Payload
from sources.sec.estimates import ESTIMATES
from sources.sec.estimates import SOURCE as OWN
from sources.sec.figures import GUIDANCE
from sources.sec.guidance_notes import SOURCE as NOTES

HEAD = "entity,metric,target_period,low,high,unit,date,channel,link,sentence,definition,entered_by\n"
GOOD = (
    "GOOGL,capex_cash_ppe,FY26,195,205,billion,2026-07-22,call,https://example.org/call,"
    '"The range for 2026 is now 195 to 205 billion dollars.",cash purchases,Somebody\n'
)


def payload(text: str) -> Payload:
    return Payload(
        "guidance-notes", "file:notes.csv", dt.datetime(2026, 11, 1, tzinfo=dt.UTC), "text/csv", text.encode()
    )


def test_a_note_becomes_a_marked_row():
    parsed = NOTES.parse(payload(HEAD + GOOD))
    row = parsed.frames[GUIDANCE].row(0, named=True)
    assert (row["low_usd"], row["mid_usd"], row["high_usd"]) == (195e9, 200e9, 205e9)
    assert (row["channel"], row["certainty"], row["known_at_precision"]) == ("call", "entered by a person", "day")
    assert (str(row["target_period_start"]), str(row["target_period_end"])) == ("2026-01-01", "2026-12-31")
    assert row["known_at"] == dt.datetime(2026, 7, 22, tzinfo=dt.UTC)


def test_who_entered_it_is_stored_nowhere():
    parsed = NOTES.parse(payload(HEAD + GOOD + GOOD.replace("195,", "x,")))
    assert "Somebody" not in str(parsed.frames[GUIDANCE].rows())
    assert "Somebody" not in str(parsed.rejects)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("195,205", "205,195", "above high"),
        ("195,205", ",", "neither low nor high"),
        ("195,205", "n/a,205", "not a number"),
        ("195,205", "-1,205", "not negative"),
        ("billion", "bn", "unit is"),
        ("2026-07-22", "22.7.2026", "such as 2026"),
        (",call,", ",rumour,", "one of call"),
        ("https://example.org/call", "see the call", "web address"),
        ("FY26", "2026", "FY27"),
        ("GOOGL", "Alphabet Inc", "MSFT"),
        ("capex_cash_ppe", "", "metric is empty"),
        ("The range for 2026 is now 195 to 205 billion dollars.", "x" * 401, "401 characters"),
    ],
)
def test_a_row_that_cannot_be_used_says_why(old, new, message):
    parsed = NOTES.parse(payload(HEAD + GOOD.replace(old, new, 1)))
    assert parsed.frames[GUIDANCE].is_empty()
    (reject,) = parsed.rejects
    assert message in reject.reason
    assert reject.locator == "line 2"


def test_a_floor_and_a_calendar_year():
    text = HEAD + GOOD.replace("195,205", "30,").replace("FY26", "CY2026").replace("GOOGL", "MSFT")
    row = NOTES.parse(payload(text)).frames[GUIDANCE].row(0, named=True)
    assert (row["guidance_kind"], row["high_usd"], str(row["target_period_end"])) == ("at_least", None, "2026-12-31")


@pytest.mark.parametrize("text", ["", "<html></html>", "entity,metric\nMSFT,x\n"])
def test_another_file_is_an_error(text):
    with pytest.raises(ParseError):
        NOTES.parse(payload(text))


def test_an_estimate_is_kept_apart():
    text = (
        "entity,metric,fiscal_period,value,unit,date,name,analysts\nNVDA,revenue,FY27Q2,93.5,billion,2026-08-20,consensus,41\n"
        "NVDA,revenue,FY27Q2,many,billion,2026-08-20,consensus,41\n"
    )
    parsed = OWN.parse(payload(text))
    row = parsed.frames[ESTIMATES].row(0, named=True)
    assert (row["value_usd"], row["analyst_count"], row["estimate_name"]) == (93.5e9, 41, "consensus")
    assert [r.locator for r in parsed.rejects] == ["line 3"]


GUIDE = Path(__file__).resolve().parents[2] / "docs/filings.md"


def examples() -> list[str]:
    return re.findall(r"```csv\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_of_the_guide_can_be_loaded(tmp_path):
    notes, estimates = examples()
    (tmp_path / "notes.csv").write_text(notes)
    (one,) = NOTES.read([tmp_path / "notes.csv"], {})
    parsed = NOTES.parse(one)
    assert not parsed.rejects
    assert parsed.frames[GUIDANCE]["low_usd"].to_list() == [195e9, 175e9, 30e9]
    assert parsed.frames[GUIDANCE]["guidance_kind"].to_list() == ["range", "approximately", "at_least"]
    (tmp_path / "estimates.csv").write_text(estimates)
    (two,) = OWN.read([tmp_path / "estimates.csv"], {})
    parsed = OWN.parse(two)
    assert not parsed.rejects
    assert parsed.frames[ESTIMATES]["value_usd"].to_list() == [109.2e9, 101.5e9]


def test_what_is_archived_holds_no_other_column(tmp_path):
    (tmp_path / "notes.csv").write_text(HEAD + GOOD)
    (one,) = NOTES.read([tmp_path], {})
    assert b"Somebody" not in one.read()
    assert b"195" in one.read()
    assert NOTES.parse(one).frames[GUIDANCE].height == 1


def test_an_archived_file_of_estimates_holds_no_other_column(tmp_path):
    head = "entity,metric,fiscal_period,value,unit,date,name,definition_version,entered_by"
    (tmp_path / "own.csv").write_text(f"{head}\nNVDA,revenue,FY27Q1,10,billion,2026-03-01,house,2,Somebody\n")
    (one,) = OWN.read([tmp_path], {})
    assert b"Somebody" not in one.read()
    (row,) = OWN.parse(one).frames[ESTIMATES].to_dicts()
    assert (row["value_usd"], row["estimate_name"], row["definition_version"]) == (10e9, "house", "2")


def test_a_file_that_is_no_csv_is_archived_as_it_is(tmp_path):
    (tmp_path / "notes.csv").write_bytes(b"\xff\xfe\x00")
    (one,) = NOTES.read([tmp_path], {})
    assert one.read() == b"\xff\xfe\x00"
