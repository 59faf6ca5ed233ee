"""Companies that market rows speak of, and the indicators that the almanac tracks.

Belongs here: `ref.entities`, `ref.indicators`. Does not belong here: their figures (`financials.py`), hardware
(`reference.py`), the value of an indicator (a mart).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import Provenance, col, table_info


class Entity(Provenance, table=True):
    """A company, named by its ticker as market rows name it.

    Grain: company. Key: entity, source, known_at.
    """

    __tablename__ = "entities"
    __table_args__ = table_info(
        "ref",
        "Companies by ticker, with CIK, role and fiscal year. Grain: company. Key: entity, source, known_at.",
        kind="dimension",
    )
    entity: str = col("ticker; a short name where the company has no US listing", key=True)
    name: str = col("registered or usual company name")
    cik: str | None = col("SEC central index key, ten digits; null when not registered or not confirmed")
    role: str = col(
        "place in the supply chain",
        one_of=("vendor", "hyperscaler", "neocloud", "optics", "memory", "foundry", "network", "server", "power"),
    )
    fiscal_year_end_month: int | None = col("calendar month in which the fiscal year ends", ge=1, le=12)
    currency: str | None = col("reporting currency, ISO 4217")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class Indicator(Provenance, table=True):
    """A tracked indicator, whether or not a public source feeds it.

    Grain: indicator. Key: indicator_id, source, known_at. `feed` names what the indicator mart reads, as
    `table:metric` entries separated by `;`; null means that no source exists yet and `gap` says so.
    """

    __tablename__ = "indicators"
    __table_args__ = table_info(
        "ref",
        "The tracked indicators, in English and Chinese. Grain: indicator. Key: indicator_id, source, known_at.",
        kind="dimension",
        checks=(("feed_or_gap", "critical", "feed is null and gap is null"),),
    )
    indicator_id: str = col("short name, S supply, D demand, T technology, P policy", key=True)
    indicator_group: str = col("which side it describes", one_of=("supply", "demand", "technology", "policy"))
    name_en: str = col("name in English")
    name_zh: str = col("name in Chinese")
    unit: str = col("unit of the headline figure")
    sources: str = col("names of the sources that can feed it, separated by `;`")
    cadence: str = col("how often something new can appear")
    feed: str | None = col("what feeds it, `table:metric[@entity]` entries separated by `;`; null: no source yet")
    gap: str | None = col("which part of the indicator no public source covers")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")
