"""CoreWeave: its pricing page, read as HTML. Prices are for an instance-hour, by region North America and Europe.

Belongs here: GPU rows of the page. Does not belong here: its CPU tables, which share the layout, and the
"inference" figure, which is the on-demand price of one GPU under a wrong name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bs4 import BeautifulSoup, Tag

from sources.base import Parsed, ParseError, Payload, Reject, Web
from sources.prices.offers import TABLE, parsed, quotes
from sources.prices.reading import Moment, PriceSource, seen_at, text_of

PAGE = "https://www.coreweave.com/pricing"
_AMOUNT = re.compile(r"\$\s*([\d,]+(?:\.\d+)?)")
_COUNT = re.compile(r"(\d+)(?:\^\d+)?")  # `4^1` is 4 with a footnote
FIGURES = (("instance-price", "on_demand"), ("spot-price", "spot"))


class CoreWeave(PriceSource):
    """`gpu-prices/coreweave`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        if answer := web.get(PAGE):
            yield self.payload(answer, "page")

    def shape(self, payload: Payload) -> Parsed:
        page = BeautifulSoup(text_of(payload, html=True), "lxml")
        rows = page.select(".table-row-v2")
        if not rows:
            raise ParseError(f"{payload.url}: no price rows: a challenge page, or the layout changed")
        moment = seen_at(payload)
        found: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for row in rows:
            for quote in _row(row, moment):
                if isinstance(quote, Reject):
                    rejects.append(quote)
                else:
                    found.append(quote)
        if not found:
            raise ParseError(f"{payload.url}: price rows without a GPU: the layout changed")
        return parsed(quotes(found), rejects)


def _row(row: Tag, moment: Moment) -> Iterator[dict[str, Any] | Reject]:
    """On-demand and spot of one row; nothing for a row without a GPU count column."""
    name = row.select_one(".table-model-name")
    if name is None or row.select_one(".spot-price") is None:
        return
    product = str(name.get("data-product"))
    cells = [cell.get_text(strip=True) for cell in row.select(".table-grid > .table-v2-cell")]
    count = _COUNT.fullmatch(cells[1])
    if count is None:
        yield Reject(
            TABLE, "gpu_count", f"GPU count {cells[1]!r} is not a number", row.get_text(" ", strip=True), product
        )
        return
    heading = row.find_previous("h5")
    region = heading.get_text(" ", strip=True).removeprefix("REGION:").strip().lower() if heading else "global"
    for mark, kind in FIGURES:
        value = row.select_one(f".{mark} .item-value")
        amount = _AMOUNT.search(value.get_text(strip=True)) if value else None
        yield {
            "observed_at": moment.at,
            "provider": "coreweave",
            "segment": "neocloud",
            "sku": product,
            "region": region,
            "price_kind": kind,
            "gpu_name": name.get_text(strip=True),
            "memory_hint_gb": float(cells[2]) if cells[2].isdigit() else None,
            "stated_gpu_count": float(count.group(1)),
            "quoted_amount": amount.group(1).replace(",", "") if amount else None,
            "quoted_unit": "instance_hour",
            "currency": "USD",
            "flags": moment.flags,
            "source_name": "CoreWeave pricing page",
            "source_url": PAGE,
        }


SOURCE = CoreWeave(
    name="gpu-prices/coreweave",
    publisher="CoreWeave",
    homepage=PAGE,
    terms="public page; its acceptable-use policy is read by some as forbidding robots",
    off_reason="its acceptable-use policy may forbid robots: a person decides",
)
