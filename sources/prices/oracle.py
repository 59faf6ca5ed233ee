"""Oracle Cloud: the price list of its cost tools (keyless, no regions), and the estimator's shapes.

Belongs here: GPU-hour products told from their look-alikes. Does not belong here: preemptible capacity, which is a
rule of half the price and not a published price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sources.base import Parsed, ParseError, Payload, Reject, Web
from sources.prices.offers import TABLE, parsed, quotes
from sources.prices.reading import Moment, PriceSource, exact_json, seen_at

PRODUCTS = "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/"
METRIC = "GPU Per Hour"
# Products sold per GPU-hour that are not the public cloud's pay-as-you-go machines.
LOOK_ALIKES = ("Cloud@Customer", "VMware", "Commit", "Dedicated")


class Oracle(PriceSource):
    """`gpu-prices/oracle`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        if answer := web.get(PRODUCTS, params={"currencyCode": "USD"}):
            yield self.payload(answer, "products")

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        items = document.get("items") if isinstance(document, dict) else None
        if not isinstance(items, list) or not items:
            raise ParseError(f"{payload.url}: no items: the format changed, or the list is cut off")
        if "bundleMemoryQty" in items[0]:
            return _shapes(payload, items)
        moment = seen_at(payload)
        rows, rejects = [], []
        for item in items:
            if "GPU" not in f"{item.get('metricName')} {item.get('displayName')}":
                continue
            found = _quote(item, moment, payload.url)
            if isinstance(found, Reject):
                rejects.append(found)
            elif found:
                rows.append(found)
        return parsed(quotes(rows), rejects)


def _quote(item: Mapping[str, Any], moment: Moment, url: str) -> dict[str, Any] | Reject | None:
    """A pay-as-you-go price for one GPU-hour; None for a product that is sold by another measure."""
    name = item["displayName"]
    if item["metricName"] != METRIC or any(word in name for word in LOOK_ALIKES):
        return None
    prices = [
        (local["currencyCode"], price["value"])
        for local in item["currencyCodeLocalizations"]
        for price in local["prices"]
        if price["model"] == "PAY_AS_YOU_GO"
    ]
    if len(prices) != 1:
        return Reject(TABLE, "one_price_a_key", f"{len(prices)} pay-as-you-go prices", str(item), item["partNumber"])
    currency, value = prices[0]
    return {
        "observed_at": moment.at,
        "provider": "oracle",
        "segment": "hyperscaler",
        "sku": item["partNumber"],
        "price_kind": "on_demand",
        "gpu_name": name.rpartition(" - ")[2],
        "stated_gpu_count": 1.0,
        "quoted_amount": str(value),
        "quoted_unit": "gpu_hour",
        "currency": currency,
        "flags": moment.flags,
        "source_name": f"Oracle price list: {name}",
        "source_url": url,
    }


def _shapes(payload: Payload, items: list[dict[str, Any]]) -> Parsed:
    """Shapes of the estimator: part numbers and quantities, no price. Shapes with GPUs become offers without one."""
    moment = seen_at(payload)
    rows = [
        {
            "observed_at": moment.at,
            "provider": "oracle",
            "segment": "hyperscaler",
            "sku": item["name"],
            "offer_id": "shape",
            "price_kind": "on_demand",
            "stated_gpu_count": float(item["gpuQty"]),
            "quoted_unit": "instance_hour",
            "currency": "USD",
            "flags": f"{moment.flags} shape_without_price",
            "source_name": "Oracle cost estimator, shapes",
            "source_url": payload.url,
        }
        for item in items
        if item.get("gpuQty")
    ]
    return parsed(quotes(rows))


SOURCE = Oracle(
    name="gpu-prices/oracle",
    publisher="Oracle Cloud Infrastructure",
    homepage="https://www.oracle.com/cloud/price-list/",
    terms="public price list feed without a key",
)
