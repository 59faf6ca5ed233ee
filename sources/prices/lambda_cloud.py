"""Lambda: instance types of its API (needs a key). Prices are cents for an instance-hour and know no region.

Belongs here: the API's answer. Does not belong here: the public page, whose GPU count stands only in a tab; without
a key the SkyPilot catalogue carries the same list.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes
from sources.prices.reading import PriceSource, exact_json, key_from, seen_at

ENDPOINT = "https://cloud.lambda.ai/api/v1/instance-types"
KEY_VARIABLE = "LAMBDA_API_KEY"


class Lambda(PriceSource):
    """`gpu-prices/lambda`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        headers = {"Authorization": f"Bearer {key_from(KEY_VARIABLE)}"}
        if answer := web.get(ENDPOINT, headers=headers, conditional=False):
            yield self.payload(answer, "instance-types")

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        types = document.get("data") if isinstance(document, dict) else None
        if not isinstance(types, dict) or not types:
            raise ParseError(f"{payload.url}: no data of instance types: an error answer, or the format changed")
        moment = seen_at(payload)
        rows = [
            {
                "observed_at": moment.at,
                "provider": "lambda",
                "segment": "neocloud",
                "sku": name,
                "price_kind": "on_demand",
                "gpu_name": kind["instance_type"]["description"],
                "stated_gpu_count": float(kind["instance_type"]["specs"]["gpus"]),
                "quoted_amount": str(Decimal(kind["instance_type"]["price_cents_per_hour"]) / 100),
                "quoted_unit": "instance_hour",
                "currency": "USD",
                "available": bool(kind["regions_with_capacity_available"]),
                "flags": f"{moment.flags} {'' if kind['regions_with_capacity_available'] else 'sold_out'}",
                "source_name": "Lambda Cloud API, instance types",
                "source_url": payload.url,
            }
            for name, kind in types.items()
            if kind["instance_type"]["specs"]["gpus"]
        ]
        return parsed(quotes(rows))


SOURCE = Lambda(
    name="gpu-prices/lambda",
    publisher="Lambda",
    homepage="https://lambda.ai/pricing",
    terms="documented API with a key (environment variable LAMBDA_API_KEY)",
)
