"""Azure: the Retail Prices feed of virtual machines (keyless), and the karpenter history.

Belongs here: telling pay-as-you-go, spot, low priority, dev/test and reservations apart. Does not belong here: GPU
counts (`skus.csv`; the feed has none). A reservation row carries the total of the whole term under "1 Hour".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from sources.base import FetchError, Parsed, ParseError, Payload, Reject, Web
from sources.prices import karpenter
from sources.prices.offers import TABLE, parsed, quotes
from sources.prices.reading import Moment, PriceSource, each_record, exact_json, head_of, instant, seen_at

FEED = "https://prices.azure.com/api/retail/prices"
# ND, NC and NV are the accelerator families.
FAMILIES = ("Standard_ND", "Standard_NC", "Standard_NV")
TERMS = {"1 Year": 12, "3 Years": 36, "5 Years": 60}
MAX_PAGES = 400
PAGE_ROWS = 1000


class Azure(PriceSource):
    """`gpu-prices/azure`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        for family in FAMILIES:
            rule = f"serviceName eq 'Virtual Machines' and startswith(armSkuName, '{family}')"
            answer = web.get(FEED, params={"api-version": "2023-01-01-preview", "$filter": rule}, conditional=False)
            pages: list[bytes] = []
            first = answer
            while answer is not None and len(pages) < MAX_PAGES:
                pages.append(answer.body)
                link = _next_link(answer.body, answer.url)
                answer = web.get(link, conditional=False) if link else None
            if first is None or answer is not None:
                raise FetchError(f"{FEED}: no answer, or more than {MAX_PAGES} pages for {family}")
            yield self.payload(first, f"retail/{family}", b"[" + b",".join(pages) + b"]")

    def shape(self, payload: Payload) -> Parsed:
        if head_of(payload).startswith("generated_at"):
            return karpenter.history(payload, "azure", "arm_sku")
        moment = seen_at(payload)
        rows, rejects = each_record(_items(payload), lambda item: _judged(item, moment, payload.url), payload.url)
        return parsed(quotes(rows), rejects)


def _next_link(body: bytes, url: str) -> str | None:
    page = exact_json(Payload("gpu-prices/azure", url, dt.datetime.now(dt.UTC), "application/json", body))
    link = page.get("NextPageLink") if isinstance(page, dict) else None
    return str(link) if link else None


def _items(payload: Payload) -> list[dict[str, Any]]:
    """Items of one page, of several pages, or a bare list of items. Raises `ParseError` when a page is missing."""
    document = exact_json(payload)
    pages = document if isinstance(document, list) else [document]
    if pages and isinstance(pages[0], dict) and "Items" in pages[0]:
        if pages[-1].get("NextPageLink"):
            raise ParseError(f"{payload.url}: the last page names another one: the list is cut off")
        pages = [item for page in pages for item in page["Items"]]
    if not pages or not all(isinstance(item, dict) and "armSkuName" in item for item in pages):
        raise ParseError(f"{payload.url}: no retail price items in it: the format changed")
    return pages


def _judged(item: Mapping[str, Any], moment: Moment, url: str) -> Iterator[dict[str, Any] | Reject]:
    fault = _fault(item)
    if fault:
        yield Reject(TABLE, fault[0], fault[1], str(item), str(item.get("meterId") or item["armSkuName"]))
    else:
        yield _quote(item, moment, url)


def _fault(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """(rule, reason) why an item is no quotation."""
    if item.get("unitOfMeasure") != "1 Hour":
        return "unit", f"unitOfMeasure is {item.get('unitOfMeasure')!r}, not '1 Hour'"
    if item.get("type") == "Reservation" and item.get("reservationTerm") not in TERMS:
        return "reservation_term", f"reservation without a known term: {item.get('reservationTerm')!r}"
    if item.get("type") not in ("Consumption", "DevTestConsumption", "Reservation"):
        return "price_type", f"type {item.get('type')!r} is not known"
    return None


def _quote(item: Mapping[str, Any], moment: Moment, url: str) -> dict[str, Any]:
    meter, product = item["meterName"], item["productName"]
    reserved = item["type"] == "Reservation"
    region = item["armRegionName"]
    effective = instant(item["effectiveStartDate"], url) if item.get("effectiveStartDate") else None
    flags = [moment.flags]
    if region.startswith(("usgov", "usdod")):
        flags.append("government_region")
    if effective and effective > moment.at:
        flags.append("not_yet_effective")
    if item.get("isPrimaryMeterRegion") is False:
        flags.append("secondary_meter")
    return {
        "observed_at": moment.at,
        "provider": "azure",
        "segment": "hyperscaler",
        "sku": item["armSkuName"] or item.get("skuName") or meter,
        "offer_id": item.get("meterId") or meter,
        "region": region,
        "operating_system": "windows" if "Windows" in product else "linux",
        "price_kind": _kind(item, meter),
        "term_months": TERMS[item["reservationTerm"]] if reserved else 0,
        "quoted_amount": str(item["retailPrice"]),
        "quoted_unit": "instance_term" if reserved else "instance_hour",
        "currency": item.get("currencyCode", "USD"),
        "effective_at": effective,
        "flags": " ".join(flags),
        "source_name": "Azure Retail Prices",
        "source_url": url,
    }


def _kind(item: Mapping[str, Any], meter: str) -> str:
    name = f"{meter} {item.get('skuName') or ''}"
    if item["type"] == "Reservation":
        return "reserved"
    if "Low Priority" in name:
        return "low_priority"
    if "Spot" in name:
        return "spot"
    return "dev_test" if item["type"] == "DevTestConsumption" else "on_demand"


SOURCE = Azure(
    name="gpu-prices/azure",
    publisher="Microsoft Azure",
    homepage="https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices",
    terms="documented public feed without a key",
)
