from __future__ import annotations

import datetime as dt
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.quality.rows import conform, split
from warehouse.schema.declare import lake_schema
from warehouse.schema.ops import LoadRecord

AT = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)


def loads(**columns: list[object]) -> pl.DataFrame:
    height = len(next(iter(columns.values())))
    base: dict[str, list[object]] = {
        "table_name": [f"t{i}" for i in range(height)],
        "delta_version": [1] * height,
        "load_id": ["x"] * height,
        "source": ["s"] * height,
        "status": ["landed"] * height,
        "committed_at": [AT] * height,
        **{n: [0] * height for n in ("rows_read", "rows_landed", "rows_rejected", "rows_duplicate", "payloads")},
        "reason": [""] * height,
    }
    return pl.DataFrame({**base, **columns}, strict=False)


def parted(frame: pl.DataFrame) -> tuple[list[str], list[tuple[str, str]], int]:
    cast, reasons = conform(frame, LoadRecord)
    done = split(cast, reasons, LoadRecord)
    return done.good["table_name"].to_list(), list(done.refused.select("rule", "reason").iter_rows()), done.repeats


def test_a_value_below_its_bound_is_refused_with_the_value() -> None:
    good, refused, _ = parted(loads(rows_read=[5, -1]))
    assert good == ["t0"]
    assert refused == [("rows_read >= 0", "rows_read is -1, the rule is: rows_read >= 0")]


def test_a_word_outside_the_list_is_refused() -> None:
    good, refused, _ = parted(loads(status=["landed", "odd"]))
    assert good == ["t0"]
    assert refused[0][1].startswith("status is odd")


def test_a_missing_key_is_refused() -> None:
    good, refused, _ = parted(loads(table_name=["a", None]))
    assert good == ["a"]
    assert refused[0][0] == "table_name is given"


def test_text_that_is_no_number_is_refused_by_row() -> None:
    good, refused, _ = parted(loads(rows_read=["7", "seven"]))
    assert good == ["t0"]
    assert refused == [("type", "rows_read is not a Int64: seven")]


def test_text_becomes_a_date_or_refuses_its_row() -> None:
    from warehouse.schema.financials import Financial

    frame, reasons = conform(pl.DataFrame({"period_end": ["2026-03-31", "last March"]}), Financial)
    assert frame["period_end"].to_list() == [dt.date(2026, 3, 31), None]
    assert reasons.to_list() == ["", "period_end is not a Date: last March"]


def test_a_fraction_is_no_count() -> None:
    good, refused, _ = parted(loads(rows_read=[1.0, 1.5]))
    assert good == ["t0"]
    assert refused[0][0] == "type"


def test_exact_repeats_are_counted_and_conflicts_refused() -> None:
    frame = loads(table_name=["a", "a", "a"], rows_read=[1, 1, 2])
    good, refused, repeats = parted(frame)
    assert good == ["a"]
    assert repeats == 1
    assert refused[0][0] == "key is unique"


def test_the_raw_row_is_kept_as_json() -> None:
    cast, reasons = conform(loads(rows_read=[-1]), LoadRecord)
    raw = split(cast, reasons, LoadRecord).refused["raw"][0]
    assert json.loads(raw)["rows_read"] == -1


def test_an_unknown_column_is_schema_drift() -> None:
    with pytest.raises(ValueError, match="unknown columns surprise"):
        conform(loads(surprise=[1]), LoadRecord)


def test_a_missing_nullable_column_is_null() -> None:
    frame, _ = conform(loads(rows_read=[1]).drop("reason"), LoadRecord)
    assert frame["reason"].to_list() == [None]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_every_row_is_good_refused_or_a_repeat(rows: list[tuple[int, int]]) -> None:
    frame = loads(rows_read=[a for a, _ in rows], delta_version=[b for _, b in rows], table_name=["t"] * len(rows))
    cast, reasons = conform(frame, LoadRecord)
    done = split(cast, reasons, LoadRecord)
    assert done.good.height + done.refused.height + done.repeats == len(rows)
    assert done.good.filter(pl.col("rows_read") < 0).is_empty()
    assert done.good.schema == lake_schema(LoadRecord)
