"""Google Cloud: the SKU catalogue (needs an API key), and the mirror of machine prices with its history.

Belongs here: fetching, SKU rows of GPUs, machines put together from GPU, cores and memory. Does not belong here: the
mirror's shapes (`gcp_mirror`). A bare GPU SKU understates the machine, so it is flagged `component_only`.
"""

from __future__ import annotations

import csv
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from sources.base import FetchError, Parsed, ParseError, Payload, Reject, Web
from sources.prices import gcp_mirror
from sources.prices.offers import TABLE, parsed, quotes
from sources.prices.reading import PriceSource, exact_json, head_of, instant, seen_at

CATALOGUE = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"
MIRROR = "https://raw.githubusercontent.com/Cyclenerd/google-cloud-pricing-cost-calculator/master/pricing.yml"
KEY_VARIABLE = "GCP_API_KEY"
KINDS = {"OnDemand": ("on_demand", 0), "Preemptible": ("spot", 0), "Commit1Yr": ("reserved", 12),
         "Commit3Yr": ("reserved", 36)}  # fmt: skip
MAX_PAGES = 50


@dataclass(frozen=True, slots=True)
class _Sku:
    """One SKU of the catalogue at one price."""

    sku_id: str
    text: str
    group: str
    usage: str
    regions: tuple[str, ...]
    unit: str
    amount: Decimal
    currency: str
    effective: str


