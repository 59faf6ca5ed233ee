"""Verda (formerly DataCrunch): instance types of its public API, prices as text in USD for an instance-hour.

Belongs here: the API's answer. Does not belong here: availability by location, which needs a login.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes
from sources.prices.reading import Moment, PriceSource, each_record, exact_json, seen_at

ENDPOINT = "https://api.datacrunch.io/v1/instance-types"
FIGURES = (("price_per_hour", "on_demand"), ("spot_price", "spot"))


class Verda(PriceSource):
    """`gpu-prices/verda`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        if answer := web.get(ENDPOINT):
            yield self.payload(answer, "instance-types")

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        if not isinstance(document, list) or not document or "instance_type" not in document[0]:
            raise ParseError(f"{payload.url}: no list of instance types: an error answer, or the format changed")
        moment = seen_at(payload)
        rows, rejects = each_record(document, lambda item: _quotes(item, moment, payload.url), payload.url)
        return parsed(quotes(rows), rejects)


def _quotes(item: Mapping[str, Any], moment: Moment, url: str) -> Iterator[dict[str, Any]]:
    count = float((item.get("gpu") or {}).get("number_of_gpus") or 0)
    if not count:
        return
    total = (item.get("gpu_memory") or {}).get("size_in_gigabytes")
    for field, kind in FIGURES:
        yield {
            "observed_at": moment.at,
            "provider": "verda",
            "segment": "neocloud",
            "sku": item["instance_type"],
            "price_kind": kind,
            "gpu_name": item.get("model") or item["gpu"].get("description"),
            "memory_hint_gb": float(total) / count if total else None,
            "stated_gpu_count": count,
            "quoted_amount": None if item.get(field) is None else str(item[field]),
            "quoted_unit": "instance_hour",
            # The list has carried a currency since some time in 2025; before, all prices were in USD.
            "currency": str(item.get("currency", "usd")).upper(),
            "flags": moment.flags,
            "source_name": f"Verda API, instance types, {field}",
            "source_url": url,
        }


SOURCE = Verda(
    name="gpu-prices/verda",
    publisher="Verda (DataCrunch)",
    homepage="https://verda.com/pricing",
    terms="public API; its terms list scrapers as prohibited",
    off_reason="its terms list scrapers as prohibited; the SkyPilot catalogue carries the same prices",
)
