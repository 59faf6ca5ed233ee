"""The one place that runs Great Expectations, by SQL push-down on DuckDB.

Belongs here: running a suite over Parquet files or a published table. Does not belong here: which rules there are
(`suite.py`), what follows from a failure (the street).
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    "connect_args": {"read_only": True},
}
SAMPLE_ROWS = 5


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
    with tempfile.TemporaryDirectory(prefix="almanac-gate-") as folder:
        database = Path(folder) / "gate.duckdb"
        listed = ", ".join(quoted(str(f)) for f in files)
        with duckdb.connect(str(database)) as con:
            con.execute("set TimeZone = 'UTC'")
            kinds = ", ".join(f"'{name}': {kind}" for name, kind in (partitions or {}).items())
            hive = f"hive_partitioning = true, hive_types = {{{kinds}}}" if kinds else "hive_partitioning = false"
            con.execute(f"create view candidate as select * from read_parquet([{listed}], {hive})")
            screen = create_screen(con, suite, edges)
        with _source(database) as source:
            kept = _kept(source, screen) if screen else []
            left = [e for e in suite if e not in kept]
            asked = iter(_ask(source, "candidate", None, left) if left else [])
            return [_passed(e) if e in kept else next(asked) for e in suite]


def validate_table(
    database: Path, table: str, suite: Sequence[Expectation], schema: str | None = None
) -> list[Outcome]:
    """Run a suite over one table or view of a DuckDB file: first yes or no, then details of what failed."""
    with _source(database) as source:
        return _ask(source, table, schema, suite)


@contextmanager
def _source(database: Path) -> Iterator[Any]:
    """The database as a source of Great Expectations, which is imported here because that takes seconds."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx

        context = gx.get_context(mode="ephemeral")
        # An ephemeral context has nowhere to save to, yet renders all it holds as YAML at every step: half of a gate.
        context._save_project_config = _nothing_saved  # noqa: SLF001
        context.variables.progress_bars = {"globally": False, "metric_calculations": False}
        source = context.data_sources.add_sql("gate", connection_string=f"duckdb:///{database}", kwargs=ENGINE)
        try:
            yield source
        finally:
            source.get_execution_engine().close()


def _nothing_saved() -> None:
    """In place of saving."""


def _kept(source: Any, screen: Mapping[str, Sequence[Expectation]]) -> list[Expectation]:
    """The rules that no row breaks."""
    none = {"min_value": 0, "max_value": 0}
    counts = [
        Expectation(name, "ExpectColumnValuesToBeBetween", {"column": name, **none}, "critical") for name in screen
    ]
    told = _verdicts(_batch(source, TABLE, None), counts)
    return [e for count, result in zip(counts, told, strict=True) if result.success for e in screen[count.name]]


def _ask(source: Any, table: str, schema: str | None, suite: Sequence[Expectation]) -> list[Outcome]:
    batch = _batch(source, table, schema)
    outcomes = []
    for expectation, result in zip(suite, _verdicts(batch, suite), strict=True):
        if result.success:
            outcomes.append(_passed(expectation))
        else:
            detail = batch.validate(_built(expectation), result_format="COMPLETE")
            outcomes.append(_failure(expectation, detail))
    return outcomes


def _batch(source: Any, table: str, schema: str | None) -> Any:
    asset = source.add_table_asset(table, table_name=table, schema_name=schema)
    return asset.add_batch_definition_whole_table("all").get_batch()


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
