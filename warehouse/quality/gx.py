"""The one place that runs Great Expectations, by SQL push-down on DuckDB.

Belongs here: running a suite over Parquet files or a published table. Does not belong here: which rules there are
(`suite.py`), what follows from a failure (the street).
"""

from __future__ import annotations

import json
import os
import threading
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from warehouse.ddl import quoted
from warehouse.quality.batches import Outcome
from warehouse.quality.screen import TABLE, create_screen
from warehouse.quality.suite import Expectation

# GX fetches after it has given the connection back; a rollback on return would empty the cursor.
ENGINE = {
    "isolation_level": "AUTOCOMMIT",
    "skip_autocommit_rollback": True,
    "pool_reset_on_return": None,
    "query_cache_size": 0,  # no statement comes twice
}
SAMPLE_ROWS = 5


@dataclass(frozen=True, slots=True)
class _Gate:
    """A database in memory, with one connection of ours, and the tables of it that Great Expectations knows."""

    source: Any
    con: duckdb.DuckDBPyConnection
    assets: dict[str, Any]


_made = threading.local()


def validate_files(
    files: Sequence[Path],
    suite: Sequence[Expectation],
    partitions: Mapping[str, str] | None = None,
    edges: pl.DataFrame | None = None,
) -> list[Outcome]:
    """Run a suite over Parquet files seen as one table.

    partitions: name and DuckDB type of path partitions. edges: those of what was written (`edges.py`): where they
    break no rule about one column, the files are not read for it.
    """
    listed = ", ".join(quoted(str(f)) for f in files)
    kinds = ", ".join(f"'{name}': {kind}" for name, kind in (partitions or {}).items())
    hive = f"hive_partitioning = true, hive_types = {{{kinds}}}" if kinds else "hive_partitioning = false"
    return _judged(_gate(), f"select * from read_parquet([{listed}], {hive})", suite, edges)


def validate_table(
    database: Path, table: str, suite: Sequence[Expectation], schema: str | None = None
) -> list[Outcome]:
    """Run a suite over one table or view of a DuckDB file."""
    gate = _gate()
    gate.con.execute(f"attach {quoted(str(database))} as audited (read_only)")
    try:
        return _judged(gate, f'select * from audited."{schema or "main"}"."{table}"', suite, None)
    finally:
        gate.con.execute("drop view if exists candidate; detach audited")


def _judged(gate: _Gate, candidate: str, suite: Sequence[Expectation], edges: pl.DataFrame | None) -> list[Outcome]:
    """First yes or no by counts, then details of what failed."""
    gate.con.execute(f"create or replace view candidate as {candidate}")
    screen = create_screen(gate.con, suite, edges)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = _kept(gate, screen) if screen else []
        left = [e for e in suite if e not in kept]
        asked = iter(_ask(gate, left) if left else [])
    return [_passed(e) if e in kept else next(asked) for e in suite]


def _gate() -> _Gate:
    """This thread's own, made once: that takes longer than judging a batch."""
    if getattr(_made, "process", None) != os.getpid():
        _made.gate, _made.process = _open(), os.getpid()
    gate: _Gate = _made.gate
    return gate


def _open() -> _Gate:
    """A gate; Great Expectations is imported here because that takes seconds."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx

        context = gx.get_context(mode="ephemeral")
        # An ephemeral context has nowhere to save to, yet renders all it holds as YAML at every step: half of a gate.
        context._save_project_config = _nothing_saved  # noqa: SLF001
        context.variables.progress_bars = {"globally": False, "metric_calculations": False}
        # A name, so that every connection of Great Expectations sees the same database.
        address = f"duckdb:///:memory:gate-{uuid.uuid4().hex}"
        source = context.data_sources.add_sql("gate", connection_string=address, kwargs=ENGINE)
        con = source.get_execution_engine().engine.raw_connection().driver_connection
    con.execute("set TimeZone = 'UTC'")
    return _Gate(source, con, {})


def _nothing_saved() -> None:
    """In place of saving."""


def _kept(gate: _Gate, screen: Mapping[str, Sequence[Expectation]]) -> list[Expectation]:
    """The rules that no row breaks."""
    none = {"min_value": 0, "max_value": 0}
    counts = [
        Expectation(name, "ExpectColumnValuesToBeBetween", {"column": name, **none}, "critical") for name in screen
    ]
    told = _verdicts(_batch(gate, TABLE), counts)
    return [e for count, result in zip(counts, told, strict=True) if result.success for e in screen[count.name]]


def _ask(gate: _Gate, suite: Sequence[Expectation]) -> list[Outcome]:
    batch = _batch(gate, "candidate")
    outcomes = []
    for expectation, result in zip(suite, _verdicts(batch, suite), strict=True):
        if result.success:
            outcomes.append(_passed(expectation))
        else:
            detail = batch.validate(_built(expectation), result_format="COMPLETE")
            outcomes.append(_failure(expectation, detail))
    return outcomes


def _batch(gate: _Gate, table: str) -> Any:
    if table not in gate.assets:
        asset = gate.source.add_table_asset(table, table_name=table)
        gate.assets[table] = asset.add_batch_definition_whole_table("all")
        # Great Expectations looks whether the table is there and leaves the answer unread: what an open answer might
        # still read, every table of every gate from now on, would stay in memory.
        gate.source.get_engine().dispose()
    return gate.assets[table].get_batch()


def _built(expectation: Expectation) -> Any:
    import great_expectations.expectations as gxe

    return getattr(gxe, expectation.kind)(**expectation.arguments)


def _verdicts(batch: Any, suite: Sequence[Expectation]) -> list[Any]:
    import great_expectations as gx

    built = [_built(e) for e in suite]
    quick = batch.validate(gx.ExpectationSuite(name="quick", expectations=built), result_format="BOOLEAN_ONLY")
    return _by_order(quick, built)


def _passed(expectation: Expectation) -> Outcome:
    return Outcome(expectation.name, expectation.severity, passed=True)


def _by_order(result: Any, built: Sequence[Any]) -> list[Any]:
    """GX groups results by column; put them back into the order of the suite."""
    left = list(result.results)
    ordered = []
    for rule in built:
        found = _match(left, rule.configuration)
        left.remove(found)
        ordered.append(found)
    return ordered


def _match(results: list[Any], config: Any) -> Any:
    wanted = {k: v for k, v in config.kwargs.items() if k != "batch_id"}
    for result in results:
        got = result.expectation_config
        if got.type == config.type and {k: v for k, v in got.kwargs.items() if k != "batch_id"} == wanted:
            return result
    raise LookupError(f"great_expectations gave no result for {config.type} {wanted}")


def _failure(expectation: Expectation, detail: Any) -> Outcome:
    if detail.exception_info and _raised(detail.exception_info):
        return Outcome(expectation.name, expectation.severity, passed=False, sample=_raised(detail.exception_info))
    result = dict(detail.result or {})
    count = result.get("unexpected_count")
    if count is None and isinstance(result.get("observed_value"), int):
        count = result["observed_value"]
    rows = (result.get("details") or {}).get("unexpected_rows") or result.get("partial_unexpected_list")
    shown = rows[:SAMPLE_ROWS] if isinstance(rows, list) else (rows or result.get("observed_value"))
    return Outcome(
        expectation.name,
        expectation.severity,
        passed=False,
        unexpected_count=count,
        sample=json.dumps(shown, default=str, ensure_ascii=False)[:2000],
    )


def _raised(info: Any) -> str:
    entries = [info] if "exception_message" in info else list(info.values())
    for entry in entries:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            return f"the rule could not be evaluated: {str(entry.get('exception_message')).splitlines()[0][:300]}"
    return ""
