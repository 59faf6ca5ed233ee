"""`almanac synthetic`: a made-up cluster of any size in a home, to try the marts on or to size a warehouse.

Belongs here: options, output and exit codes. Does not belong here: what the cluster does (`sources/telemetry/synthetic*`).
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.commands.options import home_option

if TYPE_CHECKING:
    from sources.telemetry.synthetic_plan import Plan, Straggler

_STRAGGLER = re.compile(
    r"(?P<node>\d+):(?P<gpu>\d+):(?P<begin>\d+(?:\.\d+)?)-(?P<end>\d+(?:\.\d+)?)"
    r"(?::(?P<slowdown>\d+(?:\.\d+)?))?(?::(?P<cause>gpu|host))?"
)


@click.command("synthetic")
@click.option(
    "--workload",
    type=click.Choice(["mixed", "demo"]),
    default="mixed",
    show_default=True,
    help="mixed: jobs, failures, stragglers and decaying links drawn from published figures; demo: the fixed days "
    "that a first run shows.",
)
@click.option("--nodes", type=click.IntRange(1, 4096), default=4, show_default=True, help="Nodes of the cluster.")
@click.option("--gpus", type=click.IntRange(1, 16), default=8, show_default=True, help="GPUs of a node.")
@click.option("--hours", type=click.FloatRange(0.1, 24 * 366), default=24.0, show_default=True, help="Hours it runs.")
@click.option(
    "--interval", "interval_s", type=click.FloatRange(1, 300), default=60.0, show_default=True, help="Seconds between samples."
)  # fmt: skip
@click.option("--start", "start_at", type=click.DateTime(), default="2026-11-01", show_default=True, help="UTC.")
@click.option("--seed", type=int, default=20261101, show_default=True, help="Another seed draws other jobs and faults.")
@click.option("--cluster", default="", help="Name of the cluster [default: one that no other plan has].")
@click.option(
    "--straggler",
    "planted",
    multiple=True,
    metavar="NODE:GPU:FROM-TO[:SLOWDOWN][:CAUSE]",
    help="Plant one, hours from the start, like 0:4:2-3.5:1.5:gpu; CAUSE is gpu (slow of itself) or host (fed late).",
)
@click.option("--truth", type=click.Path(dir_okay=False, path_type=Path), help="Write what is wrong in it to this CSV.")
@home_option
def command(home_path: str | None, truth: Path | None, planted: tuple[str, ...], cluster: str, **size: Any) -> int:
    """Put a synthetic cluster into the home: telemetry, jobs, devices and training logs, all marked is_synthetic.

    The same options give the same cluster, byte for byte, and twice change nothing; a --cluster that is there already is
    refused. Compare what the marts find with --truth. Exits 1 if a batch was held back.
    """
    from pipelines.lines import complain
    from pipelines.progress import told

    plan = _plan(size, cluster, planted)
    from assets.publish import publish_home
    from assets.synthetic_cluster import provide_cluster
    from assets.synthetic_cluster import truth as truth_of
    from warehouse.home import Home

    home = Home.at(home_path).prepare()
    with told("writing, ingesting, landing jobs"):
        done = provide_cluster(home, plan)
    wrong = truth_of(plan)
    if truth:
        wrong.write_csv(truth)
    with told("publishing"):
        publish_home(home)
    counts = dict(wrong.group_by("kind").len().iter_rows())
    click.echo(
        f"cluster {plan.cluster}: {done.samples:,} samples, {done.jobs} job attempts, {counts.get('failure', 0)} failures, "
        f"{counts.get('straggler', 0)} stragglers, {counts.get('link', 0)} decaying links"
    )
    for line in done.complaints:
        complain(line)
    return 1 if done.complaints else 0


def _plan(size: dict[str, Any], cluster: str, planted: tuple[str, ...]) -> Plan:
    from sources.telemetry.synthetic_plan import Plan

    plan = Plan(
        workload=size["workload"],
        nodes=size["nodes"],
        gpus=size["gpus"],
        seconds=round(size["hours"] * 3600),
        interval_s=size["interval_s"],
        start_at=size["start_at"].replace(tzinfo=dt.UTC),
        seed=size["seed"],
    )
    plan = replace(plan, stragglers=tuple(_straggler(text, plan) for text in planted))
    if cluster:
        return replace(plan, cluster=cluster)
    from assets.synthetic_cluster import named

    return named(plan)


def _straggler(text: str, plan: Plan) -> Straggler:
    from sources.telemetry.synthetic_plan import SLOWDOWN, Straggler

    found = _STRAGGLER.fullmatch(text)
    if not found:
        raise click.BadParameter(f"{text!r} is not NODE:GPU:FROM-TO[:SLOWDOWN][:CAUSE]", param_hint="--straggler")
    node, gpu = int(found["node"]), int(found["gpu"])
    begin, end = float(found["begin"]) * 3600, float(found["end"]) * 3600
    slowdown = float(found["slowdown"] or SLOWDOWN)
    if node >= plan.nodes or gpu >= plan.gpus:
        raise click.BadParameter(f"{text}: nodes count from 0 to {plan.nodes - 1}, GPUs to {plan.gpus - 1}", param_hint="--straggler")  # fmt: skip
    if not begin < end <= plan.seconds or slowdown <= 1:
        raise click.BadParameter(
            f"{text}: it must end after it begins and within the {plan.seconds / 3600:g} hours, and SLOWDOWN exceed 1",
            param_hint="--straggler",
        )
    return Straggler(node, gpu, begin, end, slowdown, "host" if found["cause"] == "host" else "gpu")
