"""The audit of what is published: every table's suite, blocked batches, and disagreements between sources.

Belongs here: looking. Does not belong here: the gate at landing (`assets.landing`), output (`junit.py`, the CLI).
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb

from warehouse.home import Home
from warehouse.quality.batches import Outcome
from warehouse.quality.gx import validate_table
from warehouse.quality.suite import suite_of
from warehouse.schema import tables
from warehouse.schema.declare import table_of

SAMPLE_ROWS = 3
# A difference below this share is rounding: 46,743 against 46,742.8 million.
ROUNDING = 0.0005


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule on one table."""

    table: str
    rule: str
    severity: str
    passed: bool
    sample: str = ""
    count: int | None = None
    remedy: str = ""


def audit(home: Home) -> list[Finding]:
    """Every rule on every published table, plus what was blocked on the way in."""
    published = home.published()
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="almanac-check-") as folder:
        database = Path(folder) / "copy.duckdb"
        # A copy: views of the published file are resolved while the pipeline may swap it.
        shutil.copyfile(published, database)
        with duckdb.connect(str(database), read_only=True) as con:
            present = {f"{s}.{t}" for s, t in con.sql(_PRESENT).fetchall()}
            filled = [name for name in tables() if name in present and _has_rows(con, name)]
            findings += _blocked(con, present)
            findings += [f for name in filled for f in _disagreements(con, name)]
        for name in filled:
            schema, table = name.split(".")
            suite = [e for e in suite_of(tables()[name]) if e.kind != "ExpectTableColumnsToMatchSet"]
            outcomes = validate_table(database, table, suite, schema)
            findings += [_finding(name, o) for o in outcomes]
    return findings


_PRESENT = (
    "select schema_name, table_name from duckdb_tables() union all select schema_name, view_name from duckdb_views()"
)


def _has_rows(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    return bool(con.sql(f"select 1 from {name} limit 1").fetchall())


def _finding(table: str, outcome: Outcome) -> Finding:
    return Finding(
        table, outcome.expectation, outcome.severity, outcome.passed, outcome.sample, outcome.unexpected_count
    )


def _blocked(con: duckdb.DuckDBPyConnection, present: set[str]) -> list[Finding]:
    """Streams whose newest document was blocked or unreadable, and telemetry whose newest batch was.

    What a person dismissed is passed over, so that the one before it speaks. Documents speak for their own batches.
    """
    aside = _DISMISSED if "ops.dismissals" in present else "select null where false"
    rows = con.sql(
        f"select source, stream, url, status, reason, payload_sha256 from ops.payloads where payload_id not in ({aside}) "
        "qualify row_number() over (partition by source, stream order by checked_at desc, retrieved_at desc) = 1"
    ).fetchall()
    findings = []
    for source, stream, url, status, reason, digest in rows:
        good = status not in ("blocked", "unreadable")
        rule = f"the newest document of {source} {stream} could be landed".replace("  ", " ")
        sample = "" if good else f"{url}: {reason.removeprefix(f'{url}: ')}"
        remedy = "" if good else _REMEDY.format("a good one", digest[:12])
        findings.append(Finding("ops.payloads", rule, "critical", good, sample, remedy=remedy))
    own = "and held_payload_ids is null" if _has_column(con, "held_payload_ids") else ""
    telemetry = con.sql(
        "select table_name, source, reason, load_id from ops.loads "
        f"where starts_with(table_name, 'telemetry.') {own} and load_id not in ({aside}) "
        "qualify row_number() over (partition by table_name, source order by delta_version desc) = 1"
    ).fetchall()
    for table, source, reason, load_id in telemetry:
        rule = f"the newest batch of {source} could be landed"
        remedy = _REMEDY.format(_BATCH, f"--load-id {load_id}") if reason else ""
        findings.append(Finding(table, rule, "critical", not reason, reason, remedy=remedy))
    return findings


_DISMISSED = (
    "select subject_id from ops.dismissals "
    "qualify row_number() over (partition by subject_id order by decided_at desc) = 1 and decision = 'dismissed'"
)
_BATCH = "a good batch (what a clock or a jump held back: almanac ingest --inbox HOME/quarantine --accept)"
_REMEDY = 'land {}, or set this one aside: almanac dismiss {} --reason "…"'


def _has_column(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """A file published by an older version lacks what this one added to `ops.loads`."""
    return name in con.sql("select * from ops.loads limit 0").columns


def _disagreements(con: duckdb.DuckDBPyConnection, name: str) -> list[Finding]:
    """Sources that state different values for one fact: kept side by side, shown here as a warning."""
    info = table_of(tables()[name]).info
    columns = table_of(tables()[name]).columns
    numbers = [v for v in info["value"] if str(columns[v].type) in ("FLOAT", "BIGINT", "INTEGER")]
    if not info["fact_key"] or not numbers or "is_latest" not in columns:
        return []
    key = ", ".join(f'"{k}"' for k in info["fact_key"])
    value = numbers[0]
    query = (
        f"select {key}, min({value}) as low, max({value}) as high, string_agg(distinct source, ' / ') as sources "
        f"from {name} where is_latest group by {key} "
        f"having count(distinct source) > 1 and max({value}) - min({value}) > {ROUNDING} * abs(max({value}))"
    )
    bad = con.sql(query).fetchall()
    shown = "; ".join(" ".join(map(str, row)) for row in bad[:SAMPLE_ROWS])
    return [Finding(name, f"sources agree on {value}", "warning", not bad, shown, len(bad))]
