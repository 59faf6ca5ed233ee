"""`almanac run`: the main job, in this process, with the same graph that Dagster schedules."""

from __future__ import annotations

import click

from pipelines.commands.options import home_option


@click.command("run")
@click.option("--offline", is_flag=True, help="Do not touch the network; use the archive and curated facts.")
@click.option(
    "--telemetry",
    type=click.Choice(["auto", "nvml", "synthetic", "none"]),
    default="auto",
    show_default=True,
    help="auto: this machine's GPUs if it has any, else a synthetic cluster that is marked so; none: only what waits "
    "in spool/ and inbox/.",
)
@home_option
def command(offline: bool, telemetry: str, home_path: str | None) -> int:
    """Fetch, land, publish and report.

    Exits 0 also without a network; 1 if a batch was blocked or a source failed (the others landed and were
    published); 2 for a wrong call or configuration.
    """
    from pipelines.lines import complain
    from pipelines.main_job import run_main_job
    from sources.telemetry.agent import gpus_present
    from warehouse.home import Home

    if telemetry == "nvml" and not gpus_present():
        raise click.UsageError("--telemetry nvml: NVML finds no GPU here; load the driver, or leave it at auto")
    home = Home.at(home_path).prepare()
    outcome = run_main_job(home, offline=offline, telemetry=telemetry)
    for line in outcome.summary():
        click.echo(line)
    for line in outcome.complaints():
        complain(line)
    for line in outcome.skipped():
        click.echo(f"almanac: {line}", err=True)
    return 1 if outcome.failed else 0
