"""AWS: on-demand rates of the pricing page, spot.js, the spot advisor; and every saved shape of its lists.

Belongs here: what is fetched, and which reader a document goes to. Does not belong here: the bulk price list
(`aws_pricelist`), the karpenter history (`karpenter`). Instance prices carry no GPU count: `skus.csv` knows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from sources.base import Parsed, ParseError, Payload, Web
from sources.prices import aws_pricelist, karpenter
from sources.prices.offers import parsed, quotes
from sources.prices.reading import PriceSource, exact_json, get_if_there, head_of, seen_at, text_of

WEBSITE = "https://b0.p.awsstatic.com/pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel"
SPOT_JS = "https://spot-price.s3.amazonaws.com/spot.js"
ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
VERSIONS = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/index.json"
# Families that hold accelerators; everything else in the lists is out of scope.
GPU_FAMILY = re.compile(r"(?:p\d|g\d|gr\d|dl\d|inf\d|trn\d|u-p\d)[a-z0-9-]*\.", re.IGNORECASE)
LOCATIONS = {
    "US East (N. Virginia)": "us-east-1",
    "US East (Ohio)": "us-east-2",
    "US West (Oregon)": "us-west-2",
    "EU (Frankfurt)": "eu-central-1",
    "EU (London)": "eu-west-2",
    "EU (Stockholm)": "eu-north-1",
    "Asia Pacific (Tokyo)": "ap-northeast-1",
    "Asia Pacific (Sydney)": "ap-southeast-2",
    "Asia Pacific (Mumbai)": "ap-south-1",
}
SPOT_REGIONS = {  # spot.js keeps the oldest regions under names of its own
    "us-east": "us-east-1",
    "us-west": "us-west-1",
    "eu-ireland": "eu-west-1",
    "apac-sin": "ap-southeast-1",
    "apac-syd": "ap-southeast-2",
    "apac-tokyo": "ap-northeast-1",
}
SYSTEMS = {"linux": "linux", "mswin": "windows", "Linux": "linux", "Windows": "windows"}


class Aws(PriceSource):
    """`gpu-prices/aws`: the pages' own feeds, keyless."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        for location, region in LOCATIONS.items():
            if answer := get_if_there(web, f"{WEBSITE}/{quote(location)}/Linux/index.json"):
                yield self.payload(answer, f"website/{region}")
        for url, stream in ((SPOT_JS, "spot.js"), (ADVISOR, "spot-advisor")):
            if answer := web.get(url):
                yield self.payload(answer, stream)

    def shape(self, payload: Payload) -> Parsed:
        start = head_of(payload)
        if start.startswith("generated_at"):
            return karpenter.history(payload, "aws", "instance_type")
        if start.startswith(("//go:build", "package")):
            return karpenter.go_source(payload)
        if start.startswith(('"FormatVersion"', "FormatVersion")):
            return aws_pricelist.from_csv(payload)
        document = _spot_callback(payload) if start.startswith("callback") else exact_json(payload)
        for key, read in READERS.items():
            if isinstance(document, dict) and key in document:
                return read(payload, document)
        raise ParseError(f"{payload.url}: none of the shapes AWS publishes prices in")


