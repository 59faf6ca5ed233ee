"""Bulk segments of the benchmarks: what they tell of NVLinks, as an agent would."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.spool_bulk import bulk_segments
from sources.telemetry.segment import read_segment

SERIES = 8 * 18 * 4  # boards of a node, links of a board, counters of a link


def test_links_that_err_tell_growing_counters_and_the_others_a_zero_each_hour(tmp_path: Path) -> None:
    # 400 ticks of 10 s: the last is 3,990 s after the first
    assert bulk_segments(tmp_path, nodes=8, tick_count=400, interval_s=10.0) == 8 * 8 * 400
    links = {}
    for path in sorted(tmp_path.glob("*.seg")):
        segment = read_segment(path)
        assert not segment.damage
        links[segment.samples.item(0, "node")] = segment.records["link_counter"]
    assert len(links) == 8
    bad = {node for node, told in links.items() if told.get_column("value").max()}
    assert bad == {"bulk-00000", "bulk-00007"}  # one node in seven
    key = ("device", "link_index", "counter")
    for node, told in links.items():
        if node not in bad:
            # series k is told 6.25 s x k after the first tick, and again an hour later if that is not after the last
            assert told.height == SERIES + sum(3600 + 6.25 * k <= 3990 for k in range(SERIES)) == SERIES + 63
            assert told.select(key).n_unique() == SERIES
        erring = told.filter(pl.col("value") > 0)
        assert erring.select("device", "link_index").n_unique() == (1 if node in bad else 0)
        grown = erring.with_columns(pl.col("value").diff().over(key, order_by="sampled_at").alias("grown"))
        assert grown.get_column("grown").drop_nulls().gt(0).all()  # told when it changed, and it only grows


def test_segments_without_links_have_the_same_samples(tmp_path: Path) -> None:
    for name, links in (("with", True), ("without", False)):
        bulk_segments(tmp_path / name, nodes=1, tick_count=64, interval_s=10.0, links=links)
    one, two = (read_segment(next((tmp_path / name).glob("*.seg"))) for name in ("with", "without"))
    assert one.samples.equals(two.samples)
    assert "link_counter" in one.records
    assert "link_counter" not in two.records or two.records["link_counter"].is_empty()
