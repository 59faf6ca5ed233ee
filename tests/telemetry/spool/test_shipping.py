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
    (tmp_path / "empty").mkdir()
    with pytest.raises(ShipError, match="cannot be reached"):
        ship(tmp_path / "empty", place_of("/dev/null/x"))


def test_a_spool_that_is_not_there_is_told_and_nothing_is_made(url: str, tmp_path: Path) -> None:
    with pytest.raises(ShipError, match=r"nowhere is no folder.*--spool"):
        ship(tmp_path / "nowhere", place_of(url))
    assert list(tmp_path.iterdir()) == []


def test_a_place_to_bring_home_from_that_is_not_there_is_told(url: str, tmp_path: Path) -> None:
    with pytest.raises(ShipError, match="is no folder"):
        collect_from(place_of(url), tmp_path / "inbox")
    assert list(tmp_path.iterdir()) == []


def test_a_file_address_with_a_blank_means_that_folder_and_one_without_a_root_means_none(tmp_path: Path) -> None:
    (tmp_path / "far away").mkdir()
    assert list(place_of((tmp_path / "far away").as_uri()).names()) == []
    with pytest.raises(ShipError, match="file:///folder"):
        place_of("file://far")


def test_folders_below_a_place_are_brought_home_too(spool: Path, tmp_path: Path) -> None:
    ship(spool, Folder(tmp_path / "far" / "rack1" / "n1"))
    assert collect_from(place_of(str(tmp_path / "far")), tmp_path / "inbox").moved == 3
    assert len(sealed(tmp_path / "inbox")) == 3


def test_a_spool_is_not_shipped_to_itself(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(spool)
    for place in (spool, tmp_path / "link", tmp_path / "elsewhere" / ".." / "spool"):
        with pytest.raises(ShipError, match="to itself"):
            ship(spool, place_of(str(place)))
    assert len(sealed(spool)) == 3


def test_what_is_home_already_is_not_removed_as_a_copy_of_itself(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(spool)
    for place in (spool, tmp_path / "link", tmp_path):
        assert collect_from(place_of(str(place)), spool).moved == 0
    assert len(sealed(spool)) == 3