class Gcp(PriceSource):
    """`gpu-prices/gcp`: the keyless mirror, and the catalogue where a key is in the environment."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        if answer := web.get(MIRROR, max_bytes=64 << 20):
            yield self.payload(answer, "mirror")
        if key := os.environ.get(KEY_VARIABLE):
            yield self._catalogue(web, key)

    def shape(self, payload: Payload) -> Parsed:
        start = head_of(payload)
        if start.startswith("snapshot_date"):
            return gcp_mirror.monthly(payload)
        if start.startswith(("---", "about:")):
            return gcp_mirror.yaml_prices(payload)
        return _catalogue_offers(payload)

    def _catalogue(self, web: Web, key: str) -> Payload:
        pages, token, first = [], "", None
        for _ in range(MAX_PAGES):
            answer = web.get(
                CATALOGUE,
                params={"pageSize": "5000", "pageToken": token, "currencyCode": "USD"},
                headers={"X-Goog-Api-Key": key},
                conditional=False,
            )
            if answer is None:
                break
            first = first or answer
            pages.append(answer.body)
            found = re.search(rb'"nextPageToken"\s*:\s*"([^"]*)"', answer.body)
            token = found.group(1).decode() if found else ""
            if not token:
                return self.payload(first, "catalogue", b"[" + b",".join(pages) + b"]")
        raise FetchError(f"{CATALOGUE}: the list of SKUs did not end after {len(pages)} pages")


def _catalogue_offers(payload: Payload) -> Parsed:
    document = exact_json(payload)
    pages = document if isinstance(document, list) else [document]
    if not pages or not all(isinstance(page, dict) and "skus" in page for page in pages):
        raise ParseError(f"{payload.url}: no SKU catalogue, no price mirror: the format changed")
    raw = [sku for page in pages for sku in page["skus"]]
    if not raw:
        raise ParseError(f"{payload.url}: the catalogue is empty; a wrong service id answers like this")
    found, rejects = [], []
    for item in raw:
        sku = _sku(item)
        if isinstance(sku, Reject):
            rejects.append(sku)
        elif sku:
            found.append(sku)
    moment = seen_at(payload)
    shared = {"observed_at": moment.at, "provider": "gcp", "segment": "hyperscaler", "source_url": payload.url}
    rows = []
    for row in [*_gpu_skus(found), *_machines(found)]:
        effective = instant(row["effective_at"], payload.url) if row["effective_at"] else None
        rows.append({**shared, **row, "effective_at": effective, "flags": moment.flags})
    return parsed(quotes(rows), rejects)


def _sku(item: Mapping[str, Any]) -> _Sku | Reject | None:
    """A SKU at its first tier; None for one that is no part of a GPU machine; a reject for a strange unit."""
    category = item["category"]
    text = item["description"]
    is_gpu = category["resourceGroup"] == "GPU" or "gpu slice" in text
    if category["resourceFamily"] != "Compute" or category["usageType"] not in KINDS:
        return None
    pricing = item["pricingInfo"][-1]
    expression = pricing["pricingExpression"]
    unit = expression["usageUnit"]
    if is_gpu and unit != "h":
        return Reject(TABLE, "unit", f"GPU SKU in {unit!r}, not 'h'", str(item), item["skuId"])
    price = expression["tieredRates"][-1]["unitPrice"]
    amount = Decimal(price.get("units") or 0) + Decimal(price.get("nanos") or 0) / 1_000_000_000
    return _Sku(
        item["skuId"], text, "GPU" if is_gpu else category["resourceGroup"], category["usageType"],
        tuple(item["serviceRegions"]), unit, amount, price["currencyCode"], pricing.get("effectiveTime", ""),
    )  # fmt: skip


def _gpu_skus(skus: Sequence[_Sku]) -> Iterator[dict[str, Any]]:
    """Each GPU SKU in each region: the component alone."""
    for sku in skus:
        if sku.group == "GPU":
            kind, months = KINDS[sku.usage]
            for region in sku.regions:
                yield {
                    "sku": sku.text,
                    "offer_id": sku.sku_id,
                    "region": region,
                    "price_kind": kind,
                    "term_months": months,
                    "gpu_name": sku.text,
                    "stated_gpu_count": 1.0,
                    "quoted_amount": str(sku.amount),
                    "quoted_unit": "component_hour",
                    "currency": sku.currency,
                    "effective_at": sku.effective,
                    "source_name": f"Google Cloud Billing Catalog, SKU {sku.sku_id}",
                }


def _machines(skus: Sequence[_Sku]) -> Iterator[dict[str, Any]]:
    """Machines of `gcp_machines.csv` from their parts, where a region prices all of them in one currency."""
    priced: dict[tuple[str, str, str], list[_Sku]] = defaultdict(list)
    for sku in skus:
        for machine in _machine_table():
            for part in ("gpu", "core", "ram"):
                if re.fullmatch(machine[part], _plain(sku.text)):
                    for region in sku.regions:
                        priced[machine["machine"], region, sku.usage].append(sku)
    for machine in _machine_table():
        for (name, region, usage), parts in priced.items():
            if name != machine["machine"] or len(parts) != len(_parts(machine)):
                continue
            if len({p.currency for p in parts}) != 1:
                continue
            amount = sum((p.amount * _quantity(machine, p.text) for p in parts), Decimal(0))
            kind, months = KINDS[usage]
            yield {
                "sku": name,
                "offer_id": "composed",
                "region": region,
                "price_kind": kind,
                "term_months": months,
                "quoted_amount": str(amount),
                "quoted_unit": "instance_hour",
                "currency": parts[0].currency,
                "effective_at": max(p.effective for p in parts),
                "source_name": f"Google Cloud Billing Catalog, SKUs {' '.join(sorted(p.sku_id for p in parts))}",
                "notes": "GPU, cores and memory added; local SSD and licences are extra",
            }


def _plain(text: str) -> str:
    """A SKU text without the words that only say it is spot."""
    return text.replace(" attached to Spot Preemptible VMs", "").removeprefix("Spot Preemptible ")


def _parts(machine: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in ("gpu", "core", "ram") if machine[part])


def _quantity(machine: Mapping[str, str], text: str) -> Decimal:
    for part, amount in (("gpu", "gpus"), ("core", "vcpus"), ("ram", "memory_gib")):
        if re.fullmatch(machine[part], _plain(text)):
            return Decimal(machine[amount])
    raise AssertionError(text)


@cache
def _machine_table() -> tuple[dict[str, str], ...]:
    text = files("sources.prices").joinpath("gcp_machines.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


SOURCE = Gcp(
    name="gpu-prices/gcp",
    publisher="Google Cloud",
    homepage="https://cloud.google.com/compute/gpus-pricing",
    terms="documented catalogue with a key (environment variable GCP_API_KEY); public mirror without one",
    licence="mirror: Apache-2.0",
)
