"""DigitalOcean: droplet sizes of its API (needs a key), USD for a droplet-hour.

Belongs here: GPU sizes. Does not belong here: anything without `gpu_info`. `vram` is the total of all GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes
from sources.prices.reading import PriceSource, exact_json, key_from, seen_at

SIZES = "https://api.digitalocean.com/v2/sizes"
KEY_VARIABLE = "DIGITALOCEAN_TOKEN"


class DigitalOcean(PriceSource):
    """`gpu-prices/digitalocean`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        headers = {"Authorization": f"Bearer {key_from(KEY_VARIABLE)}"}
        if answer := web.get(SIZES, params={"per_page": "500"}, headers=headers, conditional=False):
            yield self.payload(answer, "sizes")

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        sizes = document.get("sizes") if isinstance(document, dict) else None
        if not isinstance(sizes, list) or not sizes:
            raise ParseError(f"{payload.url}: no sizes: an error answer, or the format changed")
        moment = seen_at(payload)
        rows = [
            {
                "observed_at": moment.at,
                "provider": "digitalocean",
                "segment": "neocloud",
                "sku": size["slug"],
                "price_kind": "on_demand",
                "gpu_name": size["gpu_info"]["model"],
                "memory_hint_gb": float(size["gpu_info"]["vram"]["amount"]) / size["gpu_info"]["count"],
                "stated_gpu_count": float(size["gpu_info"]["count"]),
                "quoted_amount": str(size["price_hourly"]),
                "quoted_unit": "instance_hour",
                "currency": "USD",
                "available": bool(size["available"] and size["regions"]),
                "flags": f"{moment.flags} {'' if size['available'] and size['regions'] else 'sold_out'}",
                "source_name": "DigitalOcean API, sizes",
                "source_url": payload.url,
            }
            for size in sizes
            if size.get("gpu_info")
        ]
        return parsed(quotes(rows))


SOURCE = DigitalOcean(
    name="gpu-prices/digitalocean",
    publisher="DigitalOcean",
    homepage="https://www.digitalocean.com/pricing/gpu-droplets",
    terms="documented API with a key (environment variable DIGITALOCEAN_TOKEN)",
)
