"""Vultr: cloud GPU plans and bare metal of its public API, USD for a plan-hour.

Belongs here: GPU plans and their preemptible prices. Does not belong here: plans without a GPU. Most cloud plans are
slices of a board; those keep their amount and have no price of a whole GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes
from sources.prices.reading import Moment, PriceSource, each_record, exact_json, seen_at

PLANS = "https://api.vultr.com/v2/plans"
METAL = "https://api.vultr.com/v2/plans-metal"
FIGURES = (("hourly_cost", "on_demand"), ("hourly_cost_preemptible", "spot"))
_METAL_GPUS = re.compile(r"-(\d+)-([a-z0-9]+)-gpu$")


class Vultr(PriceSource):
    """`gpu-prices/vultr`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        if answer := web.get(PLANS, params={"type": "vcg", "per_page": "500"}):
            yield self.payload(answer, "plans")
        if answer := web.get(METAL, params={"per_page": "500"}):
            yield self.payload(answer, "plans-metal")

    def shape(self, payload: Payload) -> Parsed:
        document = exact_json(payload)
        plans = document.get("plans", document.get("plans_metal")) if isinstance(document, dict) else None
        if not isinstance(plans, list) or not plans:
            raise ParseError(f"{payload.url}: no plans: an error answer, or the format changed")
        total = (document.get("meta") or {}).get("total", len(plans))
        if total > len(plans):
            raise ParseError(f"{payload.url}: {len(plans)} of {total} plans: the list is cut off")
        moment = seen_at(payload)
        rows, rejects = each_record(plans, lambda plan: _quotes(plan, moment, payload.url), payload.url)
        return parsed(quotes(rows), rejects)


def _quotes(plan: Mapping[str, Any], moment: Moment, url: str) -> Iterator[dict[str, Any]]:
    metal = _METAL_GPUS.search(plan["id"])
    if not metal and not plan.get("gpu_type"):
        return
    sold_out = not plan.get("locations") or plan.get("deploy_ondemand") is False
    for field, kind in FIGURES:
        if field in plan:
            yield {
                "observed_at": moment.at,
                "provider": "vultr",
                "segment": "neocloud",
                "sku": plan["id"],
                "price_kind": kind,
                "gpu_name": metal.group(2) if metal else plan["gpu_type"],
                "memory_hint_gb": None if metal else float(plan["gpu_vram_gb"]),
                "stated_gpu_count": float(metal.group(1)) if metal else None,
                "quoted_amount": str(plan[field]),
                "quoted_unit": "instance_hour",
                "currency": "USD",
                "available": not sold_out,
                "flags": f"{moment.flags} {'sold_out' if sold_out else ''}",
                "source_name": f"Vultr API, {field}",
                "source_url": url,
            }


SOURCE = Vultr(
    name="gpu-prices/vultr",
    publisher="Vultr",
    homepage="https://www.vultr.com/pricing/",
    terms="documented API, these endpoints without a key",
)
