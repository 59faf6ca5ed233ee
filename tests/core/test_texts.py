"""Encodings of text: what a byte-order mark says, and what a Windows shell leaves out."""

from __future__ import annotations

import datetime as dt

import pytest

from sources.base import Payload
from sources.jobs.slurm import SOURCE as SLURM
from sources.sec.documents import read_json
from sources.texts import decoded

TEXT = '{"facts": "Größe 数"}'


@pytest.mark.parametrize(
    "body",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16 little", "utf-16 big", "little, no mark", "big, no mark", "utf-32"],
)
def test_a_text_is_read_in_the_encoding_it_is_in(body: bytes) -> None:
    assert decoded(body, "strict") == TEXT
    payload = Payload("sec-companyfacts", "file:x.json", dt.datetime(2026, 9, 1, tzinfo=dt.UTC), "", body)
    assert read_json(payload) == {"facts": "Größe 数"}


def test_wrong_bytes_are_replaced_or_refused() -> None:
    assert decoded(b"a\xff") == "a\ufffd"
    with pytest.raises(UnicodeDecodeError):
        decoded(b"a\xff", "strict")


def test_a_table_of_jobs_saved_by_a_windows_shell() -> None:
    text = "JobID|JobIDRaw|State|Submit|Start|End\r\n7|7|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T02:00:00\r\n"
    body = b"\xff\xfe" + text.encode("utf-16-le")
    parsed = SLURM.parse(Payload("slurm", "file:sacct.txt", dt.datetime(2026, 9, 1, tzinfo=dt.UTC), "", body))
    (frame,) = parsed.frames.values()
    assert frame["job_id"].to_list() == ["7"]
