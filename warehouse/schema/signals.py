"""Dated public signals: policy, software releases, supply figures, events.

Belongs here: what was announced or published about the industry. Does not belong here: company accounts
(`financials.py`), prices (`prices.py`), clusters and model runs (`disclosures.py`).
"""

from __future__ import annotations

import datetime as dt

from warehouse.schema.declare import UTC_TIME, FactVersions, Provenance, col, table_info


class PolicyDocument(FactVersions, Provenance, table=True):
    """A rule, notice or guidance document of an authority.

    Grain: document, source. Key: document_id, source, known_at. `effective_date` may lie before
    `publication_date`: interim rules take effect on public display.
    """

    __tablename__ = "policy_documents"
    __table_args__ = table_info(
        "market",
        "Rules, notices and guidance on export control and subsidies. "
        "Grain: document, source. Key: document_id, source, known_at.",
        kind="fact",
        fact_key=("document_id",),
        value=("title", "document_kind", "effective_date", "publication_date"),
    )
    document_id: str = col("number given by the authority; a slug with date where there is none", key=True)
    jurisdiction: str = col("country or union, ISO 3166 alpha-2 or EU")
    authority: str = col("issuing body, for example BIS")
    document_kind: str = col(
        "kind of document",
        one_of=("rule", "interim_final_rule", "proposed_rule", "correction", "notice", "guidance", "other"),
    )
    title: str = col("title or short title")
    topic: str | None = col("subject class, for example advanced_computing, entity_list")
    citation: str | None = col("official citation")
    publication_date: dt.date | None = col("day of publication")
    effective_date: dt.date | None = col("day of effect")
    corrects_document_id: str | None = col("document that this one corrects")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class SoftwareRelease(FactVersions, Provenance, table=True):
    """A tagged release of a communication library, framework or toolkit.

    Grain: project, tag. Key: project, tag, source, known_at. Order by `published_at`, not by version: patch
    lines of older versions appear after newer ones.
    """

    __tablename__ = "software_releases"
    __table_args__ = table_info(
        "market",
        "Releases of collective libraries, frameworks and toolkits. "
        "Grain: project, tag. Key: project, tag, source, known_at.",
        kind="fact",
        fact_key=("project", "tag"),
        value=("version", "published_at", "is_prerelease"),
    )
    project: str = col("repository or product, `owner/name` for GitHub", key=True)
    tag: str = col("tag or version label as published", key=True)
    component: str = col("what it is: nccl, rccl, oneccl, rocm, cuda, megatron-lm, deepspeed, …")
    version: str | None = col("version without prefix")
    title: str | None = col("title of the release")
    published_at: dt.datetime | None = col("when the release was published, UTC", sa_type=UTC_TIME)
    tagged_at: dt.datetime | None = col("when the tagged commit was made, UTC", sa_type=UTC_TIME)
    is_prerelease: bool | None = col("marked as pre-release")
    topics: str | None = col("subjects that the notes touch, separated by `;`")


class SupplySignal(FactVersions, Provenance, table=True):
    """One figure on supply, optics, switches, cooling, PUE, rack density or sovereign buying.

    Grain: signal, metric, subject, period, basis, stated_by. Key: those, source, known_at. Series with another
    `basis` or denominator are never joined. `value` is null when only a range was stated.
    """

    __tablename__ = "supply_signals"
    __table_args__ = table_info(
        "market",
        "Figures on supply chain, cooling and PUE. Grain: signal, metric, subject, period, basis, stated_by. "
        "Key: signal, metric, subject, period, basis, stated_by, source, known_at.",
        kind="fact",
        fact_key=("signal", "metric", "subject", "period", "basis", "stated_by"),
        value=("value", "value_low", "value_high"),
        checks=(
            ("pue_not_below_one", "critical", "signal = 'pue' and value < 1"),
            ("value_or_range", "critical", "value is null and value_low is null and value_high is null"),
        ),
    )
    signal: str = col(
        "family of the figure",
        key=True,
        one_of=("supply", "optics", "switch", "cooling", "pue", "density", "sovereign", "power"),
    )
    metric: str = col("what is measured", key=True)
    subject: str = col("company, market or group that it is about, as the source names it", key=True)
    period: str = col("period, `2025`, `2025Q3` or `2025-08`", key=True)
    basis: str = col("what the figure rests on: statement, survey, analyst, estimate", key=True)
    stated_by: str = col("who states it", key=True)
    entity: str | None = col("ticker where the subject is a company of `ref.entities`")
    period_start: dt.date | None = col("first day of the period")
    period_end: dt.date | None = col("last day of the period")
    value: float | None = col("figure in `unit`")
    value_low: float | None = col("lower end of a range or band, in `unit`")
    value_high: float | None = col("upper end of a range or band, in `unit`")
    unit: str = col("unit of the figure")
    qualifier: str | None = col("words that bound the figure, for example `more than`")
    as_of_date: dt.date | None = col("day on which the row was last compared with its source")


class Event(FactVersions, Provenance, table=True):
    """Something dated that happened: funding, contract award, tender, launch, order.

    Grain: event, source. Key: event_id, source, known_at.
    """

    __tablename__ = "events"
    __table_args__ = table_info(
        "market",
        "Dated events: funding, tenders, awards, launches, orders. "
        "Grain: event, source. Key: event_id, source, known_at.",
        kind="fact",
        fact_key=("event_id",),
        value=("title", "amount", "quantity"),
    )
    event_id: str = col("identifier at the source, or a hash of its link", key=True)
    event_kind: str = col(
        "kind of event",
        one_of=("funding", "tender", "award", "order", "launch", "partnership", "outage", "policy", "guidance", "news"),
    )
    event_date: dt.date | None = col("day of the event")
    subject: str | None = col("organisation that it is about")
    entity: str | None = col("ticker where the subject is a company of `ref.entities`")
    country: str | None = col("country, ISO 3166 alpha-2 where known")
    title: str = col("title or one line in own words")
    amount: float | None = col("amount in `currency`", ge=0)
    amount_usd: float | None = col("amount in US dollars where stated in them", unit="USD", ge=0)
    currency: str | None = col("currency of the amount, ISO 4217")
    quantity: float | None = col("quantity in `quantity_unit`", ge=0)
    quantity_unit: str | None = col("unit of the quantity, for example GPU or MW")
    topics: str | None = col("subject classes, separated by `;`")
