"""Scaleway: server types of its public API, written from the documentation. Prices are in EUR, though unlabelled.

Belongs here: GPU server types of one zone. Does not belong here: conversion to USD, which waits for the day's rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes
from sources.prices.reading import PriceSource, exact_json, seen_at

SERVERS = "https://api.scaleway.com/instance/v1/zones/{zone}/products/servers"
ZONES = ("fr-par-1", "fr-par-2", "nl-ams-1", "pl-waw-2")
CURRENCY = "EUR"
_ZONE = re.compile(r"(?:fr-par|nl-ams|pl-waw|it-mil)-\d")


class Scaleway(PriceSource):
    """`gpu-prices/scaleway`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        for zone in ZONES:
            if answer := web.get(SERVERS.format(zone=zone), params={"per_page": "100"}):
                yield self.payload(answer, zone)

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        servers = document.get("servers") if isinstance(document, dict) else None
        zone = _ZONE.search(f"{payload.stream} {payload.url}")
        if not isinstance(servers, dict) or not servers or zone is None:
            raise ParseError(
                f"{payload.url}: no servers of a zone: the format changed, or the file name lacks the zone"
            )
        moment = seen_at(payload)
        rows = [
            {
                "observed_at": moment.at,
                "provider": "scaleway",
                "segment": "neocloud",
                "sku": name,
                "region": zone.group(),
                "price_kind": "on_demand",
                "gpu_name": (server.get("gpu_info") or {}).get("gpu_name") or name,
                "stated_gpu_count": float(server["gpu"]),
                "quoted_amount": str(server["hourly_price"]),
                "quoted_unit": "instance_hour",
                "currency": CURRENCY,
                "flags": moment.flags,
                "certainty": "unverified",
                "source_name": "Scaleway API, server types",
                "source_url": payload.url,
            }
            for name, server in servers.items()
            if server.get("gpu")
        ]
        return parsed(quotes(rows))


SOURCE = Scaleway(
    name="gpu-prices/scaleway",
    publisher="Scaleway",
    homepage="https://www.scaleway.com/en/pricing/gpu/",
    terms="documented API, this endpoint without a key",
    off_reason="unverified: written from the documentation, no real answer has been seen",
)
