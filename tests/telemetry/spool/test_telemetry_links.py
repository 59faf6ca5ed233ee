from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from assets.telemetry_links import link_deltas

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def series(values: list[int | None], counter: str = "replay", kind: str = "nvlink", link: int = 0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "sampled_at": [START + dt.timedelta(minutes=k) for k in range(len(values))],
            "cluster": "c",
            "node": "n",
            "source": "nvml",
            "device": "GPU-a",
            "link_kind": kind,
            "link_index": link,
            "counter": counter,
            "value": pl.Series(values, dtype=pl.Int64),
        }
    )


def told(frame: pl.DataFrame) -> list[tuple[int | None, str]]:
    return link_deltas(frame).select("delta", "delta_status").rows()


def test_growth_is_counted_and_the_first_row_has_none() -> None:
    assert told(series([5, 5, 9])) == [(None, "first"), (0, "counted"), (4, "counted")]


def test_after_a_restart_the_value_is_the_growth() -> None:
    assert told(series([100, 3, 4])) == [(None, "first"), (3, "reset"), (1, "counted")]


def test_an_unreadable_value_is_bridged() -> None:
    assert told(series([1, None, 4])) == [(None, "first"), (None, "unreadable"), (3, "counted")]


@pytest.mark.parametrize(
    ("kind", "counter", "maximum"),
    [
        ("nvlink", "crc_flit", 65535),
        ("infiniband", "link_downed", 255),
        ("infiniband", "symbol_error", 65535),
        ("infiniband", "excessive_buffer_overrun_errors", 15),
    ],
)
def test_growth_at_the_maximum_is_not_known(kind: str, counter: str, maximum: int) -> None:
    assert told(series([maximum - 1, maximum, maximum, 2], counter, kind)) == [
        (None, "first"),
        (None, "saturated"),
        (None, "saturated"),
        (2, "reset"),
    ]


def test_a_wider_counter_passes_the_maximum() -> None:
    assert told(series([65534, 65535, 70000])) == [(None, "first"), (1, "counted"), (4465, "counted")]


def test_a_traffic_counter_of_32_bits_wraps() -> None:
    top = 2**32
    assert told(series([top - 10, 5], "port_xmit_data", "infiniband")) == [(None, "first"), (15, "wrapped")]
    assert told(series([top - 10, 5], "replay", "xgmi")) == [(None, "first"), (5, "reset")]


def test_links_and_arrival_order_do_not_mix() -> None:
    frame = pl.concat([series([1, 2]), series([50, 70], link=1)]).sample(fraction=1, shuffle=True, seed=3)
    result = link_deltas(frame)
    assert result.select("link_index", "value", "delta").rows() == [(0, 1, None), (0, 2, 1), (1, 50, None), (1, 70, 20)]


def test_series_are_told_apart_and_sorted_however_many_names_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.concat(
        series([k, k + 1, None, k + 3], counter=counter, link=link).with_columns(pl.lit(device).alias("device"))
        for k, (device, link, counter) in enumerate(
            (d, n, c) for d in ("GPU-b", "GPU-a") for n in (10, 9) for c in ("replay", "crc_flit")
        )
    ).sample(fraction=1, shuffle=True, seed=5)
    found = link_deltas(frame)
    assert found.equals(found.sort("device", "link_index", "counter", "sampled_at"))
    assert found["delta"].to_list() == [None, 1, None, 2] * 8
    monkeypatch.setattr("assets.telemetry_links.MOST_SERIES", 3)
    assert link_deltas(frame).equals(found)


def test_no_link_gives_no_row() -> None:
    assert link_deltas(series([])).columns[-2:] == ["delta_status", "delta"]
