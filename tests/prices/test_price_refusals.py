"""Feeds that break: HTML, cut off, another unit, another currency, another shape. None of them lands as a price."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.prices import common_factor, refuse_shift
from sources.base import Parsed, ParseError, Payload
from sources.registry import all_sources, source_named

from .loading import fixture, offers

PRICE_SOURCES = sorted(name for name in all_sources() if name.startswith("gpu-prices/"))
BODIES = {
    "gpu-prices/aws": "website_2026-10-02.json",
    "gpu-prices/azure": "retail_2026-07-27.json",
    "gpu-prices/gcp": "catalogue_2023-04-01.json",
    "gpu-prices/oracle": "products_2026-10-01.json",
    "gpu-prices/vast": "book_2026-11-01.json",
    "gpu-prices/runpod": "gpuTypes_2026-11-01.json",
    "gpu-prices/lambda": "instance_types_2026-11-01.json",
    "gpu-prices/verda": "instance_types_2026-11-01.json",
    "gpu-prices/vultr": "plans_2026-11-01.json",
    "gpu-prices/digitalocean": "sizes_2026-11-01.json",
    "gpu-prices/scaleway": "fr-par-2_2026-11-03.json",
}


def _payload(source: str, body: bytes, url: str = "https://example.org/list") -> Payload:
    return Payload(source, url, dt.datetime(2026, 11, 30, tzinfo=dt.UTC), "application/json", body)


@pytest.mark.parametrize("source", PRICE_SOURCES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!DOCTYPE html><html><body>Just a moment...</body></html>",
        b"\xff\xfe\x00",
        b"{}",
        b"[]",
        b'{"error": "x"}',
    ],
)
def test_what_is_no_price_list_is_refused(source: str, body: bytes) -> None:
    with pytest.raises(ParseError):
        source_named(source).parse(_payload(source, body))


@pytest.mark.parametrize(("source", "name"), sorted(BODIES.items()))
def test_a_list_cut_off_in_the_middle_is_refused(source: str, name: str) -> None:
    body = fixture(source, name).read_bytes()
    with pytest.raises(ParseError):
        source_named(source).parse(_payload(source, body[: len(body) // 2]))


def _paths(node: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [found for key, value in pairs for found in [(*path, key), *_paths(value, (*path, key))]]


@given(data=st.data(), source=st.sampled_from(sorted(BODIES)))
def test_a_field_that_is_gone_or_of_another_kind_never_breaks_the_reader(data: st.DataObject, source: str) -> None:
    document = json.loads(fixture(source, BODIES[source]).read_text())
    *way, last = data.draw(st.sampled_from(_paths(document)))
    node = document
    for key in way:
        node = node[key]
    if data.draw(st.booleans()):
        del node[last]
    else:
        node[last] = data.draw(st.sampled_from([None, "text", [], {}, -1, 1e30]))
    try:
        parsed = source_named(source).parse(_payload(source, json.dumps(document).encode()))
    except ParseError:
        return
    assert isinstance(parsed, Parsed)


def test_spot_js_cut_off_or_in_another_currency_is_refused() -> None:
    body = fixture("gpu-prices/aws", "spot_2026-10-02.js").read_bytes()
    for broken in (body[:-40], body.replace(b'["USD"]', b'["CNY"]'), body.replace(b"perhr", b"permonth")):
        with pytest.raises(ParseError):
            source_named("gpu-prices/aws").parse(_payload("gpu-prices/aws", broken))


def test_an_azure_page_that_names_another_one_is_refused() -> None:
    page = json.loads(fixture("gpu-prices/azure", "retail_2026-07-27.json").read_text())
    page["NextPageLink"] = "https://prices.azure.com/next"
    with pytest.raises(ParseError, match="cut off"):
        source_named("gpu-prices/azure").parse(_payload("gpu-prices/azure", json.dumps(page).encode()))
    last = {"Items": [], "NextPageLink": None}
    both = json.dumps([page, last]).encode()
    assert source_named("gpu-prices/azure").parse(_payload("gpu-prices/azure", both)).frames


def test_an_empty_gcp_catalogue_is_refused() -> None:
    with pytest.raises(ParseError, match="empty"):
        source_named("gpu-prices/gcp").parse(_payload("gpu-prices/gcp", b'{"skus": [], "nextPageToken": ""}'))


def test_a_vultr_list_shorter_than_it_says_is_refused() -> None:
    body = json.loads(fixture("gpu-prices/vultr", "plans_2026-11-01.json").read_text())
    body["meta"]["total"] = 90
    with pytest.raises(ParseError, match="3 of 90"):
        source_named("gpu-prices/vultr").parse(_payload("gpu-prices/vultr", json.dumps(body).encode()))


def test_a_currency_that_changes_never_lands_as_dollars() -> None:
    body = fixture("gpu-prices/azure", "retail_2026-07-27.json").read_text().replace('"USD"', '"EUR"')
    parsed = source_named("gpu-prices/azure").parse(_payload("gpu-prices/azure", body.encode()))
    rows = parsed.frames["market.gpu_offers"]
    assert rows["price_usd_per_gpu_hour"].null_count() == rows.height
    assert not rows["index_eligible"].any()


def test_a_local_file_without_a_time_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_bytes(fixture("gpu-prices/lambda", "instance_types_2026-11-01.json").read_bytes())
    with pytest.raises(ParseError, match="--observed-at"):
        offers("gpu-prices/lambda", path)
    rows = offers("gpu-prices/lambda", path, "2026-11-05T06:00:00Z")
    assert rows["observed_at"].unique().to_list() == [dt.datetime(2026, 11, 5, 6, tzinfo=dt.UTC)]


def _lake(rows: pl.DataFrame) -> pl.LazyFrame:
    return rows.with_columns(pl.col("observed_at") - pl.duration(days=1)).lazy()


def test_a_feed_that_flips_its_unit_is_refused_and_the_last_good_price_stays() -> None:
    good = offers("gpu-prices/aws", fixture("gpu-prices/aws", "karpenter.go"))
    more = pl.concat([good.with_columns(sku=pl.format(f"{{}}-{n}", "sku")) for n in range(4)])
    for factor in (8.0, 1 / 8, 4.0, 100.0):
        flipped = more.with_columns(pl.col("price_per_gpu_hour") * factor)
        with pytest.raises(ParseError, match="changed its unit"):
            refuse_shift(flipped, _lake(more))
    refuse_shift(more, _lake(more))  # nothing moved


def test_price_cuts_are_not_a_flip() -> None:
    good = offers("gpu-prices/aws", fixture("gpu-prices/aws", "karpenter.go"))
    more = pl.concat([good.with_columns(sku=pl.format(f"{{}}-{n}", "sku")) for n in range(4)])
    cut = more.with_columns(
        pl.when(pl.col("sku").str.starts_with("p5"))
        .then(pl.col("price_per_gpu_hour") * 0.56)
        .otherwise("price_per_gpu_hour")
    )
    refuse_shift(cut, _lake(more))  # the cut of June 2025: one family by 44 %
    refuse_shift(more.with_columns(pl.col("price_per_gpu_hour") * 1.15), _lake(more))  # a general rise


def test_a_feed_that_changes_its_currency_is_refused() -> None:
    good = offers("gpu-prices/aws", fixture("gpu-prices/aws", "karpenter.go"))
    more = pl.concat([good.with_columns(sku=pl.format(f"{{}}-{n}", "sku")) for n in range(4)])
    with pytest.raises(ParseError, match="changed currency from USD"):
        refuse_shift(more.with_columns(currency=pl.lit("EUR")), _lake(more))


def test_a_history_is_not_compared_with_the_last_list() -> None:
    history = offers("gpu-prices/aws", fixture("gpu-prices/aws", "karpenter.csv"))
    refuse_shift(history, _lake(history.with_columns(pl.col("price_per_gpu_hour") * 8)))


def test_common_factor() -> None:
    factor, share = common_factor(pl.Series([8.0, 8.05, 7.95, 1.0, 0.9]))
    assert factor == pytest.approx(8, rel=0.02)
    assert share == pytest.approx(3 / 5)
    assert common_factor(pl.Series([1.0, 1.0, 1.01])) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("source", "where", "field"),
    [
        ("gpu-prices/azure", ("Items",), "meterName"),
        ("gpu-prices/vast", ("offers",), "dph_total"),
        ("gpu-prices/runpod", ("data", "gpuTypes"), "memoryInGb"),
        ("gpu-prices/vultr", ("plans",), "gpu_vram_gb"),
    ],
)
def test_one_broken_record_is_refused_alone_and_all_broken_ones_as_a_whole(
    source: str, where: tuple[str, ...], field: str
) -> None:
    document = json.loads(fixture(source, BODIES[source]).read_text())
    records = document
    for key in where:
        records = records[key]
    whole = source_named(source).parse(_payload(source, json.dumps(document).encode()))
    del records[0][field]
    one = source_named(source).parse(_payload(source, json.dumps(document).encode()))
    assert len(one.rejects) == len(whole.rejects) + 1
    assert 0 < one.frames["market.gpu_offers"].height < whole.frames["market.gpu_offers"].height
    for record in records:
        record.pop(field, None)
    with pytest.raises(ParseError, match="format changed"):
        source_named(source).parse(_payload(source, json.dumps(document).encode()))
