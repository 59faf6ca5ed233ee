"""Damaged documents of every source: one clear line and a non-zero exit, whatever the bytes are."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from assets.street import _parsed
from sources.base import AlmanacError, ParseError, Payload
from sources.registry import all_sources, source_named
from tests.core.console import Console
from tests.core.fakes import Figures

BODIES = {
    "empty": b"",
    "blank": b"\n \n",
    "web page": b"<!DOCTYPE html><html><head><title>403 Forbidden</title></head><body>no</body></html>",
    "nulls": bytes(200),
    "gzip": gzip.compress(b"a,b\n1,2\n", mtime=0),
    "empty zip": b"PK\x05\x06" + bytes(18),
    "null": b"null",
    "list": b'[1, "x", null, [[]], {"a": []}]',
    "deep": b"[" * 20_000,
    "commas": b",,,\n,,,\n",
    "not utf-8": "Gr\u00f6\u00dfe|STATE|NODELIST\n".encode("latin-1"),
    "text": b"hello\n",
}
SUFFIXES = (".txt", ".json", ".csv", ".toml", ".md", ".htm", ".xml", ".log")


@pytest.mark.parametrize("name", all_sources())
def test_no_bytes_make_a_source_stumble(name: str, tmp_path: Path) -> None:
    for kind, body in BODIES.items():
        for payload in documents(name, tmp_path / kind, body):
            complaint = complaint_about(name, payload)
            assert "did not foresee" not in complaint, kind
            assert len(complaint.splitlines()) <= 1, kind


def complaint_about(name: str, payload: Payload) -> str:
    """What the source says of a damaged document; fails where it takes rows from it."""
    try:
        parsed = _parsed(source_named(name), payload)
    except ParseError as error:
        return str(error) or "an error without a word\n\n"
    assert not any(frame.height for frame in parsed.frames.values())
    return ""


def documents(name: str, folder: Path, body: bytes) -> Iterator[Payload]:
    """The body under every suffix, as far as the source reads any."""
    folder.mkdir()
    options = {"observed_at": "2026-11-01T00:00:00+00:00", "cluster": "c1", "node": "n1"}
    for suffix in SUFFIXES:
        (folder / f"CIK0001045810{suffix}").write_bytes(body)
        with suppress(AlmanacError):  # a call that makes no sense, such as a file where a folder is due
            yield from source_named(name).read([folder / f"CIK0001045810{suffix}"], options)


def test_what_a_parser_did_not_foresee_refuses_the_document_and_not_the_run() -> None:
    class Careless(Figures):
        def parse(self, payload: Payload) -> object:  # type: ignore[override]
            raise KeyError("missing")

    (payload,) = Careless(b"x").payloads()
    with pytest.raises(ParseError, match=r"did not foresee this \(KeyError: 'missing'\)"):
        _parsed(Careless(b"x"), payload)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "name", "body", "says"),
    [
        ("training-log", "trainer_state.json", b'{"log_history": [{"step": 1, "lo', "is cut or broken"),
        ("estimates", "e.csv", b"entity,\rmetric\n", "this is no CSV file"),
        ("twse-revenue", "t.json", b"[]", "the list of companies is empty"),
        ("roce", "r.json", b"[1, 2]", "this is none of ethtool"),
        ("nvidia-smi", "deep.txt", b"[" * 200_000, "none of nvidia-smi's outputs"),
    ],
)
def test_what_damage_is_told(tmp_path: Path, source: str, name: str, body: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(body)
    (payload,) = source_named(source).read([tmp_path / name], {"observed_at": "2026-11-01T00:00:00+00:00"})
    with pytest.raises(ParseError, match=says):
        source_named(source).parse(payload)


def test_a_log_without_an_event_is_no_failure_and_another_document_without_a_row_is(
    almanac: Console, home: Path, tmp_path: Path
) -> None:
    log, notes = tmp_path / "kern.log", tmp_path / "notes.csv"
    log.write_text("[    1.000000] nvidia: loading\n")
    notes.write_text("entity,metric,fiscal_period,value,unit,date\n")
    quiet = almanac("load", "kernel-xid", log, "--observed-at", "2026-11-01", "--home", home)
    assert (quiet.code, quiet.err) == (0, "")
    nothing = almanac("load", "estimates", notes, "--home", home)
    assert nothing.code == 1
    assert "no row in file:notes.csv: nothing that estimates knows" in nothing.out