class AwsPriceList(Aws):
    """`gpu-prices/aws-pricelist`: the dated versions of the bulk list, for back-fill."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        yield from aws_pricelist.versions(self, web, VERSIONS)


def website(payload: Payload, document: dict[str, Any]) -> Parsed:
    """On-demand rates of the pricing page: USD for an instance-hour, by location name."""
    moment = seen_at(payload)
    rows = [
        {
            "observed_at": moment.at,
            "provider": "aws",
            "segment": "hyperscaler",
            "sku": item["Instance Type"],
            "offer_id": item.get("rateCode"),
            "region": LOCATIONS.get(location, location),
            "operating_system": SYSTEMS.get(item.get("plc:OperatingSystem", "Linux"), "unknown"),
            "price_kind": "on_demand",
            "quoted_amount": item["price"],
            "quoted_unit": "instance_hour",
            "currency": "USD",
            "flags": f"{moment.flags} government_region" if "GovCloud" in location else moment.flags,
            "source_name": "AWS pricing page feed, on-demand",
            "source_url": payload.url,
        }
        for location, offers in document["regions"].items()
        for item in offers.values()
        if GPU_FAMILY.match(item.get("Instance Type", ""))
    ]
    return parsed(quotes(rows))


def spot_js(payload: Payload, document: dict[str, Any]) -> Parsed:
    """Spot prices of all regions: USD for an instance-hour, Linux and Windows columns, `N/A*` where none."""
    config = document["config"]
    if config.get("rate") != "perhr" or config.get("currencies") != ["USD"]:
        raise ParseError(f"{payload.url}: spot.js no longer quotes USD an hour")
    moment = seen_at(payload)
    rows = [
        {
            "observed_at": moment.at,
            "provider": "aws",
            "segment": "hyperscaler",
            "sku": size["size"],
            "region": SPOT_REGIONS.get(region["region"], region["region"]),
            "operating_system": SYSTEMS.get(column["name"], "unknown"),
            "price_kind": "spot",
            "quoted_amount": column["prices"]["USD"],
            "quoted_unit": "instance_hour",
            "currency": "USD",
            "flags": moment.flags,
            "source_name": "AWS spot.js",
            "source_url": payload.url,
        }
        for region in config["regions"]
        for kind in region["instanceTypes"]
        for size in kind["sizes"]
        if GPU_FAMILY.match(size["size"])
        for column in size["valueColumns"]
    ]
    return parsed(quotes(rows))


def spot_advisor(payload: Payload, document: dict[str, Any]) -> Parsed:
    """How often spot is interrupted and what it saves: whole percents, so no price; kept in `notes`."""
    moment = seen_at(payload)
    ranges = {r["index"]: r["label"] for r in document["ranges"]}
    rows = [
        {
            "observed_at": moment.at,
            "provider": "aws",
            "segment": "hyperscaler",
            "sku": sku,
            "offer_id": "spot-advisor",
            "region": region,
            "operating_system": SYSTEMS.get(system, "unknown"),
            "price_kind": "spot",
            "quoted_unit": "instance_hour",
            "currency": "USD",
            "flags": f"{moment.flags} savings_only",
            "source_name": "AWS spot advisor",
            "source_url": payload.url,
            "notes": f"savings over on-demand {told['s']} %, interrupted {ranges.get(told['r'], 'unknown')} a month",
        }
        for region, systems in document["spot_advisor"].items()
        for system, instances in systems.items()
        for sku, told in instances.items()
        if GPU_FAMILY.match(sku)
    ]
    return parsed(quotes(rows))


def _spot_callback(payload: Payload) -> Any:
    """`callback({…});` without its wrapper."""
    match = re.fullmatch(r"callback\((.*)\);?\s*", text_of(payload), re.DOTALL)
    if not match:
        raise ParseError(f"{payload.url}: spot.js is cut off")
    try:
        return json.loads(match.group(1), parse_float=str)
    except json.JSONDecodeError as error:
        raise ParseError(f"{payload.url}: spot.js is cut off ({error})") from None


# By the key that only one of the documents has.
READERS: Mapping[str, Callable[[Payload, dict[str, Any]], Parsed]] = {
    "regions": website,
    "config": spot_js,
    "spot_advisor": spot_advisor,
    "offerCode": aws_pricelist.from_json,
}
_AWS = Aws(
    name="gpu-prices/aws",
    publisher="Amazon Web Services",
    homepage="https://aws.amazon.com/ec2/pricing/on-demand/",
    terms="public price feeds without a key",
)
SOURCES = (
    _AWS,
    AwsPriceList(
        name="gpu-prices/aws-pricelist",
        publisher=_AWS.publisher,
        homepage=_AWS.homepage,
        terms=_AWS.terms,
        cadence="monthly",
        off_reason="each version of a region is 200 to 400 MB: turn it on for a back-fill",
    ),
)
