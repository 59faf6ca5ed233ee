"""Exchange rates: the euro reference rates of the European Central Bank, and a user's own rates as a CSV.

Belongs here: `ref.fx_rates`, each rate as USD for one unit. Does not belong here: applying them (`assets/prices.py`).
The CSV has `rate_date,currency,usd_per_unit,publisher`. The bank's documents were read from their description only.
"""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Iterator
from decimal import Decimal

import polars as pl
from lxml import etree

from sources.base import Parsed, ParseError, Payload, Reject, Web
from sources.prices.reading import PriceSource, csv_frame, head_of, text_of

TABLE = "ref.fx_rates"
RECENT = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-hist-90d.xml"
HISTORY = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-hist.zip"
PAGE = "https://www.ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates/"
NAMESPACE = "{http://www.ecb.int/vocabulary/2002-08-01/eurofxref}"
FIXING_UTC = dt.time(15, 0)  # the rates come out about 16:00 in Frankfurt: 15:00 UTC in winter, never later in summer
SCHEMA = pl.Schema(
    {
        "rate_date": pl.Date(),
        "currency": pl.String(),
        "usd_per_unit": pl.Float64(),
        "units_per_eur": pl.Float64(),
        "publisher": pl.String(),
        "known_at": pl.Datetime("us", "UTC"),
        "source_name": pl.String(),
        "source_url": pl.String(),
        "checked": pl.String(),
    }
)


class Fx(PriceSource):
    """`fx-ecb`."""

    def fetch(self, web: Web) -> Iterator[Payload]:
        if answer := web.get(RECENT):
            yield self.payload(answer, "recent")

    def shape(self, payload: Payload) -> Parsed:
        start = head_of(payload)
        if start.startswith("rate_date"):
            return _own(payload)
        if start.startswith("PK"):
            with zipfile.ZipFile(io.BytesIO(payload.read())) as archive:
                return _ecb(_csv_days(archive.read(archive.namelist()[0]).decode("utf-8"), payload))
        if start.startswith("Date,"):
            return _ecb(_csv_days(text_of(payload), payload))
        return _ecb(_xml_days(payload))


def _xml_days(payload: Payload) -> dict[dt.date, dict[str, Decimal]]:
    safe = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        root = etree.fromstring(text_of(payload).encode(), safe)
    except etree.XMLSyntaxError as error:
        raise ParseError(f"{payload.url}: not XML, or cut off ({error})") from None
    days = {
        dt.date.fromisoformat(day.attrib["time"]): {c.attrib["currency"]: Decimal(c.attrib["rate"]) for c in day}
        for day in root.iter(f"{NAMESPACE}Cube")
        if "time" in day.attrib
    }
    if not days:
        raise ParseError(f"{payload.url}: no reference rates in it: the format changed")
    return days


def _csv_days(text: str, payload: Payload) -> dict[dt.date, dict[str, Decimal]]:
    frame = pl.read_csv(io.StringIO(text), infer_schema=False, truncate_ragged_lines=True)
    if "USD" not in [c.strip() for c in frame.columns]:
        raise ParseError(f"{payload.url}: no USD column: the format changed")
    return {
        dt.date.fromisoformat(row["Date"].strip()): {
            name.strip(): Decimal(value.strip())
            for name, value in row.items()
            if name != "Date" and name.strip() and value and value.strip() not in ("", "N/A")
        }
        for row in frame.iter_rows(named=True)
    }


def _ecb(days: dict[dt.date, dict[str, Decimal]]) -> Parsed:
    """Units for one euro → USD for one unit: rate of USD over rate of the currency."""
    rows, rejects = [], []
    for day, rates in days.items():
        dollars = rates.get("USD")
        if not dollars:
            rejects.append(Reject(TABLE, "usd_rate", "a day without a rate of USD", str(rates), day.isoformat()))
            continue
        rows += [
            {
                "rate_date": day,
                "currency": currency,
                "usd_per_unit": 1.0 if currency == "USD" else float(dollars / units),
                "units_per_eur": float(units),
                "publisher": "ECB",
                "known_at": dt.datetime.combine(day, FIXING_UTC, dt.UTC),
                "source_name": "ECB euro foreign exchange reference rates",
                "source_url": PAGE,
                "checked": "format read from its description",
            }
            for currency, units in {"EUR": Decimal(1), **rates}.items()
            if units > 0
        ]
    return Parsed({TABLE: pl.DataFrame(rows, schema=SCHEMA)}, rejects)


def _own(payload: Payload) -> Parsed:
    frame = csv_frame(payload, ["rate_date", "currency", "usd_per_unit", "publisher"]).with_row_index("line", offset=2)
    day = pl.col("rate_date").str.to_date("%Y-%m-%d", strict=False)
    rate = pl.col("usd_per_unit").cast(pl.Float64, strict=False)
    good = day.is_not_null() & (rate > 0) & pl.col("currency").str.contains(r"^[A-Z]{3}$")
    told = frame.with_columns(good.fill_null(value=False).alias("good"))
    rejects = [
        Reject(TABLE, "rate", "needs a day, an ISO currency and a rate above 0", str(row), f"line {row['line']}")
        for row in told.filter(~pl.col("good")).iter_rows(named=True)
    ]
    rows = told.filter("good").select(
        rate_date=day,
        currency="currency",
        usd_per_unit=rate,
        units_per_eur=pl.lit(None, dtype=pl.Float64),
        publisher="publisher",
        known_at=day.cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),
        source_name=pl.lit("own exchange rates"),
        source_url=pl.lit(payload.url),
        checked=pl.lit(None, dtype=pl.String),
    )
    return Parsed({TABLE: rows}, rejects)


SOURCE = Fx(
    name="fx-ecb",
    publisher="European Central Bank",
    homepage=PAGE,
    licence="free reuse with source",
    terms="public documents",
    tables=(TABLE,),
    may_republish=True,
)
