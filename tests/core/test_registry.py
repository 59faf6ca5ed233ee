"""What follows from the registry and the declarations must hold for every source and table."""

from __future__ import annotations

import re

import pytest

from sources.base import AlmanacError
from sources.registry import all_sources, source_named
from warehouse.marts import marts
from warehouse.quality.rows import row_rules
from warehouse.quality.suite import suite_of
from warehouse.schema import tables
from warehouse.schema.declare import key_of, lake_schema, table_of

UNITS = {
    "_w": "W", "_j": "J", "_bytes": "bytes", "_mhz": "MHz", "_usd": "USD", "_seconds": "s", "_tflops": "TFLOP/s",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(all_sources()))
def test_a_source_says_who_and_on_what_terms(name: str) -> None:
    source = all_sources()[name]
    assert source.publisher
    assert source.homepage.startswith("http") or source.homepage == ""
    assert source.licence
    assert source.terms
    assert set(source.tables) <= set(tables())
    assert source.version >= 1


@pytest.mark.parametrize("name", sorted(tables()))
def test_a_table_declares_grain_key_and_meanings(name: str) -> None:
    model = tables()[name]
    assert "Grain:" in table_of(model).comment
    assert key_of(model)
    assert all(c.info["meaning"] for c in table_of(model).columns)
    assert lake_schema(model)
    assert row_rules(model)
    assert suite_of(model)[0].name == "the columns are the declared ones"


@pytest.mark.parametrize("name", sorted(tables()))
def test_no_column_holds_an_age_and_instants_end_in_at(name: str) -> None:
    for column, kind in lake_schema(tables()[name]).items():
        assert not re.search(r"(^|_)age(_|$)", column)
        if str(kind).startswith("Datetime"):
            assert column.endswith(("_at", "_from", "_to")) or column in {"valid_from", "valid_to"}, column


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AlmanacError, match="did you mean"):
        source_named("gpu-prices/azur")


@pytest.mark.parametrize("mart", marts(), ids=lambda m: m.name)
def test_a_mart_documents_its_columns(mart: object) -> None:
    from warehouse.marts import Mart

    assert isinstance(mart, Mart)
    assert set(mart.key) <= set(mart.columns)
