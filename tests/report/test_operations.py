"""The panels on the own clusters: jobs, the ladder, links; what they say when there is nothing."""

from __future__ import annotations

import duckdb
import pytest
import vl_convert

from report.pages import page
from report.rows import drop, link_counters, warehouse

JOBS = (
    "create or replace table mart.job_efficiency as select * from (values "
    "('c1', '7', 'COMPLETED', 100.0, null, 0.4, false, timestamptz '2026-03-02 00:00:00Z'), "
    "('c1', '8', 'FAILED', 10.0, null, null, false, timestamptz '2026-03-03 00:00:00Z')) as t"
    "(cluster, job_id, state, gpu_hours, attributed_gpu_hours, mfu_ratio, is_synthetic, ended_at)"
)
LADDER = (
    "create or replace table mart.ladder as select * from (values "
    "('c1', date '2026-03-02', false, 1, 'down', 4.0, null), "
    "('c1', date '2026-03-02', false, 9, 'productive', 12.0, 0.4)) as t"
    '(cluster, "date", is_synthetic, rung_order, rung, gpu_hours, mfu_ratio)'
)


@pytest.fixture
def operated(tmp_path):
    home = warehouse(tmp_path)
    with duckdb.connect(str(home.database)) as con:
        con.execute(JOBS)
        con.execute(LADDER)
    return home


def test_jobs_are_counted_and_the_unknown_named(operated):
    text = page(operated).text
    assert "2 job attempts; MFU known for 1, 40.0 % at the median" in text
    assert "As of 2026-03-03" in text


def test_the_ladder_is_drawn_with_its_shares(operated):
    found = page(operated)
    assert "c1: capacity by what it went to" in found.text
    assert "75.0 %" in found.text  # 12 of 16 GPU-hours
    for spec in found.charts:
        vl_convert.vegalite_to_svg(spec | {"width": 400}, vl_version="6.4")


def test_an_empty_panel_says_what_it_needs(tmp_path):
    home = warehouse(tmp_path)
    drop(home, "mart.energy")
    text = page(home).text
    assert "Jobs is not shown: it needs jobs" in text
    assert "Energy is not shown: it needs telemetry" in text


def test_a_mart_without_a_section_of_its_own_is_shown_plainly(tmp_path):
    home = warehouse(tmp_path)
    with duckdb.connect(str(home.database)) as con:
        con.execute("create table mart.brand_new as select 'x<y' as thing, 0.25 as part_ratio, true as is_synthetic")
        con.execute("comment on table mart.brand_new is 'what it is'")
    found = page(home)
    assert "what it is" in found.text
    assert "x<y" in found.text
    assert "25.0 %" in found.text
    assert found.has_class("banner")


def test_the_worst_link_is_named(tmp_path):
    (bad,) = link_counters(cluster="c1")
    fair = bad | {"device": "GPU-2", "delta": 1}
    text = page(warehouse(tmp_path, telemetry__link_counters=[bad, fair])).text
    assert "2 links with errors; n1 GPU-1 nvlink 1 has 90 % of them" in text
