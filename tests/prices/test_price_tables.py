"""What the price sources give fits the declared tables: every row rule, every check, every key."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
from sqlmodel import SQLModel

from sources.base import Payload, Web
from sources.registry import all_sources, source_named
from warehouse.quality.rows import conform, split
from warehouse.schema import tables
from warehouse.schema.declare import lake_schema, table_of

from .loading import FIXTURES, OFFERS, load

SOURCES = sorted(n for n in all_sources() if n.startswith("gpu-prices/") or n == "fx-ecb")
WITH_FIXTURES = [n for n in SOURCES if (FIXTURES / n.replace("/", "-")).is_dir()]
STAMPS = {"source": "s", "payload_sha256": "0" * 64, "retrieved_at": dt.datetime(2026, 12, 1, tzinfo=dt.UTC)}


def _assert_fits(frame: pl.DataFrame, model: type[SQLModel]) -> None:
    schema = lake_schema(model)
    stamped = frame.with_columns(pl.lit(value).cast(schema[name]).alias(name) for name, value in STAMPS.items())
    whole, reasons = conform(stamped, model)
    judged = split(whole, reasons, model)
    assert judged.refused.height == 0, judged.refused.select("rule", "reason").unique().rows()
    with duckdb.connect() as connection:
        connection.register("rows", judged.good.to_arrow())
        for name, severity, bad in table_of(model).info["checks"]:
            count = connection.execute(f"select count(*) from rows where {bad}").fetchone()
            assert severity == "warning" or count == (0,), (name, count)


@pytest.mark.parametrize("source", WITH_FIXTURES)
def test_fixtures_fit_their_tables(source: str) -> None:
    folder = FIXTURES / source.replace("/", "-")
    for file in sorted(folder.iterdir()):
        for name, frame in load(source, file).frames.items():
            assert name in source_named(source).tables
            _assert_fits(frame, tables()[name])


def test_shared_payloads_fit_their_tables(shared: Path) -> None:
    data = shared / "data" / "prices"
    for source, part in [
        ("aws", "aws_karpenter"),
        ("aws", "aws_spotjs"),
        ("aws", "aws_pricelist"),
        ("aws", "aws_website_json"),
        ("azure", "azure_karpenter"),
        ("azure", "azure_retail"),
        ("gcp", "gcp_cyclenerd"),
        ("gcp", "gcp_billing_skus"),
        ("vast", "vast_ccir/bundles_2026-02-27.json"),
        ("vast", "vast_ccir/filtered"),
        ("runpod", "runpod_graphql"),
        ("coreweave", "coreweave_html"),
        ("skypilot", "skypilot"),
        ("fsdl", "fsdl_cloud_gpus"),
        ("becloudready", "becloudready_daily"),
        ("ccir", "ccir_reference_rates/2026-03-03.json"),
        ("ccir", "vast_ccir/audit_cri-h100-2026-03-04.json"),
    ]:
        for name, frame in load(f"gpu-prices/{source}", data / part, "2026-10-01").frames.items():
            _assert_fits(frame, tables()[name])


def test_sources_say_what_they_are_and_why_they_are_off() -> None:
    off = {n for n in SOURCES if source_named(n).off_reason}
    assert off == {
        "gpu-prices/aws-pricelist",
        "gpu-prices/coreweave",
        "gpu-prices/gpuhunt",
        "gpu-prices/nebius",
        "gpu-prices/runpod",
        "gpu-prices/scaleway",
        "gpu-prices/verda",
    }
    for name in SOURCES:
        source = source_named(name)
        assert source.publisher
        assert source.licence
        assert source.terms
        assert set(source.tables) <= set(tables())


class _NoWeb(Web):
    """A network nobody may use."""

    def get(self, url: str, **_: object) -> None:  # type: ignore[override]
        raise AssertionError(url)

    def post(self, url: str, **_: object) -> None:  # type: ignore[override]
        raise AssertionError(url)


@pytest.mark.parametrize("source", ["quotes", "fsdl", "becloudready", "ccir", "nebius"])
def test_sources_read_from_files_fetch_nothing(source: str) -> None:
    assert list(source_named(f"gpu-prices/{source}").fetch(_NoWeb())) == []


def test_offers_are_the_same_whatever_the_order_of_the_list() -> None:
    path = FIXTURES / "gpu-prices-azure" / "retail_2026-07-27.json"
    page = json.loads(path.read_text())
    source = source_named("gpu-prices/azure")
    at = dt.datetime(2026, 7, 27, tzinfo=dt.UTC)
    frames = []
    for items in (page["Items"], page["Items"][::-1], [*page["Items"], *page["Items"]]):
        body = json.dumps({"Items": items, "NextPageLink": None}).encode()
        parsed = source.parse(Payload(source.name, "https://example.org", at, "application/json", body))
        frames.append(parsed.frames[OFFERS].sort("offer_id", "region", "operating_system"))
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])
