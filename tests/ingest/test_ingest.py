"""Ingest as a whole: what lands, what is held back and where it goes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import polars as pl
import pytest

from assets import clock_checks, waiting
from assets import ingest as ingesting
from assets.ingest import ingest
from ingest.segments import COLUMNS, SECOND_US, START_US, event, reading, samples, write_segment
from pipelines import diagnosis
from sources.telemetry.spool_format import Column
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QualityResult
from warehouse.schema.telemetry import GpuSample
from warehouse.schema.telemetry_fleet import GpuEvent


@pytest.fixture
def house(home: Path) -> Home:
    return Home(home).prepare()


def counts(report) -> tuple[int, int, int, int]:
    (one,) = [landed for landed in report.landed if landed.table == "telemetry.gpu_samples"]
    return one.counts.read, one.counts.landed, one.counts.rejected, one.counts.duplicate


def test_samples_and_records_land_and_segments_are_archived(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10), records=[event(3, "n1")])
    report = ingest(house)
    assert counts(report) == (20, 20, 0, 0)
    assert not report.failed
    assert samples(house)["energy_j"].to_list() == [400.0 * k for k in range(10)] * 2
    assert list(house.inbox.iterdir()) == []
    assert len(list((house.archive / "spool").iterdir())) == 1


def test_an_xid_that_came_without_severity_or_action_gets_the_catalogues(house: Home) -> None:
    write_segment(house.inbox, "n1", range(2), records=[event(1, "n1", 79)])
    ingest(house)
    (row,) = Lake(house.lake).scan(GpuEvent).collect().select("severity", "action").rows()
    assert row == ("fatal", "RESTART_BM")


def test_a_column_nobody_declared_is_left_out_with_a_warning(house: Home) -> None:
    columns = (*COLUMNS, Column("flux_capacitance", "f8", "F"))
    rows = {0: reading(0) | {"flux_capacitance": 1.21}}
    write_segment(house.inbox, "n1", [0], columns=columns, rows=rows)
    report = ingest(house)
    assert samples(house).height == 2
    assert not report.failed
    told = Lake(house.lake).scan(QualityResult).filter(~pl.col("passed")).collect()
    assert told.select("severity", "sample").rows() == [("warning", "left out: gpu_samples.flux_capacitance")]


def test_a_unit_nobody_knows_holds_its_own_segment_back_and_no_other(house: Home) -> None:
    columns = (Column("power_w", "f8", "hp"), *COLUMNS[1:])
    wrong = write_segment(house.inbox, "n1", range(3), columns=columns)
    write_segment(house.inbox, "n2", range(3))
    report = ingest(house)
    assert samples(house)["node"].unique().to_list() == ["n2"]
    assert report.failed
    assert any("'hp'" in line for line in report.complaints())
    assert [p.name for p in house.quarantine.glob("*.seg")] == [wrong.name]
    # Given again it is known to be blocked: nothing is landed or counted twice.
    wrong_again = house.inbox / wrong.name
    (house.quarantine / wrong.name).rename(wrong_again)
    report = ingest(house)
    assert (report.segments, report.landed) == (1, [])
    assert samples(house).height == 6


def test_a_batch_a_thousandfold_off_is_held_back_until_a_person_accepts_it(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10), power_w=70.0)
    ingest(house)
    before = samples(house)
    off = write_segment(house.inbox, "n1", range(10, 20), power_w=70_000.0)  # mW taken for W; below the bound
    report = ingest(house)
    assert counts(report) == (20, 0, 20, 0)
    assert any("the magnitude of power_w does not change 100-fold" in line for line in report.complaints())
    assert samples(house).equals(before)
    assert [p.name for p in house.quarantine.glob("*.seg")] == [off.name]
    files = list(Lake(house.lake).path(GpuSample).rglob("*.parquet"))
    assert len(files) == 1  # the candidate is taken back
    assert counts(ingest(house, [house.quarantine], accept=True)) == (20, 20, 0, 0)
    assert samples(house).height == 40


@pytest.mark.parametrize(
    ("shift_s", "said"),
    [
        (8 * 3600, "the node's clock is ahead"),  # local time taken for UTC
        (400 * 86400, "the node's clock is ahead"),
        (-1_793_491_100, "the node's clock had no time: readings from 1970-01-01"),
    ],
)
def test_a_segment_of_a_clock_that_is_wrong_is_held_back_until_a_person_accepts_it(
    house: Home, monkeypatch: pytest.MonkeyPatch, shift_s: int, said: str
) -> None:
    monkeypatch.setattr(clock_checks, "now_us", lambda: START_US + 60 * SECOND_US)
    ticks = range(shift_s, shift_s + 3)
    wrong = write_segment(house.inbox, "n1", ticks, rows={tick: reading(k) for k, tick in enumerate(ticks)})
    write_segment(house.inbox, "n2", range(3))
    report = ingest(house)
    assert samples(house)["node"].unique().to_list() == ["n2"]
    blocked, remedy = report.complaints()
    assert blocked.startswith(f"telemetry.gpu_samples: blocked, nothing of {wrong.name} landed: c1: n1: {said}")
    command = f"almanac ingest --home {house.root} --inbox {house.quarantine} --accept"
    assert remedy.startswith(f"1 segment is held back in quarantine/ until you have looked: `{command}` lands them")
    assert [p.name for p in house.quarantine.glob("*.seg")] == [wrong.name]
    assert ingest(house, [house.quarantine], accept=True).rows_landed == 6
    assert samples(house).filter(node="n1").height == 6


def test_a_segment_held_back_that_comes_again_is_still_held_back(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_checks, "now_us", lambda: START_US)
    ahead = write_segment(house.inbox, "n1", [0, 86400], rows={0: reading(0), 86400: reading(1)})
    ingest(house)
    again = ingest(house, [house.quarantine])
    assert again.failed
    still, _ = again.complaints()
    why = "n1: the node's clock is ahead: readings up to 2026-11-02 00:00 UTC, 24 hours from now"
    assert still == f"spool: {ahead.name}: still blocked: {why}"


def test_of_many_segments_held_back_some_are_named_and_all_counted(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_checks, "now_us", lambda: START_US)
    for k in range(5):
        write_segment(house.inbox, f"n{k}", range(86400, 86403))
    blocked, remedy = ingest(house).complaints()
    assert re.search(
        r"nothing of \S+, \S+, \S+ and 2 more landed: c1: n0: .*; n1: .*; n2: .*; and 2 more; set the clock", blocked
    )
    assert remedy.startswith("5 segments are held back")


def test_a_batch_held_back_names_its_segments(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10), power_w=70.0)
    ingest(house)
    off = write_segment(house.inbox, "n1", range(10, 20), power_w=70_000.0)
    blocked, remedy = ingest(house).complaints()
    assert f"nothing of {off.name} landed: c1: the magnitude of power_w" in blocked
    assert "--accept" in remedy
    assert list(ingest(house, [house.quarantine], accept=True).complaints()) == []


def test_a_clock_a_little_ahead_lands_with_a_warning(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_checks, "now_us", lambda: START_US)
    write_segment(house.inbox, "n1", [29, 31])
    assert not ingest(house).failed
    told = Lake(house.lake).scan(QualityResult).filter(~pl.col("passed")).collect()
    assert told.select("severity", "sample").rows() == [
        ("warning", "the newest is 31 s ahead: compare the nodes' clocks")
    ]
    write_segment(house.inbox, "n2", [29, 30])
    ingest(house)
    assert Lake(house.lake).scan(QualityResult).filter(~pl.col("passed")).collect().height == 1


def test_a_sample_that_two_segments_hold_lands_once(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10))
    ingest(house)
    write_segment(house.inbox, "n1", range(5, 15))
    write_segment(house.inbox, "n1", range(12, 20))
    assert counts(ingest(house)) == (36, 20, 0, 16)
    assert samples(house)["energy_j"].to_list() == [400.0 * k for k in range(20)] * 2


def test_a_second_copy_of_a_segment_is_retired_unread(house: Home) -> None:
    path = write_segment(house.inbox, "n1", range(10))
    (house.spool / path.name).write_bytes(path.read_bytes())
    report = ingest(house)
    assert counts(report) == (20, 20, 0, 0)
    assert report.segments == 2
    assert samples(house).height == 20


def test_a_damaged_segment_gives_its_whole_records_and_its_repaired_copy_the_rest(house: Home) -> None:
    path = write_segment(house.inbox, "n1", range(10))
    write_segment(house.inbox, "n2", range(10))
    whole = path.read_bytes()
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 1
    path.write_bytes(broken)
    report = ingest(house)
    assert "1 damaged places" in " ".join(report.complaints())
    assert samples(house).filter(node="n1").height == 18
    assert samples(house).filter(node="n2").height == 20
    assert (house.quarantine / path.name).exists()
    path.write_bytes(whole)
    ingest(house)
    assert samples(house).filter(node="n1").height == 20


def test_batches_and_groups_are_bounded_and_oldest_comes_first(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for node in ("n2", "n1"):
        for start in (100, 0):
            write_segment(house.inbox, node, range(start, start + 10))
    found = waiting.waiting([house.inbox])
    assert [(w.node, w.created_at_us) for w in found][:2] == [
        ("n1", found[0].created_at_us),
        ("n2", found[0].created_at_us),
    ]
    assert [w.created_at_us for w in found] == sorted(w.created_at_us for w in found)
    size = found[0].size
    assert [len(b) for b in waiting.batches(found, 3 * size)] == [3, 1]
    assert [{w.node for w in g} for g in waiting.groups(found, size)] == [{"n1"}, {"n2"}]
    monkeypatch.setattr(waiting, "BATCH_BYTES", size)
    monkeypatch.setattr(waiting, "GROUP_BYTES", size)
    report = ingest(house)
    assert len(report.landed) == 4
    assert samples(house).height == 80
    assert Lake(house.lake).scan(QualityResult).collect().select("load_id").n_unique() == 4


def test_a_segment_that_another_process_takes_meanwhile_is_no_error(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk, sound = house.inbox / "junk.seg", write_segment(house.inbox, "n1", range(3))
    junk.write_bytes(b"not a segment")
    gone = write_segment(house.inbox, "n2", range(3))
    listed, prepared = ingesting._land_whole, ingesting.prepare

    def and_junk_is_taken(work, fast):
        verdict = listed(work, fast)
        junk.unlink(missing_ok=True)
        return verdict

    def and_a_segment_is_taken(lake, groups, known):
        gone.unlink(missing_ok=True)
        return prepared(lake, groups, known)

    monkeypatch.setattr(ingesting, "_land_whole", and_junk_is_taken)
    monkeypatch.setattr(ingesting, "prepare", and_a_segment_is_taken)
    report = ingest(house)
    assert (report.failed, report.damage, report.segments) == (False, [], 1)
    assert samples(house)["node"].unique().to_list() == ["n1"]
    assert not sound.exists()


def test_a_wrong_segment_that_another_process_takes_meanwhile_is_no_error(
    house: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = write_segment(house.inbox, "n1", range(3), columns=(Column("power_w", "f8", "hp"), *COLUMNS[1:]))
    counted = ingesting.rows_of

    def and_it_is_taken(path: Path) -> int:
        wrong.unlink(missing_ok=True)
        return counted(path)

    monkeypatch.setattr(ingesting, "rows_of", and_it_is_taken)
    assert ingest(house).segments == 0


def test_the_doctor_says_what_lies_in_quarantine_and_what_to_do(house: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(diagnosis._set_aside(house)) == []
    monkeypatch.setattr(clock_checks, "now_us", lambda: START_US + 60 * SECOND_US)
    ahead = write_segment(house.inbox, "n1", [0, 86400], rows={0: reading(0), 86400: reading(1)})
    ingest(house)
    (found,) = diagnosis._set_aside(house)
    assert (found.state, found.what) == ("note", "quarantine")
    assert found.detail.startswith(f"1 segment, the newest {ahead.name}: the node's clock is ahead")
    assert f"`almanac ingest --home {house.root} --inbox {house.quarantine} --accept`" in found.detail
    junk = house.inbox / "junk.seg"
    junk.write_bytes(b"not a segment")
    os.utime(house.quarantine / ahead.name, (1, 1))
    ingest(house)
    (found,) = diagnosis._set_aside(house)
    assert found.detail.startswith("2 segments, the newest junk.seg: damaged (")


def test_the_doctor_tells_why_a_batch_was_held_back(house: Home) -> None:
    write_segment(house.inbox, "n1", range(10), power_w=70.0)
    ingest(house)
    write_segment(house.inbox, "n1", range(10, 20), power_w=70_000.0)
    ingest(house)
    (found,) = diagnosis._set_aside(house)
    assert "the magnitude of power_w does not change 100-fold" in found.detail
    ingest(house, [house.quarantine], accept=True)
    assert list(diagnosis._set_aside(house)) == []
