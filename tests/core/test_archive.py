from __future__ import annotations

import datetime as dt
import io
import sqlite3
from pathlib import Path

import pytest

from warehouse.archive import Archive, Document
from warehouse.errors import WarehouseError

AT = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)


def document(
    body: bytes, *, at: dt.datetime = AT, url: str = "https://example.org/a", kind: str = "application/json"
) -> Document:
    return Document("src", "s", url, kind, at, io.BytesIO(body), etag='"e1"')


def test_same_bytes_again_only_move_checked_at(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    first = archive.put(document(b"{}"))
    again = archive.put(document(b"{}", at=AT + dt.timedelta(days=1)))
    assert again.payload_id == first.payload_id
    assert again.retrieved_at == first.retrieved_at == AT
    assert again.checked_at > first.checked_at
    assert len(archive.of_source("src")) == 1


def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    kept = archive.put(document(bytes(range(256)) * 1000))
    with archive.open(kept) as stream:
        assert stream.read() == bytes(range(256)) * 1000


@pytest.mark.parametrize(
    ("body", "flag"),
    [(b"", "empty"), (b"<!DOCTYPE html><html>blocked</html>", "html where data was due")],
)
def test_odd_documents_are_kept_and_flagged(tmp_path: Path, body: bytes, flag: str) -> None:
    assert Archive(tmp_path).put(document(body)).flags == flag


def test_a_size_jump_is_flagged(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.put(document(b"x" * 1000))
    assert (
        archive.put(document(b"x" * 400, at=AT + dt.timedelta(days=1))).flags == "size changed from 1000 to 400 bytes"
    )


def test_validators_are_those_of_the_newest_document_of_the_url(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.put(document(b"1"))
    assert archive.validators("https://example.org/a") == ('"e1"', None)
    assert archive.validators("https://example.org/other") is None


def test_a_lost_index_is_rebuilt_from_the_side_files(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    kept = archive.put(document(b"{}"))
    for file in tmp_path.glob("index.sqlite*"):
        file.unlink()
    assert [one.payload_id for one in archive.of_source("src")] == [kept.payload_id]
    assert archive.get(kept.payload_id).payload_sha256 == kept.payload_sha256


def test_a_damaged_index_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.put(document(b"{}"))
    (tmp_path / "index.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.raises(WarehouseError, match=r"index\.sqlite is damaged .* move it away and run again"):
        archive.of_source("src")


def test_a_lost_blob_is_said_in_one_line(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    kept = archive.put(document(b"{}"))
    for blob in tmp_path.rglob("*.zst"):
        blob.unlink()
    with pytest.raises(WarehouseError, match="has lost"):
        archive.open(kept)


def test_two_writers_do_not_lock_each_other_out(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.put(document(b"1"))
    with sqlite3.connect(tmp_path / "index.sqlite") as other:
        other.execute("select count(*) from payloads").fetchall()
        assert archive.put(document(b"2", url="https://example.org/b")).size_bytes == 1
