"""Growth of counters kept in the lake: in whatever batches and order readings come, as if all were computed at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assets import grown, grown_rows, landing
from assets.grown import update_growth
from assets.landing import few_nodes, hours_of
from assets.publish import publish_home
from assets.telemetry_links import link_deltas
from pipelines.reader import connect
from warehouse.home import Home
from warehouse.lake import Counts, Lake, Load
from warehouse.schema.declare import key_of, lake_schema
from warehouse.schema.telemetry_boards import EccCounter, EccGrowth
from warehouse.schema.telemetry_fleet import LinkCounter, LinkGrowth

START = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
TODAY = dt.date(2026, 5, 9)
MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def readings(
    values: Sequence[tuple[float, int | None]], *, node: str = "n1", counter: str = "replay", kind: str = "nvlink"
) -> pl.DataFrame:
    """Readings of one counter as (minutes since the start, value)."""
    at = [START + minutes * MINUTE for minutes, _ in values]
    frame = pl.DataFrame(
        {
            "sampled_at": at,
            "cluster": "c",
            "source": "nvml",
            "is_synthetic": False,
            "node": node,
            "device": "d",
            "link_kind": kind,
            "link_index": 0,
            "counter": counter,
            "value": [value for _, value in values],
            "date": [one.date() for one in at],
        }
    )
    schema = lake_schema(LinkCounter)
    return frame.select(pl.col(name).cast(kind) for name, kind in schema.items())


def land(lake: Lake, rows: pl.DataFrame, *, replace: str | None = None) -> None:
    """What `assets.landing` commits: the rows, the hours they touch, the nodes where they are few."""
    load = Load("t", "nvml", Counts(rows.height, rows.height), stats={"": {"hours": hours_of(rows), **few_nodes(rows)}})
    lake.commit(LinkCounter, [], lambda *_: (rows, load), replace=replace)


def kept(lake: Lake) -> pl.DataFrame:
    return lake.scan(LinkGrowth).sort(*key_of(LinkGrowth)).collect()


def at_once(lake: Lake) -> pl.DataFrame:
    return (
        link_deltas(lake.scan(LinkCounter).collect()).select(lake_schema(LinkGrowth).names()).sort(*key_of(LinkGrowth))
    )


def deltas(lake: Lake) -> list[tuple[int | None, str]]:
    return kept(lake).select("delta", "delta_status").rows()


def test_readings_in_order_only_add_rows(lake: Lake) -> None:
    land(lake, readings([(0, 5), (60, 7)]))
    assert update_growth(lake, today=TODAY) == 2
    land(lake, readings([(120, 7), (180, 3)]))
    assert update_growth(lake, today=TODAY) == 2
    assert deltas(lake) == [(None, "first"), (2, "counted"), (0, "counted"), (3, "reset")]
    files = lake.open(LinkGrowth).file_uris()
    assert update_growth(lake, today=TODAY) == 0
    assert lake.open(LinkGrowth).file_uris() == files


def test_the_reading_before_is_found_however_long_ago_it_was(lake: Lake) -> None:
    land(lake, readings([(0, 5)]))
    update_growth(lake, today=TODAY)
    for minutes, value in ((10 * 1440, 8), (10 * 1440 + 1, None), (10 * 1440 + 300, 9)):
        land(lake, readings([(minutes, value)]))
        update_growth(lake, today=TODAY)
    assert deltas(lake) == [(None, "first"), (3, "counted"), (None, "unreadable"), (1, "counted")]


def test_a_late_reading_changes_the_next_readable_one_and_no_other_node(lake: Lake) -> None:
    land(lake, pl.concat([readings([(0, 5), (120, None), (1500, 9)]), readings([(0, 1), (1500, 2)], node="n2")]))
    update_growth(lake, today=TODAY)
    land(lake, readings([(60, 6)]))
    assert update_growth(lake, today=TODAY) == 3  # of n1 from 01:00 to the next readable one, a day later
    assert kept(lake).equals(at_once(lake))
    mine = kept(lake).filter(pl.col("node") == "n1").select("delta", "delta_status").rows()
    assert mine == [(None, "first"), (1, "counted"), (None, "unreadable"), (3, "counted")]


def test_a_counter_that_turns_out_to_be_wide_takes_back_what_was_told_of_it(lake: Lake) -> None:
    stood = readings([(0, 65_535), (60, 65_535)], counter="symbol_error", kind="infiniband")
    land(lake, pl.concat([stood, readings([(0, 65_535)], counter="symbol_error", kind="infiniband", node="n2")]))
    update_growth(lake, today=TODAY)
    assert [status for _, status in deltas(lake)] == ["saturated"] * 3
    land(lake, readings([(3000, 65_540)], counter="symbol_error", kind="infiniband"))
    update_growth(lake, today=TODAY)
    assert kept(lake).equals(at_once(lake))
    told = kept(lake).sort("node", "sampled_at")
    assert told["delta_status"].to_list() == ["first", "counted", "counted", "saturated"]
    assert told["delta"].to_list() == [None, 0, 5, None]


def test_a_wide_counter_is_known_as_wide_by_its_oldest_readings(lake: Lake) -> None:
    land(lake, readings([(0, 1 << 33)], counter="port_xmit_data", kind="infiniband"))
    update_growth(lake, today=TODAY)
    for minutes, value in ((6000, (1 << 32) - 10), (6060, 5)):
        land(lake, readings([(minutes, value)], counter="port_xmit_data", kind="infiniband"))
        update_growth(lake, today=TODAY)
    assert deltas(lake)[-1] == (5, "reset")  # a counter of 32 bits would have wrapped


def history(seed: int) -> pl.DataFrame:
    """Three days of six counters of three nodes, with restarts, gaps, unreadable values, wraps and full counters."""
    chance = np.random.default_rng(seed)
    frames = []
    for node in ("n1", "n2", "o'hare"):
        for counter, kind, step, limit in (
            ("replay", "nvlink", 3, None),
            ("crc_data", "nvlink", 9_000, 65_535),
            ("symbol_error", "infiniband", 9_000, 65_535 if node == "n1" else None),
            ("port_xmit_data", "infiniband", 1 << 29, None),
            ("rx_bytes", "ethernet", 1 << 29, 1 << 32),
        ):
            minutes = np.sort(chance.choice(3 * 1440, 50, replace=False))
            values: list[int | None] = []
            total = 0
            for _ in minutes:
                total = int(chance.integers(5)) if chance.random() < 0.05 else total + int(chance.integers(step))
                if limit is not None:
                    total = total % limit if counter == "rx_bytes" else min(total, limit)
                values.append(None if chance.random() < 0.1 else total)
            frames.append(
                readings(list(zip(minutes.tolist(), values, strict=True)), node=node, counter=counter, kind=kind)
            )
    return pl.concat(frames)


@pytest.mark.parametrize(("seed", "most_nodes"), [(1, 64), (3, 2)])
def test_any_batches_in_any_order_give_what_all_at_once_gives(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int, most_nodes: int
) -> None:
    for module in (grown, grown_rows, landing):
        monkeypatch.setattr(module, "MOST_NODES", most_nodes)
    rows, chance = history(seed), np.random.default_rng(seed + 100)
    in_order = rows.sort("sampled_at")
    half = rows.height // 2
    batches = [in_order[:half][at : at + 130] for at in range(0, half, 130)]
    rest = in_order[half:].with_columns(pl.Series("batch", chance.integers(0, 3, rows.height - half)))
    batches += [one.drop("batch") for one in rest.partition_by("batch")]
    statuses = set()
    for batch in batches:
        land(lake, batch.sample(fraction=1.0, shuffle=True, seed=seed))
        update_growth(lake, today=TODAY)
        assert kept(lake).equals(at_once(lake))
        statuses |= set(kept(lake)["delta_status"])
    assert statuses == {"first", "counted", "reset", "wrapped", "saturated", "unreadable"}


def test_months_of_readings_at_once_are_the_same(lake: Lake) -> None:
    for part in history(4).partition_by("date"):
        land(lake, part)
    update_growth(lake, today=TODAY)
    assert kept(lake).equals(at_once(lake))


def test_readings_replaced_by_a_better_parser_are_computed_again(lake: Lake) -> None:
    land(lake, readings([(0, 5), (60, 7)]))
    update_growth(lake, today=TODAY)
    land(lake, readings([(0, 50), (60, 70)]), replace="source = 'nvml'")
    update_growth(lake, today=TODAY)
    assert deltas(lake) == [(None, "first"), (20, "counted")]


def test_forgotten_days_go_and_what_followed_them_stays_known(lake: Lake) -> None:
    land(lake, readings([(0, 5), (1500, 7)]))
    update_growth(lake, today=TODAY)
    lake.open(LinkCounter).delete(f"date = '{START.date()}'")
    update_growth(lake, today=TODAY)
    assert deltas(lake) == [(2, "counted")]


def test_a_late_reading_of_a_day_past_its_retention_is_left_out(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALMANAC_KEEP_LINKS_DAYS", "3")
    land(lake, readings([(0, 5), (7 * 1440, 7)]))
    update_growth(lake, today=TODAY)
    assert deltas(lake) == [(None, "first")]


def test_compaction_changes_nothing(lake: Lake) -> None:
    for minutes in range(0, 600, 60):
        land(lake, readings([(minutes, minutes)]))
        update_growth(lake, today=TODAY)
    before = kept(lake)
    for model in (LinkCounter, LinkGrowth):
        lake.open(model).optimize.compact()
    assert update_growth(lake, today=TODAY) == 0
    assert kept(lake).equals(before)


def test_two_processes_add_no_row_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    land(lake, readings([(0, 5), (60, 7)]))
    compute, others = grown.grown, [lambda: update_growth(lake, today=TODAY)]

    def meanwhile(*given):
        if others:
            others.pop()()
        return compute(*given)

    monkeypatch.setattr(grown, "grown", meanwhile)
    update_growth(lake, today=TODAY)
    assert deltas(lake) == [(None, "first"), (2, "counted")]


def test_errors_of_boards_grow_alike(lake: Lake) -> None:
    schema = lake_schema(EccCounter)
    for minutes, value in ((0, 5), (60, 8), (30, 6)):
        at = START + minutes * MINUTE
        told = {
            "sampled_at": at, "cluster": "c", "source": "nvml", "is_synthetic": False, "node": "n1", "gpu_uuid": "g",
            "error_kind": "corrected", "counter_span": "volatile", "location": "dram", "value": value, "date": at.date(),
        }  # fmt: skip
        rows = pl.DataFrame([told], schema=schema)
        load = Load("t", "nvml", Counts(1, 1), stats={"": {"hours": hours_of(rows)}})
        lake.commit(EccCounter, [], lambda *_, rows=rows, load=load: (rows, load))
        update_growth(lake, today=TODAY)
    told = lake.scan(EccGrowth).sort("sampled_at").select("delta", "delta_status").collect()
    assert told.rows() == [(None, "first"), (1, "counted"), (2, "counted")]


def test_readers_get_a_view_of_files_that_outlive_its_file(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home").prepare()
    lake = Lake(home.lake)
    land(lake, readings([(0, 5), (120, 9)]))
    first = publish_home(home)
    with connect(home) as held:
        land(lake, readings([(60, 6)]))
        assert publish_home(home, first).rows["telemetry.link_counters"] == 3
        lake.open(LinkGrowth).vacuum(retention_hours=168, dry_run=False)
        query = "select delta from telemetry.link_counters order by sampled_at"
        assert held.sql(query).fetchall() == [(None,), (4,)]
    with connect(home) as con:
        assert con.sql(query).fetchall() == [(None,), (1,), (3,)]
        kinds = con.sql("select view_name from duckdb_views() where schema_name = 'telemetry'").fetchall()
        assert ("link_counters",) in kinds
        assert con.sql("select count(*) from duckdb_tables() where table_name like '%growth'").fetchall() == [(0,)]
        (text,) = con.sql("select comment from duckdb_views() where view_name = 'link_counters'").fetchall()[0]
        assert text.startswith("Counters of NVLink")
