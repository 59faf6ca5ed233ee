"""The graph: it loads, with the repository's own settings and no environment."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dagster as dg

    from assets.observed import landed_key, source_key
    from pipelines.definitions import defs
    from sources.registry import all_sources


@pytest.fixture(scope="module")
def graph() -> dg.AssetGraph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return defs.resolve_asset_graph()


def test_definitions_validate_without_environment(tmp_path: Path) -> None:
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("DAGSTER", "ALMANAC"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "dagster", "definitions", "validate"],
        cwd=REPOSITORY,
        env={**bare, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_asset_has_group_owner_and_description(graph: dg.AssetGraph) -> None:
    for key in graph.materializable_asset_keys:
        node = graph.get(key)
        assert node.group_name != "default", key
        assert node.owners, key
        assert node.description, key


def test_every_table_of_every_source_has_two_checks(graph: dg.AssetGraph) -> None:
    checks = {(k.asset_key, k.name) for k in graph.asset_check_keys}
    for source in all_sources().values():
        for table in source.tables:
            key = dg.AssetKey([*source_key(source).path[1:], *table.split(".")])
            assert (key, "critical") in checks
            assert (key, "warning") in checks


def test_freshness_hangs_on_landing_not_on_running(graph: dg.AssetGraph) -> None:
    source = all_sources()["sec-companyfacts"]
    assert graph.get(landed_key(source)).freshness_policy is not None
    assert graph.get(source_key(source)).freshness_policy is None


def test_publish_waits_for_every_source(graph: dg.AssetGraph) -> None:
    parents = graph.get(dg.AssetKey(["warehouse", "duckdb"])).parent_keys
    assert {source_key(s) for s in all_sources().values()} <= parents


def test_schedules_cover_every_cadence_that_is_on() -> None:
    wanted = {s.cadence for s in all_sources().values() if not s.off_reason and s.cadence != "static"}
    names = {s.name.removesuffix("_sources_schedule") for s in defs.schedules or ()}  # type: ignore[union-attr]
    assert wanted <= names


def test_old_runs_are_purged() -> None:
    import datetime as dt

    from pipelines import jobs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dg.DagsterInstance.ephemeral() as instance:
            jobs.purge.execute_in_process(instance=instance)
            first = len(instance.get_runs())
            keep, jobs.KEEP_RUNS = jobs.KEEP_RUNS, dt.timedelta(seconds=-60)
            try:
                jobs.purge.execute_in_process(instance=instance)
            finally:
                jobs.KEEP_RUNS = keep
            assert first == 1
            assert len(instance.get_runs()) < 2
