"""The bulk price list of AmazonEC2, JSON and CSV, and its dated versions.

Belongs here: telling a Linux on-demand or reserved rate of a shared instance from its look-alikes (capacity
blocks at 0 USD, unused reservations, Windows, dedicated hosts). Does not belong here: the pages' feeds (`aws`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from sources.base import FetchError, Parsed, ParseError, Payload, Web
from sources.prices.offers import parsed, quotes, with_defaults
from sources.prices.reading import instant, seen_at, text_of

if TYPE_CHECKING:
    from sources.prices.reading import PriceSource

GPU = r"^(?:p\d|g\d|gr\d|dl\d|inf\d|trn\d|u-p\d)"
SYSTEMS = {"Linux": "linux", "Windows": "windows"}
MONTHS = {"1yr": 12, "3yr": 36}
REGION = "us-east-1"
FIRST_VERSION = "2022"
DISCLAIMER_LINES = 5


def versions(source: PriceSource, web: Web, index_url: str) -> Iterator[Payload]:
    """The first version of each month since 2022, one region, as CSV. Raises `FetchError` on another index."""
    index = web.get(index_url)
    if index is None:
        return
    found = re.findall(r'"(20\d{12})"\s*:\s*\{', index.body.decode("utf-8"))
    if not found:
        raise FetchError(f"{index_url}: no versions in it: the format changed")
    monthly = {version[:6]: version for version in sorted(found, reverse=True) if version >= FIRST_VERSION}
    for month, version in sorted(monthly.items()):
        url = index_url.replace("index.json", f"{version}/{REGION}/index.csv")
        if answer := web.get(url, max_bytes=1 << 30):
            yield source.payload(answer, f"pricelist/{REGION}/{month}")


def from_json(payload: Payload, document: Mapping[str, Any]) -> Parsed:
    """Rates of the JSON list (`products` and `terms`), seen at its own `publicationDate`. Raises `ParseError`."""
    if document.get("offerCode") != "AmazonEC2" or not {"products", "terms"} <= set(document):
        raise ParseError(f"{payload.url}: not the price list of AmazonEC2")
    moment = seen_at(payload, document.get("publicationDate"))
    rows = [
        {
            **_place(attributes),
            **_rate(term, kind, attributes),
            "observed_at": moment.at,
            "offer_id": f"{code}.{term['offerTermCode']}",
            "effective_at": instant(term["effectiveDate"], payload.url),
            "source_url": payload.url,
        }
        for kind, by_sku in document["terms"].items()
        for code, terms in by_sku.items()
        for attributes in [document["products"].get(code, {}).get("attributes", {})]
        if re.match(GPU, attributes.get("instanceType", "")) and _is_shared_instance(attributes)
        for term in terms.values()
    ]
    return parsed(quotes(rows))


def from_csv(payload: Payload) -> Parsed:
    """Rates of the CSV list: five lines of disclaimer, then one line a rate. Raises `ParseError`."""
    text = text_of(payload)
    head = text[: text.index("SKU")] if "SKU" in text else ""
    stamp = re.search(r'"Publication Date","([^"]+)"', head)
    if head.count("\n") != DISCLAIMER_LINES or stamp is None:
        raise ParseError(f"{payload.url}: not the price list CSV, or its head changed")
    moment = seen_at(payload, stamp.group(1))
    table = pl.read_csv(io.StringIO(text), skip_rows=DISCLAIMER_LINES, infer_schema=False)
    gpus = table.filter(
        pl.col("Instance Type").str.contains(GPU),
        pl.col("Tenancy") == "Shared",
        pl.col("Pre Installed S/W").is_in(["NA", ""]) | pl.col("Pre Installed S/W").is_null(),
        pl.col("CapacityStatus") == "Used",
        pl.col("Unit") == "Hrs",
        pl.col("TermType") == "OnDemand",
    )
    block = (pl.col("MarketOption") == "CapacityBlock") | pl.col("operation").str.contains(":CB")
    rows = gpus.select(
        observed_at=pl.lit(moment.at),
        provider=pl.lit("aws"),
        segment=pl.lit("hyperscaler"),
        sku="Instance Type",
        offer_id="RateCode",
        region="Region Code",
        operating_system=pl.col("Operating System").replace_strict(SYSTEMS, default="unknown"),
        price_kind=pl.when(block).then(pl.lit("capacity_block")).otherwise(pl.lit("on_demand")),
        quoted_amount="PricePerUnit",
        quoted_unit=pl.lit("instance_hour"),
        currency="Currency",
        effective_at=pl.col("EffectiveDate").str.to_datetime("%Y-%m-%d", time_zone="UTC", strict=False),
        source_name=pl.lit("AWS price list"),
        source_url=pl.lit(payload.url),
    )
    return parsed(with_defaults(rows))


def _is_shared_instance(attributes: Mapping[str, str]) -> bool:
    return (
        attributes.get("tenancy") == "Shared"
        and attributes.get("capacitystatus") == "Used"
        and attributes.get("preInstalledSw", "NA") == "NA"
    )


def _place(attributes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "provider": "aws",
        "segment": "hyperscaler",
        "sku": attributes["instanceType"],
        "region": attributes.get("regionCode") or attributes.get("location"),
        "operating_system": SYSTEMS.get(attributes.get("operatingSystem", ""), "unknown"),
        "stated_gpu_count": float(attributes["gpu"]) if attributes.get("gpu", "").isdigit() else None,
        "source_name": "AWS price list",
    }


def _rate(term: Mapping[str, Any], kind: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Hourly rate, payment in advance and term of one offer term; a capacity block is never on-demand."""
    hourly = [d for d in term["priceDimensions"].values() if d["unit"] == "Hrs"]
    upfront = [d for d in term["priceDimensions"].values() if d["unit"] == "Quantity"]
    block = attributes.get("marketoption") == "CapacityBlock" or ":CB" in attributes.get("operation", "")
    prices = (hourly or upfront)[0]["pricePerUnit"]
    currency = "USD" if "USD" in prices else next(iter(prices), None)
    return {
        "price_kind": "capacity_block" if block else "reserved" if kind == "Reserved" else "on_demand",
        "term_months": MONTHS.get(term.get("termAttributes", {}).get("LeaseContractLength", ""), 0),
        "quoted_amount": hourly[0]["pricePerUnit"].get(currency) if hourly else "0",
        "quoted_unit": "instance_hour",
        "upfront_amount": upfront[0]["pricePerUnit"].get(currency) if upfront else None,
        "currency": currency,
    }
