"""Tables about the warehouse itself: sources, payloads, loads, quarantine, quality.

Belongs here: what an operator asks when a number looks wrong. Does not belong here: any measured fact.
"""

from __future__ import annotations

import datetime as dt

from sqlmodel import SQLModel

from warehouse.schema.declare import UTC_TIME, col, table_info

DECISIONS = ("dismissed", "restored")


class SourceRecord(SQLModel, table=True):
    """One registered source with its terms and its freshness."""

    __tablename__ = "sources"
    __table_args__ = table_info("ops", "Registered sources. Grain: one source. Key: source.", kind="ledger")

    source: str = col("name of the source", key=True)
    publisher: str = col("who publishes it")
    homepage: str = col("where a person can look at it")
    licence: str = col("licence of the data")
    terms: str = col("what the terms allow")
    authority: str = col("primary, curated or secondary", one_of=("primary", "curated", "secondary"))
    cadence: str = col("how often it is asked")
    may_republish: bool = col("may its rows be given to others")
    off_reason: str = col("why it is not fetched by default; empty when it is")
    tables: str = col("tables it feeds, comma separated")
    last_landed_at: dt.datetime | None = col("when rows last landed, UTC", sa_type=UTC_TIME)
    last_payload_at: dt.datetime | None = col("when its newest payload was retrieved, UTC", sa_type=UTC_TIME)
    stale_after_at: dt.datetime | None = col("its data counts as stale after this instant, UTC", sa_type=UTC_TIME)


class PayloadRecord(SQLModel, table=True):
    """One archived document."""

    __tablename__ = "payloads"
    __table_args__ = table_info(
        "ops", "Archived raw documents. Grain: one document as received. Key: payload_id.", kind="ledger"
    )

    payload_id: str = col("hash of source, url, meta and content", key=True)
    source: str = col("name of the source")
    stream: str = col("series the document belongs to")
    url: str = col("where it came from, without secrets")
    payload_sha256: str = col("SHA-256 of the bytes")
    size_bytes: int = col("size of the raw bytes", unit="B", ge=0)
    media_type: str = col("media type as stated")
    retrieved_at: dt.datetime = col("first retrieval, UTC", sa_type=UTC_TIME)
    checked_at: dt.datetime = col("last time the source was found to hold the same bytes, UTC", sa_type=UTC_TIME)
    flags: str = col("what the archive noticed, comma separated; empty when nothing")
    status: str = col("landed, blocked, unreadable or pending")
    reason: str = col("why it is blocked or unreadable; empty otherwise")


class LoadRecord(SQLModel, table=True):
    """One commit of one load into one table; rows_read = rows_landed + rows_rejected + rows_duplicate."""

    __tablename__ = "loads"
    __table_args__ = table_info(
        "ops",
        "Ledger of loads, copied from the commits themselves. Grain: one load into one table. "
        "Key: table_name, delta_version.",
        kind="ledger",
        checks=(("counts reconcile", "critical", "rows_read <> rows_landed + rows_rejected + rows_duplicate"),),
    )

    table_name: str = col("table written", key=True)
    delta_version: int = col("version of the Delta table this commit made", key=True, ge=0)
    load_id: str = col("id of the load; one load may write several tables")
    source: str = col("name of the source")
    status: str = col("landed, blocked or nothing new", one_of=("landed", "blocked", "nothing new"))
    committed_at: dt.datetime = col("when it was committed, UTC", sa_type=UTC_TIME)
    rows_read: int = col("rows the payloads held for this table", ge=0)
    rows_landed: int = col("rows written", ge=0)
    rows_rejected: int = col("rows sent to quarantine, or held back by a blocked batch", ge=0)
    rows_duplicate: int = col("rows that were already there", ge=0)
    payloads: int = col("payloads or spool segments in the load", ge=0)
    reason: str = col("rules that blocked it; empty otherwise")
    held_payload_ids: str | None = col("documents it held back, comma separated; null where it held back none")
    observed_from_at: dt.datetime | None = col("earliest reading among the rows landed (telemetry)", sa_type=UTC_TIME)
    observed_to_at: dt.datetime | None = col(
        "latest of them; committed_at less this is how far ingest lags behind the hardware", sa_type=UTC_TIME
    )
    observed_nodes: str | None = col("nodes whose readings landed, comma separated; null where many or not told")
    observed_places: str | None = col("the same nodes as cluster/node: two clusters may use one name")


class QuarantineRecord(SQLModel, table=True):
    """One row or document that was refused."""

    __tablename__ = "quarantine"
    __table_args__ = table_info(
        "ops", "Refused rows with their reason and raw form. Grain: one refused row. Key: quarantine_id.", kind="ledger"
    )

    quarantine_id: str = col("hash of what was refused and why", key=True)
    quarantined_at: dt.datetime = col("when, UTC", sa_type=UTC_TIME)
    source: str = col("name of the source")
    table_name: str = col("table it was meant for")
    rule: str = col("rule it broke")
    reason: str = col("what is wrong, with the value")
    locator: str = col("where in the payload; empty if unknown")
    raw: str = col("the row in its raw form (JSON or text)")
    payload_sha256: str | None = col("SHA-256 of the archived bytes it came from")


class DismissalRecord(SQLModel, table=True):
    """One decision of a person about a refused document or batch; the newest decision on a subject holds."""

    __tablename__ = "dismissals"
    __table_args__ = table_info(
        "ops",
        "Refused documents and batches that a person set aside, or took up again; the newest decision holds. "
        "Grain: one decision. Key: subject_id, decided_at.",
        kind="ledger",
    )

    subject_id: str = col("payload_id of the document, or load_id of the batch", key=True)
    decided_at: dt.datetime = col("when it was decided, UTC", key=True, sa_type=UTC_TIME)
    kind: str = col("document or load", one_of=("document", "load"))
    decision: str = col("dismissed: it counts no more as a failure; restored: it does again", one_of=DECISIONS)
    reason: str = col("why, in the words of who decided")
    source: str = col("name of the source")
    stream: str = col("series the document belongs to; empty for a load")
    url: str = col("where the document came from; empty for a load")
    payload_sha256: str | None = col("SHA-256 of the archived bytes; null for a load")
    refusal: str = col("why it had been refused")


class QualityResult(SQLModel, table=True):
    """Outcome of one expectation on one batch."""

    __tablename__ = "quality_results"
    __table_args__ = table_info(
        "ops",
        "Outcome of every expectation on every gated batch. Grain: one expectation of one batch. "
        "Key: load_id, table_name, stream, expectation.",
        kind="ledger",
        publish_as="view",
    )

    load_id: str = col("load whose batch was examined", key=True)
    table_name: str = col("table the batch was meant for", key=True)
    stream: str = col("series the batch belongs to; empty for the whole load", key=True)
    expectation: str = col("rule in words", key=True)
    source: str = col("name of the source")
    validated_at: dt.datetime = col("when, UTC", sa_type=UTC_TIME)
    severity: str = col("critical blocks, warning reports", one_of=("critical", "warning"))
    passed: bool = col("did the batch satisfy the rule")
    unexpected_count: int | None = col("rows that broke it", ge=0)
    sample: str = col("offending rows or observed values, JSON; empty when passed")
