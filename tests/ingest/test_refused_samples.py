"""Samples that a row rule refuses: in quarantine with their reason, and with the segment each came from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from assets.ingest import ingest
from ingest.segments import reading, write_segment
from sources.telemetry.segment import read_header
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema.ops import QuarantineRecord


def test_each_refused_sample_names_its_segment(home: Path) -> None:
    house = Home(home).prepare()
    cold = {0: reading(0), 1: reading(1) | {"temperature_c": -70}}
    sent = [
        write_segment(house.inbox, "n1", range(2), rows=cold, gpus=("a",)),
        write_segment(house.inbox, "n1", range(2, 4), gpus=("a",)),
        write_segment(house.inbox, "n2", range(2), rows=cold, gpus=("a", "b")),
    ]
    ids = [header.segment_id for path in sent if (header := read_header(path))]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sent]

    (landed,) = ingest(house).landed

    assert (landed.counts.read, landed.counts.landed, landed.counts.rejected) == (8, 5, 3)
    kept = Lake(house.lake).scan(QuarantineRecord).collect().sort("raw")
    assert kept["locator"].to_list() == [f"segment {ids[0]}", f"segment {ids[2]}", f"segment {ids[2]}"]
    assert kept["payload_sha256"].to_list() == [digests[0], digests[2], digests[2]]
    assert set(kept["rule"]) == {"temperature_c >= -60"}
