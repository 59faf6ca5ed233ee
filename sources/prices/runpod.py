"""RunPod: prices of GPU types by GraphQL (keyless), secure and community cloud apart.

Belongs here: per GPU-hour prices of both clouds and their terms. Does not belong here: stock by data centre. A zero
and the placeholder 0.5 mean "not offered in this cloud".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes
from sources.prices.reading import Moment, PriceSource, each_record, exact_json, seen_at

ENDPOINT = "https://api.runpod.io/graphql"
QUERY = (
    "{gpuTypes{id displayName manufacturer memoryInGb secureCloud communityCloud securePrice communityPrice "
    "secureSpotPrice communitySpotPrice oneMonthPrice threeMonthPrice sixMonthPrice maxGpuCount}}"
)
PLACEHOLDER = 0.5
# field, which cloud, kind, months
FIGURES = (
    ("securePrice", "secure", "on_demand", 0),
    ("communityPrice", "community", "on_demand", 0),
    ("secureSpotPrice", "secure", "spot", 0),
    ("communitySpotPrice", "community", "spot", 0),
    ("oneMonthPrice", "secure", "reserved", 1),
    ("threeMonthPrice", "secure", "reserved", 3),
    ("sixMonthPrice", "secure", "reserved", 6),
)


class RunPod(PriceSource):
    """`gpu-prices/runpod`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        yield self.payload(web.post(ENDPOINT, json={"query": QUERY}), "gpu-types")

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        data = document.get("data") if isinstance(document, dict) else None
        types = data.get("gpuTypes") if isinstance(data, dict) else None
        if not isinstance(types, list) or not types:
            raise ParseError(f"{payload.url}: no data.gpuTypes: an error answer, or the format changed")
        moment = seen_at(payload)
        rows, rejects = each_record(types, lambda kind: _quotes(kind, moment, payload.url), payload.url)
        return parsed(quotes(rows), rejects)


def _quotes(kind: Mapping[str, Any], moment: Moment, url: str) -> Iterator[dict[str, Any]]:
    for field, cloud, price_kind, months in FIGURES:
        amount = kind.get(field)
        if amount is None:
            continue
        held = "placeholder" if float(amount) == PLACEHOLDER else ""
        yield {
            "observed_at": moment.at,
            "provider": "runpod",
            "segment": "neocloud" if cloud == "secure" else "marketplace",
            "sku": kind["id"],
            "offer_id": cloud,
            "price_kind": price_kind,
            "term_months": months,
            "gpu_name": kind["id"],
            "memory_hint_gb": float(kind["memoryInGb"]) or None,
            "stated_gpu_count": None if "MIG" in kind["id"] else 1.0,
            "quoted_amount": str(amount),
            "quoted_unit": "gpu_hour",
            "currency": "USD",
            "flags": f"{moment.flags} {held}",
            "source_name": f"RunPod gpuTypes.{field}",
            "source_url": url,
        }


SOURCE = RunPod(
    name="gpu-prices/runpod",
    publisher="RunPod",
    homepage="https://www.runpod.io/pricing",
    terms="some read its terms as forbidding automated access",
    off_reason="its terms may forbid automated access: read them, then turn it on",
)
