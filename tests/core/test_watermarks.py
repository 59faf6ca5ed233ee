"""Runs of numbered ids: they say of every id what a list of all of them would say, and stay few."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse import lake as module
from warehouse import transactions
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.telemetry import GpuSample
from warehouse.transactions import committed
from warehouse.watermarks import landed_among, marks_for, marks_of, numbered, run_of

LOAD = Load("l", "nvml", Counts())
DAY_MS = 86_400_000
# A stream may be named as it likes, even like a mark; an id may look numbered and not be.
STREAMS = ("segment:a", "segment:a@7", "blocked:a", "run:segment:a", "segment:b-00000003")
ODD = (
    "segment:bulk",
    "segment:a-0000007",
    "segment:a-0000000\u0667",
    "segment:a-000000007",
    "segment:a@0",
    "segment:a-",
)
NUMBERS = st.integers(0, 9) | st.integers(99_999_996, 100_000_003)
IDS = st.builds(lambda s, n: f"{s}-{n:08d}", st.sampled_from(STREAMS), NUMBERS) | st.sampled_from(ODD)
COMMITS = st.lists(st.lists(IDS, max_size=8, unique=True), max_size=8)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def ids(*numbers: int, stream: str = "s") -> list[str]:
    return [f"segment:{stream}-{n:08d}" for n in numbers]


def marks_in(lake: Lake, stream: str = "s") -> dict[str, int]:
    wanted = marks_of(ids(0, stream=stream))
    return committed(lake.path(GpuSample), lake.open(GpuSample).version(), wanted)


def land(lake: Lake, *numbers: int) -> None:
    assert lake.commit_files(GpuSample, ids(*numbers), [], LOAD)


@pytest.mark.parametrize("name", [*ODD, "-00000001", f"segment:a-{10**18:08d}", "", "payload:ab:v1"])
def test_an_id_of_another_form_is_not_numbered(name: str) -> None:
    assert numbered(name) is None
    assert marks_for([name], {}) == {name: 1}


@given(st.text(min_size=1), st.integers(0, 10**18 - 1))
def test_stream_and_number_give_their_id_back(stream: str, number: int) -> None:
    assert numbered(f"{stream}-{number:08d}") == (stream, number)
    ((mark, last),) = marks_for([f"{stream}-{number:08d}"], {}).items()
    assert (run_of(mark), last) == ((stream, number), number)


@given(COMMITS)
def test_marks_tell_of_each_id_what_a_list_of_them_tells(commits: list[list[str]]) -> None:
    told: dict[str, int] = {}
    landed: set[str] = set()
    for fresh in commits:
        told |= marks_for(fresh, told)
        landed |= set(fresh)
        everything = [*ODD, *(f"{s}-{n:08d}" for s in STREAMS for n in (*range(11), *range(99_999_995, 100_000_005)))]
        assert landed_among(everything, told) == landed


@given(st.permutations(range(12)), st.integers(1, 5))
def test_numbers_in_any_order_end_as_one_run(order: list[int], size: int) -> None:
    told: dict[str, int] = {}
    for at in range(0, 12, size):
        told |= marks_for(ids(*order[at : at + size]), told)
    assert told["run:segment:s@0"] == 11


@settings(max_examples=15, deadline=None)
@given(COMMITS, st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_the_log_tells_of_each_id_whether_it_was_committed(
    commits: list[list[str]], checkpoints: set[int], older: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake, landed = Lake(Path(folder)), set[str]()
        everything = {name for names in commits for name in names} | {*ids(0), *ODD}
        for number, names in enumerate(commits):
            fresh = [name for name in names if name not in landed]
            if number in older:
                _commit_singly(lake, fresh)
            else:
                assert lake.commit_files(GpuSample, names, [], LOAD) == (fresh == names)
                assert fresh == names or lake.commit_files(GpuSample, fresh, [], LOAD)
            landed |= set(fresh)
            if number in checkpoints:
                lake.open(GpuSample).create_checkpoint()
            assert lake.landed(GpuSample, everything) == landed & everything


def test_a_stream_without_holes_is_one_mark_however_long(lake: Lake) -> None:
    for start in range(0, 500, 100):
        land(lake, *range(start, start + 100))
    assert marks_in(lake) == {"run:segment:s@0": 499}


def test_a_hole_is_kept_open_until_it_is_filled(lake: Lake) -> None:
    land(lake, 0, 1)
    land(lake, 4, 3)
    assert lake.landed(GpuSample, ids(*range(7))) == set(ids(0, 1, 3, 4))
    land(lake, 5)
    assert marks_in(lake) == {"run:segment:s@0": 1, "run:segment:s@3": 5}
    land(lake, 2)
    assert marks_in(lake)["run:segment:s@0"] == 5
    assert lake.landed(GpuSample, ids(*range(7))) == set(ids(*range(6)))


def test_whoever_commits_second_has_to_look_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    land(lake, 0)
    other = Lake(lake.root)

    def and_another_process_is_first(names, told):
        monkeypatch.undo()
        assert other.commit_files(GpuSample, ids(1, 2), [], LOAD)
        return marks_for(names, told)

    monkeypatch.setattr(module, "marks_for", and_another_process_is_first)
    assert not lake.commit_files(GpuSample, ids(2, 3), [], LOAD)
    assert lake.landed(GpuSample, ids(*range(5))) == set(ids(0, 1, 2))
    assert not lake.commit_files(GpuSample, ids(2, 3), [], LOAD)  # 2 has landed
    land(lake, 3)
    assert marks_in(lake) == {"run:segment:s@0": 3}


def test_single_marks_of_an_older_home_count_and_no_run_claims_more(lake: Lake) -> None:
    _commit_singly(lake, ids(0, 1, 3))
    lake.open(GpuSample).create_checkpoint()
    _commit_singly(lake, ids(4))
    assert lake.landed(GpuSample, ids(*range(7))) == set(ids(0, 1, 3, 4))
    assert not lake.commit_files(GpuSample, ids(4, 5), [], LOAD)
    land(lake, 5, 2)
    land(lake, 6)
    assert lake.landed(GpuSample, ids(*range(9))) == set(ids(*range(7)))


def test_a_run_is_remembered_while_it_grows_and_forgotten_after(lake: Lake) -> None:
    _commit_marks(lake, {"run:segment:s@0": 4, "run:segment:s@6": 7}, days_ago=9)
    land(lake, 8)
    lake.open(GpuSample).create_checkpoint()
    assert lake.landed(GpuSample, ids(*range(9))) == set(ids(6, 7, 8))
    land(lake, 0)  # begins again where an older, longer run began
    assert lake.landed(GpuSample, ids(*range(9))) == set(ids(0, 6, 7, 8))
    for path in (lake.path(GpuSample) / "_delta_log").glob("*checkpoint*"):
        path.unlink()  # then the log itself tells, and the newer number of a mark counts
    assert lake.landed(GpuSample, ids(*range(9))) == set(ids(0, 6, 7, 8))


def test_a_long_log_gets_its_checkpoint_early(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log = lake.path(GpuSample) / "_delta_log"
    land(lake, *range(5))
    assert not list(log.glob("*.checkpoint.parquet"))
    monkeypatch.setattr(transactions, "TRIFLE_BYTES", 1000)
    land(lake, 5)
    (first,) = log.glob("*.checkpoint.parquet")
    assert int(first.name[:20]) == lake.open(GpuSample).version()
    assert lake.landed(GpuSample, ids(*range(7))) == set(ids(*range(6)))
    land(lake, 6)  # what came since is less than the checkpoint weighs
    assert list(log.glob("*.checkpoint.parquet")) == [first]


def test_a_checkpoint_that_fails_takes_nothing_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: DeltaTable) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transactions, "TRIFLE_BYTES", 0)
    monkeypatch.setattr(DeltaTable, "create_checkpoint", full)
    land(lake, 0)
    assert lake.landed(GpuSample, ids(0, 1)) == set(ids(0))


def test_ten_thousand_streams_of_a_thousand_are_asked_for_in_a_moment(lake: Lake) -> None:
    streams = [f"{k:032x}" for k in range(10_000)]
    assert lake.commit_files(GpuSample, [n for s in streams for n in ids(0, stream=s)], [], LOAD)
    _commit_marks(lake, {f"run:segment:{s}@0": 999 for s in streams})
    begun = time.perf_counter()
    assert len(lake.landed(GpuSample, [n for s in streams for n in ids(999, 1000, stream=s)])) == 10_000
    assert time.perf_counter() - begun < 3


def _commit_singly(lake: Lake, names: list[str]) -> None:
    """As a version without runs committed them."""
    _commit_marks(lake, dict.fromkeys(names, 1))


def _commit_marks(lake: Lake, marks: dict[str, int], *, days_ago: int = 0) -> None:
    told_ms = int(time.time() * 1000) - days_ago * DAY_MS
    properties = CommitProperties(app_transactions=[Transaction(m, n, told_ms) for m, n in marks.items()])
    table = lake.open(GpuSample)
    table.create_write_transaction([], "append", table.schema(), ["date"], commit_properties=properties)
