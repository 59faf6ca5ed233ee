"""Vast.ai: the order book of asks (keyless), and the archives a third party kept of it.

Belongs here: asks and bid floors of the whole offer, divided by its GPUs. Does not belong here: one price for the
market (the index weighs hosts). Without `limit` the service returns 64 offers, so a full page is a cut book.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes, with_defaults
from sources.prices.reading import Moment, PriceSource, csv_frame, each_record, exact_json, head_of, instant, seen_at

BUNDLES = "https://console.vast.ai/api/v0/bundles/"
MODELS = (
    "H100 SXM", "H100 PCIE", "H100 NVL", "H200", "H200 NVL", "B200", "A100 SXM4", "A100 PCIE", "A100X",
    "L40S", "L40", "L4", "RTX 4090", "RTX 5090", "RTX 3090", "RTX 6000Ada", "RTX A6000", "RTX PRO 6000 S",
    "Tesla V100", "A40", "A10",
)  # fmt: skip
LIMIT = 3000
SERVICE_LIMIT = 64  # what the service applies when a query names none


class Vast(PriceSource):
    """`gpu-prices/vast`: one query a model, with a limit, so that a cut book can be told."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        for model in MODELS:
            query = {
                "gpu_name": {"in": [model]},
                "rentable": {"eq": True},
                "type": "on-demand",
                "order": [["dph_total", "asc"]],
                "limit": LIMIT,
            }
            answer = web.post(BUNDLES, json=query)
            asked = json.dumps({"model": model, "limit": LIMIT}).encode()
            yield self.payload(answer, f"book/{model}", b'{"asked":' + asked + b',"answer":' + answer.body + b"}")

    def shape(self, payload: Payload) -> Parsed:
        if head_of(payload).startswith("listing_id"):
            return _filtered(payload)
        document = exact_json(payload)
        books, stated = _books(document, payload)
        moment = seen_at(payload, stated)
        asks = [(offer, "truncated_book" if len(book) >= limit else "") for book, limit in books for offer in book]
        rows, rejects = each_record(asks, lambda ask: _quotes(ask[0], ask[1], moment, payload.url), payload.url)
        return parsed(quotes(rows), rejects)


def _books(document: Any, payload: Payload) -> tuple[list[tuple[Sequence[Mapping[str, Any]], int]], str | None]:
    """(offers, the limit they were asked with) for each query of the document, and when it says it was collected."""
    if isinstance(document, dict):
        if isinstance(document.get("offers_by_model"), dict):
            return [(offers, SERVICE_LIMIT) for offers in document["offers_by_model"].values()], document[
                "collected_utc"
            ]
        if "asked" in document and isinstance(document["answer"].get("offers"), list):
            return [(document["answer"]["offers"], document["asked"]["limit"])], None
        if isinstance(document.get("offers"), list):
            return [(document["offers"], SERVICE_LIMIT)], None
    raise ParseError(f"{payload.url}: no offers in it: the format changed, or this is not an order book")


def _quotes(offer: Mapping[str, Any], cut: str, moment: Moment, url: str) -> Iterator[dict[str, Any]]:
    """The ask of one offer and, where it has one, its bid floor."""
    verified = offer.get("verification") == "verified"
    reliability = offer.get("reliability2", offer.get("reliability"))
    shared = {
        "observed_at": moment.at,
        "provider": "vast",
        "segment": "marketplace",
        "sku": offer["gpu_name"],
        "offer_id": str(offer["id"]),
        "region": offer.get("geolocation") or "unknown",
        "gpu_name": offer["gpu_name"],
        "memory_hint_gb": float(offer["gpu_ram"]) / 1024,
        "stated_gpu_count": float(offer["num_gpus"]),
        "quoted_unit": "offer_hour",
        "currency": "USD",
        "available": bool(offer.get("rentable")) and not offer.get("rented"),
        "host_id": str(offer["host_id"]),
        "machine_id": str(offer["machine_id"]),
        "is_verified": verified,
        "reliability_ratio": None if reliability is None else float(reliability),
        "source_name": "Vast.ai order book",
        "source_url": url,
    }
    flags = f"{moment.flags} {cut} {'' if verified else 'unverified_host'}"
    yield {
        **shared,
        "price_kind": "marketplace_ask",
        "quoted_amount": str(offer["dph_total"]),
        "flags": flags,
        "notes": "whole offer with its default disk",
    }
    if offer.get("min_bid") is not None:
        yield {**shared, "price_kind": "bid_floor", "quoted_amount": str(offer["min_bid"]), "flags": flags}


def _filtered(payload: Payload) -> Parsed:
    """A third party's selection from the book (US, reliable, unrented): a sample, so never in an index."""
    frame = csv_frame(payload, ["listing_id", "gpu_name", "num_gpus", "dph_total", "reliability", "gpu_ram_gb"])
    stamps = [instant(text, payload.url) for text in frame["collected_utc"]]
    rows = frame.select(
        observed_at=pl.Series(stamps, dtype=pl.Datetime("us", "UTC")),
        provider=pl.lit("vast"),
        segment=pl.lit("marketplace"),
        sku="gpu_name",
        offer_id="listing_id",
        region=pl.col("geolocation").fill_null("unknown"),
        price_kind=pl.lit("marketplace_ask"),
        gpu_name="gpu_name",
        memory_hint_gb=pl.col("gpu_ram_gb").cast(pl.Float64) / 1024,  # the column is named GB and holds MB
        stated_gpu_count=pl.col("num_gpus").cast(pl.Float64),
        quoted_amount="dph_total",
        quoted_unit=pl.lit("offer_hour"),
        currency=pl.lit("USD"),
        available=pl.lit(value=True),
        reliability_ratio=pl.col("reliability").cast(pl.Float64),
        flags=pl.lit("filtered_sample"),
        source_name=pl.lit("Vast.ai order book, as filtered for the CRI indices"),
        source_url=pl.lit(payload.url),
    )
    return parsed(with_defaults(rows))


SOURCE = Vast(
    name="gpu-prices/vast",
    publisher="Vast.ai",
    homepage="https://vast.ai/pricing",
    terms="documented public search without a key; paced at one request a second",
)
