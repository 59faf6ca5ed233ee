"""Edges of a frame settle what rules about one column would say of every row."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from warehouse.quality.edges import edges_of
from warehouse.quality.gx import validate_files
from warehouse.quality.rows import row_rules
from warehouse.quality.suite import suite_of
from warehouse.schema.declare import lake_schema
from warehouse.schema.telemetry import GpuSample

AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
ODD = st.sampled_from([0.0, -0.0, 1.0, 1e5, math.nan, math.inf, -math.inf])
FLOATS = st.one_of(st.none(), st.floats(-1e300, 1e300), ODD)  # sums of larger ones have no finite value
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "power_w": FLOATS,
            "temperature_c": FLOATS,
            "gpu_index": st.one_of(st.none(), st.integers(-2, 1026)),
            "node": st.sampled_from([None, "n"]),
            "sampled_at": st.sampled_from([None, AT]),
        }
    ),
    max_size=6,
)


def samples(rows: list[dict[str, Any]]) -> pl.DataFrame:
    whole = {"cluster": "c", "source": "nvml", "is_synthetic": False, "gpu_uuid": "GPU-1", "date": AT.date()}
    return pl.DataFrame([whole | row for row in rows], schema=lake_schema(GpuSample))


def is_finite(row: dict[str, Any]) -> bool:
    return all(math.isfinite(value) for value in row.values() if isinstance(value, float))


@given(ROWS)
def test_edges_break_every_rule_that_a_row_breaks_and_of_finite_numbers_no_other(rows: list[dict[str, Any]]) -> None:
    frame = samples(rows)
    edges = edges_of(frame)
    for rule in row_rules(GpuSample):
        by_rows, by_edges = (bool(f.select(rule.bad.any()).item()) for f in (frame, edges))
        assert by_edges >= by_rows, rule.name
        assert by_edges is by_rows or not all(is_finite(row) for row in rows), rule.name


def test_edges_are_lowest_highest_missing_and_not_finite() -> None:
    frame = pl.DataFrame({"a": [2.0, None, math.nan, 7.0], "b": [3, 1, 2, 2], "c": ["x", "y", None, "z"]})
    assert edges_of(frame).select("b", "c").rows() == [(1, True), (3, True), (1, None), (1, True)]
    low, high, missing, not_finite = edges_of(frame)["a"].to_list()
    assert (low, high, missing) == (2.0, 7.0, None)
    assert math.isnan(not_finite)


def test_a_frame_without_rows_has_no_edges() -> None:
    assert edges_of(samples([])).shape == (0, len(lake_schema(GpuSample)))


def test_the_gate_names_the_rows_of_files_whose_edges_break_a_rule(tmp_path: Path) -> None:
    second = dt.timedelta(seconds=1)
    frame = samples([{"node": "n", "sampled_at": AT, "power_w": -1.0}, {"node": "n", "sampled_at": AT + second}])
    frame.write_parquet(tmp_path / "candidate.parquet")
    told = validate_files([tmp_path / "candidate.parquet"], suite_of(GpuSample), edges=edges_of(frame))
    assert [(o.expectation, o.unexpected_count) for o in told if not o.passed] == [
        ("power_w is between 0 and 100000", 1)
    ]


def test_the_gate_asks_the_files_what_edges_cannot_tell(tmp_path: Path) -> None:
    """600 W against a limit of 250 W: both lie within what any board may draw."""
    frame = samples([{"node": "n", "sampled_at": AT, "power_w": 600.0, "power_limit_w": 250.0}])
    frame.write_parquet(tmp_path / "candidate.parquet")
    told = validate_files([tmp_path / "candidate.parquet"], suite_of(GpuSample), edges=edges_of(frame))
    assert [(o.expectation, o.severity) for o in told if not o.passed] == [("power_within_twice_limit", "warning")]
