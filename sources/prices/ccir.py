"""CCIR: its published CRI indices, their daily medians, and the reference rates it collects from price lists.

Belongs here: what CCIR publishes as numbers of its own, for `market.external_indices`. Does not belong here: the
Vast.ai order books it archives (`vast`). Its labels are kept as text; the accelerator is read from the SKU, because
it calls an H100 NVL machine "H100 SXM".
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import polars as pl

from sources.base import Parsed, ParseError, Payload
from sources.prices.reading import PriceSource, csv_frame, exact_json, head_of, instant
from sources.prices.resolver import Resolution, resolve

TABLE = "market.external_indices"
CRI = {"CRI-H100": "H100 SXM", "CRI-H200": "H200", "CRI-L40S": "L40S", "CRI-4090": "RTX 4090"}
CRI_MEASURES = (
    "median over 7 days of asks on Vast.ai in the US with reliability of 0.90 or more, at least 8 asks a day and 3 valid "
    "days, values beyond 2.5 standard deviations of a trimmed mean left out"
)
KINDS = {"on_demand": "on_demand", "spot": "spot", "spot_posted": "spot", "secure": "on_demand",
         "community": "on_demand", "secure_spot": "spot"}  # fmt: skip
SCHEMA = pl.Schema(
    {
        "index_id": pl.String(),
        "period_start": pl.Date(),
        "period": pl.String(),
        "publisher": pl.String(),
        "gpu_name": pl.String(),
        "accelerator_id": pl.String(),
        "candidates": pl.String(),
        "region": pl.String(),
        "price_kind": pl.String(),
        "term_months": pl.Int64(),
        "measures": pl.String(),
        "level_usd_per_gpu_hour": pl.Float64(),
        "observation_count": pl.Int64(),
        "low_confidence": pl.Boolean(),
        "methodology_version": pl.String(),
        "known_at": pl.Datetime("us", "UTC"),
        "source_name": pl.String(),
        "source_url": pl.String(),
        "notes": pl.String(),
    }
)


class Ccir(PriceSource):
    """`gpu-prices/ccir`."""

    def shape(self, payload: Payload) -> Parsed:
        start = head_of(payload)
        if start.startswith("publication_date"):
            rows = _published(payload)
        elif start.startswith("source_id"):
            rows = _rates(csv_frame(payload, ["source_id", "price_per_gpu_hr", "collected_utc"]).to_dicts(), payload)
        else:
            document = exact_json(payload)
            if isinstance(document, dict) and "daily" in document:
                rows = _audit(document, payload)
            elif isinstance(document, dict) and "results" in document:
                rows = _rates(document["results"], payload)
            else:
                raise ParseError(f"{payload.url}: none of the shapes CCIR publishes (index, audit, reference rates)")
        return Parsed({TABLE: pl.DataFrame(rows, schema=SCHEMA)})


def _published(payload: Payload) -> list[dict[str, Any]]:
    frame = csv_frame(payload, ["publication_date", "window_start", "window_end", "index_name", "calculated_utc"])
    value = "index_value" if "index_value" in frame.columns else "cri_h100"
    return [
        _index(row["index_name"], dt.date.fromisoformat(row["publication_date"]), payload)
        | {
            "level_usd_per_gpu_hour": float(row[value]),
            "observation_count": int(row["total_observations"]),
            "low_confidence": row["low_confidence"] == "True",
            "methodology_version": row["methodology_version"],
            "known_at": instant(row["calculated_utc"], payload.url),
            "notes": f"window {row['window_start']} to {row['window_end']}",
        }
        for row in frame.iter_rows(named=True)
    ]


def _audit(document: dict[str, Any], payload: Payload) -> list[dict[str, Any]]:
    """The index again, at its publication day, and the daily medians of its window."""
    known = instant(document["calculated_utc"], payload.url)
    first = dt.date.fromisoformat(document["end_date"]) - dt.timedelta(days=document["window_days"] - 1)
    index = _index(document["index_name"], known.date(), payload) | {
        "level_usd_per_gpu_hour": float(document["index_value"]),
        "observation_count": document["n_observations"],
        "low_confidence": document["low_confidence"],
        "methodology_version": document["ccir_version"],
        "known_at": known,
        "notes": f"window {first} to {document['end_date']}",
    }
    days = [
        index
        | {
            "index_id": f"ccir/{document['index_name'].lower()}-daily-median",
            "period_start": dt.date.fromisoformat(day["date"]),
            "measures": "median of the asks of one day that the index uses",
            "level_usd_per_gpu_hour": float(day["daily_median"]) if "daily_median" in day else None,
            "observation_count": day["n_used"],
            "low_confidence": day["status"] != "included",
            "notes": None if day["status"] == "included" else f"left out of the index: {day['status']}",
        }
        for day in document["daily"]
    ]
    return [index, *days]


def _index(name: str, day: dt.date, payload: Payload) -> dict[str, Any]:
    label = CRI.get(name, name)
    return _accelerator(resolve(label, provider="vast")) | {
        "index_id": f"ccir/{name.lower()}",
        "period_start": day,
        "period": "day",
        "publisher": "CCIR",
        "gpu_name": label,
        "region": "us",
        "price_kind": "index",
        "term_months": 0,
        "measures": CRI_MEASURES,
        "source_name": f"CCIR {name} (CC BY 4.0)",
        "source_url": payload.url,
    }


def _rates(items: list[dict[str, Any]], payload: Payload) -> list[dict[str, Any]]:
    """Posted rates of AWS, Azure, Google and RunPod, as collected; Google's are of the GPU alone."""
    rows = []
    for item in items:
        known = instant(item["collected_utc"], payload.url)
        found = resolve(item["sku"], item["gpu_model"], provider=item["source"])
        component = item["source"] == "gcp" and re.fullmatch(r"[0-9A-F]{4}(?:-[0-9A-F]{4}){2}", item["sku"]) is not None
        contradicts = "name_contradicts_sku" in found.flags
        rows.append(
            _accelerator(found)
            | {
                "index_id": f"ccir-reference/{item['source_id']}",
                "period_start": known.date(),
                "period": "day",
                "publisher": "CCIR",
                "gpu_name": item["gpu_model"],
                "region": item["region"],
                "price_kind": "component" if component else KINDS[item["price_type"]],
                "term_months": 0,
                "measures": f"posted {item['price_type']} rate of {item['source']} {item['sku']}"
                + (": the GPU without its machine" if component else ""),
                "level_usd_per_gpu_hour": float(item["price_per_gpu_hr"]),
                "known_at": known,
                "source_name": "CCIR reference rates",
                "source_url": payload.url,
                "notes": f"the publisher calls it {item['gpu_model']}, the SKU is another product"
                if contradicts
                else None,
            }
        )
    return rows


def _accelerator(found: Resolution) -> dict[str, Any]:
    return {"accelerator_id": found.accelerator_id, "candidates": " ".join(found.candidates) or None}


SOURCE = Ccir(
    name="gpu-prices/ccir",
    publisher="CCIR",
    homepage="https://ccir.io",
    licence="CC BY 4.0",
    terms="public repository",
    cadence="weekly",
    tables=(TABLE,),
    authority="secondary",
    may_republish=True,
)
