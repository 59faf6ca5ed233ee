"""Shipping to an object store that is slow, cut off, garbling or closed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_stub import ACCESS_KEY, Store, object_store
from spool_writers import START_US, sealed, write_ticks, writer

from sources.telemetry.segment import read_segment
from sources.telemetry.shipping import Folder, Place, ShipError, collect_from, place_of, ship

PLACE = "s3://bucket/inbox"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with object_store() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield running


@pytest.fixture
def place(store: Store) -> Place:
    assert store.url
    return place_of(PLACE)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    for k in range(3):
        with writer(tmp_path / "spool", stream_id=f"stream{k}") as spool:
            write_ticks(spool, range(10))
    return tmp_path / "spool"


def bodies(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sealed(folder)}


def test_segments_go_there_and_come_home_byte_by_byte(store: Store, place: Place, spool: Path, tmp_path: Path) -> None:
    before = bodies(spool)
    assert ship(spool, place).moved == 3
    assert store.objects == {f"inbox/{name}": body for name, body in before.items()}
    assert sealed(spool) == []
    store.objects["inbox/readme.txt"] = store.objects["elsewhere/x.seg"] = b"of no concern"
    assert collect_from(place, tmp_path / "home").moved == 3
    assert bodies(tmp_path / "home") == before
    assert sorted(store.objects) == ["elsewhere/x.seg", "inbox/readme.txt"]


def test_a_large_segment_goes_up_in_parts(store: Store, place: Place, tmp_path: Path) -> None:
    noise = random.Random(1)
    with writer(tmp_path / "spool") as large:
        for k in range(60):
            rows = [(f"GPU-{i}", {"power_w": noise.random(), "sm_clock_mhz": i}) for i in range(4096)]
            large.samples(START_US + k * 1_000_000, rows)
    (path,) = sealed(tmp_path / "spool")
    body = path.read_bytes()
    assert len(body) > 5 << 20
    store.busy["PUT"], store.broken["PUT"] = 1, 1  # of the parts: one is refused, one cut off
    assert ship(tmp_path / "spool", place).moved == 1
    assert store.objects == {f"inbox/{path.name}": body}
    assert store.largest_put < len(body)
    assert store.uploads == {}


@pytest.mark.parametrize("method", ["HEAD", "PUT", "GET"])
def test_a_store_that_is_busy_is_asked_again(store: Store, place: Place, spool: Path, method: str) -> None:
    store.busy[method] = 2
    assert ship(spool, place).moved == 3
    assert len(store.objects) == 3


def test_a_store_that_stays_busy_keeps_the_spool_and_the_next_run_goes_on(
    store: Store, place: Place, spool: Path, tmp_path: Path
) -> None:
    before = bodies(spool)
    store.busy["PUT"] = 10_000
    with pytest.raises(ShipError, match=r"the inbox cannot be reached: .* 503 Service Unavailable") as told:
        ship(spool, place)
    assert "\n" not in str(told.value)
    assert "Debug" not in str(told.value)
    assert bodies(spool) == before
    store.busy.clear()
    assert ship(spool, place).moved == 3
    collect_from(place, tmp_path / "home")
    assert bodies(tmp_path / "home") == before


def test_an_upload_that_is_cut_off_is_begun_again(store: Store, place: Place, spool: Path) -> None:
    store.broken["PUT"] = 2
    assert ship(spool, place).moved == 3
    assert store.seen["PUT"] == 5


def test_what_the_store_kept_only_in_part_stays_in_the_spool_until_it_is_whole(
    store: Store, place: Place, spool: Path
) -> None:
    before = bodies(spool)
    store.cut = 7
    with pytest.raises(ShipError, match="did not arrive whole; it stays in the spool"):
        ship(spool, place)
    assert bodies(spool) == before
    store.cut = 0
    assert ship(spool, place).moved == 3
    assert {name.removeprefix("inbox/"): body for name, body in store.objects.items()} == before


def test_what_is_there_already_is_not_sent_again(store: Store, place: Place, spool: Path) -> None:
    first = sealed(spool)[0]
    store.objects[f"inbox/{first.name}"] = first.read_bytes()  # a run that died before it removed the file
    done = ship(spool, place)
    assert (done.moved, done.known, store.seen["PUT"]) == (2, 1, 2)
    assert sealed(spool) == []


def test_a_copy_garbled_on_the_way_home_is_fetched_again(
    store: Store, place: Place, spool: Path, tmp_path: Path
) -> None:
    before = bodies(spool)
    ship(spool, place)
    store.garbled["GET"] = 1
    assert collect_from(place, tmp_path / "home").moved == 3
    assert bodies(tmp_path / "home") == before


def test_a_segment_damaged_in_the_store_comes_home_as_it_is(store: Store, place: Place, tmp_path: Path) -> None:
    with writer(tmp_path / "spool") as spool:
        write_ticks(spool, range(10))
    (path,) = sealed(tmp_path / "spool")
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    store.objects["inbox/" + path.name] = bytes(body)
    assert collect_from(place, tmp_path / "home").moved == 1
    assert (tmp_path / "home" / path.name).read_bytes() == body
    assert read_segment(tmp_path / "home" / path.name).samples.height == 18  # one frame of two rows is lost
    assert store.objects == {}


def test_nodes_may_ship_to_prefixes_of_their_own(store: Store, spool: Path, tmp_path: Path) -> None:
    before = bodies(spool)
    ship(spool, place_of(f"{PLACE}/rack1/n1"))
    assert collect_from(place_of(PLACE), tmp_path / "home").moved == 3
    assert bodies(tmp_path / "home") == before
    assert store.objects == {}


def test_wrong_credentials_are_one_line_that_says_so(
    store: Store, spool: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDWRONG")
    before = bodies(spool)
    with pytest.raises(ShipError, match="the inbox refuses these credentials: check key, region") as told:
        ship(spool, place_of(PLACE))
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)
    assert bodies(spool) == before
    with pytest.raises(ShipError, match="the inbox refuses these credentials"):
        collect_from(place_of(PLACE), tmp_path / "home")
    assert store.objects == {}


def test_missing_credentials_say_which_are_missing(spool: Path, tmp_path: Path) -> None:
    class Asking(Folder):
        """What S3's client says on a machine without credentials, outside of Amazon."""

        def ending(self, name: str) -> tuple[int, bytes] | None:
            raise OSError(f"{name}: Error performing PUT http://169.254.169.254/latest/api/token: timed out")

    with pytest.raises(ShipError, match=r"no credentials for the inbox: .* AWS_SECRET_ACCESS_KEY"):
        ship(spool, Asking(tmp_path / "far"))
    assert len(sealed(spool)) == 3
