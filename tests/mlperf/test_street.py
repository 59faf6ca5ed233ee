"""A folder with good and bad directories on the whole street: what is sound lands, the rest is quarantined."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from assets.street import receive
from mlperf.logs import run, write_directory
from sources.mlperf.training import SOURCE
from warehouse.home import Home
from warehouse.lake import Lake
from warehouse.schema import tables


def rows(home: Home, table: str) -> pl.DataFrame:
    return Lake(home.lake).scan(tables()[table]).collect()


def test_sound_directories_land_and_the_rest_is_quarantined_with_reasons(tmp_path: Path) -> None:
    source, home = tmp_path / "in", Home.at(tmp_path / "home").prepare()
    folder = write_directory(source, [run(20.0), run(21.0), run(None)], benchmark="gpt3")
    (folder / "notes.txt").write_text("remember the milk")
    write_directory(source, [run()] * 3, benchmark="gpt3", system="nosys", described=None)
    write_directory(source, [run()] * 3, benchmark="llama9_900t", system="acme_n2")
    (source / "todo.csv").write_text("a,b\n")
    report = receive(home, SOURCE, SOURCE.read([source], {}))
    assert not report.failed
    results = rows(home, "market.mlperf_results")
    assert results.select("system_desc_id", "minutes").rows() == [("acme_n1", 21.0)]
    assert rows(home, "market.mlperf_runs").height == 9
    refused = rows(home, "ops.quarantine")
    assert sorted(refused["rule"]) == ["stray_file", "stray_file", "system_file_missing", "unknown_benchmark"]
    assert refused["reason"].null_count() == 0
    again = receive(home, SOURCE, SOURCE.read([source], {}))
    assert again.rows_landed == 0
    assert rows(home, "market.mlperf_runs").height == 9
