from __future__ import annotations

import os
from pathlib import Path

import pytest
from spool_writers import sealed, write_ticks, writer

from sources.telemetry.segment import read_segment
from sources.telemetry.shipping import Folder, ShipError, collect_from, place_of, ship


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    for k in range(3):
        with writer(tmp_path / "spool", stream_id=f"stream{k}") as spool:
            write_ticks(spool, range(10))
    return tmp_path / "spool"


@pytest.fixture(params=["folder", "file-url"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    far = tmp_path / "far"
    return str(far) if request.param == "folder" else far.as_uri()


def test_segments_arrive_whole_and_leave_the_spool(spool: Path, url: str, tmp_path: Path) -> None:
    before = {p.name: p.read_bytes() for p in sealed(spool)}
    done = ship(spool, place_of(url))
    assert (done.moved, done.known) == (3, 0)
    assert sealed(spool) == []
    assert {p.name: p.read_bytes() for p in sealed(tmp_path / "far")} == before
    done = collect_from(place_of(url), tmp_path / "inbox")
    assert (done.moved, sealed(tmp_path / "far")) == (3, [])
    assert {p.name: p.read_bytes() for p in sealed(tmp_path / "inbox")} == before


def test_a_run_cut_off_after_the_upload_goes_on_without_sending_again(spool: Path, url: str) -> None:
    first = sealed(spool)[0]
    body = first.read_bytes()
    ship(spool, place_of(url))
    first.write_bytes(body)  # as if the process had died before it removed the file
    done = ship(spool, place_of(url))
    assert (done.moved, done.known, sealed(spool)) == (0, 1, [])


def test_a_torn_upload_is_sent_again(spool: Path, url: str, tmp_path: Path) -> None:
    first = sealed(spool)[0]
    (tmp_path / "far").mkdir(exist_ok=True)
    (tmp_path / "far" / first.name).write_bytes(first.read_bytes()[:-9])
    assert ship(spool, place_of(url)).moved == 3
    assert all(read_segment(p).damage == [] for p in sealed(tmp_path / "far"))


def test_what_does_not_arrive_whole_stays(spool: Path, tmp_path: Path) -> None:
    class Lossy(Folder):
        def put(self, name: str, path: Path) -> None:
            super().put(name, path)
            os.truncate(tmp_path / "far" / name, 100)

    with pytest.raises(ShipError, match="did not arrive whole"):
        ship(spool, Lossy(tmp_path / "far"))
    assert len(sealed(spool)) == 3


def test_a_place_that_cannot_be_reached_is_one_line(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    with pytest.raises(ShipError, match="cannot be reached"):
        ship(spool, place_of(str(tmp_path / "a-file" / "inbox")))
    with pytest.raises(ShipError, match="no place to ship to"):
        place_of("gopher://hole")
    assert len(sealed(spool)) == 3


def test_an_empty_spool_does_not_hide_a_place_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ShipError, match="cannot be reached"):
        ship(tmp_path / "empty", place_of("/dev/null/x"))


def test_a_place_to_bring_home_from_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ShipError, match="is no folder"):
        collect_from(place_of(str(tmp_path / "nowhere")), tmp_path / "inbox")
